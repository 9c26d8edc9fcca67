package era

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A legacySession is what a handshake leaves behind: who calls, put on each of
// its calls, and what it watches.
type legacySession struct {
	caller  atomic.Pointer[mcp.Caller] // nil before the handshake
	changes changeQueue

	mu      sync.Mutex
	lists   func()            // stops the watch of lists
	watched map[string]*watch // by URI
}

// A watch is that of one resource, which may still be beginning.
type watch struct {
	begun chan struct{} // closed when it has begun, or failed to
	stop  func()        // nil as long as it begins
}

const emptyObject = "{}"

var emptyResult = mcp.Raw(emptyObject)

// handleLegacy answers the handshake, and puts what the session remembers on a
// call.
func (b *binding) handleLegacy(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	switch req.Method {
	case mcp.MethodInitialize:
		if b.link.Shared {
			return sharedLink(req)
		}
		return b.initialize(req, reply)
	case mcp.MethodPing:
		return reply.Write(emptyResult)
	}
	caller := b.legacy.caller.Load()
	if caller == nil {
		return b.notOpened(req)
	}
	switch req.Method {
	case mcp.MethodSetLevel:
		return b.legacy.setLevel(req, reply)
	case mcp.MethodResourcesSubscribe:
		return b.subscribe(ctx, req, caller, reply)
	case mcp.MethodResourcesUnsubscribe:
		return b.unsubscribe(req, reply)
	case mcp.MethodDiscover, mcp.MethodSubscriptionsListen:
		return methodNotFound(req.Method)
	}
	return b.callLegacy(ctx, from, req, caller, reply)
}

// notOpened answers a request that neither describes itself nor follows a
// handshake.
func (b *binding) notOpened(req *jsonrpc.Request) error {
	data, err := json.Marshal(map[string]any{"supported": mcp.Versions()})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{
		Code: jsonrpc.InvalidParams,
		Message: fmt.Sprintf("%s came without a session: either send initialize first, or put %q and %q into _meta",
			jsonscan.Quote(req.Method), mcp.MetaProtocolVersion, mcp.MetaClientCapabilities),
		Data: data,
	}
}

// sharedLink refuses a session on a link of several clients: calls of the others would be
// taken for calls of the session.
func sharedLink(req *jsonrpc.Request) error {
	return &jsonrpc.Error{
		Code: jsonrpc.InvalidRequest,
		Message: fmt.Sprintf("%s opens a session, and clients share this link: put %q and %q into _meta of each request instead",
			jsonscan.Quote(req.Method), mcp.MetaProtocolVersion, mcp.MetaClientCapabilities),
	}
}

// initialize opens the session. MCP 2025-11-25, basic/lifecycle.
func (b *binding) initialize(req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	var params mcp.InitializeParams
	if err := decodeObject(req.Params, &params); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "initialize needs protocolVersion, capabilities and clientInfo: " + err.Error()}
	}
	version := params.ProtocolVersion
	if !version.Known() || version.Modern() {
		version = mcp.LatestLegacyVersion
	}
	params.Capabilities = capabilitiesAs(version, params.Capabilities) // whatever the client says beyond
	info := params.ClientInfo                                          // the caller is kept, and not all of params
	caller := &mcp.Caller{
		Version: version, Info: &info, Capabilities: params.Capabilities,
		LogLevel: mcp.LevelInfo, Principal: b.link.Principal,
	}
	if !b.legacy.caller.CompareAndSwap(nil, caller) {
		return &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "this session is initialized already"}
	}
	description, err := b.server.core.Describe()
	if err != nil {
		return err
	}
	if err := b.watchLists(req, caller, &description.Capabilities); err != nil {
		return errorFor(version, err)
	}
	return b.server.writeLegacy(mcp.MethodInitialize, version, &mcp.InitializeResult{
		ProtocolVersion: version,
		Capabilities:    capabilitiesFor(version, description.Capabilities),
		ServerInfo:      implementationFor(version, description.Info),
		Instructions:    description.Instructions,
	}, reply)
}

// watchLists tells a session of changed lists, unasked. It watches before the
// handshake is answered, so that the client misses nothing.
func (b *binding) watchLists(req *jsonrpc.Request, caller *mcp.Caller, has *mcp.ServerCapabilities) error {
	all := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
	call := mcp.NewCall(req, caller, nil)
	_, stop, err := b.server.core.Watch(b.link.Input, &call, accepted(all, has), b.changed)
	if err != nil {
		return err
	}
	b.legacy.mu.Lock()
	b.legacy.lists = stop
	b.legacy.mu.Unlock()
	if b.link.Input.Err() != nil { // it may have ended before there was anything to stop
		b.legacy.unwatchAll()
	}
	return nil
}

// Ended stops what a session watches.
func (b *binding) Ended() {
	if b.legacy.caller.Load() != nil {
		b.link.Go(func(context.Context) { b.legacy.unwatchAll() })
	}
}

// changed has the session told of a change. An idle session costs no goroutine:
// one runs as long as there is something to tell.
func (b *binding) changed(change mcp.Change) {
	if b.legacy.changes.add(change) {
		b.link.Go(b.tellChanges)
	}
}

// tellChanges ends when all has been told, or when the peer cannot be told any
// more, which is a link that ends.
func (b *binding) tellChanges(ctx context.Context) {
	for {
		changes := b.legacy.changes.take()
		if len(changes) == 0 {
			return
		}
		for _, change := range changes {
			if err := notifyChange(ctx, b.link.Peer, change, nil); err != nil {
				return
			}
		}
	}
}

