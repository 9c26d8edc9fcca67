package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/faults"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// timeout ends a test that hangs.
const timeout = 10 * time.Second

// size is the length of the text that each side sends.
const size = 100

var text = bytes.Repeat([]byte("0123456789"), size/10)

// A pair is both ends of a connection through a proxy.
type pair struct{ client, server *net.TCPConn }

func connect(t *testing.T) (*faults.Proxy, func() pair) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	proxy := faults.NewProxy(t, listener.Addr().String())
	return proxy, func() pair {
		t.Helper()
		client, err := net.Dial("tcp", proxy.Addr())
		if err != nil {
			t.Fatal(err)
		}
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		for _, conn := range []net.Conn{client, server} {
			if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		}
		return pair{client.(*net.TCPConn), server.(*net.TCPConn)}
	}
}

// ends returns the ends of a direction.
func (p pair) ends(d faults.Direction) (from, to *net.TCPConn) {
	if d == faults.ToServer {
		return p.client, p.server
	}
	return p.server, p.client
}

func write(t *testing.T, to io.Writer, data []byte) {
	t.Helper()
	if _, err := to.Write(data); err != nil {
		t.Fatal(err)
	}
}

// Each fault strikes after exactly the given number of bytes.
func TestFaults(t *testing.T) {
	for _, d := range faults.Directions() {
		for _, kind := range faults.Kinds() {
			for _, after := range []int64{0, 1, 37, size} {
				t.Run(fmt.Sprintf("%s %s after %d", kind, d, after), func(t *testing.T) {
					proxy, open := connect(t)
					p := open()
					from, to := p.ends(d)
					write(t, to, text) // the other direction is not counted
					if _, err := io.ReadFull(from, make([]byte, size)); err != nil {
						t.Fatal(err)
					}
					struck := proxy.Arm(faults.Fault{Kind: kind, Direction: d, After: after})
					write(t, from, text)
					<-struck
					if got := proxy.Count(d); got != after {
						t.Errorf("%d bytes were forwarded", got)
					}
					if kind == faults.Stall {
						wait := time.Now().Add(20 * time.Millisecond) // silence is no event
						if err := errors.Join(to.SetReadDeadline(wait), from.SetReadDeadline(wait)); err != nil {
							t.Fatal(err)
						}
					}
					got, err := io.ReadAll(to)
					switch kind {
					case faults.Close, faults.HalfClose:
						// The receiver of an end may find a reset, since nobody reads what it sends.
						if !bytes.Equal(got, text[:after]) || err != nil {
							t.Errorf("received %q, %v", got, err)
						}
					case faults.Reset:
						if !bytes.HasPrefix(text[:after], got) || !errors.Is(err, syscall.ECONNRESET) {
							t.Errorf("received %q, %v", got, err)
						}
					case faults.Stall:
						if !bytes.Equal(got, text[:after]) || !errors.Is(err, os.ErrDeadlineExceeded) {
							t.Errorf("received %q, %v", got, err)
						}
					}
					checkOther(t, kind, from, to)

					next := open()
					from, to = next.ends(d)
					write(t, from, text)
					if _, err := io.ReadFull(to, make([]byte, size)); err != nil {
						t.Errorf("the next connection: %v", err)
					}
				})
			}
		}
	}
}

// checkOther checks the direction that the fault is not in.
func checkOther(t *testing.T, kind faults.Kind, from, to *net.TCPConn) {
	t.Helper()
	if kind == faults.HalfClose {
		write(t, to, text)
		if _, err := io.ReadFull(from, make([]byte, size)); err != nil {
			t.Errorf("the other direction: %v", err)
		}
		return
	}
	n, err := from.Read(make([]byte, 1))
	if n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) != (kind == faults.Stall) {
		t.Errorf("the sender reads %d bytes, %v", n, err)
	}
}

// Without a fault, a proxy forwards everything, also when it trickles.
func TestTrickle(t *testing.T) {
	for _, piece := range []int{0, 1, 7} {
		proxy, open := connect(t)
		proxy.Trickle(piece)
		p := open()
		large := bytes.Repeat(text, 500)
		var both sync.WaitGroup
		for _, d := range faults.Directions() {
			from, to := p.ends(d)
			both.Go(func() {
				if _, err := from.Write(large); err != nil {
					t.Error(err)
				}
				if err := from.CloseWrite(); err != nil {
					t.Error(err)
				}
			})
			both.Go(func() {
				if got, err := io.ReadAll(to); err != nil || !bytes.Equal(got, large) {
					t.Errorf("pieces of %d: received %d bytes, %v", piece, len(got), err)
				}
			})
		}
		both.Wait()
	}
}

// Strike breaks the open connections and no others.
func TestStrike(t *testing.T) {
	proxy, open := connect(t)
	former := open()
	write(t, former.client, text)
	if _, err := io.ReadFull(former.server, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	proxy.Strike(faults.Reset, faults.ToClient)
	for _, conn := range []net.Conn{former.client, former.server} {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("an end reads %v", err)
		}
	}
	later := open()
	write(t, later.client, text)
	if _, err := io.ReadFull(later.server, make([]byte, size)); err != nil {
		t.Error(err)
	}
}

// A stalled connection takes no more than its buffers hold, so that a writer blocks.
func TestStallBlocksWriters(t *testing.T) {
	proxy, open := connect(t)
	p := open()
	write(t, p.client, text) // the proxy has the connection when this has arrived
	if _, err := io.ReadFull(p.server, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	proxy.Strike(faults.Stall, faults.ToServer)
	if err := p.client.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.client.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the error is %v, want the deadline", err)
	}
}

// The ends of pipes get the same faults.
func TestPipes(t *testing.T) {
	for _, kind := range faults.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			injector := faults.NewInjector()
			clientIn, toClient, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			fromClient, clientOut, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			serverIn, toServer := io.Pipe()
			fromServer, serverOut := io.Pipe()
			resets := 0
			struck := injector.Arm(faults.Fault{Kind: kind, Direction: faults.ToClient, After: 10})
			var forwarding sync.WaitGroup
			forwarding.Go(func() {
				injector.Forward(faults.Pipes(fromClient, toClient, func() { resets++ }), faults.Pipes(fromServer, toServer, func() {}))
			})
			go func() {
				_, _ = serverOut.Write(text) // only a part is read
			}()
			<-struck
			if kind == faults.Stall {
				if err := clientIn.SetReadDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
					t.Fatal(err)
				}
			}
			got, err := io.ReadAll(clientIn)
			if want := kind == faults.Stall; string(got) != "0123456789" || errors.Is(err, os.ErrDeadlineExceeded) != want {
				t.Errorf("received %q, %v", got, err)
			}
			if kind == faults.HalfClose {
				write(t, clientOut, text)
				if _, err := io.ReadFull(serverIn, make([]byte, size)); err != nil {
					t.Error(err)
				}
			}
			injector.Close()
			for _, end := range []io.Closer{clientIn, clientOut, serverIn, serverOut} {
				_ = end.Close()
			}
			forwarding.Wait()
			if want := map[bool]int{true: 1}[kind == faults.Reset]; resets != want {
				t.Errorf("%d resets, want %d", resets, want)
			}
		})
	}
}
