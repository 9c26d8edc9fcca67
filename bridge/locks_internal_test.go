package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

var errNoServer = errors.New("there is no server")

// A noServer cannot be reached.
type noServer struct{}

func (noServer) Dial(context.Context, jsonrpc.Handler) (transport.Conn, error) {
	return nil, errNoServer
}

// canceled returns a context that has ended.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func testOptions() *ProxyOptions { return &ProxyOptions{Logger: slog.New(slog.DiscardHandler)} }

// A resource is subscribed to while it has subscribers, and keeps the session of its server open for that
// time.
func TestSubscribersConcurrently(t *testing.T) {
	const n = 200
	main := newSession(&managedSession{})
	s := newSubscriptions(main)
	add := func(uri string) func() {
		_, remove, err := s.add(uri)
		if err != nil {
			t.Errorf("subscribing to %s: %v", uri, err)
			return func() {}
		}
		return remove
	}
	var removes [n]func()
	for i := range removes {
		removes[i] = add("shared")
	}
	add("shared") // a subscriber that stays
	racetest.Together(n,
		func(int) { add("shared") },
		func(int) { add("shared") },
		func(round int) { removes[round]() },
		func(round int) { removes[round]() },
		func(round int) { add(fmt.Sprint("kept", round)) },
		func(round int) { add(fmt.Sprint("kept", round)) },
		func(round int) { add(fmt.Sprint("removed", round))() },
		func(int) {
			if s.all()["shared"] == nil {
				t.Error("a resource with subscribers is not subscribed to")
			}
		},
	)
	all := s.all()
	if len(all) != n+1 || main.users != n+1 || all["shared"].subscribers != 2*n+1 {
		t.Errorf("%d resources keep the session open %d times, want %d; the shared one has %d subscribers, want %d",
			len(all), main.users, n+1, all["shared"].subscribers, 2*n+1)
	}
	for uri, r := range all {
		if uri != "shared" && r.subscribers != 2 {
			t.Errorf("%s has %d subscribers, want 2", uri, r.subscribers)
		}
	}
}

// A copy of the resources that has a resource comes after everything that was done before that one was
// added. The race detector does not see that maps.Clone reads, so it checks this order.
func TestSubscribedResourcesConcurrently(t *testing.T) {
	const n = 200
	s := newSubscriptions(newSession(&managedSession{}))
	var before [n]string // no lock: the lock of s orders accesses
	check := func() {
		for seen := 0; seen < n && !t.Failed(); runtime.Gosched() { // until it has seen all
			all := s.all()
			seen = len(all)
			for uri := range all {
				round, err := strconv.Atoi(uri)
				if err != nil || before[round] != uri {
					t.Errorf("the resource %s is %q: %v", uri, before[round], err)
				}
			}
		}
	}
	racetest.Together(n, func(round int) {
		if round == 0 {
			check()
		}
	}, func(round int) {
		before[round] = strconv.Itoa(round)
		if _, _, err := s.add(before[round]); err != nil {
			t.Error(err)
		}
	})
}

// An upstream reports changes to the function of its last run, and has the last error of its lists.
func TestUpstreamConcurrently(t *testing.T) {
	const n = 200
	u := Proxy(noServer{}, testOptions())
	stopped := canceled(t)
	first, second := errors.New("the first error"), errors.New("the second error")
	var reported [n]int // no lock: only one goroutine reports
	racetest.Together(n,
		func(round int) { u.run(stopped, func(mcp.Change) { reported[round]++ }) },
		func(int) { u.notify(mcp.Change{Kind: mcp.KindTool}) },
		func(round int) {
			u.setListError(first, nil)
			u.setListError(second, nil)
		},
		func(int) {
			if err := u.lastListError(); err != nil && err != first && err != second {
				t.Errorf("the error is %v", err)
			}
		},
		func(int) { u.State() },
	)
	before := reported[n-1]
	u.notify(mcp.Change{Kind: mcp.KindTool})
	if reported[n-1] != before+1 {
		t.Error("a change is not reported to the function of the last run")
	}
	if state := u.State(); state.Err != second || state.Status != statusStopped {
		t.Errorf("the server is %s with the error %v, want %s and %v", state.Status, state.Err, statusStopped, second)
	}
}

