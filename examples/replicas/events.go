package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	receiving "github.com/dovetail-go/dovetail/client/webhook"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/webhook"
	webhooks "github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// eventTypes is the number of event types. Each is emitted by one client, one event after the other.
	eventTypes = 4
	// hooksOfType is the number of webhooks for each type. Each event is for one of them, and for a stream.
	hooksOfType = 2
	// emitPause is the time between two events of a type.
	emitPause = 100 * time.Millisecond
)

type parcel struct {
	Type   int `json:"type"`
	Number int `json:"number"`
}

// A parcelFilter selects the parcels of which the number has a remainder, or all.
type parcelFilter struct {
	Remainder *int `json:"remainder,omitempty"`
}

func eventName(kind int) string { return fmt.Sprint("parcel.moved-", kind) }

// newWebhooks delivers events to webhooks.
func newWebhooks(shared store.Store) (webhooks.Deliverer, error) {
	return webhook.New(&webhook.Options{
		Store: shared, Keys: [][]byte{make([]byte, 32)}, AllowLoopback: true, Logger: quiet,
		Timeout: 500 * time.Millisecond, RetryPause: 200 * time.Millisecond, Attempts: 1000, RetryWindow: time.Hour,
		DeliveriesPerHost: 64, Sweep: 2 * time.Second,
	})
}

// addParcels adds events, and a tool that emits them.
func addParcels(s *server.Server) {
	var topics [eventTypes]*server.Topic[parcel]
	for kind := range topics {
		topics[kind] = server.AddEvent(s, server.Event{Name: eventName(kind)}, func(_ *mcp.Caller, in parcelFilter, p parcel) (parcel, bool) {
			return p, in.Remainder == nil || p.Number%hooksOfType == *in.Remainder
		})
	}
	server.AddTool(s, server.Tool{Name: "emit"}, func(ctx context.Context, _ *server.Request, in parcel) (string, error) {
		return "", topics[in.Type].Publish(ctx, in, &server.PublishOptions{ID: strconv.Itoa(in.Number)})
	})
}

// events is the subscriptions to events, and the web server that receives webhooks.
type events struct {
	counts   *ledger
	receiver *receiving.Receiver
	server   *httptest.Server
	session  *client.Session
	hooks    []*receiving.Subscription
	streams  sync.WaitGroup
	cancel   context.CancelFunc // ends the streams

	mu           sync.Mutex
	acknowledged map[delivery]bool // deliveries to come; false if the event may not be emitted
	missing      int               // of these, those that are acknowledged
	verified     bool              // the first URL
	progress     time.Time         // of the last delivery
}

// A delivery is of an event to one of its subscriptions.
type delivery struct {
	subscription string
	number       int
}

// startEvents makes the subscriptions, and starts the clients that emit.
func (l *load) startEvents(ctx context.Context) (*events, error) {
	receiver, err := receiving.New(&receiving.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	e := &events{counts: l.counts, receiver: receiver, acknowledged: make(map[delivery]bool)}
	e.server = serve(e)
	var streaming context.Context
	streaming, e.cancel = context.WithCancel(ctx)
	if e.session, err = l.connect(ctx, client.Modern, "events", user, nil); err != nil {
		return e, err
	}
	for kind := range eventTypes {
		for remainder := range hooksOfType {
			if err := e.subscribe(ctx, kind, remainder); err != nil {
				return e, err
			}
		}
		began := make(chan struct{})
		e.streams.Go(func() { e.stream(streaming, kind, sync.OnceFunc(func() { close(began) })) })
		select {
		case <-began:
		case <-ctx.Done():
			return e, ctx.Err()
		}
		l.running.Go(func() { e.emit(ctx, l, kind) })
	}
	return e, nil
}

// ServeHTTP receives webhooks. It answers one request in ten with an error: half of these before it was
// accepted, the other half after.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	fault := rand.IntN(20)
	if !e.verified {
		e.verified, fault = true, 2
	}
	e.mu.Unlock()
	switch fault {
	case 0:
		http.Error(w, "not accepted", http.StatusServiceUnavailable)
	case 1:
		e.receiver.ServeHTTP(httptest.NewRecorder(), r)
		http.Error(w, "accepted", http.StatusBadGateway)
	default:
		e.receiver.ServeHTTP(w, r)
	}
}

func hookName(kind, remainder int) string {
	return fmt.Sprintf("webhook %d of %s", remainder, eventName(kind))
}

func streamName(kind int) string { return "stream of " + eventName(kind) }

