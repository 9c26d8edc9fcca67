package schema

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Memory limits the memory and the processors that validations use at a time. Validators share it with
// [Validator.WithMemory] or [CompileOptions.Memory]. It is safe for concurrent use.
//
// Large instances wait for each other, in the order of arrival, so that they do not delay small ones.
// Instances of more than 32 KiB are validated on all processors but one (runtime.GOMAXPROCS). Before an
// instance is decoded or remembered in part, its memory is estimated from its bytes. If the estimate is
// more than 64 KiB, the validation waits until so much memory is free.
type Memory struct {
	size  int64
	free  *semaphore.Weighted // bytes; nil: no limit
	slots *semaphore.Weighted // of large instances
}

// NewMemory returns a Memory of size bytes. 0 means 48 MiB. A negative size means no limit,
// which is unsafe: an instance of n bytes can use 100n bytes and more.
func NewMemory(size int64) *Memory {
	if size == 0 {
		size = defaultMaxMemory
	}
	m := &Memory{size: size}
	if size > 0 {
		m.free = semaphore.NewWeighted(size)
		m.slots = semaphore.NewWeighted(max(int64(runtime.GOMAXPROCS(0))-1, 1))
	}
	return m
}

const (
	maxSmall  = 32 << 10 // bytes of an instance that does not wait for others
	uncounted = 64 << 10 // the largest estimate that is not counted
)

