package streamable

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

// Defaults of [MemoryLimits].
const (
	// DefaultEventBytes is how much memory the events of all sessions take.
	DefaultEventBytes = 10 << 20
	// DefaultEventsPerStream is how many events of one stream are kept.
	DefaultEventsPerStream = 1000
	// DefaultEventAge is how long an event is kept.
	DefaultEventAge = 5 * time.Minute
)

// What is counted for bookkeeping, so that the limit holds however small events
// are and however many streams they are spread over.
const (
	eventOverhead  = 112
	streamOverhead = 288 // with the session of a stream that is its only one
)

// MemoryLimits bound what a store in memory keeps. Zero values mean the defaults;
// negative ones, no limit.
type MemoryLimits struct {
	// Bytes is how much memory all events together may take, messages and
	// bookkeeping. An event that would take more by itself is not kept; its
	// stream can then be continued only from behind it. Default
	// [DefaultEventBytes].
	Bytes int64
	// EventsPerStream is how many events of one stream are kept. Default
	// [DefaultEventsPerStream].
	EventsPerStream int
	// Age is how long an event is kept; one that is older is never returned.
	// Its memory is freed when the store is next used. Default
	// [DefaultEventAge].
	Age time.Duration
}

func (l *MemoryLimits) withDefaults() MemoryLimits {
	var limits MemoryLimits
	if l != nil {
		limits = *l
	}
	return MemoryLimits{
		Bytes:           limit(limits.Bytes, DefaultEventBytes, math.MaxInt64),
		EventsPerStream: limit(limits.EventsPerStream, DefaultEventsPerStream, math.MaxInt),
		Age:             limit(limits.Age, DefaultEventAge, math.MaxInt64),
	}
}

func limit[T int | int64 | time.Duration](value, byDefault, none T) T {
	if value < 0 {
		return none
	}
	return cmp.Or(value, byDefault)
}

// NewMemoryEvents returns a store that keeps events in memory, within limits: nil
// means the defaults. What is oldest goes first, whichever session it belongs to;
// a stream is unknown again when its last event has gone.
func NewMemoryEvents(limits *MemoryLimits) EventStore {
	m := &memoryEvents{
		limits:   limits.withDefaults(),
		streams:  map[StreamID]*memoryStream{},
		sessions: map[string]*memoryStream{},
	}
	m.ends.older, m.ends.newer = &m.ends, &m.ends
	return m
}

// memoryEvents is made of lists and of two maps that are never larger than limits
// allow: a map or a slice for each session or stream would keep the size that it
// once had, and a session or stream is easily kept.
type memoryEvents struct {
	limits MemoryLimits

	mu       sync.Mutex
	streams  map[StreamID]*memoryStream
	sessions map[string]*memoryStream // one stream of each
	ends     memoryEvent              // of the ring of all events: newer is the oldest, older the newest
	bytes    int64                    // of all events and streams
}

// A memoryStream has at least one event.
type memoryStream struct {
	id          StreamID
	first, last *memoryEvent
	count       int
	left, right *memoryStream // the ring of its session's streams
}

type memoryEvent struct {
	StoredEvent
	tooBig       bool // to be kept: its message is gone, and so is what was before it
	since        time.Time
	stream       *memoryStream
	next         *memoryEvent // of the stream
	older, newer *memoryEvent // of all events
}

func (s *memoryStream) cost() int64 {
	return int64(streamOverhead + len(s.id.Session) + len(s.id.Stream))
}

func (e *memoryEvent) cost() int64 { return int64(eventOverhead + len(e.Message)) }

func (m *memoryEvents) Append(_ context.Context, id StreamID, event StoredEvent) error {
	e := &memoryEvent{StoredEvent: event, since: time.Now()}
	e.tooBig = e.cost() > m.limits.Bytes
	if e.tooBig {
		e.Message = nil
	} else {
		e.Message = bytes.Clone(event.Message)
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropAged()
	s := m.streams[id]
	switch {
	case e.Number < 1:
		return fmt.Errorf("event %d of a stream: expected a number from 1", e.Number)
	case s == nil:
		s = m.open(id)
	case e.Number-1 != s.last.Number:
		return fmt.Errorf("event %d of a stream: expected the one after %d", e.Number, s.last.Number)
	}
	m.add(s, e)
	for s.count > m.limits.EventsPerStream || e.tooBig && s.first != e {
		m.drop(s.first)
	}
	for m.bytes > m.limits.Bytes {
		m.drop(m.ends.newer)
	}
	return nil
}

func (m *memoryEvents) After(_ context.Context, id StreamID, after int64) ([]StoredEvent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropAged()
	s := m.streams[id]
	if s == nil {
		return nil, ErrPurged
	}
	after = max(after, 0)
	if after < s.first.Number-1 || after < s.first.Number && s.first.tooBig {
		return nil, ErrPurged
	}
	if after >= s.last.Number {
		return nil, nil
	}
	events := make([]StoredEvent, 0, s.last.Number-after)
	for e := s.first; e != nil; e = e.next {
		if e.Number > after {
			events = append(events, e.StoredEvent)
		}
	}
	return events, nil
}

func (m *memoryEvents) Forget(_ context.Context, session string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := m.sessions[session]; s != nil; s = m.sessions[session] {
		m.drop(s.first)
	}
	return nil
}

// dropAged comes before whatever uses the events.
func (m *memoryEvents) dropAged() {
	for e := m.ends.newer; e != &m.ends && time.Since(e.since) >= m.limits.Age; e = m.ends.newer {
		m.drop(e)
	}
}

// open makes a stream. The caller adds its first event.
func (m *memoryEvents) open(id StreamID) *memoryStream {
	// What the names were cut from, a whole request perhaps, is not kept for them.
	id = StreamID{Session: strings.Clone(id.Session), Stream: strings.Clone(id.Stream)}
	s := &memoryStream{id: id}
	s.left, s.right = s, s
	if other := m.sessions[id.Session]; other != nil {
		s.left, s.right = other, other.right
		s.left.right, s.right.left = s, s
	} else {
		m.sessions[id.Session] = s
	}
	m.streams[id] = s
	m.bytes += s.cost()
	return s
}

// close removes a stream that has no events any more.
func (m *memoryEvents) close(s *memoryStream) {
	s.left.right, s.right.left = s.right, s.left
	if s.right == s {
		delete(m.sessions, s.id.Session)
	} else {
		m.sessions[s.id.Session] = s.right
	}
	delete(m.streams, s.id)
	m.bytes -= s.cost()
}

// add adds the newest event of all.
func (m *memoryEvents) add(s *memoryStream, e *memoryEvent) {
	if s.count == 0 {
		s.first = e
	} else {
		s.last.next = e
	}
	s.last = e
	s.count++
	e.stream = s
	e.older, e.newer = m.ends.older, &m.ends
	e.older.newer, e.newer.older = e, e
	m.bytes += e.cost()
}

// drop removes an event, the oldest of its stream.
func (m *memoryEvents) drop(e *memoryEvent) {
	s := e.stream
	s.first = e.next
	s.count--
	e.older.newer, e.newer.older = e.newer, e.older
	m.bytes -= e.cost()
	if s.count == 0 {
		m.close(s)
	}
}