// subscribe subscribes a webhook.
func (e *events) subscribe(ctx context.Context, kind, remainder int) error {
	name, last := hookName(kind, remainder), -1
	handle := func(_ context.Context, d receiving.Delivery) error {
		if d.Type != receiving.Event {
			e.counts.lose("%s: a delivery of the type %s: %s", name, d.Type, d.Body)
			return nil
		}
		e.receive(name, d.ID, &last)
		return nil
	}
	hook, err := receiving.Subscribe(ctx, e.session, e.receiver, e.server.URL, eventName(kind), fmt.Appendf(nil, `{"remainder":%d}`, remainder), handle,
		&receiving.SubscribeOptions{TTL: 24 * time.Hour, Logger: quiet})
	if err == nil {
		e.hooks = append(e.hooks, hook)
	}
	return err
}

// stream subscribes without a webhook. It calls began when the server has confirmed that.
func (e *events) stream(ctx context.Context, kind int, began func()) {
	name, last := streamName(kind), -1
	for event, err := range client.Events[parcel](ctx, e.session, eventName(kind), nil, &client.EventsOptions{
		OnCursor: func(string) { began() },
		OnGap:    func() { e.counts.lose("%s: there is a gap after %d", name, last) },
	}) {
		if err != nil {
			if ctx.Err() == nil {
				e.counts.lose("%s ends: %v", name, err)
			}
			return
		}
		e.receive(name, event.ID, &last)
	}
}

// receive counts a delivery. The deliveries of one subscription must be in order.
func (e *events) receive(subscription, id string, last *int) {
	number, err := strconv.Atoi(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	d := delivery{subscription, number}
	acknowledged, expected := e.acknowledged[d]
	e.counts.mu.Lock()
	defer e.counts.mu.Unlock()
	e.counts.deliveries++
	// The event of a failed call may reach the store after the next event.
	e.counts.checkDoubled(number <= *last && (acknowledged || !expected), "%s: %s comes after %d", subscription, id, *last)
	e.counts.checkLost(err != nil || number > *last && !expected, "%s: %s was not emitted", subscription, id)
	if acknowledged {
		e.missing--
	}
	delete(e.acknowledged, d)
	*last = max(*last, number)
	e.progress = time.Now()
}

// emit emits events of one type until the end.
func (e *events) emit(ctx context.Context, l *load, kind int) {
	name := "emit-" + strconv.Itoa(kind)
	session, err := l.connect(ctx, client.Modern, name, user, nil)
	if err != nil {
		e.counts.lose("%s cannot connect: %v", name, err)
		return
	}
	defer session.Close()
	for number := 0; !l.isStopping(); number++ {
		deliveries := []delivery{{hookName(kind, number%hooksOfType), number}, {streamName(kind), number}}
		e.mu.Lock()
		for _, d := range deliveries {
			e.acknowledged[d] = false // it may be delivered before it is acknowledged
		}
		e.mu.Unlock()
		c := call{id: fmt.Sprintf("%s-%d", name, number), client: name}
		e.counts.begin(c)
		_, err := client.CallAs[string](ctx, session, "emit", parcel{kind, number}, nil)
		if ctx.Err() != nil {
			e.counts.lose("%s: %v", c.id, err)
			return
		}
		if err == nil {
			e.acknowledge(deliveries)
		} else if failure, incomplete := errors.AsType[*jsonrpc.CallError](err); !incomplete || failure.Delivery == jsonrpc.MaybeExecuted {
			e.counts.fail(c, err)
		}
		time.Sleep(emitPause)
	}
}

func (e *events) acknowledge(deliveries []delivery) {
	e.counts.count(&e.counts.events)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range deliveries {
		if _, waits := e.acknowledged[d]; waits {
			e.acknowledged[d] = true
			e.missing++
		}
	}
}

// close waits until all that was acknowledged is delivered, or nothing was delivered for some time.
func (e *events) close(ctx context.Context) {
	e.mu.Lock()
	e.progress = time.Now()
	for ctx.Err() == nil && e.missing > 0 && time.Since(e.progress) < patience {
		e.mu.Unlock()
		time.Sleep(retry)
		e.mu.Lock()
	}
	for d, acknowledged := range e.acknowledged {
		if acknowledged {
			e.counts.lose("%s: %d is not delivered", d.subscription, d.number)
		}
	}
	e.mu.Unlock()
	var errs []error
	for _, hook := range e.hooks {
		errs = append(errs, hook.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		e.counts.lose("webhooks cannot be closed: %v", err)
	}
	e.cancel()
	e.streams.Wait()
	if e.session != nil {
		e.session.Close()
	}
	e.server.Close()
}
