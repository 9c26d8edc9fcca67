package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A launcher manages the servers that callers have launched, at most one per principal and
// name. It never blocks while it holds the lock.
type launcher struct {
	opts      *Options
	semaphore chan struct{} // held by each server from its start to its end
	all       sync.WaitGroup

	mu      sync.Mutex
	servers map[serverKey]*launchedServer // that accept calls
	alive   map[*launchedServer]struct{}  // all that have not ended
	closed  bool
}

// A serverKey identifies a server of a principal.
type serverKey struct{ principal, name string }

func newLauncher(o *Options) *launcher {
	return &launcher{
		opts: o, semaphore: make(chan struct{}, o.MaxServers),
		servers: make(map[serverKey]*launchedServer), alive: make(map[*launchedServer]struct{}),
	}
}

// call calls the tool of a run, and starts the server if it does not run. If the server ended
// before the call was sent, call starts it again once.
func (l *launcher) call(ctx context.Context, r *run, arguments json.RawMessage) (mcp.Result, error) {
	for again := true; ; again = false {
		s, err := l.acquire(ctx, r)
		if err != nil {
			return nil, err
		}
		result, err := l.callOn(ctx, s, r, arguments)
		failed, ok := errors.AsType[*jsonrpc.CallError](err)
		unsent := ok && failed.Delivery == jsonrpc.NotSent && errors.Is(err, jsonrpc.ErrClosed)
		if !unsent || !again || ctx.Err() != nil {
			return result, upstreamError(ctx, r.server, err)
		}
		s.stop(errEnded)
	}
}

// callOn calls the tool of a run on an acquired server, and releases the server.
func (l *launcher) callOn(ctx context.Context, s *launchedServer, r *run, arguments json.RawMessage) (mcp.Result, error) {
	defer l.release(s)
	if d := r.verified; d != nil && d.session != s.session { // the server has been restarted
		now, err := findTool(ctx, s.session, r)
		if err != nil {
			return nil, err
		}
		if now.definition.Digest() != d.definition.Digest() {
			return nil, &approval.Error{Code: approval.Changed, Server: r.server, Tool: r.tool, Err: approval.Changed}
		}
	}
	r.sent.Store(true)
	result, err := s.session.Call(ctx, mcp.MethodToolsCall, frontend.ToolParams(r.tool, arguments), nil)
	if err == nil {
		if !s.tools[r.tool] && saysUnknown(result, r.tool) && s.lacks(ctx, r) {
			return nil, errUnknownTool
		}
		return mcp.Raw(result), nil
	}
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok && failed.Delivery == jsonrpc.NotSent {
		r.sent.Store(false)
	}
	if stopped, ok := context.Cause(s.ctx).(*frontend.Failure); ok && ctx.Err() == nil {
		return nil, stopped
	}
	said, ok := errors.AsType[*jsonrpc.Error](err)
	if ok && (said.Code == jsonrpc.InvalidParams || !s.tools[r.tool]) && s.lacks(ctx, r) {
		return nil, errUnknownTool
	}
	return nil, err
}

// lacks reports whether the server does not list the tool of a run.
func (s *launchedServer) lacks(ctx context.Context, r *run) bool {
	_, err := findTool(ctx, s.session, r)
	return err == errUnknownTool
}

// saysUnknown reports whether a result may mean that the tool is unknown. Some servers then reply with a failure of the
// tool, which names the tool.
func saysUnknown(raw json.RawMessage, tool string) bool {
	var result mcp.CallToolResult
	return result.UnmarshalJSON(raw) == nil && result.IsError && strings.Contains(result.Text(), tool)
}

// findTool finds the tool of a run, and starts the server if it does not run.
func (l *launcher) findTool(ctx context.Context, r *run) (*verifiedTool, error) {
	s, err := l.acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	defer l.release(s)
	return findTool(ctx, s.session, r)
}

// acquire returns the server of a run when it is ready. It counts a call until release.
func (l *launcher) acquire(ctx context.Context, r *run) (*launchedServer, error) {
	s, err := l.find(serverKey{r.principal, r.server}, r.launch)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.ready:
		err = s.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		l.release(s)
		return nil, err
	}
	return s, nil
}

func (l *launcher) release(s *launchedServer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.calls--
	s.since = time.Now()
}

// running returns the launch of the server that accepts calls under a name, or nil.
func (l *launcher) running(name serverKey) *launch {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.servers[name]; s != nil && !s.hasEnded() {
		return s.launch
	}
	return nil
}

// find returns the server that accepts calls under a name, and adds one if there is none.
func (l *launcher) find(name serverKey, how *launch) (*launchedServer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.servers[name]
	if s != nil && s.hasEnded() {
		s = nil
	}
	if s != nil && s.digest != how.digest {
		if l.opts.Conflict != Restart {
			return nil, failure(codeConflict, "another server runs under the name "+jsonscan.Quote(name.name)+": use the same server_params, or reset the tool server first", errOtherParams)
		}
		s.stop(errReplaced)
		s = nil
	}
	if s == nil {
		var err error
		if s, err = l.add(name, how); err != nil {
			return nil, err
		}
	}
	s.calls++
	return s, nil
}

