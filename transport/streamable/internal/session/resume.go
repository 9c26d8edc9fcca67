package session

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/store"
)

// resume resumes a stream after its event with an id, wherever it was opened. If the events of a
// call's stream are not available, it answers the request with an error, since the response to the
// call will not come. Otherwise it returns false if it cannot resume: the client gets new events.
func (t *Sessions) resume(w http.ResponseWriter, r *http.Request, s *session, c *response, lastEvent string) bool {
	name, entry, ok := parseEventID(lastEvent)
	call, unsolicited := isStreamName(name)
	if !ok || !call && !unsolicited {
		return false
	}
	st := s.findStream(name) // nil if this replica does not have it
	var err error
	switch {
	case entry == 0: // no event has this id
		err = store.ErrPurged
	case unsolicited:
		st = s.unsolicited
		err = s.resumeUnsolicited(r.Context(), c, name, entry)
	case st != nil:
		err = st.resume(r.Context(), c, name, entry)
	default:
		err = s.follow(r.Context(), c, name, entry)
	}
	switch {
	case err == nil && st != nil:
		defer st.detach(c)
		c.wait(r.Context(), s)
	case err == nil:
	case notAvailable(err) && unsolicited:
		return false
	case notAvailable(err):
		httpguard.Refuse(w, http.StatusBadRequest, jsonrpc.InvalidRequest, "the events after Last-Event-ID are not available")
	default:
		t.refuse(w, err)
	}
	return true
}

// notAvailable reports whether an event can never be sent to the client: it is no longer stored, or it was changed in the store.
func notAvailable(err error) bool {
	return errors.Is(err, store.ErrPurged) || errors.Is(err, store.ErrForged)
}

// read returns the entries of a stream after one.
func (s *session) read(ctx context.Context, stream string, after uint64) ([]store.Entry, error) {
	var entries []store.Entry
	for entry, err := range s.sessions.store.Read(ctx, s.streamKey(stream), after) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// askInterval is how often a replica asks another replica whether it still runs a call.
const askInterval = 2 * time.Second

// follow sends the rest of the stream of a call that runs at another replica, or has ended. It ends
// an earlier request that does the same, whose client has disconnected.
func (s *session) follow(ctx context.Context, c *response, name string, after uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer s.beginFollowing(name, func() { cancel(errMoved) })()
	defer context.AfterFunc(s.conn.Input(), func() { cancel(errNoSession) })()
	asked, err := s.sessions.replicas.ask(ctx, &streamRequest{Session: s.id, Stream: name, After: after})
	switch {
	case err != nil: // the replica may still store events
	case asked.State == streamLost:
		return store.ErrPurged
	default:
		after = asked.After
	}
	defer c.stop()
	last, ended, err := s.sendStored(ctx, c, name, after)
	if err != nil || ended {
		return err
	}
	if asked.State == streamGone {
		if _, err := s.lostReply(ctx, name); err != nil {
			return err
		}
	}
	c.open()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() { cancel(s.awaitEnd(ctx, name)) })
	for entry, err := range s.sessions.store.Follow(ctx, s.streamKey(name), last) {
		if err != nil {
			break
		}
		c.replay(name, []store.Entry{entry})
		last = entry.ID
		if isLast(entry) {
			return nil
		}
	}
	if errors.Is(context.Cause(ctx), errNoOwner) {
		s.finishStream(context.WithoutCancel(ctx), c, name, last)
	}
	return nil
}

// beginFollowing ends an earlier request that follows a stream. end ends this one.
func (s *session) beginFollowing(name string, end func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier := s.followers[name]; earlier != nil {
		(*earlier)()
	}
	if s.followers == nil {
		s.followers = make(map[string]*func())
	}
	s.followers[name] = &end
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.followers[name] == &end {
			delete(s.followers, name)
		}
	}
}

// sendStored sends the stored events after an entry. It returns the id of the last entry, and whether
// that is the end of the stream. It opens the response unless there are none, or reading fails first.
func (s *session) sendStored(ctx context.Context, c *response, name string, after uint64) (last uint64, ended bool, err error) {
	last = after
	for entry, err := range s.sessions.store.Read(ctx, s.streamKey(name), after) {
		switch {
		case err != nil && last == after:
			return last, false, err
		case err != nil: // the client resumes after the last event that it has received
			return last, true, nil
		}
		c.open()
		c.replay(name, []store.Entry{entry})
		last = entry.ID
		if isLast(entry) {
			return last, true, nil
		}
	}
	return last, false, nil
}

// isLast reports whether an entry is the last of the stream of a call.
func isLast(entry store.Entry) bool {
	kind := entryKind(entry)
	return kind == entryReply || kind == entryEnd
}

