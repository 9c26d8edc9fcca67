package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/client"
	receiving "github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Sizes of the work of TestWhatTheStoreHolds.
const (
	subscriptionsOfType = 4
	openAtOnce          = 20          // sessions, and approvals that wait
	largeArgument       = 200 << 10   // bytes of the arguments of one task in largeEvery
	largeEvery          = 50          // tasks
	maxWorkPause        = time.Minute // in which what has ended must have left the store
)

// heldKinds is what the store may hold, by kind, and at most how many bytes each value or entry has: the numbers of
// docs/replicas.md.
var heldKinds = map[string]struct {
	bytes   int
	forever bool
}{
	"server/state-key":      {bytes: 400, forever: true},
	"server/data-key":       {bytes: 400, forever: true},
	"replica":               {bytes: 300},
	"sessions":              {bytes: 800},
	"task":                  {bytes: 2 << 10},
	"part of a task":        {bytes: 300 << 10},
	"taskkept":              {bytes: 600},
	"approval/requests":     {bytes: 2 << 10},
	"webhook/subscriptions": {bytes: 1 << 10},
	"webhook/states":        {bytes: 1 << 10},
	"webhook/verified":      {bytes: 500},
	"webhook/owned":         {bytes: 10 << 10},
	"webhook/sweep":         {bytes: 300},
	"entries of calls":      {bytes: 3 << 10}, // a stream of Redis has at least 4 KiB
	"entries of events":     {bytes: 600},
	"job":                   {bytes: 600},
	"id of a job":           {bytes: 300},
	"stream":                {bytes: 300}, // PostgreSQL has a row of each
	"deletion":              {bytes: 400},
	"bookkeeping":           {bytes: 300, forever: true}, // of the engine, less than 10 keys
}

// A held is what a store holds of one kind.
type held struct {
	keys, bytes int
	forever     int // keys without a time to live
}

// A holdings is what a store holds, by kind.
type holdings map[string]*held

func (h holdings) add(kind string, bytes int, forever bool) {
	if h[kind] == nil {
		h[kind] = &held{}
	}
	h[kind].keys++
	h[kind].bytes += bytes
	if forever {
		h[kind].forever++
	}
}

func (h holdings) keys(kind string) int {
	if h[kind] == nil {
		return 0
	}
	return h[kind].keys
}

