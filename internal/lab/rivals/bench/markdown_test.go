package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fixed returns a result that has something of everything.
func fixed() *Result {
	variant := func(name string, samples ...Sample) VariantResult {
		return VariantResult{Name: name, Samples: samples, Median: medians(samples)}
	}
	const µs = time.Microsecond
	return &Result{
		Machine: Machine{
			Date: "2026-01-02", Commit: "abc1234", Processor: "Abacus", Cores: 2, System: "linux/amd64", Go: "go1.26",
			Modules: map[string]string{official: "v1", other: "v2"}, Schedule: schedule{3, 100 * time.Millisecond},
		},
		Benchmarks: []BenchmarkResult{
			{Name: "clients", Table: loadTable, Variants: []VariantResult{
				variant(ours, Sample{CPU: 34567, Rate: 12_345, P99: 7654 * µs}),
				variant(official, Sample{CPU: 345 * µs, Rate: 1_000, P99: time.Second}),
				variant(other, Sample{CPU: 345670, Rate: 2_000_000, Lost: 0.125}),
				variant(bare, Sample{CPU: 12 * µs, Rate: 24_690}),
			}},
			{Name: "more clients", Table: loadTable, Variants: []VariantResult{
				variant(ours, Sample{CPU: 50}, Sample{CPU: 10}, Sample{CPU: 20}), variant(official, Sample{CPU: 1000}, Sample{CPU: 10}, Sample{CPU: 500}),
				variant(other), variant(bare),
			}},
			{Name: "idle", Table: idleTable, Variants: []VariantResult{
				variant(ours, Sample{Bytes: 1500}), {Name: official, Failure: "it crashed"}, variant(other, Sample{Bytes: 3000}), variant(bare),
			}},
			{Name: "memory", Table: pathsTable, Variants: []VariantResult{
				variant(direct, Sample{CPU: 10 * µs}), variant("proxied", Sample{CPU: 21 * µs}),
			}},
		},
		Verdicts: []Verdict{
			{Goal: toRivals("clients", 0.5), Got: 0.1, Met: true},
			{Goal: toDirect("memory", "proxied", 2), Got: 2.1},
			{Goal: Goal{Benchmark: "idle", Variant: ours, Measure: Size, AtMost: 1600}, Got: 1500, Met: true},
		},
	}
}

const fixedMachine = "2026-01-02 at commit abc1234: Abacus, 2 cores, linux/amd64, go1.26; go-sdk v1, mcp-go v2; medians of 3 rounds of 100ms.\n"

const fixedGoals = fixedMachine + `
| benchmark | measure | at most | result | |
|---|---|--:|--:|---|
| clients | CPU time to the best rival | 0.50 | 0.10 | met |
| memory | CPU time of proxied to direct | 2.00 | 2.10 | **missed** |
| idle | bytes | 1.6 KB | 1.5 KB | met |
`

const fixedResults = fixedMachine + `
### A server under load of 50 clients

|  | dovetail | go-sdk | mcp-go | wire | to the best rival |
|---|--:|--:|--:|--:|--:|
| clients | 34.6µs · 12.3k/s · p99 7.65ms | 345µs · 1000/s · p99 1s | 346µs · 2.00M/s · lossy: 12.5% | 12µs · 24.7k/s | 0.10 |
| more clients | 20ns | 500ns | – | – | 0.050 |

### Memory of the server

|  | dovetail | go-sdk | mcp-go | wire | to the best rival |
|---|--:|--:|--:|--:|--:|
| idle | 1.5 KB | failed | 3.0 KB | – | 0.50 |

### Calls through a proxy or a bridge

|  | direct | proxied |
|---|--:|--:|
| memory | 10µs | 21µs · 2.10× |
`

func TestTables(t *testing.T) {
	for want, tables := range map[string]func(io.Writer, *Result){fixedGoals: goalsTable, fixedResults: resultTables} {
		var b strings.Builder
		tables(&b, fixed())
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestWritePage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	const around = "before\n" + resultsBegin + "%s" + resultsEnd + "after\n"
	if err := os.WriteFile(path, []byte(strings.Replace(around, "%s", "old\n", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		if err := writePage(path, goalsTable, fixed()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(around, "%s", "\n"+fixedGoals+"\n", 1)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writePage(path, goalsTable, fixed()); err == nil {
		t.Error("a file without marks is written")
	}
}

// The tables of the pages say when they were measured, and have only rows that the program writes.
func TestPagesAreCurrent(t *testing.T) {
	results := map[string]bool{"": true, "---": true} // the first cells, with those of headings and of the lines below them
	for _, b := range benchmarks() {
		results[b.Name] = true
	}
	wanted := map[string]bool{"benchmark | measure | at most": true, "---|---|--:": true}
	for _, g := range goals() {
		wanted[strings.Join([]string{g.Benchmark, g.what(), g.text(g.AtMost)}, " | ")] = true
	}
	for page, rows := range map[string]struct {
		known map[string]bool
		cells int // that a row has in known
	}{"README.md": {results, 1}, "GOALS.md": {wanted, 3}} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), resultsBegin)
		tables, _, ok := strings.Cut(rest, resultsEnd)
		if !ok || strings.Count(string(text), resultsBegin)+strings.Count(string(text), resultsEnd) != 2 {
			t.Fatalf("%s does not have %q and %q once", page, resultsBegin, resultsEnd)
		}
		if !regexp.MustCompile(`^\s*\d{4}-\d\d-\d\d at commit [0-9a-f]{7,}: `).MatchString(tables) {
			t.Errorf("%s: the tables do not begin with their date and commit: %.80q", page, tables)
		}
		for line := range strings.Lines(tables) {
			cells := strings.Split(line, "|")
			if len(cells) < 1+rows.cells {
				continue
			}
			if row := strings.TrimSpace(strings.Join(cells[1:1+rows.cells], "|")); !rows.known[row] {
				t.Errorf("%s: the program does not write the row %q", page, row)
			}
		}
	}
}
