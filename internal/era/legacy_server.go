package era

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A legacySession is the state that a handshake opens: the caller of all calls, and what the
// session watches.
type legacySession struct {
	caller  atomic.Pointer[mcp.Caller] // nil before the handshake
	changes changeQueue
	roots   atomic.Int32 // number of changes of the roots of which the core was not notified yet

	mu        sync.Mutex
	declared  *mcp.ServerCapabilities // by the answer to the handshake
	stopLists func()                  // stops the watch of lists
	watched   map[string]*watch       // by URI
	held      int64                   // size in bytes of what is counted for the session
	handshake int64                   // the part of held for the handshake
	closed    bool                    // nothing is counted any more
	adopted   time.Time               // when a watch of another process was started here
	ended     func(error)             // of Core.SessionOpened; may be nil
}

// A watch is the watch of one resource.
type watch struct {
	started chan struct{} // closed when the request that starts it has ended
	stop    func()        // nil until the watch has started
	wanted  bool          // the state of the session has it
	failed  bool          // the state of the session has it, but starting it here has failed
}

const emptyObject = "{}"

var emptyResult = mcp.Raw(emptyObject)

// handleLegacy answers the handshake, and adds the caller of the session to a call.
func (b *binding) handleLegacy(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	switch req.Method {
	case mcp.MethodInitialize:
		if b.link.Shared {
			return sharedLink(req)
		}
		return b.initialize(ctx, from, req, reply)
	case mcp.MethodPing:
		return reply.Write(emptyResult)
	}
	caller := b.legacy.caller.Load()
	if caller == nil {
		return b.notOpened(req)
	}
	if !methods[req.Method].in(caller.Version) {
		return methodNotFound(req.Method)
	}
	switch req.Method {
	case mcp.MethodSetLevel:
		return b.setLevel(req, reply)
	case mcp.MethodResourcesSubscribe:
		return b.subscribe(ctx, req, caller, reply)
	case mcp.MethodResourcesUnsubscribe:
		return b.unsubscribe(req, reply)
	case mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel:
		return b.handleLegacyTask(ctx, from, req, caller, reply)
	}
	return b.callLegacy(ctx, from, req, caller, reply)
}

// notOpened returns the error of a request that has neither metadata nor a session.
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

// sharedLink refuses a session on a link of several clients: calls of the other clients would
// become calls of the session.
func sharedLink(req *jsonrpc.Request) error {
	return &jsonrpc.Error{
		Code: jsonrpc.InvalidRequest,
		Message: fmt.Sprintf("%s opens a session, and clients share this link: put %q and %q into _meta of each request instead",
			jsonscan.Quote(req.Method), mcp.MetaProtocolVersion, mcp.MetaClientCapabilities),
	}
}

// errNewSession is the error of calls that run when their client opens another session.
var errNewSession = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the client has opened a new session on this connection; the call was cancelled and may have been executed"}

// endSession cancels the calls of a session and stops what it watches, so that another session can
// be opened on the link. Some proxies share one server over stdio among their clients.
func (b *binding) endSession(ctx context.Context, from jsonrpc.Peer) {
	if conn, ok := from.(*jsonrpc.Conn); ok {
		conn.CancelOthers(ctx, errNewSession)
	}
	b.legacy.end()
	stop := b.forgetWatches()
	b.link.Go(func(context.Context) { stop() })
}

