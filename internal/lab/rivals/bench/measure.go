package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A meter measures one variant.
type meter interface {
	// measure takes about as long as atLeast.
	measure(ctx context.Context, atLeast time.Duration) (Sample, error)
	Close() error
}

// openMeter returns errAbsent if the peer does not support the work.
func openMeter(ctx context.Context, p Peer, w Work) (meter, error) {
	switch w.Kind {
	case Load:
		return openLoad(ctx, p, w)
	case Idle:
		return openIdle(p, w)
	case Register:
		return openRegister(ctx, p, w)
	case Build:
		return openBuild(ctx, p, w)
	case Start:
		return openStart(ctx, p, w)
	}
	r, err := p.Open(ctx, w)
	if err != nil {
		return nil, err
	}
	return &calling{r, w}, nil
}

// A schedule has the number of rounds, and the time of each variant in a round.
type schedule struct {
	rounds int
	time   time.Duration
}

// run lets the variants of a benchmark take turns. A failure of another peer is part of the result; one
// of ours is an error.
func (s schedule) run(ctx context.Context, b Benchmark, peers []Peer) (_ *BenchmarkResult, err error) {
	result := &BenchmarkResult{Name: b.Name, Table: b.Table}
	meters := make([]meter, len(b.Variants))
	defer func() {
		for i, m := range meters {
			if m == nil {
				continue
			}
			if closeErr := m.Close(); closeErr != nil && b.Variants[i].Peer == ours {
				err = errors.Join(err, fmt.Errorf("%s: closing: %w", b.Name, closeErr))
			}
		}
	}()
	fail := func(i int, err error) error {
		if b.Variants[i].Peer == ours {
			return fmt.Errorf("%s: %s: %w", b.Name, b.Variants[i].Name, err)
		}
		result.Variants[i].Failure = err.Error()
		return nil
	}
	for i, v := range b.Variants {
		result.Variants = append(result.Variants, VariantResult{Name: v.Name})
		m, err := openMeter(ctx, peerNamed(peers, v.Peer), v.Work)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err == nil {
			meters[i] = m
			if !b.Once {
				_, err = m.measure(ctx, s.time/4) // the first calls cost more
			}
		}
		if err != nil {
			if err := fail(i, err); err != nil {
				return nil, err
			}
		}
	}
	rounds := s.rounds
	if b.Once {
		rounds = 1
	}
	for round := range rounds {
		for turn := range b.Variants {
			i := (turn + round) % len(b.Variants)
			if meters[i] == nil || result.Variants[i].Failure != "" {
				continue
			}
			sample, err := meters[i].measure(ctx, s.time)
			if err != nil {
				if err := fail(i, err); err != nil {
					return nil, err
				}
				continue
			}
			result.Variants[i].Samples = append(result.Variants[i].Samples, sample)
		}
	}
	for i := range result.Variants {
		result.Variants[i].Median = medians(result.Variants[i].Samples)
	}
	return result, nil
}
