package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// wire is no library: an HTTP server of the standard library that compares the request with the expected bytes
// and sends the response of dovetail. It is the lower limit of the costs.
type wire struct{}

func (wire) Name() string { return bare }

func (wire) Open(context.Context, Work) (Rig, error) { return nil, errAbsent }
func (wire) Serve(context.Context, Work) error       { return errAbsent }
func (wire) Register(Work) (any, error)              { return nil, errAbsent }

// Handler has no sessions. A stream is silent.
func (wire) Handler(w Work) (http.Handler, func() error, error) {
	if w.Kind != Load && !w.Streams {
		return nil, nil, errAbsent
	}
	request, response := newEcho(w).request(w.Era), []byte(nil)
	if w.Kind == Load {
		var err error
		if response, err = recordedResponse(w); err != nil {
			return nil, nil, err
		}
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		if bytes.Equal(body, request) {
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Content-Length", strconv.Itoa(len(response)))
			_, _ = rw.Write(response) // the client notices if bytes are missing
			return
		}
		if r.Method != http.MethodGet && r.Header.Get("Mcp-Method") != listen {
			return // initialize
		}
		rw.Header().Set("Content-Type", "text/event-stream")
		rw.WriteHeader(http.StatusOK)
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}), func() error { return nil }, nil
}

// recordedResponse returns the response of dovetail to a call of echo.
func recordedResponse(w Work) (response []byte, err error) {
	handler, end, err := dovetail{}.Handler(w)
	if err != nil {
		return nil, err
	}
	var closing closers
	url, err := closing.serve(handler, end)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closing.close()) }()
	web := &http.Client{Transport: new(http.Transport)}
	defer web.CloseIdleConnections()
	c, err := newCaller(context.Background(), web, url, w)
	if err != nil {
		return nil, err
	}
	err = c.call(context.Background())
	return c.answer.Bytes(), err
}
