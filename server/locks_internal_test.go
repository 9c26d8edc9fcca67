package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

func newTestServer(opts *Options) *Server {
	opts.Logger = slog.New(slog.DiscardHandler)
	return New(mcp.Implementation{Name: "test", Version: "1"}, opts)
}

// A recordedBus keeps what is published. It has no lock: an exchange publishes one message at a time.
type recordedBus struct {
	store.Bus // nil

	messages    [][]byte
	err         error // of Publish
	subscribed  int
	unsubscribe int
}

func (b *recordedBus) Publish(_ context.Context, _ string, data []byte) error {
	if b.err == nil {
		b.messages = append(b.messages, data)
	}
	return b.err
}

func (b *recordedBus) Subscribe(context.Context, string, func(context.Context, store.Message)) (func(), error) {
	b.subscribed++
	return func() { b.unsubscribe++ }, nil
}

// newTestExchange returns an exchange that publishes to a bus.
func newTestExchange(bus *recordedBus) *exchange {
	e := newExchange(newTestServer(&Options{}))
	e.bus = bus
	return e
}

// Changes that are raised at the same time are published once each, in the order in which each goroutine
// has raised them.
func TestChangesArePublishedConcurrently(t *testing.T) {
	const n = maxUnsent / 2
	bus := &recordedBus{}
	e := newTestExchange(bus)
	add := func(name string) func(int) {
		return func(round int) { e.add(mcp.Change{Kind: mcp.KindResource, URI: fmt.Sprintf("%s:%d", name, round)}) }
	}
	racetest.Together(n, add("a"), add("b"))
	e.close(t.Context())
	next := map[string]int{}
	for _, sealed := range bus.messages {
		var message changesMessage
		data, err := e.server.stateKey.Open(t.Context(), string(sealed), token.Binding(changesSubject), time.Now())
		if err == nil {
			err = json.Unmarshal(data, &message)
		}
		if err != nil || message.Missed {
			t.Fatalf("a message with the changes %v, missed: %t: %v", message.Changes, message.Missed, err)
		}
		for _, change := range message.Changes {
			name := change.URI[:1]
			if want := fmt.Sprintf("%s:%d", name, next[name]); change.URI != want {
				t.Errorf("the change of %s is published before %s, or twice", change.URI, want)
			}
			next[name]++
		}
	}
	if next["a"] != n || next["b"] != n {
		t.Errorf("%d and %d changes were published, want %d of both", next["a"], next["b"], n)
	}
}

// When the store is closed, changes are forgotten, and an exchange begins again with later ones.
func TestChangesAreAbandonedConcurrently(t *testing.T) {
	e := newTestExchange(&recordedBus{err: store.ErrClosed})
	add := func(name string) func(int) {
		return func(round int) {
			e.add(mcp.Change{Kind: mcp.KindResource, URI: fmt.Sprintf("%s:%d", name, round)})
		}
	}
	racetest.Together(500, add("a"), add("b"))
	e.close(t.Context())
	if e.isSending || len(e.unsent) != 0 || len(e.isUnsent) != 0 || e.bytes != 0 || e.missed {
		t.Errorf("sending: %t, %d changes wait, %d are known to wait, with %d bytes, missed: %t; want nothing",
			e.isSending, len(e.unsent), len(e.isUnsent), e.bytes, e.missed)
	}
}

// Watchers that come at the same time make one subscription, which is ended once. No goroutine begins
// after the exchange was closed.
func TestExchangeIsJoinedConcurrently(t *testing.T) {
	for range 100 {
		bus := &recordedBus{}
		e := newTestExchange(bus)
		racetest.Together(1,
			func(int) { e.join(t.Context()) },
			func(int) { e.join(t.Context()) },
			func(int) { e.add(mcp.Change{Kind: mcp.KindTool}) },
			func(int) { e.close(t.Context()) },
			func(int) { e.close(t.Context()) },
		)
		e.running.Wait()
		if bus.subscribed > 1 || bus.unsubscribe != bus.subscribed {
			t.Fatalf("subscribed %d times and unsubscribed %d times", bus.subscribed, bus.unsubscribe)
		}
	}
}

