package main

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// contested is a contest of ours, which does 100 units a second in each round, with
// others at these rates.
func contested(rates ...[]float64) *ContestResult {
	c := &ContestResult{Name: "contest", Entries: []EntryResult{{Name: ours}, {Name: official}, {Name: other}}}
	for range rates[0] {
		c.Entries[0].Samples = append(c.Entries[0].Samples, Sample{Rate: 100, Allocs: 10, Bytes: 1000})
	}
	for i, rounds := range rates {
		for _, rate := range rounds {
			c.Entries[i+1].Samples = append(c.Entries[i+1].Samples, Sample{Rate: rate, Allocs: 40, Bytes: 500})
		}
	}
	for i := range c.Entries {
		c.Entries[i].Median = medians(c.Entries[i].Samples)
	}
	return c
}

func TestJudge(t *testing.T) {
	atLeast4 := faster("contest", 4)
	halfTime := Goal{Contest: "contest", Entry: ours, Measure: Time, Against: rivals(), AtMost: 0.5}
	for name, test := range map[string]struct {
		goal        Goal
		result      *ContestResult
		got         float64
		met, broken bool
	}{
		"met":                               {atLeast4, contested([]float64{25, 20, 10}), 5, true, false},
		"met by the median":                 {atLeast4, contested([]float64{100, 20, 10}), 5, true, false},
		"missed":                            {atLeast4, contested([]float64{40, 40, 40}), 2.5, false, false},
		"half missed by two of three":       {atLeast4, contested([]float64{100, 50, 100}), 1, false, false},
		"half missed by all":                {atLeast4, contested([]float64{51, 52, 53}), 100. / 52, false, true},
		"the best rival counts, each round": {atLeast4, contested([]float64{10, 50, 10}, []float64{50, 10, 50}), 2, false, false},
		"time met":                          {halfTime, contested([]float64{50, 40, 10}), 0.4, true, false},
		"time missed":                       {halfTime, contested([]float64{80, 80, 80}), 0.8, false, false},
		"double time in all rounds":         {halfTime, contested([]float64{110, 120, 130}), 1.2, false, true},
		"double time in two of three":       {halfTime, contested([]float64{110, 120, 90}), 1.1, false, false},
		"ceiling kept":                      {Goal{Contest: "contest", Entry: ours, Measure: Allocs, AtMost: 10}, contested([]float64{1}), 10, true, false},
		"ceiling broken":                    {Goal{Contest: "contest", Entry: ours, Measure: Allocs, AtMost: 9}, contested([]float64{1}), 10, false, true},
		"ceiling of memory broken":          {Goal{Contest: "contest", Entry: ours, Measure: Memory, AtMost: 999}, contested([]float64{1}), 1000, false, true},
		"held to less":                      {atLeast4.held(1.9), contested([]float64{90, 100, 110}), 1, false, false},
		"held to less, broken":              {atLeast4.held(2.1), contested([]float64{100, 100, 100}), 1, false, true},
		"held to more memory":               {Goal{Contest: "contest", Entry: ours, Measure: Memory, AtMost: 999}.held(1000), contested([]float64{1}), 1000, false, false},
		"held to more memory, broken":       {Goal{Contest: "contest", Entry: ours, Measure: Memory, AtMost: 900}.held(999), contested([]float64{1}), 1000, false, true},
		"a share of allocations":            {Goal{Contest: "contest", Entry: ours, Measure: Allocs, Against: rivals(), AtMost: 0.25}, contested([]float64{1}), 0.25, true, false},
		"a share of memory, broken":         {Goal{Contest: "contest", Entry: ours, Measure: Memory, Against: rivals(), AtMost: 1.9}, contested([]float64{1}), 2, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := judge(test.goal, test.result)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(v.Got-test.got) > 1e-9 || v.Met != test.met || v.Broken != test.broken {
				t.Errorf("got %v, met: %v, broken: %v; want %v, %v, %v", v.Got, v.Met, v.Broken, test.got, test.met, test.broken)
			}
		})
	}
}

// Ours must deliver.
func TestJudgeLoss(t *testing.T) {
	c := contested([]float64{1})
	c.Entries[0].Median.Lost = 0.01
	if v, err := judge(faster("contest", 4), c); err != nil || !v.Broken {
		t.Errorf("broken: %v, %v", v.Broken, err)
	}
}

func TestJudgeWithoutResult(t *testing.T) {
	c := contested([]float64{1})
	if _, err := judge(near("contest", 0.5), c); err == nil {
		t.Error("there is nothing to compare with")
	}
	c.Entries[0].Samples = nil
	if _, err := judge(faster("contest", 4), c); err == nil {
		t.Error("there is nothing to compare")
	}
}

func TestBroken(t *testing.T) {
	if err := broken([]Verdict{{Goal: faster("fine", 2), Got: 1.5}}); err != nil {
		t.Error(err)
	}
	err := broken([]Verdict{{Goal: faster("slow", 2), Got: 0.5, Broken: true}})
	if err == nil || !strings.Contains(err.Error(), "slow: rate to the best rival is 0.50×, want at least 2.00×") {
		t.Error(err)
	}
}

// Every goal is about something that is measured.
func TestGoals(t *testing.T) {
	names := map[string]Contest{}
	for _, c := range contests() {
		if _, twice := names[c.Name]; twice {
			t.Errorf("%q is there twice", c.Name)
		}
		names[c.Name] = c
	}
	for _, g := range goals() {
		entries := map[string]bool{}
		for _, e := range names[g.Contest].Entries {
			entries[e.Name] = true
		}
		for _, name := range append([]string{g.Entry}, g.Against...) {
			if !entries[name] {
				t.Errorf("%q has no %q", g.Contest, name)
			}
		}
		if (g.AtLeast > 0) == (g.AtMost > 0) || (g.Measure == Rate) != (g.AtLeast > 0) {
			t.Errorf("%q: at least %v, at most %v %s", g.Contest, g.AtLeast, g.AtMost, g.Measure)
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
	got := medians([]Sample{{Rate: 1, Allocs: 5, Bytes: 9, Lost: 0}, {Rate: 3, Allocs: 1, Bytes: 7, Lost: 1}, {Rate: 2, Allocs: 9, Bytes: 8, Lost: 1}})
	if diff := cmp.Diff(Sample{Rate: 2, Allocs: 5, Bytes: 8, Lost: 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
