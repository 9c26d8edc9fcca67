package main

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// A gauge is open for one entry and takes samples.
type gauge interface {
	// measure takes about as long as it is told.
	measure(ctx context.Context, time time.Duration) (Sample, error)
	Close() error
}

// openGauge fails with errAbsent where the peer does not have what w is about.
func openGauge(ctx context.Context, p Peer, w Work) (gauge, error) {
	switch w.Kind {
	case Cold:
		return openCold(p, w)
	case Idle:
		return openIdle(p, w)
	}
	rig, err := p.Open(ctx, w)
	if err != nil {
		return nil, err
	}
	return &load{Rig: rig, work: w}, nil
}

// A load keeps a rig busy.
type load struct {
	Rig
	work Work
}

func (l *load) measure(ctx context.Context, atLeast time.Duration) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		callers sync.WaitGroup
		totals  = make([]total, l.work.InFlight)
		before  runtime.MemStats
		after   runtime.MemStats
	)
	runtime.GC()
	if err := new(total).add(l.Do(ctx), l.work.Units); err != nil { // what the collector has taken from pools is not to count
		return Sample{}, err
	}
	runtime.ReadMemStats(&before)
	start := time.Now()
	for i := range totals {
		callers.Go(func() {
			for done := false; !done; done = time.Since(start) >= atLeast {
				if err := totals[i].add(l.Do(ctx), l.work.Units); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	callers.Wait()
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	if err := context.Cause(ctx); err != nil {
		return Sample{}, err
	}
	var all total
	for _, t := range totals {
		all.done, all.lost, all.waited = all.done+t.done, all.lost+t.lost, all.waited+t.waited
	}
	units := float64(all.done)
	return Sample{
		Rate:   units / (elapsed - all.waited/time.Duration(len(totals))).Seconds(),
		Allocs: float64(after.Mallocs-before.Mallocs) / units,
		Bytes:  float64(after.TotalAlloc-before.TotalAlloc) / units,
		Lost:   float64(all.lost) / float64(all.done+all.lost),
	}, nil
}

// A total is what one caller has done, in units.
type total struct {
	done, lost int
	waited     time.Duration // for what was lost
}

func (t *total) add(err error, units int) error {
	lost, ok := errors.AsType[*lossError](err)
	if !ok {
		t.done += units
		return err
	}
	t.done, t.lost, t.waited = t.done+lost.got, t.lost+lost.want-lost.got, t.waited+lost.waited
	return nil
}
