package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
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
	// not at all. Lists that differ between callers are private in any case.
	CacheHint mcp.CacheHint
	// Capabilities, when set, are declared as they are. By default a server
	// declares what has been registered, and logging.
	Capabilities *mcp.ServerCapabilities
	// StateKeys seal what a client carries between the rounds of a call that
	// asks: the first seals, all open. Each has at least 32 bytes. Replicas that
	// share them can continue each other's calls. By default one random key of
	// this process.
	StateKeys [][]byte
	// Middleware surrounds every request that is not the protocol's own, lists and refused
	// calls included; the first is outermost. It sees what a call is for as
	// [mcp.Call.Target]. A call that it passes on with another name is for what has that
	// name.
	Middleware []mcp.Middleware
	// Guards and CallMiddleware surround everything that is registered or mounted here,
	// outside of the guards and middleware of that.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that all calls need, in addition to their own; Metadata is
	// in the targets of all calls, where an entry's own wins.
	Scopes   []string
	Metadata map[string]any
	// Dependencies are started in their order before the server answers calls, and stopped
	// in reverse order; see [Provide].
	Dependencies []Dependency
	// Logger takes messages for the operator: panics of functions, errors that clients
	// are not shown, refusals of guards. Default slog.Default().
	Logger *slog.Logger
}

// A Server offers tools, resources, prompts and completions to any number of
// clients. Use [New].
type Server struct {
	info     mcp.Implementation
	options  Options
	registry *registry
	mounts   atomic.Pointer[[]*mount]
	merged   atomic.Pointer[Catalog] // the last one, if anything is mounted
	exported *mapping
	life     lifecycle
	changes  changes
	handle   mcp.Handler // Middleware around dispatch
	era      *era.Server

	forms    sync.Map // of Go types to their *form
	stopping chan struct{}
	stopOnce sync.Once
	calls    callCounter

	recheckIn func(ctx context.Context, t *mcp.Target) error // the method recheck
}

var _ transport.Binder = (*Server)(nil)

// New returns a server that offers nothing yet. It panics when the options are wrong: a key
// in StateKeys that is too short, a guard without functions, two dependencies of one type.
func New(info mcp.Implementation, opts *Options) *Server {
	s := &Server{info: info, stopping: make(chan struct{})}
	if opts != nil {
		s.options = *opts
		s.options.Guards, s.options.CallMiddleware = slices.Clone(opts.Guards), slices.Clone(opts.CallMiddleware)
	}
	if s.options.Logger == nil {
		s.options.Logger = slog.Default()
	}
	keys, err := seal.NewRing(s.options.StateKeys...)
	if err != nil {
		err = fmt.Errorf("StateKeys: %w", err)
	}
	if err := errors.Join(err, checkGuards(s.options.Guards), checkDependencies(s.options.Dependencies)); err != nil {
		panic(fmt.Sprintf("server.New: %v", err))
	}
	s.registry = &registry{server: s}
	s.exported = newMapping(s.export)
	s.life.server = s
	s.recheckIn = s.recheck
	s.handle = wrap(compose(nil, s.options.Middleware), s.dispatch)
	s.era = era.NewServer(core{s}, keys)
	return s
}

// Bind makes the handler of one link. Transports call it.
func (s *Server) Bind(link transport.Link) jsonrpc.Handler { return s.era.Bind(link) }

// Catalog returns all that the server offers now, what is mounted included. It does not
// wait. The same catalog is returned until something changes.
func (s *Server) Catalog() *Catalog {
	mounts := s.mounted()
	if len(mounts) == 0 {
		return s.registry.catalog()
	}
	var room [8]Part // for the usual case, without an allocation
	parts := append(room[:0], Part{ownPart, s.registry.catalog()})
	for _, m := range mounts {
		parts = append(parts, m.part())
	}
	for {
		before := s.merged.Load()
		merged := Merge(before, parts...)
		if merged == before || s.merged.CompareAndSwap(before, merged) {
			s.logCollisions(before, merged)
			return merged
		}
	}
}

// ownPart is what collisions call the server's own entries.
const ownPart = "the server itself"

func (s *Server) mounted() []*mount {
	if mounts := s.mounts.Load(); mounts != nil {
		return *mounts
	}
	return nil
}

// logCollisions logs those that are new.
func (s *Server) logCollisions(before, now *Catalog) {
	if before == now {
		return
	}
	for _, collision := range now.collisions {
		if before == nil || !slices.ContainsFunc(before.collisions, collision.equals) {
			s.options.Logger.Warn("an entry is not offered", "error", collision)
		}
	}
}

// Serve answers one call: any method that is not the protocol's own. It waits until the
// server has started. The error is an *[mcp.InputRequired], that of ctx, or one in which
// errors.As finds a *[jsonrpc.Error], such as *[InternalError] and *[RefusedError].
func (s *Server) Serve(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if !s.calls.start() {
		return nil, errStopping
	}
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
		if err != nil {
			result, err = s.conclude(ctx, call, err)
		}
		s.calls.finish()
	}()
	entry, err := s.resolve(ctx, call)
	switch {
	case len(s.options.Middleware) > 0:
		call.Set(s, newResolved(call, entry, err))
		return s.handle(ctx, call)
	case err != nil:
		return nil, err
	}
	return s.invoke(ctx, call, entry)
}

var errStopping = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the server is shutting down"}

// resolved is what resolve has found for a name, among the values of a call.
type resolved struct {
	name  []byte
	entry *Entry
	err   error
}

func newResolved(call *mcp.Call, entry *Entry, err error) resolved {
	_, name, _ := named(call)
	return resolved{name, entry, err}
}

