package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	shared "github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const event = "incident.created"

var keys = [][]byte{[]byte("0123456789abcdef0123456789abcdef")}

// A feed is a source with the same events for all subscriptions. Positions are counts of events.
type feed struct {
	mu     sync.Mutex
	count  int
	reads  int
	limit  int // of one batch
	change func(sub *delivery.Subscription, position int, batch *delivery.Batch)
}

// add adds events.
func (f *feed) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count += n
}

func (f *feed) read(_ context.Context, sub *delivery.Subscription, position string) (delivery.Batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	at, err := strconv.Atoi(position)
	if err != nil {
		return delivery.Batch{}, err
	}
	batch := delivery.Batch{}
	from := at
	for at < f.count && (f.limit == 0 || at-from < f.limit) {
		at++
		batch.Events = append(batch.Events, delivery.Event{
			ID:       fmt.Sprint("evt_", at),
			Body:     fmt.Appendf(nil, `{"eventId":"evt_%d","name":%q,"timestamp":"2026-02-19T16:00:00Z","data":{"n":%d},"cursor":"%d"}`, at, event, at, at),
			Position: strconv.Itoa(at),
		})
	}
	batch.Position, batch.More = strconv.Itoa(at), at < f.count
	if f.change != nil {
		f.change(sub, from, &batch)
	}
	return batch, nil
}

// A posted is a request that an endpoint has received.
type posted struct {
	url, id string
	body    string
	header  http.Header
	at      time.Time
}

// An endpoint is the receiving end of all callback URLs. It answers challenges.
type endpoint struct {
	mu         sync.Mutex
	got        []posted
	challenges int
	busy       map[string]int // deliveries in progress by subscription
	most       int            // most deliveries in progress
	overlap    bool           // two deliveries to one subscription at a time
	inProgress int
	// handle answers deliveries; nil: 200.
	handle func(w http.ResponseWriter, d posted)
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d := posted{r.URL.String(), r.Header.Get(signature.HeaderID), string(body), r.Header, time.Now()}
	var control shared.Control
	if json.Unmarshal(body, &control) == nil && control.Type == shared.TypeVerification {
		e.mu.Lock()
		e.challenges++
		e.mu.Unlock()
		fmt.Fprintf(w, `{"challenge":%q}`, control.Challenge)
		return
	}
	sub := r.Header.Get(shared.SubscriptionHeader)
	e.mu.Lock()
	e.got = append(e.got, d)
	if e.busy == nil {
		e.busy = map[string]int{}
	}
	e.busy[sub]++
	e.inProgress++
	e.most = max(e.most, e.inProgress)
	e.overlap = e.overlap || e.busy[sub] > 1
	handle := e.handle
	e.mu.Unlock()
	if handle != nil {
		handle(w, d)
	}
	e.mu.Lock()
	e.busy[sub]--
	e.inProgress--
	e.mu.Unlock()
}

// RoundTrip calls the endpoint without a network.
func (e *endpoint) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	e.ServeHTTP(w, req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	res := w.Result()
	res.Request = req
	return res, nil
}

func (e *endpoint) deliveries() []posted {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]posted(nil), e.got...)
}

func (e *endpoint) ids() []string {
	var ids []string
	for _, d := range e.deliveries() {
		ids = append(ids, d.id)
	}
	return ids
}

// status answers with a status.
func status(code int) func(http.ResponseWriter, posted) {
	return func(w http.ResponseWriter, _ posted) { w.WriteHeader(code) }
}

// newMemory returns a store that the test closes.
func newMemory(t testing.TB) store.Store {
	t.Helper()
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// newDeliverer returns a deliverer that sends to an endpoint without a network.
func newDeliverer(t testing.TB, e http.RoundTripper, opts webhook.Options) delivery.Deliverer {
	t.Helper()
	if opts.Store != nil && opts.Keys == nil {
		opts.Keys = keys
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := webhook.New(&opts)
	if err != nil {
		t.Fatal(err)
	}
	if e != nil {
		webhook.SetTransport(d, e)
	}
	return d
}

// anyURL is a [webhook.Options].Verified for tests with more URLs than may be verified in a minute.
func anyURL(context.Context, string, string) bool { return true }

// run runs a deliverer until stop is called, or the test ends.
func run(t testing.TB, d delivery.Deliverer, source delivery.Source) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, source) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func request(principal, url string) delivery.Request {
	return delivery.Request{
		Key:    delivery.Key{Principal: principal, URL: url, Event: event, Arguments: json.RawMessage(`{"severity":"P1"}`)},
		Secret: shared.NewSecret().Text(),
		Start:  func(context.Context, string) (string, error) { return "0", nil },
	}
}

func subscribe(t testing.TB, d delivery.Deliverer, r delivery.Request) delivery.Grant {
	t.Helper()
	grant, err := d.Subscribe(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func wake(t testing.TB, d delivery.Deliverer) {
	t.Helper()
	if err := d.Wake(t.Context(), event, nil); err != nil {
		t.Fatal(err)
	}
}

func wantIDs(t testing.TB, e *endpoint, want ...string) {
	t.Helper()
	if got := e.ids(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the endpoint got %q, want %q", got, want)
	}
}

var errKilled = errors.New("the replica was killed")

// A mortal is a store that fails after kill, as for a process that has ended.
type mortal struct {
	store.Store
	mu   sync.Mutex
	dead bool
	// failPush has Push fail once.
	failPush bool
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) revive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = false
}

func (m *mortal) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled
	}
	return nil
}

func (m *mortal) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := m.err(); err != nil {
		return 0, err
	}
	return m.Store.Update(ctx, key, value, revision, ttl)
}

func (m *mortal) Ack(ctx context.Context, job *store.Job) error {
	return errors.Join(m.err(), ifAlive(m, func() error { return m.Store.Ack(ctx, job) }))
}

func (m *mortal) Nak(ctx context.Context, job *store.Job, delay time.Duration) error {
	return errors.Join(m.err(), ifAlive(m, func() error { return m.Store.Nak(ctx, job, delay) }))
}

func (m *mortal) Pull(ctx context.Context, queue string) (*store.Job, error) {
	if err := m.err(); err != nil {
		return nil, err
	}
	return m.Store.Pull(ctx, queue)
}

func (m *mortal) Push(ctx context.Context, queue, id string, data []byte) error {
	m.mu.Lock()
	fail := m.failPush || m.dead
	m.failPush = false
	m.mu.Unlock()
	if fail {
		return errKilled
	}
	return m.Store.Push(ctx, queue, id, data)
}

func ifAlive(m *mortal, f func() error) error {
	if m.err() != nil {
		return nil
	}
	return f()
}
