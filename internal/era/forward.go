package era

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Forwarding says how somebody else's call is passed on to a server.
type Forwarding struct {
	// Name is what the server calls the tool or prompt, if not as the caller does.
	Name string
	// Asker names the server in the questions it asks; "" for not at all.
	Asker string
	// Timeout bounds the server's part of the call: the clock stands still while
	// the caller is asked. 0 means no bound beside that of the context.
	Timeout time.Duration
}

// Forward passes a call on to the server. Its parameters and the result stay bytes.
// What the server tells on the way goes to the caller, before the result, and so do
// its questions: the error is then *mcp.InputRequired, and the next run of the call
// goes on with the answers.
func (s *Session) Forward(ctx context.Context, call *mcp.Call, how *Forwarding) (mcp.Result, error) {
	if err := refuseVariants(call); err != nil {
		return nil, err
	}
	if how == nil {
		how = &Forwarding{}
	}
	return s.era.forward(ctx, s, call, how)
}

// Serves says whether calls of callers that can be asked so can be forwarded: a
// legacy session has told its server once what it can be asked.
func (s *Session) Serves(can *mcp.ClientCapabilities) bool { return s.era.serves(s, can) }

// Members of params that a hop writes itself.
const (
	memberMeta      = "_meta"
	memberState     = "requestState"
	memberResponses = "inputResponses"
)

// The members that whoever decides about a call looks at, and those below them. A server
// that takes their names in any case would see another call than was decided about.
var decisive = map[string][]string{
	"":         {"name", "arguments", "uri", "ref", "argument", "context", "cursor", memberMeta, memberState, memberResponses},
	"ref":      {"type", "name", "uri"},
	"argument": {"name", "value"},
	memberMeta: {mcp.MetaProgressToken, mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel},
}

// refuseVariants refuses a call with a member whose name differs in case only from
// one that has a meaning.
func refuseVariants(call *mcp.Call) error {
	if err := refuseVariantsOf(decisive[""], call.Keys()); err != nil {
		return err
	}
	if call.Method() == mcp.MethodComplete {
		for _, within := range []string{"ref", "argument"} {
			if err := refuseVariantsOf(decisive[within], call.Keys(within)); err != nil {
				return err
			}
		}
	}
	return refuseVariantsOf(decisive[memberMeta], call.Keys(memberMeta))
}

func refuseVariantsOf(names []string, keys iter.Seq[[]byte]) error {
	for key := range keys {
		plain := isPlain(key)
		for _, name := range names {
			if plain && len(key) != len(name)+2 || jsonscan.KeyIs(key, name) || !strings.EqualFold(jsonscan.Unquote(key), name) {
				continue
			}
			return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "params: " + string(key) + ` is not "` + name + `": case matters`}
		}
	}
	return nil
}

// isPlain says whether a key is ASCII without escapes. Only then has each of its case
// variants the same length: some letters beyond ASCII are variants of ASCII ones.
func isPlain(key []byte) bool {
	return !slices.ContainsFunc(key, func(b byte) bool { return b == '\\' || b >= utf8.RuneSelf })
}

// forwardParams are the parameters of a call on their way to the server.
type forwardParams struct {
	call      *mcp.Call
	name      string // that the server knows, "" for the caller's
	meta      string // members of _meta that are this hop's own
	token     json.RawMessage
	state     string
	responses json.RawMessage
}

// AppendJSON appends the caller's parameters with what is this hop's own in place of
// what was between the caller and here.
func (p *forwardParams) AppendJSON(dst []byte) ([]byte, error) {
	params := p.call.Params()
	if params == nil {
		params = json.RawMessage(emptyObject)
	}
	meta, err := p.ownMeta()
	if err != nil {
		return dst, err
	}
	edits := append(make([]jsonscan.Edit, 0, 4),
		jsonscan.Edit{Name: memberMeta, Value: meta}, jsonscan.Edit{Name: memberResponses, Value: p.responses})
	state := jsonscan.Edit{Name: memberState}
	if p.state != "" {
		state.Value = jsonscan.AppendString(nil, p.state)
	}
	edits = append(edits, state)
	if p.name != "" {
		renamed, err := p.rename()
		if err != nil {
			return dst, err
		}
		edits = append(edits, renamed)
	}
	return jsonscan.Splice(dst, params, edits...)
}

// rename puts the server's name where the caller's stands.
func (p *forwardParams) rename() (jsonscan.Edit, error) {
	name := jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, p.name)}
	if p.call.Method() != mcp.MethodComplete {
		return name, nil
	}
	ref, err := jsonscan.Splice(nil, p.call.Member("ref"), name)
	return jsonscan.Edit{Name: "ref", Value: ref}, err
}

// ownMeta is the _meta: the caller's own keys, then this hop's. It is nil when there are
// none.
func (p *forwardParams) ownMeta() ([]byte, error) {
	theirs := p.call.Member(memberMeta)
	dst := append(make([]byte, 0, len(theirs)+len(p.meta)+32), '{')
	if jsonscan.KindOf(theirs) == jsonscan.Object {
		var err error
		if dst, err = appendTheirs(dst, theirs); err != nil {
			return nil, err
		}
	}
	if len(dst) > 1 && (p.meta != "" || p.token != nil) {
		dst = append(dst, ',')
	}
	dst = appendMetaMembers(dst, p.meta, p.token)
	if len(dst) == 1 {
		return nil, nil
	}
	return append(dst, '}'), nil
}

// appendTheirs appends the members of a caller's _meta that are not for this hop.
func appendTheirs(dst, meta []byte) ([]byte, error) {
	start := len(dst)
	s := jsonscan.New(meta)
	if err := s.EnterObject(); err != nil {
		return dst, err
	}
	for first := true; ; first = false {
		key, ok, err := s.Member(first)
		if err != nil || !ok {
			return dst, err
		}
		value, err := s.Value()
		if err != nil {
			return dst, err
		}
		if isOfTheHop(key) {
			continue
		}
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, key...), ':'), value...)
	}
}

// isOfTheHop says whether a key of _meta is for the hop that it came by: the progress
// token, and what the protocol has reserved.
func isOfTheHop(key []byte) bool {
	const reserved = "io.modelcontextprotocol/"
	if bytes.IndexByte(key, '\\') >= 0 {
		key = jsonscan.AppendString(nil, jsonscan.Unquote(key))
	}
	return jsonscan.KeyIs(key, mcp.MetaProgressToken) || bytes.HasPrefix(key[1:], []byte(reserved))
}
