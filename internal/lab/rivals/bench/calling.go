package main

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// A calling measures a client and a server together.
type calling struct {
	Rig
	work Work
}

func (c *calling) measure(ctx context.Context, atLeast time.Duration) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	runtime.GC()
	if err := new(total).add(c.Do(ctx), c.work.Units); err != nil { // fills the pools that the collector has emptied
		return Sample{}, err
	}
	before, err := totalCPU()
	if err != nil {
		return Sample{}, err
	}
	watch, err := startStopwatch(0)
	if err != nil {
		return Sample{}, err
	}
	var callers sync.WaitGroup
	totals := make([]total, c.work.Callers)
	for i := range totals {
		callers.Go(func() {
			for done := false; !done; done = watch.reached(atLeast) {
				if err := totals[i].add(c.Do(ctx), c.work.Units); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	callers.Wait()
	after, err := totalCPU()
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return Sample{}, err
	}
	var all total
	for _, t := range totals {
		all.done, all.lost = all.done+t.done, all.lost+t.lost
	}
	return Sample{
		CPU:  (after - before) / time.Duration(all.done),
		Lost: float64(all.lost) / float64(all.done+all.lost),
	}, nil
}

// A total counts the units of one caller.
type total struct{ done, lost int }

func (t *total) add(err error, units int) error {
	lost, ok := errors.AsType[*lossError](err)
	if !ok {
		t.done += units
		return err
	}
	t.done, t.lost = t.done+lost.got, t.lost+lost.want-lost.got
	return nil
}
