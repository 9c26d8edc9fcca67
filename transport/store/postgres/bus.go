package postgres

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/transport/store"
)

// Limits of the messages that wait for one subscriber.
const (
	maxWaiting      = 1000
	maxWaitingBytes = 16 << 20
)

// Publish implements [store.Bus].
func (s *Store) Publish(ctx context.Context, subject string, data []byte) error {
	return s.do(ctx, func(ctx context.Context) error {
		return s.send(ctx, s.channel, message{Kind: messages, Name: subject, Data: data})
	}, subject)
}

// A request waits for a reply.
type request struct {
	undecided map[replica]bool // the replicas that may have a subscriber
	done      chan reply       // has room for one
}

// A reply is the result of a request.
type reply struct {
	data []byte
	err  error
}

// Request implements [store.Bus]. If a replica has ended without closing its connection, such as
// by a power failure, a request without a subscriber can take until the timeout.
func (s *Store) Request(ctx context.Context, subject string, data []byte) (answer []byte, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		type key struct{ Replica replica }
		if _, err := s.connected(ctx); err != nil {
			return err
		}
		keys, err := query[key](ctx, s, replicasSQL, int64(s.class))
		if err != nil {
			return err
		}
		undecided := map[replica]bool{}
		for _, key := range keys {
			undecided[key.Replica] = true
		}
		answer, err = s.ask(ctx, undecided, s.channel, message{Kind: messages, Name: subject, Data: data})
		return err
	}, subject)
	return answer, err
}

// ask sends a request on a channel, or on the own if that is empty, and waits for the first reply.
func (s *Store) ask(ctx context.Context, undecided map[replica]bool, channel string, m message) ([]byte, error) {
	self, err := s.connected(ctx)
	if err != nil {
		return nil, err
	}
	h, r := &s.hub, &request{undecided: undecided, done: make(chan reply, 1)}
	h.mu.Lock()
	h.number++
	m.From, m.Number = self, h.number
	h.requests[m.Number] = r
	h.mu.Unlock()
	defer h.answer(m.Number, reply{})
	if err := s.send(ctx, cmp.Or(channel, s.channelOf(self)), m); err != nil {
		return nil, err
	}
	select {
	case reply := <-r.done:
		return reply.data, reply.err
	case <-ctx.Done():
		return nil, fmt.Errorf("postgres: no reply: %w", ctx.Err())
	}
}

// answer ends the request with a number, unless it has ended.
func (h *hub) answer(number uint64, result reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.requests[number]; r != nil {
		r.done <- result
		delete(h.requests, number)
	}
}

// decline notes that a replica has no subscriber for a request.
func (h *hub) decline(number uint64, from replica) {
	h.mu.Lock()
	r := h.requests[number]
	last := false
	if r != nil {
		delete(r.undecided, from)
		last = len(r.undecided) == 0
	}
	h.mu.Unlock()
	if last {
		h.answer(number, reply{err: store.ErrNoResponder})
	}
}

// Subscribe implements [store.Bus].
func (s *Store) Subscribe(ctx context.Context, subject string, handle func(ctx context.Context, m store.Message)) (stop func(), err error) {
	sub := &subscription{wake: make(chan struct{}, 1)}
	err = s.do(ctx, func(ctx context.Context) error {
		// A message to itself shows that the connection works, and that what was sent before has arrived.
		_, err := s.ask(ctx, nil, "", message{Kind: replies})
		return err
	}, subject)
	s.handlers.Lock()
	defer s.handlers.Unlock()
	if err == nil && s.ctx.Err() != nil {
		err = store.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	topic := messages.topic(subject)
	s.hub.join(topic, sub)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.running.Go(func() {
		defer close(ended)
		defer context.AfterFunc(s.ctx, cancel)()
		defer cancel()
		defer s.hub.leave(topic, sub)
		for {
			select {
			case <-sub.wake:
			case <-ctx.Done():
				return
			}
			for m, ok := sub.take(); ok && ctx.Err() == nil; m, ok = sub.take() {
				handle(ctx, s.received(m))
			}
		}
	})
	return func() {
		cancel()
		<-ended
	}, nil
}

// received returns what a subscriber receives.
func (s *Store) received(m message) store.Message {
	received := store.Message{Data: m.Data, Missed: m.Kind == ""}
	if m.From != 0 {
		received.Reply = func(ctx context.Context, data []byte) error {
			if err := s.ended(ctx); err != nil {
				return err
			}
			// The requester often ends the subscription when it has the reply, which is before the
			// server confirms it.
			return s.do(context.WithoutCancel(ctx), func(ctx context.Context) error {
				return s.send(ctx, s.channelOf(m.From), message{Kind: replies, Number: m.Number, Data: data})
			})
		}
	}
	return received
}

// A subscription is one call of Subscribe.
type subscription struct {
	wake chan struct{}

	mu    sync.Mutex
	queue []message
	bytes int // of the queue
}

// receive implements [listener]. It adds a message to the queue, or notes that it is missed.
func (s *subscription) receive(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.queue)
	if n >= maxWaiting || s.bytes+len(m.Data) > maxWaitingBytes {
		m = message{}
	}
	if m.Kind == "" && n > 0 && s.queue[n-1].Kind == "" {
		return
	}
	m.Data = bytes.Clone(m.Data) // other subscribers receive it, too
	s.queue = append(s.queue, m)
	s.bytes += len(m.Data)
	signal(s.wake)
}

// take returns the next message, if there is one.
func (s *subscription) take() (message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return message{}, false
	}
	next := s.queue[0]
	s.queue[0] = message{}
	s.queue = s.queue[1:]
	s.bytes -= len(next.Data)
	return next, true
}
