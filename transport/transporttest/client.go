package transporttest

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A client answers what the server calls: "answer" by echoing its params, after
// it had the server echo them; "hold" when its context has ended.
type client struct {
	mu    sync.Mutex
	seen  []json.RawMessage
	noted chan struct{} // has an element when something has been seen
	held  chan error    // why calls of "answer" with {"hold":true} ended
}

func newClient() *client {
	return &client{noted: make(chan struct{}, 1), held: make(chan error, 1)}
}

func (c *client) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method != "answer" {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "there is no method " + req.Method}
	}
	if req.Member("hold") != nil {
		c.note(req.Params)
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

func (c *client) Notified(_ jsonrpc.Peer, note *jsonrpc.Request) { c.note(note.Params) }

// Abandoned has the server cancel the call.
func (c *client) Abandoned(from jsonrpc.Peer, id jsonrpc.ID, _ error) {
	_ = from.Notify(context.Background(), "cancel", jsonrpc.Raw(`{"id":`+id.String()+`}`)) // the test misses it
}

func (c *client) note(params json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, params)
	select {
	case c.noted <- struct{}{}:
	default:
	}
}

// notes returns what has been seen, as an array.
func (c *client) notes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(appendArray(nil, c.seen))
}

func (c *client) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}
