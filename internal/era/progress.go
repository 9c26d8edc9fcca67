package era

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
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

// A progressQueue takes the progress of one call from the read loop to the goroutine
// that makes the call.
type progressQueue struct {
	deadline.Activity // the call's timeout counts from the last progress

	mu     sync.Mutex
	queued []*mcp.ProgressParams
	text   int // bytes of their messages
	wake   chan struct{}
}

func (q *progressQueue) add(p *mcp.ProgressParams) {
	q.Renew()
	q.mu.Lock()
	q.queued = append(q.queued, p)
	q.text += len(p.Message)
	for len(q.queued) > 1 && (len(q.queued) > maxTracked || q.text > maxTrackedText) {
		q.text -= len(q.queued[0].Message)
		q.queued = q.queued[1:]
	}
	first := len(q.queued) == 1
	q.mu.Unlock()
	if !first { // somebody is coming already
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns what is queued; what comes next goes into the slice that was taken
// before.
func (q *progressQueue) take(before []*mcp.ProgressParams) []*mcp.ProgressParams {
	clear(before)
	q.mu.Lock()
	defer q.mu.Unlock()
	queued := q.queued
	q.queued, q.text = before[:0], 0
	return queued
}

// received queues a progress notification. One that is malformed is ignored.
func (q *progressQueue) received(token json.RawMessage, note *jsonrpc.Request) {
	if p, err := progressOf(note, token); err == nil {
		q.add(p)
	}
}

// A report is progress as one piece of memory.
type report struct {
	params mcp.ProgressParams
	total  float64 // what params.Total points to
}

// progressOf decodes a notification with that token: what usually comes without
// another scan.
func progressOf(note *jsonrpc.Request, token json.RawMessage) (*mcp.ProgressParams, error) {
	r := new(report)
	r.params.ProgressToken = mcp.ProgressToken(token)
	for key := range note.Keys() {
		if !r.readMember(key, note) {
			p := new(mcp.ProgressParams)
			return p, p.UnmarshalJSON(note.Params)
		}
	}
	return &r.params, nil
}

func (r *report) readMember(key []byte, note *jsonrpc.Request) (ok bool) {
	switch string(key) {
	case `"progressToken"`:
		return true
	case `"progress"`:
		r.params.Progress, ok = number(note.Member("progress"))
	case `"total"`:
		r.total, ok = number(note.Member("total"))
		r.params.Total = &r.total
	case `"message"`:
		if raw := note.Member("message"); jsonscan.KindOf(raw) == jsonscan.String {
			r.params.Message, ok = jsonscan.Unquote(raw), true
		}
	}
	return ok
}

func number(raw json.RawMessage) (float64, bool) {
	value, err := strconv.ParseFloat(string(raw), 64)
	return value, err == nil && jsonscan.KindOf(raw) == jsonscan.Number
}

// doTracked makes the call on a second goroutine, so that this one can run the
// callback as progress comes; it returns after both.
func (s *Session) doTracked(ctx context.Context, method string, params jsonrpc.Appender, progress func(*mcp.ProgressParams)) (*jsonrpc.Response, error) {
	q := &progressQueue{wake: make(chan struct{}, 1)}
	token, stop := s.TrackProgress(q.received)
	defer stop()

	type outcome struct {
		resp *jsonrpc.Response
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		resp, err := s.era.do(q.Context(ctx), s, method, params, token)
		done <- outcome{resp, err}
	}()
	var taken []*mcp.ProgressParams
	tell := func() {
		taken = q.take(taken)
		for _, p := range taken {
			progress(p)
		}
	}
	for {
		select {
		case <-q.wake:
			tell()
		case out := <-done:
			tell()
			return out.resp, out.err
		}
	}
}

// TrackProgress returns a progress token that no other call of the session has. Until
// stop is called, handle is given the progress notifications with that token. It runs on
// the read loop, so it must not block, and it must not keep the notification.
func (s *Session) TrackProgress(handle func(token json.RawMessage, progress *jsonrpc.Request)) (token json.RawMessage, stop func()) {
	key := strconv.FormatInt(s.tokens.Add(1), 10)
	token = json.RawMessage(key)
	s.mu.Lock()
	s.tracked[key] = func(progress *jsonrpc.Request) { handle(token, progress) }
	s.mu.Unlock()
	return token, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.tracked, key)
	}
}

// progressed hands progress to the call that it belongs to, if there is one. It keeps
// nothing of the notification.
func (s *Session) progressed(note *jsonrpc.Request) {
	s.mu.Lock()
	handle := s.tracked[string(note.Member(mcp.MetaProgressToken))]
	s.mu.Unlock()
	if handle != nil {
		handle(note)
	}
}
