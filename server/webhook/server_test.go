package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	receiving "github.com/dovetail-go/dovetail/client/webhook"
	shared "github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

type incident struct {
	Number   int    `json:"number"`
	Severity string `json:"severity"`
}

type incidentArguments struct {
	Severity string `json:"severity,omitempty"`
}

func addIncidents(s *server.Server) *server.Topic[incident] {
	return server.AddEvent(s, server.Event{Name: event}, func(_ *mcp.Caller, in incidentArguments, i incident) (incident, bool) {
		return i, in.Severity == "" || in.Severity == i.Severity
	})
}

// newIncidents returns a server that delivers webhooks.
func newIncidents(t testing.TB, hooks delivery.Deliverer, opts server.Options) (*server.Server, *server.Topic[incident]) {
	opts.Webhooks, opts.Logger = hooks, slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "incidents", Version: "1"}, &opts)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	topic := addIncidents(s)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, topic
}

func publishIncident(t testing.TB, topic *server.Topic[incident], number int, severity string) {
	t.Helper()
	if err := topic.Publish(context.Background(), incident{number, severity}, &server.PublishOptions{ID: fmt.Sprint("evt_", number)}); err != nil {
		t.Error(err)
	}
}

// principalBinder binds links with a principal.
type principalBinder struct {
	to        func() *server.Server
	principal string
}

func (b principalBinder) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = b.principal
	return b.to().Bind(link)
}

// connectAs opens a session with the server that to returns when the connection is opened.
func connectAs(t testing.TB, to func() *server.Server, principal string) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), transport.Pipe(principalBinder{to, principal}), &client.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func only(s *server.Server) func() *server.Server { return func() *server.Server { return s } }

// A web is an HTTP handler without a network.
type web struct{ http.Handler }

func (w web) RoundTrip(req *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, req)
	res := recorder.Result()
	res.Request = req
	return res, nil
}

// collected are the deliveries of one subscription.
type collected struct {
	mu  sync.Mutex
	got []receiving.Delivery
}

func (c *collected) handle(_ context.Context, d receiving.Delivery) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, d)
	return nil
}

func (c *collected) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, d := range c.got {
		switch d.Type {
		case receiving.Event:
			all = append(all, d.ID)
		case receiving.Terminated:
			all = append(all, fmt.Sprint(d.Type, int(d.Error.Code)))
		default:
			all = append(all, string(d.Type))
		}
	}
	return strings.Join(all, " ")
}

func newReceiver(t testing.TB) *receiving.Receiver {
	t.Helper()
	receiver, err := receiving.New(&receiving.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return receiver
}

func TestServerDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receiver, got := newReceiver(t), &collected{}
		s, topic := newIncidents(t, newDeliverer(t, web{receiver}, webhook.Options{}), server.Options{})
		session := connectAs(t, only(s), "alice")
		for e, err := range session.EventTypes(t.Context(), nil) {
			if err != nil || fmt.Sprint(e.Delivery) != "[webhook push poll]" {
				t.Errorf("the event is %+v, %v", e, err)
			}
		}
		publishIncident(t, topic, 0, "P1")
		sub, err := receiving.Subscribe(t.Context(), session, receiver, callback, event, json.RawMessage(`{"severity":"P1"}`), got.handle, nil)
		if err != nil {
			t.Fatal(err)
		}
		publishIncident(t, topic, 1, "P1")
		publishIncident(t, topic, 2, "P2")
		publishIncident(t, topic, 3, "P1")
		sleep(time.Second)
		if got.String() != "evt_1 evt_3" {
			t.Errorf("deliveries: %s", got)
		}
		d := got.got[0]
		var occurrence mcp.EventOccurrence
		if err := occurrence.UnmarshalJSON(d.Body); err != nil || occurrence.Name != event || string(occurrence.Data) != `{"number":1,"severity":"P1"}` ||
			d.Cursor == nil || d.Subscription != sub.ID() {
			t.Errorf("the first delivery is %s", d.Body)
		}
		sleep(26 * time.Hour) // refreshes
		publishIncident(t, topic, 4, "P1")
		sleep(time.Second)
		if err := sub.Close(t.Context()); err != nil {
			t.Error(err)
		}
		publishIncident(t, topic, 5, "P1")
		sleep(time.Hour)
		if got.String() != "evt_1 evt_3 evt_4" {
			t.Errorf("at the end: %s", got)
		}
	})
}

