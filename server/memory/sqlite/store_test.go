package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/memorytest"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
)

func TestStore(t *testing.T) {
	memorytest.Run(t, func(t *testing.T) memory.Store { return open(t, newPath(t), nil) })
}

func TestStoreLimits(t *testing.T) {
	memorytest.RunLimits(t, func(t *testing.T, limits *memory.Limits) memory.Store {
		return open(t, newPath(t), &sqlite.Options{Limits: limits})
	})
}

func TestStoreReopen(t *testing.T) {
	memorytest.RunReopen(t, func(t *testing.T, folder string, limits *memory.Limits) memory.Store {
		return open(t, filepath.Join(folder, "memory.db"), &sqlite.Options{Limits: limits})
	})
}

// benchStore returns a store with a thousand conversations.
func benchStore(b *testing.B) *sqlite.Store {
	store := open(b, newPath(b), nil)
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
		if _, err := store.Load(b.Context(), conversations(), key(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	store := benchStore(b)
	for b.Loop() {
		if _, err := store.List(b.Context(), conversations(), memory.Query{Limit: 100}); err != nil {
			b.Fatal(err)
		}
	}
}
