package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/dovetail-go/dovetail/transport/store"
)

// Defaults of [Options].
const (
	DefaultPrefix  = "dovetail"
	DefaultTimeout = 5 * time.Second
)

// Options configures a [Store]. Zero values mean the defaults.
type Options struct {
	// Prefix begins the names of all keys and channels, in the form "{prefix}:". Stores with
	// the same prefix, on the same server and database, share their data. It must be a name
	// that [store.CheckName] accepts. Default [DefaultPrefix].
	Prefix string
	// Limits must be the same in all replicas. LogBytes has no effect: Redis cannot bound the
	// sum of the entries of all streams. Each stream is bounded by LogAge and LogEntries.
	Limits store.Limits
	// Timeout is the maximum time of an operation that does not wait for its context. It
	// replaces the timeouts of the URL. Default [DefaultTimeout].
	Timeout time.Duration
}

// A Store is a [store.Store] on a Redis or Valkey server. Its methods may be called
// concurrently. They refuse values of more than [store.MaxValue] + [store.SealOverhead] bytes with
// [store.ErrTooLarge].
type Store struct {
	client   *redis.Client
	prefix   string // of keys and channels
	limits   store.Limits
	timeout  time.Duration
	hub      *hub
	requests requests

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup // the hub and the handlers of messages
	handlers sync.Mutex     // orders additions to running and Close
}

var _ store.Store = (*Store)(nil)

// Connect returns a store on the server with a URL such as
// "rediss://user:password@host:6379/0" or "unix:///run/redis.sock", in the form that
// [redis.ParseURL] defines. rediss uses TLS. opts may be nil. It returns an error if the server
// cannot be reached before ctx ends or within the timeout. ctx does not limit the use of the
// store. The caller must call Close.
func Connect(ctx context.Context, url string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	limits, err := o.Limits.WithDefaults()
	if err != nil {
		return nil, err
	}
	if err := store.CheckName(o.Prefix); err != nil {
		return nil, fmt.Errorf("redis: Options.Prefix: %w", err)
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("redis: Options.Timeout is %v, expected more than 0", o.Timeout)
	}
	engine, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis: the URL is invalid: %w", err)
	}
	engine.Protocol = 2
	engine.MaxRetries = -1 // an operation must not have effect twice
	engine.DialerRetries = 1
	engine.DialTimeout = o.Timeout / 2 // a dial can delay one other operation
	engine.ReadTimeout, engine.WriteTimeout, engine.PoolTimeout = o.Timeout, o.Timeout, o.Timeout
	engine.ContextTimeoutEnabled = true
	engine.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

	s := &Store{
		client:   redis.NewClient(engine),
		prefix:   "{" + o.Prefix + "}:",
		limits:   limits,
		timeout:  o.Timeout,
		requests: requests{id: rand.Text(), waiting: map[string]chan []byte{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.hub = newHub(s.client, o.Timeout, s.replyChannel(s.requests.id), &s.requests)
	s.running.Go(func() { s.hub.run(s.ctx) })
	err = s.do(ctx, func(ctx context.Context) error {
		if err := s.client.Ping(ctx).Err(); err != nil {
			return err
		}
		_, err := s.hub.await(ctx)
		return err
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends all waits with [store.ErrClosed], closes the connections and waits for the
// subscribers' calls of handle in progress. Handle must not call it. Operations on a closed
// store return ErrClosed. Close may be called again. It returns nil.
func (s *Store) Close() error {
	s.handlers.Lock()
	s.cancel()
	s.handlers.Unlock()
	s.client.Close() // returns an error if it is closed
	s.running.Wait()
	return nil
}

// key returns the name of a key or a channel.
func (s *Store) key(kind, name string) string { return s.prefix + kind + ":" + name }

// counter returns the key of the counter of revisions and leases.
func (s *Store) counter() string { return s.prefix + "counter" }

// do runs an operation with the names and the time limit that it has.
func (s *Store) do(ctx context.Context, operation func(ctx context.Context) error, names ...string) error {
	for _, name := range names {
		if err := store.CheckName(name); err != nil {
			return err
		}
	}
	if err := s.ended(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := operation(limited)
	switch {
	case err == nil:
		return nil
	case s.ended(ctx) != nil:
		return s.ended(ctx)
	case strings.Contains(err.Error(), "OOM command not allowed"):
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

// ended returns the error of an operation whose context has ended or whose store is closed.
func (s *Store) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return nil
}

// run runs a script.
func (s *Store) run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	return script.Run(ctx, s.client, keys, args...)
}

// wait waits for an event, or until a time has passed unless it is 0.
func (s *Store) wait(ctx context.Context, event <-chan struct{}, d time.Duration) error {
	var timeout <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-event:
	case <-timeout:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return s.ended(ctx)
}

// retryDelay is the time between two attempts of a wait to read while the engine is down.
const retryDelay = 200 * time.Millisecond

// errFormat is the error of data that no store has written.
var errFormat = errors.New("redis: the data are not those of a store")

// join subscribes a listener that waits until ctx ends. It tries again while the server cannot be
// reached.
func (s *Store) join(ctx context.Context, channel string, l listener) error {
	for {
		err := s.do(ctx, func(ctx context.Context) error { return s.hub.join(ctx, channel, l) })
		if err == nil || s.ended(ctx) != nil || !isTemporary(err) {
			return err
		}
		if err := s.retry(ctx, nil, retryDelay); err != nil {
			return err
		}
	}
}

// isTemporary reports whether a wait goes on after an error: the server cannot be reached, is
// starting, or is about to be replaced.
func isTemporary(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return !errors.Is(err, errFormat)
	}
	for _, prefix := range []string{"LOADING ", "READONLY ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "BUSY "} {
		if strings.HasPrefix(reply.Error(), prefix) {
			return true
		}
	}
	return false
}

// checkSize returns an error for a value that is too large.
func checkSize(data []byte) error {
	if limit := store.MaxValue + store.SealOverhead; len(data) > limit {
		return fmt.Errorf("%w: %d bytes, the maximum is %d", store.ErrTooLarge, len(data), limit)
	}
	return nil
}

// wake makes a channel with room for one ready.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
