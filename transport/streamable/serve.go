package streamable

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/transport"
)

// DefaultShutdownTimeout is how long [Serve] waits for calls to finish.
const DefaultShutdownTimeout = 10 * time.Second

// ServeOptions configure [Serve] and [Run]. The zero value is good.
type ServeOptions struct {
	// Options are those of the endpoint; see [Handler].
	Options
	// Path is the path of the endpoint. Default "/mcp".
	Path string
	// Wrap returns the handler to use in place of the endpoint, for example one that
	// authenticates callers first. Default: the endpoint itself.
	Wrap func(endpoint http.Handler) http.Handler
	// Other handles requests for all other paths. Default: they are answered with 404.
	Other http.Handler
	// TLS has the server accept HTTPS only. Default: HTTP.
	TLS *tls.Config
	// ShutdownTimeout bounds how long calls may take to finish once the context has
	// ended. Default [DefaultShutdownTimeout].
	ShutdownTimeout time.Duration
	// OnShutdown is called when calls have finished, to end streams and sockets of Other
	// before the connections are closed. Its error is one of Serve.
	OnShutdown func() error
	// OnListen is called with the address as soon as connections are accepted. By default
	// the address is logged.
	OnListen func(address net.Addr)
}

// Serve serves a server over HTTP at an address such as ":8080" or "127.0.0.1:0", until
// ctx ends, which is nil, or the server cannot start, or the web server fails. Calls that
// come while the server starts wait for that; pings and handshakes do not. In the end the
// server is shut down: new calls are refused, calls that run may finish within
// ShutdownTimeout, then sessions and connections are closed.
//
// The error is that of starting, listening, serving or shutting down. Serve panics, as
// [Handler] does, when an option is malformed. opts may be nil.
func Serve(ctx context.Context, address string, server transport.Server, opts *ServeOptions) (err error) {
	var o ServeOptions
	if opts != nil {
		o = *opts
	}
	o.Logger = cmp.Or(o.Logger, slog.Default())
	endpoint := Handler(server, &o.Options)
	defer func() { err = errors.Join(err, endpoint.Close()) }()
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Join(fmt.Errorf("streamable: %w", err), shutdown(ctx, server, &o))
	}
	if o.OnListen == nil {
		o.OnListen = func(address net.Addr) { o.Logger.Info("serving MCP", "address", address.String(), "path", o.path()) }
	}
	web := &http.Server{
		Handler: o.route(endpoint), TLSConfig: o.TLS,
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() {
		defer close(served)
		if o.TLS != nil {
			served <- web.ServeTLS(listener, "", "")
		} else {
			served <- web.Serve(listener)
		}
	}()
	o.OnListen(listener.Addr())
	var failure error
	if err := server.Start(ctx); err != nil && ctx.Err() == nil {
		failure = fmt.Errorf("streamable: starting the server: %w", err)
	} else {
		select {
		case err := <-served:
			failure = fmt.Errorf("streamable: %w", err)
		case <-ctx.Done():
		}
	}
	// The server before the endpoint: the answers of calls still need their sessions. The
	// endpoint before the web server, which would wait for streams.
	err = errors.Join(failure, shutdown(ctx, server, &o), endpoint.Close(), o.closeOther(), closeWeb(ctx, web))
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// Run is [Serve] until the process gets an interrupt or SIGTERM, which is nil.
func Run(address string, server transport.Server, opts *ServeOptions) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Serve(ctx, address, server, opts)
}

func (o *ServeOptions) path() string { return cmp.Or(o.Path, "/mcp") }

func (o *ServeOptions) closeOther() error {
	if o.OnShutdown == nil {
		return nil
	}
	return o.OnShutdown()
}

func (o *ServeOptions) route(endpoint http.Handler) http.Handler {
	if o.Wrap != nil {
		endpoint = o.Wrap(endpoint)
	}
	mux := http.NewServeMux()
	mux.Handle(o.path(), endpoint)
	if o.Other != nil {
		mux.Handle("/", o.Other)
	}
	return mux
}

func shutdown(ctx context.Context, server transport.Server, o *ServeOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(o.ShutdownTimeout, DefaultShutdownTimeout))
	defer cancel()
	return server.Shutdown(ctx)
}

// closeWeb lets requests finish for a second. What is left then are connections on which
// nothing has been sent: browsers and Node open some in advance.
func closeWeb(ctx context.Context, web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if web.Shutdown(ctx) == nil {
		return nil
	}
	return web.Close()
}
