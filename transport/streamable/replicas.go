package streamable

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// replicas exchanges messages with the other replicas that have sessions in the same store.
type replicas struct {
	endpoint *Endpoint
	id       string // of this replica, a part of the names of its streams

	mu      sync.Mutex
	stop    []func() // of the subscriptions, which the first session begins
	stopped bool
	failed  time.Time // when subscribing failed
	failure error
}

// replicaIDLength is the length of a replica's id in bytes.
const replicaIDLength = 13

func newReplicas(e *Endpoint) *replicas {
	return &replicas{endpoint: e, id: rand.Text()[:replicaIDLength]}
}

// start subscribes to the messages of other replicas, unless it has succeeded before. Requests that
// wait for an attempt that fails do not repeat it.
func (r *replicas) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil || r.stopped || !r.endpoint.sessions.shared {
		return nil
	}
	if r.failure == nil || time.Since(r.failed) > time.Second {
		r.failure = r.subscribe()
		r.failed = time.Now()
	}
	return r.failure
}

func (r *replicas) subscribe() error {
	stopNotices, err := r.endpoint.store.Subscribe(r.endpoint.ctx, "sessions", r.handleNotice)
	if err != nil {
		return err
	}
	stopRequests, err := r.endpoint.store.Subscribe(r.endpoint.ctx, "replica/"+r.id, r.handleRequest)
	if err != nil {
		stopNotices()
		return err
	}
	r.stop = []func(){stopNotices, stopRequests}
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
	Listening bool `json:"listening,omitempty"`

	// message is a notification of the client, or its answer to a question of an unknown replica. It
	// follows the JSON of the notice after a line break, so that its bytes do not change. If there is
	// no message, and the replica does not listen, the record has changed or has been deleted.
	message []byte
}

// publish sends a notice with a message of the client, or nil.
func (r *replicas) publish(ctx context.Context, session string, msg jsonrpc.Message) error {
	n := notice{Session: session}
	if msg != nil {
		var err error
		if n.message, err = jsonrpc.Append(nil, msg); err != nil {
			return err
		}
	}
	return r.send(ctx, &n)
}

func (r *replicas) send(ctx context.Context, n *notice) error {
	if !r.endpoint.sessions.shared {
		return nil
	}
	n.From = r.id
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if n.message != nil {
		data = append(append(data, '\n'), n.message...)
	}
	return r.endpoint.store.Publish(ctx, "sessions", data)
}

// handleNotice handles a notice. Messages of the client are received in order. What may wait for the
// store or for a client does not delay the next notice.
func (r *replicas) handleNotice(_ context.Context, m store.Message) {
	e := r.endpoint
	if m.Missed {
		for _, s := range e.sessions.all() {
			e.background.Go(func() { r.reload(s) })
		}
		return
	}
	var n notice
	header, message, _ := bytes.Cut(m.Data, []byte{'\n'})
	if err := json.Unmarshal(header, &n); err != nil {
		e.opts.Logger.Warn("streamable: a message of another replica is malformed", "error", err)
		return
	}
	s := e.sessions.local(n.Session)
	if s == nil || n.From == r.id {
		return
	}
	switch {
	case len(message) > 0:
		r.receive(s, message)
	case n.Listening:
		name := s.unsolicitedName()
		e.background.Go(func() { s.unsolicited.release(name) })
	default:
		e.background.Go(func() { r.reload(s) })
	}
}

func (r *replicas) reload(s *session) {
	ctx, cancel := context.WithTimeout(r.endpoint.ctx, storeTimeout)
	defer cancel()
	if err := s.reload(ctx); err != nil && !errors.Is(err, errNoSession) && ctx.Err() == nil {
		r.endpoint.opts.Logger.Warn("streamable: reading a session failed", "error", err)
	}
}

// receive handles a message that the client has sent to another replica.
func (r *replicas) receive(s *session, data []byte) {
	msg, err := jsonrpc.Decode(data)
	if err != nil {
		r.endpoint.opts.Logger.Warn("streamable: a message of another replica is malformed", "error", err)
		return
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if !s.running.Awaits(msg.ID) {
			return // it is for a third replica
		}
	case *jsonrpc.Request:
		if !msg.IsNotification() {
			return // a call is served by the replica that receives it
		}
	}
	s.running.ReceiveMessage(context.Background(), s.unsolicited, answered{stream: s.unsolicited}, msg)
}

// forward passes a message of the client that needs no reply to other replicas, if it may be meant
// for them. It reports whether it is meant for them only.
func (r *replicas) forward(ctx context.Context, s *session, msg jsonrpc.Message) (elsewhere bool, err error) {
	if !r.endpoint.sessions.shared {
		return false, nil
	}
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if s.running.Awaits(msg.ID) {
			return false, nil
		}
		return true, r.publish(ctx, s.id, msg)
	case *jsonrpc.Request:
		switch msg.Method {
		case mcp.NotificationCancelled, mcp.NotificationRootsListChanged:
			return false, r.publish(ctx, s.id, msg)
		}
	}
	return false, nil
}

// A streamRequest asks the replica that owns a stream about it.
type streamRequest struct {
	Session string `json:"session"`
	Stream  string `json:"stream"`
	After   uint64 `json:"after"`             // the last entry that the client knows
	Release bool   `json:"release,omitempty"` // end the stream, since the client continues elsewhere
}

// A streamState is the reply to a streamRequest.
type streamState struct {
	State string `json:"state"`
	After uint64 `json:"after"` // that of the request, or a later entry if the client has missed nothing
}

// States of a stream.
const (
	streamOpen = "open"
	streamLost = "lost" // an event could not be stored
	streamGone = "gone" // the replica does not have the stream
)

// ask returns the state of a stream at the replica that owns it.
func (r *replicas) ask(ctx context.Context, req *streamRequest) (streamState, error) {
	owner := streamOwner(req.Stream)
	if owner == r.id || !r.endpoint.sessions.shared {
		return r.answer(req), nil
	}
	data, err := json.Marshal(req)
	if err != nil {
		return streamState{}, err
	}
	reply, err := r.endpoint.store.Request(ctx, "replica/"+owner, data)
	if errors.Is(err, store.ErrNoResponder) {
		return streamState{streamGone, req.After}, nil
	}
	var state streamState
	if err == nil {
		err = json.Unmarshal(reply, &state)
	}
	return state, err
}

func (r *replicas) handleRequest(_ context.Context, m store.Message) {
	var req streamRequest
	if m.Reply == nil || json.Unmarshal(m.Data, &req) != nil {
		return
	}
	r.endpoint.background.Go(func() { // ending a stream waits for its client
		ctx, cancel := context.WithTimeout(r.endpoint.ctx, storeTimeout)
		defer cancel()
		reply, err := json.Marshal(r.answer(&req))
		if err == nil {
			err = m.Reply(ctx, reply)
		}
		if err != nil {
			r.endpoint.opts.Logger.Warn("streamable: a reply to another replica was not sent", "error", err)
		}
	})
}

func (r *replicas) answer(req *streamRequest) streamState {
	if s := r.endpoint.sessions.local(req.Session); s != nil {
		if st := s.findStream(req.Stream); st != nil {
			return st.answer(req)
		}
	}
	return streamState{streamGone, req.After}
}
