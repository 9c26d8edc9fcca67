package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// RelayOptions configure [Relay]. The zero value is ready for use. The options of the two
// transports limit messages and calls.
type RelayOptions struct {
	// ConnectTimeout bounds connecting to the server, and each subscription that is repeated in the next session. Default 30 s.
	ConnectTimeout time.Duration
	// Logger logs entries of lists that were repaired or left out. Default: slog.Default().
	Logger *slog.Logger
}

// Relay offers a server over another transport, in every protocol version that the server
// speaks:
//
//	remote := streamable.Dial(url, nil)
//	err := stdio.Serve(ctx, bridge.Relay(remote, nil), nil)
//
//	child := stdio.Command("server", nil, nil)
//	endpoint := streamable.Handler(bridge.Relay(child, nil), nil)
//
// Messages are forwarded in both directions byte by byte, unknown methods and members
// included. Relay replaces only ids, also where a message repeats the id of a call, and
// progress tokens on a link that several clients share. It repairs or leaves out entries of
// lists that are not valid by the schema of MCP, since some clients would refuse the complete list.
// It checks nothing else; [Proxy] does. opts may be nil.
func Relay(dialer transport.Dialer, opts *RelayOptions) *Relayer {
	r := &Relayer{dialer: dialer}
	if opts != nil {
		r.opts = *opts
	}
	setDefault(&r.opts.ConnectTimeout, defaultConnectTimeout)
	if r.opts.Logger == nil {
		r.opts.Logger = slog.Default()
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// A Relayer is a [transport.Binder] that forwards all messages to another server. Make one
// with [Relay]. Its methods may be called concurrently.
//
// Each link has its own connection to the server. The first message of the link opens it. It
// is closed after the link has ended and running calls have been answered. On a shared link,
// which HTTP uses for versions without sessions, all clients use one connection, and a new
// one replaces it when it ends. On other links the end of the connection is final, since the
// server has lost the state of the session: calls fail with an [UpstreamError], which clients
// receive as an internal error of JSON-RPC. A server that runs, and does not know its session any
// more ([transport.ErrSessionLost]), gets a new session: the relay repeats the client's handshake, level of
// log messages and subscriptions to resources, and notifies the client that all lists and these resources may have
// changed. It does so also if the client sends nothing, and tries again after pauses of at most 30 s. Calls do not wait for the
// subscriptions, except for those that subscribe and unsubscribe. If the server does not answer a repeated subscription within
// ConnectTimeout, the relay opens another session. A call that the server refused because it lost the session is sent in the
// new session. A call that may have been executed fails, and is not sent again.
//
// A relay does not limit the time of a call: the client's cancellation is forwarded. If the
// server's transport does not say which call a message belongs to, questions of the server go
// to the client's oldest call, and log messages to the client. On a shared link they go to
// the only running call, and are dropped or refused if there are several. Batches of version
// 2025-03-26 are refused.
type Relayer struct {
	dialer transport.Dialer
	opts   RelayOptions

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	mu     sync.Mutex // orders links.Add before Close waits
	links  sync.WaitGroup
}

// Bind returns the handler of one link.
func (r *Relayer) Bind(link transport.Link) jsonrpc.Handler {
	l := &relayLink{relayer: r, link: link}
	l.ctx, l.cancel = context.WithCancel(r.ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		l.close()
		return l
	}
	r.links.Add(1)
	link.Go(func(context.Context) {
		defer r.links.Done()
		l.run()
	})
	return l
}

// Close closes all connections to the server and waits for them. Running and later calls
// fail. It may be called more than once.
func (r *Relayer) Close() error {
	r.mu.Lock()
	r.cancel()
	r.mu.Unlock()
	r.links.Wait()
	return nil
}

// A relayLink is one link of a relay to its clients.
type relayLink struct {
	relayer *Relayer
	link    transport.Link

	ctx      context.Context // ends after the link and its calls
	cancel   context.CancelFunc
	toServer notificationQueue
	toClient notificationQueue // unused on shared links, where each call has a queue

	mu      sync.Mutex
	closed  bool
	calls   int
	idle    chan struct{}     // closed when calls is 0; nil unless drain waits for that
	server  *relayServer      // the latest connection, nil before the first message
	pause   backoff.Backoff   // before the next session
	session era.SessionRecord // unused on shared links
	servers sync.WaitGroup
}

// run closes the connections to the server when the link or the relay ends.
func (l *relayLink) run() {
	select {
	case <-l.link.Input.Done():
		l.drain()
	case <-l.relayer.ctx.Done():
	}
	l.close()
}

// handlerDelay is the time after the end of the client's input in which an earlier call may still reach Handle.
// Transports start a goroutine for each call.
const handlerDelay = 50 * time.Millisecond

// drainTimeout bounds the time of calls after the end of the client's input.
const drainTimeout = 10 * time.Second

// drain waits until running calls have been answered.
func (l *relayLink) drain() {
	ctx, cancel := context.WithTimeout(l.ctx, drainTimeout)
	defer cancel()
	select {
	case <-time.After(handlerDelay):
	case <-ctx.Done():
	}
	select {
	case <-l.whenIdle():
	case <-ctx.Done():
	}
	l.toServer.flush(ctx) // the last messages may be notifications
}

// close waits for everything that runs for the link, except calls, which are failing.
func (l *relayLink) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.servers.Wait()
	l.toServer.close()
	l.toClient.close()
}

// addCall counts a call. It returns false if the link is closed.
func (l *relayLink) addCall() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.calls++
	return true
}

