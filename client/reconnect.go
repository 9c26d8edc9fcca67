package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/era/forward"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// settled is how long a connection must have held, if nothing was answered on it,
// before the attempts to connect are counted anew: a server that takes every
// connection and ends it must not be called for ever.
const settled = 10 * time.Second

// keepOpen replaces the link when it ends, until the session does.
func (s *Session) keepOpen() {
	defer close(s.ended)
	var attempts attempts
	for {
		link, opened := s.current(), time.Now()
		select {
		case <-link.Done():
		case <-s.ctx.Done():
			link.Close()
			return
		}
		link.Close()
		s.setLink(link, true, nil)
		if s.answered.Swap(false) || time.Since(opened) >= settled {
			attempts.reset()
		}
		next, err := s.reopen(&attempts)
		if err != nil {
			s.setLink(link, true, err)
			return
		}
		s.cache.clear()
		s.setLink(next, false, nil)
	}
}

// attempts are those to connect that came in a row.
type attempts struct {
	made  int
	pause backoff.Backoff
}

func (a *attempts) reset() {
	a.made = 0
	a.pause.Reset()
}

var errEnded = errors.New("the connection has ended")

// reopen connects again, as often as it may. The error says why it will not any
// more.
func (s *Session) reopen(attempts *attempts) (*forward.Session, error) {
	failure := errEnded
	for attempts.made < s.opts.MaxReconnects {
		attempts.made++
		if err := attempts.pause.Wait(s.ctx); err != nil {
			return nil, err
		}
		link, err := s.open(s.ctx)
		if err == nil {
			return link, nil
		}
		failure = fmt.Errorf("%w and could not be opened again in %d attempts: %w", errEnded, attempts.made, err)
	}
	return nil, failure
}

func (s *Session) current() *forward.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}

func (s *Session) setLink(link *forward.Session, lost bool, dead error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.lost, s.dead = link, lost, dead
	close(s.renewed)
	s.renewed = make(chan struct{})
}

// live returns a link that has not ended, as far as is known; it waits while
// the session connects again.
func (s *Session) live(ctx context.Context) (*forward.Session, error) {
	for {
		s.mu.Lock()
		link, lost, renewed, dead := s.link, s.lost, s.renewed, s.dead
		s.mu.Unlock()
		switch {
		case s.ctx.Err() != nil:
			return nil, jsonrpc.ErrClosed
		case dead != nil:
			return nil, fmt.Errorf("%w: %w", jsonrpc.ErrClosed, dead)
		case !lost:
			return link, nil
		}
		select {
		case <-renewed:
		case <-s.ctx.Done():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// send makes one call. A call that met the end of a connection before it was sent
// is made on the next one.
func (s *Session) send(ctx context.Context, method string, params jsonrpc.Appender, progress func(*mcp.ProgressParams)) (*jsonrpc.Response, error) {
	for {
		link, err := s.live(ctx)
		if err != nil {
			return nil, notSent(method, err)
		}
		resp, err := link.Do(ctx, method, params, progress)
		if err == nil {
			if !s.answered.Load() {
				s.answered.Store(true)
			}
			return resp, nil
		}
		if !s.again(ctx, link, err) {
			return nil, asCallError(method, err)
		}
	}
}

// again says whether a call that failed so is to be made on the next link, and
// waits for the end of this one.
func (s *Session) again(ctx context.Context, link *forward.Session, err error) bool {
	return metTheEnd(err) && s.awaitEnd(ctx, link) == nil
}

// metTheEnd says whether a call was not sent because its connection had ended.
func metTheEnd(err error) bool {
	failed, ok := errors.AsType[*jsonrpc.CallError](err)
	return ok && failed.Delivery == jsonrpc.NotSent && errors.Is(err, jsonrpc.ErrClosed)
}

// asCallError makes what this side did not like about the server's answers a CallError:
// an error of any other type would not say what became of the call.
func asCallError(method string, err error) error {
	switch err.(type) {
	case *jsonrpc.Error, *jsonrpc.CallError:
		return err
	}
	return &jsonrpc.CallError{Method: method, Delivery: jsonrpc.MaybeExecuted, Err: err}
}

// awaitEnd waits until a link that is known to end has, and makes the next call
// wait for another one, even if it comes before keepOpen has noticed.
func (s *Session) awaitEnd(ctx context.Context, link *forward.Session) error {
	select {
	case <-link.Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == link {
		s.lost = true
	}
	return nil
}
