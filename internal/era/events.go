package era

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// reportsEvents reports whether a server declares that it notifies of changes to its list of events.
func reportsEvents(has *mcp.ServerCapabilities) bool {
	var settings struct {
		ListChanged bool `json:"listChanged"`
	}
	return json.Unmarshal(has.Extensions[mcp.ExtensionEvents], &settings) == nil && settings.ListChanged
}

// errInputEnded ends the streams of a connection on which the client sends nothing more.
var errInputEnded = errors.New("the client has ended the connection")

// stream answers events/stream: a call that sends notifications until the client or the server
// ends it. SEP-3415, Push-Based Delivery.
func (b *binding) stream(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, caller *mcp.Caller, reply *jsonrpc.Reply) error {
	open := b.streams.Add(1)
	defer b.streams.Add(-1)
	if open > MaxStreams && !b.link.Shared {
		return &jsonrpc.Error{
			Code: mcp.CodeResourceExhausted, Message: fmt.Sprintf("at most %d streams of events can be open on one connection", MaxStreams),
			Data: fmt.Appendf(nil, `{"limit":"subscriptions","max":%d}`, MaxStreams),
		}
	}
	release, err := b.retain(req, caller, 0)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.link.Input, func() { cancel(errInputEnded) })()
	c := &call{server: b.server, ctx: ctx, from: from}
	c.Call = mcp.NewCall(req, caller, eventResponder{c, json.RawMessage(req.ID.String())})
	defer c.close()
	_, err = b.server.core.ServeProtocol(ctx, &c.Call)
	if question, asks := mcp.AsInputRequired(err); asks {
		return fmt.Errorf("%w: %v", mayNotAsk(req.Method), question)
	}
	if err != nil && context.Cause(ctx) != errInputEnded {
		return ErrorFor(caller.Version, err)
	}
	return b.server.writeModern(req.Method, caller.Version, mcp.Raw(`{"_meta":`+string(subscriptionTag(req.ID))+`}`), reply)
}

// An eventResponder is the [mcp.Responder] of a stream of events.
type eventResponder struct {
	*call
	id json.RawMessage // of the request
}

// Notify sends a notification of events with the id of the stream, and the name of the event that
// the client knows. It drops others.
func (r eventResponder) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if !strings.HasPrefix(method, "notifications/events/") {
		return nil
	}
	body, err := params.AppendJSON(nil)
	if err != nil {
		return err
	}
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return err
	}
	meta := members.Get(memberMeta)
	if jsonscan.KindOf(meta) != jsonscan.Object {
		meta = []byte("{}")
	}
	if meta, err = jsonscan.Splice(nil, meta, jsonscan.Edit{Name: mcp.MetaSubscriptionID, Value: r.id}); err != nil {
		return err
	}
	edits := []jsonscan.Edit{{Name: memberMeta, Value: meta}}
	if method == mcp.NotificationEvent {
		edits = append(edits, jsonscan.Edit{Name: "name", Value: r.Member("name")})
	}
	if body, err = jsonscan.Splice(nil, body, edits...); err != nil {
		return err
	}
	return r.call.Notify(ctx, method, mcp.Raw(body))
}

// Stream makes a call of events/stream and returns when it has ended: nil after the server's
// result. handle gets the notifications of the stream; it must not block, nor retain them.
func (c *Client) Stream(ctx context.Context, params jsonrpc.Appender, handle func(notification *jsonrpc.Request)) error {
	m, ok := c.era.(*modernClient)
	if !ok {
		return methodNotFound(mcp.MethodEventsStream)
	}
	return c.ExchangeStream(ctx, &modernParams{era: m, params: params}, handle)
}

// ExchangeStream is Stream with params that have the metadata of the client already.
func (c *Client) ExchangeStream(ctx context.Context, params jsonrpc.Appender, handle func(notification *jsonrpc.Request)) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	ctx, cancel := context.WithTimeout(ctx, forever)
	defer cancel()
	listening := &listenParams{Appender: params, client: c, subscription: &clientSubscription{event: handle, end: end}}
	defer listening.forget()
	_, err := c.conn.Call(ctx, mcp.MethodEventsStream, listening)
	if errors.Is(err, errEndedByServer) {
		return nil
	}
	return err
}

// handleEvent passes on a notification of a stream of events.
func (c *Client) handleEvent(notification *jsonrpc.Request) {
	if l := c.subscription(notification.Member(memberMeta, mcp.MetaSubscriptionID)); l != nil && l.event != nil {
		l.event(notification)
	}
}

// An EventQueue holds the notifications of a stream of events until they are taken. When it is full,
// it cancels the stream, which can be continued after what was taken: nothing is dropped. Add, End
// and Take may be called concurrently.
type EventQueue struct {
	most, mostBytes int
	cancel          context.CancelFunc
	ready           chan struct{} // has a value if something was added

	mu      sync.Mutex
	waiting []*jsonrpc.Request
	bytes   int
	full    bool
	ended   bool
	err     error
}

// NewEventQueue returns an empty queue for a number of notifications, and for a number of bytes. One
// notification may be larger.
func NewEventQueue(most, mostBytes int, cancel context.CancelFunc) *EventQueue {
	return &EventQueue{most: most, mostBytes: mostBytes, cancel: cancel, ready: make(chan struct{}, 1)}
}

// Ready returns a channel that gets a value when there is something to take.
func (q *EventQueue) Ready() <-chan struct{} { return q.ready }

func (q *EventQueue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Add queues a copy of a notification. It does not block.
func (q *EventQueue) Add(n *jsonrpc.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.full {
		return
	}
	if len(q.waiting) > 0 && (len(q.waiting) >= q.most || q.bytes+len(n.Params) > q.mostBytes) {
		q.full = true
		q.cancel()
		return
	}
	q.waiting = append(q.waiting, &jsonrpc.Request{Method: n.Method, Params: bytes.Clone(n.Params)})
	q.bytes += len(n.Params)
	q.signal()
}

// End records why the stream has ended.
func (q *EventQueue) End(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.full {
		err = nil
	}
	q.ended, q.err = true, err
	q.signal()
}

// Take returns what waits. If nothing does, ended reports whether the stream has ended, and err why;
// it is nil if the queue was full.
func (q *EventQueue) Take() (waiting []*jsonrpc.Request, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting = q.waiting
	q.waiting, q.bytes = nil, 0
	return waiting, q.ended, q.err
}
