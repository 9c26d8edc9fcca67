package main

import (
	"fmt"
	"slices"
)

// A Verdict says how a contest stands to a goal.
type Verdict struct {
	Goal
	// Got is the median of the measure, or of its ratio.
	Got float64 `json:"got"`
	// Rounds are the ratios of the rounds.
	Rounds []float64 `json:"rounds,omitzero"`
	Met    bool      `json:"met"`
	// Broken is a goal that is missed by more than noise can explain: a ceiling of
	// allocations or memory that is exceeded, or a ratio that has missed half of its
	// goal in every round. Held counts instead, where there is one.
	Broken bool `json:"broken,omitzero"`
}

// judge compares a result with a goal.
func judge(g Goal, c *ContestResult) (Verdict, error) {
	v := Verdict{Goal: g}
	own := c.entry(g.Entry)
	if own == nil || len(own.Samples) == 0 {
		return v, fmt.Errorf("%s: %s has no result", g.Contest, g.Entry)
	}
	if own.Median.Lost > 0 {
		v.Broken = true
		return v, nil
	}
	if len(g.Against) == 0 {
		v.Got = g.Measure.of(own.Median)
	} else {
		v.Rounds = c.ratios(g.Entry, g.Against, g.Measure)
		if len(v.Rounds) == 0 {
			return v, fmt.Errorf("%s: there is no result of %v", g.Contest, g.Against)
		}
		v.Got = median(v.Rounds)
	}
	v.Met = g.meets(v.Got, 1)
	bound := g.bound()
	switch g.Measure {
	case Allocs, Memory:
		v.Broken = !bound.meets(v.Got, 1)
	default:
		v.Broken = !slices.ContainsFunc(v.Rounds, func(ratio float64) bool { return bound.meets(ratio, 2) })
	}
	return v, nil
}

// bound is the goal that counts as long as this one is not reached.
func (g Goal) bound() *Goal {
	switch {
	case g.Held == 0:
	case g.AtMost > 0:
		g.AtMost = g.Held
	default:
		g.AtLeast = g.Held
	}
	return &g
}

// meets says whether a value meets the goal, or one that is easier by a factor.
func (g *Goal) meets(value, easier float64) bool {
	if g.AtMost > 0 {
		return value <= g.AtMost*easier
	}
	return value >= g.AtLeast/easier
}
