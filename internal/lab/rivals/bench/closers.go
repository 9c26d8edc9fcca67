package main

import (
	"errors"
	"net/http"
	"slices"
)

// closers close what has been opened, the last one first.
type closers []func() error

func (c *closers) add(fn func() error) { *c = append(*c, fn) }

// serve serves an endpoint on a site of its own. The endpoint is closed before it.
func (c *closers) serve(endpoint http.Handler, fn func() error) (url string, err error) {
	s, err := newSite(endpoint)
	if err != nil {
		return "", errors.Join(err, fn())
	}
	c.add(s.Close)
	c.add(fn)
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
