package task_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/transport/store"
)

func BenchmarkStart(b *testing.B) {
	memory, err := store.NewMemory(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	tasktest.BenchmarkStart(b, memory)
}
