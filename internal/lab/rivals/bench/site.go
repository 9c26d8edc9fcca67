package main

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"time"
)

// readHeaderTimeout is the same for the HTTP servers of all peers.
const readHeaderTimeout = 5 * time.Second

// A site is an HTTP server on this machine.
type site struct {
	url    string // ends with a slash
	server http.Server
	served chan error
}

func newSite(h http.Handler, state func(net.Conn, http.ConnState)) (*site, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{
		url:    "http://" + listener.Addr().String() + "/",
		server: http.Server{Handler: h, ReadHeaderTimeout: readHeaderTimeout, ConnState: state},
		served: make(chan error, 1),
	}
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Close closes all connections.
func (s *site) Close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// closers close what has been opened, in reverse order.
type closers []func() error

func (c *closers) add(fn func() error) { *c = append(*c, fn) }

// serve serves a handler on a new site. The handler is closed before the site.
func (c *closers) serve(handler http.Handler, end func() error) (url string, err error) {
	s, err := newSite(handler, nil)
	if err != nil {
		return "", errors.Join(err, end())
	}
	c.add(s.Close)
	c.add(end)
	return s.url, nil
}

// close returns all errors.
func (c closers) close() error {
	var errs []error
	for _, fn := range slices.Backward(c) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}

// after closes everything because of err.
func (c closers) after(err error) error { return errors.Join(err, c.close()) }
