package main

import (
	"errors"
	"testing"
	"time"
)

func TestDovetail(t *testing.T) {
	rehearse(t, dovetail{}, func(w Work) bool {
		return w.Transport == SSE && w.Era == Modern || w.Transport == Bytes && w.Kind != Call
	}, func(err error) bool { return err == nil })
}

func TestDovetailWays(t *testing.T) {
	for _, way := range []Way{Proxied, Bridged, Policed, Approved} {
		for _, p := range places(Pipe, Streamable) {
			t.Run(way.String()+", "+p.String(), func(t *testing.T) {
				w := p.at(Call)
				w.Way = way
				rehearseOne(t, dovetail{}, w, false, func(err error) bool { return err == nil })
			})
		}
	}
}

// A call is answered while many idle sessions are open.
func TestDovetailSessions(t *testing.T) {
	w := place{Streamable, Legacy}.at(Call)
	w.Sessions = 20
	rehearseOne(t, dovetail{}, w, false, func(err error) bool { return err == nil })
}

func TestWire(t *testing.T) {
	rehearse(t, wire{}, func(w Work) bool {
		return w.Transport == SSE && w.Era == Modern || w.Transport == Bytes && w.Kind != Call ||
			w.Transport != Streamable && w.Kind == Session
	}, func(err error) bool { return err == nil })
}

// Replicas have the sessions of one another.
func TestDovetailReplicas(t *testing.T) {
	for _, c := range replicas() {
		for _, e := range c.Entries {
			t.Run(c.Name+"/"+e.Name, func(t *testing.T) {
				rehearseOne(t, dovetail{}, e.Work, false, func(err error) bool { return err == nil })
			})
		}
	}
}

func TestWireHasNoOtherWays(t *testing.T) { refuse(t, wire{}) }

// Every peer that can be started cold is, and so are the others absent.
func TestCold(t *testing.T) {
	w := place{Bytes, Modern}.at(Cold)
	w.Tools = 3
	sampleAll(t, w, func(p Peer) bool { return p.Name() == bare }, func(s Sample) bool {
		return s.Rate > 0 && s.Allocs > 100 && s.Bytes > 1000
	})
}

func TestIdle(t *testing.T) {
	w := place{Streamable, Legacy}.at(Idle)
	w.Sessions = 20
	sampleAll(t, w, func(p Peer) bool { return p.Name() == bare }, func(s Sample) bool { return s.Bytes > 100 })
}

func TestIdleStreams(t *testing.T) {
	for _, p := range places(Streamable) {
		w := p.at(Idle)
		w.Sessions, w.Streams = 20, true
		t.Run(p.String(), func(t *testing.T) {
			sampleAll(t, w, func(Peer) bool { return false }, func(s Sample) bool { return s.Bytes > 1000 })
		})
	}
}

func sampleAll(t *testing.T, w Work, absent func(Peer) bool, good func(Sample) bool) {
	for _, p := range peers() {
		t.Run(p.Name(), func(t *testing.T) {
			g, err := openGauge(t.Context(), p, w)
			if absent(p) {
				if !errors.Is(err, errAbsent) {
					t.Errorf("%v, want %v", err, errAbsent)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			if s, err := g.measure(t.Context(), time.Millisecond); err != nil || !good(s) {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}
