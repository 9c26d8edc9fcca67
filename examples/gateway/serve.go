package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// grace is how long calls may take to finish when the program is told to end.
const grace = 5 * time.Second

// run serves until ctx ends.
func run(ctx context.Context, o *options, in io.Reader, said io.Writer) error {
	if o.verify != "" {
		return verify(o.verify, said)
	}
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		return err
	}
	defer listener.Close()
	if o.open && !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return fmt.Errorf("-open serves whoever can reach the address: expected one such as 127.0.0.1, found %s", o.address)
	}
	h, err := open(ctx, o, in, said)
	if err != nil {
		return err
	}
	err = h.serve(ctx, o, listener, said)
	return errors.Join(err, h.close())
}

func (h *hub) serve(ctx context.Context, o *options, listener net.Listener, said io.Writer) error {
	f, err := h.faces(o)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	f.route(mux)
	mux.Handle("/metrics", f.access.Handler(h.metrics))
	h.approver.route(mux)
	if err := h.face.Start(ctx); err != nil {
		return err
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	served := make(chan error, 1)
	go func() {
		served <- web.Serve(listener)
		close(served)
	}()
	h.approver.introduce(said, listener.Addr().String())
	f.introduce(said, listener.Addr().String())
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	// What waits for a person is refused, what runs may finish; then what is left are
	// connections on which nothing has come.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(err, h.approver.close(), f.tools.Shutdown(ending), f.plain.Shutdown(ending), h.face.Shutdown(ending), f.mcp.Close(), web.Shutdown(ending), web.Close())
	<-served
	return err
}
