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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

const (
	// defaultShutdownTimeout is how long [Serve] waits for calls to finish.
	defaultShutdownTimeout = 10 * time.Second
)

// ServeOptions configures [Serve], [ServeTLS] and [Run]. The zero value is valid.
type ServeOptions struct {
	// Options configures the endpoint; see [Handler].
	Options
	// Path is the path of the endpoint, with and without a slash at its end. Default "/mcp".
	Path string
	// Wrap returns the handler to serve instead of the endpoint, for example one that
	// authenticates callers first. It gets the requests for Path. A handler of package oauth, or of its proxy, also
	// gets those for the metadata and the endpoints that it serves, if no other handler is around it. Serve calls Wrap
	// once, before it listens, and returns an error if Wrap returns nil: so Wrap returns nil if it fails. Default: the
	// endpoint itself.
	Wrap func(endpoint http.Handler) http.Handler
	// Other handles requests for all other paths. Default: status 404.
	Other http.Handler
	// MaxStreams is the maximum number of concurrent requests on one connection of HTTP/2,
	// streams included. A client that needs more opens another connection. A request that the
	// client has reset counts until its call has ended, so that resets start no more calls
	// than that. Default 128.
	MaxStreams int
	// ShutdownTimeout bounds how long calls may take to finish after the context has ended.
	// Default 10 s.
	ShutdownTimeout time.Duration
	// ReadyPath is the path at which the state is served to balancers and orchestrators, without Wrap:
	// status 200 if the server accepts calls, and 503 while it starts and from the end of the context
	// on. Default "/readyz".
	ReadyPath string
	// Drain is how long calls are still accepted after the context has ended, so that balancers notice
	// that the server is not ready. If the MCP server has a store, other replicas serve its sessions. Then the
	// web server ends listening before it refuses calls, so that a balancer that only notices connections
	// loses no call. This takes at most twice as long as Drain, and at most 2 s. Default 0.
	Drain time.Duration
	// OnShutdown is called when calls have finished, before connections are closed, to end
	// the streams and WebSockets of Other. Serve returns its error.
	OnShutdown func() error
	// OnListen is called with the address when the server accepts connections. Default: the
	// address is logged.
	OnListen func(address net.Addr)
}

// Serve serves an MCP server over HTTP at an address such as ":8080" or "127.0.0.1:0". It
// blocks until ctx ends, the server fails to start or is shut down by something else, or the web
// server fails. opts may be nil. Calls that arrive while the server starts wait for it; pings and
// handshakes do not.
//
// When ctx ends, Serve first goes on for the time of Drain. With a store, it then ends listening and answers the
// requests of the connections that it has. Then, or when the server is shut down, it refuses new calls, waits at most
// ShutdownTimeout for calls in progress, and closes sessions and connections. It returns nil if all of that succeeds.
//
// The returned error joins the errors of listening, starting, serving and shutting down. Serve panics, as [Handler]
// does, if an option is malformed.
func Serve(ctx context.Context, address string, server transport.Server, opts *ServeOptions) error {
	return serve(ctx, address, server, opts, (*http.Server).Serve)
}

// ServeTLS is like [Serve], but accepts only HTTPS. config must contain certificates. ServeTLS does not modify it.
func ServeTLS(ctx context.Context, address string, server transport.Server, config *tls.Config, opts *ServeOptions) error {
	return serve(ctx, address, server, opts, func(web *http.Server, listener net.Listener) error {
		web.TLSConfig = config.Clone() // package net/http changes it
		return web.ServeTLS(listener, "", "")
	})
}

