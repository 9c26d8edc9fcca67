//go:build soak

package soak

import (
	"os"
	"strconv"
	"testing"
)

// oversize is the length of an oversized message, in bytes.
const oversize = 256 << 20

// fullRun reports whether times are checked.
const fullRun = true

// partVariable holds a divisor for the counts of the tests.
const partVariable = "DOVETAIL_SOAK_PART"

// scaled returns a count for a test: full, or a part of it.
func scaled(t testing.TB, small, full int) int {
	t.Helper()
	text := os.Getenv(partVariable)
	if text == "" {
		return full
	}
	parts, err := strconv.Atoi(text)
	if err != nil || parts < 1 {
		t.Fatalf("%s is %q, expected a number from 1", partVariable, text)
	}
	return max(small, full/parts)
}