// initialize opens the session, and ends an earlier one. MCP 2025-11-25, basic/lifecycle.
func (b *binding) initialize(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if len(req.Params) > MaxHandshake {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("the params of initialize may have at most %d bytes, not %d", MaxHandshake, len(req.Params))}
	}
	var params mcp.InitializeParams
	if err := decodeObject(req.Params, &params); err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "initialize needs protocolVersion, capabilities and clientInfo: " + err.Error()}
	}
	version := params.ProtocolVersion
	if !version.Known() || version.Modern() {
		version = mcp.LatestLegacyVersion
	}
	params.Capabilities = capabilitiesAs(version, params.Capabilities) // without capabilities that the version does not have
	info := params.ClientInfo                                          // the session must not retain all of params
	description, err := b.server.core.Describe()
	if err != nil {
		return err
	}
	caller := &mcp.Caller{
		Version: version, Info: &info, Capabilities: params.Capabilities,
		LogLevel: cmp.Or(description.LogLevel, mcp.LevelInfo), Principal: b.link.Principal, Network: b.link.Network,
	}
	if err := b.takeHandshake(req.Params); err != nil {
		return err
	}
	if b.legacy.caller.Swap(caller) != nil {
		b.endSession(ctx, from)
	}
	if err := b.open(ctx, req, caller, &description.Capabilities); err != nil {
		return ErrorFor(version, err)
	}
	return b.server.writeLegacy(mcp.MethodInitialize, version, &mcp.InitializeResult{
		ProtocolVersion: version,
		Capabilities:    capabilitiesFor(version, description.Capabilities),
		ServerInfo:      implementationFor(version, description.Info),
		Instructions:    description.Instructions,
	}, reply)
}

// open begins a session: it reports changes of lists, and notifies the core. It starts before the handshake is answered, so
// that the client misses no change.
func (b *binding) open(ctx context.Context, req *jsonrpc.Request, caller *mcp.Caller, declared *mcp.ServerCapabilities) error {
	call := mcp.NewCall(req, caller, nil)
	_, stop, err := b.server.core.Watch(b.link.Input, &call, accepted(allLists, declared), b.changed)
	if err != nil {
		return err
	}
	b.legacy.mu.Lock()
	b.legacy.declared, b.legacy.stopLists = declared, stop
	b.legacy.mu.Unlock()
	if b.link.Input.Err() != nil { // the link may have ended before stopLists was set
		b.unwatchAll()
	}
	b.begin(ctx, caller)
	return nil
}

// begin notifies the core of a session.
func (b *binding) begin(ctx context.Context, caller *mcp.Caller) {
	var roots RootsFunc
	if caller.Capabilities.Roots != nil && b.link.Peer != nil {
		roots = b.askRoots
	}
	ended := b.server.core.SessionOpened(ctx, caller, roots)
	if ended == nil {
		return
	}
	b.legacy.mu.Lock()
	b.legacy.ended = ended
	b.legacy.mu.Unlock()
	if b.link.Input.Err() != nil { // the link may have ended before ended was set
		b.legacy.end()
	}
}

func (b *binding) askRoots(ctx context.Context) ([]mcp.Root, error) {
	resp, err := b.link.Peer.Call(ctx, mcp.MethodRootsList, nil)
	if err != nil {
		return nil, err
	}
	var result mcp.ListRootsResult
	err = json.Unmarshal(resp.Result, &result)
	return result.Roots, err
}

// end notifies the core of the end of the session, once.
func (l *legacySession) end() {
	l.mu.Lock()
	ended := l.ended
	l.ended = nil
	l.mu.Unlock()
	if ended != nil {
		ended(nil)
	}
}

// HandleClose ends the session and stops what it watches.
func (b *binding) HandleClose() {
	b.close()
	b.legacy.end()
	if b.legacy.caller.Load() != nil {
		b.link.Go(func(context.Context) { b.unwatchAll() })
	}
}

// changed notifies the session of a change. A goroutine runs only while there are changes to
// send.
func (b *binding) changed(change mcp.Change) {
	if b.legacy.changes.add(change) {
		b.link.Go(b.sendChanges)
	}
}

// sendChanges ends when all changes have been sent, or when the link ends.
func (b *binding) sendChanges(ctx context.Context) {
	for {
		changes := b.legacy.changes.take()
		if len(changes) == 0 {
			return
		}
		for _, change := range changes {
			if err := b.server.notifyChange(ctx, b.link.Peer, b.legacy.caller.Load(), change, nil); err != nil {
				return
			}
		}
	}
}

// rootsChanged passes a change of the client's roots to the core, one at a time. Changes that wait
// are one change.
func (b *binding) rootsChanged() {
	if caller := b.legacy.caller.Load(); caller == nil || caller.Capabilities.Roots == nil || b.legacy.roots.Add(1) > 1 {
		return // no roots, or a goroutine notifies the core
	}
	b.link.Go(func(ctx context.Context) {
		for waiting := b.legacy.roots.Load(); waiting > 0; waiting = b.legacy.roots.Add(-waiting) {
			b.server.core.RootsChanged(ctx, b.legacy.caller.Load())
		}
	})
}

