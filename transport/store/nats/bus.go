package nats

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/dovetail-go/dovetail/transport/store"
)

// maxBehind and maxBehindBytes bound the messages that wait for a subscriber.
const (
	maxBehind      = 1000
	maxBehindBytes = 16 << 20
)

// maxServers is the maximum number of servers in a cluster.
const maxServers = 256

// Publish implements [store.Bus].
func (s *Store) Publish(ctx context.Context, subject string, data []byte) error {
	if err := store.CheckName(subject); err != nil {
		return err
	}
	if err := s.do(ctx, func(context.Context) error {
		return s.conn.Publish(s.busSubject(subject), data)
	}); err != nil {
		return err
	}
	return s.flush(ctx)
}

// flush waits until the server has received what has been sent.
func (s *Store) flush(ctx context.Context) error { return s.do(ctx, s.conn.FlushWithContext) }

// Request implements [store.Bus].
func (s *Store) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := store.CheckName(subject); err != nil {
		return nil, err
	}
	var reply []byte
	var missing bool
	err := s.do(ctx, func(ctx context.Context) error {
		message, err := s.conn.RequestWithContext(ctx, s.busSubject(subject), data)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			missing, err = true, nil
		case err == nil:
			reply = message.Data
		}
		return err
	})
	if missing {
		return nil, store.ErrNoResponder
	}
	return reply, err
}

// Subscribe implements [store.Bus].
func (s *Store) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	if err := store.CheckName(subject); err != nil {
		return nil, err
	}
	epoch := s.currentEpoch()
	b := subscriber{s: s, handle: handle, wake: make(chan struct{}, 1)}
	var subscription *nats.Subscription
	if err := s.do(ctx, func(context.Context) (err error) {
		b.reconnects = s.reconnects()
		subscription, err = s.conn.Subscribe(s.busSubject(subject), b.receive)
		return err
	}); err != nil {
		return nil, err
	}
	if err := s.settle(ctx); err != nil {
		return nil, errors.Join(err, subscription.Unsubscribe())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil { // Close waits no longer
		return nil, store.ErrClosed
	}
	running, end := s.until(ctx)
	ended := make(chan struct{})
	s.running.Go(func() {
		defer close(ended)
		defer end()
		b.run(running, epoch)
		s.unsubscribe(subscription)
	})
	return func() { end(); <-ended }, nil
}

// unsubscribe ends a subscription, and waits until no server sends messages to it.
func (s *Store) unsubscribe(subscription *nats.Subscription) {
	if subscription.Unsubscribe() == nil && s.reachable() == nil {
		_ = s.settle(context.Background()) // otherwise the server ends the subscription with the connection
	}
}

// settle waits until the subscriptions of this connection, and their ends, have effect.
//
// A cluster tells its members later than it answers the client, in the order of events. settle
// sends a message for which all stores have a subscription, and which only leaves a trace (NATS
// ADR-41): each server that has received it says so, and to how many others it sent it.
func (s *Store) settle(ctx context.Context) error { return s.do(ctx, s.settleOnce) }

func (s *Store) settleOnce(ctx context.Context) error {
	if s.conn.ConnectedClusterName() == "" {
		return s.conn.FlushWithContext(ctx)
	}
	inbox := s.conn.NewInbox()
	traces := make(chan *nats.Msg, maxServers)
	subscription, err := s.conn.ChanSubscribe(inbox, traces)
	if err != nil {
		return err
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only if the connection is closed
	if err := s.conn.PublishMsg(&nats.Msg{
		Subject: s.storesSubject(),
		Header:  nats.Header{"Nats-Trace-Dest": {inbox}, "Nats-Trace-Only": {"true"}},
	}); err != nil {
		return err
	}
	awaited := awaitedTraces{"": 1}
	for len(awaited) > 0 {
		select {
		case message := <-traces:
			var t trace
			if err := json.Unmarshal(message.Data, &t); err != nil {
				return err
			}
			awaited.receive(t)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// A trace is what a server says about a message that it has received.
type trace struct {
	Hops    int `json:"hops"` // servers to which it sent the message
	Request struct {
		Header map[string][]string `json:"header"`
	} `json:"request"`
}

// awaitedTraces counts the traces that have not been received. Each has the value of the header Nats-Trace-Hop: none at
// the first server, "2" at the second server to which the first one sent the message, and "2.1" at the first server
// after that. The trace of a server may arrive before the trace of the server which sent the message to it. Its count
// is -1 until then.
type awaitedTraces map[string]int

func (a awaitedTraces) receive(t trace) {
	hop := strings.Join(t.Request.Header["Nats-Trace-Hop"], "")
	a.add(hop, -1)
	if hop != "" {
		hop += "."
	}
	for n := range t.Hops {
		a.add(hop+strconv.Itoa(n+1), 1)
	}
}

func (a awaitedTraces) add(hop string, delta int) {
	if a[hop] += delta; a[hop] == 0 {
		delete(a, hop)
	}
}

// A subscriber calls handle for the messages of a subscription. The queue is its own, since a
// [nats.Subscription] does not say after which message it has lost others.
type subscriber struct {
	s      *Store
	handle func(context.Context, store.Message)
	wake   chan struct{} // has a value if a message may wait

	mu         sync.Mutex
	waiting    []*nats.Msg // nil where messages have been lost
	bytes      int         // of waiting
	reconnects uint64      // that are considered
}

// receive adds a message to the queue of the subscriber. The connection calls it.
func (b *subscriber) receive(message *nats.Msg) {
	b.noteReconnects()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= maxBehind || b.bytes+len(message.Data) > maxBehindBytes {
		message = nil
	}
	b.add(message)
}

// noteReconnects notes that messages have been lost if there was a reconnection.
func (b *subscriber) noteReconnects() {
	reconnects := b.s.reconnects()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reconnects != reconnects {
		b.reconnects = reconnects
		b.add(nil)
	}
}

// add adds a message, or nil where messages have been lost. The caller holds mu.
func (b *subscriber) add(message *nats.Msg) {
	switch n := len(b.waiting); {
	case message != nil:
		b.bytes += len(message.Data)
	case n > 0 && b.waiting[n-1] == nil:
		return
	}
	b.waiting = append(b.waiting, message)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// next removes the first message that waits.
func (b *subscriber) next() (message *nats.Msg, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil, false
	}
	message, b.waiting = b.waiting[0], b.waiting[1:]
	if message != nil {
		b.bytes -= len(message.Data)
	}
	return message, true
}

// run handles messages until ctx ends.
func (b *subscriber) run(ctx, epoch context.Context) {
	for ctx.Err() == nil {
		switch message, ok := b.next(); {
		case ok && message == nil:
			b.handle(ctx, store.Message{Missed: true})
			continue
		case ok:
			b.handle(ctx, b.message(message))
			continue
		}
		select {
		case <-b.wake:
		case <-epoch.Done():
			epoch = b.s.currentEpoch()
			b.noteReconnects()
		case <-ctx.Done():
		}
	}
}

func (b *subscriber) message(message *nats.Msg) store.Message {
	m := store.Message{Data: message.Data}
	if message.Reply != "" {
		m.Reply = func(ctx context.Context, data []byte) error {
			return b.s.do(ctx, func(context.Context) error { return b.s.conn.Publish(message.Reply, data) })
		}
	}
	return m
}
