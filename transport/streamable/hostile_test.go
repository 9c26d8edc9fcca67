package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

var quiet = slog.New(slog.DiscardHandler)

// newStubbornServer has a tool that runs until it is released, whatever its context
// says, and counts.
func newStubbornServer(release <-chan struct{}) (srv *server.Server, runs *atomic.Int32) {
	srv, runs = newServer(), new(atomic.Int32)
	server.AddTool(srv, server.Tool{Name: "stubborn"}, func(context.Context, *server.Request, struct{}) (string, error) {
		runs.Add(1)
		<-release
		return "done", nil
	})
	return srv, runs
}

func cancelled(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id)
}

// async makes a request whose answer is waited for later.
func (d *desk) async(ctx context.Context, method, session, body string) <-chan *httptest.ResponseRecorder {
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- d.send(ctx, method, session, body) }()
	return answered
}

// The request of a call ends when the call has been cancelled, and its session is idle
// again.
func TestCancelledCallsEndTheirRequests(t *testing.T) {
	wait := func(id int) string { return call(id, "wait", `{}`) }
	for name, body := range map[string]string{
		"call":            wait(1),
		"batch":           "[" + wait(1) + "," + wait(2) + "]",
		"broken response": `[{"jsonrpc":"2.0","id":1,"result":{},"error":{}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer()
				server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
					<-ctx.Done()
					return "", ctx.Err()
				})
				d := newDesk(t, srv, nil)
				id := d.send(t.Context(), http.MethodPost, "", initialize(mcp.Version20250326)).Header().Get("Mcp-Session-Id")
				ctx, hangUp := context.WithTimeout(t.Context(), time.Hour)
				defer hangUp()
				answered := d.async(ctx, http.MethodPost, id, body)
				synctest.Wait()
				for n := range 3 {
					d.send(t.Context(), http.MethodPost, id, cancelled(n))
				}
				synctest.Wait()
				select {
				case w := <-answered:
					if w.Code != http.StatusAccepted || w.Body.Len() > 0 {
						t.Errorf("answered with %d %s", w.Code, w.Body)
					}
				default:
					t.Error("the request goes on")
				}
				<-time.After(streamable.DefaultSessionTTL + time.Second)
				d.wantStatus(id, http.StatusNotFound)
			})
		})
	}
}

// A call that ran when its session ended may have done its work: that the session is
// unknown would tell its client to make the call again.
func TestSessionEndsUnderACall(t *testing.T) {
	for name, end := range map[string]func(d *desk, session string){
		"DELETE": func(d *desk, session string) { d.send(d.Context(), http.MethodDelete, session, "") },
		"Close":  func(d *desk, _ string) { d.endpoint.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				srv, _ := newStubbornServer(release)
				d := newDesk(t, srv, nil)
				id := d.open(t.Context())
				answered := d.async(t.Context(), http.MethodPost, id, call(7, "stubborn", `{}`))
				synctest.Wait()
				end(d, id)
				if w := <-answered; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"id":7,"error"`) {
					t.Errorf("answered with %d %s, want an error of the call", w.Code, w.Body)
				}
			})
		})
	}
}

// A sealed session that is being ended is not opened again by who comes meanwhile.
func TestSealedSessionsEndForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		srv, _ := newStubbornServer(release)
		d := newDesk(t, srv, &streamable.Options{SessionKeys: [][]byte{make([]byte, 32)}})
		id := d.open(t.Context())
		d.async(t.Context(), http.MethodPost, id, call(1, "stubborn", `{}`))
		synctest.Wait()
		deleted := d.async(t.Context(), http.MethodDelete, id, "")
		synctest.Wait() // it waits for the call
		d.wantStatus(id, http.StatusNotFound)
		if w := <-deleted; w.Code != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", w.Code, w.Body)
		}
		d.wantStatus(id, http.StatusNotFound)
	})
}

// slowStore is a shared store whose first answer is late.
type slowStore struct {
	mu    sync.Mutex
	ended map[string]bool
	calls atomic.Int32
	late  time.Duration
}

func (s *slowStore) End(_ context.Context, key string, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[key] = true
	return nil
}

func (s *slowStore) Ended(_ context.Context, key string) (bool, error) {
	s.mu.Lock()
	ended := s.ended[key]
	s.mu.Unlock()
	if s.calls.Add(1) == 1 {
		<-time.After(s.late)
	}
	return ended, nil
}

// A session is not restored when it ends meanwhile; and one that another process has
// ended takes no seat any more.
func TestSealedSessionsEndElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{ended: map[string]bool{}, late: time.Minute}
		opts := &streamable.Options{SessionKeys: [][]byte{make([]byte, 32)}, SessionStore: store, MaxSessions: 1, Logger: quiet}
		one, other := newDesk(t, newServer(), opts), newDesk(t, newServer(), opts)
		id := one.open(t.Context())
		restored := other.async(t.Context(), http.MethodPost, id, ping)
		synctest.Wait()
		one.send(t.Context(), http.MethodDelete, id, "")
		if w := <-restored; w.Code != http.StatusNotFound {
			t.Errorf("a session that has ended is served: %d %s", w.Code, w.Body)
		}

		id = one.open(t.Context())
		other.wantStatus(id, http.StatusOK)
		one.send(t.Context(), http.MethodDelete, id, "")
		other.wantStatus(id, http.StatusNotFound)
		other.open(t.Context()) // there is room
	})
}

// flakyEvents is a store that fails for some events, or waits for ever.
type flakyEvents struct {
	streamable.EventStore
	fails func(streamable.StoredEvent) bool
	hangs bool
}

func (f *flakyEvents) Append(ctx context.Context, id streamable.StreamID, e streamable.StoredEvent) error {
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if f.fails(e) {
		return errors.New("the store is down")
	}
	return f.EventStore.Append(ctx, id, e)
}

