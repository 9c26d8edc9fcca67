package memory_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/memorytest"
)

func TestMapStore(t *testing.T) {
	memorytest.Run(t, func(*testing.T) memory.Store { return memory.InMemory(nil) })
	memorytest.RunLimits(t, func(_ *testing.T, limits *memory.Limits) memory.Store { return memory.InMemory(limits) })
}

func conversations(owner string) memory.Collection {
	return memory.Collection{Owner: owner, Kind: memory.Conversations}
}

func facts(owner, user string) memory.Collection {
	return memory.Collection{Owner: owner, Kind: memory.Facts, User: user}
}

func save(t *testing.T, store memory.Store, in memory.Collection, key, value string) {
	t.Helper()
	if err := store.Save(t.Context(), in, memory.Record{Key: key, Value: value}); err != nil {
		t.Fatal(err)
	}
}

func TestLimitsAreCopied(t *testing.T) {
	limits := &memory.Limits{Conversations: 1}
	store := memory.InMemory(limits)
	limits.Conversations = 2
	save(t, store, conversations(""), "c1", "")
	if err := store.Save(t.Context(), conversations(""), memory.Record{Key: "c2"}); err == nil {
		t.Error("the store uses changes of its limits")
	}
}

// Size includes the bookkeeping, so that limits bound the memory used.
func TestSizeCoversMemory(t *testing.T) {
	const records, noise = 5000, 64 << 10
	for name, in := range map[string]func(i int) (memory.Collection, string){
		"one collection":    func(i int) (memory.Collection, string) { return conversations(""), fmt.Sprintf("%08d", i) },
		"a collection each": func(i int) (memory.Collection, string) { return facts("", fmt.Sprintf("%08d", i)), "k" },
		"an owner each":     func(i int) (memory.Collection, string) { return conversations(fmt.Sprintf("%08d", i)), "k" },
		"one left of many":  nil,
		"pieces of messages": func(i int) (memory.Collection, string) {
			return conversations(""), fmt.Sprintf("%08d%01000d", i, 0)[:8]
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := memory.InMemory(&memory.Limits{Conversations: -1, Facts: -1, OwnerBytes: -1, TotalBytes: -1})
			before := heap()
			var counted int64
			if in == nil {
				counted = deleteAllButOne(t, store, records/100)
			} else {
				for i := range records {
					of, key := in(i)
					save(t, store, of, key, "")
					counted += memory.Size(of, memory.Record{Key: key})
				}
			}
			taken := int64(heap() - before)
			t.Logf("%d bytes counted, %d taken", counted, taken)
			if taken > counted*5/4+noise {
				t.Errorf("%d bytes are taken, %d counted", taken, counted)
			}
			runtime.KeepAlive(store)
		})
	}
}

func TestDeleteReleasesMemory(t *testing.T) {
	store := memory.InMemory(nil)
	before := heap()
	for i := range 5000 {
		in := conversations(fmt.Sprint(i))
		save(t, store, in, "key", "")
		if _, err := store.Delete(t.Context(), in, "key"); err != nil {
			t.Fatal(err)
		}
	}
	if taken := int64(heap() - before); taken > 64<<10 {
		t.Errorf("nothing is left, and takes %d bytes", taken)
	}
	runtime.KeepAlive(store)
}

// deleteAllButOne fills collections and deletes all records except one of each.
func deleteAllButOne(t *testing.T, store memory.Store, collections int) (counted int64) {
	for i := range collections {
		in := facts("", fmt.Sprintf("%08d", i))
		for key := range 1000 {
			save(t, store, in, fmt.Sprint(key), "")
		}
		for key := range 999 {
			if _, err := store.Delete(t.Context(), in, fmt.Sprint(key)); err != nil {
				t.Fatal(err)
			}
		}
		counted += memory.Size(in, memory.Record{Key: "999"})
	}
	return counted
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestAdmit(t *testing.T) {
	limits := &memory.Limits{Conversations: 2, OwnerBytes: 10, TotalBytes: 20}
	for _, test := range []struct {
		have    memory.Usage
		records int
		bytes   int64
		of      string
	}{
		{memory.Usage{}, 1, 10, ""},
		{memory.Usage{}, 1, 11, "bytes in one memory"},
		{memory.Usage{Records: 1}, 1, 0, ""},
		{memory.Usage{Records: 2}, 1, 0, "conversations"},
		{memory.Usage{Records: 3}, 0, 10, ""},
		{memory.Usage{OwnerBytes: 5, TotalBytes: 15}, 1, 5, ""},
		{memory.Usage{OwnerBytes: 5, TotalBytes: 16}, 1, 5, "bytes in all memories together"},
		{memory.Usage{OwnerBytes: 11, TotalBytes: 21}, 0, 0, ""},
		{memory.Usage{OwnerBytes: 11, TotalBytes: 21}, 0, -1, ""},
		{memory.Usage{OwnerBytes: 11, TotalBytes: 21}, 0, 1, "bytes in one memory"},
		{memory.Usage{OwnerBytes: 1}, 1, math.MaxInt64, "bytes in one memory"},
	} {
		err := limits.Admit(conversations(""), test.have, test.records, test.bytes)
		full, refused := errors.AsType[*memory.FullError](err)
		if refused != (test.of != "") || refused && full.Of != test.of {
			t.Errorf("Admit(%+v, %d, %d) is %v, want %q", test.have, test.records, test.bytes, err, test.of)
		}
	}
	var defaults *memory.Limits
	if err := defaults.Admit(facts("", "u"), memory.Usage{Records: 200}, 1, 1); err == nil || !strings.Contains(err.Error(), "at most 200 facts about one user") {
		t.Errorf("the defaults admit one fact too many: %v", err)
	}
}

// manyKeys fills a store with a thousand conversations and returns their ids.
func manyKeys(tb testing.TB, store memory.Store) []string {
	tb.Helper()
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprintf("conversation %03d", i)
		if err := store.Save(tb.Context(), conversations("ann"), memory.Record{Key: keys[i], Value: "[]"}); err != nil {
			tb.Fatal(err)
		}
	}
	return keys
}

func TestLoadDoesNotAllocate(t *testing.T) {
	store := memory.InMemory(nil)
	keys := manyKeys(t, store)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := store.Load(t.Context(), conversations("ann"), keys[500]); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}

func BenchmarkMapStore(b *testing.B) {
	store := memory.InMemory(nil)
	keys := manyKeys(b, store)
	b.Run("Save", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := store.Save(b.Context(), conversations("ann"), memory.Record{Key: keys[i%1000], Value: "[1]"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Load", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := store.Load(b.Context(), conversations("ann"), keys[i%1000]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("List", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := store.List(b.Context(), conversations("ann"), memory.Query{Limit: 100}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkCall(b *testing.B) {
	session := connect(b, as("ann", memory.New(memory.InMemory(nil), nil)), nil)
	arguments := map[string]string{"user_id": "ann", "key": "city", "value": "Oslo"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := session.CallTool(b.Context(), "save_user_fact", arguments, nil); err != nil {
			b.Fatal(err)
		}
	}
}
