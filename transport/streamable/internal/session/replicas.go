package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// replicas exchanges messages with the other replicas that have sessions in the same store.
type replicas struct {
	sessions   *Sessions
	id         string        // of this replica, a part of the names of its streams
	missed     chan struct{} // has a value if notices may have been lost
	forwarding *quota.Quota  // messages of clients that are being passed to other replicas

	mu      sync.Mutex
	stop    []func() // of the subscriptions, which the first session begins
	stopped bool
	failed  time.Time // when subscribing failed
	failure error

	lease lease
}

func newReplicas(t *Sessions) *replicas {
	limits := &t.config.Limits
	return &replicas{
		sessions: t, id: newReplicaID(), missed: make(chan struct{}, 1),
		forwarding: quota.New("messages to other replicas", limits.Calls, limits.CallsPerPrincipal),
	}
}

// start subscribes to the messages of other replicas, unless it has succeeded before. Requests that
// wait for an attempt that fails do not repeat it.
func (r *replicas) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil || r.stopped || !r.sessions.shared {
		return nil
	}
	if r.failure == nil || time.Since(r.failed) > time.Second {
		r.failure = r.subscribe()
		r.failed = time.Now()
	}
	return r.failure
}

func (r *replicas) subscribe() error {
	if err := r.createLease(); err != nil {
		return err
	}
	stopNotices, err := r.sessions.store.Subscribe(r.sessions.ctx, "sessions", r.handleNotice)
	if err != nil {
		return err
	}
	stopRequests, err := r.sessions.store.Subscribe(r.sessions.ctx, "replica/"+r.id, r.handleRequest)
	if err != nil {
		stopNotices()
		return err
	}
	r.stop = []func(){stopNotices, stopRequests}
	r.sessions.background.Go(r.keepLease)
	r.sessions.background.Go(r.reloadMissed)
	return nil
}

func (r *replicas) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, stop := range r.stop {
		stop()
	}
}

// A notice tells the replicas that have a session what has happened at another one.
type notice struct {
	From    string `json:"from"` // id of the replica
	Session string `json:"session"`
	// Listening means that the replica has opened a stream for the session's unsolicited messages.
	Listening bool   `json:"listening,omitempty"`
	Stream    string `json:"stream,omitempty"` // the name of that stream

	// A notification of the client may follow. If none does, and the replica does not listen, the record
	// has changed or has been deleted.
}

// publish sends a notice with a notification of the client, or nil.
func (r *replicas) publish(ctx context.Context, n notice, msg jsonrpc.Message) error {
	if !r.sessions.shared {
		return nil
	}
	n.From = r.id
	data, err := encode(n, msg)
	if err != nil {
		return err
	}
	return r.sessions.store.Publish(ctx, "sessions", data)
}

// encode returns the JSON of a header and, after a line break, a message of the client or nothing, so
// that the bytes of the message do not change.
func encode(header any, msg jsonrpc.Message) ([]byte, error) {
	data, err := json.Marshal(header)
	if err != nil || msg == nil {
		return data, err
	}
	return jsonrpc.Append(append(data, '\n'), msg)
}

// handleNotice handles a notice. Messages of the client are received in order. What may wait for the
// store or for a client does not delay the next notice.
func (r *replicas) handleNotice(_ context.Context, m store.Message) {
	t := r.sessions
	if m.Missed {
		select {
		case r.missed <- struct{}{}:
		default:
		}
		return
	}
	var n notice
	header, message, _ := bytes.Cut(m.Data, []byte{'\n'})
	if err := json.Unmarshal(header, &n); err != nil {
		t.config.Logger.Warn("streamable: a message of another replica is malformed", "error", err)
		return
	}
	s := t.local(n.Session)
	if s == nil || n.From == r.id {
		return
	}
	switch {
	case len(message) > 0:
		r.receive(s, message)
	case n.Listening:
		name := s.unsolicitedName()
		t.background.Go(func() { r.release(s, name, n.Stream) })
	default:
		if !s.stale.Swap(true) { // otherwise it will be reloaded anyway
			t.background.Go(func() { r.reload(s) })
		}
	}
}

// release ends the stream of unsolicited messages with a name at this replica, since another replica has
// opened the stream elsewhere for the client. The notice of that may be late: if the client has resumed
// elsewhere at a further replica in the meantime, it may be this one.
func (r *replicas) release(s *session, name, elsewhere string) {
	if name == "" {
		return
	}
	if _, unsolicited := isStreamName(elsewhere); unsolicited {
		ctx, cancel := context.WithTimeout(r.sessions.ctx, storeTimeout)
		defer cancel()
		entries, err := s.read(ctx, elsewhere, 0)
		if err == nil && movedTo(entries) != "" {
			return
		}
	}
	s.unsolicited.release(name)
}

// reloadMissed reloads the sessions, one after the other, whenever notices may have been lost.
func (r *replicas) reloadMissed() {
	for {
		select {
		case <-r.missed:
		case <-r.sessions.ctx.Done():
			return
		}
		for _, s := range r.sessions.all() {
			r.reload(s)
		}
	}
}

