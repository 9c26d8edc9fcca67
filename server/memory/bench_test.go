package memory_test

import (
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
)

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

func TestLoadAllocatesNothing(t *testing.T) {
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
