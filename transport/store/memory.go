package store

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// MemoryOptions configures [NewMemory]. Zero values mean the defaults.
type MemoryOptions struct {
	Limits Limits
	// Bytes is the maximum memory in bytes for the values of [KV] and the jobs of [Queue],
	// including bookkeeping. A value or job for which there is no room is refused with
	// [ErrFull]. The ids that a queue remembers for [DuplicateWindow] count too. Default
	// 64 MiB.
	Bytes int64
}

// defaultMemoryBytes is the default of [MemoryOptions].Bytes.
const defaultMemoryBytes = 64 << 20

// memoryTimeout is how long Request of a memory waits for a reply.
const memoryTimeout = 5 * time.Second

// A Memory is a [Store] in the memory of one process. All parts of the process that use the same Memory share its
// state, which is lost when the process ends. Its methods may be called concurrently. No method waits, except Watch,
// Follow and Pull, which wait until their context ends, and Request, which waits up to 5 seconds for a reply.
//
// Expired data is deleted when the store is used next. A watcher that is late by more than 10,000 deleted keys
// gets an error.
type memory struct {
	limits   Limits
	maxBytes int64
	start    time.Time     // times are durations since then
	closed   chan struct{} // closed by Close
	handlers sync.WaitGroup

	mu     sync.Mutex
	bytes  int64 // of values, jobs and remembered ids
	kv     memoryKV
	log    memoryLog
	queues memoryQueues
	bus    map[string][]*subscription // by subject
}

var _ Store = (*memory)(nil)

// NewMemory returns an empty store in memory. opts may be nil. It returns an error for an
// option out of range. The caller must call Close.
func NewMemory(opts *MemoryOptions) (Store, error) {
	o := *cmp.Or(opts, &MemoryOptions{})
	limits, err := o.Limits.WithDefaults()
	if err != nil {
		return nil, err
	}
	if set(&o.Bytes, defaultMemoryBytes); o.Bytes < 1 {
		return nil, fmt.Errorf("store: MemoryOptions.Bytes is %d, expected at least 1", o.Bytes)
	}
	return &memory{
		limits:   limits,
		maxBytes: o.Bytes,
		start:    time.Now(),
		closed:   make(chan struct{}),
		kv:       newMemoryKV(),
		log:      newMemoryLog(),
		queues:   newMemoryQueues(),
		bus:      map[string][]*subscription{},
	}, nil
}

// Close ends all waits with [ErrClosed], and waits for the subscribers' calls of handle in
// progress. Handle must not call it. Operations on a closed store return ErrClosed. Close returns
// nil.
func (m *memory) Close() error {
	m.mu.Lock()
	if !m.isClosed() {
		close(m.closed)
		for _, subscriptions := range m.bus {
			for _, s := range subscriptions {
				s.cancel()
			}
		}
	}
	m.mu.Unlock()
	m.handlers.Wait()
	return nil
}

func (m *memory) isClosed() bool {
	select {
	case <-m.closed:
		return true
	default:
		return false
	}
}

// lock begins an operation on a name. If it returns no error, the caller must unlock m.mu.
func (m *memory) lock(ctx context.Context, name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.isClosed() {
		m.mu.Unlock()
		return ErrClosed
	}
	return nil
}

// wait waits for an event or a time. A nil channel is not waited for.
func (m *memory) wait(ctx context.Context, event <-chan struct{}, at <-chan time.Time) error {
	select {
	case <-event:
		return nil
	case <-at:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.closed:
		return ErrClosed
	}
}

func (m *memory) now() time.Duration { return time.Since(m.start) }

// longest limits durations before they are added to a time, which must not overflow.
const longest = 100 * 365 * 24 * time.Hour

func later(now, d time.Duration) time.Duration { return now + min(d, longest) }

// reserve replaces memory of values, jobs and remembered ids.
func (m *memory) reserve(now time.Duration, size, replaced int64) error {
	if size > m.maxBytes {
		return ErrTooLarge
	}
	const few = 64 // bounds how long one operation takes
	m.sweep(now, few)
	if m.bytes-replaced+size > m.maxBytes {
		m.sweep(now, math.MaxInt)
	}
	if m.bytes-replaced+size > m.maxBytes {
		return ErrFull
	}
	m.bytes += size - replaced
	return nil
}

// sweep deletes up to limit values and up to limit ids that have expired.
func (m *memory) sweep(now time.Duration, limit int) {
	for range limit {
		if len(m.kv.expiries) == 0 || !m.kv.expiries[0].expired(now) {
			break
		}
		m.remove(m.kv.expiries[0])
	}
	for range limit {
		if len(m.queues.order) == 0 || !m.queues.order[0].expired(now) {
			break
		}
		m.forgetOldest()
	}
}

// A schedule is a heap of elements; the first is the one with the earliest time, and the one
// with the lowest number among equals.
type schedule[T interface{ entry() *scheduled }] []T

// scheduled is the part of an element that its schedule uses.
type scheduled struct {
	at     time.Duration
	number uint64
	index  int // in the schedule, or -1
}

func (s *scheduled) entry() *scheduled { return s }

// add adds or moves an element.
func (s *schedule[T]) add(element T) {
	if i := element.entry().index; i >= 0 {
		heap.Fix(s, i)
	} else {
		heap.Push(s, element)
	}
}

// drop removes an element, if the schedule has it.
func (s *schedule[T]) drop(element T) {
	if i := element.entry().index; i >= 0 {
		heap.Remove(s, i)
	}
}

func (s schedule[T]) Len() int { return len(s) }

func (s schedule[T]) Less(i, j int) bool {
	a, b := s[i].entry(), s[j].entry()
	return a.at < b.at || a.at == b.at && a.number < b.number
}

func (s schedule[T]) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].entry().index, s[j].entry().index = i, j
}

// Push implements [heap.Interface].
func (s *schedule[T]) Push(x any) {
	element := x.(T)
	element.entry().index = len(*s)
	*s = append(*s, element)
}

// Pop implements [heap.Interface].
func (s *schedule[T]) Pop() any {
	last := len(*s) - 1
	element := (*s)[last]
	clear((*s)[last:])
	*s = (*s)[:last]
	element.entry().index = -1
	return element
}
