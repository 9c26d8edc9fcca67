package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// valueOverhead is the size of the bookkeeping of a value in bytes.
const valueOverhead = 160

// maxDeleted is by how many deleted keys a watcher may be late.
const maxDeleted = 10_000

// errSlowWatcher ends a Watch.
var errSlowWatcher = errors.New("store: the watcher is too slow")

// memoryKV contains the values of a memory, whose lock guards it.
type memoryKV struct {
	items    map[string]*memoryItem
	expiries schedule[*memoryItem]
	revision uint64                           // of the last change
	watchers map[string]map[*watcher]struct{} // by prefix
}

// A memoryItem is a value. Its bytes are never modified.
type memoryItem struct {
	scheduled // for its expiry, if index is not -1
	key       string
	value     []byte
	revision  uint64
}

// A watcher is one Watch.
type watcher struct {
	changed map[string]uint64 // revisions of the changes to yield, by key; nil if the watcher is too slow
	wake    chan struct{}     // has a value if there may be changes
}

func newMemoryKV() memoryKV {
	return memoryKV{items: map[string]*memoryItem{}, watchers: map[string]map[*watcher]struct{}{}}
}

func (i *memoryItem) expired(now time.Duration) bool { return i.index >= 0 && i.at <= now }

func (i *memoryItem) size() int64 { return valueSize(i.key, i.value) }

func valueSize(key string, value []byte) int64 { return int64(valueOverhead + len(key) + len(value)) }

// Get implements [KV].
func (m *memory) Get(ctx context.Context, key string) (Item, error) {
	if err := m.lock(ctx, key); err != nil {
		return Item{}, err
	}
	item := m.kv.items[key]
	if item == nil || item.expired(m.now()) {
		m.mu.Unlock()
		return Item{}, ErrNotFound
	}
	value, revision := item.value, item.revision
	m.mu.Unlock()
	return Item{Key: key, Value: bytes.Clone(value), Revision: revision}, nil
}

// Create implements [KV].
func (m *memory) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error) {
	return m.put(ctx, key, value, ttl, func(old *memoryItem) error {
		if old != nil {
			return ErrExists
		}
		return nil
	})
}

// Update implements [KV].
func (m *memory) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (newRevision uint64, err error) {
	return m.put(ctx, key, value, ttl, func(old *memoryItem) error {
		if old == nil || old.revision != revision {
			return ErrConflict
		}
		return nil
	})
}

// put stores a value if check accepts the old value. old is nil if there is none.
func (m *memory) put(ctx context.Context, key string, value []byte, ttl time.Duration, check func(old *memoryItem) error) (uint64, error) {
	if ttl < 0 {
		return 0, fmt.Errorf("store: the time to live is %v, expected at least 0", ttl)
	}
	value = bytes.Clone(value)
	if err := m.lock(ctx, key); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	now := m.now()
	item := m.kv.items[key]
	if item != nil && item.expired(now) {
		m.remove(item)
		item = nil
	}
	if err := check(item); err != nil {
		return 0, err
	}
	replaced := int64(0)
	if item != nil {
		replaced = item.size()
	}
	if err := m.reserve(now, valueSize(key, value), replaced); err != nil {
		return 0, err
	}
	if item == nil {
		item = &memoryItem{key: strings.Clone(key)} // the key may be part of a long string
		item.index = -1
		m.kv.items[item.key] = item
	}
	m.kv.revision++
	item.value, item.revision = value, m.kv.revision
	if ttl == 0 {
		m.kv.expiries.drop(item)
	} else {
		item.at = now + min(ttl, longest)
		if rest := ttl % time.Second; rest > 0 {
			item.at += time.Second - rest
		}
		m.kv.expiries.add(item)
	}
	m.kv.notify(key)
	return item.revision, nil
}

// Delete implements [KV].
func (m *memory) Delete(ctx context.Context, key string, revision uint64) error {
	if err := m.lock(ctx, key); err != nil {
		return err
	}
	defer m.mu.Unlock()
	item := m.kv.items[key]
	switch found := item != nil && !item.expired(m.now()); {
	case !found && revision == 0:
		return nil
	case !found || revision != 0 && item.revision != revision:
		return ErrConflict
	}
	m.remove(item)
	m.kv.revision++
	m.kv.notify(key)
	return nil
}

// remove removes a value.
func (m *memory) remove(item *memoryItem) {
	m.kv.expiries.drop(item)
	delete(m.kv.items, item.key)
	m.bytes -= item.size()
}

// notify tells the watchers of a key that it has the last revision.
func (kv *memoryKV) notify(key string) {
	for i := 0; i <= len(key); i++ {
		if i < len(key) && key[i] != '/' {
			continue
		}
		for w := range kv.watchers[key[:i]] {
			if w.changed == nil || len(w.changed) > len(kv.items)+maxDeleted {
				w.changed = nil
			} else {
				w.changed[key] = kv.revision
			}
			wake(w.wake)
		}
	}
}

// wake adds a value to a channel with room for one, unless it has one.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Watch implements [KV].
func (m *memory) Watch(ctx context.Context, prefix string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		w, err := m.watch(ctx, prefix)
		if err != nil {
			yield(Item{}, err)
			return
		}
		defer m.unwatch(w, prefix)
		for {
			if err := m.wait(ctx, w.wake, nil); err != nil {
				yield(Item{}, err)
				return
			}
			changes, err := m.changes(w)
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range changes {
				item.Value = bytes.Clone(item.Value)
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// watch adds a watcher, to which all values have changed.
func (m *memory) watch(ctx context.Context, prefix string) (*watcher, error) {
	if err := m.lock(ctx, prefix); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	w := &watcher{changed: map[string]uint64{}, wake: make(chan struct{}, 1)}
	now := m.now()
	for key, item := range m.kv.items {
		if rest, ok := strings.CutPrefix(key, prefix); ok && (rest == "" || rest[0] == '/') && !item.expired(now) {
			w.changed[key] = item.revision
			wake(w.wake)
		}
	}
	prefix = strings.Clone(prefix)
	if m.kv.watchers[prefix] == nil {
		m.kv.watchers[prefix] = map[*watcher]struct{}{}
	}
	m.kv.watchers[prefix][w] = struct{}{}
	return w, nil
}

func (m *memory) unwatch(w *watcher, prefix string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kv.watchers[prefix], w)
	if len(m.kv.watchers[prefix]) == 0 {
		delete(m.kv.watchers, prefix)
	}
}

// changes returns the changes that a watcher has not seen, in order. The caller must not modify
// the values.
func (m *memory) changes(w *watcher) ([]Item, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.changed == nil {
		return nil, errSlowWatcher
	}
	now := m.now()
	keys := make(map[uint64]string, len(w.changed))
	for key, revision := range w.changed {
		keys[revision] = key
	}
	items := make([]Item, 0, len(w.changed))
	for _, revision := range slices.Sorted(maps.Keys(keys)) {
		key := keys[revision]
		if item := m.kv.items[key]; item != nil && !item.expired(now) {
			items = append(items, Item{Key: key, Value: item.value, Revision: item.revision})
		} else {
			items = append(items, Item{Key: key, Revision: revision, Deleted: true})
		}
	}
	w.changed = map[string]uint64{}
	return items, nil
}