// subscribeWith makes a request for a subscription, with more members of the params. It reports whether events may
// be missing.
func subscribeWith(t *testing.T, session *client.Session, url, members string) (truncated bool) {
	t.Helper()
	params := fmt.Sprintf(`{"name":%q,"delivery":{"mode":"webhook","url":%q,"secret":%q}%s}`, event, url, shared.NewSecret().Text(), members)
	text, err := session.Call(t.Context(), mcp.MethodEventsSubscribe, json.RawMessage(params), nil)
	if err != nil {
		t.Fatal(err)
	}
	var result mcp.SubscribeEventsResult
	if err := result.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return result.Truncated
}

// After a cursor, maxAgeMs leaves out the events that are older when the client subscribes, also if there are more
// than one batch of them. It has no effect on events that are published later.
func TestMaxAgeAfterCursor(t *testing.T) {
	for _, old := range []int{0, 1, 2500} {
		t.Run(fmt.Sprint(old), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &endpoint{}
				s, topic := newIncidents(t, newDeliverer(t, e, webhook.Options{}), server.Options{})
				session := connectAs(t, only(s), "alice")
				text, err := session.Call(t.Context(), mcp.MethodEventsPoll, json.RawMessage(`{"name":"`+event+`"}`), nil)
				if err != nil {
					t.Fatal(err)
				}
				var polled mcp.PollEventsResult
				if err := polled.UnmarshalJSON(text); err != nil {
					t.Fatal(err)
				}
				publish := func(id string, at time.Time) {
					t.Helper()
					if err := topic.Publish(t.Context(), incident{}, &server.PublishOptions{ID: id, Time: at}); err != nil {
						t.Fatal(err)
					}
				}
				for i := range old {
					publish(fmt.Sprint("old_", i), time.Now())
				}
				sleep(time.Millisecond)
				publish("evt_1", time.Now())
				sleep(time.Minute)
				publish("evt_2", time.Now())
				truncated := subscribeWith(t, session, callback, fmt.Sprintf(`,"cursor":%q,"maxAgeMs":60000`, *polled.Cursor))
				if truncated != (old > 0) {
					t.Errorf("the subscription begins truncated: %v", truncated)
				}
				sleep(time.Second)
				publish("evt_3", time.Now().Add(-time.Hour))
				sleep(time.Second)
				got := slices.DeleteFunc(e.ids(), func(id string) bool { return strings.HasPrefix(id, "msg_") })
				if want := []string{"evt_1", "evt_2", "evt_3"}; !slices.Equal(got, want) {
					t.Errorf("the endpoint got %d events, which begin with %q, want %q", len(got), got[:min(len(got), 3)], want)
				}
			})
		})
	}
}

// A subscription without a cursor begins now, and maxAgeMs has no effect on it: an event that is published before the
// first read is delivered, whenever it happened.
func TestMaxAgeWithoutCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "https://proxy.example.com/hooks/other"
		release := make(chan struct{})
		e := &endpoint{handle: func(_ http.ResponseWriter, d posted) {
			if d.url == other {
				<-release
			}
		}}
		s, topic := newIncidents(t, newDeliverer(t, e, webhook.Options{Deliveries: 1}), server.Options{})
		session := connectAs(t, only(s), "alice")
		subscribeWith(t, session, other, "")
		publishIncident(t, topic, 1, "")
		synctest.Wait() // the only worker waits for the other endpoint
		if subscribeWith(t, session, callback, `,"maxAgeMs":60000`) {
			t.Error("the subscription begins truncated")
		}
		if err := topic.Publish(t.Context(), incident{}, &server.PublishOptions{ID: "evt_2", Time: time.Now().Add(-time.Hour)}); err != nil {
			t.Fatal(err)
		}
		close(release)
		sleep(time.Minute)
		var got []string
		for _, d := range e.deliveries() {
			if d.url == callback {
				got = append(got, d.id)
			}
		}
		if want := []string{"evt_2"}; !slices.Equal(got, want) {
			t.Errorf("the endpoint got %q, want %q", got, want)
		}
	})
}

