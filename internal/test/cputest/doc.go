// Package cputest compares the CPU time of functions in tests. CPU time does not count what
// other processes and goroutines do, and a ratio does not depend on the speed of the machine.
package cputest
