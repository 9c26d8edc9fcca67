package streamable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A memoryReplica is a replica without a network, for tests in virtual time.
type memoryReplica struct {
	*memoryEndpoint
	server *server.Server
}

// newMemoryReplicas returns n replicas with resources, whose sessions are in one store. A change at one
// is not passed on to the others, as if they received it much later.
func newMemoryReplicas(t *testing.T, n int, shared store.Store) []*memoryReplica {
	var replicas []*memoryReplica
	for range n {
		srv := newBookServer()
		d := newMemoryEndpoint(t, sharing{srv, shared}, &streamable.Options{Logger: quiet, KeepAlive: -1})
		replicas = append(replicas, &memoryReplica{d, srv})
	}
	return replicas
}

// subscribe subscribes to a book.
func (d *memoryReplica) subscribe(session string, book int) {
	d.Helper()
	w := d.send(d.Context(), http.MethodPost, session, subscriptionRequest("subscribe", book))
	if !strings.Contains(w.Body.String(), `"result":{}`) {
		d.Errorf("subscribing: %d %s", w.Code, w.Body)
	}
}

// subscriptionRequest returns a request to subscribe to a book or to unsubscribe.
func subscriptionRequest(method string, book int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/%s","params":{"uri":"book:%d"}}`, book, method, book)
}

// A listening is a stream of unsolicited messages.
type listening struct {
	*testing.T
	recorder   *httptest.ResponseRecorder
	disconnect context.CancelFunc
	ended      chan struct{}
}

// listen requests a stream of unsolicited messages, which resumes that with lastEvent unless it is empty,
// and waits until the replica is idle.
func (d *memoryReplica) listen(session, lastEvent string) *listening {
	ctx, disconnect := context.WithCancel(d.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Session-Id", session)
	if lastEvent != "" {
		r.Header.Set("Last-Event-ID", lastEvent)
	}
	l := &listening{d.T, httptest.NewRecorder(), disconnect, make(chan struct{})}
	go func() {
		defer close(l.ended)
		d.endpoint.ServeHTTP(l.recorder, r)
	}()
	synctest.Wait()
	return l
}

// books returns the books that the client has been notified of, after everything has happened that does
// not need time.
func (l *listening) books() []string {
	synctest.Wait()
	var books []string
	for line := range strings.Lines(l.recorder.Body.String()) {
		if _, rest, ok := strings.Cut(line, `"uri":"book:`); ok {
			number, _, _ := strings.Cut(rest, `"`)
			books = append(books, number)
		}
	}
	return books
}

// want checks the books that the client has been notified of.
func (l *listening) want(books ...string) {
	l.Helper()
	if got := l.books(); !slices.Equal(got, books) {
		l.Errorf("the client is notified of the books %q, want %q", got, books)
	}
}

// end disconnects the client and returns the id of its last event.
func (l *listening) end() string {
	l.disconnect()
	<-l.ended
	return lastEventID(l.recorder.Body.String())
}

// hasEnded reports whether the replica has ended the stream.
func (l *listening) hasEnded() bool {
	synctest.Wait()
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// A client whose request to listen takes longer than a change is notified of the change nevertheless.
func TestChangeBeforeClientListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newMemoryReplicas(t, 2, newStore(t))
		id := replicas[0].open(t.Context())
		for _, book := range []int{1, 2, 3} {
			replicas[0].subscribe(id, book)
		}
		replicas[0].server.ResourceUpdated("book:1") // so long ago that the client has read it since
		<-time.After(time.Minute)
		replicas[0].server.ResourceUpdated("book:2")
		<-time.After(time.Second)
		got := replicas[0].listen(id, "")
		got.want("2")
		replicas[0].server.ResourceUpdated("book:3")
		got.want("2", "3")
	})
}

// The request to listen arrives at a replica that did not have the session when the resource changed.
func TestChangeBeforeSessionIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newMemoryReplicas(t, 2, newStore(t))
		id := replicas[0].open(t.Context())
		replicas[0].subscribe(id, 1)
		for _, r := range replicas {
			r.server.ResourceUpdated("book:1")
		}
		synctest.Wait()
		got := replicas[1].listen(id, "")
		got.want("1")
		replicas[1].server.ResourceUpdated("book:1")
		got.want("1", "1")
		got.end()
		<-time.After(time.Minute) // the next stream is no reason for another notice
		replicas[1].listen(id, "").want()
	})
}

// A client that begins to listen at another replica, without an event to resume from, listens only there:
// its earlier stream ends, and it is notified of each change once.
func TestListeningMovesToAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replicas := newMemoryReplicas(t, 3, newStore(t))
		id := replicas[0].open(t.Context())
		replicas[0].subscribe(id, 1)
		for _, r := range replicas {
			r.wantStatus(id, http.StatusOK)
		}
		<-time.After(time.Minute)
		earlier := replicas[0].listen(id, "")
		for i := range 30 {
			at := replicas[(i+1)%len(replicas)]
			got := at.listen(id, "")
			if !earlier.hasEnded() {
				t.Fatal("the client has moved to another replica, and its earlier stream is still open")
			}
			for _, r := range replicas {
				r.server.ResourceUpdated("book:1")
			}
			got.want("1")
			earlier = got
			<-time.After(time.Minute)
		}
	})
}

