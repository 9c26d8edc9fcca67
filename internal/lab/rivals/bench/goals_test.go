package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// resultOf returns a result in which we use 10 µs and 1,000 bytes in each round, and the others these numbers of
// microseconds.
func resultOf(others ...[]time.Duration) *BenchmarkResult {
	r := &BenchmarkResult{Name: "benchmark", Variants: []VariantResult{{Name: ours}, {Name: official}, {Name: other}}}
	for range others[0] {
		r.Variants[0].Samples = append(r.Variants[0].Samples, Sample{CPU: 10 * time.Microsecond, Bytes: 1000})
	}
	for i, rounds := range others {
		for _, cpu := range rounds {
			r.Variants[i+1].Samples = append(r.Variants[i+1].Samples, Sample{CPU: cpu * time.Microsecond, Bytes: 2000})
		}
	}
	for i := range r.Variants {
		r.Variants[i].Median = medians(r.Variants[i].Samples)
	}
	return r
}

func TestJudge(t *testing.T) {
	quarter := toRivals("benchmark", 0.25)
	for name, test := range map[string]struct {
		goal   Goal
		result *BenchmarkResult
		got    float64
		met    bool
	}{
		"met":                               {quarter, resultOf([]time.Duration{40, 50, 100}), 0.2, true},
		"met by the median":                 {quarter, resultOf([]time.Duration{10, 50, 100}), 0.2, true},
		"missed":                            {quarter, resultOf([]time.Duration{20, 20, 100}), 0.5, false},
		"the best rival counts, each round": {quarter, resultOf([]time.Duration{100, 20, 100}, []time.Duration{20, 100, 20}), 0.5, false},
		"bytes met":                         {Goal{"benchmark", ours, Size, nil, 1000}, resultOf([]time.Duration{1}), 1000, true},
		"bytes missed":                      {Goal{"benchmark", ours, Size, nil, 999}, resultOf([]time.Duration{1}), 1000, false},
		"a share of bytes":                  {Goal{"benchmark", ours, Size, rivals(), 0.5}, resultOf([]time.Duration{1}), 0.5, true},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := test.goal.judge(test.result)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(v.Got-test.got) > 1e-9 || v.Met != test.met {
				t.Errorf("got %v, met: %t; want %v, %t", v.Got, v.Met, test.got, test.met)
			}
		})
	}
}

// A goal is missed if we lose notifications.
func TestJudgeLoss(t *testing.T) {
	r := resultOf([]time.Duration{100})
	r.Variants[0].Median.Lost = 0.01
	if v, err := toRivals("benchmark", 0.25).judge(r); err != nil || v.Met {
		t.Errorf("met: %t, %v", v.Met, err)
	}
}

func TestJudgeWithoutResult(t *testing.T) {
	r := resultOf([]time.Duration{1})
	if _, err := toDirect("benchmark", ours, 1).judge(r); err == nil {
		t.Error("nothing to compare with")
	}
	r.Variants[0].Samples = nil
	if _, err := toRivals("benchmark", 1).judge(r); err == nil {
		t.Error("nothing to compare")
	}
}

func TestMissed(t *testing.T) {
	fast, slow := Verdict{Goal: toRivals("fast", 0.5), Got: 0.5, Met: true}, Verdict{Goal: toRivals("slow", 0.5), Got: 0.75}
	if err := missed([]Verdict{fast}); err != nil {
		t.Error(err)
	}
	if err := missed([]Verdict{fast, slow}); err == nil || !strings.Contains(err.Error(), "slow: CPU time to the best rival is 0.75, want at most 0.50") {
		t.Error(err)
	}
}

// Every goal is about variants of a benchmark, and benchmarks have different names.
func TestGoals(t *testing.T) {
	variants := map[string][]string{}
	for _, b := range benchmarks() {
		if variants[b.Name] != nil {
			t.Errorf("two benchmarks are named %q", b.Name)
		}
		for _, v := range b.Variants {
			variants[b.Name] = append(variants[b.Name], v.Name)
		}
	}
	for _, g := range goals() {
		for _, name := range append([]string{g.Variant}, g.Against...) {
			if !slices.Contains(variants[g.Benchmark], name) {
				t.Errorf("%q has no %q", g.Benchmark, name)
			}
		}
		if g.AtMost <= 0 {
			t.Errorf("%q: at most %v", g.Benchmark, g.AtMost)
		}
	}
}

func TestMedians(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{3}, 3}, {[]float64{3, 1}, 2}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 9, 2}, 3},
	} {
		if got := median(test.values); got != test.want {
			t.Errorf("median of %v: %v, want %v", test.values, got, test.want)
		}
	}
	got := medians([]Sample{{CPU: 1, Rate: 5, Bytes: 9, P99: 3}, {CPU: 3, Rate: 1, Bytes: 7, Lost: 1}, {CPU: 2, Rate: 9, Bytes: 8, Lost: 1}})
	if diff := cmp.Diff(Sample{CPU: 2, Rate: 5, Bytes: 8, Lost: 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
