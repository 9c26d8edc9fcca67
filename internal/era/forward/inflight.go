package forward

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// inFlight holds the calls of one connection that have begun and not ended. It is the
// [era.Receiver] of the connection.
type inFlight struct {
	answerer era.Answerer // answers all questions; nil if the callers are asked
	roots    era.Answerer // lists roots outside of calls; may be nil

	mu      sync.Mutex
	calls   []*forwardedCall // oldest first
	changed chan struct{}    // closed when a call is added or removed; nil if no question waits for that

	closed  bool
	running sync.WaitGroup // no goroutine is added after closed is set
}

// callKey is the key of the forwarded call in the context of its request.
type callKey struct{}

func (f *inFlight) add(c *forwardedCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c)
	f.notify()
}

func (f *inFlight) remove(c *forwardedCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.calls, c); i >= 0 {
		f.calls = slices.Delete(f.calls, i, i+1)
		f.notify()
	}
}

func (f *inFlight) notify() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// start runs a request on a goroutine. It returns false if the session is closed.
func (f *inFlight) start(request func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.running.Go(request)
	}
	return !f.closed
}

func (f *inFlight) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

// callOf returns the call that a notification of the server belongs to, nil if it belongs to none. Over HTTP, the notification
// comes with the response to the call. On other transports it belongs to the oldest call with a run attached, or to the oldest
// call if none has one, unless the calls are of several principals.
func (f *inFlight) callOf(from jsonrpc.Peer) *forwardedCall {
	if peer, ok := from.(transport.CallPeer); ok {
		return callOfPeer(peer)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var found *forwardedCall
	for _, c := range f.calls {
		if c.caller.Principal != f.calls[0].caller.Principal {
			return nil
		}
		if found == nil || c.isAttached() && !found.isAttached() {
			found = c
		}
	}
	return found
}

func callOfPeer(peer transport.CallPeer) *forwardedCall {
	c, _ := peer.CallContext().Value(callKey{}).(*forwardedCall)
	return c
}

// asking returns the call that a question of the server belongs to. Over HTTP, the question comes with the response to the call. On
// other transports it belongs to a call as in callOf, but only to one that may ask. Of several, it belongs to one with the
// fewest open questions, since the next question of a call waits for the answer to the one before. refused is the error with
// which the client of the call refuses the question, or errAmbiguous if the calls are of several principals, or errNoCall.
//
// On these transports, several clients of one principal may have calls at the same time. Then found is nil, and changed is closed
// when a call begins or ends. among are the calls that were in flight when the question came, nil at first: it does not belong
// to later ones, unless there was none.
func (f *inFlight) asking(from jsonrpc.Peer, question mcp.InputRequest, among *[]*forwardedCall) (found *forwardedCall, changed <-chan struct{}, refused error) {
	if peer, ok := from.(transport.CallPeer); ok {
		c := callOfPeer(peer)
		if c == nil || !c.mayAsk() {
			return nil, nil, errNoCall
		}
		return c, nil, c.refusal(question)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(*among) == 0 {
		*among = slices.DeleteFunc(slices.Clone(f.calls), func(c *forwardedCall) bool { return !c.mayAsk() })
	}
	attached, several, askable := false, false, false
	for _, c := range f.calls {
		if !slices.Contains(*among, c) {
			continue
		}
		if found != nil && c.caller.Principal != found.caller.Principal {
			return nil, nil, errAmbiguous
		}
		several = several || found != nil && !isSameClient(c.caller, found.caller)
		refusal := c.refusal(question)
		refused, askable = cmp.Or(refused, refusal), askable || refusal == nil
		isAttached := c.isAttached()
		if found == nil || isAttached && !attached || isAttached == attached && c.open < found.open {
			found, attached = c, isAttached
		}
	}
	switch {
	case found == nil && len(*among) > 0:
		return nil, nil, errNotAsked
	case found == nil:
		return nil, f.next(), errNoCall
	case several && askable:
		return nil, f.next(), cmp.Or(refused, error(errAmbiguous))
	case refused == nil:
		found.open++
	}
	return found, nil, refused
}

// isSameClient reports whether two callers of a principal are one client. In the modern era, each request describes its client.
func isSameClient(a, b *mcp.Caller) bool {
	return a == b || a.Version.Modern() && b.Version.Modern() && a.Network == b.Network && nameOf(a) == nameOf(b) && reflect.DeepEqual(a.Capabilities, b.Capabilities)
}

func nameOf(caller *mcp.Caller) string {
	if caller.Info == nil {
		return ""
	}
	return caller.Info.Name
}

// next returns a channel that is closed when a call begins or ends. f.mu is locked.
func (f *inFlight) next() <-chan struct{} {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	return f.changed
}

func (c *forwardedCall) mayAsk() bool { return era.MayAsk(c.params.call.Method()) }

// refusal returns the error with which the client of the call refuses a question, nil if it can be asked.
func (c *forwardedCall) refusal(question mcp.InputRequest) error {
	return era.RefuseQuestion(&c.caller.Capabilities, question)
}

// answered ends a question of a call that asking returned.
func (f *inFlight) answered(c *forwardedCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.open = max(c.open-1, 0) // asking does not count questions over HTTP
}

// Log adds a log message to the call that it belongs to.
func (f *inFlight) Log(from jsonrpc.Peer, message *jsonrpc.Request) bool {
	c := f.callOf(from)
	if c != nil {
		c.add(message)
	}
	return c != nil
}

// attributionTimeout is how long a question waits if it is not certain to which call it belongs. A server may ask as soon as
// the session is open, before the first call, or while another client has a short call.
const attributionTimeout = 5 * time.Second

var (
	errNoCall    = &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "no call is in flight with a caller that can be asked this"}
	errAmbiguous = &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "calls of several clients are in flight, and the question does not say to which it belongs"}
)

