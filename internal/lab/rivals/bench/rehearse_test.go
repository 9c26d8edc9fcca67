package main

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// rehearse has a peer do each kind of work once per caller, over each transport in each
// era, and that be absent which is to be.
func rehearse(t *testing.T, p Peer, absent func(Work) bool, good func(error) bool) {
	for _, w := range []Work{
		{Kind: Call, Size: 100},
		{Kind: Call, Size: 100, Tools: 3, InFlight: 4},
		{Kind: Call, Size: 100, Raw: true},
		{Kind: List, Tools: 12},
		{Kind: Progress, Units: 1000},
		{Kind: Session, Size: 100, Units: 2, InFlight: 3},
	} {
		for _, w.Transport = range []Transport{Bytes, Pipe, Stdio, Streamable, SSE, WebSocket} {
			if w.Transport == Bytes && w.InFlight > 1 {
				continue // one at a time
			}
			for _, w.Era = range []Era{Legacy, Modern} {
				w.InFlight, w.Units = cmp.Or(w.InFlight, 1), cmp.Or(w.Units, 1)
				name := fmt.Sprintf("%s %s/%s/raw=%v/by %d", w.Kind, w.Transport, w.Era, w.Raw, w.InFlight)
				t.Run(name, func(t *testing.T) { rehearseOne(t, p, w, absent(w), good) })
			}
		}
	}
}

func rehearseOne(t *testing.T, p Peer, w Work, absent bool, good func(error) bool) {
	rig, err := p.Open(t.Context(), w)
	if absent {
		if !errors.Is(err, errAbsent) {
			t.Fatalf("Open: %v, want %v", err, errAbsent)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rig.Close(); err != nil {
			t.Error("Close:", err)
		}
	}()
	var callers sync.WaitGroup
	for range w.InFlight {
		callers.Go(func() {
			if err := rig.Do(t.Context()); !good(err) {
				t.Error("Do:", err)
			}
		})
	}
	callers.Wait()
}

// refuse has a peer be absent for every way but the direct one.
func refuse(t *testing.T, p Peer) {
	for _, way := range []Way{Proxied, Bridged, Policed, Approved} {
		w := Work{Kind: Call, Transport: Pipe, Era: Modern, Way: way, Size: 100, InFlight: 1, Units: 1}
		if _, err := p.Open(t.Context(), w); !errors.Is(err, errAbsent) {
			t.Errorf("%s: %v, want %v", way, err, errAbsent)
		}
	}
}
