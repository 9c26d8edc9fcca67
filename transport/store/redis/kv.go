package redis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/transport/store"
)

// A value is a hash with the fields v (value), r (revision) and e (time of expiry in
// milliseconds since 1970, or 0). Each change is published on the channels of the key and of
// its prefixes, as "+" (set) or "-" (deleted) and the key.

// setScript sets KEYS[1] if its revision is ARGV[1], which is empty for a new key, to ARGV[3],
// for ARGV[4] seconds. It returns the revision, or 0. The channels are ARGV[5] and later.
var setScript = redis.NewScript(`
local current = redis.call('HGET', KEYS[1], 'r') or ''
if current ~= ARGV[1] then return 0 end
local revision = redis.call('INCR', KEYS[2])
local seconds, expiry = tonumber(ARGV[4]), 0
if seconds > 0 then expiry = (redis.call('TIME')[1] + seconds) * 1000 end
redis.call('HSET', KEYS[1], 'v', ARGV[3], 'r', string.format('%.0f', revision), 'e', string.format('%.0f', expiry))
if seconds > 0 then redis.call('EXPIRE', KEYS[1], seconds) else redis.call('PERSIST', KEYS[1]) end
for i = 5, #ARGV do redis.call('PUBLISH', ARGV[i], '+' .. ARGV[2]) end
return revision
`)

// deleteScript deletes KEYS[1] if its revision is ARGV[1], or any if that is 0. It returns
// whether it has.
var deleteScript = redis.NewScript(`
local current = redis.call('HGET', KEYS[1], 'r')
if not current then return ARGV[1] == '0' and 1 or 0 end
if ARGV[1] ~= '0' and ARGV[1] ~= current then return 0 end
redis.call('DEL', KEYS[1])
redis.call('INCR', KEYS[2])
for i = 3, #ARGV do redis.call('PUBLISH', ARGV[i], '-' .. ARGV[2]) end
return 1
`)

const (
	// scanCount is how many keys of the database one command looks at.
	scanCount = 1000
	// readChunk is how many values or entries one command reads.
	readChunk = 32
	// maxChanged is how many changed keys wait for a watcher. With more, it reads all
	// keys again.
	maxChanged = 10_000
)

// Get implements [store.KV].
func (s *Store) Get(ctx context.Context, key string) (item store.Item, err error) {
	err = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		fields, err := c.HMGet(ctx, s.key("kv", key), "v", "r", "e").Result()
		if err != nil {
			return err
		}
		value, err := parseValue(fields)
		item = store.Item{Key: key, Value: []byte(value.data), Revision: value.revision}
		return err
	}, key)
	if err != nil {
		return store.Item{}, err
	}
	return item, nil
}

// Create implements [store.KV].
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error) {
	return s.set(ctx, key, value, "", ttl, store.ErrExists)
}

// Update implements [store.KV].
func (s *Store) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (newRevision uint64, err error) {
	return s.set(ctx, key, value, strconv.FormatUint(revision, 10), ttl, store.ErrConflict)
}

// set sets a value with a revision. It returns an error, otherwise, if it has another one.
func (s *Store) set(ctx context.Context, key string, value []byte, current string, ttl time.Duration, otherwise error) (revision uint64, err error) {
	err = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		if ttl < 0 {
			return fmt.Errorf("redis: the time to live is %v, expected at least 0", ttl)
		}
		if err := checkSize(value); err != nil {
			return err
		}
		seconds := int64(ttl / time.Second)
		if ttl%time.Second > 0 {
			seconds++
		}
		args := append([]any{current, key, value, seconds}, s.channels(key)...)
		revision, err = setScript.Run(ctx, c, []string{s.key("kv", key), s.counter()}, args...).Uint64()
		if err == nil && revision == 0 {
			return otherwise
		}
		return err
	}, key)
	return revision, err
}

// Delete implements [store.KV].
func (s *Store) Delete(ctx context.Context, key string, revision uint64) error {
	return s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		args := append([]any{strconv.FormatUint(revision, 10), key}, s.channels(key)...)
		deleted, err := deleteScript.Run(ctx, c, []string{s.key("kv", key), s.counter()}, args...).Bool()
		if err == nil && !deleted {
			return store.ErrConflict
		}
		return err
	}, key)
}

// channels returns the channels on which changes of a key are published.
func (s *Store) channels(key string) (channels []any) {
	for i := range len(key) {
		if key[i] == '/' {
			channels = append(channels, s.key("changes", key[:i]))
		}
	}
	return append(channels, s.key("changes", key))
}

// A value is the value of a key.
type value struct {
	data     string
	revision uint64
	expiry   int64 // in milliseconds since 1970, or 0
}

// parseValue returns the value with the fields v, r and e.
func parseValue(fields []any) (value, error) {
	if len(fields) != 3 || fields[1] == nil {
		return value{}, store.ErrNotFound
	}
	var texts [3]string
	for i, field := range fields {
		texts[i], _ = field.(string)
	}
	revision, err := strconv.ParseUint(texts[1], 10, 64)
	if err != nil {
		return value{}, fmt.Errorf("%w: revision: %w", errFormat, err)
	}
	expiry, err := strconv.ParseInt(texts[2], 10, 64)
	if err != nil {
		return value{}, fmt.Errorf("%w: time of expiry: %w", errFormat, err)
	}
	return value{data: texts[0], revision: revision, expiry: expiry}, nil
}

