package streamable_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A remembering store remembers the last key that was created, and the last stream that was appended to.
type remembering struct {
	store.Store
	forges      bool // an entry before the first one of each stream
	mu          sync.Mutex
	key, stream string
}

func (r *remembering) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	r.mu.Lock()
	r.key = key
	r.mu.Unlock()
	return r.Store.Create(ctx, key, value, ttl)
}

func (r *remembering) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	r.mu.Lock()
	first := stream != r.stream
	r.stream = stream
	r.mu.Unlock()
	if first && r.forges {
		if err := r.forge(ctx); err != nil {
			return 0, err
		}
	}
	return r.Store.Append(ctx, stream, data)
}

// forge appends a forged entry to the last stream.
func (r *remembering) forge(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, err := r.Store.Append(ctx, r.stream, []byte("forged"))
	return err
}

func sealed(t *testing.T, s store.Store) store.Store {
	t.Helper()
	sealed, err := store.Sealed(s, bytes.Repeat([]byte("k"), 32))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// A session whose record was changed in the store does not exist any more for another replica, so that its client begins a
// new one. The other sessions go on.
func TestForgedSessions(t *testing.T) {
	for name, seal := range map[string]func(*testing.T, store.Store) store.Store{
		"plain":  func(_ *testing.T, s store.Store) store.Store { return s },
		"sealed": sealed,
	} {
		for change, forge := range map[string]func(value, other []byte) []byte{
			"half":            func(value, _ []byte) []byte { return value[:len(value)/2] },
			"empty":           func([]byte, []byte) []byte { return nil },
			"flipped":         func(value, _ []byte) []byte { value[0] ^= 1; return value },
			"a later version": func([]byte, []byte) []byte { return []byte(`{"version":99,"value":{}}`) },
			"no session":      func([]byte, []byte) []byte { return []byte(`{"version":1,"value":{}}`) },
			"another type":    func([]byte, []byte) []byte { return []byte(`{"version":1,"value":[]}`) },
			"huge":            func([]byte, []byte) []byte { return bytes.Repeat([]byte("x"), store.MaxValue) },
		} {
			t.Run(name+"/"+change, func(t *testing.T) {
				engine := &remembering{Store: newStore(t)}
				shared := seal(t, engine)
				opts := &streamable.Options{Logger: slog.New(slog.DiscardHandler)}
				first, second := serve(t, sharing{newServer(), shared}, opts), serve(t, sharing{newServer(), shared}, opts)
				good := openAt(t, first)
				goodKey := engine.key
				forged := openAt(t, first)
				key := engine.key
				other, err := engine.Get(t.Context(), goodKey)
				if err != nil {
					t.Fatal(err)
				}
				item, err := engine.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := engine.Update(t.Context(), key, forge(item.Value, other.Value), item.Revision, time.Hour); err != nil {
					t.Fatal(err)
				}
				if status := callAt(t, second, forged); status != http.StatusNotFound {
					t.Errorf("the forged session: status %d, want 404", status)
				}
				if status := callAt(t, second, good); status != http.StatusOK {
					t.Errorf("another session: status %d", status)
				}
			})
		}
	}
}

// openAt opens a session of 2025-11-25.
func openAt(t *testing.T, at *rig) (id string) {
	t.Helper()
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
	res := postAt(t, at, "", hello)
	id = res.Header.Get("Mcp-Session-Id")
	if status := postAt(t, at, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).StatusCode; id == "" || status != http.StatusAccepted {
		t.Fatalf("no session was opened: %d, %d", res.StatusCode, status)
	}
	return id
}

func callAt(t *testing.T, at *rig, id string) (status int) {
	t.Helper()
	return postAt(t, at, id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sum","arguments":{"a":1,"b":2}}}`).StatusCode
}

func postAt(t *testing.T, at *rig, id, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.http.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if id != "" {
		req.Header.Set("Mcp-Session-Id", id)
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	res, err := at.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res
}

// A record that a replica cannot read ends the session at this replica, which keeps the record: a replica of a later version
// may have written it.
func TestUnreadableRecordIsKept(t *testing.T) {
	ttl := transport.Limits{}.WithDefaults().SessionTTL
	for name, learn := range map[string]func(shared store.Store, id string) error{
		"by a notice": func(shared store.Store, id string) error {
			return shared.Publish(t.Context(), "sessions", []byte(`{"session":"`+id+`"}`))
		},
		"when it is refreshed": func(store.Store, string) error {
			<-time.After(ttl / 2)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := newStore(t)
				var log bytes.Buffer
				at := newMemoryEndpoint(t, sharing{newServer(), shared}, &streamable.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				id := at.open(t.Context())
				at.wantStatus(id, http.StatusOK)
				key, later := "sessions/"+id, `{"version":99}`
				item, err := shared.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := shared.Update(t.Context(), key, []byte(later), item.Revision, 2*ttl); err != nil {
					t.Fatal(err)
				}
				if err := learn(shared, id); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if n := strings.Count(log.String(), "has the version 99"); n != 1 {
					t.Errorf("%d errors are logged, want 1", n)
				}
				for range 1000 {
					at.wantStatus(id, http.StatusNotFound)
				}
				if kept, err := shared.Get(t.Context(), key); err != nil || string(kept.Value) != later {
					t.Errorf("the record is %s; %v", kept.Value, err)
				}
				if n := strings.Count(log.String(), "has the version 99"); n > 100 {
					t.Errorf("%d errors are logged for 1000 requests", n)
				}
			})
		})
	}
}

// A client that resumes the stream of a call before a forged entry is refused for good, whichever replica it asks.
func TestForgedEventOfCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		engine := &remembering{Store: newStore(t)}
		shared := sealed(t, engine)
		newReplica := func() *memoryEndpoint {
			return newMemoryEndpoint(t, sharing{newStepServer(next), shared}, &streamable.Options{Logger: quiet, KeepAlive: -1})
		}
		one, other := newReplica(), newReplica()
		id := one.open(t.Context())
		ctx, disconnect := context.WithCancel(t.Context())
		first := one.async(ctx, http.MethodPost, id, call(1, "walk", `{}`))
		next <- struct{}{}
		synctest.Wait()
		disconnect()
		last := lastEventID((<-first).Body.String())
		if err := engine.forge(t.Context()); err != nil {
			t.Fatal(err)
		}
		next <- struct{}{}
		synctest.Wait()
		check := func(when string) {
			for i, d := range []*memoryEndpoint{one, other} {
				if w := <-d.resume(t.Context(), id, last); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "not available") {
					t.Errorf("replica %d, %s: answered with %d %s", i+1, when, w.Code, w.Body)
				}
			}
		}
		check("during the call")
		close(next)
		synctest.Wait()
		check("after the call")
	})
}

// A client that resumes the stream of unsolicited messages before a forged entry gets new events, whichever replica it asks.
func TestForgedUnsolicitedEvent(t *testing.T) {
	for i, name := range []string{"same replica", "another replica"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := &remembering{Store: newStore(t)}
				replicas := newMemoryReplicas(t, 2, sealed(t, engine))
				id := replicas[0].open(t.Context())
				replicas[0].subscribe(id, 1)
				last := replicas[0].listen(id, "").end()
				if err := engine.forge(t.Context()); err != nil {
					t.Fatal(err)
				}
				replicas[0].server.ResourceUpdated("book:1")
				synctest.Wait()
				resumed := replicas[i].listen(id, last)
				if resumed.hasEnded() {
					t.Fatalf("answered with %d %s", resumed.recorder.Code, resumed.recorder.Body)
				}
				before := len(resumed.books())
				replicas[i].server.ResourceUpdated("book:1")
				if after := len(resumed.books()); after != before+1 {
					t.Errorf("the client is notified of a change %d times", after-before)
				}
				resumed.end()
			})
		})
	}
}