func (l *relayLink) removeCall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
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
	if l.calls == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// connected returns the open connection to the server. It opens one if necessary.
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

// latest returns a connection that is open, is being opened, or has ended for good. It returns
// nil if the link is closed.
func (l *relayLink) latest() *relayServer {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil
	case l.server != nil && !l.server.isReplaceable():
		return l.server
	}
	s := &relayServer{link: l, ready: make(chan struct{}), repeated: make(chan struct{})}
	l.server = s
	l.servers.Go(s.run)
	return s
}

// openNext opens the next session of the client after the server has lost one, which lasted for a time. A client that only
// waits for notifications sends no message that would open it. openNext tries until a session is open or the link ends.
func (l *relayLink) openNext(lasted time.Duration) {
	for l.session.IsOpen() {
		select {
		case <-time.After(l.nextPause(lasted)):
		case <-l.ctx.Done():
			return
		}
		if _, err := l.connected(l.ctx); err == nil {
			return
		}
		lasted = 0
	}
}

// nextPause returns the pause before the next session. Pauses become longer while sessions are short.
func (l *relayLink) nextPause(lasted time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lasted >= stableAfter {
		l.pause.Reset()
	}
	return l.pause.Next()
}

// Handle forwards a call to the server, after the client's earlier notifications.
func (l *relayLink) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if !l.addCall() {
		return notRun(ctx, "", jsonrpc.ErrClosed)
	}
	defer l.removeCall()
	if err := req.ArgumentsError(); err != nil {
		refused := &era.RefusedArguments{Err: err}
		if req.Method == mcp.MethodToolsCall {
			return reply.Write(refused.ToolResult())
		}
		return refused.Unwrap()
	}
	l.toServer.flush(ctx)
	for attempts := 1; ; attempts++ {
		s, err := l.connected(ctx)
		if err != nil {
			return notRun(ctx, "", err)
		}
		err = s.call(ctx, from, req, reply)
		lost := s.checkLost(err)
		if refused, ok := errors.AsType[*jsonrpc.CallError](err); lost && ok && refused.Delivery == jsonrpc.NotSent && attempts <= maxSentAgain {
			continue // in the next session
		}
		return failed(ctx, "", err)
	}
}

// HandleNotification forwards a notification of the client. A call that it cancels ends here first.
func (l *relayLink) HandleNotification(from jsonrpc.Peer, note *jsonrpc.Request) {
	if note.Method != mcp.NotificationCancelled {
		l.toServer.add(queuedNotification{ctx: l.ctx, to: relayNotifier{l}, method: note.Method, params: note.Params})
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
		server.cancelCall(id, note)
	}
	from.Cancel(id)
}

// NotifyCancelled sends the client notifications/cancelled for a question of the server.
func (l *relayLink) NotifyCancelled(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	sendCancelled(from, id, cause)
}

// A relayNotifier sends notifications to the server of a link. It connects if necessary.
type relayNotifier struct{ link *relayLink }

func (n relayNotifier) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	for attempts := 1; ; attempts++ {
		s, err := n.link.connected(ctx)
		if err != nil {
			return err
		}
		err = s.conn.Notify(ctx, method, params)
		if !s.checkLost(err) || attempts > maxSentAgain {
			return err
		}
	}
}

// A clientCancelled is the cause of a call's end when its client has cancelled it.
type clientCancelled struct{ params json.RawMessage }

