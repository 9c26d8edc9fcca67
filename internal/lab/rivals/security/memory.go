package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// peakMemory returns the largest size of a process in memory so far, in MiB. It needs Linux.
func peakMemory(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return kib >> 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no size", pid)
}