// Calls are counted exactly, and a server that stops waits for those that it has accepted.
func TestCallsAreCountedConcurrently(t *testing.T) {
	const n = 500
	var calls callCounter
	for range n {
		calls.begin()
	}
	var accepted [2]int
	halfway := make(chan struct{})
	start := func(i int) func(int) {
		return func(round int) {
			if i == 0 && round == n/2 {
				close(halfway)
			}
			if calls.begin() {
				accepted[i]++
			}
		}
	}
	var idle [2]<-chan struct{}
	stop := func(i int) func(int) {
		return func(round int) {
			if round == 0 {
				<-halfway
				idle[i] = calls.stop()
			}
		}
	}
	racetest.Together(n, start(0), start(1), func(int) { calls.end() }, stop(0), stop(1))
	all := accepted[0] + accepted[1]
	if idle[0] != idle[1] || calls.running != all || calls.begin() {
		t.Fatalf("%d calls run, want %d; one channel for both that stop: %t", calls.running, all, idle[0] == idle[1])
	}
	for range all {
		select {
		case <-idle[0]:
			t.Fatal("idle while a call runs")
		default:
			calls.end()
		}
	}
	select {
	case <-idle[0]:
	default:
		t.Error("not idle after the last call")
	}
}

// A watcher gets each change once, whoever begins or ends to watch at the same time.
func TestChangesAreWatchedConcurrently(t *testing.T) {
	const n = 200
	var c changes
	var got int // no lock: changes are delivered one at a time
	c.watchAll(func(mcp.Change) { got++ })
	var stops [n]func()
	for i := range stops {
		stops[i] = c.watch("", mcp.SubscriptionFilter{ToolsListChanged: true}, func(mcp.Change) {})
	}
	racetest.Together(n,
		func(int) { c.watch("", mcp.SubscriptionFilter{ToolsListChanged: true}, func(mcp.Change) {}) },
		func(round int) { stops[round]() },
		func(int) { c.notify(mcp.Change{Kind: mcp.KindTool}) },
		func(int) { c.notifyMissed() },
	)
	if want := n + 4*n; got != want || len(c.watchers) != 1+n {
		t.Errorf("%d changes and %d watchers, want %d and %d", got, len(c.watchers), want, 1+n)
	}
}

// The newest entry of a log is known, whoever sees it first.
func TestNewestEntryConcurrently(t *testing.T) {
	const n = 500
	var log topic
	at := func(id uint64) time.Time { return time.UnixMilli(int64(id)) }
	var last uint64
	racetest.Together(n,
		func(round int) { log.saw(uint64(2*round), at(uint64(2*round))) },
		func(round int) { log.saw(uint64(2*round+1), at(uint64(2*round+1))) },
		func(int) {
			id, added := log.known()
			if id < last || id > 0 && added != at(id) {
				t.Errorf("the newest entry is %d of %v, after %d", id, added, last)
			}
			last = id
		},
	)
	if id, added := log.known(); id != 2*n-1 || added != at(id) {
		t.Errorf("the newest entry is %d of %v, want %d", id, added, 2*n-1)
	}
}

// An entry is mapped once, and stays the same while it is in the next catalog.
func TestEntriesAreMappedConcurrently(t *testing.T) {
	const n = 200
	var entries []*Entry
	for i := range 4 {
		entries = append(entries, &Entry{Target: mcp.Target{Kind: mcp.KindTool, Name: fmt.Sprint(i)}})
	}
	unlisted := &Entry{Target: mcp.Target{Kind: mcp.KindTool, Name: "unlisted"}}
	var catalogs [n]*Catalog
	for i := range catalogs {
		catalogs[i] = NewCatalog(entries, nil)
	}
	mapped := map[*Entry]int{} // no lock: entries are mapped one at a time
	m := newMapping(func(e *Entry) *Entry { mapped[e]++; return new(*e) })
	var results [3][]*Entry
	apply := func(i int) func(int) {
		return func(round int) {
			results[i] = append(results[i], m.apply(catalogs[round]).Lookup(mcp.KindTool, "0"))
		}
	}
	racetest.Together(n, apply(0), apply(1), func(int) { results[2] = append(results[2], m.mapUnlisted(unlisted)) })
	for i := range results {
		if all := slices.Compact(results[i]); len(all) != 1 {
			t.Errorf("the goroutine %d got %d entries for one", i, len(all))
		}
	}
	for e, count := range mapped {
		if count != 1 {
			t.Errorf("the entry %s was mapped %d times", e.Name, count)
		}
	}
}

// All goroutines get one engine of tasks, or none after the drain.
func TestTaskEngineIsMadeConcurrently(t *testing.T) {
	for range 50 {
		s := newTestServer(&Options{})
		var engines [3]*task.Engine
		get := func(i int) func(int) {
			return func(int) { engines[i], _ = s.taskEngine() }
		}
		racetest.Together(1, get(0), get(1), func(int) { s.stopTasks() }, get(2))
		for _, e := range engines {
			if e != nil && e != s.tasks.engine {
				t.Fatal("two engines were made")
			}
		}
		if _, err := s.taskEngine(); s.tasks.engine == nil && err != errStopping {
			t.Errorf("after the drain: %v", err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
