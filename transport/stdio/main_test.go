//go:build unix

package stdio_test

import (
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
)

// childVariable makes the test binary a child of the kind that it names.
const childVariable = "STDIO_TEST_CHILD"

func TestMain(m *testing.M) {
	if kind := os.Getenv(childVariable); kind != "" {
		os.Exit(child(kind))
	}
	leak.Main(m)
}
