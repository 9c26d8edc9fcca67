package nats

import (
	"context"
	"encoding/json"
	"errors"

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
	var subscription *nats.Subscription
	if err := s.do(ctx, func(context.Context) (err error) {
		if subscription, err = s.conn.SubscribeSync(s.busSubject(subject)); err == nil {
			err = subscription.SetPendingLimits(maxBehind, maxBehindBytes)
		}
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
	b := subscriber{s: s, subscription: subscription, handle: handle}
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
	if subscription.Unsubscribe() == nil && s.conn.IsConnected() {
		_ = s.settle(context.Background()) // otherwise the server ends the subscription with the connection
	}
}

// settle waits until the subscriptions of this connection, and their ends, have effect.
//
// A cluster tells its members later than it answers the client, in the order of events. settle
// sends a message for which all stores have a subscription, and which only leaves a trace (NATS
// ADR-41): each server that has received it says so, and to how many others it sent it.
func (s *Store) settle(ctx context.Context) error {
	if s.conn.ConnectedClusterName() == "" {
		return s.flush(ctx)
	}
	return s.do(ctx, func(ctx context.Context) error {
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
		for missing := 1; missing > 0; missing-- {
			select {
			case message := <-traces:
				var trace struct {
					Hops int `json:"hops"`
				}
				if err := json.Unmarshal(message.Data, &trace); err != nil {
					return err
				}
				missing += trace.Hops
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}

// A subscriber calls handle for the messages of a subscription.
type subscriber struct {
	s            *Store
	subscription *nats.Subscription
	handle       func(context.Context, store.Message)
	missed       bool
	before       int // messages that were received before others were lost
}

func (b *subscriber) run(ctx, epoch context.Context) {
	for ctx.Err() == nil {
		current, cancel := join(ctx, epoch)
		err := b.receive(ctx, current)
		cancel()
		switch {
		case epoch.Err() != nil:
			epoch = b.s.currentEpoch()
			b.lost()
		case errors.Is(err, nats.ErrSlowConsumer):
			b.lost()
		case err != nil:
			return
		}
	}
}

// lost notes that messages have been lost after those that have been received.
func (b *subscriber) lost() {
	b.missed = true
	b.before, _, _ = b.subscription.Pending() // 0 if the connection is closed
}

// receive handles messages until it fails, or current ends.
func (b *subscriber) receive(ctx, current context.Context) error {
	for {
		if b.missed && b.before <= 0 {
			b.missed = false
			b.handle(ctx, store.Message{Missed: true})
		}
		message, err := b.subscription.NextMsgWithContext(current)
		if err != nil {
			return err
		}
		b.before--
		b.handle(ctx, b.message(message))
		if ctx.Err() != nil {
			return ctx.Err()
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