// The server has lost the subscription; the client makes it again at its position.
func TestServerHasLostTheSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receiver, got := newReceiver(t), &collected{}
		memory := newMemory(t)
		var current atomic.Pointer[server.Server]
		start := func() *server.Topic[incident] { // the deliverer's store is lost with the server
			s, topic := newIncidents(t, newDeliverer(t, web{receiver}, webhook.Options{}), server.Options{Store: memory})
			if before := current.Swap(s); before != nil {
				before.Shutdown(t.Context())
			}
			return topic
		}
		topic := start()
		session := connectAs(t, current.Load, "alice")
		sub, err := receiving.Subscribe(t.Context(), session, receiver, callback, event, nil, got.handle, &receiving.SubscribeOptions{TTL: 2 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		publishIncident(t, topic, 1, "")
		sleep(time.Second)
		topic = start()
		publishIncident(t, topic, 2, "")
		session2 := session
		session2.Close() // the connection to the old server
		sleep(time.Second)
		if !errors.Is(sub.Err(), jsonrpc.ErrClosed) {
			t.Errorf("the subscription of a closed session: %v", sub.Err())
		}
		sub.Close(t.Context())
		session = connectAs(t, current.Load, "alice")
		sub, err = receiving.Subscribe(t.Context(), session, receiver, callback, event, nil, got.handle, &receiving.SubscribeOptions{Cursor: sub.Cursor()})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close(context.Background())
		sleep(time.Minute)
		if got.String() != "evt_1 evt_2" {
			t.Errorf("deliveries: %s", got)
		}
	})
}

func TestServerRefusesSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newIncidents(t, newDeliverer(t, &endpoint{}, webhook.Options{MaxPerPrincipal: 2}), server.Options{})
		alice, unknown := connectAs(t, only(s), "alice"), connectAs(t, only(s), "")
		secret := shared.NewSecret().Text()
		with := func(name, arguments, delivery string) string {
			return fmt.Sprintf(`{"name":%q,"arguments":%s,"delivery":%s}`, name, arguments, delivery)
		}
		good := fmt.Sprintf(`{"mode":"webhook","url":%q,"secret":%q}`, callback, secret)
		for _, test := range []struct {
			session *client.Session
			method  string
			params  string
			code    jsonrpc.Code
			data    string
		}{
			{unknown, mcp.MethodEventsSubscribe, with(event, "{}", good), mcp.CodeForbidden, ""},
			{unknown, mcp.MethodEventsUnsubscribe, with(event, "{}", good), mcp.CodeForbidden, ""},
			{alice, mcp.MethodEventsSubscribe, with("nothing", "{}", good), mcp.CodeNotFound, `{"kind":"event"}`},
			{alice, mcp.MethodEventsSubscribe, with(event, `{"severity":7}`, good), jsonrpc.InvalidParams, ""},
			{alice, mcp.MethodEventsSubscribe, with(event, `[]`, good), jsonrpc.InvalidParams, ""},
			{alice, mcp.MethodEventsSubscribe, with(event, "{}", `null`), jsonrpc.InvalidParams, ""},
			{alice, mcp.MethodEventsSubscribe, with(event, "{}", `{"mode":"push","url":"https://proxy.example.com/","secret":"`+secret+`"}`), mcp.CodeUnsupported, `{"feature":"deliveryMode","value":"push"}`},
			{alice, mcp.MethodEventsSubscribe, with(event, "{}", `{"url":"http://proxy.example.com/","secret":"`+secret+`"}`), jsonrpc.InvalidParams, ""},
			{alice, mcp.MethodEventsSubscribe, with(event, "{}", `{"url":"https://proxy.example.com/","secret":"whsec_short"}`), jsonrpc.InvalidParams, ""},
			{alice, mcp.MethodEventsSubscribe, with(event, "{}", `{"url":"https://proxy.example.com/"}`), jsonrpc.InvalidParams, ""},
			{alice, mcp.MethodEventsSubscribe, fmt.Sprintf(`{"name":%q,"delivery":%s,"ttlMs":"1h"}`, event, good), jsonrpc.InvalidParams, ""},
			{alice, mcp.MethodEventsUnsubscribe, with(event, "{}", good), mcp.CodeNotFound, `{"kind":"subscription"}`},
		} {
			_, err := test.session.Call(t.Context(), test.method, json.RawMessage(test.params), nil)
			e, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok || e.Code != test.code || test.data != "" && string(e.Data) != test.data {
				t.Errorf("%s %s: %v", test.method, test.params, err)
			} else if strings.Contains(err.Error(), secret) {
				t.Errorf("the error contains the secret: %v", err)
			}
		}
	})
}

