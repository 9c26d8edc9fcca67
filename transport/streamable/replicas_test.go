package streamable_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A replica is an endpoint with a server of its own.
type replica struct {
	*rig
	server *server.Server
	store  *switchedStore
}

// in returns the replica with the session of another rig.
func (r *replica) in(s *rig) *rig { return r.with("Mcp-Session-Id", s.headers["Mcp-Session-Id"]) }

// serveReplicas serves n replicas with one store.
func serveReplicas(t *testing.T, n int, newServer func() *server.Server) []*replica {
	t.Helper()
	shared := newStore(t)
	var replicas []*replica
	for range n {
		r := &replica{server: newServer(), store: &switchedStore{Store: shared}}
		r.rig = serve(t, sharing{r.server, r.store}, &streamable.Options{Logger: quiet})
		replicas = append(replicas, r)
	}
	return replicas
}

// A switchedStore is a connection to a store that can fail. Cut off for good, it is the connection
// of a process that was killed.
type switchedStore struct {
	store.Store
	down          atomic.Bool
	mu            sync.Mutex
	subscriptions []*subscription
}

// A subscription is one of a [switchedStore].
type subscription struct {
	subject string
	handle  func(context.Context, store.Message)
	stop    func()
}

var errDown = errors.New("the store is down")

func (s *switchedStore) err() error {
	if s.down.Load() {
		return errDown
	}
	return nil
}

// disconnect ends all subscriptions and refuses all operations.
func (s *switchedStore) disconnect() {
	s.down.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscriptions {
		sub.stop()
	}
}

// reconnect begins the subscriptions again.
func (s *switchedStore) reconnect(t *testing.T) {
	s.down.Store(false)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.subscriptions {
		stop, err := s.Store.Subscribe(t.Context(), sub.subject, sub.handle)
		if err != nil {
			t.Fatal(err)
		}
		sub.stop = stop
		sub.handle(t.Context(), store.Message{Missed: true})
	}
}

func (s *switchedStore) Get(ctx context.Context, key string) (store.Item, error) {
	if err := s.err(); err != nil {
		return store.Item{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *switchedStore) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func (s *switchedStore) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	return s.Store.Update(ctx, key, value, revision, ttl)
}

func (s *switchedStore) Delete(ctx context.Context, key string, revision uint64) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Delete(ctx, key, revision)
}

func (s *switchedStore) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	return s.Store.Append(ctx, stream, data)
}

func (s *switchedStore) Read(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	if err := s.err(); err != nil {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, err) }
	}
	return s.Store.Read(ctx, stream, after)
}

func (s *switchedStore) Publish(ctx context.Context, subject string, data []byte) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Publish(ctx, subject, data)
}

func (s *switchedStore) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Request(ctx, subject, data)
}

func (s *switchedStore) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	stop, err := s.Store.Subscribe(ctx, subject, handle)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscriptions = append(s.subscriptions, &subscription{subject, handle, stop})
	return stop, err
}

// legacyVersions are the versions with sessions over streamable HTTP.
var legacyVersions = []mcp.Version{mcp.Version20250326, mcp.Version20250618, mcp.Version20251125}

// eachVersion runs a test for some versions with sessions.
func eachVersion(t *testing.T, versions []mcp.Version, test func(t *testing.T, version mcp.Version)) {
	for _, version := range versions {
		t.Run(string(version), func(t *testing.T) { test(t, version) })
	}
}

// questionID returns the id of a request of the server.
func questionID(t *testing.T, event sse.Event) json.RawMessage {
	t.Helper()
	var req struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal(event.Data, &req); err != nil || req.ID == nil || req.Method == "" {
		t.Fatalf("the event is no request: %s", event.Data)
	}
	return req.ID
}