// Watch implements [store.KV]. It yields the deletion of a value that was created or changed,
// and expired, while the server could not be reached.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		w := &watcher{store: s, prefix: prefix, wake: make(chan struct{}, 1), known: map[string]value{}, all: true}
		channel := s.key("changes", prefix)
		err := store.CheckName(prefix)
		if err == nil {
			err = s.join(ctx, channel, w)
		}
		if err != nil {
			yield(store.Item{}, err)
			return
		}
		defer s.hub.leave(ctx, channel, w)
		for {
			proceed, err := w.read(ctx, yield)
			if !proceed {
				return
			}
			delay := time.Duration(0)
			if err != nil {
				if s.ended(ctx) != nil || !isTemporary(err) {
					yield(store.Item{}, err)
					return
				}
				w.interrupted(time.Time{})
				delay = retryDelay
			}
			if err := s.retry(ctx, w.wake, delay); err != nil {
				yield(store.Item{}, err)
				return
			}
		}
	}
}

// retry waits for a delay, or for an event if it is 0.
func (s *Store) retry(ctx context.Context, event <-chan struct{}, delay time.Duration) error {
	if delay > 0 {
		event = nil
	}
	return s.wait(ctx, event, delay)
}

// A watcher is one call of Watch.
type watcher struct {
	store  *Store
	prefix string
	wake   chan struct{}
	known  map[string]value // what has been yielded, without data
	pruned int              // number of known keys after the last removal of expired ones

	mu      sync.Mutex
	all     bool            // all keys may have changed
	changed map[string]bool // keys, with whether they were deleted
}

func (w *watcher) message(payload string) {
	if payload == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.changed) >= maxChanged {
		w.all, w.changed = true, nil
	}
	if !w.all {
		if w.changed == nil {
			w.changed = map[string]bool{}
		}
		w.changed[payload[1:]] = payload[0] == '-' || w.changed[payload[1:]]
	}
	signal(w.wake)
}

func (w *watcher) interrupted(time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all, w.changed = true, nil
	signal(w.wake)
}

// read yields what has changed. It reports whether the caller wants more.
func (w *watcher) read(ctx context.Context, yield func(store.Item, error) bool) (proceed bool, err error) {
	w.mu.Lock()
	all, changed := w.all, w.changed
	w.all, w.changed = false, nil
	w.mu.Unlock()
	if all {
		if changed, err = w.scan(ctx); err != nil {
			return true, err
		}
	}
	for keys := range slices.Chunk(slices.Collect(maps.Keys(changed)), readChunk) {
		items, err := w.load(ctx, keys, changed)
		if err != nil {
			return true, err
		}
		for _, item := range items {
			if err := w.store.ended(ctx); err != nil {
				return true, err
			}
			if !yield(item, nil) {
				return false, nil
			}
		}
	}
	return true, nil
}

// scan returns all keys below the prefix, and the keys that were deleted after they were yielded.
func (w *watcher) scan(ctx context.Context) (keys map[string]bool, err error) {
	s := w.store
	keys = map[string]bool{w.prefix: false}
	if w.known[w.prefix].revision > 0 {
		keys[w.prefix] = true // unless it is there
	}
	for cursor := uint64(0); ; {
		var names []string
		err := s.do(ctx, func(ctx context.Context, c *redis.Client) (err error) {
			names, cursor, err = c.Scan(ctx, cursor, s.key("kv", w.prefix)+"/*", scanCount).Result()
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			keys[strings.TrimPrefix(name, s.key("kv", ""))] = false
		}
		if cursor == 0 {
			break
		}
	}
	if err := w.prune(ctx); err != nil {
		return nil, err
	}
	for key := range w.known {
		if _, found := keys[key]; !found {
			keys[key] = true
		}
	}
	return keys, nil
}

// prune removes known values that have expired.
func (w *watcher) prune(ctx context.Context) error {
	return w.store.do(ctx, func(ctx context.Context, c *redis.Client) error {
		now, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		maps.DeleteFunc(w.known, func(_ string, v value) bool { return v.expiry > 0 && v.expiry <= now.UnixMilli() })
		w.pruned = len(w.known)
		return nil
	})
}

// load returns the items of keys that have changed.
func (w *watcher) load(ctx context.Context, keys []string, deleted map[string]bool) (items []store.Item, err error) {
	s := w.store
	values := make([]*redis.SliceCmd, len(keys))
	var counter *redis.StringCmd
	err = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				values[i] = p.HMGet(ctx, s.key("kv", key), "v", "r", "e")
			}
			counter = p.Get(ctx, s.counter())
			return nil
		})
		if errors.Is(err, redis.Nil) { // the counter does not exist before the first value
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		v, err := parseValue(values[i].Val())
		known := w.known[key]
		switch {
		case err == nil && v.revision != known.revision:
			items = append(items, store.Item{Key: key, Value: []byte(v.data), Revision: v.revision})
			v.data = ""
			w.known[key] = v
		case errors.Is(err, store.ErrNotFound) && deleted[key] && known.revision > 0:
			// Each change of a value increments the counter, and so has the deletion.
			revision, err := counter.Uint64()
			if err != nil {
				return nil, fmt.Errorf("%w: counter: %w", errFormat, err)
			}
			items = append(items, store.Item{Key: key, Revision: revision, Deleted: true})
			delete(w.known, key)
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	if len(w.known) > 2*w.pruned+maxChanged {
		if err := w.prune(ctx); err != nil {
			return nil, err
		}
	}
	return items, nil
}