func (b *binding) setLevel(req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	var level mcp.LoggingLevel
	if err := json.Unmarshal(req.Member("level"), &level); err != nil || !level.Valid() {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "level must be one of debug, info, notice, warning, error, critical, alert, emergency"}
	}
	if err := b.update(func(st *sessionState) { st.Level = level }); err != nil {
		return err
	}
	return reply.Write(emptyResult)
}

// subscribe starts to watch a resource. The session is not locked while the core decides: the
// request may be cancelled, and another request may unsubscribe.
func (b *binding) subscribe(ctx context.Context, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	uri, err := b.subscribable(req)
	if err != nil {
		return err
	}
	w, err := b.reserve(ctx, uri)
	if err != nil {
		return err
	}
	if w == nil { // it is watched here, and the client may have unsubscribed at another process
		err = b.update(func(st *sessionState) { st.subscribe(uri) })
	} else {
		err = b.startWatch(ctx, req, caller, uri, w)
	}
	if err != nil {
		return err
	}
	return reply.Write(emptyResult)
}

// startWatch starts a watch that was reserved, and adds it to the state of the session.
func (b *binding) startWatch(ctx context.Context, req *jsonrpc.Request, caller *mcp.Caller, uri string, w *watch) error {
	stop, err := b.watchResource(ctx, req, caller, uri)
	if err == nil {
		err = b.update(func(st *sessionState) {
			if b.legacy.watched[uri] == w { // else another request has unsubscribed
				st.subscribe(uri)
			}
		})
	}
	b.started(uri, w, stop)
	return err
}

// watchResource watches a resource that exists for the caller.
func (b *binding) watchResource(ctx context.Context, req *jsonrpc.Request, caller *mcp.Caller, uri string) (stop func(), err error) {
	call := mcp.NewCall(req, caller, nil)
	accepted, stop, err := b.server.core.Watch(ctx, &call, mcp.SubscriptionFilter{ResourceSubscriptions: []string{uri}}, b.changed)
	if err == nil && len(accepted.ResourceSubscriptions) == 0 {
		stop()
		err = mcp.ResourceNotFound(uri)
	}
	if err != nil {
		return nil, ErrorFor(caller.Version, err)
	}
	return stop, nil
}

// subscribable returns the URI of a request to subscribe or to unsubscribe. The method exists
// if the handshake has declared it, or the server offers it now.
func (b *binding) subscribable(req *jsonrpc.Request) (uri string, err error) {
	description, err := b.server.core.Describe()
	if err != nil {
		return "", err
	}
	b.legacy.mu.Lock()
	declared := b.legacy.declared
	b.legacy.mu.Unlock()
	if !canSubscribe(declared) && !canSubscribe(&description.Capabilities) {
		return "", methodNotFound(req.Method)
	}
	return uriOf(req)
}

func canSubscribe(has *mcp.ServerCapabilities) bool {
	return has != nil && has.Resources != nil && has.Resources.Subscribe
}

