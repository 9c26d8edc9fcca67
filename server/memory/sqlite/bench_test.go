package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
)

// benchStore has a thousand conversations.
func benchStore(b *testing.B) *sqlite.Store {
	store := open(b, fileOf(b), nil)
	for i := range 1000 {
		if err := save(b.Context(), store, key(i), "[]"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	return store
}

func key(i int) string { return fmt.Sprintf("conversation %03d", i%1000) }

func BenchmarkSave(b *testing.B) {
	store := benchStore(b)
	for i := 0; b.Loop(); i++ {
		if err := save(b.Context(), store, key(i), "[1]"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	store := benchStore(b)
	for i := 0; b.Loop(); i++ {
		if _, err := store.Load(b.Context(), here(), key(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	store := benchStore(b)
	for b.Loop() {
		if _, err := store.List(b.Context(), here(), memory.Query{Limit: 100}); err != nil {
			b.Fatal(err)
		}
	}
}
