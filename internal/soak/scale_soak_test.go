//go:build soak

package soak

import (
	"os"
	"strconv"
	"testing"
)

// oversize is how much is sent where a few MiB are allowed.
const oversize = 256 << 20

// partVariable holds the number of parts of which one is run.
const partVariable = "DOVETAIL_SOAK_PART"

// scaled is how often a test does what it does.
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
