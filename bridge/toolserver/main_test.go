package toolserver_test

import (
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(serveChild()) // this process is a server that a test has launched
	}
	leaktest.Main(m)
}
