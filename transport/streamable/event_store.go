package streamable

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
)

// StreamID identifies an event stream of a session. Stream names are random and never
// reused.
type StreamID struct {
	Session string
	Stream  string
}

// StoredEvent is one message of a stream. The numbers of a stream's events are consecutive,
// beginning with 1.
type StoredEvent struct {
	Number  int64
	Message json.RawMessage
}

// ErrPurged means that events after the requested one are not stored, so that nothing can
// be replayed without a gap.
var ErrPurged = errors.New("the events after the requested one are no longer stored")

// EventStore stores the events of sessions' streams, so that a client that lost its
// connection can receive them later (Last-Event-ID, versions 2025-03-26 to 2025-11-25). It
// may delete events at any time, oldest first, and must then return [ErrPurged]: it never
// omits an event between others.
//
// It must be safe for concurrent use. The events of one stream are appended one after the
// other. Package storetest tests an implementation.
type EventStore interface {
	// Append stores a copy of an event. The first event of a stream may have any number
	// from 1, since the store may have lost earlier ones. A later number that does not
	// follow the last one is an error.
	Append(ctx context.Context, stream StreamID, event StoredEvent) error
	// After returns the events of a stream with a number greater than after, oldest first.
	// It returns none if there are no newer ones, and [ErrPurged] if any of them is not
	// stored or the stream is unknown. The caller must not modify the messages.
	After(ctx context.Context, stream StreamID, after int64) ([]StoredEvent, error)
	// Forget deletes all events of a session, if it has any.
	Forget(ctx context.Context, session string) error
}

// Defaults of [MemoryLimits].
const (
	// DefaultEventBytes is the maximum memory in bytes for the events of all sessions.
	DefaultEventBytes = 10 << 20
	// DefaultEventsPerStream is the maximum number of events of one stream.
	DefaultEventsPerStream = 1000
	// DefaultEventAge is how long an event is stored.
	DefaultEventAge = 5 * time.Minute
)

// Sizes of the bookkeeping in bytes, which count toward MemoryLimits.Bytes.
const (
	eventOverhead  = 112
	streamOverhead = 288 // of the only stream of a session
)

// MemoryLimits bounds a store in memory. Zero values mean the defaults, negative values
// mean no limit.
type MemoryLimits struct {
	// Bytes is the maximum memory in bytes for all events, including bookkeeping. A longer
	// event is not stored, and its stream can be resumed only after it. Default
	// [DefaultEventBytes].
	Bytes int64
	// EventsPerStream is the maximum number of events of one stream. Default
	// [DefaultEventsPerStream].
	EventsPerStream int
	// Age is how long an event is stored. Older events are never returned. Their memory is
	// freed when the store is used next. Default [DefaultEventAge].
	Age time.Duration
}

func (l *MemoryLimits) withDefaults() MemoryLimits {
	limits := *cmp.Or(l, &MemoryLimits{})
	return MemoryLimits{
		Bytes:           limit(limits.Bytes, DefaultEventBytes, math.MaxInt64),
		EventsPerStream: limit(limits.EventsPerStream, DefaultEventsPerStream, math.MaxInt),
		Age:             limit(limits.Age, DefaultEventAge, math.MaxInt64),
	}
}

// limit returns byDefault for a limit of 0, and none for a negative one.
func limit[T int | int64 | time.Duration](value, byDefault, none T) T {
	if value < 0 {
		return none
	}
	return cmp.Or(value, byDefault)
}

// NewMemoryEvents returns a store in memory. limits may be nil. The store deletes the
// oldest event first, whichever session it belongs to, and a stream with its last event.
func NewMemoryEvents(limits *MemoryLimits) EventStore {
	m := &memoryEvents{
		limits:   limits.withDefaults(),
		streams:  map[StreamID]*memoryStream{},
		sessions: map[string]*memoryStream{},
	}
	m.ring.older, m.ring.newer = &m.ring, &m.ring
	return m
}

// memoryEvents consists of linked lists and two maps of bounded size. Maps or slices for each
// session or stream would not shrink.
type memoryEvents struct {
	limits MemoryLimits

	mu       sync.Mutex
	streams  map[StreamID]*memoryStream
	sessions map[string]*memoryStream // any stream of the session
	ring     memoryEvent              // sentinel of the list of all events: newer is the oldest, older the newest
	bytes    int64                    // of all events and streams
}

// A memoryStream has at least one event.
type memoryStream struct {
	id          StreamID
	first, last *memoryEvent
	count       int
	left, right *memoryStream // list of the streams of its session
}

type memoryEvent struct {
	StoredEvent
	tooBig       bool // the message is not stored, and earlier events of the stream are deleted
	added        time.Time
	stream       *memoryStream
	next         *memoryEvent // of the stream
	older, newer *memoryEvent // of all events
}

func (s *memoryStream) cost() int64 {
	return int64(streamOverhead + len(s.id.Session) + len(s.id.Stream))
}

func (e *memoryEvent) cost() int64 { return int64(eventOverhead + len(e.Message)) }

func (m *memoryEvents) Append(_ context.Context, id StreamID, event StoredEvent) error {
	e := &memoryEvent{StoredEvent: event, added: time.Now()}
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
		m.drop(m.ring.newer)
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

// dropAged drops the events that are older than the limit.
func (m *memoryEvents) dropAged() {
	for e := m.ring.newer; e != &m.ring && time.Since(e.added) >= m.limits.Age; e = m.ring.newer {
		m.drop(e)
	}
}

// open adds a stream. The caller adds its first event.
func (m *memoryEvents) open(id StreamID) *memoryStream {
	// The names may be parts of a long string, which must not be retained.
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

// close removes a stream without events.
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

// add adds the newest event.
func (m *memoryEvents) add(s *memoryStream, e *memoryEvent) {
	if s.count == 0 {
		s.first = e
	} else {
		s.last.next = e
	}
	s.last = e
	s.count++
	e.stream = s
	e.older, e.newer = m.ring.older, &m.ring
	e.older.newer, e.newer.older = e, e
	m.bytes += e.cost()
}

// drop removes the oldest event of its stream.
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
