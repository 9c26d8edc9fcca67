package store

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"time"
)

// Sizes of the bookkeeping in bytes, which count toward Limits.LogBytes.
const (
	entryOverhead  = 96
	streamOverhead = 192
)

// memoryLog contains the streams of a memory, whose lock guards it. It consists of linked lists
// and a map of bounded size. Slices for each stream would not shrink.
type memoryLog struct {
	streams map[string]*memoryStream
	ring    *memoryEntry // sentinel of the list of all entries: newer is the oldest, older the newest
	bytes   int64        // of all entries and streams
	lastID  uint64
}

// A memoryStream has at least one entry or reader.
type memoryStream struct {
	name        string
	first, last *memoryEntry
	count       int
	purged      uint64        // id of the last entry that was deleted
	readers     int           // iterators in progress
	appended    chan struct{} // closed by the next Append; nil if no reader waits for it
}

// A memoryEntry is an entry of a stream. Its data are never modified.
type memoryEntry struct {
	Entry
	added          time.Duration
	stream         *memoryStream // nil after the entry was deleted
	previous, next *memoryEntry  // of the stream
	older, newer   *memoryEntry  // of all streams
}

func newMemoryLog() memoryLog {
	ring := &memoryEntry{}
	ring.older, ring.newer = ring, ring
	return memoryLog{streams: map[string]*memoryStream{}, ring: ring}
}

func (s *memoryStream) size() int64 { return int64(streamOverhead + len(s.name)) }

func (e *memoryEntry) size() int64 { return int64(entryOverhead + len(e.Data)) }

// Append implements [Log].
func (m *memory) Append(ctx context.Context, stream string, data []byte) (id uint64, err error) {
	e := &memoryEntry{Entry: Entry{Data: bytes.Clone(data)}}
	if e.size()+streamOverhead+maxName > m.limits.LogBytes {
		return 0, ErrTooLarge
	}
	if err := m.lock(ctx, stream); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	m.dropAged()
	s := m.log.open(stream)
	m.log.lastID++
	e.ID, e.added = m.log.lastID, m.now()
	m.log.add(s, e)
	for s.count > m.limits.LogEntries {
		m.log.drop(s.first)
	}
	for m.log.bytes > m.limits.LogBytes && m.log.ring.newer != e {
		m.log.drop(m.log.ring.newer)
	}
	if s.appended != nil {
		close(s.appended)
		s.appended = nil
	}
	return e.ID, nil
}

// Read implements [Log].
func (m *memory) Read(ctx context.Context, stream string, after uint64) iter.Seq2[Entry, error] {
	return m.read(ctx, stream, after, false)
}

// Follow implements [Log].
func (m *memory) Follow(ctx context.Context, stream string, after uint64) iter.Seq2[Entry, error] {
	return m.read(ctx, stream, after, true)
}

// Drop implements [Log].
func (m *memory) Drop(ctx context.Context, stream string) error {
	if err := m.lock(ctx, stream); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for s := m.log.streams[stream]; s != nil && s.first != nil; {
		m.log.drop(s.first)
	}
	return nil
}

func (m *memory) read(ctx context.Context, stream string, after uint64, follow bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r, err := m.reader(ctx, stream, after)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer m.endReader(r)
		for {
			entries, appended, err := m.next(r)
			if err == nil && len(entries) == 0 {
				if !follow {
					return
				}
				err = m.wait(ctx, appended, nil)
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range entries {
				if !follow && e.ID > r.newest || !yield(Entry{ID: e.ID, Data: bytes.Clone(e.Data)}, nil) {
					return
				}
			}
		}
	}
}

// A logReader is one Read or Follow.
type logReader struct {
	stream *memoryStream
	last   *memoryEntry // the last one that was read; nil for none
	id     uint64       // the id of last, or of the newest entry that was deleted before it
	newest uint64       // id of the newest entry at the beginning
}

// reader begins to read a stream after the entry with an id.
func (m *memory) reader(ctx context.Context, stream string, after uint64) (*logReader, error) {
	if err := m.lock(ctx, stream); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	m.dropAged()
	s := m.log.streams[stream]
	var last *memoryEntry
	if after > 0 {
		if s != nil {
			last = s.last
		}
		for last != nil && last.ID > after {
			last = last.previous
		}
		if last == nil || last.ID != after {
			return nil, ErrPurged
		}
	}
	s = m.log.open(stream)
	s.readers++
	r := &logReader{stream: s, last: last, id: max(after, s.purged)}
	if s.last != nil {
		r.newest = s.last.ID
	}
	return r, nil
}

func (m *memory) endReader(r *logReader) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.stream.readers--
	m.log.closeUnused(r.stream)
}

// next returns some of the next entries of a stream. If there are none, it returns a channel
// that is closed by the next Append. The caller must not modify the data.
func (m *memory) next(r *logReader) (entries []Entry, appended <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropAged()
	var e *memoryEntry
	switch {
	case r.last != nil && r.last.stream != nil:
		e = r.last.next
	case r.id < r.stream.purged:
		return nil, nil, ErrPurged
	default:
		e = r.stream.first
	}
	const most = 64 // bounds the memory that a slow reader holds
	for ; e != nil && len(entries) < most; e = e.next {
		entries = append(entries, e.Entry)
		r.last, r.id = e, e.ID
	}
	if entries == nil {
		if r.stream.appended == nil {
			r.stream.appended = make(chan struct{})
		}
		appended = r.stream.appended
	}
	return entries, appended, nil
}

// dropAged deletes the entries that are older than the limit.
func (m *memory) dropAged() {
	oldest := m.now() - m.limits.LogAge
	for e := m.log.ring.newer; e != m.log.ring && e.added <= oldest; e = m.log.ring.newer {
		m.log.drop(e)
	}
}

// open returns a stream. The caller must add an entry or a reader.
func (l *memoryLog) open(name string) *memoryStream {
	s := l.streams[name]
	if s == nil {
		s = &memoryStream{name: strings.Clone(name)} // the name may be part of a long string
		l.streams[s.name] = s
		l.bytes += s.size()
	}
	return s
}

// closeUnused removes a stream if it has neither entries nor readers.
func (l *memoryLog) closeUnused(s *memoryStream) {
	if s.count == 0 && s.readers == 0 {
		delete(l.streams, s.name)
		l.bytes -= s.size()
	}
}

// add adds the newest entry.
func (l *memoryLog) add(s *memoryStream, e *memoryEntry) {
	if s.last == nil {
		s.first = e
	} else {
		s.last.next, e.previous = e, s.last
	}
	s.last = e
	s.count++
	e.stream = s
	e.older, e.newer = l.ring.older, l.ring
	e.older.newer, e.newer.older = e, e
	l.bytes += e.size()
}

// drop removes the oldest entry of its stream.
func (l *memoryLog) drop(e *memoryEntry) {
	s := e.stream
	if s.first = e.next; s.first == nil {
		s.last = nil
	} else {
		s.first.previous = nil
	}
	s.count--
	s.purged = e.ID
	e.older.newer, e.newer.older = e.newer, e.older
	e.stream, e.next, e.older, e.newer = nil, nil, nil, nil // a reader may retain e
	l.bytes -= e.size()
	l.closeUnused(s)
}
