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
	inside := 0 // calls that ran when their server was killed
	for i := range kills {
		v := victims[i%len(victims)]
		ids, err := b.of(v, i/len(victims)%2 == 1)
		if err != nil {
			return err
		}
		began := time.Now()
		latency, running, err := mourn(ctx, all, v, ids)
		if err != nil {
			return fmt.Errorf("%s, kill %d: %w", v.alias, i+1, err)
		}
		if err := all.awaitBack(ctx, v); err != nil {
			return err
		}
		latest, back = append(latest, latency), append(back, time.Since(began))
		inside += running
	}
	slices.Sort(latest)
	slices.Sort(back)
	fmt.Printf("%d kills while %d calls ran: they fail within %v (median of the slowest of each), %v at last; back after %v (median), %v at last\n",
		kills, inside, latest.p50(), latest.at(100), back.p50(), back.at(100))
	if inside < kills { // now and then a server is killed between two calls
		return fmt.Errorf("%d calls ran when servers were killed: too few to tell", inside)
	}
	if latest.p50() > soon {
		return fmt.Errorf("they take %v to fail, in the median of kills: more than %v", latest.p50(), soon)
	}
	if latest.at(100) > atLast {
		return fmt.Errorf("they take up to %v to fail: more than %v", latest.at(100), atLast)
	}
	return nil
}

// mourn kills a server while callers call it, until each of them has failed. It returns
// how long the slowest took to, from then on, and how many calls ran at that moment.
func mourn(ctx context.Context, all sessions, v victim, ids []int) (slowest time.Duration, inside int, err error) {
	var (
		mu      sync.Mutex
		killed  time.Time
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
	err = kill(ids...)
	running.Wait()
	return slowest, inside, errors.Join(append(errs, err)...)
}
