package servertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/internal/test/memnet"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// dialer returns the dialer of the mode.
func (c *connection) dialer() transport.Dialer {
	c.Helper()
	options := jsonrpc.Options{}
	if c.options.Transcript != "" {
		c.recorder = newRecorder(c.options.Volatile)
		options.Trace = c.recorder.trace
	}
	if c.options.Fault != nil {
		c.faults = newFaults(c.options.Fault)
		options.Wrap = c.faults.wrap
	}
	switch mode := c.options.Mode.Transport; mode {
	case "", pipe:
		return &streamDialer{c, options, transport.NewPipe}
	case stdioLines:
		return &streamDialer{c, options, newLines}
	case streamableHTTP:
		web := c.serve(streamable.Handler(c.server, nil))
		return streamable.Dial(serverURL, &streamable.DialOptions{HTTPClient: web, Conn: options})
	case httpSSE:
		web := c.serve(sse.Handler(c.server, nil))
		return sse.Dial(serverURL, &sse.DialOptions{HTTPClient: web, Conn: options})
	case webSocket:
		web := c.serve(ws.Handler(c.server, nil))
		return ws.Dial(serverURL, &ws.DialOptions{HTTPClient: web, Conn: options})
	default:
		c.Fatalf("servertest: unknown transport %q", mode)
		return nil
	}
}

// serverURL is the URL of an HTTP server in memory. Its host is one that endpoints accept by default.
const serverURL = "http://localhost/mcp"

// serve serves an endpoint on a network in memory, and returns a client of that network.
func (c *connection) serve(endpoint interface {
	http.Handler
	io.Closer
}) *http.Client {
	var requests sync.WaitGroup // Serve does not wait for those that have opened a WebSocket
	web := httptransport.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		defer requests.Done()
		ctx := c.watch(r.Context())
		if c.options.Principal != "" {
			ctx = transport.WithPrincipal(ctx, c.options.Principal)
		}
		if c.options.Scopes != nil {
			ctx = transport.WithAuthorizer(ctx, c.authorize)
		}
		endpoint.ServeHTTP(w, r.WithContext(ctx))
	}))
	network := memnet.New()
	served := make(chan error, 1)
	go func() { served <- web.Serve(network) }()
	client := httptransport.NewClient(func(settings *http.Transport) {
		settings.Proxy, settings.DialContext = nil, network.DialContext
	})
	dialer := client.Transport.(*http.Transport)
	endFaults := func() {}
	if c.faults != nil && c.options.Mode.Transport == streamableHTTP {
		faulty := newFaultyTransport(dialer, c.faults)
		client.Transport, endFaults = faulty, faulty.close
	}
	c.stop = func(stuck bool) {
		endFaults()
		err := errors.Join(endpoint.Close(), web.Close())
		dialer.CloseIdleConnections()
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		if !stuck {
			requests.Wait()
		}
		network.Cut()
		if err != nil {
			c.Errorf("servertest: stop the HTTP server: %v", err)
		}
	}
	return client
}

// A scopeProvider is a server that knows the scopes of its calls, such as a *server.Server. A connection looks for it on
// the server. Without it, [Options].Scopes has no effect.
type scopeProvider interface {
	Scopes(method, name string) []string
}

// authorize checks the scopes of a call.
func (c *connection) authorize(_ context.Context, req *jsonrpc.Request) error {
	if c.options.Scopes == nil {
		return nil
	}
	scoped, ok := c.server.(scopeProvider)
	if !ok {
		return nil
	}
	needed := scoped.Scopes(req.Method, mcp.Subject(req.Method, req.Member))
	for _, uri := range mcp.SubscribedURIs(req.Method, req.Member) {
		needed = slices.Concat(needed, scoped.Scopes(mcp.MethodResourcesSubscribe, uri))
	}
	if !slices.ContainsFunc(needed, func(scope string) bool { return !slices.Contains(c.options.Scopes, scope) }) {
		return nil
	}
	return &transport.ScopeError{Scopes: needed}
}

// A streamDialer connects by two streams in memory.
type streamDialer struct {
	*connection
	conn    jsonrpc.Options
	streams func() (near, far jsonrpc.Stream)
}

// Dial starts both ends of a connection.
func (d *streamDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	near, far := d.streams()
	opts := d.conn
	opts.SkipMalformed, opts.Drain = true, -1
	conn := &streamConn{Conn: jsonrpc.NewConn(near, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &opts)}
	conn.served = d.bind(far)
	conn.running.Go(func() { _ = conn.Run(context.Background()) }) // ends when the stream is closed
	conn.running.Go(func() { _ = conn.served.Run(d.watch(context.Background())) })
	return conn, nil
}

// bind returns the server's end of a stream.
func (c *connection) bind(stream jsonrpc.Stream) *jsonrpc.Conn {
	return jsonrpc.NewConn(stream, func(served *jsonrpc.Conn) jsonrpc.Handler {
		return c.server.Bind(transport.Link{Peer: served, Input: served.Input(), Go: served.Go, Principal: c.options.Principal})
	}, &jsonrpc.Options{Authorize: c.authorize})
}

// A streamConn is the client's end. It closes both ends.
type streamConn struct {
	*jsonrpc.Conn
	served  *jsonrpc.Conn
	running sync.WaitGroup
}

// Close closes both ends and waits for them.
func (c *streamConn) Close() error {
	err := errors.Join(c.Conn.Close(), c.served.Close())
	c.running.Wait()
	return err
}

// newLines returns two streams of lines, like the standard streams of a child process.
func newLines() (near, far jsonrpc.Stream) {
	input, toServer := io.Pipe()
	output, toClient := io.Pipe()
	near = jsonrpc.NewLines(output, toServer, closers{output, toServer}, 0)
	far = jsonrpc.NewLines(input, toClient, closers{input, toClient}, 0)
	return near, far
}

type closers []io.Closer

// Close closes all of them.
func (c closers) Close() error {
	var errs []error
	for _, closer := range c {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}
