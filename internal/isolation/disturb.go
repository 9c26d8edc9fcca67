package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	rounds = 6                     // at most
	window = 5 * time.Second       // that is measured, before a kill and after it
	every  = 20 * time.Millisecond // a server gets a call in each era
	open   = 4                     // calls at the victim

	// tolerance is how much longer the slowest hundredth of calls may take: twice the
	// tenth that is aimed at, since other processes run on the machine too.
	tolerance = 1.2
)

// longCall takes a minute, and says at once that it has begun.
const longCall = `{"name":"everything__trigger-long-running-operation","arguments":{"duration":60,"steps":600}}`

// disturb measures calls at all servers but one before it is killed and while it is
// started again. Starting it costs time of the processor, whoever does it: so before, the
// same server is started beside the bridge, and killed. One round in which they take no
// longer tells that it was the machine in those before.
func disturb(ctx context.Context, b *bridge, all sessions) error {
	for round := range rounds {
		before, err := measure(ctx, all, func(ctx context.Context) error { return b.decoy(ctx) })
		if err != nil {
			return err
		}
		during, err := measure(ctx, all, func(ctx context.Context) error { return b.killLoaded(ctx, all) })
		if err != nil {
			return err
		}
		if err := all.awaitBack(ctx, victims[0]); err != nil {
			return err
		}
		shift := float64(during.p99())/float64(before.p99()) - 1
		fmt.Printf("round %d: p50 %v before, %v during; p99 %v before, %v during (%+.0f %%); %d calls at other servers, none failed\n",
			round+1, before.p50(), during.p50(), before.p99(), during.p99(), 100*shift, len(before)+len(during))
		if 1+shift <= tolerance {
			return nil
		}
	}
	return errors.New("they take longer while another is killed and started again, in each round")
}

// killLoaded kills the victim while calls run at it.
func (b *bridge) killLoaded(ctx context.Context, all sessions) error {
	begun := make(chan struct{}, open)
	ended := make(chan error, open)
	for i := range open {
		go func() {
			var once sync.Once
			opts := &client.CallOptions{Progress: func(*mcp.ProgressParams) { once.Do(func() { begun <- struct{}{} }) }}
			ended <- call(ctx, all[i%len(all)], longCall, opts)
		}()
	}
	for range open {
		select {
		case <-begun:
		case err := <-ended:
			return fmt.Errorf("a call at the victim has ended before it was killed: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ids, err := b.of(victims[0], false)
	if err != nil {
		return err
	}
	if err := kill(ids...); err != nil {
		return err
	}
	for range open {
		if err := <-ended; failure(err) != lost {
			return fmt.Errorf("a call at the victim ends with %w, and type %q", err, failure(err))
		}
	}
	return nil
}

// times are how long calls have taken.
type times []time.Duration

// measure calls all servers but the victim for the length of a window, while something
// is done. No call may fail.
func measure(ctx context.Context, all sessions, do func(context.Context) error) (times, error) {
	var (
		mu      sync.Mutex
		taken   times
		errs    []error
		running sync.WaitGroup
	)
	end := time.Now().Add(window)
	for _, s := range all {
		for _, params := range []string{victims[1].call, victims[2].call, victims[3].call, remoteCall} {
			running.Go(func() {
				tick := time.NewTicker(every)
				defer tick.Stop()
				for now := time.Now(); now.Before(end); now = <-tick.C {
					began := time.Now()
					err := call(ctx, s, params, nil)
					took := time.Since(began)
					mu.Lock()
					taken = append(taken, took)
					if err != nil {
						errs = append(errs, fmt.Errorf("%s: %w", params, err))
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
	}
	pause(ctx, window/10)
	err := do(ctx)
	running.Wait()
	slices.Sort(taken)
	return taken, errors.Join(append(errs, err)...)
}

func (t times) p50() time.Duration { return t.at(50) }
func (t times) p99() time.Duration { return t.at(99) }

func (t times) at(percent int) time.Duration {
	if len(t) == 0 {
		return 0
	}
	return t[(len(t)-1)*percent/100].Round(10 * time.Microsecond)
}
