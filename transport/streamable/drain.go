package streamable

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLast bounds how long connections that were made before the end of a listener are accepted, and then how
	// long their requests are awaited.
	maxLast = time.Second
	// acceptPause is how long a listener that ends waits for a connection that the system has not handed over yet.
	acceptPause = 2 * time.Millisecond
)

// A drain ends a web server whose balancer sends a request elsewhere only if it cannot connect. The server
// ends listening first. It still serves the connections that were made before, and refuses nothing.
type drain struct {
	*net.TCPListener
	last atomic.Pointer[time.Time] // when Accept ends in any case; nil while the server goes on
	open bool                      // Accept waits for a connection that the system has not handed over yet

	mu      sync.Mutex
	conns   map[net.Conn]struct{} // from which a request is expected, or whose request has no answer
	changed chan struct{}         // of capacity 1
}

func newDrain(listener *net.TCPListener) *drain {
	return &drain{TCPListener: listener, conns: make(map[net.Conn]struct{}), changed: make(chan struct{}, 1)}
}

// Accept returns the next connection. After end was called, it returns the connections that were made before, and then
// [net.ErrClosed]. Only one goroutine may call it.
func (d *drain) Accept() (net.Conn, error) {
	for {
		conn, err := d.TCPListener.Accept()
		last := d.last.Load()
		switch {
		case last == nil:
			return conn, err
		case err == nil:
			d.open = false
			return conn, nil
		case !errors.Is(err, os.ErrDeadlineExceeded), d.open, time.Now().After(*last):
			return nil, errors.Join(net.ErrClosed, d.Close())
		}
		// A deadline in the past also hides connections that have been made, so the next one is in the future.
		d.open = true
		if err := d.SetDeadline(time.Now().Add(acceptPause)); err != nil {
			return nil, err
		}
	}
}

// end ends listening, and waits until all connections have their answers. Each of the two takes at most limit, and at most
// a second.
func (d *drain) end(web *http.Server, served <-chan error, limit time.Duration, logger *slog.Logger) error {
	limit = min(limit, maxLast)
	raw, err := d.SyscallConn()
	if err == nil {
		err = refuseConnections(raw)
	}
	if err != nil {
		logger.Warn("a connection that is made while the server ends may be lost", "error", err)
	}
	last := time.Now().Add(limit)
	d.last.Store(&last)
	if err := d.SetDeadline(time.Now()); err != nil {
		return err
	}
	if ended := <-served; !errors.Is(ended, net.ErrClosed) {
		return ended
	}
	web.SetKeepAlivesEnabled(false)
	timeout := time.After(limit)
	for !d.idle() {
		select {
		case <-d.changed:
		case <-timeout:
			return nil
		}
	}
	return nil
}

func (d *drain) idle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.conns) == 0
}

// track is the ConnState of the web server.
func (d *drain) track(conn net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if state == http.StateNew || state == http.StateActive {
		d.conns[conn] = struct{}{}
		return
	}
	delete(d.conns, conn)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// wrap returns a handler whose responses, from the end of ctx on, close their connections. A stream is not awaited.
func (d *drain) wrap(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && r.Method == http.MethodGet && r.ProtoMajor == 1 {
			d.track(conn, http.StateIdle)
		}
		if ctx.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
