package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/era/forward"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A subscription is ready once, and has the filter that the server has accepted last.
func TestSubscriptionConcurrently(t *testing.T) {
	const n = 500
	accepted := func(i int) mcp.SubscriptionFilter { return mcp.SubscriptionFilter{TaskIDs: []string{fmt.Sprint(i)}} }
	h := &handlers{opts: &Options{}, invalidate: func(mcp.Change) {}}
	sub := &Subscription{session: &Session{handlers: h}, ready: make(chan struct{})}
	open := func(first int) func(int) { return func(round int) { sub.open(accepted(first + round)) } }
	racetest.Together(n,
		open(0),
		open(n),
		func(int) { sub.Agreed() },
	)
	if got := sub.Agreed().TaskIDs; len(got) != 1 || got[0] != fmt.Sprint(n-1) && got[0] != fmt.Sprint(2*n-1) {
		t.Errorf("the server has accepted the tasks %v, want the last of one goroutine", got)
	}
	reason := errors.New("the server has ended the subscription")
	racetest.Together(n,
		func(int) { sub.end(reason) },
		func(int) {
			if err := sub.Err(); err != nil && err != reason {
				t.Errorf("the reason is %v", err)
			}
		},
	)
	if err := sub.Err(); err != reason {
		t.Errorf("the reason is %v, want %v", err, reason)
	}
}

// closedConn returns a connection that has ended.
func closedConn(t *testing.T) *forward.Client {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	session, err := Connect(t.Context(), transport.Pipe(s), nil)
	if err != nil {
		t.Fatal(err)
	}
	session.Close()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	conn := session.current()
	<-conn.Done()
	return conn
}

// Every call gets the connection that was set last, and the end of a connection is noted only for that connection.
func TestConnectionsAreReplacedConcurrently(t *testing.T) {
	const n = 300
	conns := []*forward.Client{closedConn(t), closedConn(t)}
	var dead error // no lock: a session ends once
	s := &Session{ctx: t.Context(), ended: make(chan struct{}), renewed: make(chan struct{}), conn: conns[0], onEnd: func(err error) { dead = err }}
	close(s.ended)
	reason := errors.New("the server is gone")
	renewed := s.renewed
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	set := func(conn *forward.Client) func(int) { return func(int) { s.setConn(conn, false, nil) } }
	await := func(conn *forward.Client) func(int) {
		return func(int) {
			if err := s.awaitEnd(t.Context(), conn); err != nil {
				t.Errorf("awaitEnd: %v", err)
			}
		}
	}
	racetest.Together(n,
		set(conns[0]),
		set(conns[1]),
		await(conns[0]),
		await(conns[1]),
		func(int) {
			if conn := s.current(); !slices.Contains(conns, conn) {
				t.Errorf("the connection is %p", conn)
			}
		},
		func(int) {
			if conn, err := s.liveConn(expired); !slices.Contains(conns, conn) && !errors.Is(err, context.Canceled) {
				t.Errorf("the connection is %p: %v", conn, err)
			}
		},
		func(int) { _ = s.Err() },
		func(int) { s.notifyEnd() },
		func(int) { s.isDead() },
	)
	select {
	case <-renewed:
	default:
		t.Error("a call that waits for a connection does not get it")
	}
	s.setConn(conns[1], false, nil)
	_ = s.awaitEnd(t.Context(), conns[0])
	if conn, err := s.liveConn(expired); conn != conns[1] || err != nil {
		t.Errorf("the end of an earlier connection ends the connection: %v", err)
	}
	_ = s.awaitEnd(t.Context(), conns[1])
	if _, err := s.liveConn(expired); !errors.Is(err, context.Canceled) {
		t.Errorf("a connection that has ended is used: %v", err)
	}
	s.setConn(nil, true, reason)
	s.notifyEnd()
	if err := s.Err(); !errors.Is(err, reason) || dead != reason {
		t.Errorf("the session has ended with %v and reported %v, want %v", err, dead, reason)
	}
}

// A cache knows its size, and has no result that is older than a change.
func TestCacheConcurrently(t *testing.T) {
	const n = 200
	var c cache
	result := json.RawMessage(`{"tools":[]}`)
	key := func(i int) cacheKey { return cacheKey{mcp.MethodToolsList, fmt.Sprint(i % 10)} }
	put := func(first int) func(int) {
		return func(round int) { c.put(key(first+round), result, time.Hour, c.generation()) }
	}
	racetest.Together(n,
		put(0),
		put(5),
		func(round int) { c.put(key(round), result, time.Hour, 0) },
		func(round int) {
			if got, ok := c.get(key(round)); ok && string(got) != string(result) {
				t.Errorf("the result is %s", got)
			}
		},
		func(int) { c.generation() },
		func(int) { c.invalidate(mcp.Change{Kind: mcp.KindTool}) },
		func(round int) {
			if round%10 == 0 {
				c.clear()
			}
		},
	)
	size := 0
	for key, e := range c.entries {
		size += sizeOf(key, e.result)
	}
	if c.size != size || c.changes != n+n/10 {
		t.Errorf("the size is %d after %d changes, want %d and %d", c.size, c.changes, size, n+n/10)
	}
	asked := c.generation()
	c.invalidate(mcp.Change{Kind: mcp.KindTool})
	c.put(key(0), result, time.Hour, asked)
	if _, ok := c.get(key(0)); ok {
		t.Error("a result that is older than a change is kept")
	}
}

// Changes are reported one at a time, each once and in order. Handlers that were started have returned
// when the session is closed.
func TestHandlersConcurrently(t *testing.T) {
	const n = 300
	var got []string // no lock: OnChange is not called concurrently
	last := make(chan struct{})
	opts := (&Options{OnChange: func(_ context.Context, change mcp.Change) {
		if change.URI == "last" {
			close(last)
			return
		}
		got = append(got, change.URI)
	}}).withDefaults()
	opts.Limits.QueuedNotifications = 2*n + 1
	opts.Roots = func(context.Context) ([]mcp.Root, error) { return nil, nil }
	h := newHandlers(&opts, func(mcp.Change) {})
	done := make(chan struct{}, n+1)
	enqueue := func(name string) func(int) {
		return func(round int) { h.enqueue(queued{change: mcp.Change{URI: fmt.Sprintf("%s:%d", name, round)}}) }
	}
	started := 0
	start := func(int) {
		if h.start(func() { done <- struct{}{} }) {
			started++
		}
	}
	racetest.Together(n,
		enqueue("a"),
		enqueue("b"),
		start,
		func(int) {
			if h.get().Roots == nil {
				t.Error("there is no handler for roots")
			}
		},
		func(int) {
			if err := h.replace(Handlers{Roots: opts.Roots}); err != nil {
				t.Error(err)
			}
		},
	)
	h.enqueue(queued{change: mcp.Change{URI: "last"}})
	<-last
	racetest.Together(1, start, func(int) { h.close() })
	if started != len(done) || h.start(func() {}) {
		t.Errorf("%d handlers were started, %d have returned", started, len(done))
	}
	next := map[string]int{}
	for _, uri := range got {
		if want := fmt.Sprintf("%s:%d", uri[:1], next[uri[:1]]); uri != want {
			t.Errorf("the change %s is reported before %s, or twice", uri, want)
		}
		next[uri[:1]]++
	}
	if len(got) != 2*n {
		t.Errorf("%d changes were reported, want %d", len(got), 2*n)
	}
}
