package era

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A call is one call and its [mcp.Responder].
type call struct {
	mcp.Call
	server *Server         // nil if the call runs as a task
	ctx    context.Context // ends when the caller no longer waits for the result
	from   jsonrpc.Peer    // a *background if the call runs as a task

	mu          sync.Mutex
	state       callState
	progress    float64 // the last value sent, valid if hasProgress
	logged      int     // lines logged in this run
	done        func()  // runs when the call has ended; may be nil
	hasProgress bool
	continues   bool // after this run: the caller sends the call again with answers, or it runs as a task
	closed      bool // the run has ended
}

// A callState is the data of a call from its earlier runs. In the modern era it is sealed and sent to the caller, which
// returns it; in the legacy era it stays in memory. The state of a task is in the store.
type callState struct {
	// ID identifies the call through all its runs.
	ID string `json:"id,omitempty"`
	// Answers are the answers of the caller by the keys of the questions.
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	// Stored are the values that the core has stored.
	Stored map[string]json.RawMessage `json:"kept,omitempty"`
	// Logged is how many log messages were sent. A run that repeats them does not send them
	// again.
	Logged int `json:"logged,omitempty"`
	// Rounds is how many times the call has asked.
	Rounds int `json:"rounds,omitempty"`

	failed map[string]error // questions that the caller did not answer
}

func (s *Server) newCall(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller) *call {
	c := &call{server: s, ctx: ctx, from: from}
	c.Call = mcp.NewCall(req, caller, c)
	return c
}

// A RefusedArguments refuses a call because of the error of [jsonrpc.Request.ArgumentsError]: a policy, an approver and a
// tool may read the arguments differently. It is an [mcp.ToolRefusal], so that a model reads it.
type RefusedArguments struct{ Err error }

// Error returns the reason.
func (e *RefusedArguments) Error() string { return e.Err.Error() }

// Unwrap returns the error for a call of something else than a tool.
func (e *RefusedArguments) Unwrap() error {
	return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: e.Err.Error()}
}

// ToolResult implements [mcp.ToolRefusal].
func (e *RefusedArguments) ToolResult() *mcp.CallToolResult {
	text := "The call was not executed: " + e.Err.Error() + ". Send each member once."
	return &mcp.CallToolResult{IsError: true, Content: mcp.ContentList{mcp.Text(text)}}
}

// Notify sends a notification of the call. It drops progress that does not increase, log
// messages of an earlier run, and everything after the end of the call. It fails if the call
// is cancelled.
func (c *call) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	// The lock is held while sending, so that nothing can follow the result.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.isNew(method, params) {
		return nil
	}
	if p, ok := params.(*mcp.ProgressParams); ok && p.Total != nil && !isFinite(*p.Total) {
		finite := *p
		finite.Total = nil
		params = &finite
	}
	params, err := filteredParams(c.Caller.Version, method, params)
	if err != nil {
		return err
	}
	if c.server == nil {
		return c.from.Notify(ctx, method, params)
	}
	return c.server.notify(ctx, c.from, c.Caller, method, params)
}

func (c *call) isNew(method string, params jsonrpc.Appender) bool {
	switch p := params.(type) {
	case *mcp.ProgressParams:
		return isFinite(p.Progress) && c.advance(p.Progress)
	case mcp.Raw: // from another server
		if method == mcp.NotificationProgress {
			raw, _ := jsonscan.Find(p, "progress")
			progress, ok := number(raw)
			return ok && c.advance(progress)
		}
	case *mcp.LoggingMessageParams: // log messages of another server are not repeated by a run
		c.logged++
		return c.logged > c.state.Logged
	}
	return true
}

// isFinite reports whether JSON has a number for a value.
func isFinite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

func (c *call) advance(progress float64) bool {
	if c.hasProgress && progress <= c.progress {
		return false
	}
	c.progress, c.hasProgress = progress, true
	return true
}

// Input returns the caller's answer to a question. Without one it returns the error that asks
// the caller.
func (c *call) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	if err := checkAskable(c.Caller, question); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.state.failed[key]; err != nil {
		return nil, &UnansweredError{Key: key, Err: err}
	}
	if answer, ok := c.state.Answers[key]; ok {
		return answer, nil
	}
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}

// An UnansweredError says that the caller of a call has not answered a question.
type UnansweredError struct {
	Key string // of the question
	Err error
}

// Error names the question.
func (e *UnansweredError) Error() string {
	return fmt.Sprintf("the client did not answer %q: %v", e.Key, e.Err)
}

// Unwrap returns Err.
func (e *UnansweredError) Unwrap() error { return e.Err }

// Load returns a value that an earlier run has stored.
func (c *call) Load(key string) (json.RawMessage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	value, ok := c.state.Stored[key]
	return value, ok
}

// Store stores a value for later runs.
func (c *call) Store(key string, value json.RawMessage) {
	c.mu.Lock()
	if c.state.Stored == nil {
		c.state.Stored = make(map[string]json.RawMessage)
	}
	c.state.Stored[key] = value
	c.mu.Unlock()
	if task, ok := c.from.(*background); ok {
		task.save(c)
	}
}

// TaskID identifies the task that the call runs as.
func (c *call) TaskID() string {
	if task, ok := c.from.(*background); ok {
		return task.id
	}
	return ""
}

// ID identifies the call through all its runs.
func (c *call) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state.ID == "" {
		c.state.ID = rand.Text()
	}
	return c.state.ID
}

// Detach disconnects the client, if it can reconnect for the result.
func (c *call) Detach(retry time.Duration) {
	if d, ok := c.from.(transport.Detacher); ok {
		d.Detach(retry)
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

// endRun resets the count of log messages for the next run.
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

// withdraw ends a call of the modern era that asks its caller, unless the caller sends it again.
func (c *call) withdraw() {
	c.mu.Lock()
	c.continues = false
	var done func()
	if c.closed { // otherwise close runs it
		done, c.done = c.done, nil
	}
	c.mu.Unlock()
	if done != nil {
		done()
	}
}

// close stops notifications, because nothing may follow the result. It ends the call unless
// the call continues.
func (c *call) close() {
	c.mu.Lock()
	c.closed = true
	var done func()
	if !c.continues {
		done, c.done = c.done, nil
	}
	c.mu.Unlock()
	if done != nil {
		done()
	}
}
