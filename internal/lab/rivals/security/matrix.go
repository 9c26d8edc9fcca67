package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Verdict is how a peer reacts to an attack.
type Verdict string

const (
	Safe   Verdict = "safe"
	Unsafe Verdict = "unsafe"
	// NotApplicable is for a peer that does not have what the case is about.
	NotApplicable Verdict = "n/a"
)

// verdictOf returns Unsafe if an attack has succeeded.
func verdictOf(succeeded bool) Verdict {
	if succeeded {
		return Unsafe
	}
	return Safe
}

// A Case is an attack.
type Case struct {
	// ID is the number of the case in MCPSEC, or of the advisory.
	ID   string
	Name string
	// Sent is what the peer gets, and Expected what a safe peer does.
	Sent, Expected string
	// Attack attacks a peer. An error means that the attack could not be made, such as a peer that
	// also refuses harmless requests.
	Attack func(ctx context.Context, p *Peer) (Verdict, error)
}

// Test returns the name of the test of the case.
func (c *Case) Test() string { return "TestMatrix/" + c.ID }

// attackTimeout bounds one attack of one peer.
const attackTimeout = 30 * time.Second

// A Matrix runs cases. Each attack is made once.
type Matrix struct {
	cases []*Case
	peers []*Peer
	mu    sync.Mutex
	done  map[string]outcome
}

type outcome struct {
	verdict Verdict
	err     error
}

// newMatrix returns the matrix of all cases and peers. Close ends the processes of the peers.
func newMatrix() *Matrix {
	return &Matrix{cases: allCases(), peers: allPeers(), done: map[string]outcome{}}
}

// Close ends the processes of all peers.
func (m *Matrix) Close() {
	for _, p := range m.peers {
		p.stop()
	}
}

// verdict returns how a peer reacts to a case.
func (m *Matrix) verdict(ctx context.Context, c *Case, p *Peer) (Verdict, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := c.ID + " " + p.Name
	if known, ok := m.done[key]; ok {
		return known.verdict, known.err
	}
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	verdict, err := c.Attack(ctx, p)
	if err != nil {
		err = fmt.Errorf("%s, %s: %w", c.ID, p.Name, err)
	}
	m.done[key] = outcome{verdict, err}
	return verdict, err
}

// libraries returns the peers of the columns of the table: all except the careless one.
func (m *Matrix) libraries() []*Peer { return m.peers[:len(m.peers)-1] }

// careless returns the peer that must be unsafe in each case.
func (m *Matrix) careless() *Peer { return m.peers[len(m.peers)-1] }
