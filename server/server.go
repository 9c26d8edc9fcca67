package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/seal"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// Options configure a [Server]. The zero value is good.
type Options struct {
	// Instructions tell a model how to use the server.
	Instructions string
	// PageSize is how many entries a list answer holds at most. 0 means all.
	PageSize int
	// CacheHint says how long clients may keep lists (2026-07-28). By default
	// not at all. Where a guard hides something, lists are private in any case.
	CacheHint mcp.CacheHint
	// Capabilities, when set, are declared as they are. By default a server
	// declares what has been registered, and logging.
	Capabilities *mcp.ServerCapabilities
	// StateKeys seal what a client carries between the rounds of a call that
	// asks: the first seals, all open. Each has at least 32 bytes. Replicas that
	// share them can continue each other's calls. By default one random key of
	// this process.
	StateKeys [][]byte
	// Around stands around everything that is registered here or mounted.
	Around Around
	// Lifespan is what the server depends on, in the order in which it is started;
	// see [Depend].
	Lifespan []Dependency
	// Logger takes what the server has to say to its operator: panics of
	// functions, and errors that clients are not shown. Default slog.Default().
	Logger *slog.Logger
}

// A Server offers tools, resources, prompts and completions to any number of
// clients. Use [New].
type Server struct {
	info     mcp.Implementation
	options  Options
	registry *registry
	provider *composite // of everything that is offered
	life     lifespan
	changes  hub
	invoke   mcp.Handler
	era      *era.Server

	description atomic.Pointer[described]
	listed      atomic.Pointer[lists]
	forms       sync.Map // of Go types to their *form
	stopping    chan struct{}
	stopOnce    sync.Once
	calls       callCounter
}

var _ transport.Binder = (*Server)(nil)

// New returns a server that offers nothing yet. It panics when a key in
// opts.StateKeys is too short.
func New(info mcp.Implementation, opts *Options) *Server {
	s := &Server{info: info, stopping: make(chan struct{})}
	if opts != nil {
		s.options = *opts
	}
	if s.options.Logger == nil {
		s.options.Logger = slog.Default()
	}
	keys, err := seal.NewRing(s.options.StateKeys...)
	if err != nil {
		panic(fmt.Sprintf("server.New: StateKeys: %v", err))
	}
	s.registry = &registry{server: s, around: s.options.Around.within(Around{})}
	s.registry.around.Outer = nil // they stand around all calls, lists too
	s.provider = &composite{server: s, own: s.registry}
	s.life.server = s
	if err := checkDependencies(s.options.Lifespan); err != nil {
		panic(fmt.Sprintf("server.New: Lifespan: %v", err))
	}
	s.invoke = wrap(s.options.Around.Outer, s.route)
	s.era = era.NewServer(core{s}, keys)
	return s
}

// Bind makes the handler of one link. Transports call it.
func (s *Server) Bind(link transport.Link) jsonrpc.Handler { return s.era.Bind(link) }

// Shutdown ends subscriptions, refuses new calls, waits until those that run have
// finished or ctx ends, and stops what was started, in reverse order. It does not
// close connections: their transports do. It may be called more than once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	err := await(ctx, s.calls.stop())
	return errors.Join(err, s.life.stop(ctx))
}

// core is the server as the eras see it.
type core struct{ *Server }

// Serve answers one call.
func (c core) Serve(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	if !c.calls.start() {
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the server is shutting down"}
	}
	defer c.calls.finish()
	return c.invoke(ctx, call)
}

// Watch reports changes.
func (c core) Watch(ctx context.Context, principal string, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (func(), error) {
	stop := c.changes.watch(principal, filter, notify)
	if len(c.provider.mounted()) == 0 {
		return stop, nil
	}
	stops := []func(){stop}
	all := func() {
		for _, stop := range stops {
			stop()
		}
	}
	for _, uri := range filter.ResourceSubscriptions {
		unsubscribe, err := c.provider.subscribe(ctx, uri)
		if err != nil {
			all()
			return nil, err
		}
		stops = append(stops, unsubscribe)
	}
	return all, nil
}

// Failed logs an error that its caller is not shown.
func (c core) Failed(method string, err error) error {
	return c.masked("a call failed", "method", method, "error", err)
}

// Stopping is closed when the server shuts down.
func (c core) Stopping() <-chan struct{} { return c.stopping }

// A callCounter knows whether calls run.
type callCounter struct {
	mu      sync.Mutex
	running int
	stopped bool
	idle    chan struct{}
}

func (c *callCounter) start() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	c.running++
	return true
}

func (c *callCounter) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	if c.stopped && c.running == 0 {
		close(c.idle)
	}
}

// stop lets no call start and returns a channel that is closed when none runs.
func (c *callCounter) stop() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.stopped, c.idle = true, make(chan struct{})
		if c.running == 0 {
			close(c.idle)
		}
	}
	return c.idle
}
