package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// compose returns the Run of guards and then middleware as one, the first outermost; nil
// if there are none.
func compose(guards []mcp.Guard, middleware []mcp.Middleware) mcp.Middleware {
	var all []mcp.Middleware
	for _, g := range guards {
		if g.Run != nil {
			all = append(all, g.Run)
		}
	}
	all = append(all, middleware...)
	if len(all) == 0 {
		return nil
	}
	return func(next mcp.Handler) mcp.Handler {
		for _, m := range slices.Backward(all) {
			next = m(next)
		}
		return next
	}
}

// wrap is nil-safe use of a middleware and a handler, each of which may be missing.
func wrap(within mcp.Middleware, next mcp.Handler) mcp.Handler {
	if within == nil || next == nil {
		return next
	}
	return within(next)
}

// checked has guards decide about a call before next gets it.
func checked(guards []mcp.Guard, t *mcp.Target, next mcp.Handler) mcp.Handler {
	guards = deciding(guards)
	if len(guards) == 0 || next == nil {
		return next
	}
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		for i := range guards {
			if err := decide(ctx, &guards[i], t, call); err != nil {
				return nil, err
			}
		}
		return next(ctx, call)
	}
}

// deciding returns the guards that have more than Run.
func deciding(guards []mcp.Guard) []mcp.Guard {
	return slices.DeleteFunc(slices.Clone(guards), func(g mcp.Guard) bool { return g.Check == nil && g.Visible == nil })
}

// decide asks one guard about a call. Its error is a *[RefusedError], or a question to the caller.
func decide(ctx context.Context, g *mcp.Guard, t *mcp.Target, call *mcp.Call) error {
	if g.Check == nil {
		if !shows(ctx, g, call.Caller, t) {
			return &RefusedError{Guard: g.Name, Hidden: true, Err: errHidden}
		}
		return nil
	}
	err := safely(func() error { return g.Check(ctx, call) })
	if _, asks := mcp.AsInputRequired(err); err == nil || asks {
		return err
	}
	return &RefusedError{Guard: g.Name, Err: err}
}

var errHidden = errors.New("the caller may not see it")

// shows asks one guard whether a caller may see an entry. It fails closed.
func shows(ctx context.Context, g *mcp.Guard, caller *mcp.Caller, t *mcp.Target) (shown bool) {
	err := safely(func() error {
		shown = g.Visible(ctx, caller, t)
		return nil
	})
	return shown && err == nil
}

// visible combines Visible of guards with that of an entry. It is nil if all see the entry.
func visible(guards []mcp.Guard, t *mcp.Target, inner func(context.Context, *mcp.Caller) bool) func(context.Context, *mcp.Caller) bool {
	hiding := slices.DeleteFunc(slices.Clone(guards), func(g mcp.Guard) bool { return g.Visible == nil })
	if len(hiding) == 0 {
		return inner
	}
	return func(ctx context.Context, caller *mcp.Caller) bool {
		for i := range hiding {
			if !shows(ctx, &hiding[i], caller, t) {
				return false
			}
		}
		return inner == nil || inner(ctx, caller)
	}
}

// subscribed has guards decide about a subscription. It is nil if there is nothing to do
// for one.
func subscribed(guards []mcp.Guard, t *mcp.Target, inner func(context.Context, *mcp.Call) (func(), error)) func(context.Context, *mcp.Call) (func(), error) {
	guards = deciding(guards)
	if len(guards) == 0 {
		return inner
	}
	return func(ctx context.Context, call *mcp.Call) (stop func(), err error) {
		for i := range guards {
			if g := &guards[i]; g.Visible != nil && !shows(ctx, g, call.Caller, t) {
				return nil, &RefusedError{Guard: g.Name, Hidden: true, Err: errHidden}
			}
			if err := decide(ctx, &guards[i], t, call); err != nil {
				return nil, err
			}
		}
		if inner == nil {
			return func() {}, nil
		}
		return inner(ctx, call)
	}
}

// decoded returns a handler that decodes the arguments of a call and runs a function with
// them. What is within follows the decoding, and precedes the function.
func decoded[In any](s *Server, within mcp.Middleware, decode func(call *mcp.Call) (In, error), run func(ctx context.Context, r *Request, in In) (mcp.Result, error)) mcp.Handler {
	if within == nil {
		return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
			defer recovered(&err)
			in, err := decode(call)
			if err != nil {
				return nil, err
			}
			result, err = run(ctx, &Request{call, s}, in)
			return result, own(err)
		}
	}
	key := new(byte) // of the decoded arguments, among the values of a call
	inner := within(func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		defer recovered(&err)
		arguments, ok := call.Get(key).(*decodedArguments[In])
		if !ok || !arguments.areOf(call) {
			return nil, errArgumentsChanged
		}
		result, err = run(ctx, &Request{call, s}, arguments.value)
		return result, own(err)
	})
	return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
		defer recovered(&err)
		in, err := decode(call)
		if err != nil {
			return nil, err
		}
		call.Set(key, &decodedArguments[In]{call.Member("arguments"), call.Member("uri"), in})
		return inner(ctx, call)
	}
}

// decodedArguments are the arguments of a call, as they came and decoded.
type decodedArguments[In any] struct {
	arguments, uri []byte
	value          In
}

func (d *decodedArguments[In]) areOf(call *mcp.Call) bool {
	return bytes.Equal(call.Member("arguments"), d.arguments) && bytes.Equal(call.Member("uri"), d.uri)
}

// errArgumentsChanged ends a call whose arguments a middleware has changed after they were
// validated: those before it, such as a person who approves, saw others than the function
// would get.
var errArgumentsChanged = &jsonrpc.Error{
	Code: jsonrpc.InternalError, Message: "a middleware of the server has changed the arguments after they were validated",
}

// limited bounds the time of a handler, not counting what it waits for a person.
func limited(timeout time.Duration, t *mcp.Target, next mcp.Handler) mcp.Handler {
	if timeout <= 0 {
		return next
	}
	late := fmt.Errorf("%v %q took longer than %v", t.Kind, t.Name, timeout)
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		ctx, cancel := deadline.With(ctx, timeout, late)
		defer cancel()
		result, err := next(ctx, call)
		if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused && !isProtocolError(err) && context.Cause(ctx) == late {
			err = own(late)
		}
		return result, err
	}
}

// privately forbids public caches for what was read behind guards: a cache would serve it
// to callers that they refuse.
func privately(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		result, err := next(ctx, call)
		if err != nil {
			return nil, err
		}
		return forcePrivate(result)
	}
}

func forcePrivate(result mcp.Result) (mcp.Result, error) {
	var text []byte
	switch result := result.(type) {
	case nil:
		return nil, nil
	case *mcp.ReadResourceResult:
		if result.Scope != mcp.CachePublic {
			return result, nil
		}
		private := *result
		private.Scope = mcp.CachePrivate
		return &private, nil
	case mcp.Raw:
		text = result
	default:
		var err error
		if text, err = result.AppendJSON(nil); err != nil {
			return nil, err
		}
	}
	members, err := jsonscan.ReadObject(text)
	if err != nil || members.Get("cacheScope") == nil {
		return result, nil // it names no scope, or is no result, which its sender finds out
	}
	text, err = jsonscan.Splice(nil, text, jsonscan.Edit{Name: "cacheScope", Value: jsonscan.AppendString(nil, string(mcp.CachePrivate))})
	return mcp.Raw(text), err
}

// safely makes an error of a panic.
func safely(fn func() error) (err error) {
	defer recovered(&err)
	return fn()
}

// recovered makes an error of a panic. It is to be deferred.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &panicError{p, debug.Stack()}
	}
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }
