package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fixed is a result that has something of everything.
func fixed() *Result {
	entry := func(name string, samples ...Sample) EntryResult {
		return EntryResult{Name: name, Samples: samples, Median: medians(samples)}
	}
	return &Result{
		Machine: Machine{
			Date: "2026-01-02", Commit: "abc1234", Processor: "Abacus", Cores: 2, System: "linux/amd64", Go: "go1.26",
			Modules: map[string]string{official: "v1", other: "v2"}, Rounds: 3, Time: 100 * time.Millisecond,
		},
		Contests: []ContestResult{
			{Name: "call, pipe", Table: callsTable, Entries: []EntryResult{
				entry(ours, Sample{Rate: 12_345, Allocs: 12, Bytes: 800}),
				entry(official, Sample{Rate: 1_000, Allocs: 300, Bytes: 2048}),
				entry(other, Sample{Rate: 2_000_000, Allocs: 1.25, Bytes: 3 << 20, Lost: 0.125}),
				entry(bare, Sample{Rate: 24_690}),
			}},
			{Name: "idle", Table: idleTable, Entries: []EntryResult{
				entry(ours, Sample{Bytes: 1500}), {Name: official, Failure: "it fell over"}, entry(other, Sample{Bytes: 3000}), entry(bare),
			}},
			{Name: "call, stdio", Table: callsTable, Entries: []EntryResult{
				entry(ours, Sample{Rate: 50}, Sample{Rate: 10}, Sample{Rate: 20}), entry(official, Sample{Rate: 1}, Sample{Rate: 10}, Sample{Rate: 2}),
				entry(other), entry(bare),
			}},
			{Name: "more tools", Table: growthTable, Entries: []EntryResult{
				entry("small", Sample{Rate: 10}), entry("large", Sample{Rate: 9.5}),
			}},
		},
		Verdicts: []Verdict{
			{Goal: faster("call, stdio", 5), Got: 10, Met: true},
			{Goal: near("call, pipe", 0.75), Got: 0.5},
			{Goal: Goal{Contest: "idle", Entry: ours, Measure: Memory, AtMost: 1024}, Got: 1500, Broken: true},
		},
	}
}

const fixedText = `2026-01-02 at commit abc1234: Abacus, 2 cores, linux/amd64, go1.26; go-sdk v1, mcp-go v2; medians of 3 rounds of 100ms.

### Goals

| contest | measure | goal | result | |
|---|---|--:|--:|---|
| call, stdio | rate to the best rival | at least 5.00× | 10.0× | met |
| call, pipe | rate of dovetail to wire | at least 0.75× | 0.50× | missed |
| idle | memory | at most 1.0 KB | 1.5 KB | **broken** |

### Typed calls

|  | dovetail | go-sdk | mcp-go | wire | to the best rival | to wire |
|---|--:|--:|--:|--:|--:|--:|
| call, pipe | 12.3k/s · 12 · 800 B | 1000/s · 300 · 2.0 KB | 2.00M/s · 1.2 · 3.0 MB · lossy: 12.5% | 24.7k/s · 0 · 0 B | 0.01× | 0.50× |
| call, stdio | 20/s · 0 · 0 B | 2/s · 0 · 0 B | – | – | 10.0× | – |

### Memory of the server for each idle session

|  | dovetail | go-sdk | mcp-go | wire | to the best rival | to wire |
|---|--:|--:|--:|--:|--:|--:|
| idle | 1.5 KB | failed | 2.9 KB | – | 0.50× | – |

### Growth

|  | small | large | large to small |
|---|--:|--:|--:|
| more tools | 10/s · 0 · 0 B | 9.5/s · 0 · 0 B | 0.95× |
`

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	markdown(&b, fixed())
	if diff := cmp.Diff(fixedText, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWriteReadme(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	const around = "before\n" + resultsBegin + "%s" + resultsEnd + "after\n"
	if err := os.WriteFile(path, []byte(strings.Replace(around, "%s", "old\n", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once more makes no difference
		if err := writeReadme(path, fixed()); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(around, "%s", "\n"+fixedText+"\n", 1)
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeReadme(path, fixed()); err == nil {
		t.Error("there are no marks")
	}
}

// README.md of this program has the marks.
func TestReadmeMarks(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range []string{resultsBegin, resultsEnd} {
		if bytes.Count(text, []byte(mark)) != 1 {
			t.Errorf("there is not one %q", mark)
		}
	}
}

// The results in README.md say when they were measured, and have only rows that the program writes.
func TestReadmeIsCurrent(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), resultsBegin)
	results, _, ok := strings.Cut(rest, resultsEnd)
	if !ok {
		t.Fatal("README.md has no results")
	}
	if !regexp.MustCompile(`^\s*\d{4}-\d\d-\d\d at commit [0-9a-f]{7,}: `).MatchString(results) {
		t.Errorf("the results do not begin with their date and commit: %.80q", results)
	}
	known := map[string]bool{"": true, "contest": true, "---": true} // headings and lines below them
	for _, c := range contests() {
		known[c.Name] = true
	}
	for _, g := range goals() {
		v := Verdict{Goal: g}
		known[strings.Join([]string{v.Contest, v.what(), v.want()}, " | ")] = true
	}
	section := ""
	for line := range strings.Lines(results) {
		if title, ok := strings.CutPrefix(line, "### "); ok {
			section = strings.TrimSpace(title)
		}
		cells := strings.Split(line, "|")
		if len(cells) < 2 {
			continue
		}
		row := strings.TrimSpace(cells[1])
		if section == "Goals" && row != "contest" && row != "---" {
			row = strings.TrimSpace(cells[1] + "|" + cells[2] + "|" + cells[3])
		}
		if !known[row] {
			t.Errorf("the program does not write the row %q", row)
		}
	}
}
