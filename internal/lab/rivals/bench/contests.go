package main

import (
	"fmt"
	"slices"
)

// Tables, in their order.
const (
	callsTable    = "Typed calls"
	rawTable      = "Untyped calls"
	flightTable   = "Calls in flight"
	bytesTable    = "Server alone, bytes to bytes"
	listsTable    = "Lists of tools"
	sessionsTable = "Sessions: opened, ten calls, closed"
	progressTable = "Progress notifications, 1,000 in one call"
	coldTable     = "Cold start"
	idleTable     = "Memory of the server for each idle session"
	waysTable     = "Ways of a call"
	growthTable   = "Growth"
	replicasTable = "Replicas behind a balancer, each a process"
)

// A place is a transport with an era.
type place struct {
	transport Transport
	era       Era
}

func (p place) String() string {
	switch {
	case p.transport == SSE:
		return "sse"
	case p.era == Modern:
		return string(p.transport) + ", modern"
	}
	return string(p.transport) + ", legacy"
}

func places(transports ...Transport) []place {
	var all []place
	for _, transport := range transports {
		all = append(all, place{transport, Legacy})
		if transport != SSE {
			all = append(all, place{transport, Modern})
		}
	}
	return all
}

// at is work at a place, which does one thing at a time.
func (p place) at(kind Kind) Work {
	return Work{Kind: kind, Transport: p.transport, Era: p.era, InFlight: 1, Units: 1, Size: 100}
}

// contests are all there are.
func contests() []Contest {
	return slices.Concat(calls(), lists(), loads(), starts(), ways(), growths(), replicas())
}

func calls() []Contest {
	var all []Contest
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		for _, p := range places(Pipe, Stdio, Streamable, SSE, WebSocket) {
			w := p.at(Call)
			w.Size = size
			all = append(all, among(callsTable, fmt.Sprintf("call %s, %s", sizeOf(size), p), w))
		}
	}
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		for _, p := range places(Bytes) {
			w := p.at(Call)
			w.Size = size
			all = append(all, among(bytesTable, fmt.Sprintf("dispatch %s, %s", sizeOf(size), p), w))
		}
	}
	for _, p := range places(Pipe, Streamable) {
		w := p.at(Call)
		w.Raw = true
		all = append(all, among(rawTable, fmt.Sprintf("untyped call 100 B, %s", p), w))
	}
	return all
}

// sizeOf is a size as people say it.
func sizeOf(size int) string {
	switch {
	case size >= 1<<20:
		return fmt.Sprintf("%d MB", size>>20)
	case size >= 1<<10:
		return fmt.Sprintf("%d KB", size>>10)
	}
	return fmt.Sprintf("%d B", size)
}

func lists() []Contest {
	var all []Contest
	for _, tools := range []int{10, 100, 1000} {
		for _, p := range places(Pipe, Streamable) {
			w := p.at(List)
			w.Tools = tools
			all = append(all, among(listsTable, fmt.Sprintf("list %d, %s", tools, p), w))
		}
	}
	return all
}

func loads() []Contest {
	var all []Contest
	for _, flight := range []int{16, 256} {
		for _, p := range places(Pipe, Stdio, Streamable, SSE, WebSocket) {
			w := p.at(Call)
			w.InFlight = flight
			all = append(all, among(flightTable, fmt.Sprintf("call 100 B x%d, %s", flight, p), w))
		}
	}
	for _, p := range places(Streamable) {
		w := p.at(Session)
		w.InFlight, w.Units = 100, 10
		all = append(all, among(sessionsTable, fmt.Sprintf("100 sessions at once, %s", p), w))
	}
	for _, p := range places(Stdio, Streamable) {
		w := p.at(Progress)
		w.Units = 1000
		all = append(all, among(progressTable, fmt.Sprintf("progress, %s", p), w))
	}
	return all
}

func starts() []Contest {
	var all []Contest
	for _, tools := range []int{1, 100, 1000} {
		w := place{Bytes, Modern}.at(Cold)
		w.Tools = tools
		all = append(all, among(coldTable, fmt.Sprintf("build %d", tools), w))
	}
	w := place{Streamable, Legacy}.at(Idle)
	w.Sessions = 1000
	all = append(all, among(idleTable, "idle session, legacy", w))
	for _, p := range places(Streamable) {
		w := p.at(Idle)
		w.Sessions, w.Streams = 1000, true
		all = append(all, among(idleTable, fmt.Sprintf("idle stream, %s", p), w))
	}
	return all
}

func ways() []Contest {
	var all []Contest
	for _, p := range places(Pipe, Streamable) {
		c := Contest{Name: fmt.Sprintf("ways, %s", p), Table: waysTable}
		for _, way := range []Way{Direct, Proxied, Bridged, Policed, Approved} {
			w := p.at(Call)
			w.Way = way
			c.Entries = append(c.Entries, of(way.String(), w))
		}
		all = append(all, c)
	}
	return all
}

// growths compare small with large.
func growths() []Contest {
	grow := func(name string, w Work, small, large func(*Work) string) Contest {
		c := Contest{Name: name, Table: growthTable}
		for _, change := range []func(*Work) string{small, large} {
			w := w
			name := change(&w)
			c.Entries = append(c.Entries, of(name, w))
		}
		return c
	}
	tools := func(n int) func(*Work) string {
		return func(w *Work) string { w.Tools = n - 1; return small(n == 1) }
	}
	sessions := func(n int) func(*Work) string {
		return func(w *Work) string { w.Sessions = n - 1; return small(n == 1) }
	}
	size := func(n int) func(*Work) string { // units are bytes
		return func(w *Work) string { w.Size, w.Units = n, n; return small(n == 1<<10) }
	}
	return []Contest{
		grow("1 to 1,000 tools, pipe, legacy", place{Pipe, Legacy}.at(Call), tools(1), tools(1000)),
		grow("1 to 10,000 sessions, streamable, legacy", place{Streamable, Legacy}.at(Call), sessions(1), sessions(10_000)),
		grow("1 KB to 1 MB (by byte), pipe, legacy", place{Pipe, Legacy}.at(Call), size(1<<10), size(1<<20)),
		grow("1 KB to 1 MB (by byte), streamable, modern", place{Streamable, Modern}.at(Call), size(1<<10), size(1<<20)),
	}
}

// replicas compare three with one, which has no store.
func replicas() []Contest {
	var all []Contest
	for _, p := range places(Streamable) {
		w := p.at(Call)
		w.InFlight = 16
		one, three := w, w
		one.Replicas, three.Replicas = 1, 3
		all = append(all, Contest{
			Name: fmt.Sprintf("replicas x16, %s", p), Table: replicasTable,
			Entries: []Entry{of(oneReplica, one), of(threeReplicas, three)},
		})
	}
	return all
}

// Names of entries of replicas.
const (
	oneReplica    = "one"
	threeReplicas = "three"
)

func small(is bool) string {
	if is {
		return "small"
	}
	return "large"
}