func (l *legacySession) setLevel(req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	var level mcp.LoggingLevel
	if err := json.Unmarshal(req.Member("level"), &level); err != nil || !level.Valid() {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "level must be one of debug, info, notice, warning, error, critical, alert, emergency"}
	}
	caller := *l.caller.Load()
	caller.LogLevel = level
	l.caller.Store(&caller)
	return reply.Write(emptyResult)
}

// subscribe begins to watch a resource. The session is not locked while the server finds
// out whether it may: the request may be cancelled, and another may unsubscribe.
func (b *binding) subscribe(ctx context.Context, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	uri, err := b.subscribable(req)
	if err != nil {
		return err
	}
	w, err := b.legacy.begin(ctx, uri)
	switch {
	case err != nil:
		return err
	case w == nil:
		return reply.Write(emptyResult)
	}
	defer close(w.begun)
	call := mcp.NewCall(req, caller, nil)
	agreed, stop, err := b.server.core.Watch(ctx, &call, mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}, b.changed)
	if err == nil && len(agreed.ResourceSubscriptions) == 0 {
		stop()
		err = mcp.ResourceNotFound(uri)
	}
	if err != nil {
		b.legacy.forget(uri, w)
		return errorFor(caller.Version, err)
	}
	if !b.legacy.watch(uri, w, stop) || b.link.Input.Err() != nil { // a watch that begins after the session would not end with it
		b.legacy.forget(uri, w)
		stop()
	}
	return reply.Write(emptyResult)
}

// subscribable returns the URI of a request to subscribe or to unsubscribe.
func (b *binding) subscribable(req *jsonrpc.Request) (uri string, err error) {
	description, err := b.server.core.Describe()
	if err != nil {
		return "", err
	}
	if has := description.Capabilities.Resources; has == nil || !has.Subscribe {
		return "", methodNotFound(req.Method)
	}
	return uriOf(req)
}

// begin makes room for a watch; nil says that the resource is watched already. It waits
// for another request for the same resource, and makes room if that has failed.
func (l *legacySession) begin(ctx context.Context, uri string) (*watch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.watched[uri] != nil {
		w := l.watched[uri]
		if w.stop != nil {
			return nil, nil
		}
		l.mu.Unlock()
		select {
		case <-w.begun:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if len(l.watched) >= MaxSubscribed {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("at most %d resources can be watched", MaxSubscribed)}
	}
	if l.watched == nil {
		l.watched = make(map[string]*watch)
	}
	w := &watch{begun: make(chan struct{})}
	l.watched[uri] = w
	return w, nil
}

// watch keeps what stops a watch, unless it has been stopped while it began.
func (l *legacySession) watch(uri string, w *watch, stop func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched[uri] != w {
		return false
	}
	w.stop = stop
	return true
}

func (l *legacySession) forget(uri string, w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watched[uri] == w {
		delete(l.watched, uri)
	}
}

func (b *binding) unsubscribe(req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	uri, err := b.subscribable(req)
	if err != nil {
		return err
	}
	b.legacy.mu.Lock()
	w := b.legacy.watched[uri]
	delete(b.legacy.watched, uri)
	b.legacy.mu.Unlock()
	if w != nil && w.stop != nil {
		w.stop()
	}
	return reply.Write(emptyResult)
}

func (l *legacySession) unwatchAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists != nil {
		l.lists()
		l.lists = nil
	}
	for uri, w := range l.watched {
		if w.stop != nil {
			w.stop()
		}
		delete(l.watched, uri)
	}
}

func uriOf(req *jsonrpc.Request) (uri string, err error) {
	if err := json.Unmarshal(req.Member("uri"), &uri); err != nil || uri == "" {
		return "", &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "uri must be a string that names a resource"}
	}
	return uri, nil
}

// callLegacy runs a call, asks what it needs to know and runs it again, until it
// is complete.
func (b *binding) callLegacy(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	c := newCall(ctx, from, req, caller)
	defer c.close()
	for round := 0; ; round++ {
		result, err := b.server.core.Serve(ctx, &c.Call)
		c.endRun()
		question, asks := mcp.AsInputRequired(err)
		switch {
		case err == nil:
			return b.server.writeLegacy(req.Method, caller.Version, result, reply)
		case !asks:
			return errorFor(caller.Version, err)
		case !MayAsk(req.Method):
			return mayNotAsk(req.Method)
		case round == MaxRounds:
			return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf("the call asked more than %d times", MaxRounds)}
		}
		askLegacy(ctx, c, question)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// askLegacy asks the open questions one by one over the link of the call. A
// refusal is an answer too: the next run of the call finds it.
func askLegacy(ctx context.Context, c *call, question *mcp.InputRequired) {
	ctx, cancel := context.WithTimeout(ctx, InputTimeout)
	defer cancel()
	for _, key := range sortedKeys(question.Requests) {
		request := question.Requests[key]
		params, err := questionFor(c.Caller.Version, request)
		if err != nil {
			c.fail(key, err)
			continue
		}
		resp, err := c.from.Call(ctx, request.Method, params)
		if err != nil {
			c.fail(key, err)
			continue
		}
		c.answer(key, resp.Result)
	}
}
