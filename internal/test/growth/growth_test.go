//go:build soak

package growth

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

var write = flag.String("write", "", "replace the table in this page of docs")

// A row is an operation that is measured while there are n, 4n and 16n of something.
type row struct {
	// of is what there are n of, in the plural.
	of string
	// operation is what is measured.
	operation string
	n         int
	// whole says that the operation handles all of them, so that its cost is divided by their number.
	whole bool
	// reason is why the cost may grow by more than most. Without one it may not.
	reason string
	// prepare makes n of them and returns the operation. What they hold is released by tb.Cleanup.
	prepare func(tb testing.TB, n int) (operation func())
}

// outsideCache is the reason of rows whose allocations do not grow, and whose CPU time grows in some measurements.
const outsideCache = "the data of more of them do not fit in the caches of the processor"

// most is how much the cost may grow from n to 16n.
const most = 1.5

// A cost is that of one operation, or of one item if the operation handles all.
type cost struct {
	cpu         time.Duration
	allocations float64
}

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestCostsDoNotGrow(t *testing.T) {
	// Which of several processors wakes a goroutine decides about half of the cost of some operations.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rows := slices.Concat(serverRows(), bridgeRows())
	measured := make([][3]cost, len(rows))
	measure := func(i, times int) {
		t.Run(rows[i].of+"/"+rows[i].operation, func(t *testing.T) { measured[i] = rows[i].median(t, times) })
	}
	for i := range rows {
		measure(i, 1)
	}
	// What else the machine does disturbs a measurement, sometimes for seconds.
	for range 2 {
		for i, row := range rows {
			if row.growsTooMuch(measured[i]) {
				measure(i, 7)
			}
		}
	}
	var table strings.Builder
	table.WriteString("| many | operation | n | CPU time with n, 4n, 16n | allocations | growth | reason |\n|---|---|--:|--:|--:|--:|---|\n")
	for i, row := range rows {
		costs := measured[i]
		if costs[0].cpu == 0 {
			continue // -run has not selected it
		}
		if row.growsTooMuch(costs) {
			t.Errorf("%s of %s: the cost grows by %.2f from %d to %d, expected at most %.1f: %v", row.operation, row.of, grown(costs), row.n, 16*row.n, most, costs)
		}
		perItem := ""
		if row.whole {
			perItem = ", per item"
		}
		fmt.Fprintf(&table, "| %s | %s%s | %d | %v, %v, %v | %.0f, %.0f, %.0f | %.2f | %s |\n", row.of, row.operation, perItem, row.n,
			short(costs[0].cpu), short(costs[1].cpu), short(costs[2].cpu),
			costs[0].allocations, costs[1].allocations, costs[2].allocations, grown(costs), cmp.Or(row.reason, "–"))
	}
	t.Log("\n" + table.String())
	if *write != "" && !t.Failed() {
		replaceTable(t, *write, table.String())
	}
}

// growsTooMuch reports whether the costs grow by more than most, and there is no reason.
func (r row) growsTooMuch(costs [3]cost) bool { return r.reason == "" && grown(costs) > most }

// median measures several times, and returns the costs of the measurement whose growth is the median.
func (r row) median(t *testing.T, times int) [3]cost {
	all := make([][3]cost, times)
	for i := range all {
		all[i] = r.measure(t)
	}
	slices.SortFunc(all, func(a, b [3]cost) int { return cmp.Compare(grown(a), grown(b)) })
	return all[times/2]
}

// measure returns the costs with n, 4n and 16n.
func (r row) measure(t *testing.T) (costs [3]cost) {
	for i, n := range []int{r.n, 4 * r.n, 16 * r.n} {
		t.Run(fmt.Sprint(n), func(t *testing.T) { costs[i] = r.measureWith(t, n) })
	}
	if t.Failed() {
		t.FailNow()
	}
	return costs
}

// grown returns by how much CPU time or allocations grow, whichever grows more.
func grown(costs [3]cost) float64 {
	cpu := float64(costs[2].cpu) / float64(costs[0].cpu)
	// A few more allocations are a larger buffer or a map that has grown.
	return max(cpu, (costs[2].allocations-2)/max(costs[0].allocations, 1))
}

func (r row) measureWith(t *testing.T, n int) cost {
	operation := r.prepare(t, n)
	operation()
	repeat := 1
	for ; repeat < 1<<20; repeat *= 2 {
		if used, _ := measured(operation, repeat); used > 10*time.Millisecond {
			break
		}
	}
	least := cost{cpu: 1 << 62, allocations: 1 << 62}
	for range 5 {
		cpu, allocations := measured(operation, repeat)
		least.cpu = min(least.cpu, cpu)
		least.allocations = min(least.allocations, float64(allocations))
	}
	times := float64(repeat)
	if r.whole {
		times *= float64(n)
	}
	return cost{cpu: time.Duration(float64(least.cpu) / times), allocations: least.allocations / times}
}

// measured returns the CPU time and the allocations of the process.
func measured(operation func(), repeat int) (time.Duration, uint64) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := processTime()
	for range repeat {
		operation()
	}
	used := processTime() - began
	runtime.ReadMemStats(&after)
	return used, after.Mallocs - before.Mallocs
}

func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// short rounds a time to three digits.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit)
}

const tableStart, tableEnd = "<!-- costs -->\n", "<!-- end of costs -->"

func replaceTable(t *testing.T, page, table string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableStart)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		t.Fatalf("%s has no lines %q and %q", page, tableStart, tableEnd)
	}
	if err := os.WriteFile(page, []byte(before+tableStart+"\n"+table+"\n"+tableEnd+after), 0o666); err != nil {
		t.Fatal(err)
	}
}
