package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	changesSubject = "changes"
	// maxUnsent and maxUnsentBytes bound the changes that wait to be published.
	maxUnsent      = 1000
	maxUnsentBytes = 1 << 20
	// maxPublished bounds the URIs and principals of one message. Sealed, with each byte escaped as six,
	// they are shorter than [token.MaxToken].
	maxPublished = 6 << 10
	// maxPublishedChanges bounds the changes of one message.
	maxPublishedChanges = 64
	// publishTimeout bounds publishing one message.
	publishTimeout = 5 * time.Second
)

// An exchange passes the changes that are raised at this replica to the other replicas, and their
// changes to the watchers of this replica. Messages are sealed, since they contain principals.
type exchange struct {
	server  *Server
	bus     store.Bus
	id      string          // of this replica
	ctx     context.Context // ends when the exchange is closed
	cancel  context.CancelFunc
	running sync.WaitGroup // the sender and the subscriber

	publishing context.Context // ends when closing takes too long
	abort      context.CancelFunc

	mu          sync.Mutex
	closed      bool
	tried       chan struct{} // closed after the first attempt to subscribe; nil before the first watcher
	unsubscribe func()        // nil until the subscription has effect
	isSending   bool
	unsent      []mcp.Change
	isUnsent    map[mcp.Change]bool
	bytes       int  // of unsent
	missed      bool // unsent was too long, and all other replicas must assume that everything has changed
}

func newExchange(s *Server) *exchange {
	e := &exchange{server: s, bus: s.options.Store, id: rand.Text(), isUnsent: make(map[mcp.Change]bool)}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.publishing, e.abort = context.WithCancel(context.Background())
	return e
}

// A changesMessage has the changes of one replica.
type changesMessage struct {
	From    string          `json:"from"` // id of the replica
	Changes []messageChange `json:"changes,omitempty"`
	Missed  bool            `json:"missed,omitempty"` // everything may have changed
}

type messageChange struct {
	List string `json:"list"` // the name of the list in its result
	URI  string `json:"uri,omitempty"`
	For  string `json:"for,omitempty"`
}

// join begins the subscription to the changes of other replicas, and waits for the first attempt.
func (e *exchange) join(ctx context.Context) {
	e.mu.Lock()
	if e.tried == nil && !e.closed {
		e.tried = make(chan struct{})
		e.running.Go(e.subscribe)
	}
	tried := e.tried
	e.mu.Unlock()
	if tried != nil {
		_ = await(ctx, tried) // the watch does not depend on other replicas
	}
}

// subscribe tries until it succeeds, or the exchange or the store is closed. After a failure,
// changes may have been missed.
func (e *exchange) subscribe() {
	var pause backoff.Backoff
	for attempt := 1; ; attempt++ {
		stop, err := e.bus.Subscribe(e.ctx, changesSubject, e.receive)
		if err == nil {
			e.mu.Lock()
			e.unsubscribe = stop
			e.mu.Unlock()
			if attempt > 1 {
				e.server.changes.notifyMissed()
			}
		}
		if attempt == 1 {
			close(e.tried)
		}
		if err == nil || e.ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		e.server.options.Logger.Warn("changes at other replicas cannot be received; it is tried again", "error", err)
		if pause.Wait(e.ctx) != nil {
			return
		}
	}
}

// receive notifies the watchers of this replica.
func (e *exchange) receive(ctx context.Context, m store.Message) {
	if m.Missed {
		e.server.changes.notifyMissed()
		return
	}
	var message changesMessage
	data, err := e.server.stateKey.Open(ctx, string(m.Data), token.Binding(changesSubject), time.Now())
	if err == nil {
		err = json.Unmarshal(data, &message)
	}
	switch {
	case ctx.Err() != nil || message.From == e.id:
	case err != nil:
		e.server.options.Logger.Warn("a message of another replica cannot be read", "error", err)
	case message.Missed:
		e.server.changes.notifyMissed()
	default:
		for _, change := range message.Changes {
			if kind := slices.IndexFunc(kinds[:], func(k entryKind) bool { return k.list == change.List }); kind > 0 { // 0 has no list
				e.server.changes.notify(mcp.Change{Kind: mcp.Kind(kind), URI: change.URI, For: change.For})
			}
		}
	}
}

// add publishes a change. It does not wait for that. Equal changes that wait are one change.
func (e *exchange) add(change mcp.Change) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.missed || e.isUnsent[change] {
		return
	}
	if size := sizeOf(change); size > maxPublished || len(e.unsent) == maxUnsent || e.bytes+size > maxUnsentBytes {
		e.unsent, e.bytes, e.missed = nil, 0, true
		clear(e.isUnsent)
	} else {
		e.unsent = append(e.unsent, change)
		e.isUnsent[change] = true
		e.bytes += size
	}
	if !e.isSending {
		e.isSending = true
		e.running.Go(e.send)
	}
}

func sizeOf(change mcp.Change) int { return len(change.URI) + len(change.For) }

// send publishes changes until none wait. When the exchange is closed, it ends at the first failure.
func (e *exchange) send() {
	var pause backoff.Backoff
	for message := e.take(); message != nil; message = e.take() {
		for {
			err := e.sendMessage(message)
			if err == nil {
				pause.Reset()
				break
			}
			e.server.options.Logger.Warn("a change cannot be passed to other replicas; it is tried again", "error", err)
			if errors.Is(err, store.ErrClosed) || pause.Wait(e.ctx) != nil {
				e.abandon()
				return
			}
		}
	}
}

// abandon forgets the changes that wait. A later change begins again.
func (e *exchange) abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.isSending, e.unsent, e.bytes, e.missed = false, nil, 0, false
	clear(e.isUnsent)
}

// take returns the next message, or nil if there is none. The caller then ends.
func (e *exchange) take() *changesMessage {
	e.mu.Lock()
	defer e.mu.Unlock()
	message := &changesMessage{From: e.id, Missed: e.missed}
	e.missed = false
	for bytes := 0; len(e.unsent) > 0 && len(message.Changes) < maxPublishedChanges; e.unsent = e.unsent[1:] {
		change := e.unsent[0]
		if bytes += sizeOf(change); bytes > maxPublished {
			break
		}
		message.Changes = append(message.Changes, messageChange{kinds[change.Kind].list, change.URI, change.For})
		e.bytes -= sizeOf(change)
		delete(e.isUnsent, change)
	}
	if len(message.Changes) == 0 && !message.Missed {
		e.isSending, e.unsent = false, nil
		return nil
	}
	return message
}

// sendMessage does not end with the exchange, so that changes before a shutdown are published.
func (e *exchange) sendMessage(message *changesMessage) error {
	ctx, cancel := context.WithTimeout(e.publishing, publishTimeout)
	defer cancel()
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	sealed, err := e.server.stateKey.Seal(ctx, data, token.Binding(changesSubject), time.Now().Add(era.StateLifetime))
	if err != nil {
		return err
	}
	return e.bus.Publish(ctx, changesSubject, []byte(sealed))
}

// close ends the subscription, and waits until changes that wait have been published, that has failed,
// or ctx ends.
func (e *exchange) close(ctx context.Context) {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	defer context.AfterFunc(ctx, e.abort)()
	e.running.Wait()
	e.abort()
	e.mu.Lock()
	unsubscribe := e.unsubscribe
	e.unsubscribe = nil
	e.mu.Unlock()
	if unsubscribe != nil {
		unsubscribe()
	}
}

// raise notifies the watchers of this replica and of all others of a change. Before the server has
// started, no client has read its lists.
func (s *Server) raise(change mcp.Change) {
	s.changes.notify(change)
	if s.exchange != nil && (change.URI != "" || s.life.ready.Load()) {
		s.exchange.add(change)
	}
}

// watchReplicas makes the changes at other replicas known to the watchers of this one.
func (s *Server) watchReplicas(ctx context.Context) {
	if s.exchange != nil {
		s.exchange.join(ctx)
	}
}
