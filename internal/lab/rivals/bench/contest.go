package main

// A Contest compares entries: their rounds are interleaved.
type Contest struct {
	Name    string
	Table   string  // in which results are shown
	Entries []Entry // the first is the one that others are compared with
	Once    bool    // one round says as much as many
}

// An Entry is a peer at work.
type Entry struct {
	Name string
	Peer string
	Work Work
}

// Names of entries that are peers.
const (
	ours     = "dovetail"
	official = "go-sdk"
	other    = "mcp-go"
	bare     = "wire"
)

// among lets all peers do the same.
func among(table, name string, w Work) Contest {
	c := Contest{Name: name, Table: table, Once: w.Kind == Idle}
	for _, peer := range []string{ours, official, other, bare} {
		c.Entries = append(c.Entries, Entry{peer, peer, w})
	}
	return c
}

// of is one of our own, for a comparison with itself.
func of(name string, w Work) Entry { return Entry{name, ours, w} }