// Any replica serves any request of a session, and the answer to a question may arrive at another
// one than that which asks.
func TestAnswerAtAnotherReplica(t *testing.T) {
	eachVersion(t, legacyVersions[1:], func(t *testing.T, version mcp.Version) {
		replicas := serveReplicas(t, 3, newLegacyServer)
		s := replicas[0].open(version)
		for i := range 100 {
			asking, answering := replicas[i%3].in(s), replicas[(i+1+i/3)%3].in(s)
			got := asking.post(call(i+1, "ask", `{}`))
			event := got.next()
			if len(event.Data) == 0 {
				event = got.next()
			}
			id := questionID(t, event)
			answering.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ann"}}}`, id)).is(http.StatusAccepted)
			got.message(fmt.Sprintf(`"id":%d,"result"`, i+1), "hello Ann")
			got.ends()
		}
	})
}

func TestCancellationAtAnotherReplica(t *testing.T) {
	eachVersion(t, legacyVersions, func(t *testing.T, version mcp.Version) {
		started, cancelled := make(chan struct{}), make(chan struct{})
		replicas := serveReplicas(t, 2, func() *server.Server {
			srv := newServer()
			server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
				close(started)
				<-ctx.Done()
				close(cancelled)
				return "", ctx.Err()
			})
			return srv
		})
		s := replicas[0].open(version)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			s.post(call(1, "wait", `{}`)).is(http.StatusAccepted)
		}()
		waittest.Receive(t, "the start of the call", started)
		replicas[1].in(s).post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).is(http.StatusAccepted)
		waittest.Receive(t, "the cancellation", cancelled)
		waittest.Receive(t, "the answer", answered)
	})
}

func TestDeletedSessionEndsAtAllReplicas(t *testing.T) {
	eachVersion(t, legacyVersions, func(t *testing.T, version mcp.Version) {
		replicas := serveReplicas(t, 3, newLegacyServer)
		s := replicas[0].open(version)
		own := replicas[1].in(s).send(t.Context(), http.MethodGet, "")
		if version == mcp.Version20251125 {
			own.next()
		}
		replicas[2].in(s).send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
		own.ends()
		for _, r := range replicas { // a replica ends the session when the notice arrives
			answer := r.in(s).post(ping)
			for i := 0; i < 1000 && answer.StatusCode == http.StatusOK; i++ {
				answer = r.in(s).post(ping)
			}
			answer.is(http.StatusNotFound)
		}
	})
}

