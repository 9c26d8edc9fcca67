package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// What the data of errors says.
const (
	lost        = "UPSTREAM_LOST"
	unavailable = "UPSTREAM_UNAVAILABLE"
)

const (
	callers = 8 // at the server that is killed
	soon    = 250 * time.Millisecond
	atLast  = time.Second
)

// bury kills the servers in turn, under load: now the server itself, now npx, which has
// started it. Calls that run then must fail soon, and say so for programs to read.
func bury(ctx context.Context, b *bridge, all sessions, kills int) error {
	var latest, back times
	for i := range kills {
		v := victims[i%len(victims)]
		ids, err := b.of(v, i/len(victims)%2 == 1)
		if err != nil {
			return err
		}
		began := time.Now()
		latency, err := mourn(ctx, all, v, ids)
		if err != nil {
			return fmt.Errorf("%s, kill %d: %w", v.alias, i+1, err)
		}
		if err := all.awaitBack(ctx, v); err != nil {
			return err
		}
		latest, back = append(latest, latency), append(back, time.Since(began))
	}
	slices.Sort(latest)
	slices.Sort(back)
	fmt.Printf("%d kills: calls fail within %v (median of the slowest of each), %v at last; back after %v (median), %v at last\n",
		kills, latest.p50(), latest.at(100), back.p50(), back.at(100))
	if latest.p50() > soon {
		return fmt.Errorf("they take %v to fail, in the median of kills: more than %v", latest.p50(), soon)
	}
	if latest.at(100) > atLast {
		return fmt.Errorf("they take up to %v to fail: more than %v", latest.at(100), atLast)
	}
	return nil
}

// mourn kills a server while callers call it, until each of them has failed, and returns
// how long the slowest took to, from then on.
func mourn(ctx context.Context, all sessions, v victim, ids []int) (time.Duration, error) {
	var (
		mu      sync.Mutex
		killed  time.Time
		slowest time.Duration
		inside  int // calls that ran when it was killed
		errs    []error
		running sync.WaitGroup
	)
	for i := range callers {
		running.Go(func() {
			for {
				began := time.Now()
				err := call(ctx, all[i%len(all)], v.call, nil)
				ended := time.Now()
				mu.Lock()
				if err == nil && ctx.Err() == nil {
					mu.Unlock()
					continue
				}
				switch kind := failure(err); {
				case killed.IsZero(), kind != lost && kind != unavailable:
					errs = append(errs, fmt.Errorf("a call ends with type %q: %w", kind, err))
				case kind == lost:
					inside++
				}
				if began.Before(killed) {
					began = killed
				}
				slowest = max(slowest, ended.Sub(began))
				mu.Unlock()
				return
			}
		})
	}
	pause(ctx, 100*time.Millisecond)
	mu.Lock()
	killed = time.Now()
	mu.Unlock()
	err := kill(ids...)
	running.Wait()
	if inside == 0 {
		errs = append(errs, errors.New("no call ran when the server was killed"))
	}
	return slowest, errors.Join(append(errs, err)...)
}
