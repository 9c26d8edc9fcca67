package streamable

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// resume resumes a stream after its event with an id, wherever it was opened. If the events of a
// call's stream are not available, it answers the request with an error, since the response to the
// call will not come. Otherwise it returns false if it cannot resume: the client gets new events.
func (e *Endpoint) resume(w http.ResponseWriter, r *http.Request, s *session, c *response, lastEvent string) bool {
	name, entry, ok := parseEventID(lastEvent)
	call, unsolicited := isStreamName(name)
	if !ok || !call && !unsolicited {
		return false
	}
	st := s.findStream(name)
	var err error
	switch {
	case entry == 0: // no event has this id
		err = store.ErrPurged
	case st != nil:
		err = st.resume(r.Context(), c, entry)
	case call:
		err = s.follow(r.Context(), c, name, entry)
	default:
		st = s.unsolicited
		err = s.takeOver(r.Context(), c, name, entry)
	}
	switch {
	case err == nil && st != nil:
		defer st.detach(c)
		c.wait(r.Context(), s)
	case err == nil:
	case errors.Is(err, store.ErrPurged) && unsolicited:
		return false
	case errors.Is(err, store.ErrPurged):
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "the events after Last-Event-ID are not available")
	default:
		e.refuseUnstored(w, err)
	}
	return true
}

