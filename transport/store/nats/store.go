package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/transport/store"
)

// retryPause is the time between two attempts to reach the server.
const retryPause = 100 * time.Millisecond

// A Store is a [store.Store] in the JetStream of a NATS server. Create one with [Connect] or
// [Embedded]. Its methods are safe for concurrent use. No operation that does not wait for an
// event takes longer than [Options].Timeout.
type Store struct {
	prefix   string
	limits   store.Limits
	timeout  time.Duration
	replicas int
	conn     *nats.Conn
	js       jetstream.JetStream
	server   *server.Server // of Embedded
	url      string         // of a server that listens
	lock     *os.File       // of Embedded

	joining chan struct{}    // has a value while join runs
	joined  atomic.Bool      // join has succeeded
	values  jetstream.Stream // valid after join; also if the server has lost the stream and created it again
	log     jetstream.Stream // the same

	tried   chan struct{}   // closed when the first attempt to connect has ended
	life    context.Context // ends when Close is called
	end     context.CancelFunc
	closed  chan struct{}  // closed when the connection has ended
	running sync.WaitGroup // subscribers
	close   sync.Once

	mu        sync.Mutex
	workers   map[string]bool // queues with a consumer
	down      error           // why there is no connection, or nil
	epoch     context.Context // ends at the next connection
	nextEpoch context.CancelFunc
	lost      time.Time // when the connection was lost
	gaps      int       // interruptions that were too long to see all deletions
}

var _ store.Store = (*Store)(nil)

// URL returns the address at which the embedded server listens, for [Connect], or "" if there
// is none.
func (s *Store) URL() string { return s.url }

// Close ends all operations with [store.ErrClosed], closes the connection, and stops the
// embedded server. It waits for the functions of subscribers.
func (s *Store) Close() error {
	var err error
	s.close.Do(func() {
		s.mu.Lock()
		s.end()
		s.mu.Unlock()
		s.running.Wait()
		s.conn.Close()
		<-s.closed
		s.nextEpoch()
		if s.server != nil {
			stop(s.server)
			err = s.lock.Close()
		}
	})
	return err
}

func (s *Store) disconnected(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.down = time.Now(), cmp.Or(err, nats.ErrDisconnected)
}

// connected notes that there is a connection, for the first time or again.
func (s *Store) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.lost) >= deletionAge {
		s.gaps++
	}
	s.down = nil
	s.nextEpoch()
	s.epoch, s.nextEpoch = context.WithCancel(context.Background())
}

// unreachable notes why an attempt to connect has failed.
func (s *Store) unreachable(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// noteRefusal notes why the last server that was tried has not accepted the connection, for which the connection calls no
// handler.
func (s *Store) noteRefusal() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn == nil { // nats.Connect has not returned
		return
	}
	if err := conn.LastError(); err != nil {
		s.unreachable(err)
	}
}

// reachable returns an error if there is no connection. The connection itself does not answer while it dials.
func (s *Store) reachable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.down == nil:
		return nil
	case isRefusal(s.down):
		return fmt.Errorf("the server refuses the connection: %w", s.down)
	}
	return fmt.Errorf("%w: %w", errInterrupted, s.down)
}

// isRefusal reports whether an attempt to connect has failed because the server, or its certificate, is not as
// the options say.
func isRefusal(err error) bool {
	_, otherServer := errors.AsType[*tls.CertificateVerificationError](err)
	return otherServer || errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// currentEpoch returns a context that ends at the next connection.
func (s *Store) currentEpoch() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch
}

func (s *Store) countGaps() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gaps
}

// reconnects returns the number of reconnections. It increases before a message of the new
// connection is received, unlike the epoch.
func (s *Store) reconnects() uint64 { return s.conn.Stats().Reconnects }

// until returns a context that ends with ctx and when the store is closed.
func (s *Store) until(ctx context.Context) (context.Context, context.CancelFunc) {
	return either(ctx, s.life)
}

