package cputest_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/cputest"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A recorder is a test that records whether it has failed.
type recorder struct {
	testing.TB
	failed string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Errorf(format string, args ...any) { r.failed = fmt.Sprintf(format, args...) }

func work(steps int) (sum int) {
	for i := range steps {
		sum += i ^ sum<<1
	}
	return sum
}

func TestWantLinear(t *testing.T) {
	for name, test := range map[string]struct {
		steps  func(size int) int
		linear bool
	}{
		"constant":       {func(int) int { return 1e6 }, true},
		"linear":         {func(size int) int { return size * 1e3 }, true},
		"n log n":        {func(size int) int { return size * 100 * len(fmt.Sprintf("%b", size)) }, true},
		"quadratic":      {func(size int) int { return size * size / 4 }, false},
		"almost a cubic": {func(size int) int { return size * size * size / 4000 }, false},
	} {
		r := &recorder{TB: t}
		sum := 0
		cputest.WantLinear(r, name, 1000, func(size int) { sum += work(test.steps(size)) })
		if linear := r.failed == ""; linear != test.linear && (runtime.GOOS == "linux" || test.linear) {
			t.Errorf("%s: linear is %t, want %t: %s (%d)", name, linear, test.linear, r.failed, sum)
		}
	}
}
