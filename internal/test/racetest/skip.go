package racetest

import "testing"

// Skip skips a test if the race detector is on. It is for tests of what the detector changes, such as allocations, and for those
// that take ten times as long with it, because they read megabytes, and share nothing between goroutines.
func Skip(t testing.TB) {
	t.Helper()
	if Enabled {
		t.Skip("runs without the race detector")
	}
}
