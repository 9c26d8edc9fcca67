package era_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A bookCore knows which resources are watched. Those in missing do not exist.
type bookCore struct {
	watchedCore
	mu      sync.Mutex
	books   []string
	missing map[string]bool
}

func (c *bookCore) Watch(_ context.Context, _ *mcp.Call, filter mcp.SubscriptionFilter, _ func(mcp.Change)) (mcp.SubscriptionFilter, func(), error) {
	if len(filter.ResourceSubscriptions) == 0 {
		return filter, func() {}, nil
	}
	<-time.After(time.Duration(rand.IntN(100)) * time.Microsecond) // other goroutines run in between
	uri := filter.ResourceSubscriptions[0]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missing[uri] {
		return mcp.SubscriptionFilter{}, func() {}, nil
	}
	c.books = append(c.books, uri)
	return filter, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.books, uri)
		c.books = slices.Delete(c.books, i, i+1)
	}, nil
}

// watched returns the resources that are watched, each as often as it is.
func (c *bookCore) watched() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.books)
	return fmt.Sprint(c.books)
}

// A stateStore is the store of one session, which several processes serve.
type stateStore struct {
	mu       sync.Mutex
	state    json.RawMessage
	revision int
	broken   error
}

// A storedSession is a session of a [stateStore] in one process.
type storedSession struct {
	*testing.T
	store   *stateStore
	core    *bookCore
	handler transport.SessionHandler
	room    *quota.Retained

	applyMu sync.Mutex
	applied int

	jsonrpc.Peer          // nil
	notified     []string // each notification and what it is about
}

func newStoredSession(t *testing.T, store *stateStore, missing ...string) *storedSession {
	return newLimitedSession(t, store, nil, missing...)
}

func newLimitedSession(t *testing.T, store *stateStore, room *quota.Retained, missing ...string) *storedSession {
	s := &storedSession{T: t, store: store, core: &bookCore{missing: map[string]bool{}}, room: room}
	for _, uri := range missing {
		s.core.missing[uri] = true
	}
	link := transport.Link{Input: t.Context(), Peer: s, Go: func(fn func(context.Context)) { go fn(t.Context()) }}
	if store != nil {
		link.State = s
	}
	s.handler = era.NewServer(s.core, nil, room).Bind(link).(transport.SessionHandler)
	return s
}

func (s *storedSession) Notify(_ context.Context, method string, params jsonrpc.Appender) error {
	var body []byte
	if params != nil {
		body, _ = params.AppendJSON(nil)
	}
	s.notified = append(s.notified, method+string(body))
	return nil
}

// UpdateState implements [transport.StateStore].
func (s *storedSession) UpdateState(ctx context.Context, change func(json.RawMessage) (json.RawMessage, error)) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	if err := s.store.update(change); err != nil {
		return err
	}
	return s.apply(false)
}

func (s *stateStore) update(change func(json.RawMessage) (json.RawMessage, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	state, err := change(s.state)
	if err == nil {
		s.state, s.revision = state, s.revision+1
	}
	return err
}

// apply passes the newest state to the handler. s.applyMu is held.
func (s *storedSession) apply(listening bool) error {
	s.store.mu.Lock()
	state, revision := s.store.state, s.store.revision
	s.store.mu.Unlock()
	if revision == s.applied {
		return nil
	}
	s.applied = revision
	return s.handler.SetState(s.Context(), state, listening)
}

// reload passes the newest state to the handler.
func (s *storedSession) reload(listening bool) {
	s.Helper()
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	if err := s.apply(listening); err != nil {
		s.Error(err)
	}
}

func (s *storedSession) call(method, params string) error {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, []byte(params))
	if err != nil {
		return err
	}
	return s.handler.Handle(s.Context(), s, req, new(jsonrpc.Reply))
}

func (s *storedSession) must(method, params string) {
	s.Helper()
	if err := s.call(method, params); err != nil {
		s.Errorf("%s %s: %v", method, params, err)
	}
}

// open opens the session and stores its state.
func (s *storedSession) open() {
	s.Helper()
	s.must(mcp.MethodInitialize, eratest.InitializeParams(mcp.Version20250618, `{"roots":{}}`))
	if s.store != nil {
		s.store.state, s.store.revision, s.applied = s.handler.State(), 1, 1
	}
}

