package postgres

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// A change takes its revision when it has locked the row, so that the changes of a key are
// committed in the order of their revisions.
const (
	getSQL = `SELECT value, revision FROM {s}.kv WHERE key = $1 AND value IS NOT NULL AND expires > now()`

	insertSQL = `
INSERT INTO {s}.kv (key, value, revision, expires)
VALUES ($1, $2, nextval('{s}.numbers'), coalesce(now() + $3::bigint * interval '1 second', 'infinity'))
ON CONFLICT (key) DO UPDATE SET value = excluded.value, revision = nextval('{s}.numbers'), expires = excluded.expires
WHERE kv.value IS NULL OR kv.expires <= now()
RETURNING revision`

	updateSQL = `
UPDATE {s}.kv SET value = $2, revision = nextval('{s}.numbers'), expires = coalesce(now() + $3::bigint * interval '1 second', 'infinity')
WHERE key = $1 AND revision = $4 AND value IS NOT NULL AND expires > now()
RETURNING revision`

	deleteSQL = `
UPDATE {s}.kv SET value = NULL, revision = nextval('{s}.numbers'), expires = now() + $3::interval
WHERE key = $1 AND ($2 = 0::bigint OR revision = $2) AND value IS NOT NULL AND expires > now()`

	revisionsSQL = `
SELECT key, NULL::bytea, revision, value IS NULL FROM {s}.kv
WHERE (key = $1 OR key >= $1 || '/' AND key < $1 || '0') AND expires > now()`

	valuesSQL = `SELECT key, value, revision, value IS NULL FROM {s}.kv WHERE key = ANY($1) AND expires > now()`
)

// readChunk is how many values or entries one statement reads.
const readChunk = 32

// Get implements [store.KV].
func (s *Store) Get(ctx context.Context, key string) (store.Item, error) {
	item := store.Item{Key: key}
	err := s.do(ctx, func(ctx context.Context) error {
		return s.row(ctx, store.ErrNotFound, getSQL, []any{key}, &item.Value, &item.Revision)
	}, key)
	if err != nil {
		return store.Item{}, err
	}
	return item, nil
}

// Create implements [store.KV].
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error) {
	return s.set(ctx, store.ErrExists, insertSQL, key, value, ttl)
}

// Update implements [store.KV].
func (s *Store) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (newRevision uint64, err error) {
	return s.set(ctx, store.ErrConflict, updateSQL, key, value, ttl, int64(revision))
}

// set sets a value. It returns the error otherwise if the statement does not.
func (s *Store) set(ctx context.Context, otherwise error, sql, key string, value []byte, ttl time.Duration, args ...any) (revision uint64, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		if ttl < 0 {
			return fmt.Errorf("postgres: the time to live is %v, expected at least 0", ttl)
		}
		value, err := checked(value)
		if err != nil {
			return err
		}
		var seconds *int64 // NULL if the value does not expire
		if ttl > 0 {
			seconds = new(int64((ttl-1)/time.Second) + 1)
		}
		return s.row(ctx, otherwise, sql, append([]any{key, value, seconds}, args...), &revision)
	}, key)
	if err == nil {
		s.changed(values, key)
	}
	return revision, err
}

// Delete implements [store.KV].
func (s *Store) Delete(ctx context.Context, key string, revision uint64) error {
	return s.do(ctx, func(ctx context.Context) error {
		rows, err := s.exec(ctx, deleteSQL, key, int64(revision), deletionAge)
		if err == nil && rows == 0 && revision > 0 {
			return store.ErrConflict
		}
		if rows > 0 {
			s.changed(values, key)
		}
		return err
	}, key)
}

// Watch implements [store.KV]. After an interruption of more than half an hour, it yields values
// that have expired in the meantime as deleted.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		w := watch{store: s, prefix: prefix, known: map[string]uint64{}}
		err := s.repeat(ctx, values, prefix, func(keys []string, all bool) (pause time.Duration, done bool, err error) {
			if all {
				lost, changed, err := w.scan(ctx)
				if err != nil || !yieldAll(lost, yield) {
					return 0, err == nil, err
				}
				keys = changed
			}
			for chunk := range slices.Chunk(keys, readChunk) {
				items, err := w.load(ctx, chunk)
				if err != nil || !yieldAll(items, yield) {
					return 0, err == nil, err
				}
			}
			return pollPause, false, nil
		})
		if err != nil {
			yield(store.Item{}, err)
		}
	}
}

// yieldAll reports whether the caller wants more.
func yieldAll[T any](items []T, yield func(T, error) bool) bool {
	for _, item := range items {
		if !yield(item, nil) {
			return false
		}
	}
	return true
}

// A watch is one call of Watch.
type watch struct {
	store   *Store
	prefix  string
	known   map[string]uint64 // the revisions of the values that have been yielded
	scanned time.Time         // the last scan
}

// read returns what a statement selects, with what is newer than known.
func (w *watch) read(ctx context.Context, sql string, arg any) (found, newer []store.Item, err error) {
	err = w.store.do(ctx, func(ctx context.Context) (err error) {
		found, err = query[store.Item](ctx, w.store, sql, arg)
		return err
	})
	for _, item := range found {
		known := w.known[item.Key]
		if item.Revision > known && (known > 0 || !item.Deleted) {
			newer = append(newer, item)
		}
	}
	return found, newer, err
}

// scan returns the keys below the prefix that have changed, and the items of values whose
// deletion is no longer stored.
func (w *watch) scan(ctx context.Context) (lost []store.Item, changed []string, err error) {
	found, newer, err := w.read(ctx, revisionsSQL, w.prefix)
	if err != nil {
		return nil, nil, err
	}
	for _, item := range newer {
		changed = append(changed, item.Key)
	}
	gone := maps.Clone(w.known)
	for _, item := range found {
		delete(gone, item.Key)
	}
	uncertain := time.Since(w.scanned) > deletionAge/2
	for key, revision := range gone { // expired, unless its deletion has been swept
		if uncertain {
			lost = append(lost, store.Item{Key: key, Revision: revision + 1, Deleted: true})
		}
		delete(w.known, key)
	}
	w.scanned = time.Now()
	return lost, changed, nil
}

// load returns the items of keys that have changed.
func (w *watch) load(ctx context.Context, keys []string) ([]store.Item, error) {
	_, items, err := w.read(ctx, valuesSQL, keys)
	for _, item := range items {
		w.known[item.Key] = item.Revision
		if item.Deleted {
			delete(w.known, item.Key)
		}
	}
	return items, err
}
