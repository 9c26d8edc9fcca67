package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/transport/store"
)

// A message on a channel begins with a line that is empty, or contains the id of the store that
// waits for a reply, a space and the number of the request. A reply begins with a line that
// contains the number.

// Limits of the messages that wait for one subscriber.
const (
	maxWaiting      = 1000
	maxWaitingBytes = 16 << 20
)

// clusterDelay is the time in which a message, and the news that the role of a node has changed, reach
// all nodes of a cluster.
const clusterDelay = time.Second

// requests are the requests of a store that wait for a reply.
type requests struct {
	id string // of the store

	mu      sync.Mutex
	number  uint64
	waiting map[string]chan []byte // by number, each with room for one reply
}

// add registers a request.
func (r *requests) add() (number string, reply chan []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	number, reply = fmt.Sprint(r.number), make(chan []byte, 1)
	r.waiting[number] = reply
	return number, reply
}

func (r *requests) remove(number string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, number)
}

func (r *requests) message(payload string) {
	number, data, _ := strings.Cut(payload, "\n")
	r.mu.Lock()
	defer r.mu.Unlock()
	if reply := r.waiting[number]; reply != nil {
		reply <- []byte(data)
		delete(r.waiting, number) // the first reply counts
	}
}

func (r *requests) interrupted(time.Time) {}

// replyChannel returns the channel for the replies to a store.
func (s *Store) replyChannel(id string) string { return s.key("replies", id) }

// Publish implements [store.Bus].
func (s *Store) Publish(ctx context.Context, subject string, data []byte) error {
	return s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		_, err := publish(ctx, c, s.key("bus", subject), "", data)
		return err
	}, subject)
}

// publish sends a message and returns the number of connections that receive it.
func publish(ctx context.Context, c *redis.Client, channel, head string, data []byte) (receivers int64, err error) {
	if err := checkSize(data); err != nil {
		return 0, err
	}
	return c.Publish(ctx, channel, head+"\n"+string(data)).Result()
}

// Request implements [store.Bus].
func (s *Store) Request(ctx context.Context, subject string, data []byte) (answer []byte, err error) {
	err = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		if _, err := s.hub.await(ctx); err != nil { // no reply could arrive
			return err
		}
		number, reply := s.requests.add()
		defer s.requests.remove(number)
		channel := s.key("bus", subject)
		receivers, err := publish(ctx, c, channel, s.requests.id+" "+number, data)
		if err != nil {
			return err
		}
		var unreached <-chan time.Time
		if receivers == 0 {
			if err := s.hub.settled(ctx, c); err != nil {
				return err
			}
			if s.engine.cluster == nil {
				return store.ErrNoResponder
			}
			unreached = time.After(clusterDelay)
		}
		for {
			select {
			case answer = <-reply:
				return nil
			case <-unreached:
				subscribed, err := s.engine.subscribed(ctx, channel)
				if err != nil {
					return err
				}
				if !subscribed {
					return store.ErrNoResponder
				}
			case <-ctx.Done():
				return fmt.Errorf("redis: no reply: %w", ctx.Err())
			}
		}
	}, subject)
	return answer, err
}

// Subscribe implements [store.Bus].
func (s *Store) Subscribe(ctx context.Context, subject string, handle func(ctx context.Context, m store.Message)) (stop func(), err error) {
	sub := &subscription{wake: make(chan struct{}, 1)}
	channel := s.key("bus", subject)
	if err := s.do(ctx, func(ctx context.Context, _ *redis.Client) error { return s.hub.join(ctx, channel, sub) }, subject); err != nil {
		return nil, err
	}
	s.handlers.Lock()
	defer s.handlers.Unlock()
	if s.ctx.Err() != nil {
		return nil, store.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	s.running.Go(func() {
		defer close(ended)
		defer context.AfterFunc(s.ctx, cancel)()
		defer cancel()
		defer s.unsubscribe(channel, sub)
		for s.wait(ctx, sub.wake, 0) == nil {
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

// unsubscribe ends a subscription, so that the engine does not count it for later requests.
func (s *Store) unsubscribe(channel string, sub *subscription) {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	s.hub.leave(ctx, channel, sub)
	s.hub.mu.Lock()
	c := s.hub.conn
	s.hub.mu.Unlock()
	if c != nil {
		_ = s.hub.sync(ctx, c) // without a connection there is no subscription
	}
}

// received returns the message with a payload.
func (s *Store) received(m busMessage) store.Message {
	if m.missed {
		return store.Message{Missed: true}
	}
	head, data, _ := strings.Cut(m.payload, "\n")
	message := store.Message{Data: []byte(data)}
	if id, number, isRequest := strings.Cut(head, " "); isRequest {
		message.Reply = func(ctx context.Context, data []byte) error {
			return s.do(ctx, func(ctx context.Context, c *redis.Client) error {
				_, err := publish(ctx, c, s.replyChannel(id), number, data)
				return err
			})
		}
	}
	return message
}

// A subscription is one call of Subscribe.
type subscription struct {
	wake chan struct{}

	mu    sync.Mutex
	queue []busMessage
	bytes int // of the queue
}

// A busMessage is a message that waits for a subscriber.
type busMessage struct {
	payload string
	missed  bool
}

func (s *subscription) message(payload string) { s.add(busMessage{payload: payload}) }

func (s *subscription) interrupted(time.Time) { s.add(busMessage{missed: true}) }

// add adds a message to the queue, or notes that it is missed.
func (s *subscription) add(m busMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.queue)
	if n >= maxWaiting || s.bytes+len(m.payload) > maxWaitingBytes {
		m = busMessage{missed: true}
	}
	if m.missed && n > 0 && s.queue[n-1].missed {
		return
	}
	s.queue = append(s.queue, m)
	s.bytes += len(m.payload)
	signal(s.wake)
}

// take returns the next message, if there is one.
func (s *subscription) take() (busMessage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return busMessage{}, false
	}
	next := s.queue[0]
	s.queue[0] = busMessage{}
	s.queue = s.queue[1:]
	s.bytes -= len(next.payload)
	return next, true
}