// enter waits until an instance of n bytes can be validated. leave must follow. The error is the cause
// of the end of ctx.
func (m *Memory) enter(ctx context.Context, n int) error {
	if n > maxSmall && m.slots != nil && m.slots.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (m *Memory) leave(n int) {
	if n > maxSmall && m.slots != nil {
		m.slots.Release(1)
	}
}

// has reports whether a validation can take n bytes.
func (m *Memory) has(n int64) bool { return m.free == nil || n <= max(m.size, uncounted) }

// acquire waits for n bytes. The error is a [*BudgetError], or the cause of the end of ctx.
func (m *Memory) acquire(ctx context.Context, n int64) error {
	if !m.has(n) {
		return &BudgetError{Reason: fmt.Sprintf("validating the value takes more than %d bytes of memory", m.size)}
	}
	if m.isCounted(n) && m.free.Acquire(ctx, n) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// release returns n bytes that were acquired.
func (m *Memory) release(n int64) {
	if m.isCounted(n) {
		m.free.Release(n)
	}
}

func (m *Memory) isCounted(n int64) bool { return m.free != nil && n > uncounted }

// Estimates of memory in bytes, from the sizes of Go's values on 64-bit machines.
const (
	slotSize      = 16  // one item of a []any
	boxSize       = 16  // a string or a number in an any
	arraySize     = 36  // the header of a []any in an any, and its size while it is decoded
	objectSize    = 64  // an empty map, and its size while it is decoded
	groupSize     = 336 // the members of a map with up to 8
	memberSize    = 80  // one member of a larger map
	nameSize      = 112 // one name that is kept to find duplicates
	keyListSize   = 64  // one name that is kept to add defaults
	hashSize      = 8   // one item that is compared with the others
	canonicalSize = 3   // one byte of an item that is compared with the others
	errorSize     = 256 // one error of the general validator
	verdictSize   = 128 // one error of the general validator if only the verdict is needed
	trackedSize   = 48  // one part of a value, if unevaluated parts are found
	distinctSize  = 96  // one item, if the general validator searches equal items
)

// A measurement is what validating an instance takes.
type measurement struct {
	depth   int   // of arrays and objects
	items   int64 // of all arrays
	decoded int64 // the bytes of the decoded instance
	names   int64 // the bytes of the names that are kept at a time
}

// measure reads an instance once and allocates nothing. It returns an error if the text is not JSON.
func measure(instance []byte) (measurement, error) {
	m := measurement{decoded: int64(len(instance))}
	s := jsonscan.New(instance)
	names, err := m.value(&s, 1)
	m.names = names
	if err == nil {
		err = s.End()
	}
	return m, err
}

// value measures one value and returns the bytes of the names that are kept while it is read.
func (m *measurement) value(s *jsonscan.Scanner, depth int) (names int64, err error) {
	var more bool
	count := 0
	switch s.Kind() {
	case jsonscan.Array:
		m.depth = max(m.depth, depth)
		if err := s.EnterArray(); err != nil {
			return names, err
		}
		for ; ; count++ {
			if more, err = s.Element(count == 0); err != nil || !more {
				m.items += int64(count)
				m.decoded += arraySize + slotSize*int64(count)
				return names, err
			}
			inner, err := m.value(s, depth+1)
			if err != nil {
				return names, err
			}
			names = max(names, inner)
		}
	case jsonscan.Object:
		m.depth = max(m.depth, depth)
		if err := s.EnterObject(); err != nil {
			return names, err
		}
		for ; ; count++ {
			if _, more, err = s.Member(count == 0); err != nil || !more {
				m.decoded += mapSize(count)
				return names + (nameSize+keyListSize)*int64(count), err
			}
			inner, err := m.value(s, depth+1)
			if err != nil {
				return names, err
			}
			names = max(names, inner)
		}
	case jsonscan.Number, jsonscan.String:
		m.decoded += boxSize
	}
	_, err = s.Value()
	return 0, err
}

// mapSize returns the size of a map with n members.
func mapSize(n int) int64 {
	switch {
	case n == 0:
		return objectSize
	case n <= 8:
		return objectSize + groupSize
	}
	return objectSize + groupSize + memberSize*int64(n)
}

// decodeAny decodes valid JSON and keeps the text of numbers. Names, numbers and strings without
// escapes share one copy of the text.
func decodeAny(text []byte) any {
	d := anyDecoder{text: string(text), s: jsonscan.New(text)}
	ahead := d.s
	d.count(&ahead)
	return d.value()
}

type anyDecoder struct {
	text  string
	s     jsonscan.Scanner
	sizes []int32 // of the arrays and objects that are not decoded yet, in the order of their beginnings
}

// count appends the sizes of the arrays and objects of the next value, so that each is allocated in
// its size.
func (d *anyDecoder) count(s *jsonscan.Scanner) {
	at := len(d.sizes)
	switch s.Kind() {
	case jsonscan.Array:
		d.sizes = append(d.sizes, 0)
		_ = s.EnterArray()
		for n := 0; ; n++ {
			if more, _ := s.Element(n == 0); !more {
				d.sizes[at] = int32(n)
				return
			}
			d.count(s)
		}
	case jsonscan.Object:
		d.sizes = append(d.sizes, 0)
		_ = s.EnterObject()
		for n := 0; ; n++ {
			if _, more, _ := s.Member(n == 0); !more {
				d.sizes[at] = int32(n)
				return
			}
			d.count(s)
		}
	}
	_, _ = s.Value()
}

func (d *anyDecoder) value() any {
	switch d.s.Kind() {
	case jsonscan.Array:
		list := make([]any, d.size())
		_ = d.s.EnterArray()
		for i := 0; ; i++ {
			if more, _ := d.s.Element(i == 0); !more {
				return list
			}
			list[i] = d.value()
		}
	case jsonscan.Object:
		members := make(map[string]any, d.size())
		_ = d.s.EnterObject()
		for first := true; ; first = false {
			key, more, _ := d.s.Member(first)
			if !more {
				return members
			}
			from := d.s.KeyOffset()
			name := d.unquote(key, from)
			members[name] = d.value()
		}
	case jsonscan.Number:
		raw, _ := d.s.Number()
		return json.Number(d.text[d.s.Offset()-len(raw) : d.s.Offset()])
	case jsonscan.String:
		raw, _ := d.s.String()
		return d.unquote(raw, d.s.Offset()-len(raw))
	case jsonscan.Bool:
		raw, _ := d.s.Value()
		return string(raw) == "true"
	default:
		_, _ = d.s.Value()
		return nil
	}
}

// size returns the size of the array or object that is decoded next.
func (d *anyDecoder) size() int32 {
	n := d.sizes[0]
	d.sizes = d.sizes[1:]
	return n
}

// unquote returns the text of a raw string at an offset.
func (d *anyDecoder) unquote(raw []byte, from int) string {
	text := d.text[from+1 : from+len(raw)-1]
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	return jsonscan.Unquote(raw)
}