// What the result of events/subscribe says about identity and lifetime.
func TestSubscriptionResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newIncidents(t, newDeliverer(t, &endpoint{}, webhook.Options{Store: newMemory(t), Forever: true}), server.Options{Store: newMemory(t)})
		sessions := map[string]*client.Session{"alice": connectAs(t, only(s), "alice"), "bob": connectAs(t, only(s), "bob")}
		subscribed := func(principal, arguments, more string) (result mcp.SubscribeEventsResult) {
			t.Helper()
			params := fmt.Sprintf(`{"name":%q,"arguments":%s,"delivery":{"mode":"webhook","url":%q,"secret":%q},"id":"mine"%s}`, event, arguments, callback, shared.NewSecret().Text(), more)
			text, err := sessions[principal].Call(t.Context(), mcp.MethodEventsSubscribe, json.RawMessage(params), nil)
			if err == nil {
				err = result.UnmarshalJSON(text)
			}
			if err != nil || result.Cursor == nil || result.Truncated {
				t.Fatalf("%s: %s, %v", params, text, err)
			}
			return result
		}
		first := subscribed("alice", `{"severity":"P1"}`, `,"ttlMs":3600000`)
		if until, err := time.Parse(time.RFC3339Nano, *first.RefreshBefore); err != nil || time.Until(until).Round(time.Second) != time.Hour {
			t.Errorf("the subscription lasts until %s", *first.RefreshBefore)
		}
		if first.DeliveryStatus != nil {
			t.Errorf("a new subscription has the status %+v", first.DeliveryStatus)
		}
		if again := subscribed("alice", `{ "severity" : "\u0050\u0031" }`, ""); again.ID != first.ID || again.DeliveryStatus == nil || !again.DeliveryStatus.Active {
			t.Errorf("a refresh gives %+v, after the id %s", again, first.ID)
		}
		if other := subscribed("alice", `{"severity":"P2"}`, ""); other.ID == first.ID {
			t.Error("other arguments have the same id")
		}
		if other := subscribed("bob", `{"severity":"P1"}`, ""); other.ID == first.ID {
			t.Error("another principal has the same id")
		}
		if forever := subscribed("alice", `{}`, `,"ttlMs":null`); forever.RefreshBefore != nil {
			t.Errorf("without expiry: %s", *forever.RefreshBefore)
		}
		for _, ttl := range []string{"0", "-1", "1.5", "1e300"} {
			if result := subscribed("alice", `{}`, `,"ttlMs":`+ttl); result.RefreshBefore == nil {
				t.Errorf("ttlMs %s has no expiry", ttl)
			}
		}
	})
}