// either returns a context that ends with either context.
func either(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(other, cancel)
	return ctx, func() { stop(); cancel() }
}

// do runs an operation, which may take s.timeout. It waits for the server as long as it cannot
// be reached; it does not repeat what may have been done.
func (s *Store) do(ctx context.Context, operation func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	bounded, stop := s.until(bounded)
	defer stop()
	var err error
	for {
		if ended := bounded.Err(); ended != nil {
			return s.failure(ctx, cmp.Or(err, ended))
		}
		err = s.reachable()
		if err == nil && !s.joined.Load() {
			err = s.join(bounded)
		}
		if err == nil {
			err = operation(bounded)
		}
		if err == nil {
			return nil
		}
		if isRepeatable(err) && wait(bounded, retryPause) {
			continue
		}
		return s.failure(ctx, err)
	}
}

// errLimit is the cause of a context that has ended after s.timeout.
var errLimit = errors.New("the limit of the store")

// limit returns a context for several calls of do that together may take s.timeout.
func (s *Store) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout, errLimit)
}

// attempt makes one attempt of an operation that may be repeated, such as reading: while a cluster
// elects a leader, requests remain without an answer.
func attempt(ctx context.Context, operation func(context.Context) error) error {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := operation(short)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return nats.ErrNoResponders
	}
	return err
}

// wait waits, and reports whether ctx has not ended.
func wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// Codes of errors of JetStream that package jetstream does not name.
const (
	codeAccountResources jetstream.ErrorCode = 10002
	codeNoPeers          jetstream.ErrorCode = 10005
	codeNotAvailable     jetstream.ErrorCode = 10008
	codeInsufficient     jetstream.ErrorCode = 10023
	codeMemoryResources  jetstream.ErrorCode = 10028
	codeStorageResources jetstream.ErrorCode = 10047
	codeStoreFailed      jetstream.ErrorCode = 10077
	codeMessageTooLarge  jetstream.ErrorCode = 10054
	codeDuplicateInWork  jetstream.ErrorCode = 10158
	codeTooManyRequests  jetstream.ErrorCode = 10167
	codeWrongLast        jetstream.ErrorCode = 10071
	codeBusy             jetstream.ErrorCode = 10164 // "wrong last sequence", without the sequence
)

func codeOf(err error) jetstream.ErrorCode {
	if problem, ok := errors.AsType[jetstream.JetStreamError](err); ok && problem.APIError() != nil {
		return problem.APIError().ErrorCode
	}
	return 0
}

// isRepeatable reports whether an operation has not been done because the server, a stream or its
// leader cannot be reached now, or is doing the same operation.
func isRepeatable(err error) bool {
	switch codeOf(err) {
	case codeNoPeers, codeNotAvailable, codeTooManyRequests, codeDuplicateInWork:
		return true
	case jetstream.JSErrCodeStreamNotFound, jetstream.JSErrCodeStreamNameInUse: // it is created, or another replica has done so
		return true
	}
	return errors.Is(err, errInterrupted) || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// isTemporary reports whether a wait goes on after an error: the server cannot be reached, or does not answer.
func isTemporary(err error) bool {
	return isRepeatable(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// isClosed reports whether the connection has ended.
func (s *Store) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// failure returns the error of an operation with the context ctx.
func (s *Store) failure(ctx context.Context, err error) error {
	switch {
	case s.life.Err() != nil || s.isClosed():
		return store.ErrClosed
	case ctx.Err() != nil && context.Cause(ctx) != errLimit:
		return ctx.Err()
	case errors.Is(err, nats.ErrMaxPayload):
		return store.ErrTooLarge
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("nats: no answer within %v: %w", s.timeout, err)
	}
	switch codeOf(err) {
	case codeMessageTooLarge:
		return store.ErrTooLarge
	case codeAccountResources, codeInsufficient, codeMemoryResources, codeStorageResources, codeStoreFailed:
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return fmt.Errorf("nats: %w", err)
}
