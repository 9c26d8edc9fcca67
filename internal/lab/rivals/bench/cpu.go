package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processCPU returns the CPU time of a process; 0 is this one. The clock of another process is only in
// Linux. It is exact, whereas /proc/PID/stat counts ticks of 10 ms.
func processCPU(pid int) (time.Duration, error) {
	const scheduled = 2 // the clock of the scheduler: CPUCLOCK_SCHED
	var now unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|scheduled), &now)
	return time.Duration(now.Nano()), err
}

// totalCPU returns the CPU time of this process and of its children, those that have ended included.
func totalCPU() (time.Duration, error) {
	total, err := processCPU(0)
	if err != nil {
		return 0, err
	}
	var ended syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &ended); err != nil {
		return 0, err
	}
	total += time.Duration(ended.Utime.Nano() + ended.Stime.Nano())
	lists, err := filepath.Glob("/proc/self/task/*/children") // of each thread
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		running, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended, and its children are another's
		}
		for pid := range strings.FieldsSeq(string(running)) {
			id, err := strconv.Atoi(pid)
			if err != nil {
				return 0, err
			}
			used, err := processCPU(id)
			if err != nil {
				continue // the process has ended
			}
			total += used
		}
	}
	return total, nil
}

// A stopwatch decides when a measurement has taken long enough. On a busy machine a time contains few calls, so
// that the CPU time of a process has to reach it too. The limit is for work that mostly uses other processes.
type stopwatch struct {
	start  time.Time
	pid    int
	before time.Duration
}

func startStopwatch(pid int) (stopwatch, error) {
	before, err := processCPU(pid)
	return stopwatch{time.Now(), pid, before}, err
}

func (s *stopwatch) reached(atLeast time.Duration) bool {
	elapsed := time.Since(s.start)
	if elapsed < atLeast || elapsed >= 10*atLeast {
		return elapsed >= atLeast
	}
	used, err := processCPU(s.pid)
	return err != nil || used-s.before >= atLeast
}
