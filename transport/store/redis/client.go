package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// An engine is the client of a store. All keys of a store are in one slot, so that it uses one node
// of a cluster at a time.
type engine struct {
	single  *redis.Client        // of one server, or of the primary that sentinels name
	cluster *redis.ClusterClient // nil unless single is
	key     string               // a key of the store
}

// newEngine checks that a store can use a client.
func newEngine(client redis.UniversalClient, key string) (*engine, error) {
	switch client := client.(type) {
	case *redis.Client:
		return &engine{single: client, key: key}, checkOptions(client.Options())
	case *redis.ClusterClient:
		o := client.Options()
		ofNodes := &redis.Options{MaxRetries: max(0, o.MaxRetries), ContextTimeoutEnabled: o.ContextTimeoutEnabled} // -1 is 0 there
		return &engine{cluster: client, key: key}, checkOptions(ofNodes)
	default:
		return nil, fmt.Errorf("redis: the client is a %T, expected *redis.Client or *redis.ClusterClient of go-redis", client)
	}
}

// checkOptions returns an error for options of a client with which operations could have
// effect twice, last longer than their limit, or return values that have changed.
func checkOptions(o *redis.Options) error {
	var errs []error
	if o.MaxRetries != 0 { // the client has replaced -1 by 0
		errs = append(errs, fmt.Errorf("redis: the client sends a command up to %d times, which could have effect each time: set MaxRetries to -1", o.MaxRetries+1))
	}
	if !o.ContextTimeoutEnabled {
		errs = append(errs, errors.New("redis: the client ignores the time limit of operations: set ContextTimeoutEnabled to true"))
	}
	if o.ClientSideCacheConfig != nil || o.ClientSideCache != nil {
		errs = append(errs, errors.New("redis: the client returns values from a cache: remove ClientSideCache and ClientSideCacheConfig"))
	}
	return errors.Join(errs...)
}

// node returns the client of the server that has the keys.
func (e *engine) node(ctx context.Context) (*redis.Client, error) {
	if e.cluster != nil {
		return e.cluster.MasterForKey(ctx, e.key)
	}
	return e.single, nil
}

// reload makes the client of a cluster ask, in the background, which node has the keys.
func (e *engine) reload(ctx context.Context) {
	if e.cluster != nil {
		e.cluster.ReloadState(ctx)
	}
}

// failed calls reload after an error that may mean that another node has the keys.
func (e *engine) failed(ctx context.Context, err error) {
	_, ofNetwork := errors.AsType[net.Error](err)
	if ofNetwork || errors.Is(err, redis.ErrClosed) || hasPrefix(err, "MOVED ", "ASK ", "READONLY ", "CLUSTERDOWN ", "MASTERDOWN ") {
		e.reload(ctx)
	}
}

// subscribed reports whether a channel has a subscriber on any node of a cluster. The nodes pass on
// what is published on one of them, and the reply of that one counts its own subscribers only.
func (e *engine) subscribed(ctx context.Context, channel string) (bool, error) {
	var total atomic.Int64
	err := e.cluster.ForEachShard(ctx, func(ctx context.Context, c *redis.Client) error {
		counts, err := c.PubSubNumSub(ctx, channel).Result()
		total.Add(counts[channel])
		return err
	})
	if total.Load() > 0 {
		return true, nil
	}
	return false, err
}

// checkEviction logs a warning if the server deletes values when its memory is full.
func checkEviction(ctx context.Context, c *redis.Client, logger *slog.Logger) {
	info := c.InfoMap(ctx, "memory")
	switch policy := info.Item("Memory", "maxmemory_policy"); {
	case info.Err() != nil:
		logger.Warn("redis: the eviction policy of the server could not be read; it must be noeviction", "error", info.Err())
	case policy != "" && policy != "noeviction" && info.Item("Memory", "maxmemory") != "0":
		logger.Warn("redis: the server deletes sessions, tasks, jobs and keys when its memory is full; set maxmemory-policy to noeviction",
			"maxmemory-policy", policy)
	}
}

// hasPrefix reports whether an error is a reply of the server that begins with one of some
// prefixes.
func hasPrefix(err error, prefixes ...string) bool {
	reply, isReply := errors.AsType[redis.Error](err)
	return isReply &&
		slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(reply.Error(), prefix) })
}

// SetClientLogger makes go-redis, the client that a [Store] uses, log to logger with the level Info.
// go-redis has one logger for all clients in the process, so that a store does not set it by itself. By
// default, go-redis writes to standard error. The messages are about failed attempts to connect and
// about sentinels. An application calls SetClientLogger before it connects. It may be called
// concurrently.
func SetClientLogger(logger *slog.Logger) { redis.SetLogger(clientLogger{logger}) }

// A clientLogger is a logger of go-redis.
type clientLogger struct{ logger *slog.Logger }

// Printf logs a message.
func (l clientLogger) Printf(ctx context.Context, format string, args ...any) {
	l.logger.InfoContext(ctx, fmt.Sprintf(format, args...))
}