func (r *replicas) reload(s *session) {
	ctx, cancel := context.WithTimeout(r.sessions.ctx, storeTimeout)
	defer cancel()
	switch err := s.reload(ctx); {
	case errors.Is(err, errNoSession):
		r.sessions.discard(ctx, s, true)
	case errors.Is(err, errUnreadable):
		r.sessions.discard(ctx, s, false)
	case err != nil && ctx.Err() == nil:
		r.sessions.config.Logger.Warn("streamable: reading a session failed", "error", err)
	}
}

// receive handles a message that the client has sent to another replica.
func (r *replicas) receive(s *session, data []byte) {
	msg, err := jsonrpc.Decode(data)
	if err != nil {
		r.sessions.config.Logger.Warn("streamable: a message of another replica is malformed", "error", err)
		return
	}
	if req, ok := msg.(*jsonrpc.Request); ok && !req.IsNotification() {
		return // a call is served by the replica that receives it
	}
	s.conn.ReceiveMessage(context.Background(), s.unsolicited, answered{stream: s.unsolicited}, msg)
}

// forward passes a message of the client that needs no reply to other replicas, if it may be meant
// for them. It reports whether it is meant for them only. The answer to a question has then been
// received by the replica that asked; a notification may be lost.
func (r *replicas) forward(ctx context.Context, s *session, msg jsonrpc.Message) (elsewhere bool, err error) {
	asker := ""
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if asker = askedBy(msg.ID); asker == "" || asker == r.id || s.conn.Awaits(msg.ID) {
			return false, nil
		}
	case *jsonrpc.Request:
		if msg.Method != mcp.NotificationCancelled && msg.Method != mcp.NotificationRootsListChanged {
			return false, nil
		}
	}
	if !r.sessions.shared {
		return false, nil
	}
	if err := r.forwarding.Acquire(s.holder()); err != nil {
		return false, busyError{err}
	}
	defer r.forwarding.Release(s.holder())
	if asker == "" {
		return false, r.publish(ctx, notice{Session: s.id}, msg)
	}
	data, err := encode(streamRequest{Session: s.id}, msg)
	if err != nil {
		return true, err
	}
	if _, err = r.sessions.store.Request(ctx, "replica/"+asker, data); errors.Is(err, store.ErrNoResponder) {
		if alive, failed := r.hasLease(ctx, asker); !alive && failed == nil {
			err = errAskerEnded
		}
	}
	return true, err
}

var errAskerEnded = errors.New("the process that asked the question has ended")

// A streamRequest asks the replica that owns a stream about it. With an answer of the client after it,
// it is for the replica that has asked the question.
type streamRequest struct {
	Session string `json:"session"`
	Stream  string `json:"stream"`
	After   uint64 `json:"after"`             // the last entry that the client knows
	Release bool   `json:"release,omitempty"` // end the stream, since the client continues elsewhere
}

// A streamState is the reply to a streamRequest.
type streamState struct {
	State string `json:"state"`
	After uint64 `json:"after"` // the entry of the request, or a later one if the client has missed nothing
}

// States of a stream.
const (
	streamOpen = "open"
	streamLost = "lost" // an event could not be stored
	streamGone = "gone" // the replica does not have the stream, or has ended
	streamAway = "away" // the replica cannot be reached, but may have the stream
)

// ask returns the state of a stream at the replica that owns it.
func (r *replicas) ask(ctx context.Context, req *streamRequest) (streamState, error) {
	owner := streamOwner(req.Stream)
	if owner == r.id || !r.sessions.shared {
		return r.answer(req), nil
	}
	data, err := json.Marshal(req)
	if err != nil {
		return streamState{}, err
	}
	reply, err := r.sessions.store.Request(ctx, "replica/"+owner, data)
	var state streamState
	if err == nil {
		err = json.Unmarshal(reply, &state)
		return state, err
	}
	switch alive, failed := r.hasLease(ctx, owner); {
	case failed != nil:
		return state, failed
	case alive:
		return streamState{streamAway, req.After}, nil
	}
	return streamState{streamGone, req.After}, nil
}

func (r *replicas) handleRequest(_ context.Context, m store.Message) {
	var req streamRequest
	header, message, _ := bytes.Cut(m.Data, []byte{'\n'})
	if m.Reply == nil || json.Unmarshal(header, &req) != nil {
		return
	}
	if s := r.sessions.local(req.Session); s != nil && len(message) > 0 {
		r.receive(s, message)
	}
	r.sessions.background.Go(func() { // ending a stream waits for its client
		ctx, cancel := context.WithTimeout(r.sessions.ctx, storeTimeout)
		defer cancel()
		reply, err := json.Marshal(r.answer(&req))
		if err == nil {
			err = m.Reply(ctx, reply)
		}
		if err != nil {
			r.sessions.config.Logger.Warn("streamable: a reply to another replica was not sent", "error", err)
		}
	})
}

func (r *replicas) answer(req *streamRequest) streamState {
	if s := r.sessions.local(req.Session); s != nil {
		if st := s.findStream(req.Stream); st != nil {
			return st.answer(req)
		}
	}
	return streamState{streamGone, req.After}
}
