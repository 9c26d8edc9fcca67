package store_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/leaktest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestMemory(t *testing.T) {
	t.Run("RealTime", func(t *testing.T) { storetest.Run(t, openMemory) })
	t.Run("VirtualTime", func(t *testing.T) { storetest.RunVirtual(t, openMemory) })
}

// openMemory returns an engine whose replicas are one store.
func openMemory(t *testing.T, limits store.Limits) storetest.Engine {
	m := newMemory(t, &store.MemoryOptions{Limits: limits})
	return storetest.Engine{Connect: func() store.Store { return m }}
}

// newMemory returns a store that the end of the test closes.
func newMemory(t testing.TB, opts *store.MemoryOptions) *store.Memory {
	t.Helper()
	m, err := store.NewMemory(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}
