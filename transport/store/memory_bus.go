package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits of the messages that wait for one subscriber.
const (
	maxWaiting      = 1000
	maxWaitingBytes = 16 << 20
)

// A subscription is one Subscribe of a memory, whose lock guards queue and bytes.
type subscription struct {
	queue  []busMessage
	bytes  int           // of the queue
	wake   chan struct{} // has a value if there may be messages
	cancel func()
	ended  chan struct{} // closed after the last call of handle
}

// A busMessage is a message that waits for a subscriber. Its data are never modified.
type busMessage struct {
	data   []byte
	reply  chan<- []byte // of a request, with room for one
	missed bool
}

// Publish implements [Bus].
func (m *memory) Publish(ctx context.Context, subject string, data []byte) error {
	_, err := m.send(ctx, subject, data, nil)
	return err
}

// Request implements [Bus].
func (m *memory) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	reply := make(chan []byte, 1)
	subscribers, err := m.send(ctx, subject, data, reply)
	if err != nil {
		return nil, err
	}
	timeout := time.After(memoryTimeout)
	for _, s := range subscribers {
		select {
		case data := <-reply:
			return data, nil
		case <-s.ended:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.closed:
			return nil, ErrClosed
		case <-timeout:
			return nil, fmt.Errorf("store: no reply within %v: %w", memoryTimeout, context.DeadlineExceeded)
		}
	}
	select {
	case data := <-reply: // of the last subscriber, before it ended
		return data, nil
	default:
		return nil, ErrNoResponder
	}
}

// send adds a message to the queues of the subscribers, and returns them.
func (m *memory) send(ctx context.Context, subject string, data []byte, reply chan<- []byte) ([]*subscription, error) {
	if len(data) > maxWaitingBytes {
		return nil, ErrTooLarge
	}
	if err := m.lock(ctx, subject); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	subscribers := m.bus[subject]
	if len(subscribers) == 0 {
		return nil, nil
	}
	message := busMessage{data: bytes.Clone(data), reply: reply}
	for _, s := range subscribers {
		s.add(message)
	}
	if reply == nil {
		return nil, nil
	}
	return slices.Clone(subscribers), nil
}

// add adds a message to the queue, or notes that it is missed.
func (s *subscription) add(message busMessage) {
	if n := len(s.queue); n >= maxWaiting || s.bytes+len(message.data) > maxWaitingBytes {
		if s.queue[n-1].missed {
			return
		}
		message = busMessage{missed: true}
	}
	s.queue = append(s.queue, message)
	s.bytes += len(message.data)
	wake(s.wake)
}

// Subscribe implements [Bus].
func (m *memory) Subscribe(ctx context.Context, subject string, handle func(ctx context.Context, m Message)) (stop func(), err error) {
	if err := m.lock(ctx, subject); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	subject = strings.Clone(subject) // it may be part of a long string
	ctx, cancel := context.WithCancel(ctx)
	s := &subscription{wake: make(chan struct{}, 1), cancel: cancel, ended: make(chan struct{})}
	m.bus[subject] = append(m.bus[subject], s)
	m.handlers.Go(func() {
		defer m.unsubscribe(s, subject)
		for m.wait(ctx, s.wake, nil) == nil {
			for message, ok := m.take(s); ok && ctx.Err() == nil; message, ok = m.take(s) {
				handle(ctx, message)
			}
		}
	})
	return func() {
		cancel()
		<-s.ended
	}, nil
}

func (m *memory) unsubscribe(s *subscription, subject string) {
	s.cancel()
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := slices.DeleteFunc(m.bus[subject], func(other *subscription) bool { return other == s })
	m.bus[subject] = rest
	if len(rest) == 0 {
		delete(m.bus, subject)
	}
	close(s.ended)
}

// take returns the next message for a subscriber, if there is one.
func (m *memory) take(s *subscription) (Message, bool) {
	m.mu.Lock()
	if len(s.queue) == 0 {
		m.mu.Unlock()
		return Message{}, false
	}
	next := s.queue[0]
	s.queue[0] = busMessage{}
	s.queue = s.queue[1:]
	s.bytes -= len(next.data)
	m.mu.Unlock()

	message := Message{Data: bytes.Clone(next.data), Missed: next.missed}
	if next.reply != nil {
		message.Reply = func(ctx context.Context, data []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if len(data) > maxWaitingBytes {
				return ErrTooLarge
			}
			select {
			case next.reply <- bytes.Clone(data):
			default: // there was a reply before
			}
			return nil
		}
	}
	return message, true
}
