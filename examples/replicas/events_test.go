package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	receiving "github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const (
	// envEvents makes a replica emit events and deliver webhooks.
	envEvents = "REPLICAS_EVENTS"
	// eventTypes is the number of events. Each is emitted by one client, one occurrence after the other.
	eventTypes = 10
	// subscriptionsOfType is the number of subscriptions to each event. Each occurrence is for one of them.
	subscriptionsOfType = 4
	// eventsOfKill is how many occurrences there are for one kill, at least.
	eventsOfKill = 200
)

type parcel struct {
	Type   int `json:"type"`
	Number int `json:"number"`
}

type parcelFilter struct {
	Remainder int `json:"remainder"`
}

func eventName(kind int) string { return fmt.Sprint("parcel.moved-", kind) }

// runEventReplica serves a tool that emits events, and delivers webhooks, until the standard input ends.
func runEventReplica() error {
	ctx, cancel := untilInputEnds()
	defer cancel()
	shared, err := openStore(ctx, os.Getenv(envStore), store.Limits{LogAge: time.Hour, LogEntries: 1 << 20, LogBytes: 1 << 30, Lease: 3 * time.Second})
	if err != nil {
		return err
	}
	defer shared.Close()
	quiet := slog.New(slog.DiscardHandler)
	hooks, err := webhook.New(&webhook.Options{
		Store: shared, Keys: [][]byte{make([]byte, 32)}, AllowLoopback: true, Logger: quiet,
		Timeout: 500 * time.Millisecond, RetryPause: 200 * time.Millisecond, Attempts: 1000, RetryWindow: time.Hour,
		DeliveriesPerHost: 64, Sweep: 2 * time.Second,
	})
	if err != nil {
		return err
	}
	s := server.New(mcp.Implementation{Name: "parcels", Version: "1.0.0"}, &server.Options{Store: shared, Webhooks: hooks, Logger: quiet})
	var topics [eventTypes]*server.Topic[parcel]
	for kind := range topics {
		topics[kind] = server.AddEvent(s, server.Event{Name: eventName(kind)}, func(_ *mcp.Caller, in parcelFilter, p parcel) (parcel, bool) {
			return p, p.Number%subscriptionsOfType == in.Remainder
		})
	}
	server.AddTool(s, server.Tool{Name: "emit"}, func(ctx context.Context, _ *server.Request, in parcel) (string, error) {
		return "", topics[in.Type].Publish(ctx, in, &server.PublishOptions{ID: strconv.Itoa(in.Number)})
	})
	return streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
		Drain:    drain,
		OnListen: func(address net.Addr) { fmt.Println(address) },
		Wrap: func(endpoint http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), "ann")))
			})
		},
	})
}

// events is the ledger's view of events: what was emitted, and what the subscriptions get.
type events struct {
	*ledger
	receiver *receiving.Receiver

	mu           sync.Mutex
	acknowledged [eventTypes]map[int]bool // emitted; false if that may have failed
	missing      int                      // occurrences that were acknowledged and not delivered
	delivered    int
	progress     time.Time // of the last delivery
	attempts     int       // requests that the receiver has got
	failed       int       // of these, with an error as the answer
}

// ServeHTTP answers one request in ten with an error: half of these before it was accepted, the other half
// after.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.attempts++
	answer := rand.IntN(20)
	if e.attempts == 1 { // the verification of the URL
		answer = 2
	}
	if answer < 2 {
		e.failed++
	}
	e.mu.Unlock()
	switch answer {
	case 0:
		http.Error(w, "not accepted", http.StatusServiceUnavailable)
	case 1:
		e.receiver.ServeHTTP(httptest.NewRecorder(), r)
		http.Error(w, "accepted", http.StatusBadGateway)
	default:
		e.receiver.ServeHTTP(w, r)
	}
}

