package main

import (
	"fmt"
	"slices"
	"strings"
)

// A Goal limits a measure of a variant, or its ratio to the best of others.
type Goal struct {
	Benchmark string
	Variant   string
	Measure   Measure
	Against   []string // the variants to compare with; none: the measure itself
	AtMost    float64
}

// A Measure is a member of [Sample] for which less is better.
type Measure string

const (
	CPU  Measure = "CPU time"
	Size Measure = "bytes"
)

// goals returns all goals.
func goals() []Goal {
	all := []Goal{
		toRivals("50 clients, HTTP, legacy", 0.55),
		toRivals("50 clients, HTTP, modern", 0.35),
		toRivals("call 100 B, stdio, legacy", 0.40),
		toRivals("call 100 B, stdio, modern", 0.30),
		toRivals("call 100 B, HTTP, legacy", 0.55),
		toRivals("call 100 B, HTTP, modern", 0.35),
		toRivals("call 1 MB, HTTP, legacy", 1./7),
		toRivals("call 1 MB, HTTP, modern", 1./7),
		toRivals("list 1,000 tools, HTTP, legacy", 0.06),
		toRivals("list 1,000 tools, HTTP, modern", 0.06),
		toRivals("progress, stdio, legacy", 1./6),
		toRivals("progress, HTTP, modern", 1./6),
		toRivals("start to first answer", 1),
		toRivals("register 1,000 tools", 0.85),
		{Benchmark: "idle session, legacy", Variant: ours, Measure: Size, AtMost: 2500},
		{Benchmark: "hello over HTTP", Variant: ours, Measure: Size, AtMost: 10_300_000},
	}
	for _, transport := range []Transport{Pipe, Streamable} {
		for _, upstreams := range upstreamCounts() {
			all = append(all,
				toDirect(pathsName(transport), pathName(Proxied, upstreams), 2.3),
				toDirect(pathsName(transport), pathName(Bridged, upstreams), 2.5))
		}
	}
	return all
}

func rivals() []string { return []string{official, other} }

// toRivals compares our CPU time with that of the best other library.
func toRivals(benchmark string, atMost float64) Goal {
	return Goal{benchmark, ours, CPU, rivals(), atMost}
}

// toDirect compares the CPU time of a call with that of a direct call.
func toDirect(benchmark, variant string, atMost float64) Goal {
	return Goal{benchmark, variant, CPU, []string{direct}, atMost}
}

// A Verdict is the result of a goal.
type Verdict struct {
	Goal
	Got float64 // the median of all rounds
	Met bool
}

// judge compares a result with a goal.
func (g Goal) judge(r *BenchmarkResult) (Verdict, error) {
	own := r.variant(g.Variant)
	if own == nil || len(own.Samples) == 0 {
		return Verdict{}, fmt.Errorf("%s: %s has no result", g.Benchmark, g.Variant)
	}
	got := g.Measure.of(own.Median)
	if len(g.Against) > 0 {
		ratios := r.ratios(g.Variant, g.Against, g.Measure)
		if len(ratios) == 0 {
			return Verdict{}, fmt.Errorf("%s: no result of %v", g.Benchmark, g.Against)
		}
		got = median(ratios)
	}
	return Verdict{Goal: g, Got: got, Met: got <= g.AtMost && own.Median.Lost == 0}, nil
}

// missed returns an error that names the missed goals.
func missed(verdicts []Verdict) error {
	var lines []string
	for _, v := range verdicts {
		if !v.Met {
			lines = append(lines, fmt.Sprintf("%s: %s is %s, want at most %s", v.Benchmark, v.what(), v.text(v.Got), v.text(v.AtMost)))
		}
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("%d of %d goals are missed:\n%s", len(lines), len(verdicts), strings.Join(lines, "\n"))
}

// what returns what is limited.
func (g Goal) what() string {
	switch {
	case len(g.Against) == 0:
		return string(g.Measure)
	case slices.Equal(g.Against, rivals()):
		return string(g.Measure) + " to the best rival"
	}
	return fmt.Sprintf("%s of %s to %s", g.Measure, g.Variant, strings.Join(g.Against, ", "))
}

func (g Goal) text(value float64) string {
	if len(g.Against) > 0 {
		return ratioText(value)
	}
	return bytesText(value)
}
