package streamable

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/racetest"
)

// A model is a slow store that has one list and recounts everything.
type model struct {
	limits MemoryLimits
	events []modelEvent
}

type modelEvent struct {
	id StreamID
	StoredEvent
	tooBig bool
	since  time.Time
}

func (m *model) of(id StreamID) (events []modelEvent) {
	for _, e := range m.events {
		if e.id == id {
			events = append(events, e)
		}
	}
	return events
}

// drop removes the first event that fits.
func (m *model) drop(fits func(e modelEvent) bool) bool {
	for i, e := range m.events {
		if fits(e) {
			m.events = append(m.events[:i:i], m.events[i+1:]...)
			return true
		}
	}
	return false
}

func (m *model) bytes() int64 {
	sum := 0
	streams := map[StreamID]bool{}
	for _, e := range m.events {
		sum += eventOverhead + len(e.Message)
		if !streams[e.id] {
			streams[e.id] = true
			sum += streamOverhead + len(e.id.Session) + len(e.id.Stream)
		}
	}
	return int64(sum)
}

func (m *model) age() {
	for m.drop(func(e modelEvent) bool { return time.Since(e.since) >= m.limits.Age }) {
		continue
	}
}

func (m *model) append(id StreamID, event StoredEvent) bool {
	m.age()
	known := m.of(id)
	if event.Number < 1 || len(known) > 0 && event.Number != known[len(known)-1].Number+1 {
		return false
	}
	ofStream := func(e modelEvent) bool { return e.id == id }
	added := modelEvent{id: id, StoredEvent: event, since: time.Now()}
	if int64(eventOverhead+len(event.Message)) > m.limits.Bytes {
		added.tooBig, added.Message = true, nil
		for m.drop(ofStream) {
			continue
		}
	}
	m.events = append(m.events, added)
	for len(m.of(id)) > m.limits.EventsPerStream {
		m.drop(ofStream)
	}
	for m.bytes() > m.limits.Bytes {
		m.drop(func(modelEvent) bool { return true })
	}
	return true
}

// after returns false for ErrPurged.
func (m *model) after(id StreamID, after int64) (events []StoredEvent, ok bool) {
	m.age()
	known := m.of(id)
	if len(known) == 0 || max(after, 0) < known[0].Number-1 {
		return nil, false
	}
	for _, e := range known {
		if e.Number > after {
			if e.tooBig {
				return nil, false
			}
			events = append(events, e.StoredEvent)
		}
	}
	return events, true
}

func (m *model) forget(session string) {
	for m.drop(func(e modelEvent) bool { return e.id.Session == session }) {
		continue
	}
}

// Each four bytes of data are one step: operation, stream, number or age, and size.
func FuzzMemoryEvents(f *testing.F) {
	f.Add([]byte{0, 1, 0, 3, 0, 1, 0, 3, 6, 1, 0, 0, 6, 1, 1, 0})
	f.Add([]byte{0, 1, 0, 3, 0, 1, 0, 255, 6, 1, 1, 0, 6, 1, 2, 0, 0, 1, 0, 9, 6, 1, 2, 0})
	f.Add([]byte{0, 1, 0, 200, 0, 2, 0, 200, 0, 3, 0, 200, 0, 9, 0, 200, 8, 1, 0, 0, 6, 2, 0, 0})
	f.Add([]byte{0, 5, 9, 1, 9, 0, 200, 0, 0, 5, 0, 1, 9, 0, 200, 0, 6, 5, 9, 0, 9, 0, 200, 0, 6, 5, 8, 0})
	f.Add([]byte{0, 1, 0, 3, 6, 1, 9, 0})
	f.Add(bytes.Repeat([]byte{0, 7, 0, 30}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 400)]
		synctest.Test(t, func(t *testing.T) { compareWithModel(t, data) })
	})
}

