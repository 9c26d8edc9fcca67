package server

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Around is what stands around the function of a tool, prompt, resource, template
// or completion. A call passes the outer interceptors, the guards, the validation
// of its arguments, the error mappers and the inner interceptors, in this order, and
// then the function. What a server has stands around what a service has, and that
// around what the entry itself has.
type Around struct {
	// Outer interceptors see every call, the refused ones too: tracing, audit. The
	// first is outermost. Those of a server see lists as well, and may have
	// something else called; for those of an entry that has been decided.
	Outer []mcp.Middleware
	// Guards decide in their order whether the call may be made.
	Guards []Guard
	// Mappers turn errors of the function and of inner interceptors into results.
	// The entry's own are asked first. Those of a server see every error of what is
	// mounted but a guard's.
	Mappers []ErrorMapper
	// Inner interceptors see calls whose arguments are valid, and the results. The
	// first is outermost. One that changes the arguments comes too late, and ends the
	// call: they have been decoded. What is mounted validates them later, within those of a server.
	Inner []mcp.Middleware
	// Metadata is for guards and functions; it is never sent. What is nearer to
	// the function wins, but scopes ([MetadataScopes]) add up, as guards do.
	Metadata map[string]any
}

// An ErrorMapper turns an error into a result, for example one that tells the model
// what to do instead. It returns nil to leave the error to others, or an error to
// replace it. A question to the caller is not shown to it.
type ErrorMapper func(ctx context.Context, r *Request, err error) (mcp.Result, error)

// within returns what stands around an entry that is within more: a copy.
func (a Around) within(more Around) Around {
	return Around{
		Outer:    slices.Concat(more.Outer, a.Outer),
		Guards:   slices.Concat(more.Guards, a.Guards),
		Mappers:  slices.Concat(a.Mappers, more.Mappers),
		Inner:    slices.Concat(more.Inner, a.Inner),
		Metadata: overlaid(more.Metadata, maps.Clone(a.Metadata)),
	}
}

// overlaid is metadata with what is nearer to the function. No scope is lost.
func overlaid(outer, nearer map[string]any) map[string]any {
	if len(outer) == 0 {
		return nearer
	}
	merged := maps.Clone(outer)
	maps.Copy(merged, nearer)
	if scopes := addScopes(slices.Clone(scopesOf(outer)), scopesOf(nearer)); len(scopes) > 0 {
		merged[MetadataScopes] = scopes
	}
	return merged
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
func (a *attended) metadata() map[string]any  { return a.around.Metadata }

// attend has a call pass what stands around a function, which validates the
// arguments itself.
func (a *attended) attend(ctx context.Context, s *Server, call *mcp.Call, fn func(ctx context.Context, r *Request) (mcp.Result, error)) (mcp.Result, error) {
	if len(a.around.Outer) == 0 {
		return a.admit(ctx, &Request{call: call, server: s, entry: a}, fn)
	}
	invoke := mcp.Handler(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
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
	return r.server.guarded(a.of, func() (mcp.Result, error) {
		result, err := fn(ctx, r)
		if err == nil && len(a.around.Guards) > 0 && a.of.isRead() {
			return unshared(result)
		}
		return result, err
	})
}

// inner runs a function whose arguments have been decoded, within the inner
// interceptors and the error mappers.
func inner[In any](ctx context.Context, r *Request, in In, fn func(ctx context.Context, r *Request, in In) (mcp.Result, error)) (mcp.Result, error) {
	around := &r.entry.around
	if len(around.Inner)+len(around.Mappers) == 0 {
		return fn(ctx, r, in)
	}
	result, err := wrap(around.Inner, func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if call != r.call && !bytes.Equal(call.Member("arguments"), r.call.Member("arguments")) {
			return nil, errChangedTooLate
		}
		return fn(ctx, r, in)
	})(ctx, r.call)
	if err != nil {
		return mapped(ctx, r, err)
	}
	return result, nil
}

// errChangedTooLate is the fate of a call whose arguments an inner interceptor has changed:
// who stands between there and here, such as somebody who approves, saw other ones than
// the function would get.
var errChangedTooLate = &jsonrpc.Error{
	Code: jsonrpc.InternalError, Message: "an interceptor of the server has changed the arguments after they had been read",
}

// mapped asks the mappers for a result. Questions and denials are not for them.
func mapped(ctx context.Context, r *Request, err error) (mcp.Result, error) {
	_, asks := mcp.AsInputRequired(err)
	if _, denied := errors.AsType[*denial](err); asks || denied {
		return nil, err
	}
	for _, mapper := range r.entry.around.Mappers {
		if result, mapped := mapper(ctx, r, err); result != nil || mapped != nil {
			return result, mapped
		}
	}
	return nil, err
}

func wrap(interceptors []mcp.Middleware, invoke mcp.Handler) mcp.Handler {
	for _, intercept := range slices.Backward(interceptors) {
		invoke = intercept(invoke)
	}
	return invoke
}
