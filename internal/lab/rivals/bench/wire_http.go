package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// A poster posts the same body again and again.
type poster struct {
	web  http.Client
	url  string
	body []byte
}

func newPoster(url string, body []byte) *poster {
	return &poster{http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}, url, body}
}

func (p *poster) post(ctx context.Context, status int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := p.web.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != status {
		resp.Body.Close()
		return nil, fmt.Errorf("status %s", resp.Status)
	}
	return resp, nil
}

// Close drops the connections.
func (p *poster) Close() error {
	p.web.CloseIdleConnections()
	return nil
}

// take reads the request, as a server has to.
func (s *script) take(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return same(body, s.request)
}

// stream writes the answer as events, each when it happens. The client misses what is
// not written.
func (s *script) stream(rw http.ResponseWriter) {
	for _, event := range s.events {
		_, _ = rw.Write(event)
		rw.(http.Flusher).Flush()
	}
}

// wireStreamable answers in the body: as JSON, or as events if there are many.
func wireStreamable(s *script, w Work) (Rig, error) {
	want := s.answer[0]
	serve := func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Content-Length", strconv.Itoa(len(want)))
		_, _ = rw.Write(want) // the client misses what is not written
	}
	if len(s.answer) > 1 {
		want = bytes.Join(s.events, nil)
		serve = func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "text/event-stream")
			s.stream(rw)
		}
	}
	var closing closers
	url, err := closing.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := s.take(r); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		serve(rw)
	}), func() error { return nil })
	if err != nil {
		return nil, err
	}
	p := newPoster(url, s.request)
	closing.add(p.Close)
	bufs := sync.Pool{New: func() any { b := make([]byte, len(want)+1); return &b }}
	call := func(ctx context.Context) error {
		resp, err := p.post(ctx, http.StatusOK)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		buf := bufs.Get().(*[]byte)
		defer bufs.Put(buf)
		n, err := io.ReadFull(resp.Body, *buf)
		if err != io.ErrUnexpectedEOF {
			return fmt.Errorf("after %d bytes: %w", n, err)
		}
		return same((*buf)[:n], want)
	}
	if w.Kind != Session {
		return newRig(call, closing...), nil
	}
	posts := w.Units
	if w.Era == Legacy {
		posts += 3 // initialize, notifications/initialized, and the end
	}
	return newRig(func(ctx context.Context) error {
		for range posts {
			if err := call(ctx); err != nil {
				return err
			}
		}
		return nil
	}, closing...), nil
}

// wireSSE answers on one stream.
func wireSSE(ctx context.Context, s *script) (Rig, error) {
	var closing closers
	want := bytes.Join(s.events, nil)
	var stream struct {
		sync.Mutex
		http.ResponseWriter
	}
	url, err := closing.serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			stream.Lock()
			stream.ResponseWriter = rw
			rw.Header().Set("Content-Type", "text/event-stream")
			rw.(http.Flusher).Flush()
			stream.Unlock()
			<-r.Context().Done()
			return
		}
		if err := s.take(r); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		rw.WriteHeader(http.StatusAccepted)
		stream.Lock()
		defer stream.Unlock()
		s.stream(stream.ResponseWriter)
	}), func() error { return nil })
	if err != nil {
		return nil, err
	}
	p := newPoster(url, s.request)
	closing.add(p.Close)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, closing.after(err)
	}
	resp, err := p.web.Do(req)
	if err != nil {
		return nil, closing.after(err)
	}
	events, buf := bufio.NewReaderSize(resp.Body, 64<<10), make([]byte, len(want))
	c := newWireClient(func() error {
		resp, err := p.post(ctx, http.StatusAccepted)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}, func() (wrong, end error) {
		if _, err := io.ReadFull(events, buf); err != nil {
			return nil, err
		}
		return same(buf, want), nil
	})
	closing.add(c.wait)
	closing.add(resp.Body.Close)
	return newRig(c.Do, closing...), nil
}
