package streamable

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A record is a session in the store. A replica that does not have the session repeats its
// handshake and the requests that have changed its state.
type record struct {
	Principal []byte                `json:"principal,omitempty"` // hash
	Handshake *mcp.InitializeParams `json:"handshake"`
	Lists     []string              `json:"lists,omitempty"`     // whose changes the server has declared: tools, prompts, resources
	Level     string                `json:"level,omitempty"`     // of logging/setLevel
	Resources []string              `json:"resources,omitempty"` // subscribed to
}

// recordKey returns the key of a session.
func recordKey(session string) string { return "sessions/" + session }

// hashPrincipal returns nothing for a client that is not authenticated.
func hashPrincipal(principal string) []byte {
	if principal == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("principal\x00" + principal))
	return sum[:]
}

// newRecord returns the record of a session from the handshake and the result of it. The name of
// the client is kept without its other information, which may be long.
func newRecord(principal string, handshake *jsonrpc.Request, result *jsonrpc.Response) (*record, error) {
	version := result.Member("protocolVersion")
	if jsonscan.KindOf(version) != jsonscan.String {
		return nil, errors.New("the result of initialize has no protocolVersion")
	}
	var params mcp.InitializeParams
	if err := params.UnmarshalJSON(handshake.Params); err != nil { // the server has accepted them
		params = mcp.InitializeParams{}
	}
	r := &record{
		Principal: hashPrincipal(principal),
		Handshake: &mcp.InitializeParams{
			ProtocolVersion: mcp.Version(jsonscan.Unquote(version)), Capabilities: params.Capabilities,
			ClientInfo: mcp.Implementation{Name: params.ClientInfo.Name, Version: params.ClientInfo.Version},
		},
	}
	var declared map[string]struct{ ListChanged bool }
	if err := json.Unmarshal(result.Member("capabilities"), &declared); err != nil {
		return r, nil // no list changes
	}
	for _, list := range []string{"tools", "prompts", "resources"} {
		if declared[list].ListChanged {
			r.Lists = append(r.Lists, list)
		}
	}
	return r, nil
}

func (r *record) belongsTo(principal string) bool {
	return bytes.Equal(r.Principal, hashPrincipal(principal))
}

// handshake returns the request that opens the session again.
func (r *record) handshake() (*jsonrpc.Request, error) {
	params, err := r.Handshake.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	return jsonrpc.NewRequest(jsonrpc.IntID(0), mcp.MethodInitialize, params)
}

// changesRecord reports whether a call changes the record of its session.
func changesRecord(req *jsonrpc.Request) bool {
	switch req.Method {
	case mcp.MethodSetLevel, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return true
	}
	return false
}

// update changes the record as a call that has succeeded does. It reports whether anything changed.
func (r *record) update(req *jsonrpc.Request) bool {
	switch req.Method {
	case mcp.MethodSetLevel:
		level := jsonscan.Unquote(req.Member("level"))
		changed := level != r.Level
		r.Level = level
		return changed
	case mcp.MethodResourcesSubscribe:
		uri := jsonscan.Unquote(req.Member("uri"))
		if slices.Contains(r.Resources, uri) {
			return false
		}
		r.Resources = append(slices.Clip(r.Resources), uri)
		return true
	case mcp.MethodResourcesUnsubscribe:
		before := len(r.Resources)
		uri := jsonscan.Unquote(req.Member("uri"))
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(u string) bool { return u == uri })
		return len(r.Resources) < before
	}
	return false
}

// requestsFrom returns the calls that lead from an earlier state of the session to r.
func (r *record) requestsFrom(before *record) ([]*jsonrpc.Request, error) {
	var requests []*jsonrpc.Request
	var failed error
	add := func(method, member, value string) {
		req, err := jsonrpc.NewRequest(jsonrpc.IntID(0), method, fmt.Appendf(nil, `{%q:%s}`, member, jsonscan.AppendString(nil, value)))
		requests, failed = append(requests, req), errors.Join(failed, err)
	}
	if r.Level != before.Level {
		add(mcp.MethodSetLevel, "level", r.Level)
	}
	for _, uri := range before.Resources {
		if !slices.Contains(r.Resources, uri) {
			add(mcp.MethodResourcesUnsubscribe, "uri", uri)
		}
	}
	for _, uri := range r.Resources {
		if !slices.Contains(before.Resources, uri) {
			add(mcp.MethodResourcesSubscribe, "uri", uri)
		}
	}
	return requests, failed
}

// create stores the record of a new session.
func (t *sessions) create(ctx context.Context, id string, r *record) (*state.Record[record], error) {
	return t.records.Create(ctx, recordKey(id), *r, t.recordEnd(openingTTL))
}

// load returns the record of a session, or [errNoSession].
func (t *sessions) load(ctx context.Context, id string) (*state.Record[record], error) {
	if store.CheckName(recordKey(id)) != nil { // an endpoint makes no such id
		return nil, errNoSession
	}
	stored, err := t.records.Load(ctx, recordKey(id))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errNoSession
	case err == nil && stored.Value.Handshake == nil:
		return nil, errors.New("the record of a session is malformed: it has no handshake")
	}
	return stored, err
}

// update changes the record of a session, or returns [errNoSession]. With
// a change that returns false, only the time to live begins again.
func (t *sessions) update(ctx context.Context, id string, change func(*record) bool) (stored *state.Record[record], changed bool, err error) {
	stored, err = t.records.Update(ctx, recordKey(id), func(stored *state.Record[record]) error {
		changed = change(&stored.Value)
		stored.Until = t.recordEnd(t.opts.Limits.SessionTTL)
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		err = errNoSession
	}
	return stored, changed, err
}

// recordEnd returns the end of a record whose session may be idle for some time. It is later,
// since the record is refreshed only now and then, and the clocks of replicas may differ by a minute.
// Without replicas, it does not end: the session deletes it, after a time that does not include sleep of the machine.
func (t *sessions) recordEnd(idle time.Duration) time.Time {
	if !t.shared {
		return time.Time{}
	}
	return time.Now().Add(idle + idle/4 + time.Minute)
}
