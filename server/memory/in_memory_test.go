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
		t.Error("a store took limits that were set after it was made")
	}
}

// Size must not promise more room than there is: bookkeeping counts.
func TestSizeCoversWhatARecordTakes(t *testing.T) {
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
				counted = leaveOneOfMany(t, store, records/100)
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

func TestWhatWasDeletedTakesNoMemory(t *testing.T) {
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

// leaveOneOfMany fills collections and empties them, but for one record of each.
func leaveOneOfMany(t *testing.T, store *memory.MapStore, collections int) (counted int64) {
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

func TestAdmitRefusesOnlyWhatGrows(t *testing.T) {
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
	if err := defaults.Admit(facts("", "u"), memory.Usage{Records: memory.DefaultFacts}, 1, 1); err == nil || !strings.Contains(err.Error(), "at most 200 facts about one user") {
		t.Errorf("the defaults admit one fact too many: %v", err)
	}
}
