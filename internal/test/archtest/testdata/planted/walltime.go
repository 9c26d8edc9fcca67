// Package planted compares wall time in tests.
package planted

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestUpperLimits(t *testing.T) {
	start := time.Now()
	if time.Since(start) > time.Second { // want "upper limit"
		t.Error("slow")
	}
	took := time.Since(start)
	if time.Second <= took { // want "upper limit"
		t.Error("slow")
	}
	if seconds := took.Seconds(); seconds >= 1 { // want "upper limit"
		t.Error("slow")
	}
	for range 2 {
		if took := time.Since(start); took.Round(time.Second) != 0 { // want "upper limit"
			t.Error("slow")
		}
	}
	t.Run("subtest", func(t *testing.T) {
		if took > time.Second { // want "upper limit"
			t.Error("slow")
		}
	})
}

func TestLowerLimits(t *testing.T) {
	start := time.Now()
	if took := time.Since(start); took < time.Second || time.Second > took {
		t.Error("fast")
	}
}

func TestLoops(t *testing.T) {
	for start := time.Now(); time.Since(start) < time.Second; {
	}
	for start := time.Now(); time.Second > time.Since(start); {
	}
	for deadline := time.Now().Add(time.Second); ; {
		if time.Now().After(deadline) {
			t.Fatal("no event came")
		}
	}
}

func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if time.Since(start) != 0 {
			t.Error("slow")
		}
	})
	twice(t, func(t *testing.T) {
		start := time.Now()
		if took := time.Since(start); took > time.Second {
			t.Error("slow")
		}
	})
}

func twice(t *testing.T, run func(t *testing.T)) {
	virtual(t, run)
	virtual(t, run)
}

func virtual(t *testing.T, run func(t *testing.T)) { synctest.Test(t, run) }

// Other functions may run in virtual time.
func wantImmediately(t *testing.T, start time.Time) {
	if time.Since(start) != 0 {
		t.Error("slow")
	}
}
