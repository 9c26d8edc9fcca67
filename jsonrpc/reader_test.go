package jsonrpc_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A call that comes alone is run by who has read it, if the stream is for that; with
// others about, it is not. Either way what comes next is read meanwhile.
func TestReaderRunsLoneCalls(t *testing.T) {
	for name, test := range map[string]struct {
		stream func(jsonrpc.Stream) jsonrpc.Stream
		calls  int
		want   string // who runs them
	}{
		"alone":                  {func(s jsonrpc.Stream) jsonrpc.Stream { return s }, 1, "reader"},
		"with another behind it": {func(s jsonrpc.Stream) jsonrpc.Stream { return s }, 2, "worker worker"},
		"no peeker":              {func(s jsonrpc.Stream) jsonrpc.Stream { return struct{ jsonrpc.Stream }{s} }, 1, "worker"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				near, far := transport.Streams()
				ran := make(chan string, test.calls)
				release := make(chan struct{})
				h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
					if req.Method == "quick" {
						return echo(ctx, from, req, reply)
					}
					who := "worker"
					if strings.Contains(string(debug.Stack()), "jsonrpc.reader.perform(") {
						who = "reader"
					}
					ran <- who
					<-release
					return echo(ctx, from, req, reply)
				}}
				r := &rig{t: t, peer: far}
				for id := range test.calls { // before anything is read
					r.send(call(id, "slow", `{}`))
				}
				conn := jsonrpc.NewConn(test.stream(near), func(*jsonrpc.Conn) jsonrpc.Handler { return h }, nil)
				ended := make(chan error)
				go func() { ended <- conn.Run(context.Background()) }()
				synctest.Wait()
				var got []string
				for range test.calls {
					got = append(got, <-ran)
				}
				if got := strings.Join(got, " "); got != test.want {
					t.Errorf("%s: want %s", got, test.want)
				}
				r.send(call(7, "quick", `[]`))
				r.expect(result(7, `[]`))
				close(release)
				synctest.Wait()
				conn.Close()
				<-ended
			})
		})
	}
}

// A callback that panics or ends its goroutine ends the connection, not the program, nor
// does it keep Run and Close waiting.
func TestReaderSurvivesCallbacks(t *testing.T) {
	for name, test := range map[string]struct {
		callback func()
		want     string
	}{
		"panic":  {func() { panic("a bug") }, "jsonrpc: reading: panic: a bug\n"},
		"Goexit": {runtime.Goexit, "jsonrpc: reading: a callback has ended the goroutine that reads"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				near, far := transport.Streams()
				opts := &jsonrpc.Options{Malformed: func(error) { test.callback() }}
				conn := jsonrpc.NewConn(near, func(*jsonrpc.Conn) jsonrpc.Handler { return handler{} }, opts)
				ended := make(chan error)
				go func() { ended <- conn.Run(context.Background()) }()
				r := &rig{t: t, peer: far}
				r.send("not JSON")
				if err := <-ended; err == nil || !strings.HasPrefix(err.Error(), test.want) {
					t.Errorf("Run returns %v, want %s", err, test.want)
				}
				conn.Close()
			})
		})
	}
}

// A call whose handler ends its goroutine is answered, its context ends, and its place and
// its id are others'.
func TestHandlerEndsItsGoroutine(t *testing.T) {
	virtual(t, func(t *testing.T) {
		ends := 0
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			if req.Method == "exit" {
				context.AfterFunc(ctx, func() { ends++ })
				runtime.Goexit()
			}
			return echo(ctx, from, req, reply)
		}}
		r := newRig(t, h, &jsonrpc.Options{MaxInFlight: 1})
		for range 3 {
			r.send(call(1, "exit", ``))
			r.expect(failure(1, jsonrpc.InternalError, "internal error"))
			synctest.Wait()
		}
		if ends != 3 {
			t.Errorf("%d of 3 contexts have ended", ends)
		}
		r.send(call(1, "echo", `{}`))
		r.expect(result(1, `{}`))
		r.finish()
	})
}