// serve implements Serve and ServeTLS. accept serves the connections of a listener. It is a parameter and not an option,
// since otherwise every program contained the server side of package crypto/tls.
func serve(ctx context.Context, address string, server transport.Server, opts *ServeOptions, accept func(*http.Server, net.Listener) error) (err error) {
	o := *cmp.Or(opts, &ServeOptions{})
	o.Logger = cmp.Or(o.Logger, slog.Default())
	endpoint := Handler(server, &o.Options)
	defer func() { err = errors.Join(err, endpoint.Close()) }()
	handler, err := o.route(endpoint, readiness(ctx, server))
	if err != nil {
		return errors.Join(err, shutdown(ctx, server, &o))
	}
	var listening net.ListenConfig
	listening.SetMultipathTCP(false) // its sockets have no filters, which a drain needs
	listener, err := listening.Listen(ctx, "tcp", address)
	if err != nil {
		return errors.Join(fmt.Errorf("streamable: %w", err), shutdown(ctx, server, &o))
	}
	if o.OnListen == nil {
		o.OnListen = func(address net.Addr) { o.Logger.Info("serving MCP", "address", address.String(), "path", o.path()) }
	}
	web := httptransport.NewServer(handler)
	web.ErrorLog = slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn)
	web.HTTP2.MaxConcurrentStreams = cmp.Or(o.MaxStreams, web.HTTP2.MaxConcurrentStreams)
	var draining *drain
	if tcp, ok := listener.(*net.TCPListener); ok && o.Drain > 0 && endpoint.sessions.Shared() {
		draining = newDrain(tcp)
		listener, web.ConnState, web.ConnContext, web.Handler = draining, draining.track, withConn, draining.wrap(ctx, web.Handler)
	}
	served := make(chan error, 1)
	go func() {
		defer close(served)
		served <- accept(web, listener)
	}()
	o.OnListen(listener.Addr())
	var failure error
	if err := server.Start(ctx); err == nil {
		failure = o.wait(ctx, server, served)
	} else if ctx.Err() == nil && !hasStopped(server) {
		failure = fmt.Errorf("streamable: starting the server: %w", err)
	}
	if draining != nil && failure == nil {
		failure = draining.end(web, served, o.Drain, o.Logger)
	}
	// First the server, since the answers of calls need their sessions. Then the endpoint,
	// since the web server waits for streams.
	stopped := shutdown(ctx, server, &o)
	if stopped == nil {
		endpoint.sessions.WaitForReplies() // a call has ended before its reply is sent
	}
	err = errors.Join(failure, stopped, endpoint.Close(), o.closeOther(), closeWeb(ctx, web))
	if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// Run calls [Serve] until the process receives an interrupt or SIGTERM. It returns nil
// after a graceful shutdown.
func Run(address string, server transport.Server, opts *ServeOptions) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Serve(ctx, address, server, opts)
}

// wait waits until ctx ends, and then for the time of Drain, or until the server is shut down or the
// web server fails.
func (o *ServeOptions) wait(ctx context.Context, server transport.Server, served <-chan error) error {
	ended, drained := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case err := <-served:
			return fmt.Errorf("streamable: %w", err)
		case <-server.Stopping():
			return nil
		case <-drained:
			return nil
		case <-ended:
			if o.Drain <= 0 {
				return nil
			}
			o.Logger.Info("not ready; calls are accepted until other servers get them", "for", o.Drain)
			ended, drained = nil, time.After(o.Drain)
		}
	}
}

// hasStopped reports whether a shutdown of the server has begun.
func hasStopped(server transport.Server) bool {
	select {
	case <-server.Stopping():
		return true
	default:
		return false
	}
}

// readiness serves whether a server accepts calls, and will do so for longer than Drain. It gives no
// reason, since callers are not authenticated.
func readiness(ctx context.Context, server transport.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil || server.Ready() != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
}

func (o *ServeOptions) path() string { return cmp.Or(o.Path, "/mcp") }

func (o *ServeOptions) closeOther() error {
	if o.OnShutdown == nil {
		return nil
	}
	return o.OnShutdown()
}

func (o *ServeOptions) route(endpoint, ready http.Handler) (http.Handler, error) {
	if o.Wrap != nil {
		if endpoint = o.Wrap(endpoint); endpoint == nil {
			return nil, errors.New("streamable: ServeOptions.Wrap has returned no handler")
		}
	}
	mux := http.NewServeMux()
	path := strings.TrimSuffix(o.path(), "/")
	if path != "" {
		mux.Handle(path, endpoint)
	}
	mux.Handle(path+"/{$}", endpoint) // many clients are configured with a slash
	mux.Handle("GET "+cmp.Or(o.ReadyPath, "/readyz"), ready)
	if o.Other != nil {
		mux.Handle("/", o.Other)
	}
	served := httpguard.ServedPaths(endpoint)
	if len(served) == 0 {
		return mux, nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(served, r.URL.Path) {
			endpoint.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

func shutdown(ctx context.Context, server transport.Server, o *ServeOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(o.ShutdownTimeout, defaultShutdownTimeout))
	defer cancel()
	return server.Shutdown(ctx)
}

// closeWeb lets requests finish for a second. The remaining connections have had no
// request: browsers and Node open some in advance.
func closeWeb(ctx context.Context, web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if web.Shutdown(ctx) == nil {
		return nil
	}
	return web.Close()
}
