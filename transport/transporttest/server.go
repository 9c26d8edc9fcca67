package transporttest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Server is the server that [Run] talks to. A transport whose server is another
// process runs it there. It may be bound any number of times.
func Server() transport.Binder { return server{} }

type server struct{}

// Bind makes the handler of one link; links share nothing.
func (server) Bind(link transport.Link) jsonrpc.Handler {
	return &linkHandler{link: link, cancelled: make(chan struct{}, maxCancelled)}
}

// maxCancelled is how many calls a link may see cancelled.
const maxCancelled = 1024

// A linkHandler answers what the tests call:
//
//	echo       its params
//	fail       an error with its params as data
//	ask        what the client answers to a call of "answer" with the same params
//	notify     sends {"count":n} notifications "note" with [0], [1], …, and answers
//	later      answers, and sends one notification "note" from Link.Go
//	seen       the params of all notifications "note" so far
//	wait       sends a notification "note" and answers nothing, until it is cancelled
//	           by a notification "cancel" {"id":id}
//	cancelled  once {"count":n} calls of "wait" have noticed that
type linkHandler struct {
	link      transport.Link
	cancelled chan struct{} // has an element for each call of "wait" that was

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
			_ = h.link.Peer.Notify(ctx, "note", jsonrpc.Raw(req.Params)) // the client misses it
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

// What "fail" fails with.
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

func (h *linkHandler) Notified(from jsonrpc.Peer, note *jsonrpc.Request) {
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
