package wire

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	// refusalTimeout bounds writing a refusal.
	refusalTimeout = 10 * time.Second
	// minContentLength is the length in bytes from which net/http sends a body in chunks
	// unless it has a Content-Length.
	minContentLength = 2 << 10
	// writePiece is how many bytes are written under one deadline.
	writePiece = 64 << 10
)

// Headers of the transport, in the canonical form of net/http.
const (
	HeaderVersion     = "Mcp-Protocol-Version"
	HeaderSession     = "Mcp-Session-Id"
	HeaderLastEventID = "Last-Event-Id"
)

// Accepts contains the media types that a client accepts.
type Accepts struct{ JSON, Events bool }

// AcceptedBy parses Accept. A client must list both types. A request without the header
// accepts both.
func AcceptedBy(r *http.Request) Accepts {
	lines := r.Header["Accept"]
	if len(lines) == 0 {
		return Accepts{true, true}
	}
	var a Accepts
	for _, line := range lines {
		for item := range strings.SplitSeq(line, ",") {
			item, _, _ = strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(item)) {
			case "application/json", "application/*":
				a.JSON = true
			case "text/event-stream", "text/*":
				a.Events = true
			case "*/*":
				a = Accepts{true, true}
			}
		}
	}
	return a
}

// HasSessions reports whether a version has sessions.
func HasSessions(version string) bool {
	v := mcp.Version(version)
	return v.Known() && !v.Modern()
}

// An EventStream sends keep-alive comments between events, without a goroutine of its own.
// It must be stopped before the HTTP handler returns.
type EventStream struct {
	stream   *sse.Stream
	interval time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// Start begins a stream of events.
func Start(w http.ResponseWriter, keepAlive, writeTimeout time.Duration) *EventStream {
	p := &EventStream{stream: sse.Start(w, writeTimeout), interval: keepAlive}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.interval, p.keepAlive)
	return p
}

// Send sends an event.
func (p *EventStream) Send(ctx context.Context, e sse.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Reset(p.interval)
	return p.stream.Send(ctx, e)
}

// keepAlive sends a comment. If that fails, the context of the request ends.
func (p *EventStream) keepAlive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && p.stream.SendComment() == nil {
		p.timer.Reset(p.interval)
	}
}

// Stop ends the stream. Nothing may be sent after it.
func (p *EventStream) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
	p.stream.Close()
}

var typeJSON = []string{"application/json"}

// WriteJSON answers with JSON. It writes pieces with a deadline each, so that a client that
// is too slow is disconnected. net/http sends the last piece and removes the deadline.
func WriteJSON(w http.ResponseWriter, status int, body []byte, timeout time.Duration) {
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

// RefuseCall answers a call that was not executed.
func RefuseCall(w http.ResponseWriter, status int, req *jsonrpc.Request, e *jsonrpc.Error) {
	body, err := jsonrpc.Append(nil, &jsonrpc.Response{ID: req.ID, Error: e})
	if err != nil { // the decoder has refused ids that are too long to repeat
		httpguard.Refuse(w, status, e.Code, e.Message)
		return
	}
	WriteJSON(w, status, body, refusalTimeout)
}

// Error returns the error for the client.
func Error(err error) *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "internal error"}
}
