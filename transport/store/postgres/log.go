package postgres

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// An Append locks the row of its stream until it is committed, and takes its id then. So the
// entries of a stream are committed in the order of their ids, and the ids have no gaps.
const (
	appendSQL = `
WITH stream AS (
	INSERT INTO {s}.streams AS s (name, first, changed, last)
	SELECT $1, micros, now(), micros FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros) clock
	ON CONFLICT (name) DO UPDATE SET last = s.last + 1, changed = now()
	RETURNING last
), added AS (
	INSERT INTO {s}.entries (stream, id, data, created) SELECT $1, last, $2, clock_timestamp() FROM stream
), trimmed AS (
	DELETE FROM {s}.entries WHERE stream = $1 AND id <= (SELECT last FROM stream) - $3::bigint
)
SELECT last FROM stream`

	// pageSQL returns the entries from an id on. The data of this one are not needed. An Append
	// that has waited for another may leave its entries to the next to be trimmed.
	pageSQL = `
SELECT s.first, s.last, coalesce(e.id, 0), e.data FROM {s}.streams s LEFT JOIN LATERAL (
	SELECT id, CASE WHEN id > $2 THEN data END AS data FROM {s}.entries
	WHERE stream = $1 AND id >= $2 AND id > s.last - $3::bigint AND created > now() - $4::interval ORDER BY id LIMIT $5
) e ON true WHERE s.name = $1 ORDER BY e.id`

	dropSQL = `DELETE FROM {s}.entries WHERE stream = $1`
)

// Append implements [store.Log].
func (s *Store) Append(ctx context.Context, stream string, data []byte) (id uint64, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		data, err := checked(data)
		if err != nil {
			return err
		}
		return s.row(ctx, nil, appendSQL, []any{stream, data, s.limits.LogEntries}, &id)
	}, stream)
	if err == nil {
		s.changed(streams, stream)
	}
	return id, err
}

// Drop implements [store.Log].
func (s *Store) Drop(ctx context.Context, stream string) error {
	err := s.do(ctx, func(ctx context.Context) error {
		_, err := s.exec(ctx, dropSQL, stream)
		return err
	}, stream)
	if err == nil {
		s.changed(streams, stream)
	}
	return err
}

// Read implements [store.Log].
func (s *Store) Read(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		r := reader{store: s, stream: stream, after: after}
		for {
			pause, done, err := r.step(ctx, yield)
			if err != nil {
				yield(store.Entry{}, err)
			}
			if err != nil || done || pause > 0 {
				return
			}
		}
	}
}

// Follow implements [store.Log]. It also yields [store.ErrPurged] after an interruption of more
// than an hour if the last entry that it has yielded is not stored any more.
func (s *Store) Follow(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		r := reader{store: s, stream: stream, after: after}
		err := s.repeat(ctx, streams, stream, func([]string, bool) (pause time.Duration, done bool, err error) {
			return r.step(ctx, yield)
		})
		if err != nil {
			yield(store.Entry{}, err)
		}
	}
}

// A reader is one call of Read or Follow.
type reader struct {
	store  *Store
	stream string
	after  uint64    // the last entry that has been yielded
	read   time.Time // when the last page was read; zero before the first
}

// A row is a stream with one of its entries, whose id is 0 if there is none.
type row struct {
	First, Last, ID uint64
	Data            []byte
}

// step yields the next entries. pause is 0 if there may be more.
func (r *reader) step(ctx context.Context, yield func(store.Entry, error) bool) (pause time.Duration, done bool, err error) {
	s, begin := r.store, time.Now()
	var rows []row
	err = s.do(ctx, func(ctx context.Context) (err error) {
		after := int64(min(r.after, math.MaxInt64))
		rows, err = query[row](ctx, s, pageSQL, r.stream, after, s.limits.LogEntries, s.limits.LogAge, readChunk+1)
		return err
	}, r.stream)
	if err != nil {
		return 0, false, err
	}
	var entries []store.Entry
	found := false // the entry after
	for _, row := range rows {
		found = found || row.ID == r.after && row.ID > 0
		if row.ID > r.after {
			entries = append(entries, store.Entry{ID: row.ID, Data: row.Data})
		}
	}
	next := r.after + 1
	switch first := r.read.IsZero(); {
	case !first && !found && time.Since(r.read) > streamAge: // the stream may have been deleted in between
		return 0, false, store.ErrPurged
	case first && r.after > 0 && !found:
		return 0, false, store.ErrPurged
	case first && r.after == 0 && len(entries) > 0:
		next = entries[0].ID
	case first && r.after == 0 && len(rows) > 0:
		next = rows[0].Last + 1
		r.after = rows[0].Last
	case len(rows) > 0:
		next = max(next, rows[0].First)
	}
	if len(entries) == 0 && len(rows) > 0 && rows[0].Last >= next {
		return 0, false, store.ErrPurged
	}
	for _, entry := range entries {
		if err := s.ended(ctx); err != nil {
			return 0, false, err
		}
		if entry.ID != next {
			return 0, false, store.ErrPurged
		}
		if !yield(entry, nil) {
			return 0, true, nil
		}
		r.after, next = entry.ID, entry.ID+1
	}
	r.read = begin
	if len(entries) >= readChunk {
		return 0, false, nil
	}
	return pollPause, false, nil
}