// The format of the state of a session stays as it is, because replicas of different versions share it. With a store and
// without, the state is the same.
func TestFormatOfSessionState(t *testing.T) {
	golden, err := os.ReadFile("testdata/session.json")
	if err != nil {
		t.Fatal(err)
	}
	golden = bytes.TrimSpace(golden)
	for name, store := range map[string]*stateStore{"with a store": {}, "without": nil} {
		s := newStoredSession(t, store)
		if state := s.handler.State(); state != nil {
			t.Errorf("%s: before the handshake, the state is %s", name, state)
		}
		s.open()
		s.must(mcp.MethodSetLevel, `{"level":"debug"}`)
		s.must(mcp.MethodResourcesSubscribe, `{"uri":"a:b"}`)
		s.must(mcp.MethodResourcesSubscribe, `{"uri":"a:c"}`)
		s.must(mcp.MethodResourcesUnsubscribe, `{"uri":"a:c"}`)
		if got := s.handler.State(); !bytes.Equal(got, golden) {
			t.Errorf("%s: the state is %s, want %s", name, got, golden)
		}
		if store != nil && !bytes.Equal(store.state, golden) {
			t.Errorf("stored %s, want %s", store.state, golden)
		}
	}
	other := newStoredSession(t, &stateStore{state: golden, revision: 1})
	other.reload(false)
	if got := other.handler.State(); !bytes.Equal(got, golden) {
		t.Errorf("another process has the state %s, want %s", got, golden)
	}
	for _, malformed := range []string{"", "null", "[]", "{}", `{"handshake":{},"level":"loud"}`} {
		if err := newStoredSession(t, nil).handler.SetState(t.Context(), json.RawMessage(malformed), false); err == nil {
			t.Errorf("the state %q is accepted", malformed)
		}
	}
}

