package task_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/transport/store"
)

func TestForgedTasksInMemory(t *testing.T) {
	racetest.Skip(t)
	for name, seal := range map[string]func(store.Store) (store.Store, error){
		"plain":  func(s store.Store) (store.Store, error) { return s, nil },
		"sealed": func(s store.Store) (store.Store, error) { return store.Sealed(s, make([]byte, 32)) },
	} {
		t.Run(name, func(t *testing.T) {
			tasktest.Forge(t, func(t *testing.T, limits store.Limits) store.Store {
				memory, err := store.NewMemory(&store.MemoryOptions{Limits: limits})
				if err == nil {
					t.Cleanup(func() { memory.Close() })
					memory, err = seal(memory)
				}
				if err != nil {
					t.Fatal(err)
				}
				return memory
			})
		})
	}
}
