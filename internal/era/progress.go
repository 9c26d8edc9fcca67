package era

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"sync"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxTracked is how many progress notifications wait for a slow callback, and maxTrackedText
// how many bytes their messages may have. The oldest are dropped, since the newest supersede
// them.
const (
	maxTracked     = 16 << 10
	maxTrackedText = 16 << 20
)

// A progressQueue passes the progress of one call from the read loop to the goroutine that
// makes the call.
type progressQueue struct {
	deadline.Activity // the call's timeout counts from the last progress

	mu     sync.Mutex
	queued []*mcp.ProgressParams
	text   int // bytes of their messages
	ready  chan struct{}
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
	if !first { // the goroutine was signalled already
		return
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns what is queued, and reuses the slice that the last call has returned.
func (q *progressQueue) take(before []*mcp.ProgressParams) []*mcp.ProgressParams {
	clear(before)
	q.mu.Lock()
	defer q.mu.Unlock()
	queued := q.queued
	q.queued, q.text = before[:0], 0
	return queued
}

// receive queues a progress notification. It ignores a malformed one.
func (q *progressQueue) receive(token json.RawMessage, notification *jsonrpc.Request) {
	if p, err := progressOf(notification, token); err == nil {
		q.add(p)
	}
}

// A report is the memory of one progress notification.
type report struct {
	params mcp.ProgressParams
	total  float64 // what params.Total points to
}

// progressOf decodes a notification with that token. It needs no scan for the usual members.
func progressOf(notification *jsonrpc.Request, token json.RawMessage) (*mcp.ProgressParams, error) {
	r := new(report)
	r.params.ProgressToken = mcp.ProgressToken(token)
	for key := range notification.Keys() {
		if !r.readMember(key, notification) {
			p := new(mcp.ProgressParams)
			return p, p.UnmarshalJSON(notification.Params)
		}
	}
	return &r.params, nil
}

func (r *report) readMember(key []byte, notification *jsonrpc.Request) (ok bool) {
	switch string(key) {
	case `"progressToken"`:
		return true
	case `"progress"`:
		r.params.Progress, ok = number(notification.Member("progress"))
	case `"total"`:
		total := notification.Member("total")
		if r.total, ok = number(total); ok {
			r.params.Total = &r.total
		}
		ok = ok || jsonscan.KindOf(total) == jsonscan.Number // one that no float64 holds is absent
	case `"message"`:
		if raw := notification.Member("message"); jsonscan.KindOf(raw) == jsonscan.String {
			r.params.Message, ok = jsonscan.Unquote(raw), true
		}
	}
	return ok
}

func number(raw json.RawMessage) (float64, bool) {
	value, err := strconv.ParseFloat(string(raw), 64)
	return value, err == nil && jsonscan.KindOf(raw) == jsonscan.Number
}

// doTracked makes the call on a second goroutine and runs the callback on this one. It returns
// after both.
func (c *Client) doTracked(ctx context.Context, method string, params jsonrpc.Appender, opts CallOptions) (*jsonrpc.Response, error) {
	q := &progressQueue{ready: make(chan struct{}, 1)}
	token, stop := c.TrackProgress(q.receive)
	defer stop()

	type outcome struct {
		resp *jsonrpc.Response
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		resp, err := c.era.do(q.Context(ctx), c, method, params, token, opts)
		done <- outcome{resp, err}
	}()
	var taken []*mcp.ProgressParams
	deliver := func() {
		taken = q.take(taken)
		for _, p := range taken {
			opts.Progress(p)
		}
	}
	for {
		select {
		case <-q.ready:
			deliver()
		case out := <-done:
			deliver()
			return out.resp, out.err
		}
	}
}

// TrackProgress returns a progress token that no other call of the session has. handle is
// called for the progress notifications with that token until stop is called. It runs on the
// read loop, so it must neither block nor retain the notification.
func (c *Client) TrackProgress(handle func(token json.RawMessage, progress *jsonrpc.Request)) (token json.RawMessage, stop func()) {
	key := strconv.FormatInt(c.tokens.Add(1), 10)
	token = json.RawMessage(key)
	c.mu.Lock()
	c.tracked[key] = func(progress *jsonrpc.Request) { handle(token, progress) }
	c.mu.Unlock()
	return token, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.tracked, key)
	}
}

// handleProgress passes progress to the call that it belongs to, if there is one.
func (c *Client) handleProgress(notification *jsonrpc.Request) {
	token := notification.Member(mcp.MetaProgressToken)
	c.mu.Lock()
	handle := c.tracked[string(token)]
	if handle == nil {
		handle = c.tracked[plainToken(token)]
	}
	c.mu.Unlock()
	if handle != nil {
		handle(notification)
	}
}

// plainToken returns the number in a progress token that a server sends back as text, or as a number such as 7.0. The
// tokens of this client are numbers.
func plainToken(token json.RawMessage) string {
	switch jsonscan.KindOf(token) {
	case jsonscan.String:
		return jsonscan.Unquote(token)
	case jsonscan.Number:
		if n, err := strconv.ParseFloat(string(token), 64); err == nil && math.Abs(n) < 1<<53 {
			return strconv.FormatFloat(n, 'f', -1, 64)
		}
	}
	return ""
}
