package era

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A call is one call on its way through the core, and the way back from it.
type call struct {
	mcp.Call
	ctx  context.Context // ends when nobody waits for the result any more
	from jsonrpc.Peer

	mu       sync.Mutex
	state    state
	progress float64 // the last value sent, valid if moved
	logged   int     // lines logged in this run
	done     func()  // runs when the call has ended, may be nil
	moved    bool
	asks     bool // the caller has been asked, and will come back
	closed   bool
}

// A state is what a call knows from its earlier runs. In the modern era the
// caller carries it, sealed; in the legacy era it stays here.
type state struct {
	// ID names the call among all calls, through all its runs.
	ID string `json:"id,omitempty"`
	// Answers are the caller's, by the keys of the questions.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Kept is what the core kept.
	Kept map[string]json.RawMessage `json:"kept,omitempty"`
	// Logged counts the log lines that were sent; a run that repeats them does
	// not send them again.
	Logged int `json:"logged,omitempty"`

	failed map[string]error // questions that the caller refused to answer
}

func newCall(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller) *call {
	c := &call{ctx: ctx, from: from}
	c.Call = mcp.NewCall(req, caller, c)
	return c
}

// Notify sends a notification that belongs to the call. Progress that does not
// go up and log lines of an earlier run are dropped, and everything once the
// call is cancelled or over.
func (c *call) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	// The lock is held while sending, so that nothing can follow the result.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.isNews(method, params) {
		return nil
	}
	params, err := filteredParams(c.Caller.Version, method, params)
	if err != nil {
		return err
	}
	return c.from.Notify(ctx, method, params)
}

func (c *call) isNews(method string, params jsonrpc.Appender) bool {
	switch p := params.(type) {
	case *mcp.ProgressParams:
		return c.movesTo(p.Progress)
	case mcp.Raw: // from another server
		if method == mcp.NotificationProgress {
			raw, _ := member(p, "progress")
			progress, ok := number(raw)
			return ok && c.movesTo(progress)
		}
	case *mcp.LoggingMessageParams: // those of another server do not come again with a run
		c.logged++
		return c.logged > c.state.Logged
	}
	return true
}

func (c *call) movesTo(progress float64) bool {
	if c.moved && progress <= c.progress {
		return false
	}
	c.progress, c.moved = progress, true
	return true
}

// Input returns the caller's answer, if it has been given.
func (c *call) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	if err := checkAskable(c.Caller, question); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.state.failed[key]; err != nil {
		return nil, fmt.Errorf("the client did not answer %q: %w", key, err)
	}
	if answer, ok := c.state.Answers[key]; ok {
		return answer, nil
	}
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}

// Load returns what an earlier run kept.
func (c *call) Load(key string) (json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.state.Kept[key]
	return value, ok
}

// Keep keeps a value for later runs.
func (c *call) Store(key string, value json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Kept == nil {
		c.state.Kept = make(map[string]json.RawMessage)
	}
	c.state.Kept[key] = value
}

// ID names the call through all its runs.
func (c *call) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.ID == "" {
		c.state.ID = rand.Text()
	}
	return c.state.ID
}

// Detach hangs up the stream that a client waits at, if its transport lets it
// come back.
func (c *call) Detach(retry time.Duration) {
	if route, ok := c.from.(*jsonrpc.Route); ok {
		if d, ok := route.Outlet().(transport.Detacher); ok {
			d.Detach(retry)
		}
	}
}

func (c *call) answer(key string, answer json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.Answers == nil {
		c.state.Answers = make(map[string]json.RawMessage)
	}
	c.state.Answers[key] = answer
}

func (c *call) fail(key string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.failed == nil {
		c.state.failed = make(map[string]error)
	}
	c.state.failed[key] = err
}

// endRun closes one run's account of log lines.
func (c *call) endRun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Logged = max(c.state.Logged, c.logged)
	c.logged = 0
}

// OnDone registers fn to run when the call has ended.
func (c *call) OnDone(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if earlier := c.done; earlier != nil {
		c.done = func() { earlier(); fn() }
		return
	}
	c.done = fn
}

// close stops notifications: the result goes out next, and nothing may follow it.
// The call is over, unless its caller is to come back.
func (c *call) close() {
	c.mu.Lock()
	c.closed = true
	done := c.done
	if c.asks {
		done = nil
	}
	c.mu.Unlock()
	if done != nil {
		done()
	}
}