func compareWithModel(t *testing.T, data []byte) {
	limits := &MemoryLimits{Bytes: 4000, EventsPerStream: 8, Age: time.Second}
	store := NewMemoryEvents(limits)
	events := store.(*memoryEvents)
	m := &model{limits: *limits}
	last := map[StreamID]int64{}
	for ; len(data) >= 4; data = data[4:] {
		id := StreamID{fmt.Sprint("session ", data[1]>>2%4), fmt.Sprint("stream ", data[1]%4)}
		number := int64(data[2])
		switch data[0] % 10 {
		case 0, 1, 2, 3, 4, 5: // append what follows, or leave out or repeat some
			next := last[id] + 1
			if number > 250 {
				next += number - 253
			}
			event := StoredEvent{next, bytes.Repeat([]byte{data[3]}, int(data[3])*20)}
			err := store.Append(t.Context(), id, event)
			if want := m.append(id, event); (err == nil) != want {
				t.Fatalf("Append(%v, %d): %v, want success: %t", id, next, err, want)
			}
			if err == nil {
				last[id] = next
			}
		case 6, 7:
			after := last[id] - number%16 + 2
			got, err := store.After(t.Context(), id, after)
			want, ok := m.after(id, after)
			if diff := cmp.Diff(want, got); diff != "" || ok != (err == nil) || err != nil && err != ErrPurged {
				t.Fatalf("After(%v, %d): %v, want success: %t; -want +got:\n%s", id, after, err, ok, diff)
			}
		case 8:
			if err := store.Forget(t.Context(), id.Session); err != nil {
				t.Fatal(err)
			}
			m.forget(id.Session)
		case 9:
			wait(time.Duration(number) * 10 * time.Millisecond)
		}
		if m.age(); events.bytes > limits.Bytes || data[0]%10 != 9 && data[0]%10 != 8 && events.bytes != m.bytes() {
			t.Fatalf("%d bytes, want %d, at most %d", events.bytes, m.bytes(), limits.Bytes)
		}
	}
	for session := range 4 {
		store.Forget(t.Context(), fmt.Sprint("session ", session))
	}
	if events.bytes != 0 || len(events.streams) != 0 || len(events.sessions) != 0 || events.ring.newer != &events.ring {
		t.Errorf("of nothing there are %d bytes, %d streams, %d sessions", events.bytes, len(events.streams), len(events.sessions))
	}
}

// wait lets virtual time pass.
func wait(d time.Duration) { <-time.After(d) }

func TestMemoryEventsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryEvents(nil)
		id, other := StreamID{"session", "stream"}, StreamID{"session", "other"}
		keep(t, store, id, 1, `"old"`)
		wait(DefaultEventAge - 1)
		keep(t, store, id, 2, `"new"`)
		replays(t, store, id, 0, `"old"`, `"new"`)
		wait(1)
		replays(t, store, id, 1, `"new"`)
		purged(t, store, id, 0)
		wait(DefaultEventAge - 1)
		purged(t, store, id, 1)
		purged(t, store, id, 2)

		keep(t, store, id, 3, `"again"`)
		wait(DefaultEventAge)
		keep(t, store, other, 1, `"any other"`) // deletes aged events
		if events := store.(*memoryEvents); len(events.streams) != 1 {
			t.Errorf("%d streams are kept, want 1", len(events.streams))
		}
	})
}

func TestMemoryEventsPerStream(t *testing.T) {
	store := NewMemoryEvents(&MemoryLimits{EventsPerStream: 3})
	id, other := StreamID{"session", "stream"}, StreamID{"session", "other"}
	keep(t, store, other, 1, `"other"`)
	for number := range int64(5) {
		keep(t, store, id, number+1, fmt.Sprint(number+1))
	}
	replays(t, store, id, 2, "3", "4", "5")
	replays(t, store, id, 4, "5")
	replays(t, store, id, 5)
	replays(t, store, id, math.MaxInt64)
	purged(t, store, id, 1)
	purged(t, store, id, math.MinInt64)
	replays(t, store, other, 0, `"other"`)
}

// The oldest events are deleted first, whatever their session.
func TestMemoryEventsBytes(t *testing.T) {
	const size = 1000
	message := `"` + strings.Repeat("x", size-2) + `"`
	first, second := StreamID{"1", "stream"}, StreamID{"2", "stream"}
	store := NewMemoryEvents(&MemoryLimits{Bytes: 5*(size+eventOverhead) + 2*(streamOverhead+int64(len("1stream")))})
	keep(t, store, first, 1, message)
	keep(t, store, second, 1, message)
	keep(t, store, first, 2, message)
	keep(t, store, second, 2, message)
	replays(t, store, first, 0, message, message)
	keep(t, store, second, 3, message)
	replays(t, store, first, 0, message, message)
	keep(t, store, second, 4, message)
	purged(t, store, first, 0)
	replays(t, store, first, 1, message)
	replays(t, store, second, 0, message, message, message, message)
}