// The log level of a session is that which the client has set at any replica.
func TestLogLevelAtAnotherReplica(t *testing.T) {
	replicas := serveReplicas(t, 2, func() *server.Server {
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "log"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			r.Logger("tools").DebugContext(ctx, "a detail")
			return "logged", nil
		})
		return srv
	})
	s := replicas[0].open(mcp.Version20250618)
	other := replicas[1].in(s)
	other.post(call(1, "log", `{}`)).is(http.StatusOK, `"text":"logged"`)
	s.post(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`).is(http.StatusOK, `"result":{}`)
	for { // until the notice has arrived
		got := other.post(call(3, "log", `{}`))
		if got.Header.Get("Content-Type") == "text/event-stream" {
			got.message("a detail")
			break
		}
		got.is(http.StatusOK)
	}
	third := serve(t, sharing{replicas[1].server, replicas[0].store}, nil) // restores the session
	third.with("Mcp-Session-Id", s.headers["Mcp-Session-Id"]).post(call(4, "log", `{}`)).message("a detail")
}

// A client resumes the stream of a call at another replica, while the call runs and after its end.
func TestCallIsResumedAtAnotherReplica(t *testing.T) {
	replicas := serveReplicas(t, 3, newLegacyServer)
	s := replicas[0].open(mcp.Version20251125)
	for i := range 100 {
		got := replicas[i%3].in(s).post(call(i+1, "detach", `{}`))
		prime := got.next()
		got.ends()
		for _, r := range replicas {
			again := r.in(s).with("Last-Event-ID", prime.ID).send(t.Context(), http.MethodGet, "")
			first := again.message(`"message":"alone"`)
			last := again.message(`"text":"back"`, fmt.Sprintf(`"id":%d,`, i+1))
			again.ends()
			rest := r.in(s).with("Last-Event-ID", first.ID).send(t.Context(), http.MethodGet, "")
			if same := rest.message(`"text":"back"`); same.ID != last.ID {
				t.Errorf("the same event has the ids %s and %s", last.ID, same.ID)
			}
			rest.ends()
		}
	}
}

// newStepServer returns a server with a tool that makes a step each time it receives from next, and
// ends when next is closed.
func newStepServer(next <-chan struct{}) *server.Server {
	srv := newLegacyServer()
	server.AddTool(srv, server.Tool{Name: "walk"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for i := 1; ; i++ {
			select {
			case _, more := <-next:
				if !more {
					return "arrived", nil
				}
			case <-ctx.Done():
				return "", ctx.Err()
			}
			if err := r.Progress(ctx, float64(i), 0, ""); err != nil {
				return "", err
			}
		}
	})
	return srv
}

func TestCallIsFollowedAtAnotherReplica(t *testing.T) {
	next := make(chan struct{}, 1)
	replicas := serveReplicas(t, 2, func() *server.Server { return newStepServer(next) })
	s := replicas[0].open(mcp.Version20251125)
	ctx, disconnect := context.WithCancel(t.Context())
	next <- struct{}{}
	got := s.send(ctx, http.MethodPost, call(1, "walk", `{}`))
	got.next()
	first := got.message(`"progress":1}`)
	disconnect()
	again := replicas[1].in(s).with("Last-Event-ID", first.ID).send(t.Context(), http.MethodGet, "")
	for i := range 10 {
		next <- struct{}{}
		again.message(fmt.Sprintf(`"progress":%d}`, i+2))
	}
	close(next)
	again.message(`"id":1,"result"`, "arrived")
	again.ends()
}

// The answer to a question is accepted only when the replica that has asked has received it.
func TestAnswerWhileAskerIsDisconnected(t *testing.T) {
	replicas := serveReplicas(t, 2, newLegacyServer)
	s := replicas[0].open(mcp.Version20250618)
	asked := s.post(call(1, "ask", `{}`))
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":"Ann"}}}`, questionID(t, asked.next()))
	other := replicas[1].in(s)
	replicas[0].store.disconnect()
	refused := other.post(answer).is(http.StatusServiceUnavailable)
	if refused.Header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	replicas[0].store.reconnect(t)
	other.post(answer).is(http.StatusAccepted)
	asked.message(`"id":1,"result"`, "hello Ann")
	asked.ends()
	for range 2 { // the question is not open any more
		other.post(answer).is(http.StatusAccepted)
	}
	for _, id := range []string{`"x"`, "-1", "1e300", "0.5"} { // no replica has asked
		other.post(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
	}
}

// A blockedStore is a store whose messages are sent when a value arrives.
type blockedStore struct {
	store.Store
	publishing, publish chan struct{}
}

func (s blockedStore) Publish(ctx context.Context, subject string, data []byte) error {
	s.publishing <- struct{}{}
	<-s.publish
	return s.Store.Publish(ctx, subject, data)
}

