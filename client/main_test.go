package client_test

import (
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/everywhere"
)

// TestMain also runs this binary as the server of the tests that need a process.
func TestMain(m *testing.M) {
	if log := os.Getenv(executionLog); log != "" {
		os.Exit(serveNotary(log))
	}
	everywhere.Main(m)
}
