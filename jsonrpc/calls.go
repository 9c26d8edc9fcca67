package jsonrpc

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/dovetail-go/dovetail/internal/bufpool"
)

// maxPendingReplies is how many replies more than MaxInFlight may be written at the same time.
const maxPendingReplies = 64

// A callTable holds the calls of both sides. Each method takes the lock, and these hold
// between calls of methods:
//
//   - incoming has an id exactly while its call runs and may be answered;
//   - outgoing has an id exactly while its call waits for the response;
//   - once closed is set, outgoing is empty, and neither map gets new calls;
//   - idle, if not nil, is open while a goroutine runs.
type callTable struct {
	mu         sync.Mutex
	incoming   map[ID]*incomingCall
	outgoing   map[ID]outgoingCall
	firstID    int64
	made       int64 // number of calls to the peer
	running    int   // running calls of the peer, including cancelled ones
	replying   int   // completed calls with replies being written
	goroutines int   // including one for each running or replying call
	idle       chan struct{}
	closed     error
	workers    chan *incomingCall // received by idle workers; nil before the first call
}

func (t *callTable) startGoroutine() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.goroutines++
}

func (t *callTable) endGoroutine() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked()
}

func (t *callTable) endLocked() {
	if t.goroutines--; t.goroutines == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// whenIdle returns a channel that is closed when no goroutine runs.
func (t *callTable) whenIdle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	if t.goroutines == 0 {
		close(t.idle)
		t.idle = nil
	}
	return idle
}

// Reasons for which begin refuses a call.
var (
	errDuplicateID = errors.New("the id is in use")
	errTooMany     = errors.New("too many calls")
)

// begin adds a call of the peer if fewer than limit calls run. The error is errDuplicateID,
// errTooMany, or the error that the table was closed with.
func (t *callTable) begin(call *incomingCall, limit int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed != nil:
		return t.closed
	case t.incoming[call.req.ID] != nil:
		return errDuplicateID
	case t.running >= limit || t.replying-maxPendingReplies >= limit:
		return errTooMany
	}
	if t.incoming == nil {
		t.incoming = make(map[ID]*incomingCall)
		t.workers = make(chan *incomingCall)
	}
	t.incoming[call.req.ID] = call
	t.running++
	t.goroutines++
	return nil
}

// complete ends a call of the peer that has run. It is called before the reply is written, so
// that the peer's next call is not refused with [Busy]. It returns false if the call was
// cancelled and must not be answered. The caller must call endReply afterwards.
func (t *callTable) complete(call *incomingCall) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	t.replying++
	call.completed = true
	for _, charge := range call.answers {
		charge.Release()
	}
	call.answers = nil
	if t.incoming[call.req.ID] != call {
		return false
	}
	delete(t.incoming, call.req.ID)
	return true
}

// endReply ends the reply of a call that is complete.
func (t *callTable) endReply() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replying--
	t.endLocked()
}

// cancel removes and returns a call of the peer, which then gets no reply. It returns nil if
// no call has the id.
func (t *callTable) cancel(id ID) *incomingCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	call := t.incoming[id]
	delete(t.incoming, id)
	return call
}

// unanswered returns the number of calls of the peer that run and may be answered.
func (t *callTable) unanswered() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.incoming)
}

// others returns the running calls of the peer except one, which may be nil.
func (t *callTable) others(than *incomingCall) []*incomingCall {
	t.mu.Lock()
	defer t.mu.Unlock()
	var calls []*incomingCall
	for _, call := range t.incoming {
		if call != than {
			calls = append(calls, call)
		}
	}
	return calls
}

var errTooManyPending = errors.New("too many calls wait for responses")

// An outgoingCall is a pending call to the peer.
type outgoingCall struct {
	response chan *Response
	asker    *incomingCall // the call of the peer whose handler makes this call, nil if there is none
}

// send adds a call to the peer if fewer than limit calls are pending. asker may be nil. The channel
// gets the response; it is closed when the table is closed.
func (t *callTable) send(asker *incomingCall, limit int) (ID, <-chan *Response, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return ID{}, nil, t.closed
	}
	if len(t.outgoing) >= limit {
		return ID{}, nil, errTooManyPending
	}
	id := IntID(t.firstID + t.made)
	t.made++
	if t.outgoing == nil {
		t.outgoing = make(map[ID]outgoingCall)
	}
	response := make(chan *Response, 1)
	t.outgoing[id] = outgoingCall{response, asker}
	return id, response, nil
}

// abandon removes a call to the peer. It returns false if the call was not pending: then
// its channel has the response or is closed.
func (t *callTable) abandon(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, pending := t.outgoing[id]
	delete(t.outgoing, id)
	return pending
}

// deliver passes a response to the call that it answers. The handler that has made the call may
// keep a large response, which stays charged as long as the handler runs. deliver returns false if
// no call is pending.
func (t *callTable) deliver(resp *Response, charge *bufpool.Charge) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	id := resp.ID
	call, pending := t.outgoing[id]
	if !pending {
		id = id.canonical() // some peers answer 4 with 4.0 or "4"
		call, pending = t.outgoing[id]
	}
	if !pending {
		return false
	}
	delete(t.outgoing, id)
	if call.asker != nil && charge != nil && !call.asker.completed {
		charge.Retain()
		call.asker.answers = append(call.asker.answers, charge)
	}
	call.response <- resp
	return true
}

// hasSent reports whether a call to the peer had the id of a response.
func (t *callTable) hasSent(id ID) bool {
	n, err := strconv.ParseInt(id.canonical().text, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	return err == nil && t.firstID <= n && n < t.firstID+t.made
}

// awaits reports whether a call to the peer waits for the response with an id.
func (t *callTable) awaits(id ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, exact := t.outgoing[id]
	_, equal := t.outgoing[id.canonical()]
	return exact || equal
}

// close fails all pending calls to the peer, and refuses all later calls of both sides.
func (t *callTable) close(reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return
	}
	t.closed = reason
	for id, call := range t.outgoing {
		delete(t.outgoing, id)
		close(call.response)
	}
}

func (t *callTable) closeReason() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// An incomingCall is a call of the peer.
type incomingCall struct {
	origin
	conn   *Conn
	req    *Request
	batch  *batch // nil if the call is answered on its own
	reply  Reply
	parent callContext
	ctx    context.Context // ends when the call is cancelled or has been answered
	cancel context.CancelCauseFunc

	answers   []*bufpool.Charge // of the responses to calls that the handler has made; guarded by the call table
	completed bool              // guarded by the call table
	limiter   Limiter           // counts the call; nil if none does
	overLimit bool              // the limiter has refused the call
}

// endLimit removes the call from the limiter that counts it.
func (call *incomingCall) endLimit() {
	if call.limiter != nil {
		call.limiter.End(call.req.Method)
		call.limiter = nil
	}
}

// A callContext ends with the embedded context and has the values of both contexts.
type callContext struct {
	context.Context
	values context.Context
	call   *incomingCall
}

// callKey is the key of the *incomingCall in the context of the call.
type callKey struct{}

// Value consults the lifetime context first, so that package context finds its own cancelCtx
// there and starts no goroutine to propagate cancellation.
func (c *callContext) Value(key any) any {
	switch key {
	case callKey{}:
		return c.call
	case receivedKey{}:
		return received{c.call.conn.id, c.call.req.ID}
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