// The messages that are on the way to other replicas at a time are limited, for one client and for all together.
// Calls do not count, nor does a message that has arrived.
func TestLimitOfForwardedMessages(t *testing.T) {
	blocked := blockedStore{newStore(t), make(chan struct{}), make(chan struct{})}
	r := serve(t, sharing{newServer(), blocked}, &streamable.Options{Limits: transport.Limits{Calls: 3, CallsPerPrincipal: 2}})
	r.http.Config.Handler = asPrincipal(r.endpoint)
	ann, bob := r.with("X-User", "ann").open(mcp.Version20251125), r.with("X-User", "bob").open(mcp.Version20251125)
	const cancellation = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
	post := func(client *rig) <-chan *answer {
		answered := make(chan *answer, 1)
		go func() { answered <- client.post(cancellation) }()
		return answered
	}
	var forwarded []<-chan *answer
	forward := func(client *rig) {
		t.Helper()
		answered := post(client)
		select {
		case <-blocked.publishing:
			forwarded = append(forwarded, answered)
		case a := <-answered:
			t.Errorf("a message within the limits has the status %s", a.Status)
		}
	}
	refuse := func(client *rig, text string) {
		t.Helper()
		answered := post(client)
		select {
		case <-blocked.publishing:
			forwarded = append(forwarded, answered)
			t.Error("a message beyond the limit is forwarded")
		case a := <-answered:
			a.is(http.StatusServiceUnavailable, text)
		}
	}
	arrive := func() {
		t.Helper()
		for range forwarded {
			blocked.publish <- struct{}{}
		}
		for _, answered := range forwarded {
			(<-answered).is(http.StatusAccepted)
		}
		forwarded = nil
	}
	forward(ann)
	forward(ann)
	refuse(ann, "at most 2 messages to other replicas of one client")
	forward(bob)
	refuse(bob, "at most 3 messages to other replicas")
	bob.post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusOK, `"text":"5"`)
	arrive()
	forward(ann)
	arrive()
}

// A subscribingStore counts subscriptions, which fail while it is down.
type subscribingStore struct {
	store.Store
	down     atomic.Bool
	attempts atomic.Int32
}

func (s *subscribingStore) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	s.attempts.Add(1)
	if s.down.Load() {
		return nil, errDown
	}
	return s.Store.Subscribe(ctx, subject, handle)
}

// After a failed attempt to subscribe to the messages of other replicas, new sessions do not try again for a second.
func TestFailedSubscriptionIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &subscribingStore{Store: newStore(t)}
		shared.down.Store(true)
		d := newMemoryEndpoint(t, sharing{newServer(), shared}, &streamable.Options{Logger: quiet})
		want := func(status int, attempts int32) {
			t.Helper()
			w := d.send(t.Context(), http.MethodPost, "", initialize(mcp.Version20251125))
			if got := shared.attempts.Load(); w.Code != status || got != attempts {
				t.Errorf("status %d after %d attempts, want %d after %d", w.Code, got, status, attempts)
			}
		}
		want(http.StatusServiceUnavailable, 1)
		want(http.StatusServiceUnavailable, 1)
		<-time.After(time.Second)
		want(http.StatusServiceUnavailable, 1)
		<-time.After(1)
		want(http.StatusServiceUnavailable, 2)
		shared.down.Store(false)
		<-time.After(time.Second)
		want(http.StatusServiceUnavailable, 2)
		<-time.After(1)
		want(http.StatusOK, 4) // notices and requests
		want(http.StatusOK, 4)
	})
}

// A replica that was disconnected ends the sessions that no longer exist.
func TestMissedNotices(t *testing.T) {
	replicas := serveReplicas(t, 2, newLegacyServer)
	var streams []*answer
	var sessions []*rig
	for range 20 {
		s := replicas[0].open(mcp.Version20251125)
		got := replicas[1].in(s).send(t.Context(), http.MethodGet, "")
		got.next()
		sessions, streams = append(sessions, s), append(streams, got)
	}
	replicas[1].store.disconnect()
	for _, s := range sessions {
		s.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
	}
	replicas[1].store.reconnect(t)
	for _, got := range streams {
		got.ends()
	}
}

// A call has one outcome, also if the replica that runs it was considered dead in the meantime.
func TestOneOutcomeOfCall(t *testing.T) {
	for name, stays := range map[string]bool{"client disconnects": false, "client stays": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testOneOutcome(t, stays, newStore(t)) }) })
		t.Run(name+"/forged entries", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				testOneOutcome(t, stays, sealed(t, &remembering{Store: newStore(t), forges: true}))
			})
		})
	}
}

