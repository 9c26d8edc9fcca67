package era

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxTracked is how many progress notifications wait for a slow callback, and
// maxTrackedText how many bytes of their messages. When more come the oldest go: the
// newest says more.
const (
	maxTracked     = 16 << 10
	maxTrackedText = 16 << 20
)

// A track takes the progress of one call from the read loop to the goroutine
// that makes the call.
type track struct {
	mu     sync.Mutex
	queued []*mcp.ProgressParams
	text   int // bytes of their messages
	wake   chan struct{}
}

func (t *track) add(p *mcp.ProgressParams) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queued = append(t.queued, p)
	t.text += len(p.Message)
	for len(t.queued) > 1 && (len(t.queued) > maxTracked || t.text > maxTrackedText) {
		t.text -= len(t.queued[0].Message)
		t.queued = t.queued[1:]
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *track) take() []*mcp.ProgressParams {
	t.mu.Lock()
	defer t.mu.Unlock()
	queued := t.queued
	t.queued, t.text = nil, 0
	return queued
}

// doTracked makes the call on a second goroutine, so that this one can run the
// callback as progress comes; it returns after both.
func (s *Session) doTracked(ctx context.Context, method string, params jsonrpc.Appender, progress func(*mcp.ProgressParams)) (*jsonrpc.Response, error) {
	t := &track{wake: make(chan struct{}, 1)}
	token := strconv.FormatInt(s.tokens.Add(1), 10)
	s.mu.Lock()
	s.tracked[token] = t
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.tracked, token)
		s.mu.Unlock()
	}()

	type outcome struct {
		resp *jsonrpc.Response
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		resp, err := s.era.do(ctx, s, method, params, json.RawMessage(token))
		done <- outcome{resp, err}
	}()
	for {
		select {
		case <-t.wake:
			for _, p := range t.take() {
				progress(p)
			}
		case out := <-done:
			for _, p := range t.take() {
				progress(p)
			}
			return out.resp, out.err
		}
	}
}

// progressed hands progress to the call it belongs to, if that still runs.
func (s *Session) progressed(note *jsonrpc.Request) {
	token := note.Member("progressToken")
	s.mu.Lock()
	t := s.tracked[string(token)]
	s.mu.Unlock()
	if t == nil {
		if p := s.passages.withToken(token); p != nil {
			p.add(note)
		}
		return
	}
	var p mcp.ProgressParams
	if err := p.UnmarshalJSON(note.Params); err == nil {
		t.add(&p)
	}
}