func (h holdings) String() string {
	var lines []string
	for kind, held := range h {
		lines = append(lines, fmt.Sprintf("%s: %d × %d bytes", kind, held.keys, held.bytes/held.keys))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// kindOf returns the kind of a value by its key.
func kindOf(key string) string {
	segments := strings.Split(key, "/")
	switch {
	case segments[0] == "task" && len(segments) > 2:
		return "part of a task"
	case segments[0] == "task", segments[0] == "taskkept", segments[0] == "sessions", segments[0] == "replica":
		return segments[0]
	}
	return strings.Join(segments[:min(2, len(segments))], "/")
}

// kindOfStream returns the kind of the entries of a stream.
func kindOfStream(stream string) string {
	if strings.HasPrefix(stream, "server/events/") {
		return "entries of events"
	}
	return "entries of calls"
}

// check compares what the store holds with the table, and with the number of keys of some kinds.
func (h holdings) check(t *testing.T, when string, want map[string]int) {
	t.Helper()
	t.Logf("%s: %v", when, h)
	for kind, held := range h {
		allowed, known := heldKinds[kind]
		switch n, counted := want[kind]; {
		case !known:
			t.Errorf("%s, the store holds %d of the kind %q, which is not in the table", when, held.keys, kind)
		case held.forever > 0 && !allowed.forever:
			t.Errorf("%s, %d of the kind %q have no time to live", when, held.forever, kind)
		case held.bytes > held.keys*allowed.bytes:
			t.Errorf("%s, the %d of the kind %q have %d bytes, at most %d each are expected", when, held.keys, kind, held.bytes, allowed.bytes)
		case counted && held.keys != n:
			t.Errorf("%s, the store holds %d of the kind %q, want %d", when, held.keys, kind, n)
		}
	}
	for kind, n := range want {
		if n > 0 && h[kind] == nil {
			t.Errorf("%s, the store holds none of the kind %q, want %d", when, kind, n)
		}
	}
	if n := h.keys("bookkeeping"); n > 10 {
		t.Errorf("%s, the engine has %d keys of its own", when, n)
	}
}

// inParallel calls f with 0 to n-1, in some goroutines.
func inParallel(n, goroutines int, f func(i int)) {
	var next atomic.Int32
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	running.Wait()
}

// A worked is the server of TestWhatTheStoreHolds.
type worked struct {
	t       *testing.T
	url     string
	inspect func() holdings
	topic   *server.Topic[parcel]
	cancel  context.CancelFunc
	once    sync.Once
	resume  chan struct{} // closed when calls of "hold" may end
	holding atomic.Int32  // of these calls
}

// serve serves the server at a store until the test ends.
func (w *worked) serve(ctx context.Context, shared store.Store, secret string) {
	t := w.t
	hooks, err := webhook.New(&webhook.Options{Store: shared, Keys: [][]byte{make([]byte, 32)}, AllowLoopback: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Parse([]byte(`{"rules":[{"effect":"allow"},{"effect":"ask","names":["approved"]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	approver, err := channel.New(&channel.Options{Store: shared, Token: secret, ReconnectTimeout: patience, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "work", Version: "1.0.0"}, &server.Options{
		Store: shared, Webhooks: hooks, Logger: quiet, RetainedBytes: 1 << 30,
		Guards: []mcp.Guard{approval.Guard(compiled, approver, &approval.Options{Store: shared, Logger: quiet})},
	})
	w.topic = server.AddEvent(s, server.Event{Name: "moved"}, func(_ *mcp.Caller, in parcelFilter, p parcel) (parcel, bool) {
		return p, p.Number%subscriptionsOfType == *in.Remainder
	})
	server.AddTool(s, server.Tool{Name: "progress"}, func(ctx context.Context, r *server.Request, in callIn) (string, error) {
		return in.Call, r.Progress(ctx, 1, 1, in.Call)
	})
	server.AddTool(s, server.Tool{Name: "task", Task: server.TaskRequired}, func(ctx context.Context, r *server.Request, in callIn) (string, error) {
		return server.Once(r, "end", func() (string, error) { return in.Call[:1], nil })
	})
	server.AddTool(s, server.Tool{Name: "hold", Task: server.TaskRequired}, func(ctx context.Context, r *server.Request, in callIn) (string, error) {
		w.holding.Add(1)
		select {
		case <-w.resume:
		case <-ctx.Done():
		}
		return "", ctx.Err()
	})
	server.AddTool(s, server.Tool{Name: "approved"}, func(_ context.Context, _ *server.Request, in callIn) (string, error) { return in.Call, nil })
	listening, served := make(chan net.Addr, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		served <- streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
			Options: streamable.Options{Logger: quiet}, Other: approver, OnShutdown: approver.Close,
			OnListen: func(address net.Addr) { listening <- address },
			Wrap: func(endpoint http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					endpoint.ServeHTTP(rw, r.WithContext(transport.WithPrincipal(r.Context(), "ann")))
				})
			},
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	w.url = "http://" + (<-listening).String()
}

func (w *worked) connect(ctx context.Context, era client.Era) *client.Session {
	session, err := client.Connect(ctx, streamable.Dial(w.url+"/mcp", nil), &client.Options{Era: era})
	if err != nil {
		w.fail(err)
		return nil
	}
	return session
}

// fail reports the first failure, and ends what is going on.
func (w *worked) fail(err error) {
	w.once.Do(func() { w.t.Error(err) })
	w.cancel()
}

// call calls a tool.
func (w *worked) call(ctx context.Context, s *client.Session, tool, argument string) {
	if s == nil {
		return
	}
	if _, err := client.CallAs[string](ctx, s, tool, callIn{argument}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}}); err != nil {
		w.fail(fmt.Errorf("%s: %w", tool, err))
	}
}

// await waits until a condition about what the store holds is true.
func (w *worked) await(what string, condition func(holdings) bool) {
	w.t.Helper()
	for deadline := time.Now().Add(maxWorkPause); ; <-time.After(50 * time.Millisecond) {
		h := w.inspect()
		if condition(h) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: after %v, the store holds %v", what, maxWorkPause, h)
		}
	}
}

// sessions opens sessions of the version 2025-11-25 with a call whose events are stored, and ends them.
func (w *worked) sessions(ctx context.Context, n int) {
	open := make([]*client.Session, openAtOnce)
	inParallel(len(open), len(open), func(i int) {
		open[i] = w.connect(ctx, client.Legacy)
		w.call(ctx, open[i], "progress", "call")
	})
	w.inspect().check(w.t, fmt.Sprintf("with %d sessions", openAtOnce), map[string]int{"sessions": openAtOnce})
	for _, s := range open {
		if s == nil {
			w.t.FailNow()
		}
		s.Close()
	}
	inParallel(n-openAtOnce, 16, func(int) {
		s := w.connect(ctx, client.Legacy)
		w.call(ctx, s, "progress", "call")
		if s != nil {
			s.Close()
		}
	})
	w.await("sessions", func(h holdings) bool { return h.keys("sessions") == 0 })
	w.inspect().check(w.t, fmt.Sprintf("after %d sessions", n), map[string]int{"sessions": 0})
}

// runningTasks inspects the store while tasks run. One of them has large arguments.
func (w *worked) runningTasks(ctx context.Context) {
	const running = 10
	s := w.connect(ctx, client.Modern)
	if s == nil {
		w.t.FailNow()
	}
	defer s.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		inParallel(running, running, func(i int) { w.call(ctx, s, "hold", strings.Repeat("x", 300+i/9*largeArgument)) })
	}()
	for w.holding.Load() < running {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			w.t.Fatalf("%d tasks run", w.holding.Load())
		}
	}
	w.inspect().check(w.t, "while 10 tasks run", map[string]int{"task": running, "part of a task": running + 1, "job": running})
	close(w.resume)
	<-ended
}

// tasks runs tasks. Their arguments must leave the store with their ends.
func (w *worked) tasks(ctx context.Context, n int) {
	s := w.connect(ctx, client.Modern)
	if s == nil {
		w.t.FailNow()
	}
	defer s.Close()
	inParallel(n, 16, func(i int) {
		size := 300
		if i%largeEvery == 0 {
			size = largeArgument
		}
		w.call(ctx, s, "task", strings.Repeat("x", size))
	})
	before := 10 // of runningTasks
	want := map[string]int{"task": before + n, "taskkept": before + n, "part of a task": 0, "job": 0}
	w.await("tasks", func(h holdings) bool { return h.keys("job") == 0 })
	w.inspect().check(w.t, fmt.Sprintf("after %d tasks", n), want)
}

// events publishes events, and waits until they are delivered.
func (w *worked) events(ctx context.Context, n int) {
	t := w.t
	receiver, err := receiving.New(&receiving.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(receiver)
	defer web.Close()
	s := w.connect(ctx, client.Modern)
	if s == nil {
		w.t.FailNow()
	}
	defer s.Close()
	var delivered atomic.Int32
	all := make(chan struct{})
	var subscriptions []*receiving.Subscription
	for remainder := range subscriptionsOfType {
		subscription, err := receiving.Subscribe(ctx, s, receiver, web.URL, "moved", fmt.Appendf(nil, `{"remainder":%d}`, remainder),
			func(context.Context, receiving.Delivery) error {
				if int(delivered.Add(1)) == n {
					close(all)
				}
				return nil
			}, &receiving.SubscribeOptions{TTL: 24 * time.Hour, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		subscriptions = append(subscriptions, subscription)
	}
	for number := range n {
		if err := w.topic.Publish(ctx, parcel{Number: number}, &server.PublishOptions{ID: strconv.Itoa(number)}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-all:
	case <-ctx.Done():
		t.Fatalf("%d of %d events are delivered", delivered.Load(), n)
	}
	w.await("deliveries", func(h holdings) bool { return h.keys("job") == 0 })
	h := w.inspect()
	h.check(t, fmt.Sprintf("after %d events", n), map[string]int{
		"webhook/subscriptions": subscriptionsOfType, "webhook/states": subscriptionsOfType, "webhook/verified": 1, "job": 0,
	})
	if entries := h.keys("entries of events"); entries < min(n, 10_000) || entries > min(n+60, 10_000) {
		t.Errorf("the store holds %d entries of %d events", entries, n)
	}
	for _, subscription := range subscriptions {
		if err := subscription.Close(ctx); err != nil {
			t.Error(err)
		}
	}
	w.inspect().check(t, "without subscriptions", map[string]int{"webhook/subscriptions": 0, "webhook/states": 0})
}

// approvals calls a tool that needs an approval.
func (w *worked) approvals(ctx context.Context, n int, secret string) {
	var shown atomic.Int32
	allShown := make(chan struct{})
	decide := make(chan struct{}) // closed when answers may be given
	person, err := channel.Dial(ctx, w.url, func(ctx context.Context, p *approval.Prompt) {
		if shown.Add(1) == openAtOnce {
			close(allShown)
		}
		select {
		case <-decide:
			_ = p.Accept(ctx) // otherwise the call fails, which the test sees
		case <-ctx.Done():
		}
	}, &channel.ClientOptions{Token: secret, Logger: quiet})
	if err != nil {
		w.t.Fatal(err)
	}
	defer person.Close()
	s := w.connect(ctx, client.Legacy)
	if s == nil {
		w.t.FailNow()
	}
	defer s.Close()
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		inParallel(openAtOnce, openAtOnce, func(i int) { w.call(ctx, s, "approved", fmt.Sprint("waiting ", i)) })
	}()
	select {
	case <-allShown:
	case <-ctx.Done():
		w.t.Fatalf("%d approvals are shown", shown.Load())
	}
	w.inspect().check(w.t, fmt.Sprintf("with %d approvals", openAtOnce), map[string]int{"approval/requests": openAtOnce})
	close(decide)
	<-waiting
	inParallel(n-openAtOnce, 16, func(i int) { w.call(ctx, s, "approved", fmt.Sprint(i)) })
	w.inspect().check(w.t, fmt.Sprintf("after %d approvals", n), map[string]int{"approval/requests": 0, "approval/grant": 0})
}

// TestWhatTheStoreHolds does much work of each kind. Then each store holds what docs/replicas.md says, and no more.
// DOVETAIL_HELD is how much.
func TestWhatTheStoreHolds(t *testing.T) {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("DOVETAIL_HELD"), "200"))
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range inspectedEngines() {
		t.Run(engine.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+time.Duration(n)*200*time.Millisecond)
			defer cancel()
			shared, inspect := engine.open(ctx, t)
			w := &worked{t: t, inspect: inspect, cancel: cancel, resume: make(chan struct{})}
			secret := rand.Text()
			w.serve(ctx, shared, secret)
			w.sessions(ctx, n)
			w.runningTasks(ctx)
			w.tasks(ctx, n)
			w.events(ctx, n)
			w.approvals(ctx, n, secret)
		})
	}
}
