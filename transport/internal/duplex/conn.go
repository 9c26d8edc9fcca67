package duplex

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// ServerOptions completes the options of a server's connection: calls need the authorization
// of [transport.Authorize], and malformed messages are logged unless conn has a function for
// them. Drain is off, since no answer can be sent after the stream has ended.
func ServerOptions(conn jsonrpc.Options, logger *slog.Logger) jsonrpc.Options {
	conn.Drain = -1
	conn.Authorize = transport.AuthorizeBefore(conn.Authorize)
	if conn.Malformed == nil {
		conn.Malformed = LogMalformed(logger)
	}
	return conn
}

// ClientOptions completes the options of a client's connection: it skips malformed messages
// and logs them unless conn has a function for them, and Drain is off.
func ClientOptions(conn jsonrpc.Options, logger *slog.Logger) jsonrpc.Options {
	conn = conn.WithDefaults()
	conn.SkipMalformed = true
	conn.Drain = -1
	if conn.Malformed == nil {
		conn.Malformed = LogMalformed(logger)
	}
	return conn
}

// LogMalformed returns a [jsonrpc.Options].Malformed that logs samples, since a peer can send any
// number of malformed messages. The level is Warn, and Info for responses without a pending call,
// which are usual after a timeout. Calls that were not answered are always logged.
func LogMalformed(logger *slog.Logger) func(error) {
	malformed, unexpected := quota.NewSamples(logger), quota.NewSamples(logger)
	return func(err error) {
		if _, ok := errors.AsType[*jsonrpc.UnexpectedResponseError](err); ok {
			unexpected.Log(slog.LevelInfo, "unexpected response", "error", err)
			return
		}
		if _, ok := errors.AsType[*jsonrpc.UnansweredError](err); ok {
			logger.Warn("calls were not answered", "error", err)
			return
		}
		malformed.Log(slog.LevelWarn, "malformed message", "error", err)
	}
}

// Serve binds server to a connection over stream. The caller runs the connection.
// principal is the authenticated client, or "", and network is its address, if it has one. limits counts the calls; nil
// means that there are no other connections.
func Serve(stream jsonrpc.Stream, server transport.Binder, principal, network string, opts *jsonrpc.Options, limits *quota.Endpoint) *jsonrpc.Conn {
	if limits != nil {
		limited := *opts
		limited.Limiter = limits.Client(quota.HolderOf(principal, network))
		opts = &limited
	}
	return jsonrpc.NewConn(stream, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return server.Bind(transport.Link{Peer: c, Input: c.Input(), Go: c.Go, Principal: principal, Network: network})
	}, opts)
}

// Conn is the client's end of a connection. Errors of calls that fail because the
// connection has ended contain the reason.
type Conn struct {
	*jsonrpc.Conn
	reason func() error
	done   chan struct{} // closed when Run and ended have returned
}

// Dial returns a connection over stream and runs it. reason returns why the connection has
// ended, or nil if this side closed it; the error must be [jsonrpc.ErrClosed] under
// errors.Is. ended, if not nil, is called once when the connection has ended.
func Dial(stream jsonrpc.Stream, handler jsonrpc.Handler, opts *jsonrpc.Options, reason func() error, ended func()) *Conn {
	c := &Conn{reason: reason, done: make(chan struct{})}
	c.Conn = jsonrpc.NewConn(stream, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, opts)
	go func() {
		defer close(c.done)
		if ended != nil {
			defer ended()
		}
		_ = c.Run(context.Background()) // reason says more
	}()
	return c
}

// Close ends the connection and waits until nothing of it runs.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	<-c.done
	return err
}

// Done is closed when the connection has ended and nothing of it runs.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Call sends a request and waits for its response.
func (c *Conn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	return resp, Explain(err, c.reason)
}

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	return Explain(c.Conn.Notify(ctx, method, params), c.reason)
}

// Explain replaces the cause of a *[jsonrpc.CallError] that is [jsonrpc.ErrClosed] with
// the reason, unless that is nil. It returns any other error unchanged.
func Explain(err error, reason func() error) error {
	failed, ok := errors.AsType[*jsonrpc.CallError](err)
	if !ok || !errors.Is(failed.Err, jsonrpc.ErrClosed) {
		return err
	}
	if cause := reason(); cause != nil {
		return &jsonrpc.CallError{Method: failed.Method, Delivery: failed.Delivery, Err: cause}
	}
	return err
}