func testOneOutcome(t *testing.T, stays bool, shared store.Store) {
	next := make(chan struct{})
	connection := &switchedStore{Store: shared}
	one := newMemoryEndpoint(t, sharing{newStepServer(next), connection}, &streamable.Options{Logger: quiet, KeepAlive: -1})
	other := newMemoryEndpoint(t, sharing{newStepServer(next), shared}, &streamable.Options{Logger: quiet, KeepAlive: -1})
	id := one.open(t.Context())
	ctx, disconnect := context.WithCancel(t.Context())
	defer disconnect()
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", strings.NewReader(call(1, "walk", `{}`)))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Mcp-Session-Id", id)
	first, answered := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(answered)
		one.endpoint.ServeHTTP(first, request)
	}()
	next <- struct{}{}
	synctest.Wait()
	last := lastEventID(first.Body.String())
	if !stays {
		disconnect()
		<-answered
	}
	connection.disconnect()
	want := (<-other.resume(t.Context(), id, last)).Body.String()
	if !strings.Contains(want, `"id":1,"error"`) {
		t.Errorf("the outcome is %s, want an error", want)
	}
	connection.reconnect(t)
	<-time.After(time.Minute)
	check := func() {
		for _, d := range []*memoryEndpoint{one, other, one} {
			if got := (<-d.resume(t.Context(), id, last)).Body.String(); got != want {
				t.Errorf("the outcome is %q, want %q", got, want)
			}
		}
	}
	if !stays {
		check()
	}
	close(next)
	<-answered
	if got := first.Body.String(); stays && !strings.HasSuffix(got, want) {
		t.Errorf("the outcome is %q, want %q", got, want)
	}
	synctest.Wait()
	check()
}

// lastEventID returns the last event id of a stream.
func lastEventID(events string) string {
	id, _, _ := strings.Cut(events[strings.LastIndex(events, "id: ")+len("id: "):], "\n")
	return id
}

// When the replica that runs a call is killed, the client that resumes the call's stream at another
// replica gets an error, once and for all.
func TestCallOfKilledReplicaFails(t *testing.T) {
	next := make(chan struct{}, 1)
	replicas := serveReplicas(t, 3, func() *server.Server { return newStepServer(next) })
	s := replicas[0].open(mcp.Version20251125)
	next <- struct{}{}
	got := s.post(call(9, "walk", `{}`))
	got.next()
	first := got.message(`"progress":1}`)
	followed := replicas[1].in(s).with("Last-Event-ID", first.ID).send(t.Context(), http.MethodGet, "")
	followed.is(http.StatusOK)
	asked := s.post(call(10, "ask", `{}`))
	asked.next()
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, questionID(t, asked.next()))
	replicas[0].store.disconnect()
	lost := followed.message(`"id":9,"error"`, "may have been executed")
	followed.ends()
	again := replicas[2].in(s).with("Last-Event-ID", first.ID).send(t.Context(), http.MethodGet, "")
	if same := again.message(`"id":9,"error"`); same.ID != lost.ID {
		t.Errorf("the call has two outcomes: events %s and %s", lost.ID, same.ID)
	}
	again.ends()
	replicas[1].in(s).post(answer).is(http.StatusBadRequest, "the process that asked the question has ended")
}

// unsolicited reads the next event with a message.
func (a *answer) unsolicited(part string) sse.Event {
	a.Helper()
	for {
		event := a.next()
		if len(event.Data) == 0 {
			continue
		}
		if !strings.Contains(string(event.Data), part) {
			a.Errorf("the event is %q, want it to contain %s", event.Data, part)
		}
		return event
	}
}

// newBookServer returns a server with resources.
func newBookServer() *server.Server {
	srv := newServer()
	server.AddTemplate(srv, server.Template{URITemplate: "book:{number}", Name: "book"},
		func(context.Context, *server.Request, struct {
			Number int `json:"number"`
		}) (string, error) {
			return "text", nil
		})
	return srv
}

