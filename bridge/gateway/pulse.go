package gateway

import (
	"net/http"
	"sync"
	"time"
)

// pulseInterval is the time between two spaces. Common proxies end connections that are idle for 60 seconds.
const pulseInterval = 15 * time.Second

// A pulse is the writer of a JSON response with the status 200 that may take long. It writes a space at intervals
// until something else is written.
type pulse struct {
	http.ResponseWriter

	mu    sync.Mutex
	timer *time.Timer // nil after stop
	begun bool        // the header is sent
}

func startPulse(w http.ResponseWriter) *pulse {
	p := &pulse{ResponseWriter: w}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(pulseInterval, p.beat)
	return p
}

// Unwrap supports http.ResponseController.
func (p *pulse) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	if !p.begun {
		p.begun = true
		header := p.ResponseWriter.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Accel-Buffering", "no") // nginx passes the spaces on
		p.ResponseWriter.WriteHeader(http.StatusOK)
	}
	control := http.NewResponseController(p.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(pulseInterval)) // some writers do not support deadlines
	if _, err := p.ResponseWriter.Write([]byte(" ")); err != nil || control.Flush() != nil {
		return // the connection has ended, and so will the call
	}
	p.timer.Reset(pulseInterval)
}

// stop ends the spaces. It returns when none is being written.
func (p *pulse) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// Header returns a header without effect if the header is sent.
func (p *pulse) Header() http.Header {
	p.stop()
	if p.begun {
		return make(http.Header)
	}
	return p.ResponseWriter.Header()
}

// WriteHeader sends the header unless it is sent.
func (p *pulse) WriteHeader(status int) {
	p.stop()
	if !p.begun {
		p.ResponseWriter.WriteHeader(status)
	}
}
