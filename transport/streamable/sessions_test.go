package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A desk is an endpoint without a network: time is virtual there.
type desk struct {
	*testing.T
	endpoint *streamable.Endpoint
}

func newDesk(t *testing.T, server transport.Binder, opts *streamable.Options) *desk {
	d := &desk{t, streamable.Handler(server, opts)}
	t.Cleanup(func() { d.endpoint.Close() })
	return d
}

// send makes a request and returns its whole answer.
func (d *desk) send(ctx context.Context, method, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	w := httptest.NewRecorder()
	d.endpoint.ServeHTTP(w, r)
	return w
}

// open opens a session and returns its id.
func (d *desk) open(ctx context.Context) string {
	d.Helper()
	w := d.send(ctx, http.MethodPost, "", initialize(mcp.Version20251125))
	if w.Code != http.StatusOK {
		d.Errorf("initialize: %d %s", w.Code, w.Body)
	}
	return w.Header().Get("Mcp-Session-Id")
}

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func (d *desk) wantStatus(session string, status int) {
	d.Helper()
	if w := d.send(d.Context(), http.MethodPost, session, ping); w.Code != status {
		d.Errorf("the status is %d, want %d: %s", w.Code, status, w.Body)
	}
}

func TestIdleSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newServer(), nil)
		used, unused := d.open(t.Context()), d.open(t.Context())
		d.wantStatus(used, http.StatusOK)
		<-time.After(31 * time.Second)
		d.wantStatus(unused, http.StatusNotFound) // nothing came after its handshake
		for range 3 {
			d.wantStatus(used, http.StatusOK)
			<-time.After(streamable.DefaultSessionTTL - time.Second)
		}
		d.wantStatus(used, http.StatusOK)
		<-time.After(streamable.DefaultSessionTTL + time.Second)
		d.wantStatus(used, http.StatusNotFound)
	})
}

// A session whose stream is open, or whose call runs, is not idle.
func TestUsedSessionsDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "long"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-time.After(5 * time.Hour)
			return "done", nil
		})
		d := newDesk(t, srv, nil)
		listening, calling := d.open(t.Context()), d.open(t.Context())
		ctx, hangUp := context.WithTimeout(t.Context(), 3*time.Hour)
		defer hangUp()
		go d.send(ctx, http.MethodGet, listening, "")
		go d.send(ctx, http.MethodPost, calling, call(2, "long", `{}`))
		<-time.After(2 * time.Hour)
		d.wantStatus(listening, http.StatusOK)
		d.wantStatus(calling, http.StatusOK)
		<-time.After(2 * time.Hour) // both clients are gone; the call goes on
		d.wantStatus(listening, http.StatusNotFound)
		d.wantStatus(calling, http.StatusOK)
		<-time.After(2 * time.Hour)
		d.wantStatus(calling, http.StatusNotFound)
	})
}

func TestMaxSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newServer(), &streamable.Options{MaxSessions: 3, MaxPerPrincipal: 2})
		ann := transport.WithPrincipal(t.Context(), "ann")
		first := d.open(ann)
		d.open(ann)
		refused := d.send(ann, http.MethodPost, "", initialize(mcp.Version20251125))
		if refused.Code != http.StatusServiceUnavailable || refused.Header().Get("Retry-After") == "" {
			t.Errorf("one session too many of a principal: %d %v", refused.Code, refused.Header())
		}
		d.open(t.Context())
		if w := d.send(t.Context(), http.MethodPost, "", initialize(mcp.Version20251125)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("one session too many: %d", w.Code)
		}
		if w := d.send(ann, http.MethodDelete, first, ""); w.Code != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", w.Code, w.Body)
		}
		d.open(ann)
	})
}

func TestSealedIdsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newServer(), &streamable.Options{SessionKeys: [][]byte{make([]byte, 32)}})
		id := d.open(t.Context())
		d.wantStatus(id, http.StatusOK)
		<-time.After(streamable.SealedSessionLifetime - time.Second) // idle for long, and yet known
		d.wantStatus(id, http.StatusOK)
		<-time.After(streamable.DefaultSessionTTL)
		d.wantStatus(id, http.StatusNotFound)
	})
}

