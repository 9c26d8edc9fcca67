package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/memorytest"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
)

func TestStore(t *testing.T) {
	memorytest.Run(t, func(t *testing.T) memory.Store { return open(t, fileOf(t), nil) })
}

func TestStoreKeepsLimits(t *testing.T) {
	memorytest.RunLimits(t, func(t *testing.T, limits *memory.Limits) memory.Store {
		return open(t, fileOf(t), &sqlite.Options{Limits: limits})
	})
}

func TestStoreLasts(t *testing.T) {
	memorytest.RunReopen(t, func(t *testing.T, folder string, limits *memory.Limits) memory.Store {
		return open(t, filepath.Join(folder, "memory.db"), &sqlite.Options{Limits: limits})
	})
}
