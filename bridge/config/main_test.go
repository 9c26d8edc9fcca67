package config_test

import (
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

// childVariable makes the test binary a server that tells what it was given.
const childVariable = "CONFIG_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	leak.Main(m)
}
