package transport

import "context"

type principalKey struct{}

// WithPrincipal returns a context that names an authenticated client. What
// authenticates requests, such as middleware around an HTTP handler, puts it
// there; transports bind sessions to it.
func WithPrincipal(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, principalKey{}, name)
}

// Principal is the name that [WithPrincipal] has put into the context, "" if
// none.
func Principal(ctx context.Context) string {
	name, _ := ctx.Value(principalKey{}).(string)
	return name
}
