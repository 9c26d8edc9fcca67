package ws_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// A connection that is idle, and whose peer lives, lasts.
func TestKeepAlive(t *testing.T) {
	for name, c := range map[string]struct{ server, client time.Duration }{
		"both ping":              {0, 0},
		"the server pings":       {time.Minute, -1},
		"the client pings":       {-1, time.Minute},
		"neither does":           {-1, -1},
		"at different intervals": {time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, ws.Handler(binder(echoing), &ws.Options{KeepAlive: c.server}))
				conn := n.dial(t, ws.DialOptions{KeepAlive: c.client})
				<-time.After(3 * time.Hour)
				if _, err := conn.Call(t.Context(), "echo", nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A client that has vanished without a word is noticed.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newRecorded()
		n := newNetwork(t, ws.Handler(server, nil))
		conn, _ := n.connect(t.Context(), "", "")
		client := newRawClient(t, conn)
		go io.Copy(io.Discard, client.in) // as its system does for a while
		start := time.Now()
		<-server.ended
		if took := time.Since(start); took != 37500*time.Millisecond {
			t.Errorf("it took %v, want two and a half times 15 s", took)
		}
	})
}

// A client that answers pings, or is busy sending one long message, lives.
func TestBusyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newRecorded()
		n := newNetwork(t, ws.Handler(server, nil))
		conn, _ := n.connect(t.Context(), "", "")
		client := newRawClient(t, conn)
		received := make(chan int)
		go func() {
			pings := 0
			for {
				opcode, _, err := client.next()
				if err != nil || opcode == text {
					received <- pings
					return
				}
				pings++
			}
		}()
		long := frame(fin|text, strings.Replace(echoCall, "é", strings.Repeat("x", 100), 1))
		client.Write(long[:10])
		for i := range long[10:] {
			<-time.After(30 * time.Second)
			client.Write(long[10+i:][:1])
		}
		if pings := <-received; pings < 100 {
			t.Errorf("%d pings came within an hour", pings)
		}
	})
}

// A server that has vanished without a word is noticed: calls that wait fail, and say
// why.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, silentServer(nil))
		conn := n.dial(t, ws.DialOptions{Conn: jsonrpc.Options{CallTimeout: time.Hour}})
		start := time.Now()
		_, err := conn.Call(t.Context(), "echo", nil)
		var end *ws.CloseError
		if !errors.As(err, &end) || end.Code != 1006 || !strings.Contains(err.Error(), "silent") {
			t.Errorf("the call failed with %v", err)
		}
		if took := time.Since(start); took != 37500*time.Millisecond {
			t.Errorf("it took %v, want two and a half times 15 s", took)
		}
		<-conn.Done()
		if took := time.Since(start); took > 41*time.Second {
			t.Errorf("the connection ended after %v", took)
		}
	})
}

// A client that floods with pings is served like any other, and its pings cost
// nothing that grows.
func TestPingFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, ws.Handler(binder(echoing), nil))
		conn, _ := n.connect(t.Context(), "", "")
		client := newRawClient(t, conn)
		const floods, pings = 10, 10_000
		var flood []byte
		for range pings {
			flood = append(flood, frame(fin|ping, "flood")...)
		}
		for range floods {
			client.Write(flood) // nothing is read meanwhile
			client.Write(frame(fin|ping, "last"))
			client.Write(frame(fin|text, echoCall))
			for answered, last := false, false; !answered || !last; {
				opcode, payload, err := client.next()
				if err != nil {
					t.Fatal(err)
				}
				answered = answered || opcode == text
				last = last || opcode == pong && payload == "last"
			}
		}
	})
}

// Who does not read is cut off, and holds up nobody else; what waits for it is
// bounded.
func TestSlowReader(t *testing.T) {
	const size = 10_000
	synctest.Test(t, func(t *testing.T) {
		written, failed := 0, make(chan error, 1)
		server := binder(func(link transport.Link) jsonrpc.Handler {
			return handler(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
				if req.Method == "echo" {
					return echo(ctx, from, req, reply)
				}
				for {
					if err := from.Notify(ctx, "flood", jsonrpc.Raw(`["`+strings.Repeat("x", size)+`"]`)); err != nil {
						failed <- err
						return err
					}
					written += size
				}
			})
		})
		n := newNetwork(t, ws.Handler(server, nil))
		pipe, _ := n.connect(t.Context(), "", "")
		slow := newRawClient(t, pipe)
		other := n.dial(t, ws.DialOptions{})
		start := time.Now()
		slow.Write(frame(fin|text, `{"jsonrpc":"2.0","id":1,"method":"flood"}`))
		synctest.Wait()
		if written < 1<<20 || written > 3<<20 {
			t.Errorf("%d bytes wait, want about 1 MiB, and as much again that is being written", written)
		}
		if _, err := other.Call(t.Context(), "echo", nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("another client waited for %v", took)
		}
		err := <-failed
		if !errors.Is(err, jsonrpc.ErrClosed) || !strings.Contains(err.Error(), "in time") {
			t.Errorf("writing failed with %v", err)
		}
		if took := time.Since(start); took != ws.DefaultWriteTimeout {
			t.Errorf("the reader was cut off after %v, want %v", took, ws.DefaultWriteTimeout)
		}
	})
}
