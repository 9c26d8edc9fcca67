package server

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// Around is what stands around the function of a tool, prompt, resource, template
// or completion. A call passes the outer interceptors, the guards, the validation
// of its arguments, the error mappers and the inner interceptors, in this order, and
// then the function. What a server has stands around what a service has, and that
// around what the entry itself has.
type Around struct {
	// Outer interceptors see every call, the refused ones too: tracing, audit. The
	// first is outermost. Those of a server see lists as well.
	Outer []mcp.Interceptor
	// Guards decide in their order whether the call may be made.
	Guards []Guard
	// Mappers turn errors of the function and of inner interceptors into results.
	// The entry's own are asked first.
	Mappers []ErrorMapper
	// Inner interceptors see calls whose arguments are valid, and the results. The
	// first is outermost. That one changes the arguments comes too late: they have
	// been decoded.
	Inner []mcp.Interceptor
	// Metadata is for guards and functions; it is never sent. What is nearer to
	// the function wins.
	Metadata map[string]any
}

// An ErrorMapper turns an error into a result, for example one that tells the model
// what to do instead. It returns nil to leave the error to others, or an error to
// replace it. A question to the caller is not shown to it.
type ErrorMapper func(ctx context.Context, r *Request, err error) (mcp.Result, error)

// within returns what stands around an entry that is within more.
func (a Around) within(more Around) Around {
	if len(more.Metadata) > 0 {
		merged := maps.Clone(more.Metadata)
		maps.Copy(merged, a.Metadata)
		a.Metadata = merged
	}
	return Around{
		Outer:    slices.Concat(more.Outer, a.Outer),
		Guards:   slices.Concat(more.Guards, a.Guards),
		Mappers:  slices.Concat(a.Mappers, more.Mappers),
		Inner:    slices.Concat(more.Inner, a.Inner),
		Metadata: a.Metadata,
	}
}

// An attended function is that of an entry, with all that stands around it.
type attended struct {
	of       entryKey
	around   Around
	required []reflect.Type // of dependencies
}

func (a *attended) key() entryKey             { return a.of }
func (a *attended) needs() []reflect.Type     { return a.required }
func (a *attended) need(types []reflect.Type) { a.required = types }

// attend has a call pass what stands around a function, which validates the
// arguments itself.
func (a *attended) attend(ctx context.Context, s *Server, call *mcp.Call, fn func(ctx context.Context, r *Request) (mcp.Result, error)) (mcp.Result, error) {
	if len(a.around.Outer) == 0 {
		return a.admit(ctx, &Request{call: call, server: s, entry: a}, fn)
	}
	invoke := mcp.Invoker(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		return a.admit(ctx, &Request{call: call, server: s, entry: a}, fn)
	})
	return wrap(a.around.Outer, invoke)(ctx, call)
}

// admit asks the guards, and runs the function if they all allow it.
func (a *attended) admit(ctx context.Context, r *Request, fn func(ctx context.Context, r *Request) (mcp.Result, error)) (mcp.Result, error) {
	for i := range a.around.Guards {
		if err := a.around.Guards[i].check(ctx, r); err != nil {
			return nil, err
		}
	}
	result, err := r.server.guarded(a.of, func() (mcp.Result, error) { return fn(ctx, r) })
	if err != nil && len(a.around.Mappers) > 0 {
		return a.mapped(ctx, r, err)
	}
	return result, err
}

func (a *attended) mapped(ctx context.Context, r *Request, err error) (mcp.Result, error) {
	if _, asks := mcp.AsInputRequired(err); asks {
		return nil, err
	}
	for _, mapper := range a.around.Mappers {
		result, mapped := r.server.guarded(a.of, func() (mcp.Result, error) { return mapper(ctx, r, err) })
		switch {
		case mapped != nil:
			return nil, mapped
		case result != nil:
			return result, nil
		}
	}
	return nil, err
}

// inner runs a function whose arguments have been decoded, within the inner
// interceptors.
func inner[In any](ctx context.Context, r *Request, in In, fn func(ctx context.Context, r *Request, in In) (mcp.Result, error)) (mcp.Result, error) {
	if len(r.entry.around.Inner) == 0 {
		return fn(ctx, r, in)
	}
	return wrap(r.entry.around.Inner, func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
		return fn(ctx, r, in)
	})(ctx, r.call)
}

func wrap(interceptors []mcp.Interceptor, invoke mcp.Invoker) mcp.Invoker {
	for _, intercept := range slices.Backward(interceptors) {
		invoke = intercept(invoke)
	}
	return invoke
}
