package streamable

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A response is one HTTP response that carries a stream. It is guarded by the lock of the
// stream, if this replica has the stream.
type response struct {
	endpoint *Endpoint
	w        http.ResponseWriter
	accepts  acceptedTypes
	events   *eventStream  // nil until it is an event stream
	answered bool          // with JSON
	ended    chan struct{} // closed when nothing more will be sent
}

func newResponse(e *Endpoint, w http.ResponseWriter, accepts acceptedTypes) *response {
	return &response{endpoint: e, w: w, accepts: accepts, ended: make(chan struct{})}
}

// open starts an event stream. It reports whether there was one already.
func (c *response) open() bool {
	if c.events != nil {
		return true
	}
	c.events = startEventStream(c.w, &c.endpoint.opts)
	return false
}

// send sends an event. It fails if the client has disconnected. It has no context, since a
// numbered event must not be skipped.
func (c *response) send(e sse.Event) error { return c.events.send(context.Background(), e) }

// replay sends the messages of stored entries until the client disconnects. It reports whether one of
// them is the last of a call, after which there may be that of a replica that was considered dead.
func (c *response) replay(stream string, entries []store.Entry) (ended bool) {
	for _, entry := range entries {
		kind := entryKind(entry)
		if kind == entryMessage || kind == entryReply {
			if c.send(sse.Event{ID: eventID(stream, entry.ID), Data: entry.Data[1:]}) != nil {
				return false
			}
		}
		if isLast(entry) {
			return true
		}
	}
	return false
}

// entryKind returns the kind of an entry, or 0 if it is empty.
func entryKind(entry store.Entry) byte {
	if len(entry.Data) == 0 {
		return 0
	}
	return entry.Data[0]
}

// answer answers with JSON.
func (c *response) answer(msg []byte) {
	c.answered = true
	writeJSON(c.w, http.StatusOK, msg, c.endpoint.opts.Limits.WriteTimeout)
}

// wait waits for the end of the response, of the client or of the session.
func (c *response) wait(client context.Context, s *session) {
	select {
	case <-c.ended:
	case <-client.Done():
	case <-s.conn.Input().Done():
	}
}

// end ends the response. It is called once.
func (c *response) end() { close(c.ended) }

// stop is called before the HTTP handler returns. It reports whether anything was sent.
func (c *response) stop() bool {
	if c.events != nil {
		c.events.stop()
		return true
	}
	return c.answered
}

// An eventStream sends keep-alive comments between events, without a goroutine of its own.
// It must be stopped before the HTTP handler returns.
type eventStream struct {
	stream   *sse.Stream
	interval time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func startEventStream(w http.ResponseWriter, opts *Options) *eventStream {
	p := &eventStream{stream: sse.Start(w, opts.Limits.WriteTimeout), interval: opts.KeepAlive}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.interval, p.keepAlive)
	return p
}

func (p *eventStream) send(ctx context.Context, e sse.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Reset(p.interval)
	return p.stream.Send(ctx, e)
}

// keepAlive sends a comment. If that fails, the context of the request ends.
func (p *eventStream) keepAlive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && p.stream.SendComment() == nil {
		p.timer.Reset(p.interval)
	}
}

func (p *eventStream) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
	p.stream.Close()
}

// writeJSON answers with JSON. It writes pieces with a deadline each, so that a client that
// is too slow is disconnected. net/http sends the last piece and removes the deadline.
func writeJSON(w http.ResponseWriter, status int, body []byte, timeout time.Duration) {
	header := w.Header()
	header["Content-Type"] = typeJSON
	if len(body) > minContentLength { // net/http sets it for shorter bodies
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	control := http.NewResponseController(w)
	w.WriteHeader(status)
	for len(body) > 0 {
		_ = control.SetWriteDeadline(time.Now().Add(timeout)) // not every writer has deadlines
		piece := body[:min(len(body), writePiece)]
		if _, err := w.Write(piece); err != nil {
			return
		}
		body = body[len(piece):]
	}
}