// add starts a server. It replaces a server of the same name that has ended.
func (l *launcher) add(name serverKey, how *launch) (*launchedServer, error) {
	if l.closed {
		return nil, errClosed
	}
	if _, replaced := l.servers[name]; !replaced && !l.makeRoom(name.principal) {
		return nil, failure(codeBusy, "too many servers are running", nil)
	}
	s := &launchedServer{launch: how, key: name, ready: make(chan struct{}), ended: make(chan struct{}), since: time.Now()}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	l.servers[name], l.alive[s] = s, struct{}{}
	l.all.Go(func() { l.supervise(s) })
	return s, nil
}

// makeRoom reports whether a principal may start another server. If necessary it stops an idle
// server, preferably one of the same principal.
func (l *launcher) makeRoom(principal string) bool {
	count := 0
	for name := range l.servers {
		if name.principal == principal {
			count++
		}
	}
	isOwn := func(s *launchedServer) bool { return s.key.principal == principal }
	if principal != "" && count >= l.opts.MaxServersPerCaller {
		return l.evict(isOwn)
	}
	return len(l.servers) < l.opts.MaxServers || l.evict(isOwn) || l.evict(func(*launchedServer) bool { return true })
}

// evict stops the matching server that has been idle longest.
func (l *launcher) evict(among func(*launchedServer) bool) bool {
	var oldest *launchedServer
	for _, s := range l.servers {
		if s.calls == 0 && among(s) && (oldest == nil || s.since.Before(oldest.since)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	delete(l.servers, oldest.key)
	oldest.stop(errIdle)
	return true
}

// unregister makes a server accept no more calls.
func (l *launcher) unregister(s *launchedServer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.servers[s.key] == s {
		delete(l.servers, s.key)
	}
}

// markEnded records that a server has ended.
func (l *launcher) markEnded(s *launchedServer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.alive, s)
	close(s.ended)
}

// reset stops servers, and returns the servers that have not ended yet.
func (l *launcher) reset(of func(principal string) bool) (stopping []*launchedServer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.alive {
		if !of(s.key.principal) {
			continue
		}
		if l.servers[s.key] == s {
			delete(l.servers, s.key)
		}
		s.stop(errReset)
		stopping = append(stopping, s)
	}
	return stopping
}

// close stops all servers, waits until they have ended, and refuses new ones.
func (l *launcher) close() {
	l.mu.Lock()
	l.closed = true
	for name, s := range l.servers {
		delete(l.servers, name)
		s.stop(errClosed)
	}
	l.mu.Unlock()
	l.all.Wait()
}

// A launchedServer is a server that a caller has launched. Its goroutine starts and stops it.
type launchedServer struct {
	*launch

	key   serverKey
	ctx   context.Context // ends when the server is to stop
	stop  context.CancelCauseFunc
	ready chan struct{} // closed when the server has started, or its start has failed
	ended chan struct{} // closed when the server has ended

	// The following fields are set before ready is closed.
	session *client.Session
	tools   map[string]bool // that the server has listed at its start
	err     error           // of the start

	calls int       // calls in progress; launcher.mu guards it and since
	since time.Time // time of the last release
}

// supervise starts a server, and stops it when it has to.
func (l *launcher) supervise(s *launchedServer) {
	log := l.opts.Logger.With("server", s.key.name, "caller", s.key.principal)
	defer l.markEnded(s)
	defer s.stop(nil)
	ctx, cancel := context.WithTimeout(s.ctx, l.opts.ConnectTimeout)
	defer cancel()
	err := l.start(ctx, s)
	if err != nil {
		s.err = s.failure(ctx, err)
		log.Warn("starting a server failed", "launch", s.server.Launch(), "error", s.redact(err.Error()))
		l.unregister(s) // before waiting callers try again
		close(s.ready)
		return
	}
	defer func() { <-l.semaphore }()
	close(s.ready)
	log.Info("started a server", "launch", s.server.Launch())
	reason := l.waitUntilDone(s)
	l.unregister(s)
	_ = s.session.Close() // Close returns no error of its own
	log.Info("a server ended", "reason", reason)
}

// start waits for the semaphore and starts the server.
func (l *launcher) start(ctx context.Context, s *launchedServer) (err error) {
	select {
	case l.semaphore <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.session, s.tools, err = s.open(ctx, l.opts); err != nil {
		<-l.semaphore
	}
	return err
}

// waitUntilDone blocks until a server is to stop or has ended, and returns the reason.
func (l *launcher) waitUntilDone(s *launchedServer) (reason slog.Value) {
	idle := time.NewTimer(l.opts.IdleTimeout)
	defer idle.Stop()
	for {
		select {
		case <-s.session.Done():
			return slog.AnyValue(errEnded)
		case <-s.ctx.Done():
			return slog.AnyValue(context.Cause(s.ctx))
		case <-idle.C:
			left := l.idleTimeLeft(s)
			if left <= 0 {
				return slog.AnyValue(errIdle)
			}
			idle.Reset(left)
		}
	}
}

// idleTimeLeft returns how long a server may stay idle. When the time is over, the server
// accepts no more calls.
func (l *launcher) idleTimeLeft(s *launchedServer) (left time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.calls > 0 {
		return l.opts.IdleTimeout
	}
	left = l.opts.IdleTimeout - time.Since(s.since)
	if left <= 0 && l.servers[s.key] == s {
		delete(l.servers, s.key)
	}
	return left
}

// hasEnded reports whether a server accepts no more calls.
func (s *launchedServer) hasEnded() bool {
	if s.ctx.Err() != nil {
		return true
	}
	select {
	case <-s.ready:
	default:
		return false
	}
	if s.err != nil {
		return true
	}
	select {
	case <-s.session.Done():
		return true
	default:
		return false
	}
}
