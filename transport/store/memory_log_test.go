package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// open returns a store that the end of the test closes.
func open(t testing.TB, opts *MemoryOptions) *memory {
	t.Helper()
	m, err := NewMemory(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m.(*memory)
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// A model is a slow log that has one list and recounts everything.
type model struct {
	limits  Limits
	entries []modelEntry
}

type modelEntry struct {
	stream string
	id     uint64
	data   string
	since  time.Time
}

// drop removes the first entry that fits.
func (m *model) drop(fits func(e modelEntry) bool) bool {
	i := slices.IndexFunc(m.entries, fits)
	if i >= 0 {
		m.entries = slices.Delete(m.entries, i, i+1)
	}
	return i >= 0
}

func (m *model) of(stream string) (entries []modelEntry) {
	for _, e := range m.entries {
		if e.stream == stream {
			entries = append(entries, e)
		}
	}
	return entries
}

func (m *model) bytes() int64 {
	sum, streams := 0, map[string]bool{}
	for _, e := range m.entries {
		sum += entryOverhead + len(e.data)
		if !streams[e.stream] {
			streams[e.stream] = true
			sum += streamOverhead + len(e.stream)
		}
	}
	return int64(sum)
}

func (m *model) age() {
	for m.drop(func(e modelEntry) bool { return time.Since(e.since) >= m.limits.LogAge }) {
		continue
	}
}

func (m *model) append(stream, data string, id uint64) {
	m.age()
	m.entries = append(m.entries, modelEntry{stream, id, data, time.Now()})
	for len(m.of(stream)) > m.limits.LogEntries {
		m.drop(func(e modelEntry) bool { return e.stream == stream })
	}
	for m.bytes() > m.limits.LogBytes {
		m.drop(func(modelEntry) bool { return true })
	}
}

// read returns false for ErrPurged.
func (m *model) read(stream string, after uint64) (entries []modelEntry, ok bool) {
	m.age()
	ok = after == 0
	for _, e := range m.of(stream) {
		if e.id == after {
			ok = true
		}
		if e.id > after {
			entries = append(entries, e)
		}
	}
	return entries, ok
}

// Each four bytes of data are one step: operation, stream, position or time, and size.
func FuzzMemoryLog(f *testing.F) {
	f.Add([]byte{0, 1, 0, 3, 0, 1, 0, 3, 6, 1, 0, 0, 6, 1, 1, 0})
	f.Add([]byte{0, 1, 0, 3, 0, 1, 0, 255, 6, 1, 1, 0, 6, 1, 2, 0, 0, 1, 0, 9, 6, 1, 2, 0})
	f.Add([]byte{0, 1, 0, 100, 0, 2, 0, 100, 0, 3, 0, 100, 0, 9, 0, 100, 8, 1, 0, 0, 6, 2, 0, 0})
	f.Add([]byte{0, 5, 9, 1, 9, 0, 200, 0, 0, 5, 0, 1, 9, 0, 200, 0, 6, 5, 9, 0, 9, 0, 200, 0, 6, 5, 8, 0})
	f.Add(bytes.Repeat([]byte{0, 7, 0, 30}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = data[:min(len(data), 400)]
		synctest.Test(t, func(t *testing.T) { compareWithModel(t, data) })
	})
}

func compareWithModel(t *testing.T, data []byte) {
	limits := Limits{LogBytes: 4000, LogEntries: 8, LogAge: time.Second}
	m := open(t, &MemoryOptions{Limits: limits})
	want := &model{limits: limits}
	last := map[string]uint64{}
	for ; len(data) >= 4; data = data[4:] {
		stream := fmt.Sprint("stream-", data[1]%12)
		switch data[0] % 10 {
		case 0, 1, 2, 3, 4, 5:
			entry := bytes.Repeat([]byte{data[3]}, int(data[3])*16)
			id, err := m.Append(t.Context(), stream, entry)
			if tooLarge := len(entry) > 4000-entryOverhead-streamOverhead-maxName; tooLarge != errors.Is(err, ErrTooLarge) {
				t.Fatalf("Append(%q) of %d bytes: %v", stream, len(entry), err)
			}
			if err == nil {
				want.append(stream, string(entry), id)
				last[stream] = id
			}
		case 6, 7:
			after := uint64(max(0, int(last[stream])-int(data[2]%16)+2))
			expected, ok := want.read(stream, after)
			var err error
			for entry, failed := range m.Read(t.Context(), stream, after) {
				if err = failed; err != nil {
					break
				}
				if len(expected) == 0 || entry.ID != expected[0].id || string(entry.Data) != expected[0].data {
					t.Fatalf("Read(%q, %d) yields the entry %d, want %v", stream, after, entry.ID, expected)
				}
				expected = expected[1:]
			}
			if ok != (err == nil) || err != nil && err != ErrPurged || ok && len(expected) > 0 {
				t.Fatalf("Read(%q, %d): %v, want success: %t; missing: %v", stream, after, err, ok, expected)
			}
			if m.log.bytes != want.bytes() {
				t.Fatalf("%d bytes, want %d", m.log.bytes, want.bytes())
			}
		case 8:
			if err := m.Drop(t.Context(), stream); err != nil {
				t.Fatal(err)
			}
			for want.drop(func(e modelEntry) bool { return e.stream == stream }) {
				continue
			}
		case 9:
			pass(time.Duration(data[2]) * 10 * time.Millisecond)
		}
		if m.log.bytes > limits.LogBytes {
			t.Fatalf("%d bytes, want at most %d", m.log.bytes, limits.LogBytes)
		}
	}
	for i := range 12 {
		if err := m.Drop(t.Context(), fmt.Sprint("stream-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if m.log.bytes != 0 || len(m.log.streams) != 0 || m.log.ring.newer != m.log.ring {
		t.Errorf("the empty log has %d bytes and %d streams", m.log.bytes, len(m.log.streams))
	}
}

// A stream keeps its newest entries.
func TestLimitLogEntries(t *testing.T) {
	m := open(t, &MemoryOptions{Limits: Limits{LogEntries: 2}})
	var ids []uint64
	for range 3 {
		id, err := m.Append(t.Context(), "1", nil)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if got := readIDs(t, m, "1"); !slices.Equal(got, ids[1:]) {
		t.Errorf("the stream has the entries %d, want %d", got, ids[1:])
	}
}

// An entry is deleted at its age.
func TestLimitLogAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, &MemoryOptions{Limits: Limits{LogAge: time.Second}})
		if _, err := m.Append(t.Context(), "1", nil); err != nil {
			t.Fatal(err)
		}
		pass(time.Second - 1)
		if got := readIDs(t, m, "1"); len(got) != 1 {
			t.Errorf("before its age, the stream has the entries %d", got)
		}
		pass(1)
		if got := readIDs(t, m, "1"); len(got) != 0 {
			t.Errorf("at its age, the stream has the entries %d", got)
		}
	})
}

// The oldest entries are deleted first, whatever their stream.
func TestLimitLogBytes(t *testing.T) {
	const size = 1000
	m := open(t, &MemoryOptions{Limits: Limits{LogBytes: 5*(size+entryOverhead) + 2*(streamOverhead+1)}})
	var ids []uint64
	for _, stream := range []string{"1", "2", "1", "2", "2", "2"} {
		id, err := m.Append(t.Context(), stream, make([]byte, size))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if got := readIDs(t, m, "1"); !slices.Equal(got, ids[2:3]) {
		t.Errorf("the first stream has the entries %d, want %d", got, ids[2:3])
	}
	if got, want := readIDs(t, m, "2"), []uint64{ids[1], ids[3], ids[4], ids[5]}; !slices.Equal(got, want) {
		t.Errorf("the second stream has the entries %d, want %d", got, want)
	}
	if _, err := m.Append(t.Context(), "1", make([]byte, m.limits.LogBytes)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("Append of an entry above the limit: %v", err)
	}
	if got := readIDs(t, m, "1"); !slices.Equal(got, ids[2:3]) {
		t.Errorf("an entry above the limit left the entries %d, want %d", got, ids[2:3])
	}
}

func readIDs(t *testing.T, m *memory, stream string) (ids []uint64) {
	t.Helper()
	for entry, err := range m.Read(t.Context(), stream, 0) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, entry.ID)
	}
	return ids
}

