package main

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// readHeaderTimeout is what the servers of all have.
const readHeaderTimeout = 5 * time.Second

// A site is an HTTP server on this machine, with nothing but what every one should have.
type site struct {
	url    string // with a slash at its end
	server http.Server
	served chan error
}

func newSite(h http.Handler) (*site, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{
		url:    "http://" + listener.Addr().String() + "/",
		server: http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout},
		served: make(chan error, 1),
	}
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Close hangs up on everyone.
func (s *site) Close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