func TestServerEndsSubscriptions(t *testing.T) {
	for name, end := range map[string]func(s *server.Server, revoked *atomic.Bool){
		"removed": func(s *server.Server, _ *atomic.Bool) { s.Remove(mcp.KindEvent, event) },
		"revoked": func(_ *server.Server, revoked *atomic.Bool) { revoked.Store(true) },
		"arguments do not fit": func(s *server.Server, _ *atomic.Bool) {
			entry, _, err := server.NewEvent[struct {
				Severity int `json:"severity"`
			}, incident](server.Event{Name: event}, nil)
			if err != nil {
				panic(err)
			}
			s.Replace(entry)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var revoked atomic.Bool
				receiver, got := newReceiver(t), &collected{}
				s, topic := newIncidents(t, newDeliverer(t, web{receiver}, webhook.Options{}), server.Options{Guards: []mcp.Guard{{
					Name: "member", Check: func(_ context.Context, call *mcp.Call) error {
						if revoked.Load() && call.Caller.Principal == "alice" {
							return errors.New("not a member")
						}
						return nil
					},
				}}})
				sub, err := receiving.Subscribe(t.Context(), connectAs(t, only(s), "alice"), receiver, callback, event, json.RawMessage(`{"severity":"P1"}`), got.handle, nil)
				if err != nil {
					t.Fatal(err)
				}
				publishIncident(t, topic, 1, "P1")
				sleep(time.Second)
				end(s, &revoked)
				publishIncident(t, topic, 2, "P1")
				sleep(10 * time.Minute)
				want := map[string]string{"removed": "evt_1 terminated-32023", "revoked": "evt_1 terminated-32024", "arguments do not fit": "evt_1 terminated-32026"}[name]
				if got.String() != want {
					t.Errorf("deliveries: %s, want %s", got, want)
				}
				if _, ended := errors.AsType[*jsonrpc.Error](sub.Err()); !ended {
					t.Errorf("the subscription: %v", sub.Err())
				}
				if err := sub.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// interruptible returns a handler that answers 503 while down is true.
func interruptible(to http.Handler) (handler http.Handler, down *atomic.Bool) {
	down = new(atomic.Bool)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		to.ServeHTTP(w, r)
	}), down
}

// What the log has deleted before it was delivered is a gap.
func TestServerReportsGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receiver, got := newReceiver(t), &collected{}
		handler, down := interruptible(receiver)
		s, topic := newIncidents(t, newDeliverer(t, web{handler}, webhook.Options{Attempts: 100, RetryWindow: 2 * time.Hour}), server.Options{})
		sub, err := receiving.Subscribe(t.Context(), connectAs(t, only(s), "alice"), receiver, callback, event, nil, got.handle, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close(context.Background())
		down.Store(true)
		publishIncident(t, topic, 1, "")
		sleep(40 * time.Minute)
		down.Store(false)
		publishIncident(t, topic, 2, "")
		sleep(20 * time.Minute)
		if got.String() != "gap evt_2" {
			t.Errorf("deliveries: %s", got)
		}
	})
}

// A queued is a store that counts the jobs of its queues.
type queued struct {
	store.Store
	jobs atomic.Int32
}

func (q *queued) Push(ctx context.Context, queue, id string, data []byte) error {
	err := q.Store.Push(ctx, queue, id, data)
	if err == nil {
		q.jobs.Add(1)
	}
	return err
}

func (q *queued) Ack(ctx context.Context, job *store.Job) error {
	err := q.Store.Ack(ctx, job)
	if err == nil {
		q.jobs.Add(-1)
	}
	return err
}

// A subscription without events to deliver has no job in the queue, and its position remains in the log.
func TestQuietSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receiver, got := newReceiver(t), &collected{}
		counted := &queued{Store: newMemory(t)}
		deliverer := newDeliverer(t, web{receiver}, webhook.Options{Store: counted})
		s, topic := newIncidents(t, deliverer, server.Options{Store: counted})
		sub, err := receiving.Subscribe(t.Context(), connectAs(t, only(s), "alice"), receiver, callback, event, nil, got.handle, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close(context.Background())
		for number := range 10 {
			publishIncident(t, topic, number, "")
			sleep(time.Second)
		}
		if n := counted.jobs.Load(); n != 0 {
			t.Errorf("the queue has %d jobs after the deliveries", n)
		}
		sleep(12 * time.Hour)
		publishIncident(t, topic, 10, "")
		synctest.Wait()
		if want := "evt_0 evt_1 evt_2 evt_3 evt_4 evt_5 evt_6 evt_7 evt_8 evt_9 evt_10"; got.String() != want {
			t.Errorf("deliveries: %s, want %s", got, want)
		}
	})
}

