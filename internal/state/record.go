package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// recordVersion is the version of the format of records. Records of others are not read, and are kept.
	recordVersion = 1
	// keptLonger is how much longer than to its end a record is stored, so that clocks may differ.
	keptLonger = time.Minute
	// maxConflicts is how often a change is tried again because another replica was faster. After the first
	// fewConflicts, there are pauses.
	maxConflicts = 100
	fewConflicts = 5
	// minConflictPause and maxConflictPause bound these pauses.
	minConflictPause = time.Millisecond
	maxConflictPause = 20 * time.Millisecond
)

// ErrUnchanged is returned by the change of a record to write nothing.
var ErrUnchanged = errors.New("state: nothing to change")

// ErrUnreadable means that a record is of another version, or was changed or replaced by something that does not have its
// key.
var ErrUnreadable = errors.New("state: the record cannot be read")

// An unreadableError is an [ErrUnreadable] that says why.
type unreadableError struct{ error }

func (e unreadableError) Is(target error) bool { return target == ErrUnreadable }
func (e unreadableError) Unwrap() error        { return e.error }

// A Record is a value that replicas share.
type Record[T any] struct {
	Value T
	// Until is when the record ends. Zero means that it does not.
	Until time.Time

	stored   bool   // and has not ended
	revision uint64 // of the stored record, which may have ended; 0 if there is none
}

// Stored reports whether the record was in the store, and had not ended.
func (r *Record[T]) Stored() bool { return r.stored }

// Extend makes the record end at a time, unless it ends later already. Zero means that it does not end.
func (r *Record[T]) Extend(until time.Time) {
	if !r.stored || until.IsZero() || !r.Until.IsZero() && until.After(r.Until) {
		r.Until = until
	}
}

// Revision returns the number of what is in the store. It grows with each change of the record.
func (r *Record[T]) Revision() uint64 { return r.revision }

func (r *Record[T]) ended(now time.Time) bool { return !r.Until.IsZero() && !now.Before(r.Until) }

// Records are the records of one kind, in JSON. Its methods may be called concurrently. Their errors wrap errors of
// package store, or are [ErrUnreadable]. A record that has ended does not exist, except for Create, which may return [store.ErrExists] for
// another minute. A value has at most [store.MaxValue] bytes in JSON, else the error is [store.ErrTooLarge].
type Records[T any] struct {
	kv  store.KV
	key *Key
}

// NewRecords returns the records in a store. They are sealed with key, unless it is nil.
func NewRecords[T any](kv store.KV, key *Key) Records[T] { return Records[T]{kv, key} }

// A recordFormat is a record in the store.
type recordFormat struct {
	Version int             `json:"version"`
	Until   int64           `json:"until,omitempty"` // in Unix milliseconds
	Value   json.RawMessage `json:"value"`
}

// Load returns a record, or [store.ErrNotFound], also together with a record that has ended.
func (r Records[T]) Load(ctx context.Context, key string) (*Record[T], error) {
	item, err := r.kv.Get(ctx, key)
	if err != nil {
		err = fmt.Errorf("reading the record %s: %w", key, err)
		if errors.Is(err, store.ErrForged) {
			err = unreadableError{err}
		}
		return nil, err
	}
	rec, err := r.decode(ctx, key, item)
	if err == nil && rec.ended(time.Now()) {
		err = fmt.Errorf("the record %s has ended: %w", key, store.ErrNotFound)
	}
	return rec, err
}

// Create stores a new record, or returns [store.ErrExists].
func (r Records[T]) Create(ctx context.Context, key string, value T, until time.Time) (*Record[T], error) {
	rec := &Record[T]{Value: value, Until: until}
	return rec, r.write(ctx, key, rec)
}

// Update changes a record. change gets the record as it is, and may be called several times; its error ends Update,
// and nothing is written. With [ErrUnchanged], Update returns the record and no error.
// The error is [store.ErrNotFound] if there is no record.
func (r Records[T]) Update(ctx context.Context, key string, change func(*Record[T]) error) (*Record[T], error) {
	return r.change(ctx, key, nil, false, change)
}

// UpdateFrom is like [Records.Update], but does not read the record if it is still the known one. change must not
// modify what pointers, slices and maps in the known value refer to.
func (r Records[T]) UpdateFrom(ctx context.Context, key string, known *Record[T], change func(*Record[T]) error) (*Record[T], error) {
	return r.change(ctx, key, known, false, change)
}

// Put is like [Records.Update], but change gets an empty record if there is none, which is then created.
func (r Records[T]) Put(ctx context.Context, key string, change func(*Record[T]) error) (*Record[T], error) {
	return r.change(ctx, key, nil, true, change)
}

func (r Records[T]) change(ctx context.Context, key string, known *Record[T], create bool, change func(*Record[T]) error) (*Record[T], error) {
	pause := backoff.Backoff{Min: minConflictPause, Max: maxConflictPause}
	for conflicts := range maxConflicts {
		if conflicts > fewConflicts {
			if err := pause.Wait(ctx); err != nil {
				return nil, err
			}
		}
		rec := known
		if rec == nil || rec.ended(time.Now()) {
			loaded, err := r.load(ctx, key, create)
			if err != nil {
				return nil, err
			}
			rec = loaded
		}
		next := *rec
		if err := change(&next); errors.Is(err, ErrUnchanged) {
			return &next, nil
		} else if err != nil {
			return nil, err
		}
		err := r.write(ctx, key, &next)
		if err == nil {
			return &next, nil
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrExists) {
			return nil, err
		}
		known = nil
	}
	return nil, fmt.Errorf("the record %s is changed too often", key)
}

