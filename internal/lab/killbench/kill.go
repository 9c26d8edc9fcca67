package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

// Types in the data of errors.
const (
	lost        = "UPSTREAM_LOST"
	unavailable = "UPSTREAM_UNAVAILABLE"
)

const (
	callers  = 8               // callers at the server that is killed
	maxLimit = 5 * time.Second // for a call at a killed server to fail
)

// killServers kills the servers in turn, during calls: either the server itself or npx,
// which has started it. Running calls must fail quickly, with an error that programs can
// recognize.
func killServers(ctx context.Context, b *bridge, all sessions, kills int, median time.Duration) error {
	var latest, back times
	inside := 0 // calls that ran when their server was killed
	for i := range kills {
		v := servers[i%len(servers)]
		ids, err := b.processesOf(v, i/len(servers)%2 == 1)
		if err != nil {
			return err
		}
		began := time.Now()
		latency, running, err := killDuringCalls(ctx, all, v, ids)
		if err != nil {
			return fmt.Errorf("%s, kill %d: %w", v.alias, i+1, err)
		}
		if err := all.waitUntilBack(ctx, v); err != nil {
			return err
		}
		latest, back = append(latest, latency), append(back, time.Since(began))
		inside += running
	}
	slices.Sort(latest)
	slices.Sort(back)
	fmt.Printf("%d kills while %d calls ran: the slowest call of each kill fails after %v (median), %v (maximum); the server is back after %v (median), %v (maximum)\n",
		kills, inside, latest.p50(), latest.at(100), back.p50(), back.at(100))
	if inside < kills { // sometimes a server is killed between two calls
		return fmt.Errorf("only %d calls ran when servers were killed, too few for a result", inside)
	}
	if latest.p50() > median {
		return fmt.Errorf("the calls take %v to fail (median), more than %v", latest.p50(), median)
	}
	if latest.at(100) > maxLimit {
		return fmt.Errorf("the calls take up to %v to fail, more than %v", latest.at(100), maxLimit)
	}
	return nil
}

// killDuringCalls kills a server while callers call it, and waits until each of them has
// failed. It returns how long the slowest took after the kill, and how many calls were
// running.
func killDuringCalls(ctx context.Context, all sessions, v testServer, ids []int) (slowest time.Duration, inside int, err error) {
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

const (
	rounds = 6                     // at most
	every  = 20 * time.Millisecond // between two calls of a session at a server
	open   = 4                     // calls at the server that is killed
)

// A goal is how long calls may take.
type goal struct {
	median    time.Duration // of the slowest call of each kill, at the server that is killed
	window    time.Duration // of each measurement of the other servers
	tolerance float64       // the largest factor between the slowest hundredths of two measurements
}

// longCall takes a minute, and reports progress immediately.
const longCall = `{"name":"everything__trigger-long-running-operation","arguments":{"duration":60,"steps":600}}`

// compareLatencies measures calls at all servers but one, before that server is killed
// and while it restarts. Restarting takes processor time in any case, so during the first
// measurement the same program is started without the bridge. One round without a
// difference is enough: noise on a shared machine explains the others.
func compareLatencies(ctx context.Context, b *bridge, all sessions, goal goal) error {
	for round := range rounds {
		before, err := measure(ctx, all, goal.window, func(ctx context.Context) error { return b.startDummy(ctx, goal.window*8/10) })
		if err != nil {
			return err
		}
		during, err := measure(ctx, all, goal.window, func(ctx context.Context) error { return b.killLoaded(ctx, all) })
		if err != nil {
			return err
		}
		if err := all.waitUntilBack(ctx, servers[0]); err != nil {
			return err
		}
		shift := float64(during.p99())/float64(before.p99()) - 1
		fmt.Printf("round %d: p50 %v before, %v during; p99 %v before, %v during (%+.0f %%); %d calls at other servers, none failed\n",
			round+1, before.p50(), during.p50(), before.p99(), during.p99(), 100*shift, len(before)+len(during))
		if 1+shift <= goal.tolerance {
			return nil
		}
	}
	return errors.New("in each round, calls take longer while another server restarts")
}

// killLoaded kills the first server while calls run at it.
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
			return fmt.Errorf("a call has ended before its server was killed: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ids, err := b.processesOf(servers[0], false)
	if err != nil {
		return err
	}
	if err := kill(ids...); err != nil {
		return err
	}
	for range open {
		if err := <-ended; failure(err) != lost {
			return fmt.Errorf("a call at the killed server ends with %w, and type %q", err, failure(err))
		}
	}
	return nil
}

// times are the durations of calls, sorted.
type times []time.Duration

// measure calls all servers but the first for the length of a window, and calls do at the
// same time. No call may fail.
func measure(ctx context.Context, all sessions, window time.Duration, do func(context.Context) error) (times, error) {
	var (
		mu      sync.Mutex
		taken   times
		errs    []error
		running sync.WaitGroup
	)
	end := time.Now().Add(window)
	for _, s := range all {
		for _, params := range []string{servers[1].call, servers[2].call, servers[3].call, remoteCall} {
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

// startDummy runs the program of the first server without the bridge for some time.
func (b *bridge) startDummy(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npx", "-y", "@modelcontextprotocol/server-everything@2026.8.31")
	in, err := cmd.StdinPipe() // the server ends when its input is closed
	if err != nil {
		return err
	}
	cmd.WaitDelay = time.Second
	cmd.Cancel = in.Close
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return errors.Join(errors.New("the server without the bridge"), err)
	}
	return nil
}
