package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/dovetail-go/dovetail/transport/store"
)

// Defaults of [Options].
const (
	defaultPrefix  = "dovetail"
	defaultTimeout = 5 * time.Second
)

// Options configures a [Store]. Zero values mean the defaults.
type Options struct {
	// Prefix begins the names of all keys and channels, in the form "{prefix}:". Stores with
	// the same prefix, on the same server and database, share their data. It must be a name
	// that [store.CheckName] accepts. Default "dovetail".
	Prefix string
	// Limits must be the same in all replicas. LogBytes has no effect: Redis cannot bound the
	// sum of the entries of all streams. Each stream is bounded by LogAge and LogEntries.
	Limits store.Limits
	// Timeout is the maximum time of an operation that does not wait for its context. With
	// [Connect], it replaces the timeouts of the URL. Default 5 s.
	Timeout time.Duration
	// Logger receives warnings about the connection for subscriptions and about the eviction
	// policy of the server. [SetClientLogger] sets the logger of the client. Default slog.Default().
	Logger *slog.Logger
}

// A Store is a [store.Store] on a Redis or Valkey server or cluster. Its methods may be called
// concurrently. They refuse values of more than [store.MaxValue] + [store.SealOverhead] bytes with
// [store.ErrTooLarge].
type Store struct {
	engine   *engine
	close    func() // closes the client, unless it is the caller's
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
// [redis.ParseURL] defines. rediss uses TLS. [New] is for sentinels, clusters and other options of
// the client. opts may be nil. If the server cannot be reached within Options.Timeout, Connect logs a
// warning and returns the store: its operations fail until the server can be reached. It returns an error if ctx ends
// first, if the server has no valid certificate, or if it refuses the user. ctx does not limit the use of the store. The caller must call Close.
func Connect(ctx context.Context, url string, opts *Options) (*Store, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("redis: the URL is invalid: %w", err)
	}
	options.Protocol = 2
	options.MaxRetries = -1 // an operation must not have effect twice
	options.DialerRetries = 1
	options.DialTimeout = o.Timeout / 2 // a dial can delay one other operation
	options.ReadTimeout, options.WriteTimeout, options.PoolTimeout = o.Timeout, o.Timeout, o.Timeout
	options.ContextTimeoutEnabled = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(options)
	return open(ctx, client, o, func() { client.Close() })
}

// New is like [Connect], with a client of go-redis that the application has made: a [redis.Client] for
// one server or for sentinels, or a [redis.ClusterClient]. Close does not close the client. The
// application may use it for other purposes, and closes it after the store.
//
// New returns an error unless the options of the client have these values:
//
//  1. MaxRetries is -1, or 0 for a cluster: an operation that is sent again could have effect twice.
//     MaxRedirects of a cluster does not matter, since the store uses the node that has its keys.
//  2. ContextTimeoutEnabled is true: otherwise operations could last longer than Options.Timeout.
//  3. ClientSideCache and ClientSideCacheConfig are nil: values of the cache may have changed.
//
// New does not check other options. DialerRetries of 1 and a DialTimeout below Options.Timeout
// make a failover faster. Options that send commands to replicas of a server, such as ReplicaOnly
// of [redis.FailoverOptions], make each change fail.
func New(ctx context.Context, client redis.UniversalClient, opts *Options) (*Store, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return open(ctx, client, o, func() {})
}

// withDefaults returns the options with the defaults in place of zero values.
func (o *Options) withDefaults() (Options, error) {
	out := *cmp.Or(o, &Options{})
	out.Prefix = cmp.Or(out.Prefix, defaultPrefix)
	out.Timeout = cmp.Or(out.Timeout, defaultTimeout)
	out.Logger = cmp.Or(out.Logger, slog.Default())
	var err error
	if out.Limits, err = out.Limits.WithDefaults(); err != nil {
		return out, err
	}
	if err := store.CheckName(out.Prefix); err != nil {
		return out, fmt.Errorf("redis: Options.Prefix: %w", err)
	}
	if out.Timeout < 0 {
		return out, fmt.Errorf("redis: Options.Timeout is %v, expected more than 0", out.Timeout)
	}
	return out, nil
}

// open returns a store with a client. If it fails, it closes the client with closeClient.
func open(ctx context.Context, client redis.UniversalClient, o Options, closeClient func()) (*Store, error) {
	s := &Store{
		close:    closeClient,
		prefix:   "{" + o.Prefix + "}:",
		limits:   o.Limits,
		timeout:  o.Timeout,
		requests: requests{id: rand.Text(), waiting: map[string]chan []byte{}},
	}
	var err error
	if s.engine, err = newEngine(client, s.counter()); err != nil {
		closeClient()
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.hub = newHub(s.engine, o.Timeout, o.Logger, s.replyChannel(s.requests.id), &s.requests)
	s.running.Go(func() { s.hub.run(s.ctx) })
	err = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := c.Ping(ctx).Err(); err != nil {
			return err
		}
		_, err := s.hub.await(ctx)
		return err
	})
	_, otherServer := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case err == nil:
	case ctx.Err() == nil && isTemporary(err) && !otherServer && !errors.Is(err, redis.ErrClosed):
		o.Logger.Warn("redis: the server cannot be reached; operations of the store fail until it can", "error", err)
	default:
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends all waits with [store.ErrClosed], closes the connections of [Connect], or the one for
// subscriptions of [New], and waits for the subscribers' calls of handle in progress. Handle must not call it. Operations on a closed
// store return ErrClosed. Close may be called again. It returns nil.
func (s *Store) Close() error {
	s.handlers.Lock()
	s.cancel()
	s.handlers.Unlock()
	s.close()
	s.running.Wait()
	return nil
}

// key returns the name of a key or a channel.
func (s *Store) key(kind, name string) string { return s.prefix + kind + ":" + name }

// counter returns the key of the counter of revisions and leases.
func (s *Store) counter() string { return s.prefix + "counter" }

// do runs an operation with the names and the time limit that it has.
func (s *Store) do(ctx context.Context, operation func(ctx context.Context, c *redis.Client) error, names ...string) error {
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
	c, err := s.engine.node(limited)
	if err == nil {
		err = operation(limited, c)
	}
	s.engine.failed(limited, err)
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

// wait waits for an event, or until a time has passed unless it is 0.
func (s *Store) wait(ctx context.Context, event <-chan struct{}, d time.Duration) error {
	var timeout <-chan time.Time
	if d > 0 {
		timeout = time.After(d)
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
var errFormat = errors.New("redis: the data were not written by a store")

// join subscribes a listener that waits until ctx ends. It tries again while the server cannot be
// reached.
func (s *Store) join(ctx context.Context, channel string, l listener) error {
	for {
		err := s.do(ctx, func(ctx context.Context, _ *redis.Client) error { return s.hub.join(ctx, channel, l) })
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
	if _, isReply := errors.AsType[redis.Error](err); !isReply {
		return !errors.Is(err, errFormat)
	}
	return hasPrefix(err, "LOADING ", "READONLY ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "MOVED ", "ASK ", "BUSY ")
}

// checkSize returns an error for a value that is too large.
func checkSize(data []byte) error {
	if limit := store.MaxValue + store.SealOverhead; len(data) > limit {
		return fmt.Errorf("%w: %d bytes, the maximum is %d", store.ErrTooLarge, len(data), limit)
	}
	return nil
}

// signal makes a channel with room for one value ready.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
