package streamable

import (
	"context"
	"fmt"
	"net/url"

	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Dial returns a dialer for the server at an http or https URL. Its connections
// are idle until they are called. They send a request that names its protocol
// version in _meta as MCP 2026-07-28 has it, on its own; any other belongs to the
// session that "initialize" opens (2025-03-26 to 2025-11-25), whose streams are
// taken up again when they break. A server that refuses "initialize" as HTTP, and
// not as JSON-RPC, is tried by HTTP+SSE (2024-11-05) at the same URL.
//
// Each call has a stream of its own, so the handler is notified concurrently: in
// order within a stream, and before the call returns that the stream answers.
//
// Redirects are followed three times at most, within the origin, and only if they
// keep the request as it is. A failed call says how far it got
// (*[jsonrpc.CallError]); what HTTP had to say is a *[StatusError] in it.
func Dial(url string, opts *DialOptions) transport.Dialer {
	d := &dialer{opts: opts.withDefaults()}
	d.url, d.err = webclient.ParseURL(url)
	d.client = webclient.New(d.opts.HTTPClient, d.opts.Header)
	d.client.AuthorizeBy(d.opts.Authorizer, d.url)
	return d
}

// A dialer is what its connections share.
type dialer struct {
	url    *url.URL
	err    error // what is wrong with the URL
	opts   DialOptions
	client *webclient.Client
}

// Dial returns a connection. It sends nothing yet.
func (d *dialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if d.err != nil {
		return nil, fmt.Errorf("streamable: %w", d.err)
	}
	d.client.Acquire()
	return newClientConn(d, handler), nil
}
