package transport

import (
	"context"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// An Admission says whether its client may make a call: nil if so. The error is a
// *[ScopeError] if a token with more scopes would do, and is told to the client as
// [jsonrpc.Handler] has it. It may be called concurrently.
type Admission func(ctx context.Context, req *jsonrpc.Request) error

type admissionKey struct{}

// WithAdmission returns a context in which calls have to be admitted. What authenticates
// requests, such as middleware around an HTTP handler, puts it there; the transports that
// take its requests ask it about each call, before a server sees it.
func WithAdmission(ctx context.Context, admit Admission) context.Context {
	return context.WithValue(ctx, admissionKey{}, admit)
}

// Admit asks what [WithAdmission] has put into the context about a call. Without it every
// call may be made.
func Admit(ctx context.Context, req *jsonrpc.Request) error {
	admit, _ := ctx.Value(admissionKey{}).(Admission)
	if admit == nil {
		return nil
	}
	return admit(ctx, req)
}

// AdmitBefore is the [jsonrpc.Options].Admit of a transport whose messages all come one
// way: it asks as [Admit] does, and then what the options had, nil for nothing.
func AdmitBefore(next func(ctx context.Context, req *jsonrpc.Request) error) func(ctx context.Context, req *jsonrpc.Request) error {
	if next == nil {
		return Admit
	}
	return func(ctx context.Context, req *jsonrpc.Request) error {
		if err := Admit(ctx, req); err != nil {
			return err
		}
		return next(ctx, req)
	}
}
