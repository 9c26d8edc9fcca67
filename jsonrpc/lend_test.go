package jsonrpc_test

import (
	"bytes"
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// textOf is a string of JSON that is that long.
func textOf(c string, size int) jsonrpc.Raw {
	return jsonrpc.Raw(`{"text":"` + strings.Repeat(c, size) + `"}`)
}

// What has not been released stays as it is, whatever becomes of the memory of other
// answers.
func TestLentAnswers(t *testing.T) {
	for kind, pair := range streams {
		t.Run(kind, func(t *testing.T) {
			near, far := pair(t)
			run(t, near, handler{handle: echo})
			peer := run(t, far, handler{})
			var callers sync.WaitGroup
			for _, c := range []string{"a", "b", "c", "d"} {
				callers.Go(func() {
					var kept []*jsonrpc.Response
					for i := range 60 {
						resp, err := peer.Call(context.Background(), "tools/call", textOf(c, 1+i*1000))
						if err != nil {
							t.Error(err)
							return
						}
						if i%2 == 0 {
							kept = append(kept, resp)
							continue
						}
						resp.Release()
					}
					for i, resp := range kept {
						if want := textOf(c, 1+2*i*1000); !bytes.Equal(resp.Result, want) || string(resp.Member("text")) != string(want[8:len(want)-1]) {
							t.Errorf("answer %d of caller %s is now %.80s", i, c, resp.Result)
						}
					}
				})
			}
			callers.Wait()
		})
	}
}

// Frames that a stream gets back are large answers that have been released, and nothing
// else that somebody may have kept.
func TestLentFrames(t *testing.T) {
	near, far := streams["memory"](t)
	run(t, near, handler{handle: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
		if req.Method == "fail" {
			return &jsonrpc.Error{Code: 1, Message: "failed", Data: append([]byte(nil), req.Params...)}
		}
		return reply.Write(jsonrpc.Raw(req.Params))
	}})
	ledger := &ledger{Stream: far}
	peer := run(t, ledger, handler{})
	for _, test := range []struct {
		method   string
		size     int
		released bool
		want     int
	}{
		{"echo", 10, true, 0},
		{"echo", 100_000, false, 0},
		{"fail", 100_000, false, 0},
		{"echo", 100_000, true, 1},
	} {
		resp, err := peer.Call(context.Background(), test.method, textOf("x", test.size))
		if (err != nil) != (test.method == "fail") {
			t.Fatal(err)
		}
		if test.released {
			resp.Release()
		}
		if got := ledger.back(); got != test.want {
			t.Errorf("%+v: %d frames came back", test, got)
		}
	}
}

// A ledger counts the frames that come back to a stream.
type ledger struct {
	jsonrpc.Stream
	mu     sync.Mutex
	frames int
}

func (l *ledger) Recycle([]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames++
}

func (l *ledger) back() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frames
}

// A large answer in memory costs little that lasts, once it is released: neither who
// writes it nor the stream needs memory of its own each time, although small messages
// go by in between.
func TestLentAnswerBudget(t *testing.T) {
	if raced {
		t.Skip("pools forget at random when races are looked for")
	}
	const size = 512 << 10
	near, far := streams["memory"](t)
	answer := textOf("x", size)
	run(t, near, handler{handle: func(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
		return reply.Write(answer)
	}})
	peer := run(t, far, handler{})
	call := func() {
		resp, err := peer.Call(context.Background(), "tools/list", textOf("x", 10))
		if err != nil {
			t.Fatal(err)
		}
		resp.Release()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would empty the pools
	for range 10 {
		call()
	}
	const calls = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		call()
	}
	runtime.ReadMemStats(&after)
	if took := int(after.TotalAlloc-before.TotalAlloc) / calls; took > size/4 {
		t.Errorf("an answer of %d bytes takes %d", size, took)
	}
}
