package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

// TestMain is the child process too.
func TestMain(m *testing.M) {
	done, err := runErrand(context.Background(), peers())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if done {
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // by default each child takes a second to end
	leaktest.MainOf(func() int {
		code := m.Run()
		http.DefaultClient.CloseIdleConnections() // of libraries that use it
		return code
	})
}