// A sealed id ends at its time even if its session is in use until then.
func TestSealedIdsInUseExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newServer(), &streamable.Options{SessionKeys: [][]byte{make([]byte, 32)}})
		id := d.open(t.Context())
		for range 24 * 6 {
			d.wantStatus(id, http.StatusOK)
			<-time.After(10 * time.Minute)
		}
		<-time.After(time.Second)
		d.wantStatus(id, http.StatusNotFound)
	})
}

// sharedStore is a store of several processes.
type sharedStore struct {
	ended map[string]time.Time
	err   error // of Ended
	full  error // of End
}

func (s *sharedStore) End(_ context.Context, key string, until time.Time) error {
	s.ended[key] = until
	return s.full
}

func (s *sharedStore) Ended(_ context.Context, key string) (bool, error) {
	_, ended := s.ended[key]
	return ended, s.err
}

func TestSessionStoreIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sharedStore{ended: map[string]time.Time{}}
		opts := &streamable.Options{SessionKeys: [][]byte{make([]byte, 32)}, SessionStore: store, Logger: slog.New(slog.DiscardHandler)}
		one, other := newDesk(t, newServer(), opts), newDesk(t, newServer(), opts)
		id := one.open(t.Context())
		other.wantStatus(id, http.StatusOK)
		if w := one.send(t.Context(), http.MethodDelete, id, ""); w.Code != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", w.Code, w.Body)
		}
		one.wantStatus(id, http.StatusNotFound)
		other.wantStatus(id, http.StatusNotFound)
		for _, until := range store.ended {
			if left := time.Until(until); left != streamable.SealedSessionLifetime {
				t.Errorf("the store forgets the session in %v", left)
			}
		}
		id = one.open(t.Context())
		store.err = errors.New("the store is down")
		other.wantStatus(id, http.StatusServiceUnavailable) // nobody knows whether it has been ended
		store.err, store.full = nil, errors.New("the store is full")
		if w := one.send(t.Context(), http.MethodDelete, id, ""); w.Code != http.StatusInternalServerError {
			t.Errorf("DELETE: %d %s", w.Code, w.Body)
		}
	})
}

func TestSealedIdsAreBounded(t *testing.T) {
	d := newDesk(t, newServer(), &streamable.Options{SessionKeys: [][]byte{make([]byte, 32)}})
	body := strings.Replace(initialize(mcp.Version20251125), `"name":"c"`, fmt.Sprintf(`"name":"%s"`, strings.Repeat("c", 1000)), 1)
	w := d.send(t.Context(), http.MethodPost, "", body)
	if w.Header().Get("Mcp-Session-Id") != "" || !strings.Contains(w.Body.String(), "at most 1024") {
		t.Errorf("answered with %v %s", w.Header(), w.Body)
	}
}

// A silent stream shows that it is alive.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, newServer(), nil)
		id := d.open(t.Context())
		ctx, hangUp := context.WithTimeout(t.Context(), time.Minute+time.Second)
		defer hangUp()
		own := d.send(ctx, http.MethodGet, id, "")
		if n := strings.Count(own.Body.String(), "\n:"); n != 4 {
			t.Errorf("%d comments in a minute, want 4: %q", n, own.Body)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return "", ctx.Err()
		})
		d := newDesk(t, srv, nil)
		id := d.open(t.Context())
		waiting := make(chan int)
		go func() { waiting <- d.send(context.Background(), http.MethodPost, id, call(1, "wait", `{}`)).Code }()
		go func() { waiting <- d.send(context.Background(), http.MethodGet, id, "").Code }()
		listening := make(chan string)
		go func() {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},`+modernMeta+`}}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", "subscriptions/listen")
			w := httptest.NewRecorder()
			d.endpoint.ServeHTTP(w, r)
			listening <- w.Body.String()
		}()
		synctest.Wait()
		if err := d.endpoint.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil {
			t.Error("the call was not ended")
		}
		if a, b := <-waiting, <-waiting; a != http.StatusOK || b != http.StatusOK {
			t.Errorf("the requests of the session end with %d and %d", a, b)
		}
		if got := <-listening; !strings.Contains(got, `"result":{`) {
			t.Errorf("the subscription ended without a result: %q", got)
		}
		d.wantStatus(id, http.StatusServiceUnavailable)
		if err := d.endpoint.Close(); err != nil {
			t.Error(err)
		}
	})
}
