// Package effects tells a test kit that a run of a call has repeated a side effect of an earlier run. A
// [context.Context] carries the calls of the test from its transport to the server, and a run from the server to the
// code that has the effect.
package effects

import (
	"context"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
)

// Calls are the effects of the calls of a test. Its methods may be called concurrently.
type Calls struct {
	report func(text string)

	mu   sync.Mutex
	seen map[effect]*run // the first run of each
}

// An effect of a call.
type effect struct{ call, name string }

// A run is one run of a call.
type run struct {
	calls *Calls
	call  *mcp.Call
}

type callsKey struct{}
type runKey struct{}

// NewCalls returns calls without effects. report is called for each effect that is repeated, and may be called
// concurrently.
func NewCalls(report func(text string)) *Calls {
	return &Calls{report: report, seen: make(map[effect]*run)}
}

// WithCalls returns a context for connections and requests of a test.
func WithCalls(ctx context.Context, calls *Calls) context.Context {
	return context.WithValue(ctx, callsKey{}, calls)
}

// Begin returns the context for a run of a function. It is ctx outside of tests.
func Begin(ctx context.Context, call *mcp.Call) context.Context {
	calls, ok := ctx.Value(callsKey{}).(*Calls)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, runKey{}, &run{calls, call})
}

// Add adds an effect of the run with the context ctx. It does nothing outside of tests.
func Add(ctx context.Context, name string) {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		r.calls.add(r, name)
	}
}

func (c *Calls) add(r *run, name string) {
	e := effect{r.call.ID(), name}
	c.mu.Lock()
	first := c.seen[e]
	if first == nil {
		first = r
		c.seen[e] = r
	}
	c.mu.Unlock()
	if first != r {
		target := r.call.Target()
		c.report(fmt.Sprintf("the %v %q has repeated the effect %q, because its function runs again after a question: "+
			"let the effect follow the question, put it into server.Once, or set Tool.Blocking", target.Kind, target.Name, name))
	}
}
