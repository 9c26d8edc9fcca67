package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A schedule says how often and how long.
type schedule struct {
	rounds int
	time   time.Duration
}

// hold lets the entries of a contest take turns. Another peer may fail; ours may not.
func (s schedule) hold(ctx context.Context, c Contest, peers []Peer) (_ *ContestResult, err error) {
	result := &ContestResult{Name: c.Name, Table: c.Table}
	gauges := make([]gauge, len(c.Entries))
	defer func() {
		for i, g := range gauges {
			if g == nil {
				continue
			}
			if closeErr := g.Close(); closeErr != nil && c.Entries[i].Peer == ours {
				err = errors.Join(err, fmt.Errorf("%s: closing: %w", c.Name, closeErr))
			}
		}
	}()
	fail := func(i int, err error) error {
		if c.Entries[i].Peer == ours {
			return fmt.Errorf("%s: %s: %w", c.Name, c.Entries[i].Name, err)
		}
		result.Entries[i].Failure = err.Error()
		return nil
	}
	for i, e := range c.Entries {
		result.Entries = append(result.Entries, EntryResult{Name: e.Name})
		g, err := openGauge(ctx, peerNamed(peers, e.Peer), e.Work)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err == nil {
			gauges[i] = g
			err = s.warmUp(ctx, c, g)
		}
		if err != nil {
			if err := fail(i, err); err != nil {
				return nil, err
			}
		}
	}
	rounds := s.rounds
	if c.Once {
		rounds = 1
	}
	for round := range rounds {
		for turn := range c.Entries {
			i := (turn + round) % len(c.Entries)
			if gauges[i] == nil || result.Entries[i].Failure != "" {
				continue
			}
			sample, err := gauges[i].measure(ctx, s.time)
			if err != nil {
				if err := fail(i, err); err != nil {
					return nil, err
				}
				continue
			}
			result.Entries[i].Samples = append(result.Entries[i].Samples, sample)
		}
	}
	for i := range result.Entries {
		result.Entries[i].Median = medians(result.Entries[i].Samples)
	}
	return result, nil
}

// warmUp takes a sample that does not count.
func (s schedule) warmUp(ctx context.Context, c Contest, g gauge) error {
	if _, warms := g.(*load); !warms {
		return nil
	}
	_, err := g.measure(ctx, s.time/4)
	return err
}

func peerNamed(peers []Peer, name string) Peer {
	for _, p := range peers {
		if p.Name() == name {
			return p
		}
	}
	panic("there is no peer " + name) // contests name those that there are
}