// load is Load. If create is true, it returns an empty record if there is none, or if it has ended.
func (r Records[T]) load(ctx context.Context, key string, create bool) (*Record[T], error) {
	rec, err := r.Load(ctx, key)
	if !create || !errors.Is(err, store.ErrNotFound) {
		return rec, err
	}
	empty := &Record[T]{}
	if rec != nil {
		empty.revision = rec.revision
	}
	return empty, nil
}

// write stores a record in place of the one with its revision, and sets its new revision.
func (r Records[T]) write(ctx context.Context, key string, rec *Record[T]) error {
	encoded, ttl, err := encode(ctx, r.key, key, rec.Value, rec.Until)
	if err != nil {
		return err
	}
	var revision uint64
	if rec.revision == 0 {
		revision, err = r.kv.Create(ctx, key, encoded, ttl)
	} else {
		revision, err = r.kv.Update(ctx, key, encoded, rec.revision, ttl)
	}
	if err != nil {
		return fmt.Errorf("writing the record %s: %w", key, err)
	}
	rec.stored, rec.revision = true, revision
	return nil
}

// Delete deletes a record if it is still the known one, or returns [store.ErrConflict]. If known is nil, it deletes
// any, and succeeds if there is none.
func (r Records[T]) Delete(ctx context.Context, key string, known *Record[T]) error {
	revision := uint64(0)
	if known != nil {
		revision = known.revision
	}
	if err := r.kv.Delete(ctx, key, revision); err != nil {
		return fmt.Errorf("deleting the record %s: %w", key, err)
	}
	return nil
}

// Watch yields the records under prefix, and then each change; see [store.KV.Watch]. A record that was deleted is nil.
// An error that belongs to one record is yielded with its key, or with prefix if a sealed store cannot tell the key, and
// the next record follows; after an error without a key, nothing follows.
func (r Records[T]) Watch(ctx context.Context, prefix string) iter.Seq2[Change[T], error] {
	return func(yield func(Change[T], error) bool) {
		for item, err := range r.kv.Watch(ctx, prefix) {
			change := Change[T]{Key: item.Key, revision: item.Revision}
			switch {
			case errors.Is(err, store.ErrForged):
				change.Key = cmp.Or(item.Key, prefix)
				err = fmt.Errorf("watching the record %s: %w", change.Key, err)
			case err != nil:
				yield(Change[T]{}, fmt.Errorf("watching the records %s: %w", prefix, err))
				return
			case !item.Deleted:
				change.Record, err = r.decode(ctx, item.Key, item)
			}
			if !yield(change, err) {
				return
			}
		}
	}
}

// A Change is a record that has changed.
type Change[T any] struct {
	Key    string
	Record *Record[T] // nil if it was deleted

	revision uint64
}

// Precedes reports whether the change is older than a record of its key.
func (c *Change[T]) Precedes(known *Record[T]) bool { return c.revision < known.revision }

func (r Records[T]) decode(ctx context.Context, key string, item store.Item) (*Record[T], error) {
	rec := &Record[T]{stored: true, revision: item.Revision}
	until, err := decode(ctx, r.key, key, item.Value, &rec.Value)
	if err != nil {
		return nil, err
	}
	rec.Until = until
	return rec, nil
}

// encode returns what is stored of a record, and for how long. It is no method, since the program would contain it once
// for each type of value.
func encode(ctx context.Context, seal *Key, key string, content any, until time.Time) ([]byte, time.Duration, error) {
	value, err := marshal(content)
	if err != nil {
		return nil, 0, err
	}
	if len(value) > store.MaxValue { // also for stores that accept more
		return nil, 0, fmt.Errorf("%w: the record has %d bytes, at most %d are possible", store.ErrTooLarge, len(value), store.MaxValue)
	}
	format, ttl := recordFormat{Version: recordVersion, Value: value}, time.Duration(0)
	if !until.IsZero() {
		format.Until, ttl = until.UnixMilli(), max(0, time.Until(until))+keptLonger
	}
	encoded, err := marshal(format)
	if err == nil && seal != nil {
		encoded, err = seal.SealBytes(ctx, encoded, token.Binding("record", key))
	}
	return encoded, ttl, err
}

// marshal returns the JSON of a value. HTML in it is not escaped, which would make it up to six times as long.
func marshal(value any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// decode reads a stored record into the value that into points to, and returns when the record ends.
func decode(ctx context.Context, seal *Key, key string, value []byte, into any) (until time.Time, err error) {
	if seal != nil {
		opened, err := seal.OpenBytes(ctx, value, token.Binding("record", key))
		if err != nil {
			err = fmt.Errorf("the record %s cannot be opened with the keys of this server: %w", key, err)
			if errors.Is(err, token.ErrForged) {
				err = unreadableError{err}
			}
			return until, err
		}
		value = opened
	}
	malformed := unreadableError{fmt.Errorf("the record %s is malformed", key)} // the cause may contain a part of a secret
	var format recordFormat
	if err := json.Unmarshal(value, &format); err != nil {
		return until, malformed
	}
	if format.Version != recordVersion {
		return until, unreadableError{fmt.Errorf("the record %s has the version %d, expected %d", key, format.Version, recordVersion)}
	}
	if format.Until != 0 {
		until = time.UnixMilli(format.Until)
	}
	if err := json.Unmarshal(format.Value, into); err != nil {
		return until, malformed
	}
	return until, nil
}