// A delayStore is a store that delays messages to all replicas.
type delayStore struct {
	store.Store
	delay time.Duration
	tasks *sync.WaitGroup
}

func (s delayStore) Publish(ctx context.Context, subject string, data []byte) error {
	s.tasks.Go(func() {
		<-time.After(s.delay)
		_ = s.Store.Publish(context.WithoutCancel(ctx), subject, data)
	})
	return nil
}

// A client has moved on when the notice arrives that it listens at a replica. The notice does not end the
// stream at the next replica.
func TestLateNoticeOfListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tasks sync.WaitGroup
		defer tasks.Wait()
		replicas := newMemoryReplicas(t, 3, delayStore{newStore(t), 10 * time.Second, &tasks})
		id := replicas[0].open(t.Context())
		replicas[0].subscribe(id, 1)
		for _, r := range replicas {
			r.wantStatus(id, http.StatusOK)
		}
		<-time.After(time.Minute)
		last := replicas[0].listen(id, "").end()
		last = replicas[1].listen(id, last).end()
		got := replicas[2].listen(id, last)
		<-time.After(time.Minute)
		if got.hasEnded() {
			t.Fatal("the stream has ended")
		}
		replicas[2].server.ResourceUpdated("book:1")
		got.want("1")
	})
}

// A distantStore is a store in which requests to other replicas take a while.
type distantStore struct{ store.Store }

const distance = 3 * time.Millisecond

func (s distantStore) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	<-time.After(distance)
	reply, err := s.Store.Request(ctx, subject, data)
	<-time.After(distance)
	return reply, err
}

// Each message of any replica reaches a client once that moves from one replica to the next, while
// messages are sent.
func TestMessagesDuringHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const books = 300
		replicas := newMemoryReplicas(t, 3, distantStore{newStore(t)})
		id := replicas[0].open(t.Context())
		for i := range books {
			replicas[0].subscribe(id, i)
		}
		for _, r := range replicas {
			r.wantStatus(id, http.StatusOK)
		}
		<-time.After(time.Minute)
		received := make(map[string]int)
		var sending sync.WaitGroup
		sent := make(chan struct{})
		for n, r := range replicas {
			sending.Go(func() { // at all replicas at the same moments
				for i := n; i < books; i += len(replicas) {
					<-time.After(10 * time.Millisecond)
					r.server.ResourceUpdated(fmt.Sprintf("book:%d", i))
				}
			})
		}
		go func() {
			sending.Wait()
			close(sent)
		}()
		last := ""
		for i, more := 0, len(replicas); more > 0; i++ {
			at := replicas[i%len(replicas)].listen(id, last)
			<-time.After(5*distance + time.Duration(rand.IntN(25))*time.Millisecond)
			last = at.end()
			for _, book := range at.books() {
				received[book]++
			}
			select {
			case <-sent:
				more-- // messages that a replica has dropped are sent when the client returns
			default:
			}
		}
		for i := range books {
			if n := received[fmt.Sprint(i)]; n != 1 {
				t.Errorf("the client is notified %d times of book %d", n, i)
			}
		}
		if len(received) > books {
			t.Errorf("the client is notified of the books %q", slices.Sorted(maps.Keys(received)))
		}
	})
}

// A slowStore is a store whose reads of sessions take a while, if slow is set.
type slowStore struct {
	store.Store
	slow          *atomic.Bool
	read, proceed chan struct{}
}

func (s slowStore) Get(ctx context.Context, key string) (store.Item, error) {
	item, err := s.Store.Get(ctx, key)
	if strings.HasPrefix(key, "sessions/") && s.slow.CompareAndSwap(true, false) {
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

// A replica that applies changes of the client from another replica does not reverse later changes of the client at
// this replica.
func TestSubscriptionsAtTwoReplicas(t *testing.T) {
	for name, c := range map[string]struct{ elsewhere, here string }{
		"subscribe": {"unsubscribe", "subscribe"}, "unsubscribe": {"subscribe", "unsubscribe"},
	} {
		t.Run(name, func(t *testing.T) {
			shared := newStore(t)
			other := serve(t, sharing{newBookServer(), shared}, &streamable.Options{Logger: quiet})
			slow := slowStore{shared, new(atomic.Bool), make(chan struct{}), make(chan struct{})}
			arrived := make(chan struct{})
			srv := newBookServer()
			opts := &streamable.Options{Logger: quiet}
			opts.Conn.Trace = func(_ string, sent bool, frame []byte) {
				var request struct{ ID json.RawMessage }
				if !sent && json.Unmarshal(frame, &request) == nil && string(request.ID) == "1" {
					close(arrived)
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
			await(t, arrived, "the request")
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