// reserve adds a watch that has not started. It returns nil if the resource is watched
// already. It waits for another request for the same resource, in case that one fails.
func (b *binding) reserve(ctx context.Context, uri string) (*watch, error) {
	l := &b.legacy
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := l.watched[uri]; w != nil && !w.failed; w = l.watched[uri] {
		if w.stop != nil {
			return nil, nil
		}
		l.mu.Unlock()
		select {
		case <-w.started:
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
	if err := b.take(b.watchSize(uri)); err != nil {
		return nil, err
	}
	return l.addWatch(uri), nil
}

// removeWatch removes a watch, which the caller stops. l.mu is held.
func (b *binding) removeWatch(uri string) {
	delete(b.legacy.watched, uri)
	b.giveBack(b.watchSize(uri))
}

// addWatch adds a watch that has not started, and that is counted. l.mu is held.
func (l *legacySession) addWatch(uri string) *watch {
	if l.watched == nil {
		l.watched = make(map[string]*watch)
	}
	w := &watch{started: make(chan struct{})}
	l.watched[uri] = w
	return w
}

// started ends the start of a watch. stop is nil if it has failed. A watch that the state of the session does not have is
// stopped, and so is one that starts after the end of the session.
func (b *binding) started(uri string, w *watch, stop func()) {
	l := &b.legacy
	l.mu.Lock()
	has := l.watched[uri] == w
	keep := has && w.wanted && b.link.Input.Err() == nil
	if keep {
		w.stop, w.failed = stop, stop == nil
	} else if has {
		b.removeWatch(uri)
	}
	close(w.started)
	l.mu.Unlock()
	if !keep && stop != nil {
		stop()
	}
}

func (b *binding) unsubscribe(req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	uri, err := b.subscribable(req)
	if err != nil {
		return err
	}
	b.legacy.mu.Lock()
	if w := b.legacy.watched[uri]; w != nil && w.stop == nil { // the request that starts it then stops it
		b.removeWatch(uri)
	}
	b.legacy.mu.Unlock()
	if err := b.update(func(st *sessionState) { st.unsubscribe(uri) }); err != nil {
		return err
	}
	return reply.Write(emptyResult)
}

func (b *binding) unwatchAll() { b.forgetWatches()() }

// forgetWatches removes all watches and returns a function that stops them.
func (b *binding) forgetWatches() (stop func()) {
	l := &b.legacy
	l.mu.Lock()
	defer l.mu.Unlock()
	stopLists, watched := l.stopLists, l.watched
	for uri := range watched {
		b.giveBack(b.watchSize(uri))
	}
	l.stopLists, l.watched = nil, nil
	return func() {
		if stopLists != nil {
			stopLists()
		}
		for _, w := range watched {
			if w.stop != nil {
				w.stop()
			}
		}
	}
}

func uriOf(req *jsonrpc.Request) (uri string, err error) {
	if err := json.Unmarshal(req.Member("uri"), &uri); err != nil || uri == "" {
		return "", &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "uri must be a string that names a resource"}
	}
	if len(uri) > MaxWatchedURI {
		return "", tooLongURI(len(uri))
	}
	return uri, nil
}

// tooLongURI is the error of a request to watch a resource whose URI has n bytes.
func tooLongURI(n int) error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("a watched uri may have at most %d bytes, not %d", MaxWatchedURI, n)}
}

// callLegacy runs a call. While the call asks questions, callLegacy asks the client and runs the
// call again.
func (b *binding) callLegacy(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	wantsTask, err := b.wantsTask(ctx, req, caller)
	if err != nil {
		return err
	}
	if wantsTask {
		caller = withTasks(caller)
	}
	c := b.server.newCall(ctx, from, req, caller)
	defer c.close()
	for run := &c.Call; ; run = new(mcp.NewCall(req, caller, c)) { // each run has its own values
		result, err := b.server.core.ServeProtocol(ctx, run)
		c.endRun()
		question, asks := mcp.AsInputRequired(err)
		switch {
		case asks && !MayAsk(req.Method):
			return mayNotAsk(req.Method)
		case asks && question.WantsTask():
			result, err = b.server.becomeTask(ctx, c, *question.Task)
		case asks:
			if err := c.beginRound(); err != nil {
				return err
			}
			askLegacy(ctx, c, question)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			continue
		case err == nil && wantsTask:
			result, err = b.server.asTask(ctx, c, result)
		}
		if err != nil {
			return ErrorFor(caller.Version, err)
		}
		if task, ok := result.(*mcp.Task); ok {
			return writeLegacyTask(task, reply)
		}
		return b.server.writeLegacy(req.Method, caller.Version, result, reply)
	}
}

// askLegacy asks the questions one after the other over the link of the call, until they are withdrawn. A refusal is
// passed to the next run of the call.
func askLegacy(ctx context.Context, c *call, question *mcp.InputRequired) {
	ctx, cancel := context.WithTimeout(ctx, InputTimeout)
	defer cancel()
	if question.Asked != nil {
		question.Asked(cancel)
	}
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
