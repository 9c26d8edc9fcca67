package blocking

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Limits of [Calls].
const (
	// MaxCalls is the maximum number of functions that run or wait.
	MaxCalls = 1024
	// MaxPerPrincipal is the maximum number of functions of one client.
	MaxPerPrincipal = 64
	// WaitTimeout is how long a function waits without a run of its call. It is longer than a person may take to
	// answer, so that the answer has time to arrive.
	WaitTimeout = era.InputTimeout + time.Minute
	// KeptFor is how long the outcome of a function is kept for a client that sends its answer again.
	KeptFor = time.Minute
)

// Memory in bytes that is counted.
const (
	functionMemory = 16 << 10 // of a function, in addition to its params and questions
	questionMemory = 1 << 10  // of a question, in addition to its params
	keptMemory     = 2 << 10  // of a function that has ended, in addition to its result and questions
)

// A Function is the function of a tool. Its context ends when the call was cancelled, or waits too long. The call asks
// by blocking. An error that contains no *[jsonrpc.Error] is a text for the caller.
type Function func(ctx context.Context, call *mcp.Call) (mcp.Result, error)

// Config configures [Calls].
type Config struct {
	// Store connects the replicas of a server. nil: there are none.
	Store store.Store
	// Key seals messages between replicas.
	Key *state.Key
	// Retained counts what functions keep.
	Retained *quota.Retained
	// Watch calls ended when the task that a call runs as has ended, until stop is called.
	Watch func(ctx context.Context, call *mcp.Call, ended func()) (stop func())
	// Stopping is the error of a call whose function does not begin because of a shutdown.
	Stopping error
	Logger   *slog.Logger
}

// Calls are the blocking functions that a server runs. Its methods may be called concurrently.
type Calls struct {
	config   Config
	replica  string // random name that identifies this value among all replicas
	limit    *quota.Quota
	replicas replicas

	mu        sync.Mutex
	functions map[key]*function
	running   int           // functions that have not ended
	stopped   bool          // no function begins or asks any more
	idle      chan struct{} // closed when stopped is true and no function runs
}

// A key identifies a function: a call that calls another tool may have one for each.
type key struct{ call, tool string }

// New returns Calls without functions.
func New(config Config) *Calls {
	c := &Calls{
		config: config, replica: rand.Text(), limit: quota.New("calls of blocking tools", MaxCalls, MaxPerPrincipal),
		functions: make(map[key]*function), idle: make(chan struct{}),
	}
	c.replicas.init(c)
	return c
}

// A place says where the function of a call is, and what it has asked. The call stores it for the next run.
type place struct {
	Replica string   `json:"replica"`
	Round   int      `json:"round"`            // number of rounds in which the function has asked
	Keys    []string `json:"keys"`             // of the questions of the last round
	Digest  string   `json:"digest,omitempty"` // of the tool's definition: another variant of its name must not continue the call
}

func storedAs(tool string) string { return "blocking/" + tool }

// placeOf returns the place of a call's function, nil in a run that may begin it.
func placeOf(call *mcp.Call, tool string) (*place, error) {
	stored, ok := call.Load(storedAs(tool))
	if !ok {
		return nil, nil
	}
	at := new(place)
	return at, json.Unmarshal(stored, at)
}

// store stores the place, and returns the questions as the error that asks them.
func (p *place) store(call *mcp.Call, tool string, questions map[string]mcp.InputRequest) error {
	stored, err := json.Marshal(p)
	if err != nil {
		return err
	}
	call.Store(storedAs(tool), stored)
	return &mcp.InputRequired{Requests: questions}
}

