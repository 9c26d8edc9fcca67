package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type reading struct {
	Value int `json:"value"`
}

// newSensor returns a server with an event.
func newSensor(name string) (*server.Server, *server.Topic[reading]) {
	s := newServer(name)
	return s, server.AddEvent[map[string]any, reading](s, server.Event{Name: "reading.new"}, nil)
}

func publishReadings(t testing.TB, topic *server.Topic[reading], values ...int) {
	t.Helper()
	for _, value := range values {
		if err := topic.Publish(context.Background(), reading{value}, &server.PublishOptions{ID: fmt.Sprint("evt_", value)}); err != nil {
			t.Error(err)
		}
	}
}

// mountedBridge returns a server with a bridge.
func mountedBridge(t testing.TB, configs ...bridge.Config) *server.Server {
	t.Helper()
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	return mount(t, b)
}

// Events of several servers are one list, and arrive with the names of the bridge.
func TestEventsOfSeveralServers(t *testing.T) {
	for _, mode := range []mcp.DeliveryMode{mcp.DeliveryPush, mcp.DeliveryPoll} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				indoor, indoorTopic := newSensor("indoor")
				outdoor, outdoorTopic := newSensor("outdoor")
				b := mountedBridge(t, bridge.Config{Alias: "in", Dialer: transport.Pipe(indoor)}, bridge.Config{Alias: "out", Dialer: transport.Pipe(outdoor)})
				session := connect(t, transport.Pipe(b), client.Options{})
				var names []string
				for event, err := range session.EventTypes(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					names = append(names, event.Name)
				}
				if !slices.Equal(names, []string{"in__reading.new", "out__reading.new"}) {
					t.Fatalf("the events are %q", names)
				}
				go func() {
					<-time.After(time.Minute)
					publishReadings(t, indoorTopic, 1)
					publishReadings(t, outdoorTopic, 2)
					publishReadings(t, indoorTopic, 3)
				}()
				var got []string
				for e, err := range client.Events[reading](t.Context(), session, "in__reading.new", nil, &client.EventsOptions{Delivery: mode}) {
					if err != nil {
						t.Fatal(err)
					}
					if got = append(got, fmt.Sprint(e.Name, " ", e.Payload.Value)); len(got) == 2 {
						break
					}
				}
				if !slices.Equal(got, []string{"in__reading.new 1", "in__reading.new 3"}) {
					t.Errorf("the events are %q", got)
				}
			})
		})
	}
}

// A subscription through a bridge continues where it was when the server behind it is lost.
func TestEventsContinueThroughABridge(t *testing.T) {
	for _, mode := range []mcp.DeliveryMode{mcp.DeliveryPush, mcp.DeliveryPoll} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sensor, topic := newSensor("sensor")
				dialer := &faultyDialer{server: sensor}
				b := mountedBridge(t, bridge.Config{Alias: "in", Dialer: dialer})
				session := connect(t, transport.Pipe(b), client.Options{Logger: quiet()})
				done := make(chan struct{})
				defer func() { <-done }()
				go func() {
					defer close(done)
					<-time.After(time.Minute)
					for value := range 30 {
						publishReadings(t, topic, value)
						<-time.After(7 * time.Second)
						if value%3 == 0 {
							dialer.cut()
						}
					}
				}()
				want := 0
				opts := &client.EventsOptions{Delivery: mode, OnGap: func() { t.Error("a gap was reported") }}
				for e, err := range client.Events[reading](t.Context(), session, "in__reading.new", nil, opts) {
					if err != nil || e.Payload.Value != want {
						t.Fatalf("got %+v, %v, want %d", e, err, want)
					}
					if want++; want == 30 {
						break
					}
				}
			})
		})
	}
}

// The end of a subscription at the server is its end at the client.
func TestTerminationThroughABridge(t *testing.T) {
	for _, mode := range []mcp.DeliveryMode{mcp.DeliveryPush, mcp.DeliveryPoll} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var revoked atomic.Bool
				sensor := server.New(mcp.Implementation{Name: "sensor", Version: "1"}, &server.Options{Logger: quiet(), Guards: []mcp.Guard{{
					Name: "member", Check: func(context.Context, *mcp.Call) error {
						if revoked.Load() {
							return errors.New("not a member")
						}
						return nil
					},
				}}})
				server.AddEvent[map[string]any, reading](sensor, server.Event{Name: "reading.new"}, nil)
				b := mountedBridge(t, bridge.Config{Alias: "in", Dialer: transport.Pipe(sensor)})
				session := connect(t, transport.Pipe(b), client.Options{Logger: quiet()})
				go func() {
					<-time.After(time.Minute)
					revoked.Store(true)
				}()
				var ended error
				for _, err := range client.Events[reading](t.Context(), session, "in__reading.new", nil, &client.EventsOptions{Delivery: mode}) {
					ended = err
				}
				if refused, ok := errors.AsType[*jsonrpc.Error](ended); !ok || refused.Code != mcp.CodeForbidden {
					t.Errorf("the subscription ends with %v", ended)
				}
			})
		})
	}
}

func TestEventListChangesThroughABridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sensor, _ := newSensor("sensor")
		b := mountedBridge(t, bridge.Config{Alias: "in", Dialer: transport.Pipe(sensor)})
		changes := make(chan mcp.Change, 8)
		session := connect(t, transport.Pipe(b), client.Options{OnChange: func(_ context.Context, c mcp.Change) { changes <- c }})
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{EventsListChanged: true, ResourcesListChanged: true})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		<-time.After(time.Minute)
		server.AddEvent[map[string]any, reading](sensor, server.Event{Name: "reading.lost"}, nil)
		if change := <-changes; change.Kind != mcp.KindEvent {
			t.Errorf("the change is %+v", change)
		}
		count := 0
		for range session.EventTypes(t.Context(), nil) {
			count++
		}
		if count != 2 {
			t.Errorf("there are %d events", count)
		}
	})
}