// A pool starts one session for each principal, and none after it has ended.
func TestSessionsOfPoolConcurrently(t *testing.T) {
	const n = 100
	stopped := canceled(t)
	u := Proxy(noServer{}, testOptions())
	p := u.pool
	if !p.start(stopped) || p.start(stopped) {
		t.Fatal("the pool does not start once")
	}
	start := func(round int) {
		s, err := p.retain(t.Context(), fmt.Sprint(round))
		if err == nil {
			s.release(t.Context(), false)
		} else if err != errStopped && err != errTooManySessions {
			t.Errorf("the session does not start: %v", err)
		}
	}
	lookup := func(round int) { p.rootsChanged(t.Context(), &mcp.Caller{Principal: fmt.Sprint(round)}) }
	racetest.Together(n, start, start, lookup, func(int) { u.State() })
	racetest.Together(n,
		start,
		start,
		lookup,
		func(int) {
			p.run(stopped)
			if !p.start(stopped) {
				t.Error("a pool that has ended does not start again")
			}
		},
	)
	racetest.Together(n, start, func(int) { p.run(stopped) })
	if len(p.sessions) != 0 {
		t.Errorf("%d sessions are left", len(p.sessions))
	}
	if _, err := p.retain(t.Context(), fmt.Sprint(n)); err != errStopped {
		t.Errorf("a session starts after the end of the pool: %v", err)
	}
}

// A session knows its users, and is not closed as idle while it has any.
func TestUsersOfSessionConcurrently(t *testing.T) {
	const n = 300
	s := newSession(&managedSession{logger: slog.New(slog.DiscardHandler), lazy: true})
	expired := canceled(t)
	bounded, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for range n {
		s.retain(bounded)
	}
	changed := s.statusChanged
	retained := func(int) { s.retain(bounded) }
	racetest.Together(n,
		retained,
		retained,
		func(int) { s.release(bounded, false) },
		func(int) { s.opened() },
		func(int) { s.usage() },
		func(int) { s.recordReply() },
		func(int) { s.mayBeBusy(time.Hour) },
		func(int) { s.is(statusReady) },
		func(int) { s.state() },
		func(int) { s.setState(statusFailed, nil, errNoServer) },
		func(int) { s.setState(statusStarting, nil, nil) },
		func(int) {
			if _, err := s.waitOpen(expired); err == nil {
				t.Error("a session is open")
			}
		},
	)
	if s.users != 2*n || s.deadlines != 2*n || s.restarts != n || !isClosed(changed) {
		t.Errorf("%d users with %d deadlines after %d restarts; want %d, %d and %d", s.users, s.deadlines, s.restarts, 2*n, 2*n, n)
	}
	s.lastUsed = time.Time{}
	for range 2 * n {
		if s.closeIdle() {
			t.Fatalf("a session with %d users is closed", s.users)
		}
		s.release(bounded, false)
	}
	closeIdle := func(int) {
		if !s.closeIdle() {
			t.Errorf("a session with %d users is not closed", s.users)
		}
	}
	racetest.Together(n, closeIdle, closeIdle, func(int) { s.is(statusIdle) })
	s.retain(t.Context())
	s.recordReply()
	racetest.Together(n, func(int) { s.recordReply() }, func(int) {
		if !s.mayBeBusy(time.Hour) {
			t.Error("a session whose server has just replied to a call is not busy")
		}
	})
}

// A recordedPeer keeps the notifications of one queue. It has no lock: a queue sends one at a time.
type recordedPeer struct {
	transport.Conn // nil
	got            []string
}

func (p *recordedPeer) Notify(_ context.Context, method string, _ jsonrpc.Appender) error {
	p.got = append(p.got, method)
	return nil
}

func (p *recordedPeer) Cancel(jsonrpc.ID) {}

func (p *recordedPeer) Call(context.Context, string, jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, errNoServer
}

// Notifications are sent once, in the order of each sender, and before a queue that is closed ends.
func TestNotificationsAreQueuedConcurrently(t *testing.T) {
	const n = maxQueuedNotifications / 4
	var q notificationQueue
	to := &recordedPeer{}
	add := func(name string) func(int) {
		return func(round int) {
			q.add(queuedNotification{ctx: context.Background(), to: to, method: fmt.Sprintf("%s:%d", name, round)})
		}
	}
	racetest.Together(n, add("a"), add("b"), func(round int) {
		if round%10 == 0 {
			q.flush(t.Context())
		}
	})
	racetest.Together(1, func(int) { q.close() }, func(int) { q.close() }, add("c"), func(int) { q.flush(t.Context()) })
	q.close()
	next := map[string]int{}
	for _, method := range to.got {
		if want := fmt.Sprintf("%s:%d", method[:1], next[method[:1]]); method != want {
			t.Errorf("%s is sent before %s, or twice", method, want)
		}
		next[method[:1]]++
	}
	if next["a"] != n || next["b"] != n || q.count != 0 || q.bytes != 0 {
		t.Errorf("%d and %d notifications were sent, want %d of both; %d are left", next["a"], next["b"], n, q.count)
	}
}

// newTestLink returns a link of a relay to a server that cannot be reached.
func newTestLink(t *testing.T) *relayLink {
	t.Helper()
	l := &relayLink{relayer: Relay(noServer{}, nil), link: transport.Link{Input: t.Context()}}
	l.ctx, l.cancel = context.WithCancel(t.Context())
	return l
}

