package config_test

import (
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

// childVariable makes the test binary a server; see child.
const childVariable = "CONFIG_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	leaktest.Main(m)
}
