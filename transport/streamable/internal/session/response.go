package session

import (
	"context"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// A response is one HTTP response that carries a stream. It is guarded by the lock of the
// stream, if this replica has the stream.
type response struct {
	sessions *Sessions
	w        http.ResponseWriter
	accepts  wire.Accepts
	events   *wire.EventStream // nil until it is an event stream
	answered bool              // with JSON
	ended    chan struct{}     // closed when nothing more will be sent
}

func newResponse(t *Sessions, w http.ResponseWriter, accepts wire.Accepts) *response {
	return &response{sessions: t, w: w, accepts: accepts, ended: make(chan struct{})}
}

// open starts an event stream. It reports whether there was one already.
func (c *response) open() bool {
	if c.events != nil {
		return true
	}
	c.events = wire.Start(c.w, c.sessions.config.KeepAlive, c.sessions.config.Limits.WriteTimeout)
	return false
}

// send sends an event. It fails if the client has disconnected. It has no context, since a
// numbered event must not be skipped.
func (c *response) send(e sse.Event) error { return c.events.Send(context.Background(), e) }

// replay sends the messages of stored entries until the client disconnects. It reports whether one of the messages is
// the last one of a call. After it there may be a message of a replica that was considered dead.
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
	wire.WriteJSON(c.w, http.StatusOK, msg, c.sessions.config.Limits.WriteTimeout)
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
		c.events.Stop()
		return true
	}
	return c.answered
}
