package ws_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// counter is a server that counts notifications.
type counter struct{ notes atomic.Int64 }

func (c *counter) Bind(transport.Link) jsonrpc.Handler { return c }

func (c *counter) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return echo(ctx, from, req, reply)
}

func (c *counter) Notified(jsonrpc.Peer, *jsonrpc.Request) { c.notes.Add(1) }

// flooding is a server that sends notifications, numbered, as long as it can.
func flooding(link transport.Link) jsonrpc.Handler {
	link.Go(func(ctx context.Context) {
		for i := 0; ; i++ {
			if link.Peer.Notify(ctx, "flood", jsonrpc.Raw(fmt.Sprintf(`[%d,"%s"]`, i, strings.Repeat("x", 1000)))) != nil {
				return
			}
		}
	})
	return handler(echo)
}

// What was sent before Close arrives.
func TestCloseSendsWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &counter{}
		n := newNetwork(t, ws.Handler(server, nil))
		conn := n.dial(t, ws.DialOptions{})
		const notes = 1000
		for range notes {
			if err := conn.Notify(t.Context(), "note", nil); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
		synctest.Wait()
		if got := server.notes.Load(); got != notes {
			t.Errorf("%d of %d notifications arrived", got, notes)
		}
	})
}

// Answers that are queued when the client closes are sent before the closing is
// confirmed.
func TestCloseAfterCalls(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, ws.Handler(binder(echoing), nil))
			conn, _ := n.connect(t.Context(), "", "")
			client := newRawClient(t, conn)
			const calls = 5
			for i := range calls {
				client.Write(frame(fin|text, strings.Replace(echoCall, `"id":1`, fmt.Sprintf(`"id":%d`, i), 1)))
				synctest.Wait()
			}
			client.Write(frame(fin|closes, closePayload(1000, "")))
			synctest.Wait()
			for i := range calls {
				client.receive(t, text, strings.Replace(echoAnswer, `"id":1`, fmt.Sprintf(`"id":%d`, i), 1))
			}
			client.receive(t, closes, closePayload(1000, ""))
		})
	}
}

// A server that goes on talking does not disturb closing.
func TestCloseWhileTheServerTalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, ws.Handler(binder(flooding), nil))
		conn := n.dial(t, ws.DialOptions{})
		start := time.Now()
		conn.Close()
		if took := time.Since(start); took > 0 {
			t.Errorf("closing took %v", took)
		}
	})
}

// Close waits for the server to close, but not for ever, whatever it goes on sending.
func TestCloseWaitsForTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		talks time.Duration // how long the server goes on
		took  time.Duration // what Close takes
	}{
		"for a while":    {500 * time.Millisecond, 500 * time.Millisecond},
		"within a bound": {time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, silentServer(func(conn net.Conn) {
					done := make(chan struct{})
					go func() {
						defer close(done)
						io.Copy(io.Discard, conn)
					}()
					for end := time.Now().Add(c.talks); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
						if _, err := conn.Write(serverFrame(fin|ping, "")); err != nil {
							break
						}
					}
					conn.Write(serverFrame(fin|closes, closePayload(1000, "")))
					<-done
				}))
				conn := n.dial(t, ws.DialOptions{})
				start := time.Now()
				conn.Close()
				if took := time.Since(start).Round(100 * time.Millisecond); took != c.took {
					t.Errorf("closing took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// A reader that pauses misses nothing: who writes waits.
func TestPausingReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, ws.Handler(binder(flooding), nil))
		conn, _ := n.connect(t.Context(), "", "")
		client := newRawClient(t, conn)
		for i := range 5000 {
			if i%1000 == 0 {
				<-time.After(2 * time.Second)
			}
			_, payload, err := client.next()
			if want := fmt.Sprintf(`[%d,"xxx`, i); err != nil || !strings.Contains(payload, want) {
				t.Fatalf("message %d is %.100q (%v)", i, payload, err)
			}
		}
	})
}

// Who takes nothing is cut off even if it goes on talking.
func TestTalkingSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		n := newNetwork(t, ws.Handler(binder(func(link transport.Link) jsonrpc.Handler {
			link.Go(func(ctx context.Context) {
				<-ctx.Done()
				close(ended)
			})
			return flooding(link)
		}), nil))
		conn, _ := n.connect(t.Context(), "", "")
		client := newRawClient(t, conn)
		start := time.Now()
		for talking := true; talking; {
			select {
			case <-ended:
				talking = false
			case <-time.After(100 * time.Millisecond):
				client.Write(frame(fin|ping, ""))
			}
		}
		if took := time.Since(start); took > ws.DefaultWriteTimeout+2*time.Second {
			t.Errorf("it was cut off after %v", took)
		}
	})
}