var errNoOwner = errors.New("no replica has the stream")

// awaitEnd returns [errNoOwner] when the replica that has opened a stream no longer has it, or the
// error of ctx.
func (s *session) awaitEnd(ctx context.Context, name string) error {
	ticker := time.NewTicker(askInterval)
	defer ticker.Stop()
	for {
		asked, err := s.sessions.replicas.ask(ctx, &streamRequest{Session: s.id, Stream: name})
		switch {
		case err != nil: // the replica may have it
		case asked.State == streamGone:
			return errNoOwner
		case asked.State == streamLost: // the client is refused when it resumes the stream
			return store.ErrPurged
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
	after, ended, err := s.sendStored(ctx, c, name, after)
	if err != nil || ended {
		return // if reading has failed, the client resumes the stream again
	}
	reply, err := s.lostReply(ctx, name)
	if err != nil {
		s.sessions.config.Logger.Warn("streamable: a call of another replica could not be answered", "error", err)
		return // the client is refused when it resumes the stream
	}
	if _, err := s.sessions.store.Append(ctx, s.streamKey(name), append([]byte{entryReply}, reply...)); err != nil {
		s.sessions.config.Logger.Warn("streamable: storing an event failed", "error", err)
		return
	}
	// Another replica may have been first, so the entry is read.
	if _, _, err := s.sendStored(ctx, c, name, after); err != nil {
		s.sessions.config.Logger.Warn("streamable: reading a stream failed", "error", err) // the client resumes it again
	}
}

// outcome returns the last entry of the stream of a call that has ended.
func (s *session) outcome(ctx context.Context, name string) (store.Entry, error) {
	for entry, err := range s.sessions.store.Read(ctx, s.streamKey(name), 0) {
		if errors.Is(err, store.ErrForged) {
			continue
		}
		if err != nil || isLast(entry) {
			return entry, err
		}
	}
	return store.Entry{}, store.ErrPurged
}

// lostReply returns the reply to the call of a stream whose replica has ended.
func (s *session) lostReply(ctx context.Context, name string) ([]byte, error) {
	for entry, err := range s.sessions.store.Read(ctx, s.streamKey(name), 0) {
		if errors.Is(err, store.ErrForged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if entryKind(entry) != entryStart {
			break
		}
		id, err := jsonrpc.ParseID(entry.Data[1:])
		if err != nil { // the stream belongs to a batch
			return nil, store.ErrPurged
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

// resumeUnsolicited resumes the stream of unsolicited messages. If another replica has opened it, it is
// continued here.
func (s *session) resumeUnsolicited(ctx context.Context, c *response, name string, after uint64) error {
	var missed []storedPart
	for range maxMoves {
		if s.unsolicitedName() == name {
			return s.unsolicited.resume(ctx, c, name, after, missed...)
		}
		asked, err := s.sessions.replicas.ask(ctx, &streamRequest{Session: s.id, Stream: name, After: after})
		if err != nil {
			return err
		}
		entries, err := s.read(ctx, name, asked.After)
		switch {
		case err != nil:
			return err
		case asked.State == streamLost, after == 0 && (len(entries) == 0 || entryKind(entries[0]) != entryStart):
			return store.ErrPurged
		}
		missed = append(missed, storedPart{name, entries})
		next := movedTo(entries)
		if next == "" {
			if len(entries) > 0 {
				asked.After = entries[len(entries)-1].ID
			}
			return s.takeOver(ctx, c, name, asked.After, missed)
		}
		name, after = next, 0
	}
	return store.ErrPurged
}

// takeOver continues, at this replica, a stream of which missed has the entries up to one. If the
// replica that has opened it no longer has it, the client is notified of everything that may have
// changed.
func (s *session) takeOver(ctx context.Context, c *response, name string, after uint64, missed []storedPart) error {
	here := s.unsolicited
	newName, start := here.restart() // from now on, messages are stored here
	asked, err := s.sessions.replicas.ask(ctx, &streamRequest{Session: s.id, Stream: name, After: after, Release: true})
	if err != nil {
		return err
	}
	entries, err := s.read(ctx, name, after)
	switch {
	case err != nil:
		return err
	case movedTo(entries) != "": // to another replica, at the same time
		return errMoved
	case asked.State == streamLost:
		return store.ErrPurged
	}
	missed = append(missed, storedPart{name, entries})
	moved := append([]byte{entryMoved}, newName...)
	if _, err := s.sessions.store.Append(ctx, s.streamKey(name), moved); err != nil {
		return err
	}
	if err := here.resume(ctx, c, newName, start, missed...); err != nil {
		return err
	}
	if asked.State != streamOpen {
		s.clientListens(ctx, true)
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
