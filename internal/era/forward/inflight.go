package forward

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// inFlight are the calls of one connection that have begun and not ended, oldest first.
// It is the [era.Receiver] of the connection.
type inFlight struct {
	answerer era.Answerer // takes all questions; nil if the callers are asked

	mu    sync.Mutex
	calls []*forwardedCall
	added chan struct{} // closed when a call is added; nil if no question waits for that

	closed  bool
	running sync.WaitGroup // grows only while closed is false
}

// callKey is the key of the forwarded call in the context of its request.
type callKey struct{}

func (f *inFlight) add(c *forwardedCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c)
	if f.added != nil {
		close(f.added)
		f.added = nil
	}
}

func (f *inFlight) remove(c *forwardedCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.calls, c); i >= 0 {
		f.calls = slices.Delete(f.calls, i, i+1)
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

// find returns the call that a message of the server belongs to; a question belongs only
// to one whose caller can be asked. Over HTTP the message comes with the answer to the
// call. Elsewhere it belongs to the oldest call with a current run, or else to the oldest,
// provided that all calls are of one principal. If there is none, added is closed when
// there may be one.
func (f *inFlight) find(from jsonrpc.Peer, asks bool) (found *forwardedCall, added <-chan struct{}) {
	if companion, ok := from.(transport.Companion); ok {
		c, _ := companion.Beside().Value(callKey{}).(*forwardedCall)
		return c, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		switch {
		case c.principal != f.calls[0].principal:
			return nil, nil
		case asks && c.asks == nil:
		case found == nil, !found.isAttached() && c.isAttached():
			found = c
		}
	}
	if found == nil {
		if f.added == nil {
			f.added = make(chan struct{})
		}
		added = f.added
	}
	return found, added
}

// Log gives a log message to the call that it belongs to.
func (f *inFlight) Log(from jsonrpc.Peer, message *jsonrpc.Request) bool {
	c, _ := f.find(from, false)
	if c != nil {
		c.add(message)
	}
	return c != nil
}

// attributionTimeout is how long a question that belongs to no call waits for one: a
// server may ask as soon as the session is open, before the call that it was opened for.
const attributionTimeout = 5 * time.Second

var errNoCall = &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "no call is in flight whose caller can be asked this"}

// Ask has the caller asked on whose behalf the server asks.
func (f *inFlight) Ask(ctx context.Context, from jsonrpc.Peer, request mcp.InputRequest) (mcp.Result, error) {
	if f.answerer != nil {
		return f.answerer.Answer(ctx, request)
	}
	attributing, cancel := context.WithTimeoutCause(ctx, attributionTimeout, errNoCall)
	defer cancel()
	for {
		c, added := f.find(from, true)
		switch {
		case c != nil && c.asks != nil:
			return c.ask(ctx, request)
		case added == nil:
			return nil, errNoCall
		}
		select {
		case <-added:
		case <-attributing.Done():
			return nil, context.Cause(attributing)
		}
	}
}

// ask gives a question to the run that waits, or to the next one, and waits for the
// answer as long as the request to the server is open.
func (c *forwardedCall) ask(ctx context.Context, request mcp.InputRequest) (mcp.Result, error) {
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
			return nil, errAbandoned
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
