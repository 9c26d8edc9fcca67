package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// recentlyWatched is how long after the start of a watch of another process a client that begins to listen may
// have missed a change before.
const recentlyWatched = 5 * time.Second

// A sessionState is the state of a legacy session. Processes with the same store pass it on to each other in JSON.
type sessionState struct {
	// Handshake has the version of the session. The name of the client is kept without its other information,
	// which may be long.
	Handshake *mcp.InitializeParams   `json:"handshake"`
	Declared  *mcp.ServerCapabilities `json:"declared"` // the lists and resources that the server has declared; the other capabilities are left out
	Level     mcp.LoggingLevel        `json:"level"`
	Resources []string                `json:"resources,omitempty"` // subscribed to
}

// allLists is what a session reports, if the server does.
var allLists = mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}

func decodeState(raw json.RawMessage) (*sessionState, error) {
	var st sessionState
	if err := json.Unmarshal(raw, &st); err != nil {
		return nil, fmt.Errorf("the state of a session is malformed: %w", err)
	}
	if st.Handshake == nil || st.Declared == nil || !st.Level.Valid() {
		return nil, errors.New("the state of a session is malformed: it has no handshake or no level")
	}
	return &st, nil
}

func (st *sessionState) subscribe(uri string) {
	if !slices.Contains(st.Resources, uri) {
		st.Resources = append(st.Resources, uri)
	}
}

func (st *sessionState) unsubscribe(uri string) {
	uri = uritemplate.Equivalent(uri)
	st.Resources = slices.DeleteFunc(st.Resources, func(u string) bool { return uritemplate.Equivalent(u) == uri })
}

// state returns the state of an open session. l.mu is held.
func (l *legacySession) state() *sessionState {
	caller := l.caller.Load()
	st := &sessionState{
		Handshake: &mcp.InitializeParams{
			ProtocolVersion: caller.Version, Capabilities: caller.Capabilities,
			ClientInfo: mcp.Implementation{Name: caller.Info.Name, Version: caller.Info.Version},
		},
		Declared: &mcp.ServerCapabilities{Tools: l.declared.Tools, Prompts: l.declared.Prompts, Resources: l.declared.Resources},
		Level:    caller.LogLevel,
	}
	for _, uri := range sortedKeys(l.watched) {
		if l.watched[uri].wanted {
			st.Resources = append(st.Resources, uri)
		}
	}
	return st
}

// apply changes an open session to a state. It returns the watches that the caller must start, and functions that
// the caller must call to stop others. It leaves a watch that is being started to the request that starts it. The error
// says that there is no room for some of the watches; everything else is changed. l.mu is held.
func (b *binding) apply(st *sessionState) (start map[string]*watch, stop []func(), err error) {
	l := &b.legacy
	if caller := *l.caller.Load(); caller.LogLevel != st.Level {
		caller.LogLevel = st.Level
		l.caller.Store(&caller)
	}
	for _, w := range l.watched {
		w.wanted = false
	}
	for _, uri := range st.Resources {
		if w := l.watched[uri]; w != nil {
			w.wanted = true
		}
	}
	for uri, w := range l.watched {
		if !w.wanted && (w.stop != nil || w.failed) {
			b.removeWatch(uri)
			if w.stop != nil {
				stop = append(stop, w.stop)
			}
		}
	}
	for _, uri := range st.Resources {
		if l.watched[uri] != nil {
			continue
		}
		if err = b.take(b.watchSize(uri)); err != nil {
			break
		}
		if start == nil {
			start = make(map[string]*watch)
		}
		start[uri] = l.addWatch(uri)
		start[uri].wanted = true
	}
	return start, stop, err
}

