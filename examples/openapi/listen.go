package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// A listener is a web server on an address of its own.
type listener struct {
	url   string
	web   *http.Server
	ended chan struct{} // closed when it does not serve any more
	err   error         // why, once it has ended
}

func listen(address string, handler http.Handler) (*listener, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	l := &listener{
		url:   "http://" + socket.Addr().String(),
		web:   &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute},
		ended: make(chan struct{}),
	}
	go func() {
		defer close(l.ended)
		if err := l.web.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
			l.err = err
		}
	}()
	return l, nil
}

// close lets requests finish for a second, and ends the listener.
func (l *listener) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.web.Shutdown(ctx) != nil {
		l.web.Close()
	}
	<-l.ended
	return l.err
}