// Readers of streams without entries do not prevent that others are appended.
func TestMemoryLogReadersCount(t *testing.T) {
	m := open(t, &MemoryOptions{Limits: Limits{LogBytes: 1000}})
	var readers []*logReader
	for i := range 10 {
		r, err := m.reader(t.Context(), fmt.Sprint("stream-", i), 0)
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	for range 3 {
		id, err := m.Append(t.Context(), "stream-0", make([]byte, 100))
		if err != nil {
			t.Fatal(err)
		}
		if got := readIDs(t, m, "stream-0"); !slices.Equal(got, []uint64{id}) {
			t.Errorf("the stream has the entries %d, want the last one, %d", got, id)
		}
	}
	for _, r := range readers {
		m.endReader(r)
	}
	if err := m.Drop(t.Context(), "stream-0"); err != nil || m.log.bytes != 0 || len(m.log.streams) != 0 {
		t.Errorf("%d bytes and %d streams are left: %v", m.log.bytes, len(m.log.streams), err)
	}
}

// The heap stays near the limit, however entries are distributed.
func TestMemoryLogHeap(t *testing.T) {
	const limit = 2 << 20
	for name, entry := range map[string]func(i int) (stream string, size int){
		"one stream of small entries": func(int) (string, int) { return "stream", 0 },
		"one stream of large entries": func(i int) (string, int) { return "stream", 20_000 * (i % 20 / 19) },
		"a stream for each entry":     func(i int) (string, int) { return fmt.Sprint(i), 0 },
		"names cut from requests":     func(i int) (string, int) { return fmt.Sprintf("%200d", i+1e9)[190:], 0 },
		"streams that stay":           func(i int) (string, int) { return fmt.Sprint(i % 7000), i % 100 },
	} {
		t.Run(name, func(t *testing.T) {
			before := heapBytes()
			m := open(t, &MemoryOptions{Limits: Limits{LogBytes: limit, LogEntries: math.MaxInt, LogAge: time.Hour}})
			for i := range 25_000 {
				stream, size := entry(i)
				if _, err := m.Append(t.Context(), stream, make([]byte, size)); err != nil {
					t.Fatal(err)
				}
			}
			checkHeap(t, heapBytes()-before, m.log.bytes, limit)
			runtime.KeepAlive(m)
		})
	}
}

func checkHeap(t *testing.T, held, counted, limit int64) {
	t.Helper()
	t.Logf("%d KiB counted, %d KiB of heap", counted>>10, held>>10)
	if held > limit*5/4 {
		t.Errorf("the heap holds %d bytes, want about %d", held, limit)
	}
	if counted > limit || counted < limit*3/4 {
		t.Errorf("%d bytes are counted, the limit is %d", counted, limit)
	}
}

func heapBytes() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Append allocates only the entry and the copy of its data.
func TestMemoryAppendAllocations(t *testing.T) {
	m, data := open(t, nil), []byte(strings.Repeat("x", 128))
	if n := testing.AllocsPerRun(2000, func() {
		if _, err := m.Append(t.Context(), "stream", data); err != nil {
			t.Fatal(err)
		}
	}); n > 2 {
		t.Errorf("%v allocations for an entry, want 2", n)
	}
}