// A process that continues a session watches what the client has subscribed to, and notifies it of what it may have missed.
func TestSessionContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(stateStore)
		one, other := newStoredSession(t, store), newStoredSession(t, store, "book:gone")
		one.open()
		one.must(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`)
		one.must(mcp.MethodResourcesSubscribe, `{"uri":"book:gone"}`)
		const lists, first, gone = "notifications/resources/list_changed", `notifications/resources/updated{"uri":"book:1"}`, `notifications/resources/updated{"uri":"book:gone"}`
		step := func(what string, do func(), watched string, notified ...string) {
			t.Helper()
			other.notified = nil
			do()
			if got := other.core.watched(); got != watched || !slices.Equal(other.notified, notified) {
				t.Errorf("%s: the process watches %s and notifies %q, want %s and %q", what, got, other.notified, watched, notified)
			}
		}
		step("restored", func() { other.reload(false) }, "[book:1]")
		step("listens", func() { other.handler.ClientListens(t.Context(), false) }, "[book:1]", first, gone)
		<-time.After(time.Minute)
		step("listens later", func() { other.handler.ClientListens(t.Context(), false) }, "[book:1]")
		step("missed", func() { other.handler.ClientListens(t.Context(), true) }, "[book:1]", lists, first, gone)
		step("elsewhere", func() {
			one.must(mcp.MethodResourcesSubscribe, `{"uri":"book:2"}`)
			one.must(mcp.MethodResourcesUnsubscribe, `{"uri":"book:1"}`)
			other.reload(true)
		}, "[book:2]", `notifications/resources/updated{"uri":"book:2"}`)
		step("here", func() {
			other.must(mcp.MethodResourcesSubscribe, `{"uri":"book:3"}`)
			other.must(mcp.MethodResourcesSubscribe, `{"uri":"book:3"}`)
		}, "[book:2 book:3]")
		step("unsubscribed elsewhere, subscribed here", func() {
			one.reload(false)
			one.must(mcp.MethodResourcesUnsubscribe, `{"uri":"book:3"}`)
			other.must(mcp.MethodResourcesSubscribe, `{"uri":"book:3"}`)
		}, "[book:2 book:3]")
		step("found", func() {
			other.core.missing = nil
			other.must(mcp.MethodResourcesSubscribe, `{"uri":"book:gone"}`)
		}, "[book:2 book:3 book:gone]")
		store.broken = errors.New("the store is down")
		step("not stored", func() {
			for method, params := range map[string]string{
				mcp.MethodSetLevel: `{"level":"debug"}`, mcp.MethodResourcesSubscribe: `{"uri":"book:4"}`, mcp.MethodResourcesUnsubscribe: `{"uri":"book:2"}`,
			} {
				if err := other.call(method, params); err != store.broken {
					t.Errorf("%s: %v", method, err)
				}
			}
		}, "[book:2 book:3 book:gone]")
		store.broken = nil
		one.reload(false)
		if got, want := string(other.handler.State()), string(one.handler.State()); got != want || !bytes.Contains(store.state, []byte(`"info"`)) {
			t.Errorf("the processes have the states %s and %s; stored is %s", want, got, store.state)
		}
	})
}

// While two processes change the subscriptions of a session and read them again, no change is lost. In the end, both watch
// what the state has, once.
func TestSubscriptionsConcurrently(t *testing.T) {
	store := new(stateStore)
	one, other := newStoredSession(t, store), newStoredSession(t, store)
	one.open()
	other.reload(false)
	client := func(s *storedSession, uri string) func(int) {
		return func(round int) {
			method := mcp.MethodResourcesSubscribe
			if round%2 == 1 {
				method = mcp.MethodResourcesUnsubscribe
			}
			s.must(method, `{"uri":"`+uri+`"}`)
		}
	}
	reload := func(s *storedSession) func(int) { return func(int) { s.reload(false) } }
	for episode := range 60 { // a later change would hide that an earlier one was applied too late
		rounds := 2 + episode%2
		racetest.Together(rounds, client(one, "a"), client(other, "b"), client(one, "same"), client(other, "same"), reload(one), reload(other))
		one.reload(false)
		other.reload(false)
		var state struct{ Resources []string }
		if err := json.Unmarshal(store.state, &state); err != nil {
			t.Fatal(err)
		}
		slices.Sort(state.Resources)
		want := fmt.Sprint(state.Resources)
		if first, second := one.core.watched(), other.core.watched(); first != want || second != want {
			t.Fatalf("episode %d: the processes watch %s and %s, the state has %s", episode, first, second, want)
		}
		if own := slices.Contains(state.Resources, "a") && slices.Contains(state.Resources, "b"); own != (rounds%2 == 1) {
			t.Fatalf("episode %d: a change is lost: the state has %s after %d rounds", episode, want, rounds)
		}
	}
}

// A session counts about the same bytes in the process that has opened it and in one that goes on with it.
func TestBytesOfContinuedSession(t *testing.T) {
	shared := &stateStore{}
	first := newLimitedSession(t, shared, quota.NewRetained(1<<20))
	first.open()
	for i := range 20 {
		first.must(mcp.MethodResourcesSubscribe, fmt.Sprintf(`{"uri":"book://%d/%s"}`, i, strings.Repeat("x", 1<<10)))
	}
	second := newLimitedSession(t, shared, quota.NewRetained(1<<20))
	second.reload(false)
	if a, b := first.room.Held(), second.room.Held(); a < 40<<10 || b < a-1<<10 || b > a+1<<10 {
		t.Errorf("%d bytes where it was opened, %d where it goes on", a, b)
	}
	for i := range 20 {
		second.must(mcp.MethodResourcesUnsubscribe, fmt.Sprintf(`{"uri":"book://%d/%s"}`, i, strings.Repeat("x", 1<<10)))
	}
	if held := second.room.Held(); held > 4<<10 {
		t.Errorf("%d bytes are held without watches", held)
	}
}

// A process without room for a watch of another process does everything else that the state says.
func TestChangedStateWithoutRoom(t *testing.T) {
	shared := &stateStore{}
	roomy := newStoredSession(t, shared)
	roomy.open()
	full := newLimitedSession(t, shared, quota.NewRetained(48<<10))
	full.reload(false)
	for _, uri := range []string{"book://old", "book://kept"} {
		roomy.must(mcp.MethodResourcesSubscribe, `{"uri":"`+uri+`"}`)
	}
	full.reload(false)
	roomy.must(mcp.MethodResourcesUnsubscribe, `{"uri":"book://old"}`)
	for i := range 8 {
		roomy.must(mcp.MethodResourcesSubscribe, fmt.Sprintf(`{"uri":"book://%d/%s"}`, i, strings.Repeat("x", 8000)))
	}
	full.applyMu.Lock()
	err := full.apply(false)
	full.applyMu.Unlock()
	if busy, ok := errors.AsType[*jsonrpc.Error](err); !ok || busy.Code != jsonrpc.Busy {
		t.Errorf("the error is %v, want Busy", err)
	}
	if watched := full.core.watched(); !strings.Contains(watched, "book://kept") || strings.Contains(watched, "book://old") || !strings.Contains(watched, "book://0/") {
		t.Errorf("these are watched: %.300s", watched)
	}
}