// An event above the limit deletes earlier events of its stream and no others.
func TestMemoryEventsTooBig(t *testing.T) {
	store := NewMemoryEvents(&MemoryLimits{Bytes: 10_000})
	id, other := StreamID{"session", "stream"}, StreamID{"session", "other"}
	keep(t, store, other, 1, `"other"`)
	keep(t, store, id, 1, `"before"`)
	keep(t, store, id, 2, strings.Repeat("x", 10_000))
	purged(t, store, id, 0)
	purged(t, store, id, 1)
	replays(t, store, id, 2)
	keep(t, store, id, 3, `"behind"`)
	replays(t, store, id, 2, `"behind"`)
	purged(t, store, id, 1)
	replays(t, store, other, 0, `"other"`)

	nothing := NewMemoryEvents(&MemoryLimits{Bytes: 1})
	keep(t, nothing, id, 1, `1`)
	purged(t, nothing, id, 0)
	purged(t, nothing, id, 1)
}

func TestMemoryEventsWithoutLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemoryEvents(&MemoryLimits{Bytes: -1, EventsPerStream: -1, Age: -1})
		id := StreamID{"session", "stream"}
		message := strings.Repeat("x", DefaultEventBytes)
		keep(t, store, id, 1, message)
		for number := int64(2); number <= 2*DefaultEventsPerStream; number++ {
			keep(t, store, id, number, `1`)
		}
		wait(1000 * time.Hour)
		if events, err := store.After(t.Context(), id, 0); err != nil || len(events) != 2*DefaultEventsPerStream {
			t.Errorf("%d events, %v", len(events), err)
		}
	})
}

func TestMemoryEventsNumbers(t *testing.T) {
	store := NewMemoryEvents(nil)
	id := StreamID{"session", "stream"}
	refused := func(number int64, want string) {
		t.Helper()
		if err := store.Append(t.Context(), id, StoredEvent{number, []byte(`1`)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Append of event %d: %v, want an error with %q", number, err, want)
		}
	}
	for _, number := range []int64{0, -1, math.MinInt64} {
		refused(number, "a number from 1")
	}
	keep(t, store, id, math.MaxInt64-1, `"last but one"`)
	keep(t, store, id, math.MaxInt64, `"last"`)
	for _, number := range []int64{0, -1, math.MinInt64} {
		refused(number, "a number from 1")
	}
	for _, number := range []int64{1, math.MaxInt64 - 1, math.MaxInt64} {
		refused(number, "the one after 9223372036854775807")
	}
	replays(t, store, id, math.MaxInt64-2, `"last but one"`, `"last"`)
	replays(t, store, id, math.MaxInt64)
	purged(t, store, id, math.MaxInt64-3)
}

// The heap stays near the limit, however events are distributed.
func TestMemoryEventsHeap(t *testing.T) {
	const limit = 2 << 20
	events := 50_000
	if racetest.Enabled {
		events = 20_000
	}
	for name, id := range map[string]func(i int) (id StreamID, size int){
		"one stream of small events":  func(int) (StreamID, int) { return StreamID{"session", "stream"}, 0 },
		"one stream of large events":  func(int) (StreamID, int) { return StreamID{"session", "stream"}, 20_000 },
		"a stream for each event":     func(i int) (StreamID, int) { return StreamID{"session", fmt.Sprint(i)}, 0 },
		"a session for each event":    func(i int) (StreamID, int) { return StreamID{fmt.Sprint(i), "stream"}, 0 },
		"names cut from requests":     func(i int) (StreamID, int) { return StreamID{fmt.Sprintf("%2000d", i)[1990:], "stream"}, 0 },
		"streams that stay":           func(i int) (StreamID, int) { return StreamID{"session", fmt.Sprint(i % 7000)}, i % 100 },
		"sessions that once were big": onceBig,
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			store := NewMemoryEvents(&MemoryLimits{Bytes: limit, EventsPerStream: -1, Age: -1})
			memory := store.(*memoryEvents)
			for i := range events {
				id, size := id(i)
				number := int64(1)
				if s := memory.streams[id]; s != nil {
					number = s.last.Number + 1
				}
				if err := store.Append(t.Context(), id, StoredEvent{number, make([]byte, size)}); err != nil {
					t.Fatal(err)
				}
			}
			held := heap() - before
			t.Logf("%d streams, %d KiB counted, %d KiB of heap", len(memory.streams), memory.bytes>>10, held>>10)
			if held > limit*5/4 {
				t.Errorf("the heap holds %d bytes, want about %d", held, limit)
			}
			if err := store.Forget(t.Context(), "session"); err != nil {
				t.Error(err)
			}
		})
	}
}

