package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/racetest"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Events and comments do not mix, and nothing follows the end of the stream.
func TestEventStreamConcurrently(t *testing.T) {
	const rounds = 200
	w := httptest.NewRecorder()
	p := startEventStream(w, &Options{KeepAlive: 1 << 60})
	send := func(int) {
		if err := p.send(t.Context(), sse.Event{Data: []byte("{}")}); err != nil {
			t.Error(err)
		}
	}
	racetest.Together(rounds, send, send, func(int) { p.keepAlive() })
	racetest.Together(1, func(int) { p.stop() }, func(int) { p.keepAlive() })
	body := w.Body.String()
	if n := strings.Count(body, "data: {}\n"); n != 2*rounds {
		t.Errorf("the client gets %d events, want %d:\n%.300s", n, 2*rounds, body)
	}
	if p.keepAlive(); w.Body.Len() != len(body) {
		t.Error("a comment follows the end of the stream")
	}
}

// Notifications of several goroutines come whole, in the order of each goroutine, and before the answer.
func TestNotificationsOfCallConcurrently(t *testing.T) {
	const rounds = 200
	w := httptest.NewRecorder()
	x := &callPeer{endpoint: &Endpoint{opts: Options{KeepAlive: 1 << 60}}, w: w, accepts: acceptedTypes{true, true}}
	notify := func(name string) func(int) {
		return func(round int) {
			if err := x.Notify(t.Context(), "note", jsonrpc.Raw(fmt.Appendf(nil, `{"%s":%d}`, name, round))); err != nil {
				t.Error(err)
			}
		}
	}
	racetest.Together(rounds, notify("a"), notify("b"))
	answer := []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	racetest.Together(1, notify("a"), notify("b"), func(int) { x.finish(200, answer) })
	notify("late")(0)
	body := w.Body.Bytes()
	for _, name := range []string{"a", "b"} {
		rest := body
		for round := range rounds {
			_, after, found := bytes.Cut(rest, fmt.Appendf(nil, `"params":{"%s":%d}}`, name, round))
			if !found {
				t.Fatalf("notification %d of %s is missing, or too early", round, name)
			}
			rest = after
		}
	}
	if !bytes.HasSuffix(bytes.TrimSpace(body), answer) {
		t.Error("something follows the answer")
	}
}

// A lease counts each lapse once, while it is refreshed and read.
func TestLeaseConcurrently(t *testing.T) {
	const rounds = 500
	r := &replicas{endpoint: &Endpoint{sessions: &sessions{shared: true}}}
	begun := time.Now()
	counted := 0
	racetest.Together(rounds,
		func(int) { r.lease.set(begun, true) },
		func(int) { r.lease.set(begun, true) },
		func(int) {
			n := r.lapseCount()
			if n < counted {
				t.Errorf("%d lapses, and %d before", n, counted)
			}
			counted = n
		},
		func(int) { r.holds(-1) },
	)
	if n := r.lapseCount(); n != 2*rounds {
		t.Errorf("%d lapses are counted, want %d", n, 2*rounds)
	}
	if !r.holds(2 * rounds) {
		t.Error("the lease is not held")
	}
}

// Sessions that begin at the same time subscribe once to the messages of other replicas. All know whether
// that failed.
func TestReplicasStartConcurrently(t *testing.T) {
	for _, broken := range []error{nil, errors.New("the store is broken")} {
		ctx, cancel := context.WithCancel(t.Context())
		memory, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		counting := &countingStore{Store: memory, broken: broken}
		e := &Endpoint{store: counting, ctx: ctx, sessions: &sessions{shared: true}}
		e.replicas = newReplicas(e)
		start := func(int) {
			if err := e.replicas.start(); err != broken {
				t.Errorf("start: %v, want %v", err, broken)
			}
		}
		racetest.Together(20, start, start, start)
		if counting.created != 1 {
			t.Errorf("%d attempts to subscribe, want 1; the error is %v", counting.created, broken)
		}
		racetest.Together(1, func(int) { _ = e.replicas.start() }, func(int) { e.replicas.close() }, func(int) { e.replicas.endLease() })
		cancel()
		e.background.Wait()
		memory.Close()
	}
}

// A countingStore counts the attempts to create a key.
type countingStore struct {
	store.Store
	broken  error // of all attempts
	created int
}

func (s *countingStore) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	s.created++
	if s.broken != nil {
		return 0, s.broken
	}
	return s.Store.Create(ctx, key, value, ttl)
}

// A subscriber is a server that only knows which resources its session has subscribed to.
type subscriber struct {
	shared store.Store
	mu     sync.Mutex
	to     map[string]bool
}

func (s *subscriber) Store() store.Store { return s.shared }

func (s *subscriber) Bind(transport.Link) jsonrpc.Handler { return s }

func (s *subscriber) Handle(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	<-time.After(time.Duration(rand.IntN(200)) * time.Microsecond) // other goroutines run in between
	s.mu.Lock()
	defer s.mu.Unlock()
	switch uri := jsonscan.Unquote(req.Member("uri")); req.Method {
	case mcp.MethodResourcesSubscribe:
		s.to[uri] = true
	case mcp.MethodResourcesUnsubscribe:
		delete(s.to, uri)
	}
	return reply.Write(jsonrpc.Raw("{}"))
}

func (s *subscriber) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

// While a session is changed at two replicas and read again at both, each replica applies the changes in the order of the
// record: in the end, both have the subscriptions of the record.
func TestSessionIsChangedConcurrently(t *testing.T) {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	servers := [2]*subscriber{{shared: memory, to: map[string]bool{}}, {shared: memory, to: map[string]bool{}}}
	var sessions [2]*session
	for i, server := range servers {
		e := Handler(server, nil)
		defer e.Close()
		s := newSession(e, "")
		s.id = "session"
		if i == 0 {
			s.applied, err = e.sessions.create(t.Context(), s.id, &record{Handshake: &mcp.InitializeParams{}})
		} else {
			s.applied, err = e.sessions.load(t.Context(), s.id)
		}
		if err != nil {
			t.Fatal(err)
		}
		sessions[i] = s
		defer s.close()
	}
	change := func(i int) func(int) {
		return func(round int) {
			s, method := sessions[i], mcp.MethodResourcesSubscribe
			if round%2 == 1 {
				method = mcp.MethodResourcesUnsubscribe
			}
			req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, fmt.Appendf(nil, `{"uri":"a:%d"}`, i))
			if err != nil {
				t.Error(err)
				return
			}
			repeated := s.repeatCount()
			s.repeat(t.Context(), []*jsonrpc.Request{req}) // as the client's call
			if err := s.save(t.Context(), []*jsonrpc.Request{req}, repeated); err != nil {
				t.Error(err)
			}
		}
	}
	reload := func(i int) func(int) {
		return func(int) {
			if err := sessions[i].reload(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	for episode := range 300 { // a later change would hide that an earlier one was applied too late
		racetest.Together(2+episode%2, change(0), change(1), reload(0), reload(0), reload(1), reload(1))
		for i, server := range servers {
			reload(i)(0)
			got, want := slices.Sorted(maps.Keys(server.to)), slices.Sorted(slices.Values(sessions[i].applied.Value.Resources))
			if !slices.Equal(got, want) {
				t.Fatalf("episode %d: replica %d has subscribed to %q, the record has %q", episode, i+1, got, want)
			}
		}
	}
}
