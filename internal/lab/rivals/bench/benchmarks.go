package main

import (
	"fmt"
	"slices"
)

// A Benchmark compares variants, which take turns.
type Benchmark struct {
	Name     string
	Table    string // the heading of its results
	Variants []Variant
	Once     bool // one round is as exact as many
}

// A Variant is a peer and its work.
type Variant struct {
	Name string
	Peer string
	Work Work
}

// The names of peers, and of the variants that are peers.
const (
	ours     = "dovetail"
	official = "go-sdk"
	other    = "mcp-go"
	bare     = "wire"
)

// Tables, in their order.
const (
	loadTable     = "A server under load of 50 clients"
	callsTable    = "Calls, lists and progress: client and server"
	startTable    = "Start of a server over stdio, one call and its end"
	registerTable = "Start with 1,000 tools"
	pathsTable    = "Calls through a proxy or a bridge"
	idleTable     = "Memory of the server"
	buildTable    = "A small server: size and build"
)

// benchmarks returns all benchmarks, in the order of the tables.
func benchmarks() []Benchmark {
	return slices.Concat(loads(), calls(), starts(), paths(), memories(), builds())
}

// compare returns a benchmark in which all peers do the same.
func compare(table, name string, w Work) Benchmark {
	b := Benchmark{Name: name, Table: table, Once: w.Kind == Idle}
	for _, peer := range []string{ours, official, other, bare} {
		b.Variants = append(b.Variants, Variant{peer, peer, w})
	}
	return b
}

func (e Era) String() string {
	if e == Modern {
		return "modern"
	}
	return "legacy"
}

func eras() []Era { return []Era{Legacy, Modern} }

func loads() (all []Benchmark) {
	for _, era := range eras() {
		w := over(Streamable, era, Load)
		w.Callers = 50
		all = append(all, compare(loadTable, fmt.Sprintf("50 clients, HTTP, %v", era), w))
	}
	return all
}

func calls() (all []Benchmark) {
	add := func(name string, w Work) {
		place := "HTTP"
		if w.Transport == Stdio {
			place = "stdio"
		}
		all = append(all, compare(callsTable, fmt.Sprintf("%s, %s, %v", name, place, w.Era), w))
	}
	for _, transport := range []Transport{Stdio, Streamable} {
		for _, era := range eras() {
			add("call 100 B", over(transport, era, Call))
		}
	}
	for _, era := range eras() {
		w := over(Streamable, era, Call)
		w.Size = 1_000_000
		add("call 1 MB", w)
	}
	for _, era := range eras() {
		w := over(Streamable, era, List)
		w.Tools = 1000
		add("list 1,000 tools", w)
	}
	for _, w := range []Work{over(Stdio, Legacy, Progress), over(Streamable, Modern, Progress)} {
		w.Units = 1000
		add("progress", w)
	}
	return all
}

func starts() []Benchmark {
	tools := Work{Kind: Register, Tools: 1000, Callers: 1, Units: 1}
	return []Benchmark{
		compare(startTable, "start to first answer", over(Stdio, Legacy, Start)),
		compare(registerTable, "register 1,000 tools", tools),
	}
}

// paths compare calls through servers that have others behind them with direct calls.
func paths() (all []Benchmark) {
	for _, transport := range []Transport{Pipe, Streamable} {
		w := over(transport, Modern, Call)
		b := Benchmark{Name: pathsName(transport), Table: pathsTable, Variants: []Variant{{direct, ours, w}}}
		for _, path := range []Path{Proxied, Bridged} {
			for _, upstreams := range upstreamCounts() {
				w.Path, w.Upstreams = path, upstreams
				b.Variants = append(b.Variants, Variant{pathName(path, upstreams), ours, w})
			}
		}
		all = append(all, b)
	}
	return all
}

// direct is the variant that others are compared with.
const direct = "direct"

func upstreamCounts() []int { return []int{1, 20, 50} }

func pathsName(transport Transport) string {
	if transport == Pipe {
		return "call 100 B, memory"
	}
	return "call 100 B, HTTP"
}

func pathName(path Path, upstreams int) string {
	if upstreams == 1 {
		return string(path)
	}
	return fmt.Sprintf("%s, %d upstreams", path, upstreams)
}

func memories() []Benchmark {
	session := over(Streamable, Legacy, Idle)
	session.Sessions = 1000
	all := []Benchmark{compare(idleTable, "idle session, legacy", session)}
	for _, era := range eras() {
		stream := over(Streamable, era, Idle)
		stream.Sessions, stream.Streams = 1000, true
		all = append(all, compare(idleTable, fmt.Sprintf("idle stream, %v", era), stream))
	}
	return all
}

func builds() []Benchmark {
	return []Benchmark{
		compare(buildTable, "hello over stdio", over(Stdio, Legacy, Build)),
		compare(buildTable, "hello over HTTP", over(Streamable, Legacy, Build)),
	}
}
