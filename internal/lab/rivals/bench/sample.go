package main

import "slices"

// A Sample is what one round found out about one entry.
type Sample struct {
	// Rate is units of work per second.
	Rate float64 `json:"rate,omitzero"`
	// Allocs and Bytes are what this process allocates for a unit: client and server,
	// but for Stdio, whose server has a process of its own. For Idle, Bytes is what the
	// server keeps for a session.
	Allocs float64 `json:"allocs"`
	Bytes  float64 `json:"bytes"`
	// Lost is the share of notifications that did not arrive.
	Lost float64 `json:"lost,omitzero"`
}

// medians returns the median of each member.
func medians(samples []Sample) Sample {
	of := func(member func(Sample) float64) float64 {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = member(s)
		}
		return median(values)
	}
	return Sample{
		Rate:   of(func(s Sample) float64 { return s.Rate }),
		Allocs: of(func(s Sample) float64 { return s.Allocs }),
		Bytes:  of(func(s Sample) float64 { return s.Bytes }),
		Lost:   of(func(s Sample) float64 { return s.Lost }),
	}
}

// median is 0 of nothing.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
