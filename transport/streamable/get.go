package streamable

import (
	"errors"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// get opens the stream of a session for what belongs to no call, or takes up a
// stream where it broke off. MCP 2025-11-25, basic/transports, "Listening for
// Messages from the Server" and "Resumability and Redelivery".
func (e *Endpoint) get(w http.ResponseWriter, r *http.Request) {
	takes := acceptedBy(r)
	if !takes.events {
		edge.Refuse(w, http.StatusNotAcceptable, jsonrpc.InvalidRequest, "Accept must list text/event-stream")
		return
	}
	s := e.enter(w, r)
	if s == nil {
		return
	}
	defer e.sessions.leave(s)
	c := newCarrier(e, w, takes)
	switch ids := r.Header[headerLastEventID]; {
	case len(ids) > 1:
		edge.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "the header Last-Event-ID is given more than once")
	case len(ids) == 1:
		e.resume(w, r, s, c, ids[0])
	case !s.news.begin(c):
		edge.Refuse(w, http.StatusConflict, jsonrpc.InvalidRequest, "this session has such a stream already")
	default:
		defer s.news.drop(c)
		c.wait(r.Context(), s)
	}
}

// resume takes up a stream that still runs, or sends what is left of one that does
// not.
func (e *Endpoint) resume(w http.ResponseWriter, r *http.Request, s *session, c *carrier, lastEvent string) {
	name, number, ok := parseEventID(lastEvent)
	if !ok {
		refuseResumption(w)
		return
	}
	st := s.streamNamed(name)
	if st == nil {
		e.resumeEnded(w, r, &stream{session: s, name: name}, c, number)
		return
	}
	if err := st.resume(r.Context(), c, number); err != nil {
		e.refusePurged(w, err)
		return
	}
	defer st.drop(c)
	c.wait(r.Context(), s)
}

func (e *Endpoint) resumeEnded(w http.ResponseWriter, r *http.Request, st *stream, c *carrier, after int64) {
	missed, err := e.opts.Events.After(r.Context(), st.id(), after)
	if err != nil {
		e.refusePurged(w, err)
		return
	}
	c.open()
	c.replay(st, missed)
	c.stop()
}

func (e *Endpoint) refusePurged(w http.ResponseWriter, err error) {
	if !errors.Is(err, ErrPurged) {
		e.opts.Logger.Error("streamable: events could not be read", "error", err)
	}
	refuseResumption(w)
}

func refuseResumption(w http.ResponseWriter) {
	edge.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest,
		"Last-Event-ID names no event of this session after which everything is still kept")
}
