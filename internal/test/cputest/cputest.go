package cputest

import (
	"runtime"
	"testing"
	"time"
)

// Time calls run and returns the CPU time of its goroutine, or 0 on systems that do not
// measure it.
func Time(run func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	run()
	return threadTime() - before
}

const (
	// factor is how much larger the larger size is.
	factor = 4
	// maxRatio is between 4, for linear time, and 16, for quadratic time.
	maxRatio = 8
	// Noise adds to some rounds, so the least times of several rounds count.
	minRounds, maxRounds = 3, 20
)

// WantLinear fails the test if the CPU time of run grows much more than the size: if four times
// the size takes more than eight times as long. It passes on systems that do not measure CPU
// time. A call of run with the size should take at least a tenth of a millisecond.
func WantLinear(t testing.TB, what string, size int, run func(size int)) {
	t.Helper()
	small, large := Time(func() { run(size) }), Time(func() { run(factor * size) })
	for round := 1; round < minRounds || large > maxRatio*small && round < maxRounds; round++ {
		small = min(small, Time(func() { run(size) }))
		large = min(large, Time(func() { run(factor * size) }))
	}
	t.Logf("%s: %v, and %v for %d times the size", what, small, large, factor)
	if large > maxRatio*small {
		t.Errorf("%s: the CPU time is %v, and %v for %d times the size", what, small, large, factor)
	}
}