// update changes the state of the session, in the store if it has one. change is called with b.legacy.mu held.
func (b *binding) update(change func(*sessionState)) error {
	l := &b.legacy
	if b.link.State != nil {
		return b.link.State.UpdateState(b.link.Input, func(raw json.RawMessage) (json.RawMessage, error) {
			st, err := decodeState(raw)
			if err != nil {
				return nil, err
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			change(st)
			return json.Marshal(st)
		})
	}
	l.mu.Lock()
	st := l.state()
	change(st)
	_, stop, err := b.apply(st)
	l.mu.Unlock()
	for _, stop := range stop {
		stop()
	}
	return err
}

var _ transport.SessionHandler = (*binding)(nil)

// State returns the state of the session in JSON, or nil if no session is open.
func (b *binding) State() json.RawMessage {
	if b.legacy.caller.Load() == nil {
		return nil
	}
	b.legacy.mu.Lock()
	defer b.legacy.mu.Unlock()
	raw, err := json.Marshal(b.legacy.state())
	if err != nil { // the capabilities came as JSON
		panic(err)
	}
	return raw
}

// SetState opens the session with a state, or changes it to the state.
func (b *binding) SetState(ctx context.Context, raw json.RawMessage, listening bool) error {
	st, err := decodeState(raw)
	if err != nil {
		return err
	}
	if b.legacy.caller.Load() == nil {
		if err := b.restore(ctx, st); err != nil {
			return err
		}
	}
	b.legacy.mu.Lock()
	start, stop, err := b.apply(st)
	b.legacy.mu.Unlock()
	for _, stop := range stop {
		stop()
	}
	for _, uri := range slices.Sorted(maps.Keys(start)) {
		b.adopt(ctx, uri, start[uri], listening)
	}
	if ctx.Err() != nil { // operations that failed for that reason are tried again
		b.legacy.mu.Lock()
		defer b.legacy.mu.Unlock()
		for uri, w := range b.legacy.watched {
			if w.failed {
				b.removeWatch(uri)
			}
		}
	}
	return errors.Join(err, context.Cause(ctx))
}

// restore opens the session of a handshake that another process has answered.
func (b *binding) restore(ctx context.Context, st *sessionState) error {
	if _, err := b.server.core.Describe(); err != nil {
		return err
	}
	caller := &mcp.Caller{
		Version: st.Handshake.ProtocolVersion, Info: &st.Handshake.ClientInfo, Capabilities: st.Handshake.Capabilities,
		LogLevel: st.Level, Principal: b.link.Principal, Network: b.link.Network,
	}
	handshake, err := json.Marshal(st.Handshake)
	if err == nil {
		err = b.takeHandshake(handshake)
	}
	if err != nil {
		return err
	}
	b.legacy.caller.Store(caller)
	return b.open(ctx, &jsonrpc.Request{Method: mcp.MethodInitialize}, caller, st.Declared)
}

// adopt starts a watch that the client has begun at another process. It ignores an error: the resource may have
// gone, which its subscriber need not know. A change between the two beginnings has not been reported here. If the client does not
// listen, it is notified when it begins to.
func (b *binding) adopt(ctx context.Context, uri string, w *watch, listening bool) {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(0), mcp.MethodResourcesSubscribe, fmt.Appendf(nil, `{"uri":%s}`, jsonscan.AppendString(nil, uri)))
	var stop func()
	if err == nil {
		stop, _ = b.watchResource(ctx, req, b.legacy.caller.Load(), uri)
	}
	b.started(uri, w, stop)
	b.legacy.mu.Lock()
	b.legacy.adopted = time.Now()
	b.legacy.mu.Unlock()
	if listening {
		_ = b.server.notifyChange(ctx, b.link.Peer, b.legacy.caller.Load(), mcp.Change{URI: uri}, nil) // a client that has disconnected may resume again
	}
}

// ClientListens notifies the client of everything that may have changed while it did not listen.
func (b *binding) ClientListens(ctx context.Context, missed bool) {
	l := &b.legacy
	var changes []mcp.Change
	l.mu.Lock()
	lists := accepted(allLists, l.declared)
	for kind, reported := range [...]bool{mcp.KindTool: lists.ToolsListChanged, mcp.KindPrompt: lists.PromptsListChanged, mcp.KindResource: lists.ResourcesListChanged} {
		if missed && reported {
			changes = append(changes, mcp.Change{Kind: mcp.Kind(kind)})
		}
	}
	if missed || time.Since(l.adopted) < recentlyWatched {
		for _, uri := range sortedKeys(l.watched) {
			changes = append(changes, mcp.Change{URI: uri})
		}
	}
	l.mu.Unlock()
	for _, change := range changes {
		_ = b.server.notifyChange(ctx, b.link.Peer, l.caller.Load(), change, nil) // a client that has disconnected may resume again
	}
}