// The events of a server that delivers by webhook only are not offered. The names and principals in its deliveries
// differ from the names and principals of the bridge.
func TestWebhookOnlyEventsAreNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("hooks")
		for name, delivery := range map[string]string{"hook": `["webhook"]`, "both": `["webhook","poll"]`} {
			err := s.Replace(&server.Entry{Target: mcp.Target{
				Kind: mcp.KindEvent, Name: name, Definition: mcp.NewDefinition([]byte(`{"name":"` + name + `","delivery":` + delivery + `}`)),
			}, Handle: func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw("{}"), nil }})
			if err != nil {
				t.Fatal(err)
			}
		}
		b := mountedBridge(t, bridge.Config{Alias: "in", Dialer: transport.Pipe(s)})
		session := connect(t, transport.Pipe(b), client.Options{})
		var listed []string
		for event, err := range session.EventTypes(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, fmt.Sprint(event.Name, event.Delivery))
		}
		if got := strings.Join(listed, " "); got != "in__both[poll]" {
			t.Errorf("the events are %s", got)
		}
	})
}

// A relay passes streams and polls on, and continues after both of its connections.
func TestEventsThroughARelay(t *testing.T) {
	for _, name := range []string{"pipe", "streamable", "ws"} {
		t.Run(name, func(t *testing.T) {
			over := dialers[name]
			sensor, topic := newSensor("sensor")
			session := connect(t, over(t, relayed(t, over(t, sensor))), client.Options{})
			began, published := make(chan struct{}, 16), make(chan struct{})
			go func() {
				defer close(published)
				<-began
				publishReadings(t, topic, 1, 2, 3)
			}()
			want := 1
			opts := &client.EventsOptions{OnCursor: func(string) { began <- struct{}{} }}
			for e, err := range client.Events[reading](t.Context(), session, "reading.new", nil, opts) {
				if err != nil || e.Payload.Value != want {
					t.Fatalf("got %+v, %v, want %d", e, err, want)
				}
				if want++; want > 3 {
					break
				}
			}
			waittest.Receive(t, "the publication", published)
			sensor.Shutdown(context.Background())
		})
	}
}

// A heldDialer connects when it is released.
type heldDialer struct {
	transport.Dialer
	released chan struct{}
}

func (d heldDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	select {
	case <-d.released:
		return d.Dialer.Dial(ctx, handler)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A client that connects while the bridge starts gets the events of its servers. The list waits for a server that
// starts in time. A slower server's events come after a notification.
func TestEventsWhileABridgeStarts(t *testing.T) {
	for name, after := range map[string]time.Duration{"in time": time.Second, "slow": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sensor, topic := newSensor("sensor")
				frontend := newServer("frontend")
				defer frontend.Shutdown(context.Background())
				mountHeld(t, frontend, sensor, after)
				changed := make(chan struct{}, 10)
				session := connect(t, transport.Pipe(frontend), client.Options{OnChange: func(context.Context, mcp.Change) { changed <- struct{}{} }})
				if _, declared := session.Capabilities().Extensions[mcp.ExtensionEvents]; !declared {
					t.Error("events are not declared")
				}
				subscription, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{EventsListChanged: true})
				if err != nil || !subscription.Agreed().EventsListChanged {
					t.Fatalf("the server does not notify of events: %v", err)
				}
				defer subscription.Close()
				if name == "slow" {
					<-changed
				}
				done := make(chan struct{})
				defer func() { <-done }()
				go func() {
					defer close(done)
					<-time.After(time.Minute)
					publishReadings(t, topic, 1)
				}()
				for e, err := range client.Events[reading](t.Context(), session, "in__reading.new", nil, nil) {
					if err != nil || e.Payload.Value != 1 {
						t.Errorf("got %+v, %v", e, err)
					}
					break
				}
			})
		})
	}
}

// Events do not exist for a client of an earlier version, also while the bridge starts.
func TestNoEventsInEarlierVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sensor, _ := newSensor("sensor")
		frontend := newServer("frontend")
		defer frontend.Shutdown(context.Background())
		mountHeld(t, frontend, sensor, time.Hour)
		session := connect(t, transport.Pipe(frontend), client.Options{Era: client.Legacy, OnChange: func(_ context.Context, c mcp.Change) {
			t.Errorf("the client is notified of %+v", c)
		}})
		if _, declared := session.Capabilities().Extensions[mcp.ExtensionEvents]; declared {
			t.Error("events are declared")
		}
		<-time.After(2 * time.Hour)
		for event, err := range session.EventTypes(t.Context(), nil) {
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.MethodNotFound {
				t.Errorf("the list has %+v, %v", event, err)
			}
		}
	})
}

// mountHeld mounts a bridge with a server that can be reached after some time.
func mountHeld(t *testing.T, frontend, behind *server.Server, after time.Duration) {
	t.Helper()
	released := make(chan struct{})
	time.AfterFunc(after, func() { close(released) })
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "in", ProxyOptions: bridge.ProxyOptions{Optional: true}, Dialer: heldDialer{transport.Pipe(behind), released}})
	if err != nil {
		t.Fatal(err)
	}
	if err := frontend.Mount(b, nil); err != nil {
		t.Fatal(err)
	}
}
