package faults

import (
	"io"
	"sync"
)

// A Kind says what happens to a connection.
type Kind string

const (
	// Close ends both directions. Both sides read the end of the stream.
	Close Kind = "close"
	// Reset ends both directions without a proper end: TCP connections are reset.
	Reset Kind = "reset"
	// Stall forwards nothing more in either direction. The connection stays open, as if a
	// cable was pulled.
	Stall Kind = "stall"
	// HalfClose ends the direction of the fault only. The other direction continues.
	HalfClose Kind = "half-close"
)

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{Close, Reset, Stall, HalfClose} }

// A Direction is a direction of a connection.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// Directions returns both directions.
func Directions() []Direction { return []Direction{ToServer, ToClient} }

// String returns "to server" or "to client".
func (d Direction) String() string {
	if d == ToClient {
		return "to client"
	}
	return "to server"
}

// A Fault breaks one connection. The zero value breaks none.
type Fault struct {
	Kind      Kind
	Direction Direction
	// After is how many bytes are forwarded in Direction before the fault, counted over all
	// connections from the call of [Injector.Arm]. The connection that carries the last one
	// of them breaks. With 0, the connection breaks that would carry the first byte.
	After int64
}

// An End is one side of a connection. *net.TCPConn has all methods except for Reset; [Pipes]
// returns the End of a pair of pipes.
type End interface {
	io.ReadWriteCloser
	// CloseWrite ends the direction in which Write writes.
	CloseWrite() error
	// Reset closes the connection so that the other side gets an error.
	Reset() error
}

// An Injector forwards bytes between pairs of ends and injects faults. Its methods may be
// called concurrently.
type Injector struct {
	mu     sync.Mutex
	fault  Fault
	counts [2]int64      // forwarded bytes since Arm, by direction
	struck chan struct{} // closed when the fault has struck
	piece  int
	links  map[*link]bool
	closed bool
}

// NewInjector returns an injector without a fault.
func NewInjector() *Injector {
	return &Injector{struck: make(chan struct{}), links: make(map[*link]bool)}
}

// Arm sets the fault in place of an earlier one and resets the counts. The returned channel
// is closed when the fault has struck. A fault strikes once.
func (i *Injector) Arm(f Fault) (struck <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fault, i.counts, i.struck = f, [2]int64{}, make(chan struct{})
	return i.struck
}

// Trickle limits every write to size bytes; 0 means no limit.
func (i *Injector) Trickle(size int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.piece = size
}

// Count returns how many bytes were forwarded in a direction since [Injector.Arm].
func (i *Injector) Count(d Direction) int64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts[d]
}

// Strike breaks all open connections now. Later connections are not affected.
func (i *Injector) Strike(kind Kind, d Direction) {
	i.mu.Lock()
	var open []*link
	for l := range i.links {
		open = append(open, l)
	}
	i.mu.Unlock()
	for _, l := range open {
		l.strike(kind, d)
	}
}

// Close closes all connections, also stalled ones. Later calls of Forward return
// immediately.
func (i *Injector) Close() {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.Strike(Close, ToClient)
}

// Forward forwards bytes between two ends until both directions have ended, and closes the
// ends. A stalled connection ends with [Injector.Close].
func (i *Injector) Forward(client, server End) {
	l := &link{injector: i, ends: [2]End{ToServer: server, ToClient: client}, stalled: make(chan struct{}), closed: make(chan struct{})}
	i.mu.Lock()
	closed := i.closed
	i.links[l] = true
	i.mu.Unlock()
	if closed {
		l.strike(Close, ToClient)
	}
	var other sync.WaitGroup
	other.Go(func() { l.pump(ToClient) })
	l.pump(ToServer)
	other.Wait()
	l.strike(Close, ToClient)
	i.mu.Lock()
	delete(i.links, l)
	i.mu.Unlock()
}

// take counts up to n bytes. It returns how many of them are to be written next, and the kind
// of the fault that strikes after them, "" for none. When it has struck, struck is to be closed.
func (i *Injector) take(d Direction, n int) (size int, kind Kind, struck chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.piece > 0 {
		n = min(n, i.piece)
	}
	f := i.fault
	if f.Kind == "" || f.Direction != d || f.After-i.counts[d] > int64(n) {
		i.counts[d] += int64(n)
		return n, "", nil
	}
	n = int(f.After - i.counts[d])
	i.counts[d] = f.After
	i.fault = Fault{}
	return n, f.Kind, i.struck
}

// A link is one connection.
type link struct {
	injector *Injector
	ends     [2]End        // by the direction that leads to them
	stalled  chan struct{} // closed when nothing more is forwarded
	closed   chan struct{} // closed when the ends are closed
	mu       sync.Mutex    // protects both channels
}

// pump forwards one direction.
func (l *link) pump(d Direction) {
	from, to := l.ends[1-d], l.ends[d]
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			if l.isStalled() {
				<-l.closed
				return
			}
			size, kind, struck := l.injector.take(d, len(rest))
			if _, err := to.Write(rest[:size]); err != nil {
				l.strikeUnlessStalled()
				return
			}
			rest = rest[size:]
			if kind != "" {
				l.strike(kind, d)
				close(struck)
				if kind == HalfClose { // the sender must not notice
					_, _ = io.Copy(io.Discard, from)
				}
				return
			}
		}
		switch {
		case err == io.EOF && !l.isStalled():
			_ = to.CloseWrite() // it fails if the connection is closed
			return
		case err != nil:
			l.strikeUnlessStalled()
			return
		}
	}
}

// strikeUnlessStalled resets the connection after an error. The error of one end of a
// stalled connection does not reach the other end.
func (l *link) strikeUnlessStalled() {
	if l.isStalled() {
		<-l.closed
		return
	}
	l.strike(Reset, ToClient)
}

func (l *link) isStalled() bool {
	select {
	case <-l.stalled:
		return true
	default:
		return false
	}
}

// strike applies a fault to the connection.
func (l *link) strike(kind Kind, d Direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return
	default:
	}
	switch kind {
	case Stall:
		if !l.isStalled() {
			close(l.stalled)
		}
		return
	case HalfClose:
		_ = l.ends[d].CloseWrite() // it fails if that side has closed the connection
		return
	case Reset:
		for _, end := range l.ends {
			_ = end.Reset() // nothing can be done about a failure
		}
	default:
		for _, end := range l.ends {
			_ = end.CloseWrite()
		}
		for _, end := range l.ends {
			_ = end.Close()
		}
	}
	close(l.closed)
}

// Pipes returns an End that reads from one pipe and writes to another. Its Reset calls
// reset, for example to end the process.
func Pipes(in io.ReadCloser, out io.WriteCloser, reset func()) End { return pipes{in, out, reset} }

type pipes struct {
	io.ReadCloser
	out   io.WriteCloser
	reset func()
}

func (p pipes) Write(data []byte) (int, error) { return p.out.Write(data) }
func (p pipes) CloseWrite() error              { return p.out.Close() }

func (p pipes) Close() error {
	_ = p.out.Close() // CloseWrite may have closed it
	return p.ReadCloser.Close()
}

func (p pipes) Reset() error {
	p.reset()
	return p.Close()
}