// onceBig fills the store with streams of one session after the other, and sometimes
// extends streams of earlier sessions.
func onceBig(i int) (id StreamID, size int) {
	session := i / 7000
	if i%100 < session {
		return StreamID{fmt.Sprint(i % 100), "stays"}, 0
	}
	return StreamID{fmt.Sprint(session), fmt.Sprint(i)}, 0
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func keep(t *testing.T, store EventStore, id StreamID, number int64, message string) {
	t.Helper()
	if err := store.Append(t.Context(), id, StoredEvent{number, []byte(message)}); err != nil {
		t.Fatalf("Append(%v, %d): %v", id, number, err)
	}
}

func replays(t *testing.T, store EventStore, id StreamID, after int64, want ...string) {
	t.Helper()
	events, err := store.After(t.Context(), id, after)
	if err != nil {
		t.Errorf("After(%v, %d): %v", id, after, err)
		return
	}
	var got []string
	for i, e := range events {
		if e.Number != after+1+int64(i) {
			t.Errorf("After(%v, %d): event %d is at index %d", id, after, e.Number, i)
		}
		got = append(got, string(e.Message))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("After(%v, %d): -want +got:\n%s", id, after, diff)
	}
}

func purged(t *testing.T, store EventStore, id StreamID, after int64) {
	t.Helper()
	if events, err := store.After(t.Context(), id, after); !errors.Is(err, ErrPurged) || len(events) > 0 {
		t.Errorf("After(%v, %d): %d events, %v, want ErrPurged", id, after, len(events), err)
	}
}

// Append allocates only the event and the copy of its message.
func TestMemoryEventsAllocations(t *testing.T) {
	store, id := NewMemoryEvents(nil), StreamID{"session", "stream"}
	message := []byte(`{"jsonrpc":"2.0"}`)
	number := int64(0)
	if n := testing.AllocsPerRun(2000, func() {
		number++
		_ = store.Append(context.Background(), id, StoredEvent{number, message})
	}); n > 2 {
		t.Errorf("%v allocations for an event, want 2", n)
	}
}

func BenchmarkMemoryEventsAppend(b *testing.B) {
	for name, streams := range map[string]int64{"1": 1, "10000": 10_000} {
		b.Run("streams="+name, func(b *testing.B) {
			store := NewMemoryEvents(nil)
			ids := make([]StreamID, streams)
			for i := range ids {
				ids[i] = StreamID{fmt.Sprint("session ", i/10), fmt.Sprint("stream ", i)}
			}
			message := bytes.Repeat([]byte("x"), 200)
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				if err := store.Append(b.Context(), ids[i%streams], StoredEvent{i/streams + 1, message}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A valid event id identifies one event and is formatted unchanged.
func FuzzParseEventID(f *testing.F) {
	named := &stream{name: "ABC234"}
	for _, id := range []string{
		named.eventID(0), named.eventID(1), named.eventID(math.MaxInt64), named.eventID(-1),
		"", "-", "-1", "a-", "a-b", "a-1-2", "a-1x", "a-+1", "a- 1", "a-0x1", "a-1_0", "a-007", "a-9223372036854775808", "\x00-1", "日本-1",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, number, ok := parseEventID(id)
		if !ok {
			if name != "" || number != 0 {
				t.Errorf("%q is refused with %q and %d", id, name, number)
			}
			return
		}
		if name == "" || number < 0 {
			t.Errorf("%q is event %d of stream %q", id, number, name)
		}
		again, same, ok := parseEventID((&stream{name: name}).eventID(number))
		if !ok || again != name || same != number {
			t.Errorf("%q is event %d of stream %q, which reads as %d of %q, %v", id, number, name, same, again, ok)
		}
	})
}
