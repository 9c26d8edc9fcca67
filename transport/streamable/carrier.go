package streamable

import (
	"context"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/sse"
)

// A carrier is one response that carries a stream, for a while or to its end. The
// stream's lock guards it.
type carrier struct {
	endpoint *Endpoint
	w        http.ResponseWriter
	takes    accepted
	events   *pulse        // nil as long as it is no event stream
	answered bool          // with JSON
	ended    chan struct{} // closed when nothing more will be sent
}

func newCarrier(e *Endpoint, w http.ResponseWriter, takes accepted) *carrier {
	return &carrier{endpoint: e, w: w, takes: takes, ended: make(chan struct{})}
}

// open begins an event stream; it says whether there was one already.
func (c *carrier) open() bool {
	if c.events != nil {
		return true
	}
	c.events = startPulse(c.w, &c.endpoint.opts)
	return false
}

// send fails when the client is gone. Nobody cuts it short: the event has its number, and
// would be missing.
func (c *carrier) send(e sse.Event) error { return c.events.send(context.Background(), e) }

// replay sends what a client has missed, as far as it is there to get it.
func (c *carrier) replay(st *stream, missed []StoredEvent) {
	for _, event := range missed {
		if c.send(sse.Event{ID: st.eventID(event.Number), Data: event.Message}) != nil {
			return
		}
	}
}

// answer answers with JSON.
func (c *carrier) answer(msg []byte) {
	c.answered = true
	writeJSON(c.w, http.StatusOK, msg, c.endpoint.opts.WriteTimeout)
}

// wait waits for the end of the response, whoever brings it about.
func (c *carrier) wait(client context.Context, s *session) {
	select {
	case <-c.ended:
	case <-client.Done():
	case <-s.running.Input().Done():
	}
}

// end is called once.
func (c *carrier) end() { close(c.ended) }

// stop comes before the request's handler returns. It says whether anything has been
// sent.
func (c *carrier) stop() bool {
	if c.events != nil {
		c.events.stop()
		return true
	}
	return c.answered
}