// subscribe subscribes to an event. What it gets must be in order, and no id may come twice.
func (e *events) subscribe(ctx context.Context, session *client.Session, url string, kind, remainder int) (*receiving.Subscription, error) {
	last := -1
	handle := func(_ context.Context, d receiving.Delivery) error {
		number, err := strconv.Atoi(d.ID)
		if d.Type != receiving.Event || err != nil || number%subscriptionsOfType != remainder {
			e.lose("%s, subscription %d: a delivery of the type %s: %s", eventName(kind), remainder, d.Type, d.Body)
			return nil
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.delivered++
		e.progress = time.Now()
		acknowledged, emitted := e.acknowledged[kind][number]
		if !emitted {
			e.lose("%s: %d was not emitted", eventName(kind), number)
		}
		if acknowledged {
			e.missing--
		}
		delete(e.acknowledged[kind], number)
		if number <= last {
			e.checkOnce("%s: %d comes after %d", eventName(kind), number, last)
		}
		last = max(last, number)
		return nil
	}
	return receiving.Subscribe(ctx, session, e.receiver, url, eventName(kind), fmt.Appendf(nil, `{"remainder":%d}`, remainder), handle,
		&receiving.SubscribeOptions{TTL: 24 * time.Hour, Logger: slog.New(slog.DiscardHandler)})
}

// emit emits occurrences of one event until a number of them is acknowledged.
func (e *events) emit(ctx context.Context, connect func() (*client.Session, error), kind, count int) {
	session, err := connect()
	if err != nil {
		e.lose("a client cannot connect: %v", err)
		return
	}
	defer session.Close()
	for number := 0; count > 0; number++ {
		e.mu.Lock()
		e.acknowledged[kind][number] = false // it may be delivered before it is acknowledged
		e.mu.Unlock()
		began := time.Now()
		if _, err := client.CallAs[string](ctx, session, "emit", parcel{kind, number}, nil); err != nil {
			if ctx.Err() != nil {
				e.lose("%d occurrences of %s are not emitted", count, eventName(kind))
				return
			}
			e.fail(eventName(kind), began, err)
			time.Sleep(100 * time.Millisecond) // what is on the way to the store arrives before the next one
			continue
		}
		count--
		e.count(&e.answers)
		e.mu.Lock()
		if _, waits := e.acknowledged[kind][number]; waits {
			e.acknowledged[kind][number] = true
			e.missing++
		}
		e.mu.Unlock()
	}
}

// waitDelivered waits until all that was acknowledged is delivered, or nothing was delivered for some time.
func (e *events) waitDelivered(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		e.mu.Lock()
		ended := e.missing == 0 || time.Since(e.progress) > patience
		e.mu.Unlock()
		if ended {
			break
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for kind := range e.acknowledged {
		for number, acknowledged := range e.acknowledged[kind] {
			if acknowledged {
				e.lose("%s: %d is not delivered", eventName(kind), number)
			}
		}
	}
}

// emitted returns the number of acknowledged occurrences.
func (e *events) emitted() int {
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	return e.answers
}

// TestEventsWhileReplicasAreKilled kills replicas that emit events and deliver webhooks to a receiver that
// fails one time in ten. Each event that was acknowledged is delivered, once after deduplication by its
// id, and in order for each subscription. DOVETAIL_EVENTS is the number of events.
func TestEventsWhileReplicasAreKilled(t *testing.T) {
	count, err := strconv.Atoi(cmp.Or(os.Getenv("DOVETAIL_EVENTS"), "2000"))
	if err != nil {
		t.Fatal(err)
	}
	kills := min(killsOf(t), count/eventsOfKill)
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience+time.Duration(kills)*2*time.Second+time.Duration(count)*10*time.Millisecond)
			defer cancel()
			url, token := storeOf(t, engine)
			receiver, err := receiving.New(&receiving.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			e := &events{ledger: newLedger(), receiver: receiver}
			for kind := range e.acknowledged {
				e.acknowledged[kind] = make(map[int]bool)
			}
			web := httptest.NewServer(e)
			defer web.Close()
			balancer := newBalancer(3)
			front := httptest.NewServer(balancer)
			defer front.Close()
			fleet := &fleet{balancer: balancer, counts: e.ledger, env: append(os.Environ(), envStore+"="+url, envToken+"="+token, envEvents+"=1")}
			defer fleet.stop()
			if err := fleet.start(ctx); err != nil {
				t.Fatal(err)
			}
			clients := &load{url: front.URL + "/mcp", counts: e.ledger}
			connect := func() (*client.Session, error) { return clients.connect(ctx, client.Modern, nil) }
			session, err := connect()
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			for kind := range eventTypes {
				for remainder := range subscriptionsOfType {
					subscription, err := e.subscribe(ctx, session, web.URL, kind, remainder)
					if err != nil {
						t.Fatal(err)
					}
					defer subscription.Close(context.WithoutCancel(ctx))
				}
			}
			began := time.Now()
			e.progress = began
			var emitting sync.WaitGroup
			for kind := range eventTypes {
				emitting.Go(func() { e.emit(ctx, connect, kind, count/eventTypes) })
			}
			for kill := 0; kill < kills && err == nil; {
				if e.emitted() < count*kill/kills {
					time.Sleep(time.Millisecond)
				} else {
					kill++
					err = fleet.killSome(ctx, 1, 0)
				}
			}
			emitting.Wait()
			emitted := time.Since(began)
			e.waitDelivered(ctx)
			took := time.Since(began)
			if err := errors.Join(err, e.report()); err != nil {
				t.Error(err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.failed < e.attempts/15 {
				t.Errorf("%d of %d requests have failed", e.failed, e.attempts)
			}
			t.Logf("%d events emitted in %v, %d interrupted, %d delivered in %v (%.0f a second), %d requests, %d failed, %d kills, %d lost, %d doubled",
				e.answers, emitted.Round(time.Second), e.failures, e.delivered, took.Round(time.Second), float64(e.delivered)/took.Seconds(),
				e.attempts, e.failed, e.kills, e.lost, e.doubled)
		})
	}
}
