package transporttest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Server returns the server for [Run]. A transport whose server is another process runs it
// there. It may be bound any number of times.
func Server() transport.Binder { return server{} }

type server struct{}

// Bind returns the handler of one link. Links share nothing.
func (server) Bind(link transport.Link) jsonrpc.Handler {
	return &linkHandler{link: link, cancelled: make(chan struct{}, maxCancelled)}
}

// maxCancelled is the maximum number of canceled calls of a link.
const maxCancelled = 1024

// A linkHandler implements the methods that the tests call:
//
//	echo       returns its params
//	fail       returns an error with its params as data
//	ask        calls "answer" of the client with the same params and returns the result
//	notify     sends {"count":n} notifications "note" with [0], [1], …, and then answers
//	later      answers, and sends a notification "note" with its params at any time
//	seen       returns the params of all notifications "note"
//	wait       sends a notification "note" and waits until it is canceled
//	cancelled  returns when {"count":n} calls of "wait" have been canceled
//
// A notification "cancel" {"id":id} cancels a call.
type linkHandler struct {
	link      transport.Link
	cancelled chan struct{} // has an element for each canceled call of "wait"

	mu   sync.Mutex
	seen []json.RawMessage
}

func (h *linkHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	switch req.Method {
	case "echo":
		return reply.Write(jsonrpc.Raw(req.Params))
	case "fail":
		return &jsonrpc.Error{Code: failCode, Message: failMessage, Data: req.Params}
	case "ask":
		resp, err := from.Call(ctx, "answer", jsonrpc.Raw(req.Params))
		if err != nil {
			return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
		}
		return reply.Write(jsonrpc.Raw(resp.Result))
	case "notify":
		return h.notify(ctx, from, req, reply)
	case "later":
		h.link.Go(func(ctx context.Context) {
			_ = h.link.Peer.Notify(ctx, "note", jsonrpc.Raw(req.Params)) // the client notices if it is missing
		})
		return reply.Write(jsonrpc.Raw(`true`))
	case "seen":
		h.mu.Lock()
		defer h.mu.Unlock()
		reply.Buf = appendArray(reply.Buf, h.seen)
		return nil
	case "wait":
		if err := from.Notify(ctx, "note", jsonrpc.Raw(`["waiting"]`)); err != nil {
			return err
		}
		<-ctx.Done()
		h.cancelled <- struct{}{}
		return context.Cause(ctx)
	case "cancelled":
		return h.awaitCancelled(ctx, req, reply)
	}
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "there is no method " + req.Method}
}

// The error of "fail".
const (
	failCode    jsonrpc.Code = 4711
	failMessage              = "it was <asked> to fail: \u2028é😀"
)

func (h *linkHandler) notify(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	count, err := countOf(req)
	if err != nil {
		return err
	}
	for i := range count {
		if err := from.Notify(ctx, "note", jsonrpc.Raw(fmt.Appendf(nil, "[%d]", i))); err != nil {
			return err
		}
	}
	return reply.Write(jsonrpc.Raw(`true`))
}

func (h *linkHandler) awaitCancelled(ctx context.Context, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	count, err := countOf(req)
	if err != nil {
		return err
	}
	for range count {
		select {
		case <-h.cancelled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return reply.Write(jsonrpc.Raw(`true`))
}

func countOf(req *jsonrpc.Request) (int, error) {
	var params struct{ Count int }
	if err := json.Unmarshal(req.Params, &params); err != nil {
		return 0, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: err.Error()}
	}
	return params.Count, nil
}

func (h *linkHandler) HandleNotification(from jsonrpc.Peer, note *jsonrpc.Request) {
	switch note.Method {
	case "note":
		h.mu.Lock()
		defer h.mu.Unlock()
		h.seen = append(h.seen, note.Params)
	case "cancel":
		if id, err := jsonrpc.ParseID(note.Member("id")); err == nil {
			from.Cancel(id)
		}
	}
}

func appendArray(dst []byte, items []json.RawMessage) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, item...)
	}
	return append(dst, ']')
}

// A client implements the method "answer": it has the server echo the params and returns
// the result. With {"hold":true} it waits until its context ends.
type client struct {
	mu       sync.Mutex
	seen     []json.RawMessage
	recorded chan struct{} // has an element when a message has been recorded
	held     chan error    // the causes of ended calls with {"hold":true}
}

func newClient() *client {
	return &client{recorded: make(chan struct{}, 1), held: make(chan error, 1)}
}

func (c *client) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method != "answer" {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "there is no method " + req.Method}
	}
	if req.Member("hold") != nil {
		c.record(req.Params)
		<-ctx.Done()
		c.held <- context.Cause(ctx)
		return context.Cause(ctx)
	}
	resp, err := from.Call(ctx, "echo", jsonrpc.Raw(req.Params))
	if err != nil {
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	}
	return reply.Write(jsonrpc.Raw(resp.Result))
}

func (c *client) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) { c.record(note.Params) }

// NotifyCancelled has the server cancel the call.
func (c *client) NotifyCancelled(from jsonrpc.Peer, id jsonrpc.ID, _ error) {
	_ = from.Notify(context.Background(), "cancel", jsonrpc.Raw(`{"id":`+id.String()+`}`)) // the test notices if it is missing
}

func (c *client) record(params json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, params)
	select {
	case c.recorded <- struct{}{}:
	default:
	}
}

// notifications returns the recorded params as an array.
func (c *client) notifications() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(appendArray(nil, c.seen))
}

func (c *client) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}
