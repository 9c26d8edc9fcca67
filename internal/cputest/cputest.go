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
	// maxRatio is between 2, for linear time, and 4, for quadratic time.
	maxRatio = 3
	// Noise adds to some rounds, so the least times of several rounds count.
	minRounds, maxRounds = 3, 10
)

// WantLinear fails the test if run takes much more than twice the CPU time for twice the
// size. It passes on systems that do not measure CPU time. A call of run with the size should
// take at least a tenth of a millisecond.
func WantLinear(t testing.TB, what string, size int, run func(size int)) {
	t.Helper()
	once, twice := Time(func() { run(size) }), Time(func() { run(2 * size) })
	for round := 1; round < minRounds || twice > maxRatio*once && round < maxRounds; round++ {
		once = min(once, Time(func() { run(size) }))
		twice = min(twice, Time(func() { run(2 * size) }))
	}
	t.Logf("%s: %v, and %v for twice the size", what, once, twice)
	if twice > maxRatio*once {
		t.Errorf("%s: the CPU time is %v, and %v for twice the size", what, once, twice)
	}
}