// A bridge delivers the events of servers behind it with the names and principals of the bridge.
func TestBridgeDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := server.New(mcp.Implementation{Name: "incidents", Version: "1"}, nil)
		topic := addIncidents(upstream)
		b, err := bridge.New(&bridge.Options{Logger: slog.New(slog.DiscardHandler)}, bridge.Config{Alias: "pager", Dialer: transport.Pipe(upstream)})
		if err != nil {
			t.Fatal(err)
		}
		receiver, got := newReceiver(t), &collected{}
		s := server.New(mcp.Implementation{Name: "front", Version: "1"}, &server.Options{
			Webhooks: newDeliverer(t, web{receiver}, webhook.Options{}), Logger: slog.New(slog.DiscardHandler),
		})
		t.Cleanup(func() { s.Shutdown(context.Background()) })
		if err := s.Mount(b, nil); err != nil {
			t.Fatal(err)
		}
		session := connectAs(t, only(s), "alice")
		for e, err := range session.EventTypes(t.Context(), nil) {
			if err != nil || e.Name != "pager__"+event || fmt.Sprint(e.Delivery) != "[webhook push poll]" {
				t.Errorf("the event is %+v, %v", e, err)
			}
		}
		sub, err := receiving.Subscribe(t.Context(), session, receiver, callback, "pager__"+event, nil, got.handle, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close(context.Background())
		for number := range 5 {
			publishIncident(t, topic, number, "P1")
			sleep(time.Duration(number) * time.Second)
		}
		sleep(time.Minute)
		if got.String() != "evt_0 evt_1 evt_2 evt_3 evt_4" || !strings.Contains(string(got.got[0].Body), `"name":"pager__incident.created"`) {
			t.Errorf("deliveries: %s", got)
		}
	})
}

// eventsVar is the number of events of TestDurability. CI runs a small number; 100000 takes minutes.
const eventsVar = "DOVETAIL_WEBHOOK_EVENTS"