// A client that listens to one replica after the other receives each update of a resource once.
func TestUnsolicitedMessagesMove(t *testing.T) {
	replicas := serveReplicas(t, 3, newBookServer)
	s := replicas[0].open(mcp.Version20251125)
	for i := range 100 {
		s.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"book:%d"}}`, i, i)).is(http.StatusOK, `"result":{}`)
	}
	got := replicas[0].in(s).send(t.Context(), http.MethodGet, "")
	last := got.next().ID
	for i := range 100 {
		if i > 0 {
			got = replicas[i%3].in(s).with("Last-Event-ID", last).send(t.Context(), http.MethodGet, "")
			if moved := got.next(); len(moved.Data) > 0 || moved.ID == "" {
				t.Errorf("the stream that has moved begins with %+v, want an id without data", moved)
			}
		}
		replicas[i%3].server.ResourceUpdated(fmt.Sprintf("book:%d", i))
		last = got.unsolicited(fmt.Sprintf(`"book:%d"`, i)).ID
	}
}

// A change that happens while the client is disconnected is sent by the replica that it
// reconnects to.
func TestUnsolicitedMessagesWait(t *testing.T) {
	replicas := serveReplicas(t, 2, newLegacyServer)
	s := replicas[0].open(mcp.Version20251125)
	replicas[1].in(s).post(ping).is(http.StatusOK)
	ctx, disconnect := context.WithCancel(t.Context())
	got := s.send(ctx, http.MethodGet, "")
	prime := got.next()
	disconnect()
	change(replicas, 0)
	again := replicas[1].in(s).with("Last-Event-ID", prime.ID).send(t.Context(), http.MethodGet, "")
	last := again.unsolicited("tools/list_changed")
	for i := range 3 { // reconnecting to the same replica changes nothing
		again = replicas[1].in(s).with("Last-Event-ID", last.ID).send(t.Context(), http.MethodGet, "")
		again.is(http.StatusOK)
		change(replicas, i+1)
		last = again.unsolicited("tools/list_changed")
	}
}

// Replicas send a notification at different times. One that the client's replica would send after it has
// released the client is sent by the replica that the client listens to, which had it earlier.
func TestUnsolicitedMessagesOfSlowReplica(t *testing.T) {
	replicas := serveReplicas(t, 2, newBookServer)
	s := replicas[0].open(mcp.Version20251125)
	s.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"book:1"}}`).is(http.StatusOK, `"result":{}`)
	prime := s.send(t.Context(), http.MethodGet, "").next()
	replicas[1].in(s).post(ping).is(http.StatusOK)
	replicas[1].server.ResourceUpdated("book:1")
	again := replicas[1].in(s).with("Last-Event-ID", prime.ID).send(t.Context(), http.MethodGet, "")
	last := again.unsolicited(`"book:1"`)
	replicas[0].server.ResourceUpdated("book:1") // is dropped, as the client does not listen there
	again = replicas[1].in(s).with("Last-Event-ID", last.ID).send(t.Context(), http.MethodGet, "")
	replicas[1].server.ResourceUpdated("book:1")
	again.unsolicited(`"book:1"`)
}

