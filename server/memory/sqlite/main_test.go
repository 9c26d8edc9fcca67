package sqlite_test

import (
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(taskVariable); task != "" {
		runTask(task) // in a process of its own
		return
	}
	leak.Main(m)
}
