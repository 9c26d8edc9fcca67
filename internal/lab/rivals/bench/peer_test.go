package main

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Each peer does each kind of work once for each caller, over each transport in each version, or is absent.
func TestPeers(t *testing.T) {
	for _, p := range peers() {
		for _, transport := range []Transport{Pipe, Stdio, Streamable} {
			for _, era := range eras() {
				few, many := over(transport, era, Call), over(transport, era, Call)
				many.Callers, many.Tools = 4, 3
				list, progress := over(transport, era, List), over(transport, era, Progress)
				list.Tools, progress.Units = 12, 1000
				for _, w := range []Work{few, many, list, progress, over(transport, era, Start)} {
					absent := p.Name() == bare || p.Name() != ours && transport == Pipe
					t.Run(fmt.Sprintf("%s/%s %s, %v, by %d", p.Name(), w.Kind, transport, era, w.Callers), func(t *testing.T) {
						openAndDo(t, p, w, absent)
					})
				}
			}
		}
	}
}

// Only dovetail has proxies and bridges.
func TestPaths(t *testing.T) {
	for _, b := range paths() {
		for _, v := range b.Variants[1:] {
			for _, p := range peers() {
				t.Run(fmt.Sprintf("%s/%s/%s", b.Name, v.Name, p.Name()), func(t *testing.T) { openAndDo(t, p, v.Work, p.Name() != ours) })
			}
		}
	}
}

func openAndDo(t *testing.T, p Peer, w Work, absent bool) {
	r, err := p.Open(t.Context(), w)
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
		if err := r.Close(); err != nil {
			t.Error("Close:", err)
		}
	}()
	var callers sync.WaitGroup
	for range w.Callers {
		callers.Go(func() {
			err := r.Do(t.Context())
			if lost, ok := errors.AsType[*lossError](err); ok && p.Name() == other && lost.got > 0 {
				t.Log(lost) // mcp-go may lose notifications, but not all of them
			} else if err != nil {
				t.Error("Do:", err)
			}
		})
	}
	callers.Wait()
}

// Each peer is measured in a process of its own, or is absent.
func TestMeters(t *testing.T) {
	register := Work{Kind: Register, Tools: 3, Callers: 1, Units: 1}
	idle, legacyStream, modernStream := over(Streamable, Legacy, Idle), over(Streamable, Legacy, Idle), over(Streamable, Modern, Idle)
	idle.Sessions, legacyStream.Sessions, modernStream.Sessions = 20, 20, 20
	legacyStream.Streams, modernStream.Streams = true, true
	legacyLoad, modernLoad := over(Streamable, Legacy, Load), over(Streamable, Modern, Load)
	legacyLoad.Callers, modernLoad.Callers = 3, 3
	usesCPU := func(s Sample) bool { return s.CPU > 0 }
	isLoad := func(s Sample) bool { return s.CPU > 0 && s.Rate > 0 && s.P99 > 0 }
	for name, test := range map[string]struct {
		w       Work
		hasWire bool
		good    func(Sample) bool
	}{
		"register":       {register, false, usesCPU},
		"start":          {over(Stdio, Legacy, Start), false, usesCPU},
		"build":          {over(Stdio, Legacy, Build), false, func(s Sample) bool { return s.CPU > 0 && s.Bytes > 1e6 && s.Bytes < 1e8 }},
		"session":        {idle, false, func(s Sample) bool { return s.Bytes > 100 }},
		"stream, legacy": {legacyStream, true, func(s Sample) bool { return s.Bytes > 1000 }},
		"stream, modern": {modernStream, true, func(s Sample) bool { return s.Bytes > 1000 }},
		"load, legacy":   {legacyLoad, true, isLoad},
		"load, modern":   {modernLoad, true, isLoad},
	} {
		for _, p := range peers() {
			t.Run(name+"/"+p.Name(), func(t *testing.T) {
				m, err := openMeter(t.Context(), p, test.w)
				if p.Name() == bare && !test.hasWire {
					if !errors.Is(err, errAbsent) {
						t.Errorf("%v, want %v", err, errAbsent)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				if s, err := m.measure(t.Context(), time.Millisecond); err != nil || !test.good(s) {
					t.Errorf("%+v, %v", s, err)
				}
			})
		}
	}
}
