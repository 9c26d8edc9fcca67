package store_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// The replicas of the tests are one store.
func TestMemory(t *testing.T) {
	storetest.RunVirtual(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		m := newMemory(t, &store.MemoryOptions{Limits: limits})
		return storetest.Engine{Connect: func() store.Store { return m }}
	})
}

// newMemory returns a store that the end of the test closes.
func newMemory(t testing.TB, opts *store.MemoryOptions) store.Store {
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
