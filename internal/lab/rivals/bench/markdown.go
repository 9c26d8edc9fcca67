package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// markdown writes a result as tables.
func markdown(out io.Writer, r *Result) {
	fmt.Fprintf(out, "%s.\n", r.Machine.String())
	if len(r.Verdicts) > 0 {
		writeGoals(out, r.Verdicts)
	}
	for rest := r.Contests; len(rest) > 0; {
		table := rest[0].Table
		writeTable(out, table, slices.Collect(func(yield func(ContestResult) bool) {
			for _, c := range rest {
				if c.Table == table && !yield(c) {
					return
				}
			}
		}))
		rest = slices.DeleteFunc(slices.Clone(rest), func(c ContestResult) bool { return c.Table == table })
	}
}

func writeGoals(out io.Writer, verdicts []Verdict) {
	fmt.Fprint(out, "\n### Goals\n\n| contest | measure | goal | result | |\n|---|---|--:|--:|---|\n")
	for _, v := range verdicts {
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s |\n", v.Contest, v.what(), v.want(), v.amount(v.Got), v.word())
	}
}

// what is what is compared.
func (v *Verdict) what() string {
	switch {
	case len(v.Against) == 0:
		return string(v.Measure)
	case slices.Equal(v.Against, rivals()):
		return string(v.Measure) + " to the best rival"
	}
	return fmt.Sprintf("%s of %s to %s", v.Measure, v.Entry, strings.Join(v.Against, ", "))
}

func (v *Verdict) want() string {
	if v.AtMost > 0 {
		return "at most " + v.amount(v.AtMost)
	}
	return "at least " + v.amount(v.AtLeast)
}

func (v *Verdict) amount(value float64) string {
	switch {
	case len(v.Against) > 0:
		return ratioText(value)
	case v.Measure == Memory:
		return bytesText(value)
	}
	return countText(value)
}

func (v *Verdict) word() string {
	switch {
	case v.Broken:
		return "**broken**"
	case v.Met:
		return "met"
	}
	return "missed"
}

// writeTable writes contests that have the same entries.
func writeTable(out io.Writer, title string, contests []ContestResult) {
	head := []string{""}
	for _, e := range contests[0].Entries {
		head = append(head, e.Name)
	}
	ratios := comparisons(&contests[0])
	for _, r := range ratios {
		head = append(head, r.title)
	}
	fmt.Fprintf(out, "\n### %s\n\n", title)
	writeLine(out, head)
	fmt.Fprintf(out, "|---%s|\n", strings.Repeat("|--:", len(head)-1))
	for _, c := range contests {
		m := Rate
		if c.Table == idleTable {
			m = Memory
		}
		line := []string{c.Name}
		for _, e := range c.Entries {
			line = append(line, cell(&e))
		}
		for _, r := range ratios {
			line = append(line, medianText(c.ratios(r.name, r.against, m)))
		}
		writeLine(out, line)
	}
}

func writeLine(out io.Writer, cells []string) {
	fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
}

// A comparison is a column of ratios.
type comparison struct {
	title, name string
	against     []string
}

// comparisons are of the first entry with the others when they are peers, and else of
// the others with the first.
func comparisons(c *ContestResult) []comparison {
	first := c.Entries[0].Name
	if first == ours {
		return []comparison{{"to the best rival", ours, rivals()}, {"to wire", ours, []string{bare}}}
	}
	var all []comparison
	for _, e := range c.Entries[1:] {
		all = append(all, comparison{e.Name + " to " + first, e.Name, []string{first}})
	}
	return all
}

// cell is rate · allocations · bytes.
func cell(e *EntryResult) string {
	switch {
	case e.Failure != "":
		return "failed"
	case len(e.Samples) == 0:
		return "–"
	case e.Median.Rate == 0:
		return bytesText(e.Median.Bytes)
	}
	text := fmt.Sprintf("%s/s · %s · %s", countText(e.Median.Rate), countText(e.Median.Allocs), bytesText(e.Median.Bytes))
	if e.Median.Lost > 0 {
		text += fmt.Sprintf(" · lossy: %.1f%%", 100*e.Median.Lost)
	}
	return text
}

func medianText(ratios []float64) string {
	if len(ratios) == 0 {
		return "–"
	}
	return ratioText(median(ratios))
}

func ratioText(ratio float64) string {
	if ratio >= 10 {
		return fmt.Sprintf("%.1f×", ratio)
	}
	return fmt.Sprintf("%.2f×", ratio)
}

func countText(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n >= 10 || n == float64(int(n)) || n < 0.05:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

func bytesText(n float64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", n/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KB", n/(1<<10))
	}
	return fmt.Sprintf("%.0f B", n)
}
