package session

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A lease counts each lapse once, while it is refreshed and read.
func TestLeaseConcurrently(t *testing.T) {
	const rounds = 500
	r := &replicas{sessions: &Sessions{shared: true}}
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
		s := &Sessions{store: counting, ctx: ctx, shared: true}
		s.replicas = newReplicas(s)
		start := func(int) {
			if err := s.replicas.start(); err != broken {
				t.Errorf("start: %v, want %v", err, broken)
			}
		}
		racetest.Together(20, start, start, start)
		if counting.created != 1 {
			t.Errorf("%d attempts to subscribe, want 1; the error is %v", counting.created, broken)
		}
		racetest.Together(1, func(int) { _ = s.replicas.start() }, func(int) { s.replicas.close() }, func(int) { s.replicas.endLease() })
		cancel()
		s.background.Wait()
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

// A stateful is a server whose sessions have a state and nothing else.
type stateful struct {
	mu    sync.Mutex
	state json.RawMessage
}

func (s *stateful) Bind(transport.Link) jsonrpc.Handler { return s }

func (s *stateful) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return errors.New("no calls")
}

func (s *stateful) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

func (s *stateful) State() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *stateful) SetState(_ context.Context, state json.RawMessage, _ bool) error {
	<-time.After(time.Duration(rand.IntN(200)) * time.Microsecond) // other goroutines run in between
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
	return nil
}

func (s *stateful) ClientListens(context.Context, bool) {}

// While the state of a session is changed at two replicas and read again at both, no change is lost, and each replica
// gets the states in the order of the record: in the end, both have the state of the record.
func TestSessionIsChangedConcurrently(t *testing.T) {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	servers := [2]*stateful{{state: json.RawMessage("0")}, {}}
	var sessions [2]*session
	for i, server := range servers {
		limits := transport.Limits{}.WithDefaults()
		all, err := New(Config{Server: server, Store: memory, Quota: quota.NewEndpoint(&limits), Limits: limits, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		s := newSession(all, "session", "", "")
		s.version = mcp.Version20251125
		if i == 0 {
			err = s.create(t.Context())
		} else {
			err = s.reload(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		sessions[i] = s
		defer s.close()
	}
	add := func(state json.RawMessage) (json.RawMessage, error) {
		n, err := strconv.Atoi(string(state))
		return strconv.AppendInt(nil, int64(n)+1, 10), err
	}
	change := func(i int) func(int) {
		return func(int) {
			if err := sessions[i].UpdateState(t.Context(), add); err != nil {
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
	want := 0
	for episode := range 300 { // a later change would hide that an earlier one was applied too late
		rounds := 2 + episode%2
		racetest.Together(rounds, change(0), change(1), reload(0), reload(0), reload(1), reload(1))
		want += 2 * rounds
		for i, server := range servers {
			reload(i)(0)
			if got := string(server.State()); got != strconv.Itoa(want) {
				t.Fatalf("episode %d: replica %d has the state %s after %d changes", episode, i+1, got, want)
			}
		}
	}
}
