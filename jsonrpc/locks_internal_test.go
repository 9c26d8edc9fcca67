package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
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
		for range 3 { // so that goroutines run at any time, in whatever order the functions below do
			table.startGoroutine()
		}
	}
	idle := table.whenIdle()
	var begun, refused [2]int
	var answered, canceled int
	begin := func(i int) func(round int) {
		return func(round int) { // the other goroutine begins the calls with these ids
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
	if table.replying != 0 || table.goroutines != 3*n+all {
		t.Errorf("%d replies are written and %d goroutines run, want 0 and %d", table.replying, table.goroutines, 3*n+all)
	}
	for range 3*n + all {
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

// A batch is sent once, with all responses, whatever the order in which its calls end.
func TestBatchIsAnsweredConcurrently(t *testing.T) {
	const n = 30 // of 64 messages that a batch may have, 60 are answered
	c := NewConn(nil, func(*Conn) Handler { return nil }, nil)
	b := batch{pending: 3 * n}
	to := &lastReply{}
	add := func(caller string) func(round int) {
		return func(round int) { c.addToBatch(&b, to, fmt.Appendf(nil, "%q", fmt.Sprint(caller, round))) }
	}
	racetest.Together(n, add("a"), add("b"), func(int) { c.addToBatch(&b, to, nil) })
	items, err := SplitBatch(to.msg)
	if err != nil || to.count != 1 || len(items) != 2*n {
		t.Fatalf("the batch was sent %d times, with %d responses (%v); want once with %d", to.count, len(items), err, 2*n)
	}
	for i := range n {
		for _, caller := range []string{"a", "b"} {
			if want := fmt.Sprintf("%q", fmt.Sprint(caller, i)); !slices.ContainsFunc(items, func(item json.RawMessage) bool { return string(item) == want }) {
				t.Errorf("the batch does not have the response %s", want)
			}
		}
	}
}

// A lastReply keeps the last reply.
type lastReply struct {
	count int
	msg   []byte
}

func (r *lastReply) Reply(msg []byte) { r.count, r.msg = r.count+1, bytes.Clone(msg) }

// Lines that are written at the same time arrive whole and in the order of each writer. After a failed
// write, every line is refused.
func TestLinesAreWrittenConcurrently(t *testing.T) {
	const n = 300
	for name, limit := range map[string]int{"all": 1 << 20, "until writing fails": 1 << 10} {
		t.Run(name, func(t *testing.T) {
			w := &failingWriter{left: limit}
			l := NewLines(bytes.NewReader(nil), w, w, 0).(*lines)
			var written [3]int
			write := func(i int) func(round int) {
				return func(round int) {
					err := l.Write(context.Background(), fmt.Appendf(nil, "[%d,%d]", i, round))
					switch {
					case err == nil:
						written[i]++
					case !errors.Is(err, errFull) && !errors.Is(err, ErrClosed):
						t.Errorf("Write: %v", err)
					}
				}
			}
			racetest.Together(n,
				write(0),
				write(1),
				func(int) {
					if err := l.writeError(); err != nil && !errors.Is(err, errFull) {
						t.Errorf("writeError: %v", err)
					}
				},
			)
			racetest.Together(n, write(2), func(int) { _ = l.Close() }, func(int) { _ = l.Close() })
			if err := l.Write(context.Background(), []byte("[]")); !errors.Is(err, ErrClosed) && !errors.Is(err, errFull) {
				t.Errorf("Write after Close: %v", err)
			}
			var next [3]int
			for line := range bytes.Lines(w.got) {
				var i, round int
				if _, err := fmt.Sscanf(string(line), "[%d,%d]\n", &i, &round); err != nil || round < next[i] {
					t.Fatalf("the line %q was written after line %d of its writer: %v", line, next[i], err)
				}
				next[i] = round + 1
			}
			if got := bytes.Count(w.got, []byte("\n")); limit == 1<<20 && got != written[0]+written[1]+written[2] {
				t.Errorf("%v lines were written, %d arrived", written, got)
			}
		})
	}
}

var errFull = errors.New("the writer is full")

// A failingWriter accepts as many bytes as are left, and writes either all of a piece or nothing.
type failingWriter struct {
	left int
	got  []byte
}

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errFull
	}
	w.got = append(w.got, p...)
	return len(p), nil
}

func (*failingWriter) Close() error { return nil }