// A link counts its calls exactly. After it was closed it has no call and no connection.
func TestCallsOfRelayConcurrently(t *testing.T) {
	const n = 200
	l := newTestLink(t)
	for range n {
		l.addCall()
	}
	var added [2]int
	halfway := make(chan struct{})
	add := func(i int) func(int) {
		return func(round int) {
			if i == 0 && round == n/2 {
				close(halfway)
			}
			if l.addCall() {
				added[i]++
			}
		}
	}
	message, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","method":"` + mcp.NotificationCancelled + `","params":{"requestId":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	cancellation := message.(*jsonrpc.Request)
	racetest.Together(n,
		add(0),
		add(1),
		func(int) { l.removeCall() },
		func(int) { l.whenIdle() },
		func(int) { l.latest() },
		func(int) { l.HandleNotification(&recordedPeer{}, cancellation) },
		func(round int) {
			if round == 0 {
				<-halfway
				l.close()
			}
		},
	)
	if l.addCall() || l.latest() != nil {
		t.Error("a closed link accepts a call, or connects")
	}
	if l.calls != added[0]+added[1] {
		t.Errorf("%d calls run, want %d", l.calls, added[0]+added[1])
	}
	idle := l.whenIdle()
	for range l.calls {
		if isClosed(idle) {
			t.Error("idle while a call runs")
		}
		l.removeCall()
	}
	if !isClosed(idle) {
		t.Error("not idle after the last call")
	}
}

// A connection to a server knows the calls that run, and gives each a progress token of its own.
func TestCallsOfRelayServerConcurrently(t *testing.T) {
	const n = 200
	l := newTestLink(t)
	s := &relayServer{link: l, conn: &recordedPeer{}}
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), "test", json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	call := func(int) {
		if err := s.call(t.Context(), &recordedPeer{}, req, &jsonrpc.Reply{}); err == nil {
			t.Error("a call to no server has succeeded")
		}
	}
	fixed, err := newRelayCall(t.Context(), s, &recordedPeer{}, req)
	if err != nil {
		t.Fatal(err)
	}
	defer fixed.release()
	var tokens [2][]string
	token := func(i int) func(int) { return func(int) { tokens[i] = append(tokens[i], string(s.newToken())) } }
	racetest.Together(n,
		call,
		call,
		token(0),
		token(1),
		func(int) { s.find(func(*relayCall) bool { return false }) },
		func(int) { s.oldest() },
		func(int) { fixed.setSubscription() },
		func(int) { fixed.finish() },
		func(round int) { relayedParams{fixed}.ReceiveID(jsonrpc.IntID(int64(round))) },
		func(round int) { fixed.hasID(json.RawMessage(fmt.Sprint(round))) },
	)
	if len(s.calls) != 0 || !fixed.hasID(json.RawMessage(fmt.Sprint(n-1))) {
		t.Errorf("%d calls run after the last has ended; the id is %v", len(s.calls), fixed.id)
	}
	racetest.Together(n,
		func(round int) { relayedParams{fixed}.ReceiveID(jsonrpc.IntID(int64(round))) },
		func(round int) { fixed.hasID(json.RawMessage(fmt.Sprint(round))) },
	)
	all := map[string]bool{}
	for _, token := range append(tokens[0], tokens[1]...) {
		if all[token] {
			t.Errorf("two calls have the token %s", token)
		}
		all[token] = true
	}
}

// A relay that was closed has no link, whatever is bound at the same time.
func TestRelayIsClosedConcurrently(t *testing.T) {
	for range 50 {
		r := Relay(noServer{}, nil)
		input, end := context.WithCancel(t.Context())
		var ended [2]chan struct{}
		bind := func(i int) func(int) {
			return func(int) {
				r.Bind(transport.Link{Input: input, Go: func(run func(context.Context)) {
					ended[i] = make(chan struct{})
					go func() { defer close(ended[i]); run(input) }()
				}})
			}
		}
		racetest.Together(1, bind(0), bind(1), func(int) { _ = r.Close() }, func(int) { _ = r.Close() })
		for i, done := range ended {
			if done != nil {
				<-done
			} else if r.ctx.Err() == nil {
				t.Errorf("the link %d of an open relay does not run", i)
			}
		}
		end()
	}
}

// Updates follow one another. The servers of the last update run, and the servers of all other updates have stopped.
func TestUpdatesConcurrently(t *testing.T) {
	const rounds = 20
	b, err := New(&Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stop, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	update := func(name string) func(int) {
		return func(round int) {
			var configs []Config
			for i := range 3 {
				configs = append(configs, Config{Alias: fmt.Sprintf("%s%d-%d", name, round, i), Dialer: noServer{}})
			}
			if err := b.Update(configs...); err != nil {
				t.Error(err)
			}
		}
	}
	racetest.Together(rounds, update("a"), update("b"))
	members := *b.members.Load()
	for _, m := range members {
		if m.stop == nil {
			t.Errorf("%s was not started", m.alias)
		}
	}
	stopAll(members)
	waittest.Return(t, "the end of all servers", b.group.Wait)
	stop()
}
