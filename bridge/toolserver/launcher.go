package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A launcher has the servers that callers have launched, at most one of each principal and
// name. Nothing is waited for with the lock held.
type launcher struct {
	opts      *Options
	semaphore chan struct{} // taken by each server until it has ended
	all       sync.WaitGroup

	mu      sync.Mutex
	servers map[ownedName]*launched // that take calls
	alive   map[*launched]struct{}  // these, and those that have not ended yet
	closed  bool
}

// An ownedName is a server's, as one principal knows it.
type ownedName struct{ principal, name string }

func newLauncher(o *Options) *launcher {
	return &launcher{
		opts: o, semaphore: make(chan struct{}, o.MaxServers),
		servers: make(map[ownedName]*launched), alive: make(map[*launched]struct{}),
	}
}

// call calls a run's tool, having its server started if it does not run. One that turns out to
// have ended before the call could be sent is started again.
func (l *launcher) call(ctx context.Context, r *run, arguments json.RawMessage) (mcp.Result, error) {
	for again := true; ; again = false {
		s, err := l.join(ctx, r)
		if err != nil {
			return nil, err
		}
		result, err := l.callAt(ctx, s, r, arguments)
		failed, ok := errors.AsType[*jsonrpc.CallError](err)
		unsent := ok && failed.Delivery == jsonrpc.NotSent && errors.Is(err, jsonrpc.ErrClosed)
		if !unsent || !again || ctx.Err() != nil {
			return result, upstreamError(ctx, r.server, err)
		}
		s.stop(errEnded)
	}
}

// callAt calls a run's tool at a server that has been joined for that, and leaves it.
func (l *launcher) callAt(ctx context.Context, s *launched, r *run, arguments json.RawMessage) (mcp.Result, error) {
	defer l.leave(s)
	if d := r.verified; d != nil && d.session != s.session { // another one has been started meanwhile
		now, err := define(ctx, s.session, r)
		if err != nil {
			return nil, err
		}
		if now.definition.Digest() != d.definition.Digest() {
			return nil, &approval.Error{Kind: approval.Changed, Server: r.server, Tool: r.tool, Err: approval.Changed}
		}
	}
	result, err := s.session.Call(ctx, mcp.MethodToolsCall, frontend.ToolParams(r.tool, arguments), nil)
	if err == nil {
		return mcp.Raw(result), nil
	}
	if stopped, ok := context.Cause(s.life).(*frontend.Failure); ok && ctx.Err() == nil {
		return nil, stopped
	}
	if said, ok := errors.AsType[*jsonrpc.Error](err); ok && said.Code == jsonrpc.InvalidParams {
		if _, unknown := define(ctx, s.session, r); unknown == errUnknownTool {
			return nil, errUnknownTool
		}
	}
	return nil, err
}

// define looks for a run's tool, having its server started if it does not run.
func (l *launcher) define(ctx context.Context, r *run) (*definition, error) {
	s, err := l.join(ctx, r)
	if err != nil {
		return nil, err
	}
	defer l.leave(s)
	return define(ctx, s.session, r)
}

// join returns the server of a run when it is ready, with one call more, until leave.
func (l *launcher) join(ctx context.Context, r *run) (*launched, error) {
	s, err := l.find(ownedName{r.principal, r.server}, r.launch)
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
		l.leave(s)
		return nil, err
	}
	return s, nil
}

func (l *launcher) leave(s *launched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.calls--
	s.since = time.Now()
}

// find returns the server that takes calls under a name, started if there is none.
func (l *launcher) find(name ownedName, how *launch) (*launched, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.servers[name]
	if s != nil && s.isOver() {
		s = nil
	}
	if s != nil && s.digest != how.digest {
		if !l.opts.Replace {
			return nil, failure(Conflict, "another server runs under the name "+jsonscan.Quote(name.name)+": expected the same server_params, or a reset before", nil)
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

// add has a server started in the place of one that takes no more calls, if there is one.
func (l *launcher) add(name ownedName, how *launch) (*launched, error) {
	if l.closed {
		return nil, errClosed
	}
	if _, replaced := l.servers[name]; !replaced && !l.makeRoom(name.principal) {
		return nil, failure(Busy, "too many servers run", nil)
	}
	s := &launched{launch: how, name: name, ready: make(chan struct{}), ended: make(chan struct{}), since: time.Now()}
	s.life, s.stop = context.WithCancelCause(context.Background())
	l.servers[name], l.alive[s] = s, struct{}{}
	l.all.Go(func() { l.keep(s) })
	return s, nil
}

// makeRoom says whether a principal can have one server more, for which an idle one is stopped
// if need be, rather its own than another's.
func (l *launcher) makeRoom(principal string) bool {
	count := 0
	for name := range l.servers {
		if name.principal == principal {
			count++
		}
	}
	isOwn := func(s *launched) bool { return s.name.principal == principal }
	if principal != "" && count >= l.opts.MaxServersPerCaller {
		return l.evict(isOwn)
	}
	return len(l.servers) < l.opts.MaxServers || l.evict(isOwn) || l.evict(func(*launched) bool { return true })
}

// evict stops that one of some servers that has been idle longest.
func (l *launcher) evict(among func(*launched) bool) bool {
	var oldest *launched
	for _, s := range l.servers {
		if s.calls == 0 && among(s) && (oldest == nil || s.since.Before(oldest.since)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	delete(l.servers, oldest.name)
	oldest.stop(errIdle)
	return true
}

// reject has a server take no more calls.
func (l *launcher) reject(s *launched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.servers[s.name] == s {
		delete(l.servers, s.name)
	}
}

// remove notes that a server has ended.
func (l *launcher) remove(s *launched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.alive, s)
	close(s.ended)
}

// reset stops servers, and returns those that have not ended yet.
func (l *launcher) reset(of func(principal string) bool) (stopping []*launched) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := range l.alive {
		if !of(s.name.principal) {
			continue
		}
		if l.servers[s.name] == s {
			delete(l.servers, s.name)
		}
		s.stop(errReset)
		stopping = append(stopping, s)
	}
	return stopping
}

// close stops all servers and waits for them, and has none started any more.
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