// change adds a tool to all replicas.
func change(replicas []*replica, i int) {
	for _, r := range replicas {
		server.AddTool(r.server, server.Tool{Name: fmt.Sprintf("new%d", i)}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	}
}

// A client whose replica was killed is notified of everything that may have changed.
func TestUnsolicitedMessagesOfKilledReplica(t *testing.T) {
	replicas := serveReplicas(t, 2, newLegacyServer)
	s := replicas[0].open(mcp.Version20251125)
	got := s.send(t.Context(), http.MethodGet, "")
	prime := got.next()
	replicas[0].store.disconnect()
	again := replicas[1].in(s).with("Last-Event-ID", prime.ID).send(t.Context(), http.MethodGet, "")
	again.unsolicited("tools/list_changed")
	change(replicas[1:], 0)
	again.unsolicited("tools/list_changed")
}

// A stream that has been silent for longer than the log keeps entries is resumed at any replica.
func TestSilentStreamsAreResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		shared := newStore(t)
		newEndpoint := func() *memoryEndpoint {
			srv := newServer()
			server.AddTool(srv, server.Tool{Name: "slow"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				if err := r.Progress(ctx, 1, 0, ""); err != nil {
					return "", err
				}
				<-release
				return "done", nil
			})
			return newMemoryEndpoint(t, sharing{srv, shared}, &streamable.Options{Logger: quiet})
		}
		one, other := newEndpoint(), newEndpoint()
		id := one.open(t.Context())
		ctx, disconnect := context.WithCancel(t.Context())
		first := one.async(ctx, http.MethodPost, id, call(1, "slow", `{}`))
		synctest.Wait()
		disconnect()
		last := lastEventID((<-first).Body.String())
		<-time.After(2 * 30 * time.Minute)
		var answered []<-chan *httptest.ResponseRecorder
		for _, d := range []*memoryEndpoint{other, one} { // the second resumption ends nothing of the first
			answered = append(answered, d.resume(t.Context(), id, last))
			synctest.Wait()
		}
		close(release)
		for _, answer := range answered {
			if w := <-answer; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"done"`) {
				t.Errorf("answered with %d %s", w.Code, w.Body)
			}
		}
	})
}

// resume resumes a stream after an event.
func (d *memoryEndpoint) resume(ctx context.Context, session, event string) <-chan *httptest.ResponseRecorder {
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("Last-Event-ID", event)
		w := httptest.NewRecorder()
		d.endpoint.ServeHTTP(w, r)
		answered <- w
	}()
	return answered
}

// The bytes of an answer do not change on the way to another replica.
func TestBytesOfAnswerAtAnotherReplica(t *testing.T) {
	const content = `{"action":"accept","content":{"name":"<b>&  é \u003c"}}`
	got := make(chan string, 1)
	replicas := serveReplicas(t, 2, func() *server.Server {
		srv := newServer()
		server.AddTool(srv, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			var form mcp.ElicitSchema
			if err := json.Unmarshal([]byte(`{"type":"object","properties":{"name":{"type":"string"}}}`), &form); err != nil {
				return "", err
			}
			answer, err := server.ElicitForm(r, "who", "Who?", &form)
			if err == nil {
				got <- string(answer)
			}
			return "", err
		})
		return srv
	})
	s := replicas[0].open(mcp.Version20250618)
	asked := s.post(call(1, "ask", `{}`))
	id := questionID(t, asked.next())
	replicas[1].in(s).post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, content)).is(http.StatusAccepted)
	asked.message(`"id":1,"result"`)
	if raw := waittest.Receive(t, "the message", got); !strings.Contains(content, raw) {
		t.Errorf("the answer is %s, want the content of %s", raw, content)
	}
}

// While the store is down, sessions cannot be opened or restored. Calls without a session, and JSON
// calls of a session that the replica has, go on. Afterwards everything works again.
func TestStoreIsDown(t *testing.T) {
	replicas := serveReplicas(t, 2, newLegacyServer)
	one, other := replicas[0], replicas[1]
	s := one.open(mcp.Version20251125)
	one.store.down.Store(true)
	other.store.down.Store(true)
	one.post(initialize(mcp.Version20251125)).is(http.StatusServiceUnavailable, "store of sessions")
	other.in(s).post(ping).is(http.StatusServiceUnavailable, "store of sessions")
	other.modern("tools/call", "sum").post(sum(1, 2, 3)).is(http.StatusOK, `"text":"5"`)
	s.post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusOK, `"text":"5"`)
	s.post(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`).is(http.StatusOK, `"id":2,"error"`)
	s.send(t.Context(), http.MethodDelete, "").is(http.StatusServiceUnavailable)
	one.store.down.Store(false)
	other.store.down.Store(false)
	one.open(mcp.Version20251125)
	other.in(s).post(ping).is(http.StatusOK)
	s.post(`{"jsonrpc":"2.0","id":3,"method":"logging/setLevel","params":{"level":"debug"}}`).is(http.StatusOK, `"id":3,"result"`)
	s.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
}

