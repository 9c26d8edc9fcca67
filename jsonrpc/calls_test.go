package jsonrpc

import (
	"errors"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/internal/racetest"
)

// No call of the peer is lost or counted twice, whatever else is done with the table.
func TestCallsAreRegisteredConcurrently(t *testing.T) {
	const n = 300
	var table callTable
	newCall := func(id int) *incomingCall { return &incomingCall{req: &Request{ID: IntID(int64(id))}} }
	var running [n]*incomingCall
	for i := range running {
		running[i] = newCall(i)
		if err := table.begin(running[i], 4*n); err != nil {
			t.Fatal(err)
		}
		table.startGoroutine()
	}
	idle := table.whenIdle()
	var begun, refused [2]int
	var answered, canceled int
	begin := func(i int) func(round int) {
		return func(round int) { // the ids are those of the other goroutine that begins calls
			switch err := table.begin(newCall(n+round), 4*n); {
			case err == nil:
				begun[i]++
			case errors.Is(err, errDuplicateID):
				refused[i]++
			default:
				t.Errorf("begin: %v", err)
			}
		}
	}
	racetest.Together(n,
		begin(0),
		begin(1),
		func(round int) {
			if table.complete(running[round]) {
				answered++
			}
		},
		func(int) { table.endReply() },
		func(round int) {
			if table.cancel(IntID(int64(n/2+round))) != nil { // running calls and new ones
				canceled++
			}
		},
		func(round int) {
			if round%100 == 0 && slices.Contains(table.others(running[n-1]), running[n-1]) {
				t.Error("others returns the call itself")
			}
		},
		func(int) { table.startGoroutine() },
		func(int) { table.endGoroutine() },
		func(int) { table.whenIdle() },
	)
	all := begun[0] + begun[1]
	if all+refused[0]+refused[1] != 2*n || table.running != all || len(table.incoming) != n+all-answered-canceled {
		t.Errorf("of %d calls %d began and %d were refused; %d run and %d can be answered, after %d were answered and %d canceled",
			2*n, all, refused[0]+refused[1], table.running, len(table.incoming), answered, canceled)
	}
	if table.replying != 0 || table.goroutines != n+all {
		t.Errorf("%d replies are written and %d goroutines run, want 0 and %d", table.replying, table.goroutines, n+all)
	}
	for range n + all {
		select {
		case <-idle:
			t.Fatal("the table is idle while a goroutine runs")
		default:
			table.endGoroutine()
		}
	}
	select {
	case <-idle:
	default:
		t.Error("the table is not idle after the last goroutine has ended")
	}
}

// Each call to the peer has an id of its own, and is answered, abandoned or ended with the table, but
// only once.
func TestCallsAreSentConcurrently(t *testing.T) {
	const n = 300
	var table callTable
	var prepared [n]<-chan *Response
	for i := range prepared {
		_, response, err := table.send(nil, n)
		if err != nil {
			t.Fatal(err)
		}
		prepared[i] = response
	}
	reason := errors.New("the connection has ended")
	halfway := make(chan struct{})
	type call struct {
		id       ID
		response <-chan *Response
	}
	var sent [2][]call
	send := func(i int) func(round int) {
		return func(round int) {
			if i == 0 && round == n/2 {
				close(halfway)
			}
			id, response, err := table.send(nil, 4*n)
			if err == nil {
				sent[i] = append(sent[i], call{id, response})
			} else if err != reason {
				t.Errorf("send: %v", err)
			}
		}
	}
	closeTable := func(round int) {
		if round == 0 {
			<-halfway
			table.close(reason)
		}
	}
	var delivered, abandoned [n]bool
	racetest.Together(n,
		send(0),
		send(1),
		func(round int) { delivered[round] = table.deliver(&Response{ID: IntID(int64(round))}, nil) },
		func(round int) { abandoned[round] = table.abandon(IntID(int64(n - 1 - round))) },
		func(round int) { table.awaits(IntID(int64(round))) },
		func(round int) {
			if !table.hasSent(IntID(int64(round))) {
				t.Errorf("the id %d does not count as sent", round)
			}
		},
		closeTable,
		closeTable,
	)
	slices.Reverse(abandoned[:])
	for i, response := range prepared {
		ended := !delivered[i] && !abandoned[i]
		if delivered[i] && abandoned[i] {
			t.Errorf("the call %d was delivered and abandoned", i)
		}
		select {
		case resp, open := <-response:
			if open != delivered[i] || open && resp.ID != IntID(int64(i)) || !open && !ended {
				t.Errorf("the call %d was delivered: %t, abandoned: %t; its response is %v", i, delivered[i], abandoned[i], resp)
			}
		default:
			if !abandoned[i] {
				t.Errorf("the call %d waits for ever", i)
			}
		}
	}
	ids := map[ID]bool{}
	for _, c := range slices.Concat(sent[0], sent[1]) {
		if _, open := <-c.response; open || ids[c.id] {
			t.Errorf("the call %v got a response: %t; another call has its id: %t", c.id, open, ids[c.id])
		}
		ids[c.id] = true
	}
	if table.made != int64(n+len(ids)) || len(table.outgoing) != 0 {
		t.Errorf("the table counts %d calls, %d of which wait; %d were sent", table.made, len(table.outgoing), n+len(ids))
	}
}

// The first reason to close a table is kept.
func TestCallsAreClosedConcurrently(t *testing.T) {
	reasons := []error{errors.New("the first reason"), errors.New("another reason")}
	for range 100 {
		var table callTable
		var before error
		racetest.Together(1,
			func(int) { table.close(reasons[0]) },
			func(int) { table.close(reasons[1]) },
			func(int) { before = table.closeReason() },
		)
		if got := table.closeReason(); !slices.Contains(reasons, got) || before != nil && before != got {
			t.Errorf("the reason is %v, and was %v", got, before)
		}
	}
}
