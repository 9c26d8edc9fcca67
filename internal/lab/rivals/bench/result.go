package main

import (
	"slices"
	"time"
)

// A Sample is the result of one round of one variant.
type Sample struct {
	CPU   time.Duration // of client and server for a unit; for Load, of the server
	Rate  float64       // calls in a second, for Load
	P99   time.Duration // 99 of 100 calls take no longer, for Load
	Bytes float64       // of the server for a session or stream, or of a program
	Lost  float64       // the share of notifications that did not arrive
}

// A Result has the results of all benchmarks.
type Result struct {
	Machine    Machine
	Benchmarks []BenchmarkResult
	Verdicts   []Verdict
}

// A BenchmarkResult is the result of one benchmark.
type BenchmarkResult struct {
	Name     string
	Table    string
	Variants []VariantResult
}

// A VariantResult has a sample of each round. It has none if the peer does not support the work or failed.
type VariantResult struct {
	Name    string
	Median  Sample
	Samples []Sample
	Failure string
}

// variant returns nil for an unknown name.
func (r *BenchmarkResult) variant(name string) *VariantResult {
	for i := range r.Variants {
		if r.Variants[i].Name == name {
			return &r.Variants[i]
		}
	}
	return nil
}

// ratios compares a measure of a variant with the least of others in each round. It returns none if
// none of the others has samples.
func (r *BenchmarkResult) ratios(name string, against []string, m Measure) (ratios []float64) {
	own := r.variant(name)
	if own == nil {
		return nil
	}
	for round, s := range own.Samples {
		var best float64
		for _, rival := range against {
			v := r.variant(rival)
			if v == nil || round >= len(v.Samples) {
				continue
			}
			if value := m.of(v.Samples[round]); best == 0 || value < best {
				best = value
			}
		}
		if best > 0 {
			ratios = append(ratios, m.of(s)/best)
		}
	}
	return ratios
}

func (m Measure) of(s Sample) float64 {
	if m == Size {
		return s.Bytes
	}
	return float64(s.CPU)
}

// medians returns the median of each member.
func medians(samples []Sample) Sample {
	return Sample{
		CPU:   medianOf(samples, func(s Sample) time.Duration { return s.CPU }),
		Rate:  medianOf(samples, func(s Sample) float64 { return s.Rate }),
		P99:   medianOf(samples, func(s Sample) time.Duration { return s.P99 }),
		Bytes: medianOf(samples, func(s Sample) float64 { return s.Bytes }),
		Lost:  medianOf(samples, func(s Sample) float64 { return s.Lost }),
	}
}

func medianOf[T time.Duration | float64](samples []Sample, member func(Sample) T) T {
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = member(s)
	}
	return median(values)
}

// median returns 0 if there are no values.
func median[T time.Duration | float64](values []T) T {
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