// read returns the entries of a stream after one.
func (s *session) read(ctx context.Context, stream string, after uint64) ([]store.Entry, error) {
	var entries []store.Entry
	for entry, err := range s.endpoint.opts.Store.Read(ctx, s.streamKey(stream), after) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// askInterval is how often a replica asks the one that runs a call whether it still does.
const askInterval = 2 * time.Second

// follow sends the rest of the stream of a call that runs at another replica, or has ended.
func (s *session) follow(ctx context.Context, c *response, name string, after uint64) error {
	state, err := s.endpoint.replicas.ask(ctx, &streamRequest{Session: s.id, Stream: name})
	if err == nil && state == streamLost { // without an answer, the replica may still store events
		return store.ErrPurged
	}
	entries, err := s.read(ctx, name, after)
	if err != nil {
		return err
	}
	c.open()
	defer c.stop()
	c.replay(name, entries)
	if len(entries) > 0 {
		after = entries[len(entries)-1].ID
		if isLast(entries[len(entries)-1]) {
			return nil
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.running.Input(), func() { cancel(errNoSession) })()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() { cancel(s.awaitEnd(ctx, name)) })
	for entry, err := range s.endpoint.opts.Store.Follow(ctx, s.streamKey(name), after) {
		if err != nil {
			break
		}
		c.replay(name, []store.Entry{entry})
		after = entry.ID
		if isLast(entry) {
			return nil
		}
	}
	if errors.Is(context.Cause(ctx), errNoOwner) {
		s.finishStream(context.WithoutCancel(ctx), c, name, after)
	}
	return nil
}

// isLast reports whether an entry is the last of the stream of a call.
func isLast(entry store.Entry) bool {
	kind := entryKind(entry)
	return kind == entryReply || kind == entryEnd
}

var errNoOwner = errors.New("no replica has the stream")

// awaitEnd returns [errNoOwner] when the replica that has opened a stream no longer has it, or
// the error of ctx.
func (s *session) awaitEnd(ctx context.Context, name string) error {
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	for {
		state, err := s.endpoint.replicas.ask(ctx, &streamRequest{Session: s.id, Stream: name})
		if err == nil && state != streamOpen { // if the store has failed, it may have the stream
			return errNoOwner
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finishStream sends the last entries of a stream that has ended. If there is no reply to the call,
// its replica has ended during the call, and the call fails.
func (s *session) finishStream(ctx context.Context, c *response, name string, after uint64) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	entries, err := s.read(ctx, name, after)
	if err != nil {
		return // the client will resume the stream again
	}
	c.replay(name, entries)
	if len(entries) > 0 && isLast(entries[len(entries)-1]) {
		return
	}
	reply, err := s.lostReply(ctx, name)
	if err != nil {
		s.endpoint.opts.Logger.Warn("streamable: a call of another replica could not be answered", "error", err)
		return
	}
	id, err := s.endpoint.opts.Store.Append(ctx, s.streamKey(name), append([]byte{entryReply}, reply...))
	if err != nil {
		s.endpoint.opts.Logger.Warn("streamable: storing an event failed", "error", err)
		return
	}
	_ = c.send(sse.Event{ID: eventID(name, id), Data: reply}) // a client that has disconnected may resume again
}

// lostReply returns the reply to the call of a stream whose replica has ended.
func (s *session) lostReply(ctx context.Context, name string) ([]byte, error) {
	for entry, err := range s.endpoint.opts.Store.Read(ctx, s.streamKey(name), 0) {
		if err != nil {
			return nil, err
		}
		if entryKind(entry) != entryStart {
			break
		}
		id, err := jsonrpc.ParseID(entry.Data[1:])
		if err != nil {
			return nil, fmt.Errorf("the stream is not that of a single call: %w", err)
		}
		return jsonrpc.Append(nil, &jsonrpc.Response{ID: id, Error: errReplicaEnded})
	}
	return nil, store.ErrPurged
}

var errReplicaEnded = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the process that ran the call has ended; the call may have been executed"}

// maxMoves is how many streams for unsolicited messages a client may have left without an event in
// between.
const maxMoves = 100

// A storedPart is a part of a stream that a client has missed.
type storedPart struct {
	stream  string
	entries []store.Entry
}

// takeOver continues, at this replica, a stream for unsolicited messages that another replica has
// opened. If that replica no longer has the stream, the client is notified of everything that may
// have changed.
func (s *session) takeOver(ctx context.Context, c *response, name string, after uint64) error {
	here := s.unsolicited
	start := here.restart() // from now on, messages are stored here
	var missed []storedPart
	for range maxMoves {
		state, err := s.endpoint.replicas.ask(ctx, &streamRequest{Session: s.id, Stream: name, Release: true})
		if err != nil {
			return err
		}
		entries, err := s.read(ctx, name, after)
		switch {
		case err != nil:
			return err
		case state == streamLost, after == 0 && (len(entries) == 0 || entryKind(entries[0]) != entryStart):
			return store.ErrPurged
		}
		missed = append(missed, storedPart{name, entries})
		next := movedTo(entries)
		if next == "" {
			return s.continueStream(ctx, c, here, start, missed, state == streamGone)
		}
		name, after = next, 0
	}
	return store.ErrPurged
}

// continueStream continues the last of the streams with missed events.
func (s *session) continueStream(ctx context.Context, c *response, here *stream, start uint64, missed []storedPart, changed bool) error {
	last := missed[len(missed)-1].stream
	moved := append([]byte{entryMoved}, here.name...)
	if _, err := s.endpoint.opts.Store.Append(ctx, s.streamKey(last), moved); err != nil {
		return err
	}
	if err := here.resume(ctx, c, start, missed...); err != nil || !changed {
		return err
	}
	s.mu.Lock()
	r := s.record
	s.mu.Unlock()
	for _, list := range r.Lists {
		_ = here.Notify(ctx, "notifications/"+list+"/list_changed", nil) // a client that has disconnected may resume again
	}
	for _, uri := range r.Resources {
		_ = here.Notify(ctx, mcp.NotificationResourceUpdated, mcp.Raw(fmt.Sprintf(`{"uri":%s}`, jsonscan.Quote(uri))))
	}
	return nil
}

// movedTo returns the name of the stream that continues the one with these last entries, or "".
func movedTo(entries []store.Entry) string {
	for _, entry := range entries {
		if entryKind(entry) == entryMoved {
			return string(entry.Data[1:])
		}
	}
	return ""
}
