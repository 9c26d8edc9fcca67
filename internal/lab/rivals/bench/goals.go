package main

// A Goal is what a contest should come out as.
type Goal struct {
	Contest string
	Entry   string
	Measure Measure
	// Against are the entries of which the best is compared with Entry. Without any the
	// measure stands for itself.
	Against []string
	// One of the two is set. For Rate it is AtLeast.
	AtLeast, AtMost float64
	// Held takes the place of the goal in what counts as broken, as long as the goal is
	// not reached. See the known limits in README.md. 0: it is the goal.
	Held float64
}

// A Measure is a member of Sample, or the time of a unit.
type Measure string

const (
	Rate   Measure = "rate"
	Time   Measure = "time"
	Allocs Measure = "allocations"
	Memory Measure = "memory"
)

// goals are all there are.
func goals() []Goal {
	return []Goal{
		faster("call 100 B, pipe, legacy", 5),
		faster("call 100 B, pipe, modern", 8),
		faster("call 100 B, stdio, legacy", 3.4),
		faster("call 100 B, stdio, modern", 5),
		near("call 100 B, stdio, legacy", 0.5).held(0.3),
		near("call 100 B, stdio, modern", 0.5).held(0.3),
		faster("call 100 B, streamable, legacy", 2.1),
		faster("call 100 B, streamable, modern", 3.2),
		near("call 100 B, streamable, legacy", 0.75),
		near("call 100 B, streamable, modern", 0.75),
		faster("call 100 B x16, streamable, legacy", 2),
		faster("call 100 B x16, streamable, modern", 2),
		near("call 100 B x16, streamable, legacy", 0.75),
		near("call 100 B x16, streamable, modern", 0.75),
		faster("dispatch 100 B, bytes, legacy", 10),
		{Contest: "dispatch 100 B, bytes, legacy", Entry: ours, Measure: Allocs, AtMost: 12},
		near("call 100 B, ws, modern", 0.65),
		faster("call 10 KB, streamable, modern", 9),
		faster("call 1 MB, streamable, modern", 15),
		{Contest: "call 1 MB, streamable, modern", Entry: ours, Measure: Memory, AtMost: 6.5 * (1 << 20)},
		faster("list 1000, pipe, legacy", 25),
		near("list 1000, pipe, legacy", 0.1).held(0.01),
		faster("list 1000, streamable, modern", 25),
		near("list 1000, streamable, modern", 0.1).held(0.04),
		faster("progress, stdio, legacy", 8).held(6),
		faster("progress, streamable, modern", 4),
		Goal{Contest: "build 1000", Entry: ours, Measure: Time, Against: rivals(), AtMost: 1. / 3}.held(0.5),
		Goal{Contest: "build 1000", Entry: ours, Measure: Allocs, Against: rivals(), AtMost: 1. / 3}.held(0.85),
		Goal{Contest: "idle session, legacy", Entry: ours, Measure: Memory, AtMost: 2 << 10}.held(3600),
		Goal{Contest: "idle stream, streamable, legacy", Entry: ours, Measure: Memory, Against: []string{bare}, AtMost: 1.2}.held(1.3),
		{Contest: "idle stream, streamable, modern", Entry: ours, Measure: Memory, Against: []string{bare}, AtMost: 1.2},
		{Contest: "ways, pipe, modern", Entry: Proxied.String(), Measure: Time, Against: []string{Direct.String()}, AtMost: 2.4},
		{Contest: "ways, streamable, modern", Entry: Proxied.String(), Measure: Time, Against: []string{Direct.String()}, AtMost: 2.4},
		flat("1 to 1,000 tools, pipe, legacy"),
		flat("1 to 10,000 sessions, streamable, legacy"),
		flat("1 KB to 1 MB (by byte), pipe, legacy"),
		flat("1 KB to 1 MB (by byte), streamable, modern"),
		replicated("replicas x16, streamable, legacy", 0.5),
		replicated("replicas x16, streamable, modern", 0.8),
	}
}

// held is the goal until it is reached.
func (g Goal) held(at float64) Goal {
	g.Held = at
	return g
}

func rivals() []string { return []string{official, other} }

// faster compares with the best rival.
func faster(contest string, times float64) Goal {
	return Goal{Contest: contest, Entry: ours, Measure: Rate, Against: rivals(), AtLeast: times}
}

// near compares with the limit.
func near(contest string, share float64) Goal {
	return Goal{Contest: contest, Entry: ours, Measure: Rate, Against: []string{bare}, AtLeast: share}
}

// replicated compares three replicas with one.
func replicated(contest string, share float64) Goal {
	return Goal{Contest: contest, Entry: threeReplicas, Measure: Rate, Against: []string{oneReplica}, AtLeast: share}
}

// flat compares large with small; a fifth may be noise.
func flat(contest string) Goal {
	return Goal{Contest: contest, Entry: small(false), Measure: Rate, Against: []string{small(true)}, AtLeast: 0.8}
}
