package approvaltests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Caller is a tool that makes the calls of a [Suite], in place of their caller.
type Caller struct {
	// New returns a provider with the tool, in place of the tools of source, which are behind guards.
	New func(source server.Provider, guards []mcp.Guard, logger *slog.Logger) (server.Provider, error)
	// Params returns the params of a call of the tool that makes a call of target.
	Params func(target *mcp.Target, arguments json.RawMessage) any
	// Prefix is what the keys of the questions of that call begin with.
	Prefix string
}

// Guarded returns a handler for [Suite].Guarded. Each run of a call is at a replica of its own, which knows of earlier runs only what
// the client carries: the guard alone prevents that the tool runs again.
func (c *Caller) Guarded(guard mcp.Guard, tool mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		source := server.New(mcp.Implementation{Name: "source"}, &server.Options{Logger: Quiet()})
		if err := source.Replace(&server.Entry{Target: *call.Target(), Handle: tool}); err != nil {
			return nil, err
		}
		r, err := c.Replica(source.Provider(), guard, Quiet())
		if err != nil {
			return nil, err
		}
		defer func() { _ = r.Shutdown(context.WithoutCancel(ctx)) }()
		return r.Serve(ctx, call, call.Target())
	}
}

// A Replica makes calls with the tool of a Caller, one after the other.
type Replica struct {
	caller *Caller
	server *server.Server
	nested outcome
}

// Replica returns a server of the tool of c, in place of the tools of source, which are behind guard.
func (c *Caller) Replica(source server.Provider, guard mcp.Guard, logger *slog.Logger) (*Replica, error) {
	r := &Replica{caller: c, server: server.New(mcp.Implementation{Name: "outer"}, &server.Options{Logger: logger})}
	provider, err := c.New(source, []mcp.Guard{r.nested.of(guard)}, logger)
	if err != nil {
		return nil, err
	}
	return r, r.server.Mount(provider, nil)
}

// Shutdown ends the server.
func (r *Replica) Shutdown(ctx context.Context) error { return r.server.Shutdown(ctx) }

// Serve makes a call of target. The result and error are those of the guard, if the caller of the tool gets the same.
func (r *Replica) Serve(ctx context.Context, call *mcp.Call, target *mcp.Target) (mcp.Result, error) {
	r.nested.forget()
	prefix := r.caller.Prefix
	params, err := json.Marshal(r.caller.Params(target, call.Member("arguments")))
	if err != nil {
		return nil, err
	}
	outer, err := call.Nested(params, &withoutPrefix{call, prefix})
	if err != nil {
		return nil, err
	}
	result, err := r.server.Serve(ctx, outer)
	if asks, ok := mcp.AsInputRequired(err); ok {
		requests := make(map[string]mcp.InputRequest)
		for key, question := range asks.Requests {
			requests[strings.TrimPrefix(key, prefix)] = question
		}
		return nil, &mcp.InputRequired{Requests: requests, Task: asks.Task}
	}
	if err != nil {
		return nil, err
	}
	return r.nested.matching(result)
}

// ErrNotAsked is the error of a call that did not reach the guard.
var ErrNotAsked = errors.New("the guard was not asked")

// An outcome is what the guard of a call has returned.
type outcome struct {
	mu     sync.Mutex
	known  bool
	result mcp.Result
	err    error
}

func (o *outcome) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.result, o.err = false, nil, nil
}

func (o *outcome) set(result mcp.Result, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known, o.result, o.err = true, result, err
}

// of returns a guard of all callers that notes what another one returns.
func (o *outcome) of(guard mcp.Guard) mcp.Guard {
	return mcp.Guard{
		Name: guard.Name, Waits: guard.Waits,
		Check: func(ctx context.Context, call *mcp.Call) error {
			if guard.Check == nil {
				return nil
			}
			err := guard.Check(ctx, call)
			o.set(nil, err)
			return err
		},
		Run: func(next mcp.Handler) mcp.Handler {
			run := guard.Run(next)
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := run(ctx, call)
				o.set(result, err)
				return result, err
			}
		},
	}
}

// matching returns what the guard has returned, if that is what the caller got.
func (o *outcome) matching(got mcp.Result) (mcp.Result, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	encoded, err := got.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	var result mcp.CallToolResult
	if err := result.UnmarshalJSON(encoded); err != nil {
		return nil, err
	}
	if !o.known {
		return nil, fmt.Errorf("%w: %s", ErrNotAsked, result.Text())
	}
	if o.err == nil == result.IsError {
		return nil, fmt.Errorf("the guard returns %w, and its caller gets %s", o.err, result.Text())
	}
	if wire, ok := errors.AsType[*jsonrpc.Error](o.err); ok && !saysMessage(result.Text(), wire.Message) {
		if refusal, ok := errors.AsType[mcp.ToolRefusal](o.err); !ok || refusal.ToolResult() == nil {
			return nil, fmt.Errorf("the guard returns %q, and its caller gets %s", wire.Message, result.Text())
		}
	}
	return o.result, o.err
}

// saysMessage reports whether a text contains a message, as it is or in a JSON string.
func saysMessage(text, message string) bool {
	quoted, err := json.Marshal(message)
	return strings.Contains(text, message) || err == nil && strings.Contains(text, string(quoted[1:len(quoted)-1]))
}

// A withoutPrefix connects a call of the tool with the caller of the call that the tool makes.
type withoutPrefix struct {
	*mcp.Call
	prefix string
}

// key returns the key of the call that the tool makes. Others are of the tool itself.
func (c *withoutPrefix) key(key string) string {
	if inner, ok := strings.CutPrefix(key, c.prefix); ok {
		return inner
	}
	return "caller of " + c.Target().Name + "/" + key
}

// Input asks a question of the call that the tool makes.
func (c *withoutPrefix) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	return c.Call.Input(c.key(key), question)
}

// Load returns a value of the call that the tool makes, or of the tool.
func (c *withoutPrefix) Load(key string) (json.RawMessage, bool) { return c.Call.Load(c.key(key)) }

// Store stores such a value.
func (c *withoutPrefix) Store(key string, value json.RawMessage) { c.Call.Store(c.key(key), value) }