// A session lives as long as any replica uses it.
func TestLifeOfSharedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one := newMemoryEndpoint(t, sharing{newServer(), shared}, nil)
		other := newMemoryEndpoint(t, sharing{newServer(), shared}, nil)
		ttl := transport.Limits{}.WithDefaults().SessionTTL
		id := one.open(t.Context())
		one.wantStatus(id, http.StatusOK)
		for range 4 {
			<-time.After(ttl - time.Minute)
			other.wantStatus(id, http.StatusOK)
		}
		one.wantStatus(id, http.StatusOK)
		<-time.After(2 * ttl)
		one.wantStatus(id, http.StatusNotFound)
		other.wantStatus(id, http.StatusNotFound)
	})
}

// Sessions that a replica restores count toward its limit.
func TestLimitOfRestoredSessions(t *testing.T) {
	shared := newStore(t)
	one := serve(t, sharing{newServer(), shared}, nil)
	full := serve(t, sharing{newServer(), shared}, &streamable.Options{Limits: transport.Limits{Sessions: 1}})
	first, second := one.open(mcp.Version20251125), one.open(mcp.Version20251125)
	full.with("Mcp-Session-Id", first.headers["Mcp-Session-Id"]).post(ping).is(http.StatusOK)
	refused := full.with("Mcp-Session-Id", second.headers["Mcp-Session-Id"])
	refused.post(ping).is(http.StatusServiceUnavailable, "at most 1 sessions")
	first.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
	for refused.post(ping).StatusCode != http.StatusOK { // until the notice has arrived
	}
}

// Malformed messages of other replicas are ignored.
func TestMalformedNotices(t *testing.T) {
	replicas := serveReplicas(t, 1, newLegacyServer)
	s := replicas[0].open(mcp.Version20251125)
	header := `{"session":"` + s.headers["Mcp-Session-Id"] + `"}` + "\n"
	for _, data := range []string{"", "{", `[]`, `{"session":7}`, header + `{"x":1}`, header + "{", header + call(7, "sum", `{}`), header + `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		if err := replicas[0].store.Publish(t.Context(), "sessions", []byte(data)); err != nil {
			t.Error(err)
		}
	}
	s.post(call(1, "sum", `{"a":2,"b":3}`)).is(http.StatusOK, `"text":"5"`)
	s.with("Last-Event-ID", strings.Repeat("0", 33)+"-1").send(t.Context(), http.MethodGet, "").is(http.StatusBadRequest)
}

// If the store loses its data, a replica goes on with the sessions that it has open until it looks at their records. The
// others, and later this one, answer 404, so that clients open new sessions.
func TestEmptiedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newStore(t)
		one := newMemoryEndpoint(t, sharing{newServer(), shared}, nil)
		other := newMemoryEndpoint(t, sharing{newServer(), shared}, nil)
		id := one.open(t.Context())
		one.wantStatus(id, http.StatusOK)
		if err := shared.Delete(t.Context(), "sessions/"+id, 0); err != nil {
			t.Fatal(err)
		}
		one.wantStatus(id, http.StatusOK)
		other.wantStatus(id, http.StatusNotFound)
		<-time.After(transport.Limits{}.WithDefaults().SessionTTL / 2)
		one.wantStatus(id, http.StatusNotFound)
		one.wantStatus(one.open(t.Context()), http.StatusOK)
	})
}

// A store without room refuses new sessions. Those that are open go on.
func TestStoreIsFull(t *testing.T) {
	memory, err := store.NewMemory(&store.MemoryOptions{Bytes: 2 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	r := serve(t, sharing{newServer(), memory}, &streamable.Options{Logger: quiet})
	first := r.open(mcp.Version20251125)
	refused := false
	for range 20 { // at most
		response := r.post(initialize(mcp.Version20251125))
		if refused = response.StatusCode == http.StatusServiceUnavailable; refused {
			response.is(http.StatusServiceUnavailable, "store of sessions")
			break
		}
	}
	if !refused {
		t.Error("all sessions are opened")
	}
	first.post(ping).is(http.StatusOK)
	first.send(t.Context(), http.MethodDelete, "").is(http.StatusNoContent)
	r.open(mcp.Version20251125)
}
