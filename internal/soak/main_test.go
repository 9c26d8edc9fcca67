package soak

import (
	"fmt"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

// roleVariable makes a process of the test binary what a test needs.
const roleVariable = "SOAK_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleVariable); role {
	case "":
		leak.Main(m)
	case "http server":
		err = serveHTTP()
	case "stdio server":
		err = serveStdio()
	case "bridge":
		err = serveBridge()
	case "bookkeeper":
		err = keepBooks()
	case "client":
		err = beClient()
	case "stdio flood":
		err = floodStdio()
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
