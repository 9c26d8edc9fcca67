package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

// behaviour is the environment variable that makes this test binary a server, and
// says how it behaves.
const behaviour = "CONFORMANCE_TEST_SERVER"

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviour); how != "" {
		os.Exit(serve(how))
	}
	leak.Main(m)
}

func serve(how string) int {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM)
	if how == "breaks at once" {
		return 3
	}
	fmt.Fprintln(os.Stderr, "something else")
	fmt.Fprintln(os.Stderr, "serving http://127.0.0.1:1/mcp and more")
	if how == "breaks later" {
		return 4
	}
	<-told
	if how == "ends badly" {
		return 5
	}
	return 0
}
