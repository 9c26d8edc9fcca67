package streamable

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The server also ends listening on a system that accepts no filter for a listener, such as a sandbox.
func TestDrainWithoutFilters(t *testing.T) {
	var listening net.ListenConfig
	listening.SetMultipathTCP(false)
	listener, err := listening.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1) })
	if err != nil {
		t.Fatal(err)
	}
	d := newDrain(listener.(*net.TCPListener))
	web, served := &http.Server{ConnState: d.track, ReadHeaderTimeout: time.Second}, make(chan error, 1)
	go func() { served <- web.Serve(d) }()
	defer web.Close()
	if err := d.end(web, served, 10*time.Millisecond, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("the end of the server fails: %v", err)
	}
	if conn, err := net.Dial("tcp", listener.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the server still listens: %v", err)
		conn.Close()
	}
}
