package streamable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// subscriptionRequest returns a request to subscribe to a book or to unsubscribe.
func subscriptionRequest(method string, book int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"book:%d"}}`, book, method, book)
}

// A slowStore is a store whose reads of sessions take a while, if slow is set.
type slowStore struct {
	store.Store
	slow          *atomic.Bool
	read, proceed chan struct{}
}

func (s slowStore) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := s.Store.Get(ctx, key)
	if strings.HasPrefix(key, "session/") && s.slow.CompareAndSwap(true, false) {
		s.read <- struct{}{}
		<-s.proceed
	}
	return item, err
}

// await waits for an event, for at most a minute.
func await(t *testing.T, event <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(time.Minute):
		t.Fatalf("waited a minute for %s", what)
	}
}

// A replica that applies what the client has done at another replica does not reverse what the client has
// done at this replica since then.
func TestSubscriptionsAtTwoReplicas(t *testing.T) {
	for name, c := range map[string]struct{ elsewhere, here string }{
		"subscribe": {"unsubscribe", "subscribe"}, "unsubscribe": {"subscribe", "unsubscribe"},
	} {
		t.Run(name, func(t *testing.T) {
			shared := newStore(t)
			other := serve(t, sharing{newBookServer(), shared}, &streamable.Options{Logger: quiet})
			slow := slowStore{shared, new(atomic.Bool), make(chan struct{}), make(chan struct{})}
			served := make(chan struct{})
			srv := newBookServer()
			opts := &streamable.Options{Logger: quiet}
			opts.Conn.Trace = func(sent bool, frame []byte) {
				var reply struct{ ID json.RawMessage }
				if sent && json.Unmarshal(frame, &reply) == nil && string(reply.ID) == "1" {
					close(served)
				}
			}
			r := serve(t, sharing{srv, slow}, opts)

			s := other.open(mcp.Version20251125)
			here := r.with("Mcp-Session-Id", s.headers["Mcp-Session-Id"])
			here.post(subscriptionRequest("subscribe", 2)).is(http.StatusOK, `"result":{}`)
			got := here.send(t.Context(), http.MethodGet, "")
			if c.elsewhere == "unsubscribe" {
				s.post(subscriptionRequest("subscribe", 1)).is(http.StatusOK, `"result":{}`)
				got.unsolicited(`"book:1"`) // it has effect here, too
			}
			slow.slow.Store(true)
			s.post(subscriptionRequest(c.elsewhere, 1)).is(http.StatusOK, `"result":{}`)
			await(t, slow.read, "that the replica reads the session")
			done := make(chan struct{})
			go func() {
				defer close(done)
				here.post(subscriptionRequest(c.here, 1)).is(http.StatusOK, `"result":{}`)
			}()
			await(t, served, "the reply")
			slow.proceed <- struct{}{}
			await(t, done, "the response")
			updates := func() (books []string) {
				srv.ResourceUpdated("book:1")
				srv.ResourceUpdated("book:2")
				for event := got.unsolicited("book:"); ; event = got.unsolicited("book:") {
					if strings.Contains(string(event.Data), `"book:2"`) {
						return books
					}
					books = append(books, string(event.Data))
				}
			}
			updates() // with what may have changed in between
			if got := len(updates()); (got > 0) != (c.here == "subscribe") {
				t.Errorf("after %s elsewhere and then %s here, the client is notified %d times", c.elsewhere, c.here, got)
			}
		})
	}
}
