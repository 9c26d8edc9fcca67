package interop

import (
	"net/http"
	"sync/atomic"
)

// A door stands before a host, and sees who comes and who listens.
type door struct {
	handler   atomic.Pointer[http.Handler]
	listening chan struct{} // gets one for each GET that is answered with a stream
	resumed   chan struct{} // gets one for each GET that takes up a stream
	regions   chan string   // gets what requests say of the region in a header
}

func newDoor(h http.Handler) *door {
	d := &door{listening: make(chan struct{}, 64), resumed: make(chan struct{}, 64), regions: make(chan string, 64)}
	d.lead(h)
	return d
}

// lead lets the door lead to another host.
func (d *door) lead(h http.Handler) { d.handler.Store(&h) }

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if region := r.Header.Get("Mcp-Param-Region"); region != "" {
		d.regions <- region
	}
	if r.Method == http.MethodGet {
		w = &ear{ResponseWriter: w, door: d}
		if r.Header.Get("Last-Event-ID") != "" {
			d.resumed <- struct{}{}
		}
	}
	(*d.handler.Load()).ServeHTTP(w, r)
}

// An ear is the answer to a GET.
type ear struct {
	http.ResponseWriter
	door *door
	sent bool // the header has been
}

func (e *ear) WriteHeader(status int) {
	e.ResponseWriter.WriteHeader(status)
	if status == http.StatusOK && !e.sent {
		e.door.listening <- struct{}{}
	}
	e.sent = true
}

func (e *ear) Write(data []byte) (int, error) {
	if !e.sent {
		e.WriteHeader(http.StatusOK)
	}
	return e.ResponseWriter.Write(data)
}

// Flush sends what has been written.
func (e *ear) Flush() {
	if !e.sent {
		e.WriteHeader(http.StatusOK)
	}
	e.ResponseWriter.(http.Flusher).Flush()
}

// Unwrap gives http.ResponseController what it needs.
func (e *ear) Unwrap() http.ResponseWriter { return e.ResponseWriter }