// resolve finds what a call is for, and attaches its target to the call. It returns nil
// for lists and for what does not exist. The error says what is wrong with the call, or
// why a server could not be started.
func (s *Server) resolve(ctx context.Context, call *mcp.Call) (*Entry, error) {
	kind, name, err := named(call)
	if kind == 0 || err != nil {
		return nil, err
	}
	uri := ""
	if kind == mcp.KindResource {
		uri = jsonscan.Unquote(name)
	}
	entry := s.Catalog().lookupRaw(kind, name)
	if entry == nil {
		if entry, err = s.resolveLater(ctx, kind, jsonscan.Unquote(name)); err != nil {
			return nil, err
		}
	}
	if entry == nil {
		call.Resolve(nil, uri, nil)
		return nil, nil
	}
	call.Resolve(&entry.Target, uri, s.recheckIn)
	return entry, nil
}

// resolveLater finds an entry that is in no list yet. If a server was started for it, the
// catalog is another one now, and decides.
func (s *Server) resolveLater(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
	before := s.Catalog()
	entry, err := before.Resolve(ctx, kind, name)
	if err != nil {
		return nil, err
	}
	now := s.Catalog()
	if listed := now.Lookup(kind, name); listed != nil {
		return listed, nil
	}
	if entry == nil && now != before {
		return now.Resolve(ctx, kind, name)
	}
	return entry, nil
}

func (s *Server) recheck(ctx context.Context, t *mcp.Target) error {
	return s.Catalog().recheck(ctx, t)
}

// named returns the kind and the name, in quotes, of what a call is for; no kind if it is
// for no single entry.
func named(call *mcp.Call) (kind mcp.Kind, name []byte, err error) {
	switch call.Method() {
	case mcp.MethodToolsCall:
		kind, name = mcp.KindTool, call.Member("name")
	case mcp.MethodPromptsGet:
		kind, name = mcp.KindPrompt, call.Member("name")
	case mcp.MethodResourcesRead:
		kind, name = mcp.KindResource, call.Member("uri")
	case mcp.MethodComplete:
		return completes(call)
	default:
		return 0, nil, nil
	}
	if jsonscan.KindOf(name) == jsonscan.String {
		return kind, name, nil
	}
	if kind == mcp.KindResource {
		return 0, nil, invalidParams("uri must be a string")
	}
	return 0, nil, invalidParams("name must be a string")
}

// dispatch is what Middleware surrounds: it invokes what the call was resolved to, or what
// a middleware has named instead.
func (s *Server) dispatch(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	found, ok := call.Get(s).(resolved)
	if _, name, _ := named(call); !ok || !bytes.Equal(name, found.name) {
		found.entry, found.err = s.resolve(ctx, call)
	}
	if found.err != nil {
		return nil, found.err
	}
	return s.invoke(ctx, call, found.entry)
}

// invoke calls the function of an entry, or answers a list method.
func (s *Server) invoke(ctx context.Context, call *mcp.Call, entry *Entry) (mcp.Result, error) {
	switch call.Method() {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead:
		if entry == nil {
			return nil, unknown(call)
		}
		return entry.Handle(ctx, call)
	case mcp.MethodComplete:
		return complete(ctx, call, entry)
	case mcp.MethodToolsList:
		return s.list(ctx, call, mcp.KindTool)
	case mcp.MethodPromptsList:
		return s.list(ctx, call, mcp.KindPrompt)
	case mcp.MethodResourcesList:
		return s.list(ctx, call, mcp.KindResource)
	case mcp.MethodResourceTemplatesList:
		return s.list(ctx, call, mcp.KindResourceTemplate)
	}
	return nil, methodNotFound(call.Method())
}

func stringMember(call *mcp.Call, path ...string) (string, error) {
	raw := call.Member(path...)
	if jsonscan.KindOf(raw) != jsonscan.String {
		return "", invalidParams("%s must be a string", path[len(path)-1])
	}
	return jsonscan.Unquote(raw), nil
}

// InputSchema returns the input schema of a tool as it is listed, nil when there is no
// such tool. It is for transports that need to know which arguments are mirrored into
// headers: the look-up takes no lock. Do not change the result.
func (s *Server) InputSchema(tool string) json.RawMessage {
	if e := s.Catalog().Lookup(mcp.KindTool, tool); e != nil {
		return e.Definition.InputSchema()
	}
	return nil
}

// Scopes returns the OAuth scopes that a call needs: those of the entry, of everything
// that it is mounted on, and of the servers. The name is that of the tool or prompt, the URI
// of the resource, or what a completion is for. Other methods need none; what does not
// exist needs those of [Options].
//
// The server itself does not check scopes: the authentication of callers does, such as
// oauth.Protect with this method as its CallScopes.
func (s *Server) Scopes(method, name string) []string {
	kind := mcp.KindResource
	switch method {
	case mcp.MethodToolsCall:
		kind = mcp.KindTool
	case mcp.MethodPromptsGet:
		kind = mcp.KindPrompt
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
	case mcp.MethodComplete:
		kind = mcp.KindPrompt
	default:
		return nil
	}
	e := s.Catalog().Lookup(kind, name)
	if e == nil && method == mcp.MethodComplete {
		e = s.Catalog().Lookup(mcp.KindResourceTemplate, name)
	}
	if e == nil {
		return s.options.Scopes
	}
	return e.Scopes
}

// Shutdown ends subscriptions, refuses new calls, waits until those that run have
// finished or ctx ends, and stops what was started, in reverse order. It does not
// close connections: their transports do. It may be called more than once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopOnce.Do(func() { close(s.stopping) })
	err := await(ctx, s.calls.stop())
	return errors.Join(err, s.life.stop(ctx))
}

// A callCounter counts the calls that run.
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
