package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A recordedSink keeps what a call sends and stores. It has no lock: both are done one at a time.
type recordedSink struct {
	jsonrpc.Peer // nil
	progress     []float64
	logged       int
	saved        []json.RawMessage
}

func (s *recordedSink) Notify(_ context.Context, _ string, params jsonrpc.Appender) error {
	if p, ok := params.(*mcp.ProgressParams); ok {
		s.progress = append(s.progress, p.Progress)
	} else {
		s.logged++
	}
	return nil
}

func (s *recordedSink) Save(_ context.Context, state json.RawMessage) {
	s.saved = append(s.saved, state)
}

func newTestCall(t *testing.T, from jsonrpc.Peer) *call {
	t.Helper()
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	caller := &mcp.Caller{Version: mcp.LatestVersion, Capabilities: mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}}
	return (*Server)(nil).newCall(t.Context(), from, req, caller)
}

// A handler may use its call from several goroutines. Progress increases, nothing that was stored is lost,
// and nothing is sent after the end.
func TestCallConcurrently(t *testing.T) {
	const n = 200
	to := &recordedSink{}
	c := newTestCall(t, to)
	name := func(i int) string { return fmt.Sprint("key", i) }
	ids := []map[string]bool{{}, {}}
	ended := 0
	onDone := func(int) { c.OnDone(func() { ended++ }) }
	racetest.Together(n,
		func(round int) {
			_ = c.Notify(t.Context(), mcp.NotificationProgress, &mcp.ProgressParams{Progress: float64(round)})
		},
		func(round int) {
			_ = c.Notify(t.Context(), mcp.NotificationProgress, &mcp.ProgressParams{Progress: float64(round)})
		},
		func(int) { _ = c.Notify(t.Context(), mcp.NotificationMessage, &mcp.LoggingMessageParams{}) },
		func(round int) { _, _ = c.Input(name(round), mcp.InputRequest{Method: mcp.MethodRootsList}) },
		func(round int) { c.Load(name(round)) },
		func(round int) { c.Store(name(round), json.RawMessage("1")) },
		func(int) { ids[0][c.ID()] = true },
		func(int) { ids[1][c.ID()] = true },
		func(round int) { c.answer(name(2*round), json.RawMessage("{}")) },
		func(round int) { c.fail(name(2*round+1), errors.New("refused")) },
		func(int) { c.endRun() },
		onDone,
		onDone,
	)
	for i := 1; i < len(to.progress); i++ {
		if to.progress[i] <= to.progress[i-1] {
			t.Fatalf("progress does not increase: %v", to.progress)
		}
	}
	if len(ids[0]) != 1 || !ids[1][c.ID()] || len(ids[1]) != 1 || len(c.state.Stored) != n || len(c.state.Answers) != n || len(c.state.failed) != n || len(to.progress) != n {
		t.Errorf("the ids %v, %d stored values, %d answers, %d failures, %d notifications", ids, len(c.state.Stored), len(c.state.Answers), len(c.state.failed), len(to.progress))
	}
	atEnd := 0
	racetest.Together(1,
		func(int) { c.close(); atEnd = to.logged },
		func(int) {
			for range n {
				_ = c.Notify(t.Context(), mcp.NotificationMessage, &mcp.LoggingMessageParams{})
			}
		},
	)
	if to.logged != atEnd || ended != 2*n {
		t.Errorf("%d messages were sent after the end; %d functions ran, want %d", to.logged-atEnd, ended, 2*n)
	}
}

// The state that is saved last is the newest.
func TestTaskIsSavedConcurrently(t *testing.T) {
	const n = 50
	sink := &recordedSink{}
	c := newTestCall(t, &background{id: "task", sink: sink})
	store := func(name string) func(int) {
		return func(round int) { c.Store(fmt.Sprint(name, round), json.RawMessage("1")) }
	}
	racetest.Together(n, store("a"), store("b"))
	for i := 1; i < len(sink.saved); i++ {
		if len(sink.saved[i]) < len(sink.saved[i-1]) {
			t.Errorf("the state %d is older than the one before", i)
		}
	}
	if last := sink.saved[len(sink.saved)-1]; len(sink.saved) != 2*n || string(last) != string(c.encodeState()) {
		t.Errorf("%d states were saved, want %d; the last is %.80s", len(sink.saved), 2*n, last)
	}
}

// Each notification is taken once and in order, and those before the end are not lost.
func TestEventQueueConcurrently(t *testing.T) {
	const n = 300
	q := NewEventQueue(2*n, 1<<20, func() { t.Error("the queue is full") })
	reason := errors.New("the stream has ended")
	add := func(name string) func(int) {
		return func(round int) { q.Add(&jsonrpc.Request{Method: name, Params: fmt.Append(nil, round)}) }
	}
	next := map[string]int{}
	take := func(int) {
		waiting, ended, err := q.Take()
		if ended != (err != nil) {
			t.Errorf("ended: %t: %v", ended, err)
		}
		for _, note := range waiting {
			if want := fmt.Sprint(next[note.Method]); string(note.Params) != want {
				t.Errorf("%s %s is taken before %s, or twice", note.Method, note.Params, want)
			}
			next[note.Method]++
		}
	}
	racetest.Together(n, add("a"), add("b"), take, func(int) { q.End(reason) })
	take(0)
	if next["a"] != n || next["b"] != n {
		t.Errorf("%d and %d notifications were taken, want %d of both", next["a"], next["b"], n)
	}
}

// Progress and what a subscription sends reach the call that they belong to.
func TestSessionConcurrently(t *testing.T) {
	const n = 200
	s := &Client{tracked: map[string]func(*jsonrpc.Request){}, subscriptions: map[jsonrpc.ID]*clientSubscription{}}
	got := 0 // no lock: the read loop handles one message at a time
	token, stop := s.TrackProgress(func(json.RawMessage, *jsonrpc.Request) { got++ })
	message, err := jsonrpc.Decode([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(token) + `,"progress":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	var params [n]*listenParams
	for i := range params {
		params[i] = &listenParams{client: s, subscription: &clientSubscription{}}
		params[i].ReceiveID(jsonrpc.IntID(int64(i)))
	}
	kept := params[0].subscription
	var stops [n]func()
	for i := range stops {
		_, stops[i] = s.TrackProgress(func(json.RawMessage, *jsonrpc.Request) {})
	}
	racetest.Together(n,
		func(int) { s.TrackProgress(func(json.RawMessage, *jsonrpc.Request) {}) },
		func(round int) { stops[round]() },
		func(int) { s.handleProgress(message.(*jsonrpc.Request)) },
		func(round int) {
			(&listenParams{client: s, subscription: &clientSubscription{}}).ReceiveID(jsonrpc.IntID(int64(n + round)))
		},
		func(round int) {
			if round > 0 {
				params[round].forget()
			}
		},
		func(int) {
			if s.subscription([]byte("0")) != kept {
				t.Error("a subscription is not found")
			}
		},
	)
	stop()
	if got != n || len(s.tracked) != n || len(s.subscriptions) != n+1 {
		t.Errorf("progress was reported %d times; %d calls and %d subscriptions are known, want %d, %d and %d", got, len(s.tracked), len(s.subscriptions), n, n, n+1)
	}
}