func (f *flakyEvents) Forget(ctx context.Context, session string) error {
	if f.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.EventStore.Forget(ctx, session)
}

// A client that comes back is never sent a stream with a gap.
func TestResumptionWithoutGaps(t *testing.T) {
	for name, fails := range map[string]func(streamable.StoredEvent) bool{
		"in the middle": func(e streamable.StoredEvent) bool { return e.Number == 2 },
		"at the end":    func(e streamable.StoredEvent) bool { return e.Number == 3 },
		"at all":        func(streamable.StoredEvent) bool { return true },
	} {
		t.Run(name, func(t *testing.T) {
			reached, release := make(chan struct{}), make(chan struct{})
			srv := newServer()
			server.AddTool(srv, server.Tool{Name: "three"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				for i := range 3 {
					if err := r.Progress(ctx, float64(i+1), 0, ""); err != nil {
						return "", err
					}
				}
				close(reached)
				<-release
				return "done", nil
			})
			s := serve(t, srv, &streamable.Options{Events: &flakyEvents{EventStore: streamable.NewMemoryEvents(nil), fails: fails}, Logger: quiet}).open(mcp.Version20251125)
			got := s.post(call(1, "three", `{}`))
			prime := got.next()
			first := got.next()
			<-reached
			for _, id := range []string{prime.ID, first.ID} {
				s.with("Last-Event-ID", id).send(t.Context(), http.MethodGet, "").is(http.StatusBadRequest)
			}
			close(release)
			for _, want := range []string{`"progress":2`, `"progress":3`, `"done"`} {
				got.message(want) // the client that is there gets it all
			}
			got.ends()
		})
	}
}

// An event store that hangs does not keep an endpoint from closing.
func TestCloseWithAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newServer(), &streamable.Options{Events: &flakyEvents{EventStore: streamable.NewMemoryEvents(nil), hangs: true}, Logger: quiet})
		id := d.open(t.Context())
		answered := d.async(t.Context(), http.MethodPost, id, call(1, "steps", `{"a":1,"b":0}`))
		synctest.Wait()
		start := time.Now()
		d.endpoint.Close()
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("Close took %v", took)
		}
		<-answered
	})
}

// A question that nobody will ever see fails at once; notifications are just dropped.
func TestQuestionsThatNobodySees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "ask"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			if err := r.Progress(ctx, 1, 0, ""); err != nil {
				return "", err
			}
			select {
			case <-asked:
			case <-time.After(time.Second):
			}
			_, err := server.Elicit[struct {
				Name string `json:"name"`
			}](r, "who", "Who are you?")
			if err != nil && !errors.As(err, new(*mcp.InputRequired)) {
				return "nobody", nil
			}
			return "somebody", err
		})
		d := newDesk(t, srv, nil)
		id := d.open(t.Context())
		r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(call(1, "ask", `{}`)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json")
		r.Header.Set("Mcp-Session-Id", id)
		w := httptest.NewRecorder()
		start := time.Now()
		d.endpoint.ServeHTTP(w, r.WithContext(t.Context()))
		if took := time.Since(start); took > time.Minute || !strings.Contains(w.Body.String(), "nobody") {
			t.Errorf("after %v: %s", took, w.Body)
		}
	})
}

// Each response that carries a session's own stream begins with an id to come back to.
func TestOwnStreamIsPrimedAgain(t *testing.T) {
	srv := newServer()
	s := serve(t, srv, nil).open(mcp.Version20251125)
	ctx, hangUp := context.WithCancel(t.Context())
	first := s.send(ctx, http.MethodGet, "").next()
	hangUp()
	var again *answer
	for again = s.send(t.Context(), http.MethodGet, ""); again.StatusCode == http.StatusConflict; {
		again = s.send(t.Context(), http.MethodGet, "")
	}
	server.AddTool(srv, server.Tool{Name: "new"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	if prime := again.next(); prime.ID != first.ID || len(prime.Data) > 0 {
		t.Errorf("the stream begins with %+v, want the id %s without data", prime, first.ID)
	}
	again.message("list_changed")
}

// What a request lacks that must describe itself is a fault of the request.
func TestMalformedDescriptions(t *testing.T) {
	r := serve(t, newServer(), nil).modern("tools/list", "")
	for _, meta := range []string{
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{}`,
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":5,"version":"1"}`,
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":null`,
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":5}`,
		`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"`,
	} {
		r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+meta+`}}}`).is(http.StatusBadRequest, "-32602", `"id":1`)
	}
	r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"nonsense",`+modernMeta+`}}`).is(http.StatusOK, "-32602")
}

// A deadline that something around the handler has set is no client that hangs up.
func TestDeadlinesAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		d := newDesk(t, srv, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait",`+modernMeta+`}}`))
		for name, value := range map[string]string{"Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "wait"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		d.endpoint.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"id":1`) {
			t.Errorf("answered with %d %q", w.Code, w.Body)
		}
	})
}

// A session that has just been used does not end, although its time was about to.
func TestSessionsUsedAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newServer(), &streamable.Options{SessionTTL: time.Minute})
		var all sync.WaitGroup
		for range 300 {
			id := d.open(t.Context())
			d.wantStatus(id, http.StatusOK)
			all.Go(func() {
				<-time.After(time.Minute)
				if w := d.send(t.Context(), http.MethodPost, id, ping); w.Code != http.StatusOK {
					return // it was too late
				}
				<-time.After(time.Second)
				if w := d.send(t.Context(), http.MethodPost, id, ping); w.Code != http.StatusOK {
					t.Errorf("a session ended that was used a second ago")
				}
			})
		}
		all.Wait()
	})
}
