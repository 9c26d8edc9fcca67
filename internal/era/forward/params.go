package forward

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Members of params that belong to one hop.
const (
	memberMeta      = "_meta"
	memberState     = "requestState"
	memberResponses = "inputResponses"
)

// reservedMembers are those that policies and guards look at, by the member that they are
// in. A server that ignores the case of keys would see another call than was checked.
var reservedMembers = map[string][]string{
	"":         {"name", "arguments", "uri", "ref", "argument", "context", "cursor", memberMeta, memberState, memberResponses},
	"ref":      {"type", "name", "uri"},
	"argument": {"name", "value"},
	memberMeta: {mcp.MetaProgressToken, mcp.MetaProtocolVersion, mcp.MetaClientInfo, mcp.MetaClientCapabilities, mcp.MetaLogLevel},
}

// refuseVariants refuses a call with a member whose name differs only in case from a
// reserved one.
func refuseVariants(call *mcp.Call) error {
	if err := refuseVariantsOf(reservedMembers[""], call.Keys()); err != nil {
		return err
	}
	if call.Method() == mcp.MethodComplete {
		for _, within := range []string{"ref", "argument"} {
			if err := refuseVariantsOf(reservedMembers[within], call.Keys(within)); err != nil {
				return err
			}
		}
	}
	return refuseVariantsOf(reservedMembers[memberMeta], call.Keys(memberMeta))
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

// isPlain reports whether a key is ASCII without escapes. Only then have all its case
// variants the same length: some letters beyond ASCII are variants of ASCII ones.
func isPlain(key []byte) bool {
	return !slices.ContainsFunc(key, func(b byte) bool { return b == '\\' || b >= utf8.RuneSelf })
}

// params are the parameters of a call on their way to the server.
type params struct {
	call      *mcp.Call
	name      string          // the server's, "" for the caller's
	meta      string          // members of _meta that describe the caller
	token     json.RawMessage // for progress
	state     string
	responses json.RawMessage
}

// paramsOf returns the parameters of a round; last is nil if it is the first.
func (s *Session) paramsOf(call *mcp.Call, opts *Options, last *round) (p params, err error) {
	p.call, p.name = call, opts.Name
	if !s.Version().Modern() {
		return p, nil
	}
	if p.meta, err = s.metaFor(call.Caller); err != nil {
		return p, err
	}
	if last == nil {
		p.responses = call.Member(memberResponses) // to questions that the caller has by other means
		return p, nil
	}
	p.state = last.State
	p.responses, err = last.responses(call)
	return p, err
}

// SetState makes the parameters those of the request that continues with the state.
func (p *params) SetState(state string) { p.state, p.responses = state, nil }

// AppendJSON appends the caller's parameters with this hop's members in place of those of
// the hop before.
func (p *params) AppendJSON(dst []byte) ([]byte, error) {
	params := p.call.Params()
	if params == nil {
		params = json.RawMessage("{}")
	}
	meta, err := p.ownMeta()
	if err != nil {
		return dst, err
	}
	edits := append(make([]jsonscan.Edit, 0, 4), jsonscan.Edit{Name: memberMeta, Value: meta},
		jsonscan.Edit{Name: memberResponses, Value: p.responses}, jsonscan.Edit{Name: memberState})
	if p.state != "" {
		edits[2].Value = jsonscan.AppendString(nil, p.state)
	}
	if p.name != "" {
		name := jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, p.name)}
		if p.call.Method() == mcp.MethodComplete {
			ref, err := jsonscan.Splice(nil, p.call.Member("ref"), name)
			if err != nil {
				return dst, err
			}
			name = jsonscan.Edit{Name: "ref", Value: ref}
		}
		edits = append(edits, name)
	}
	return jsonscan.Splice(dst, params, edits...)
}

// ownMeta is the _meta: the caller's own members, then this hop's. It is nil if there are
// none.
func (p *params) ownMeta() ([]byte, error) {
	theirs := p.call.Member(memberMeta)
	if theirs == nil && p.meta == "" {
		return nil, nil
	}
	dst := append(make([]byte, 0, len(theirs)+len(p.meta)+32), '{')
	if jsonscan.KindOf(theirs) == jsonscan.Object {
		members, err := jsonscan.ReadObject(theirs)
		if err != nil {
			return nil, err
		}
		for m := range members.All() {
			if !isHopByHop(m.Key) {
				dst = append(append(append(append(dst, m.Key...), ':'), m.Value...), ',')
			}
		}
	}
	if p.meta != "" {
		dst = append(append(dst, p.meta...), ',')
	}
	if p.token != nil {
		dst = append(append(append(dst, `"progressToken":`...), p.token...), ',')
	}
	if len(dst) == 1 {
		return nil, nil
	}
	dst[len(dst)-1] = '}'
	return dst, nil
}

// isHopByHop reports whether a key of _meta is for one hop only: the progress token, and
// what the protocol has reserved.
func isHopByHop(key []byte) bool {
	name := key[1 : len(key)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name = jsonscan.AppendUnquoted(nil, key)
	}
	return string(name) == mcp.MetaProgressToken || bytes.HasPrefix(name, []byte("io.modelcontextprotocol/"))
}