// The server is restarted 100 times, every second time without warning, and the receiver fails one
// time in ten. Each subscription gets each of its events at least once, in order, and exactly once by
// its id.
func TestDurability(t *testing.T) {
	const restarts, subscriptions = 100, 10
	events := 2000
	if text := os.Getenv(eventsVar); text != "" {
		var err error
		if events, err = strconv.Atoi(text); err != nil || events%(restarts*subscriptions) != 0 {
			t.Fatalf("%s is a multiple of %d, not %q", eventsVar, restarts*subscriptions, text)
		}
	}
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		memory, err := store.NewMemory(&store.MemoryOptions{Limits: store.Limits{LogAge: 1000 * time.Hour, LogEntries: 1 << 20, LogBytes: 4 << 30}})
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		random, pauses := rand.New(rand.NewPCG(3, 4)), rand.New(rand.NewPCG(5, 6))
		receiver := newReceiver(t)
		var mu sync.Mutex
		attempts, failures := 0, 0
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			attempts++
			before, after := random.IntN(20) == 0, random.IntN(20) == 0
			if before || after {
				failures++
			}
			mu.Unlock()
			if before { // lost before it was accepted
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			if after { // accepted, and the response is lost
				receiver.ServeHTTP(httptest.NewRecorder(), r)
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			receiver.ServeHTTP(w, r)
		})
		type instance struct {
			*server.Server
			topic *server.Topic[incident]
			store *mortal
		}
		var current atomic.Pointer[instance]
		start := func() *instance {
			dying := &mortal{Store: memory}
			hooks := newDeliverer(t, web{handler}, webhook.Options{
				Store: dying, MaxPerPrincipal: subscriptions, Attempts: 100, RetryWindow: 24 * time.Hour, MaxTTL: 10_000 * time.Hour,
				Verified: func(context.Context, string, string) bool { return true },
			})
			s := server.New(mcp.Implementation{Name: "incidents", Version: "1"}, &server.Options{Store: memory, Webhooks: hooks, Logger: slog.New(slog.DiscardHandler)})
			started := &instance{s, addIncidents(s), dying}
			if err := s.Start(context.Background()); err != nil {
				t.Fatal(err)
			}
			current.Store(started)
			return started
		}
		now := start()
		session := connectAs(t, func() *server.Server { return current.Load().Server }, "alice")
		var got [subscriptions]collected
		for i := range got {
			arguments := json.RawMessage(fmt.Sprintf(`{"severity":"P%d"}`, i))
			sub, err := receiving.Subscribe(t.Context(), session, receiver, fmt.Sprintf("https://proxy.example.com/hooks/%d", i), event, arguments, got[i].handle, &receiving.SubscribeOptions{TTL: 9_999 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close(context.Background())
		}
		number := 0
		for round := range restarts {
			for range events / restarts {
				publishIncident(t, now.topic, number, fmt.Sprint("P", number%subscriptions))
				number++
			}
			sleep(time.Duration(pauses.IntN(60_000)) * time.Millisecond)
			if round%2 == 1 {
				now.store.kill()
			}
			stopping, cancel := context.WithTimeout(context.Background(), time.Minute)
			now.Shutdown(stopping)
			cancel()
			now = start()
		}
		delivered := func() (n int) {
			for i := range got {
				got[i].mu.Lock()
				n += len(got[i].got)
				got[i].mu.Unlock()
			}
			return n
		}
		for last := -1; delivered() > last || delivered() < events && last < 0; {
			last = delivered()
			if last >= events {
				break
			}
			sleep(30 * time.Minute)
		}
		now.Shutdown(context.Background())
		duplicates := 0
		for i := range got {
			var ids []string
			got[i].mu.Lock()
			defer got[i].mu.Unlock()
			for _, d := range got[i].got {
				if slices.Contains(ids[max(0, len(ids)-10):], d.ID) {
					duplicates++
					continue
				}
				ids = append(ids, d.ID)
			}
			var want []string
			for n := i; n < events; n += subscriptions {
				want = append(want, fmt.Sprint("evt_", n))
			}
			if !slices.Equal(ids, want) {
				t.Errorf("subscription %d: %d events, want %d; first difference: %s", i, len(ids), len(want), firstDifference(ids, want))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if failures < attempts/20 {
			t.Errorf("%d of %d attempts failed", failures, attempts)
		}
		t.Logf("%d events to %d subscriptions, %d restarts, %d attempts, %d failed, %d repeated to the handler", events, subscriptions, restarts, attempts, failures, duplicates)
	})
	t.Logf("in %v", time.Since(began).Round(time.Second))
}

func firstDifference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return "missing " + b[i]
		case i >= len(b):
			return "unexpected " + a[i]
		case a[i] != b[i]:
			return fmt.Sprintf("%s in place of %s at %d", a[i], b[i], i)
		}
	}
	return "none"
}

// If a receiver is down for ten minutes, its event is delivered, with the events after it, from stores with
// default limits.
func TestReceiverIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		receiver, got := newReceiver(t), &collected{}
		handler, down := interruptible(receiver)
		memory := newMemory(t)
		s, topic := newIncidents(t, newDeliverer(t, web{handler}, webhook.Options{Store: memory}), server.Options{Store: memory})
		sub, err := receiving.Subscribe(t.Context(), connectAs(t, only(s), "alice"), receiver, callback, event, nil, got.handle, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close(context.Background())
		down.Store(true)
		var want []string
		for number := range 2000 {
			publishIncident(t, topic, number, "")
			want = append(want, fmt.Sprint("evt_", number))
			sleep(10 * time.Minute / 2000)
		}
		down.Store(false)
		sleep(10 * time.Minute)
		if got.String() != strings.Join(want, " ") {
			t.Errorf("deliveries: %.200s", got)
		}
	})
}
