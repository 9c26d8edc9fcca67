package streamable

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/session"
)

const (
	defaultMaxServers = 1000
	// defaultServerIdle is as long as a client may take to answer the question of a call.
	defaultServerIdle = time.Hour
	// openTimeout bounds opening and starting one server.
	openTimeout = time.Minute
	// maxOpening is how many servers are opened at the same time: keys of unknown servers must not open
	// any number of connections to a database.
	maxOpening = 16
	// maxPending is how many servers are opened or wait for that.
	maxPending = 1000
)

// SelectOptions configures [Select]. The zero value is valid.
type SelectOptions struct {
	// Options configures the endpoint of each server; see [Handler]. Limits bounds what the clients of
	// all servers can use together.
	Options
	// MaxServers is how many servers are open at the same time. One more closes the server that was
	// not used for the longest time: one that is not in use, else one without a request in progress. If
	// there is none, the request is refused with status 503. Default 1,000.
	MaxServers int
	// IdleTimeout is how long after its last request a server that is not in use is kept. A server is
	// in use while it answers requests and streams, and has sessions. A *server.Server is also in use
	// until server.Server.Idle says otherwise. Default: an hour, since a client may continue a call
	// that asks for as long. Negative: no limit.
	IdleTimeout time.Duration
	// ShutdownTimeout bounds how long the calls of a server that is closed may take to finish.
	// Default 10 s.
	ShutdownTimeout time.Duration
}

// Select returns an endpoint that serves many MCP servers at the same time, such as one for each
// tenant of a service. key returns the key of the server that a request is for, from its host, its path
// or what the authentication in front of the endpoint knows. open returns the server of a key. opts may
// be nil. Select panics if an option is malformed, as [Handler] does.
//
// The first request with a key opens its server: open is called, and the server is started. Other
// requests with the key wait for that. A server is open until it is closed as [SelectOptions] say, or is
// shut down by the program. The next request opens it again: open must return a new server each time.
// At most one server with a key is open. The endpoint shuts it down; the program closes what the server
// uses when Shutdown of the server ends, for example in the stop function of a server.Dependency.
//
// A request has status 404 if key returns "" or open returns nil: there is no such server. If open or
// starting the server fails, or takes longer than a minute, a request has status 500 with a reference
// to the log, and the next one opens the server again. key and open are called concurrently, open for
// at most 16 keys at a time. The context of open has no values of the request, and ends when the server
// has started.
//
// A session of one key is unknown under all other keys. Other state of servers, such as tasks, is not
// separated if the servers have the same store: Select does not open a server whose Store method
// returns the store of another one that is open. Give each server a store.Sealed with a key of its own,
// over one store. For servers with StateKeys the same is true: each needs its own.
//
// Close refuses new requests, shuts all servers down, and waits for them. It may be called more than
// once.
func Select(key func(r *http.Request) string, open func(ctx context.Context, key string) (transport.Server, error), opts *SelectOptions) httptransport.Endpoint {
	o := *cmp.Or(opts, &SelectOptions{})
	front, err := newFront(&o.Options)
	if err != nil {
		panic("streamable.Select: " + err.Error())
	}
	s := &selector{front: front, key: key, open: open, options: o, opening: make(chan struct{}, maxOpening), tenants: make(map[string]*tenant)}
	s.options.MaxServers = cmp.Or(max(0, o.MaxServers), defaultMaxServers)
	s.options.IdleTimeout = cmp.Or(o.IdleTimeout, defaultServerIdle)
	s.options.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, defaultShutdownTimeout)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// A selector serves the servers of many tenants.
type selector struct {
	*front
	key     func(r *http.Request) string
	open    func(ctx context.Context, key string) (transport.Server, error)
	options SelectOptions
	opening chan struct{} // has a value for each call of open

	ctx        context.Context // ends when the endpoint is closed
	cancel     context.CancelCauseFunc
	background sync.WaitGroup // opening and closing servers

	mu      sync.Mutex
	tenants map[string]*tenant
	running int         // servers that are open or being closed
	timer   *time.Timer // of the next check for idle servers; nil if no server is open
	errs    []error     // of closing servers, after Close
}

// A tenant is the server of a key, from the first request until the server is closed.
type tenant struct {
	key   string
	ready chan struct{} // closed when the server is open, or err is set
	err   error         // why the server could not be opened

	server transport.Server // once ready is closed

	// guarded by the mutex of the selector
	endpoint *Endpoint     // nil until the server is open
	users    int           // requests that have not been answered
	used     time.Time     // the end of the last request
	closed   chan struct{} // closed when the server has ended; nil before closing begins
}

