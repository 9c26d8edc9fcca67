package cputest

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of the current thread. getrusage(2) would count it in ticks
// of the scheduler.
func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
