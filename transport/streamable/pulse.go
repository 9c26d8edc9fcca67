package streamable

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
)

// A pulse is an event stream that shows from time to time that it is alive, without
// a goroutine of its own. It must be stopped before its request's handler returns.
type pulse struct {
	stream *sse.Stream
	period time.Duration

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func startPulse(w http.ResponseWriter, opts *Options) *pulse {
	p := &pulse{stream: sse.Start(w, opts.WriteTimeout), period: opts.KeepAlive}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(p.period, p.beat)
	return p
}

func (p *pulse) send(ctx context.Context, e sse.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer.Reset(p.period)
	return p.stream.Send(ctx, e)
}

// beat fails when the client is gone; then its request's context ends.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.stopped && p.stream.Beat() == nil {
		p.timer.Reset(p.period)
	}
}

func (p *pulse) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.timer.Stop()
	p.stream.Close()
}

// writeJSON answers a request with JSON, in pieces that the client must take in time;
// net/http sends the last one, and takes the deadline away. A client that is too slow
// is cut off.
func writeJSON(w http.ResponseWriter, status int, body []byte, timeout time.Duration) {
	header := w.Header()
	header["Content-Type"] = typeJSON
	if len(body) > chunked { // net/http tells the length of shorter ones by itself
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
