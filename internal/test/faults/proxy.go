package faults

import (
	"net"
	"sync"
	"testing"
)

// A Proxy is an [Injector] for the connections to a TCP server.
type Proxy struct {
	*Injector
	listener net.Listener
	target   string
	running  sync.WaitGroup
}

// NewProxy starts a proxy to the server at the address target, such as 127.0.0.1:8080. The
// proxy listens on a free port of 127.0.0.1 and is closed when the test ends. Target must be
// a loopback address.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	server, err := net.ResolveTCPAddr("tcp", target)
	if err != nil || !server.IP.IsLoopback() {
		t.Fatalf("the target of a proxy is %q, expected a loopback address: %v", target, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Injector: NewInjector(), listener: listener, target: target}
	p.running.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr returns the address of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close closes the proxy and all connections, and waits until they have ended. A second call
// does nothing.
func (p *Proxy) Close() {
	_ = p.listener.Close() // the second time it fails
	p.Injector.Close()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() {
			server, err := net.Dial("tcp", p.target)
			if err != nil {
				_ = tcp{client.(*net.TCPConn)}.Reset() // as if the server had refused it
				return
			}
			p.Forward(tcp{client.(*net.TCPConn)}, tcp{server.(*net.TCPConn)})
		})
	}
}

// tcp is the End of a TCP connection.
type tcp struct{ *net.TCPConn }

// Reset closes the connection with a RST segment: SO_LINGER with a timeout of 0.
func (c tcp) Reset() error {
	if err := c.SetLinger(0); err != nil {
		return err
	}
	return c.Close()
}
