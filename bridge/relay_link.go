package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A relayLink is the end of a relay that its clients see.
type relayLink struct {
	relay *Relayer
	link  transport.Link

	ctx      context.Context // ends with the link, after its calls
	cancel   context.CancelFunc
	toServer relayOutbox
	toClient relayOutbox // of a link that is one client's

	mu      sync.Mutex
	over    bool
	running int           // calls
	idle    chan struct{} // closed when none runs any more; nil when nobody waits for that
	server  *relayServer  // the latest connection, nil before the first message
	servers sync.WaitGroup
}

func newRelayLink(r *Relayer, link transport.Link) *relayLink {
	l := &relayLink{relay: r, link: link}
	l.ctx, l.cancel = context.WithCancel(r.ctx)
	return l
}

// keep ends the connections to the server when the link ends or the relay does.
func (l *relayLink) keep() {
	select {
	case <-l.link.Input.Done():
		l.drain()
	case <-l.relay.ctx.Done():
	}
	l.end()
}

// beginning is how long a call may take from the end of the client's input, before which
// it came, to its first line here: transports run each on a goroutine of its own.
const beginning = 50 * time.Millisecond

// drain lets calls come to their end.
func (l *relayLink) drain() {
	ctx, cancel := context.WithTimeout(l.ctx, jsonrpc.DefaultDrain)
	defer cancel()
	begun := time.NewTimer(beginning)
	defer begun.Stop()
	select {
	case <-begun.C:
	case <-ctx.Done():
	}
	select {
	case <-l.whenIdle():
	case <-ctx.Done():
	}
	l.toServer.flush(ctx) // the last words may be notifications
}

// end returns when nothing runs any more for the link, save calls that are failing.
func (l *relayLink) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.cancel()
	l.servers.Wait()
	l.toServer.close()
	l.toClient.close()
}

// enter counts a call. It says whether there is still somebody to answer it.
func (l *relayLink) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.running++
	return true
}

func (l *relayLink) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.closeIfIdle()
}

func (l *relayLink) whenIdle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := make(chan struct{})
	l.idle = idle
	l.closeIfIdle()
	return idle
}

func (l *relayLink) closeIfIdle() {
	if l.running == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// connected returns the connection to the server, which is opened if need be.
func (l *relayLink) connected(ctx context.Context) (*relayServer, error) {
	s := l.latest()
	if s == nil {
		return nil, jsonrpc.ErrClosed
	}
	select {
	case <-s.ready:
		return s, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// latest returns a connection that is open or being opened, or one whose end is final;
// nil when the link has ended.
func (l *relayLink) latest() *relayServer {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return nil
	case l.server != nil && !l.server.isReplaceable():
		return l.server
	}
	s := &relayServer{link: l, ready: make(chan struct{})}
	l.server = s
	l.servers.Go(s.run)
	return s
}

// Handle has the server answer a call, after what the client has told before.
func (l *relayLink) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if !l.enter() {
		return notRun(ctx, "", jsonrpc.ErrClosed)
	}
	defer l.leave()
	l.toServer.flush(ctx)
	s, err := l.connected(ctx)
	if err != nil {
		return notRun(ctx, "", err)
	}
	return s.answer(ctx, from, req, reply)
}

// Notified passes on what a client tells. A call that it cancels ends here first.
func (l *relayLink) Notified(from jsonrpc.Peer, note *jsonrpc.Request) {
	if note.Method != mcp.NotificationCancelled {
		l.toServer.add(relayedNote{ctx: l.ctx, to: relayNotifier{l}, method: note.Method, params: note.Params})
		return
	}
	id, err := jsonrpc.ParseID(note.Member("requestId"))
	if err != nil {
		return
	}
	l.mu.Lock()
	server := l.server
	l.mu.Unlock()
	if server != nil {
		server.cancelled(id, note)
	}
	from.Cancel(id)
}

// Abandoned tells the client that the server waits no longer for an answer of it.
func (l *relayLink) Abandoned(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	tellAbandoned(from, id, cause)
}

// A relayNotifier tells the server of a link, which may have to be connected to first.
type relayNotifier struct{ link *relayLink }

func (n relayNotifier) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	s, err := n.link.connected(ctx)
	if err != nil {
		return err
	}
	return s.conn.Notify(ctx, method, params)
}

// A relayedCancel is why a call ends that its caller has cancelled.
type relayedCancel struct{ params json.RawMessage }

func (c *relayedCancel) Error() string { return jsonrpc.ErrCancelled.Error() }
func (c *relayedCancel) Unwrap() error { return jsonrpc.ErrCancelled }

// abandonTimeout bounds telling that nobody waits any more.
const abandonTimeout = 5 * time.Second

// tellAbandoned tells a peer that nobody waits any more for its answer, in the words of
// who has cancelled the call, if there are any.
func tellAbandoned(to jsonrpc.Peer, id jsonrpc.ID, cause error) {
	said := json.RawMessage("{}")
	if cancel, ok := errors.AsType[*relayedCancel](cause); ok {
		said = cancel.params
	}
	params, err := jsonscan.Splice(nil, said, jsonscan.Edit{Name: "requestId", Value: id.AppendJSON(nil)})
	if err != nil {
		return // an object that has been scanned before
	}
	ctx, cancel := context.WithTimeout(context.Background(), abandonTimeout)
	defer cancel()
	// The call has failed already; that its end cannot be told changes nothing.
	_ = to.Notify(ctx, mcp.NotificationCancelled, jsonrpc.Raw(params))
}