// Ask asks the caller of the call that the question belongs to. A server that asks for roots outside of a call gets those of
// inFlight.roots, or else of a call that begins within attributionTimeout, or else none.
func (f *inFlight) Ask(ctx context.Context, from jsonrpc.Peer, request mcp.InputRequest) (mcp.Result, error) {
	if f.answerer != nil {
		return f.answerer.Answer(ctx, request)
	}
	result, err := f.askCaller(ctx, from, request)
	if (err == errNoCall || err == errAmbiguous) && request.Method == mcp.MethodRootsList {
		return &mcp.ListRootsResult{Roots: []mcp.Root{}}, nil
	}
	return result, err
}

func (f *inFlight) askCaller(ctx context.Context, from jsonrpc.Peer, request mcp.InputRequest) (mcp.Result, error) {
	due := time.After(attributionTimeout)
	mayBeOutside := f.roots != nil && request.Method == mcp.MethodRootsList
	var among []*forwardedCall
	for {
		c, changed, refused := f.asking(from, request, &among)
		switch {
		case changed == nil && refused != nil:
			return nil, refused
		case c != nil:
			answer, err := c.ask(ctx, request)
			f.answered(c)
			if _, ofCall := from.(transport.CallPeer); ofCall || !errors.Is(err, errNotAsked) {
				return answer, err
			}
			continue // it may belong to another call
		case mayBeOutside && len(among) == 0:
			result, err := f.roots.Answer(ctx, request)
			if list, ok := result.(*mcp.ListRootsResult); ok && err == nil && len(list.Roots) > 0 {
				return list, nil
			}
			mayBeOutside = false
			continue // a call may have begun
		}
		select {
		case <-changed:
		case <-due:
			return nil, refused
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var errNotAsked = errors.New("the call has ended without the answer of its caller")

// ask passes a question to the current or the next run, and waits for the answer while the
// request to the server is open.
func (c *forwardedCall) ask(ctx context.Context, request mcp.InputRequest) (mcp.Result, error) {
	if err := c.client.limits.checkSize(request); err != nil {
		return nil, err
	}
	if err := c.countQuestion(); err != nil {
		return nil, err
	}
	request, err := withServerName(request, c.label)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: err.Error()}
	}
	q := &question{request: request, answered: make(chan struct{})}
	asks := c.asks
	for {
		select {
		case asks <- q:
			asks = nil
		case <-q.answered:
			return mcp.Raw(q.answer), q.err
		case <-c.ended:
			if asks != nil || c.err == nil { // a server that has answered a call asks for another one of the client
				return nil, errNotAsked
			}
			return nil, errAbandoned
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// countQuestion returns a *mcp.LimitError if the server asks too often.
func (c *forwardedCall) countQuestion() error {
	limits := c.client.limits
	if most := limits.rounds; c.questions.Add(1) > int64(most) {
		return era.RoundsError(most)
	}
	return c.client.suspended.countQuestions(c.label, c.caller.Principal, 1, limits)
}

// notifications relays notifications of the server to the caller of one call. It sends them in
// the attached run. Between two runs it queues them.
type notifications struct {
	mu       sync.Mutex
	ctx      context.Context
	call     *mcp.Call // nil if no run is attached
	queue    []notification
	size     int // bytes of the params in the queue
	relaying bool
	relays   sync.WaitGroup // no goroutine is added while no run is attached
}

// A notification is a copy of a notification of the server.
type notification struct {
	method string
	params json.RawMessage
	level  mcp.LoggingLevel // "" if it is not a log message
}

// Limits of the queue for a slow caller. The oldest notifications are dropped.
const (
	maxQueued      = 1024
	maxQueuedBytes = 1 << 20
)

// attach attaches a run, and starts sending the queued notifications.
func (n *notifications) attach(ctx context.Context, call *mcp.Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ctx, n.call = ctx, call
	n.relay()
}

// detach detaches the run. It returns when the queued notifications have been sent.
func (n *notifications) detach() {
	n.mu.Lock()
	n.ctx, n.call = nil, nil
	n.mu.Unlock()
	n.relays.Wait()
}

func (n *notifications) isAttached() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.call != nil
}

// add queues a copy of a notification. It does not block.
func (n *notifications) add(req *jsonrpc.Request) {
	if len(req.Params) > maxQueuedBytes {
		return // it must not remove all others
	}
	added := notification{method: req.Method, params: bytes.Clone(req.Params)}
	if level := req.Member("level"); jsonscan.KindOf(level) == jsonscan.String {
		added.level = mcp.LoggingLevel(jsonscan.Unquote(level))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.queue = append(n.queue, added)
	n.size += len(added.params)
	for len(n.queue) > maxQueued || n.size > maxQueuedBytes {
		n.size -= len(n.queue[0].params)
		n.queue = n.queue[1:]
	}
	n.relay()
}

// relay starts a goroutine that sends the queue until it is empty. If the run is detached, the
// goroutine sends the notifications queued so far and ends. relay is called with mu held.
func (n *notifications) relay() {
	if n.call == nil || n.relaying || len(n.queue) == 0 {
		return
	}
	n.relaying = true
	ctx, call := n.ctx, n.call
	n.relays.Go(func() {
		for last := false; !last; {
			n.mu.Lock()
			queue := n.queue
			n.queue, n.size = nil, 0
			last = len(queue) == 0 || n.call == nil
			n.relaying = !last
			n.mu.Unlock()
			for _, queued := range queue {
				_ = queued.send(ctx, call) // if it fails, sending the result will fail too
			}
		}
	})
}

// send sends a notification to the caller if the caller wants it. Progress gets the progress
// token of the caller.
func (n *notification) send(ctx context.Context, call *mcp.Call) error {
	if n.method == mcp.NotificationMessage {
		wanted := call.Caller.LogLevel
		if wanted == "" || n.level == "" || n.level.Severity() < wanted.Severity() {
			return nil
		}
		return call.Notify(ctx, n.method, mcp.Raw(n.params))
	}
	token := call.ProgressToken()
	if token == nil {
		return nil
	}
	params, err := jsonscan.Splice(nil, n.params, jsonscan.Edit{Name: mcp.MetaProgressToken, Value: token})
	if err != nil {
		return err
	}
	return call.Notify(ctx, n.method, mcp.Raw(params))
}
