package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// goalsTable writes which goals a result meets.
func goalsTable(out io.Writer, r *Result) {
	fmt.Fprintf(out, "%s.\n\n| benchmark | measure | at most | result | |\n|---|---|--:|--:|---|\n", r.Machine.String())
	for _, v := range r.Verdicts {
		met := "met"
		if !v.Met {
			met = "**missed**"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", v.Benchmark, v.what(), v.text(v.AtMost), v.text(v.Got), met)
	}
}

// resultTables writes a result as tables. Where the variants are not peers, a cell has the ratio to the first one.
func resultTables(out io.Writer, r *Result) {
	fmt.Fprintf(out, "%s.\n", r.Machine.String())
	table := ""
	for _, b := range r.Benchmarks {
		first, measure := b.Variants[0].Name, measureOf(&b)
		if b.Table != table {
			table = b.Table
			head := []string{""}
			for _, v := range b.Variants {
				head = append(head, v.Name)
			}
			if first == ours {
				head = append(head, "to the best rival")
			}
			fmt.Fprintf(out, "\n### %s\n\n", table)
			writeLine(out, head)
			fmt.Fprintf(out, "|---%s|\n", strings.Repeat("|--:", len(head)-1))
		}
		line := []string{b.Name}
		for i, v := range b.Variants {
			line = append(line, cell(&v))
			if first != ours && i > 0 {
				line[len(line)-1] += " · " + ratioCell(b.ratios(v.Name, []string{first}, measure)) + "×"
			}
		}
		if first == ours {
			line = append(line, ratioCell(b.ratios(ours, rivals(), measure)))
		}
		writeLine(out, line)
	}
}

func writeLine(out io.Writer, cells []string) {
	fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
}

// measureOf returns the measure that a benchmark is about.
func measureOf(b *BenchmarkResult) Measure {
	if b.Table == idleTable || b.Table == buildTable {
		return Size
	}
	return CPU
}

// cell returns what has been measured: CPU time · rate · p99 · bytes.
func cell(v *VariantResult) string {
	var parts []string
	switch {
	case v.Failure != "":
		return "failed"
	case len(v.Samples) == 0:
		return "–"
	}
	if v.Median.CPU > 0 {
		parts = append(parts, timeText(v.Median.CPU))
	}
	if v.Median.Rate > 0 {
		parts = append(parts, countText(v.Median.Rate)+"/s")
	}
	if v.Median.P99 > 0 {
		parts = append(parts, "p99 "+timeText(v.Median.P99))
	}
	if v.Median.Bytes > 0 {
		parts = append(parts, bytesText(v.Median.Bytes))
	}
	if v.Median.Lost > 0 {
		parts = append(parts, fmt.Sprintf("lossy: %.1f%%", 100*v.Median.Lost))
	}
	return strings.Join(parts, " · ")
}

func ratioCell(ratios []float64) string {
	if len(ratios) == 0 {
		return "–"
	}
	return ratioText(median(ratios))
}

func ratioText(ratio float64) string {
	if ratio < 0.1 {
		return fmt.Sprintf("%.3f", ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}

// timeText returns three digits.
func timeText(d time.Duration) string {
	unit := time.Duration(1)
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

func countText(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}

func bytesText(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2f MB", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f KB", n/1e3)
	}
	return fmt.Sprintf("%.0f B", n)
}

// The tables are between these lines of a page.
const (
	resultsBegin = "<!-- results -->\n"
	resultsEnd   = "<!-- end of results -->\n"
)

// writePage replaces the tables of a page.
func writePage(path string, tables func(out io.Writer, r *Result), r *Result) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(resultsBegin))
	_, after, ended := bytes.Cut(rest, []byte(resultsEnd))
	if !ok || !ended {
		return fmt.Errorf("%s has no lines %q and %q", path, resultsBegin, resultsEnd)
	}
	var b bytes.Buffer
	b.Write(before)
	b.WriteString(resultsBegin + "\n")
	tables(&b, r)
	b.WriteString("\n" + resultsEnd)
	b.Write(after)
	return os.WriteFile(path, b.Bytes(), 0o600)
}