func (c *clientCancelled) Error() string { return jsonrpc.ErrCancelled.Error() }
func (c *clientCancelled) Unwrap() error { return jsonrpc.ErrCancelled }

// cancelledTimeout bounds sending a notifications/cancelled.
const cancelledTimeout = 5 * time.Second

// sendCancelled sends notifications/cancelled for a call, with the params of the client that
// cancelled it, if one did.
func sendCancelled(to jsonrpc.Peer, id jsonrpc.ID, cause error) {
	original := json.RawMessage("{}")
	if cancelled, ok := errors.AsType[*clientCancelled](cause); ok {
		original = cancelled.params
	}
	params, err := jsonscan.Splice(nil, original, jsonscan.Edit{Name: "requestId", Value: id.AppendJSON(nil)})
	if err != nil {
		return // impossible: the params were scanned when they were received
	}
	ctx, cancel := context.WithTimeout(context.Background(), cancelledTimeout)
	defer cancel()
	_ = to.Notify(ctx, mcp.NotificationCancelled, jsonrpc.Raw(params)) // best effort: the call has failed already
}

// Bounds of a notificationQueue. When one is exceeded, the oldest notification is dropped.
const (
	maxQueuedNotifications = 1024
	maxQueuedBytes         = 1 << 20 // of params
)

// A queuedNotification is a notification to be sent, or a marker.
type queuedNotification struct {
	ctx context.Context
	to  interface {
		Notify(context.Context, string, jsonrpc.Appender) error
	}
	method string
	params json.RawMessage

	flushed chan struct{} // set for a marker: closed when everything before it has been sent
}

func (n *queuedNotification) isMarker() bool { return n.flushed != nil }

// A notificationQueue sends notifications in order. Its goroutine runs only while the queue is
// not empty. The zero value is ready for use and must be closed.
type notificationQueue struct {
	mu      sync.Mutex
	waiting []queuedNotification
	count   int           // of waiting, without markers
	bytes   int           // of their params
	done    chan struct{} // closed when the goroutine ends; nil while there is none
	closed  bool
}

// add does not block.
func (q *notificationQueue) add(note queuedNotification) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.waiting = append(q.waiting, note)
	q.count++
	q.bytes += len(note.params)
	for q.count > 1 && (q.count > maxQueuedNotifications || q.bytes > maxQueuedBytes) {
		oldest := slices.IndexFunc(q.waiting, func(n queuedNotification) bool { return !n.isMarker() })
		q.count--
		q.bytes -= len(q.waiting[oldest].params)
		q.waiting = slices.Delete(q.waiting, oldest, oldest+1)
	}
	if q.done == nil {
		q.done = make(chan struct{})
		go q.run(q.done)
	}
}

// flush waits until all queued notifications have been sent, or ctx has ended.
func (q *notificationQueue) flush(ctx context.Context) {
	q.mu.Lock()
	if q.done == nil {
		q.mu.Unlock()
		return
	}
	flushed := make(chan struct{})
	q.waiting = append(q.waiting, queuedNotification{flushed: flushed})
	q.mu.Unlock()
	select {
	case <-flushed:
	case <-ctx.Done():
	}
}

// close waits until all queued notifications have been sent. Later ones are dropped.
func (q *notificationQueue) close() {
	q.mu.Lock()
	q.closed = true
	done := q.done
	q.mu.Unlock()
	if done != nil {
		<-done
	}
}

func (q *notificationQueue) run(done chan struct{}) {
	defer close(done)
	for {
		note, ok := q.next()
		switch {
		case !ok:
			return
		case note.isMarker():
			close(note.flushed)
		case note.ctx.Err() == nil:
			_ = note.to.Notify(note.ctx, note.method, rawParams(note.params)) // if it fails, the connection has ended
		}
	}
}

// next returns false, and ends the goroutine, if the queue is empty.
func (q *notificationQueue) next() (queuedNotification, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.waiting, q.done = nil, nil
		return queuedNotification{}, false
	}
	note := q.waiting[0]
	q.waiting[0] = queuedNotification{}
	q.waiting = q.waiting[1:]
	if !note.isMarker() {
		q.count--
		q.bytes -= len(note.params)
	}
	return note, true
}

// rawParams returns nil for absent params.
func rawParams(raw json.RawMessage) jsonrpc.Appender {
	if raw == nil {
		return nil
	}
	return jsonrpc.Raw(raw)
}