var (
	errNoServer   = errors.New("there is no server for this request")
	errTooMany    = errors.New("busy: too many servers are in use")
	errSameStore  = errors.New("the store of the server is the store of another server: give each server a store.Sealed with a key of its own")
	errNotStarted = errors.New("the server of this request could not be started")
)

// ServeHTTP implements [http.Handler]; see [Select].
func (s *selector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.admit(w, r) {
		return
	}
	t, err := s.enter(r.Context(), s.key(r))
	switch {
	case err == nil:
		defer s.leave(t)
		t.endpoint.serve(w, r)
	case r.Context().Err() != nil: // the client has disconnected
	case errors.Is(err, errNoServer):
		httpguard.RefuseUnread(w, r, http.StatusNotFound, jsonrpc.InvalidRequest, err.Error())
	case errors.Is(err, errNotStarted):
		httpguard.RefuseUnread(w, r, http.StatusInternalServerError, jsonrpc.InternalError, err.Error())
	default:
		httpguard.AbandonBody(w, r)
		httpguard.RefuseBusy(w, err.Error())
	}
}

// enter returns the tenant of a key, with an open server. The caller must leave it.
func (s *selector) enter(ctx context.Context, key string) (*tenant, error) {
	if key == "" {
		return nil, errNoServer
	}
	for {
		t, closed, err := s.find(key)
		if err != nil {
			return nil, err
		}
		if closed == nil {
			select {
			case <-t.ready:
			case <-ctx.Done():
				s.leave(t)
				return nil, context.Cause(ctx)
			}
			if t.err != nil {
				s.leave(t)
				return nil, t.err
			}
			if !hasStopped(t.server) {
				return t, nil
			}
			closed = s.replace(t)
		}
		select {
		case <-closed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// find enters the tenant of a key, and begins to open its server if necessary. If the server is being
// closed, it returns the channel that is closed when that has ended.
func (s *selector) find(key string) (t *tenant, closed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, nil, session.ErrShuttingDown
	}
	t = s.tenants[key]
	switch {
	case t != nil && t.closed != nil:
		return nil, t.closed, nil
	case t == nil && (len(s.tenants)-s.running >= maxPending || s.running >= s.options.MaxServers && s.victim() == nil):
		return nil, nil, errTooMany
	case t == nil:
		t = &tenant{key: key, ready: make(chan struct{})}
		s.tenants[key] = t
		s.background.Go(func() { s.start(t) })
	}
	t.users++
	return t, nil, nil
}

// leave ends a request.
func (s *selector) leave(t *tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.users--
	t.used = time.Now()
}

// replace leaves a tenant whose server was shut down by the program, and begins to close it.
func (s *selector) replace(t *tenant) (closed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.users--
	if t.closed == nil {
		s.close(t)
	}
	return t.closed
}

// start opens the server of a tenant, or sets its error.
func (s *selector) start(t *tenant) {
	defer close(t.ready)
	ctx, cancel := context.WithTimeoutCause(s.ctx, openTimeout, fmt.Errorf("opening took longer than %v", openTimeout))
	defer cancel()
	server, err := s.openServer(ctx, t.key)
	if err == nil {
		t.server = server
		err = s.add(t)
	}
	if err == nil {
		return
	}
	if server != nil {
		err = errors.Join(err, s.shutdown(server))
	}
	if t.err = err; s.ctx.Err() != nil {
		t.err = session.ErrShuttingDown
	} else if !errors.Is(err, errNoServer) && !errors.Is(err, errTooMany) {
		reference := rand.Text()
		s.opts.Logger.Error("streamable: the server of a key could not be opened", "key", t.key, "error", err, "reference", reference)
		t.err = fmt.Errorf("%w, reference %s", errNotStarted, reference)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tenants, t.key)
}

// openServer returns a server that has started. After an error, the caller shuts the server down if it is not nil.
func (s *selector) openServer(ctx context.Context, key string) (server transport.Server, err error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	server, err = s.open(ctx, key)
	switch {
	case err != nil:
		return server, err
	case server == nil:
		return nil, errNoServer
	}
	return server, server.Start(ctx)
}

// add makes a server that has started the server of its tenant. If too many are open, it closes another one.
func (s *selector) add(t *tenant) error {
	endpoint, err := s.newHandler(t.server, t.key)
	if err != nil {
		return err
	}
	victim, err := s.register(t, endpoint)
	if err != nil {
		return errors.Join(err, endpoint.Close())
	}
	if victim != nil {
		s.end(victim)
	}
	return nil
}

// register counts the server of a tenant. The caller ends the victim if it is not nil.
func (s *selector) register(t *tenant, endpoint *Endpoint) (victim *tenant, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return nil, session.ErrShuttingDown
	case s.hasStoreOf(t.server):
		return nil, errSameStore
	case s.running >= s.options.MaxServers:
		if victim = s.victim(); victim == nil {
			return nil, errTooMany
		}
		victim.closed = make(chan struct{})
	}
	s.running++
	t.endpoint, t.used = endpoint, time.Now()
	if s.timer == nil && s.options.IdleTimeout > 0 {
		s.timer = time.AfterFunc(s.options.IdleTimeout, s.closeIdle)
	}
	return victim, nil
}

// hasStoreOf reports whether an open server has the store of another one. s.mu is held.
func (s *selector) hasStoreOf(server transport.Server) bool {
	own := storeOf(server)
	if own == nil || !reflect.TypeOf(own).Comparable() {
		return false
	}
	for _, other := range s.tenants {
		if other.endpoint != nil && storeOf(other.server) == own {
			return true
		}
	}
	return false
}

func storeOf(server transport.Server) store.Store {
	if server, ok := server.(storeProvider); ok {
		return server.Store()
	}
	return nil
}

// victim returns the tenant whose server is closed to make room, or nil if all have requests. s.mu is held.
func (s *selector) victim() *tenant {
	var idle, unused *tenant
	for _, t := range s.tenants {
		if t.endpoint == nil || t.closed != nil || t.users > 0 {
			continue
		}
		if unused == nil || t.used.Before(unused.used) {
			unused = t
		}
		if (idle == nil || t.used.Before(idle.used)) && t.isIdle() {
			idle = t
		}
	}
	return cmp.Or(idle, unused)
}

// An idler is a server that knows whether a shutdown would lose anything. [Select] looks for it.
type idler interface{ Idle() bool }

// isIdle reports whether no client loses anything if the server is closed, except for requests in progress.
func (t *tenant) isIdle() bool {
	if server, ok := t.server.(idler); ok && !server.Idle() {
		return false
	}
	return t.endpoint.sessions.Len() == 0
}

// closeIdle closes the servers that were not used for the idle timeout.
func (s *selector) closeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	next := s.options.IdleTimeout
	for _, t := range s.tenants {
		if t.endpoint == nil || t.closed != nil || t.users > 0 {
			continue
		}
		switch left := s.options.IdleTimeout - time.Since(t.used); {
		case left > 0:
			next = min(next, left)
		case t.isIdle():
			s.close(t)
		default: // its sessions end without a request
			next = min(next, max(s.options.IdleTimeout/8, time.Second))
		}
	}
	s.timer.Reset(next)
}

