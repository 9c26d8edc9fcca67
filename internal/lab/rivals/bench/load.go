package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A loading measures a server that w.Callers clients call all the time. The clients are the same for every
// peer, and only the process of the server is measured.
type loading struct {
	server  *serverProcess
	web     *http.Client
	callers []*caller
}

func openLoad(ctx context.Context, p Peer, w Work) (meter, error) {
	server, err := startServer(ctx, p, w)
	if err != nil {
		return nil, err
	}
	l := &loading{server: server, web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: w.Callers}}}
	for range w.Callers {
		c, err := newCaller(ctx, l.web, server.url, w)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.callers = append(l.callers, c)
	}
	return l, nil
}

func (l *loading) Close() error {
	l.web.CloseIdleConnections()
	return l.server.Close()
}

func (l *loading) measure(ctx context.Context, atLeast time.Duration) (Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch, err := startStopwatch(l.server.cmd.Process.Pid)
	if err != nil {
		return Sample{}, err
	}
	var clients sync.WaitGroup
	times := make([][]time.Duration, len(l.callers))
	for i, c := range l.callers {
		clients.Go(func() {
			for began := watch.start; !watch.reached(atLeast); {
				if err := c.call(ctx); err != nil {
					cancel(err)
					return
				}
				ended := time.Now()
				times[i] = append(times[i], ended.Sub(began))
				began = ended
			}
		})
	}
	clients.Wait()
	elapsed := time.Since(watch.start)
	after, err := processCPU(watch.pid)
	if err := errors.Join(err, context.Cause(ctx)); err != nil {
		return Sample{}, err
	}
	all := slices.Concat(times...)
	slices.Sort(all)
	return Sample{
		CPU:  (after - watch.before) / time.Duration(len(all)),
		Rate: float64(len(all)) / elapsed.Seconds(),
		P99:  all[len(all)*99/100],
	}, nil
}
