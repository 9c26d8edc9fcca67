package memnet

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Network is a listener together with the function that dials it. Its methods may be called
// concurrently.
type Network struct {
	accepts   chan net.Conn
	closed    chan struct{}
	closeOnce sync.Once

	mu     sync.Mutex
	dialed []net.Conn
}

// New returns a network without connections.
func New() *Network {
	return &Network{accepts: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the server's end of the next connection.
func (n *Network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.accepts:
		return conn, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and DialContext fail. Connections stay open.
func (n *Network) Close() error {
	n.closeOnce.Do(func() { close(n.closed) })
	return nil
}

// Addr returns an address that is not a loopback address.
func (n *Network) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// DialContext returns the client's end of a new connection. It ignores its last two arguments.
func (n *Network) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.accepts <- server:
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dialed = append(n.dialed, client)
		return client, nil
	case <-n.closed:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Dialed returns the number of connections.
func (n *Network) Dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.dialed)
}

// Cut closes all connections.
func (n *Network) Cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.dialed {
		conn.Close()
	}
}