// close begins to close an open server. Requests with its key wait until it has ended. s.mu is held.
func (s *selector) close(t *tenant) {
	t.closed = make(chan struct{})
	s.background.Go(func() { s.end(t) })
}

// end closes the server of a tenant.
func (s *selector) end(t *tenant) {
	err := s.shutdown(t.server)
	if err == nil {
		t.endpoint.sessions.WaitForReplies() // a call has ended before its reply is sent
	}
	err = errors.Join(err, t.endpoint.Close())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	delete(s.tenants, t.key)
	close(t.closed)
	if err == nil {
		return
	}
	err = fmt.Errorf("the server of %.256q: %w", t.key, err)
	if s.ctx.Err() != nil {
		s.errs = append(s.errs, err)
	} else {
		s.opts.Logger.Warn("streamable: a server did not end in time", "error", err)
	}
}

func (s *selector) shutdown(server transport.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.ShutdownTimeout)
	defer cancel()
	return server.Shutdown(ctx)
}

// Close implements [httptransport.Endpoint]; see [Select].
func (s *selector) Close() error {
	s.mu.Lock()
	if s.ctx.Err() == nil {
		s.cancel(jsonrpc.ErrClosed)
		if s.timer != nil {
			s.timer.Stop()
		}
		for _, t := range s.tenants {
			if t.endpoint != nil && t.closed == nil {
				s.close(t)
			}
		}
	}
	s.mu.Unlock()
	s.background.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.errs...)
}
