package postgres

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A replica is a store whose connection listens for notifications. The connection holds the
// advisory lock with this key as long as it exists.
type replica uint32

// lockClass returns the first key of the advisory locks of the replicas of a schema.
func lockClass(schema string) uint32 { return crc32.ChecksumIEEE([]byte("dovetail " + schema)) }

const (
	lockSQL = `SELECT pg_try_advisory_lock($1, $2)`

	replicasSQL = `
SELECT objid::bigint FROM pg_locks JOIN pg_database d ON d.oid = database
WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND datname = current_database() AND classid::bigint = $1`
)

// channelOf returns the channel for replies to a replica.
func (s *Store) channelOf(r replica) string { return fmt.Sprintf("%s:%08x", s.channel, uint32(r)) }

// A listener is a wait or a subscription. receive must not block. The zero message means that
// others may have been lost.
type listener interface{ receive(m message) }

// A hub passes messages to the waiters of this process. One connection listens for all of them. A new connection
// replaces one that fails.
type hub struct {
	mu          sync.Mutex
	self        replica               // 0 while no connection listens
	established chan struct{}         // closed while self is not 0
	listeners   map[string][]listener // by topic
	requests    map[uint64]*request
	number      uint64 // of the last request
}

// join adds a listener.
func (h *hub) join(topic string, l listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[topic] = append(h.listeners[topic], l)
}

// leave removes a listener.
func (h *hub) leave(topic string, l listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[topic] = slices.DeleteFunc(h.listeners[topic], func(other listener) bool { return other == l })
	if len(h.listeners[topic]) == 0 {
		delete(h.listeners, topic)
	}
}

// deliver passes a message to the listeners of a topic, and reports whether there are any.
func (h *hub) deliver(topic string, m message) (found bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.listeners[topic] {
		l.receive(m)
	}
	return len(h.listeners[topic]) > 0
}

// listen connects until the store is closed.
func (s *Store) listen() {
	for {
		if conn, self, err := s.dial(); err == nil {
			s.hub.establish(self)
			s.receive(conn, self)
			s.hub.lose()
			s.hangUp(conn)
		}
		select {
		case <-time.After(retryPause):
		case <-s.ctx.Done():
			return
		}
	}
}

// dial returns a connection that listens.
func (s *Store) dial() (conn *pgx.Conn, self replica, err error) {
	self = replica(rand.Uint32() | 1) //nolint:gosec // it needs to be different, not secret
	err = s.do(s.ctx, func(ctx context.Context) error {
		pooled, err := s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		conn = pooled.Hijack()
		for _, channel := range []string{s.channel, s.channelOf(self)} {
			if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
				return err
			}
		}
		locked := false
		if err := conn.QueryRow(ctx, lockSQL, int32(s.class), int32(self)).Scan(&locked); err != nil {
			return err
		}
		if !locked {
			return fmt.Errorf("postgres: another replica has the number %d", self)
		}
		return nil
	})
	if err != nil && conn != nil {
		s.hangUp(conn)
	}
	return conn, self, err
}

// hangUp closes a connection.
func (s *Store) hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // it may have failed
}

// receive passes messages on until the connection fails or the store is closed. It checks a
// connection on which nothing arrives.
func (s *Store) receive(conn *pgx.Conn, self replica) {
	var all parts
	for {
		ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
		n, err := conn.WaitForNotification(ctx)
		cancel()
		if err != nil && pgconn.Timeout(err) && s.ctx.Err() == nil {
			err = s.do(s.ctx, conn.Ping)
		}
		if err != nil {
			return
		}
		if n != nil {
			if m, ok := all.add(n.Payload); ok {
				s.dispatch(self, m)
			}
		}
	}
}

// dispatch passes a message on.
func (s *Store) dispatch(self replica, m message) {
	switch h := &s.hub; m.Kind {
	case replies:
		h.answer(m.Number, reply{data: m.Data})
	case refusals:
		h.decline(m.Number, m.From)
	case messages:
		if !h.deliver(m.Kind.topic(m.Name), m) && m.From != 0 {
			s.sendSoon(s.channelOf(m.From), message{Kind: refusals, Number: m.Number, From: self})
		}
	case values, streams, jobs:
		for i := range len(m.Name) {
			if m.Name[i] == '/' && m.Kind == values { // for a Watch of a prefix
				h.deliver(m.Kind.topic(m.Name[:i]), m)
			}
		}
		h.deliver(m.Kind.topic(m.Name), m)
	}
}

// establish makes a connection available, and informs all listeners that messages may have been
// lost before.
func (h *hub) establish(self replica) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.self = self
	close(h.established)
	for _, listeners := range h.listeners {
		for _, l := range listeners {
			l.receive(message{})
		}
	}
}

// lose ends the use of a connection.
func (h *hub) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.self, h.established = 0, make(chan struct{})
}

// connected waits for the connection that listens.
func (s *Store) connected(ctx context.Context) (replica, error) {
	h := &s.hub
	for {
		h.mu.Lock()
		self, established := h.self, h.established
		h.mu.Unlock()
		if self != 0 {
			return self, nil
		}
		select {
		case <-established:
		case <-ctx.Done():
			return 0, fmt.Errorf("postgres: not connected: %w", ctx.Err())
		}
	}
}
