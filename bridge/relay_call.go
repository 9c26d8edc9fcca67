package bridge

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// unbounded outlasts any call: one without a deadline would get a transport's default.
const unbounded = 10 * 365 * 24 * time.Hour

// A relayCall is a call on its way to the server and back.
type relayCall struct {
	server *relayServer
	from   jsonrpc.Peer
	req    *jsonrpc.Request

	ctx     context.Context
	cancel  context.CancelCauseFunc
	release func() // of the context

	token string          // that the server reports progress by, "" for none
	sent  json.RawMessage // the params
	id    jsonrpc.ID      // that the server knows it by; the server's lock guards it
	stop  func() bool     // not nil for a subscription, as the server has shown; the same lock guards it
	own   *relayOutbox    // nil on a link that is one client's, where all messages keep their order
}

func newRelayCall(ctx context.Context, s *relayServer, from jsonrpc.Peer, req *jsonrpc.Request) (*relayCall, error) {
	c := &relayCall{
		server: s, from: from, req: req, sent: req.Params,
		token: tokenText(req.Member("_meta", mcp.MetaProgressToken)),
	}
	if s.link.link.Shared {
		c.own = new(relayOutbox)
		if err := c.replaceToken(); err != nil {
			return nil, err
		}
	}
	ctx, c.cancel = context.WithCancelCause(context.WithValue(ctx, relayCallKey{}, c))
	c.ctx, c.release = context.WithTimeout(ctx, unbounded)
	return c, nil
}

// lasts notes that the call is a subscription, which does not outlast what the client can
// say.
func (c *relayCall) lasts() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.stop == nil {
		c.stop = context.AfterFunc(c.server.link.link.Input, func() { c.cancel(jsonrpc.ErrClosed) })
	}
}

// forget comes last.
func (c *relayCall) forget() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.stop != nil {
		c.stop()
	}
	c.stop = func() bool { return false } // nothing is to be stopped any more
	c.release()
	c.cancel(nil)
}

// replaceToken gives the call a token of its own: two clients may have chosen the same.
func (c *relayCall) replaceToken() error {
	if c.token == "" {
		return nil
	}
	token := c.server.newToken()
	c.token = string(token)
	var err error
	c.sent, err = spliceMeta(c.req.Params, c.req.Member("_meta"), mcp.MetaProgressToken, token)
	return err
}

// tokenText is a token in a form that can be compared.
func tokenText(raw json.RawMessage) string {
	if jsonscan.KindOf(raw) == jsonscan.String {
		return `"` + jsonscan.Unquote(raw)
	}
	return string(raw)
}

// spliceMeta returns an object with one member of its _meta changed.
func spliceMeta(object, meta json.RawMessage, name string, value []byte) (json.RawMessage, error) {
	edited, err := jsonscan.Splice(nil, meta, jsonscan.Edit{Name: name, Value: value})
	if err != nil {
		return nil, err
	}
	return jsonscan.Splice(nil, object, jsonscan.Edit{Name: "_meta", Value: edited})
}

// rawParams are params as they came, which may be none.
func rawParams(raw json.RawMessage) jsonrpc.Appender {
	if raw == nil {
		return nil
	}
	return jsonrpc.Raw(raw)
}

// params are what is sent. Those that are there learn the id.
func (c *relayCall) params() jsonrpc.Appender {
	if c.sent == nil {
		return nil
	}
	return relayedParams{c}
}

type relayedParams struct{ call *relayCall }

// Identify remembers which id the server knows the call by.
func (p relayedParams) Identify(id jsonrpc.ID) {
	s := p.call.server
	s.mu.Lock()
	defer s.mu.Unlock()
	p.call.id = id
}

// AppendJSON appends the params.
func (p relayedParams) AppendJSON(dst []byte) ([]byte, error) {
	return append(dst, p.call.sent...), nil
}

// out is where what the server tells meanwhile waits for the client.
func (c *relayCall) out() *relayOutbox {
	if c.own != nil {
		return c.own
	}
	return &c.server.link.toClient
}

// tell passes on a notification of the server that belongs to the call.
func (c *relayCall) tell(note *jsonrpc.Request) {
	params, err := c.translated(note)
	if err != nil {
		return // an object that has been scanned before
	}
	c.out().add(relayedNote{ctx: c.ctx, to: c.from, method: note.Method, params: params})
}

// translated returns the params of a notification as the client must see them: where they
// name the call, in the client's words.
func (c *relayCall) translated(note *jsonrpc.Request) (json.RawMessage, error) {
	switch id := note.Member("_meta", mcp.MetaSubscriptionID); {
	case note.Method == mcp.NotificationCancelled:
		return jsonscan.Splice(nil, note.Params, jsonscan.Edit{Name: "requestId", Value: c.req.ID.AppendJSON(nil)})
	case c.isNamed(id):
		c.lasts()
		return spliceMeta(note.Params, note.Member("_meta"), mcp.MetaSubscriptionID, c.req.ID.AppendJSON(nil))
	case c.own != nil && note.Method == mcp.NotificationProgress && string(note.Member(mcp.MetaProgressToken)) == c.token:
		return jsonscan.Splice(nil, note.Params, jsonscan.Edit{Name: mcp.MetaProgressToken, Value: c.req.Member("_meta", mcp.MetaProgressToken)})
	}
	return note.Params, nil
}

// isNamed says whether an id is the one that the server knows the call by.
func (c *relayCall) isNamed(raw json.RawMessage) bool {
	if raw == nil {
		return false
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	id, err := jsonrpc.ParseID(raw)
	return err == nil && id == c.id
}

// result is that of the server. That of a subscription names it.
func (c *relayCall) result(resp *jsonrpc.Response) (json.RawMessage, error) {
	if !c.isNamed(resp.Member("_meta", mcp.MetaSubscriptionID)) {
		return resp.Result, nil
	}
	return spliceMeta(resp.Result, resp.Member("_meta"), mcp.MetaSubscriptionID, c.req.ID.AppendJSON(nil))
}

// settle returns when the client has been told all that came before.
func (c *relayCall) settle() {
	if c.own != nil {
		c.own.close()
		return
	}
	c.server.link.toClient.flush(c.ctx)
}