// Run is one run of a call of a blocking tool. It begins the function, or continues the one that an earlier run has
// begun, here or at another replica. If the function asks, the error is an *[mcp.InputRequired]. If ctx ends, so does the
// context of the function, unless another run of the call waits for it, and Run waits until the function has returned.
// registered identifies the tool among those of its name.
func (c *Calls) Run(ctx context.Context, call *mcp.Call, tool string, registered any, fn Function) (mcp.Result, error) {
	at, err := placeOf(call, tool)
	if err != nil {
		return nil, err
	}
	digest := ""
	if target := call.Target(); target != nil {
		digest = target.Definition.Digest()
	}
	var f *function
	switch {
	case at == nil:
		at = new(place)
		f, err = c.begin(ctx, call, tool, registered, fn)
	case at.Digest != digest:
		return nil, errNotWaiting
	case at.Replica != c.replica:
		return c.runElsewhere(ctx, call, tool, at)
	default:
		f, err = c.find(key{call.ID(), tool})
		if err == nil && f.registered != registered {
			return nil, errNotWaiting
		}
		if err == nil {
			f.attach(call)
		}
	}
	if err != nil {
		return nil, err
	}
	out, err := f.wait(ctx, call, at.Round)
	if err != nil || out.questions == nil {
		return out.result, err
	}
	return nil, (&place{c.replica, out.round, sortedKeys(out.questions), digest}).store(call, tool, out.questions)
}

// begin begins the function of a call, with its first run attached. A *[jsonrpc.Error] with [jsonrpc.Busy] says that there is no room for it, so that
// it was not begun.
func (c *Calls) begin(ctx context.Context, call *mcp.Call, tool string, registered any, fn Function) (*function, error) {
	holder := quota.HolderOf(call.Caller.Principal, call.Caller.Network)
	if err := c.limit.Acquire(holder); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.Busy, Message: err.Error()}
	}
	f := &function{
		calls: c, key: key{cmp.Or(call.ID(), rand.Text()), tool}, registered: registered, first: call, holder: holder,
		ended: make(chan struct{}), changed: make(chan struct{}), used: make(map[string]bool),
		runs: []*mcp.Call{call},
	}
	f.ctx, f.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	own, err := call.WithResponder(f)
	if err == nil {
		err = f.take(functionMemory + 3*int64(len(call.Params()))) // of this run, the function's own, and decoded
	}
	if err == nil {
		err = c.add(f)
	}
	if err != nil {
		f.release()
		c.limit.Release(holder)
		return nil, err
	}
	c.replicas.join()
	go f.run(fn, own)
	return f, nil
}

// add adds a function that begins.
func (c *Calls) add(f *function) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch other := c.functions[f.key]; {
	case c.stopped:
		return c.config.Stopping
	case other != nil && !other.hasEnded():
		return fmt.Errorf("the tool %q was called twice within one call, and waits for an answer", f.key.tool)
	}
	c.functions[f.key] = f
	c.running++
	return nil
}

// find returns the function that a run continues.
func (c *Calls) find(k key) (*function, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.functions[k]; f != nil {
		return f, nil
	}
	return nil, errNotWaiting
}

// Holds reports whether a call with an id has a function here, so that it has been executed in part at least.
func (c *Calls) Holds(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.functions {
		if k.call == id {
			return true
		}
	}
	return false
}

// returned counts a function that has ended, and removes it unless its outcome is kept.
func (c *Calls) returned(f *function, keep bool) {
	c.limit.Release(f.holder)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running--; c.stopped && c.running == 0 {
		close(c.idle)
	}
	if keep {
		f.forget = time.AfterFunc(KeptFor, func() { c.remove(f) })
		return
	}
	if c.functions[f.key] == f {
		delete(c.functions, f.key)
	}
}

func (c *Calls) remove(f *function) {
	c.mu.Lock()
	if c.functions[f.key] == f {
		delete(c.functions, f.key)
	}
	c.mu.Unlock()
	f.release()
}

// Drain begins no more functions, and interrupts those that no run waits for. Others may continue, and cannot ask.
func (c *Calls) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.stopped = true
	if c.running == 0 {
		close(c.idle)
	}
	for _, f := range c.functions {
		f.interruptUnattached(errShutdown)
	}
}

// Stop waits until all functions have returned. When ctx ends, it interrupts them and returns the cause. It must be
// called after Drain.
func (c *Calls) Stop(ctx context.Context) (err error) {
	defer c.replicas.close()
	select {
	case <-c.idle:
	default:
		select {
		case <-c.idle:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.functions {
		f.cancel(errShutdown)
		if f.forget != nil {
			f.forget.Stop()
		}
	}
	return err
}

// recovered calls a function that the tool has added with OnDone.
func (c *Calls) recovered(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			c.config.Logger.Error("a function that is called at the end of a blocking call panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	fn()
}

func (c *Calls) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}
