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
	changes outbox

	mu      sync.Mutex
	lists   func()            // stops the watch of lists
	watched map[string]func() // URI to what stops the watch
}

const emptyObject = "{}"

var emptyResult = mcp.Raw(emptyObject)

// handleLegacy answers the handshake, and puts what the session remembers on a
// call.
func (b *binding) handleLegacy(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	switch req.Method {
	case mcp.MethodInitialize:
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
		return b.subscribe(req, reply)
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
	description := b.server.core.Describe()
	if err := b.watchLists(&description.Capabilities); err != nil {
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
func (b *binding) watchLists(has *mcp.ServerCapabilities) error {
	all := mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true}
	ctx := context.Background() // the watch outlives this request; it ends with the session
	stop, err := b.server.core.Watch(ctx, b.link.Principal, agreed(all, has), b.changed)
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
			if err := tell(ctx, b.link.Peer, change, nil); err != nil {
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

func (b *binding) subscribe(req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	core, l := b.server.core, &b.legacy
	if has := core.Describe().Capabilities.Resources; has == nil || !has.Subscribe {
		return methodNotFound(req.Method)
	}
	uri, err := uriOf(req)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, watching := l.watched[uri]
	if watching || b.link.Input.Err() != nil { // a watch that begins after the session would not end with it
		return reply.Write(emptyResult)
	}
	if len(l.watched) >= MaxSubscribed {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("at most %d resources can be watched", MaxSubscribed)}
	}
	ctx := context.Background() // the watch outlives this request; it ends with the session
	stop, err := core.Watch(ctx, b.link.Principal, mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}, b.changed)
	if err != nil {
		return errorFor(l.caller.Load().Version, err)
	}
	if l.watched == nil {
		l.watched = make(map[string]func())
	}
	l.watched[uri] = stop
	return reply.Write(emptyResult)
}

func (b *binding) unsubscribe(req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if has := b.server.core.Describe().Capabilities.Resources; has == nil || !has.Subscribe {
		return methodNotFound(req.Method)
	}
	uri, err := uriOf(req)
	if err != nil {
		return err
	}
	b.legacy.mu.Lock()
	defer b.legacy.mu.Unlock()
	if stop := b.legacy.watched[uri]; stop != nil {
		stop()
		delete(b.legacy.watched, uri)
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
	for uri, stop := range l.watched {
		stop()
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
		case !mayAsk(req.Method):
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
