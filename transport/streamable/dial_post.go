package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/buffer"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/mirror"
	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A post is one message on its way to the server. It must be done, after which its text is
// gone.
type post struct {
	conn    *clientConn
	caller  context.Context // of who sends it
	ctx     context.Context // ends with the caller's, with the connection, and in time
	cancel  context.CancelFunc
	number  int64
	session *dialSession

	method string
	id     jsonrpc.ID // zero when there is no answer to wait for
	modern bool       // the message says which version it is of
	params located
	text   webclient.Text
	header http.Header

	sent []byte // the message, if its header lacked something

	route    *jsonrpc.Route // of what comes along with the answer; nil as long as nothing has
	progress webclient.Progress
	words    [3]string // values in the header
}

// newPost begins a request. The error is a *jsonrpc.CallError.
func (c *clientConn) newPost(ctx context.Context, method string) (*post, error) {
	p := &post{conn: c, caller: ctx, method: method}
	if ctx.Err() != nil {
		return nil, p.failed(jsonrpc.NotSent, context.Cause(ctx))
	}
	timeout := c.dialer.opts.Conn.CallTimeout
	if deadline.Has(ctx) || timeout < 0 {
		p.ctx, p.cancel = context.WithCancel(ctx)
	} else {
		p.ctx, p.cancel = deadline.With(ctx, timeout, context.DeadlineExceeded)
	}
	var err error
	if p.number, p.session, err = c.state.begin(p.cancel, c.dialer.opts.Conn.MaxPending); err != nil {
		p.cancel()
		return nil, p.failed(jsonrpc.NotSent, err)
	}
	return p, nil
}

// done ends the request.
func (p *post) done() {
	p.cancel()
	p.text.Release()
	p.conn.state.finish(p.number)
}

func (p *post) failed(delivery jsonrpc.Delivery, err error) error {
	return &jsonrpc.CallError{Method: p.method, Delivery: delivery, Err: err}
}

// broken is the error of a request that was cut off, by whom ever, or could not
// be answered.
func (p *post) broken(err error) error {
	return p.failed(p.progress.Delivery(), p.reason(err))
}

// reason says why a request failed. Its own context tells nothing of whoever
// has ended it.
func (p *post) reason(err error) error {
	switch {
	case p.caller.Err() != nil:
		return context.Cause(p.caller)
	case p.ctx.Err() == nil:
		return err
	case p.conn.state.endedWith() != nil:
		return p.conn.state.endedWith()
	}
	return context.DeadlineExceeded
}

// encode writes the message and its header. Its params are scanned once, for both.
func (p *post) encode(id jsonrpc.ID, params jsonrpc.Appender) error {
	memory := p.conn.memory.Get()
	defer p.text.Hold(memory)
	p.id = id
	p.params.Appender = params
	raw, err := p.appendTo(memory)
	if err != nil {
		return err
	}
	var req jsonrpc.Request
	if err := req.Init(id, p.method, raw); err != nil {
		return fmt.Errorf("%v", err) // it is not the server that says so
	}
	claim := req.Member("_meta", mcp.MetaProtocolVersion)
	p.modern = jsonscan.KindOf(claim) == jsonscan.String
	p.header = p.newHeader()
	if p.modern {
		p.mirror(&req, claim)
	}
	if trace := p.conn.dialer.opts.Conn.Trace; trace != nil {
		trace(true, memory.Bytes)
	}
	return nil
}

// appendTo writes the message into a buffer that is empty, and returns the params in it,
// nil when there are none.
func (p *post) appendTo(memory *buffer.Buffer) (params json.RawMessage, err error) {
	if p.params.Appender != nil {
		text, err := jsonrpc.AppendRequest(memory.Bytes, p.id, p.method, &p.params)
		if err != nil {
			return nil, err
		}
		memory.Bytes = text
		if params = text[p.params.start:p.params.end]; len(params) > 0 && string(params) != "null" {
			return params, nil
		}
	}
	memory.Bytes, err = jsonrpc.AppendRequest(memory.Bytes[:0], p.id, p.method, nil)
	return nil, err
}

// located is an Appender that knows where it has appended itself.
type located struct {
	jsonrpc.Appender
	start, end int
}

// AppendJSON appends what it locates.
func (l *located) AppendJSON(dst []byte) ([]byte, error) {
	l.start = len(dst)
	dst, err := l.Appender.AppendJSON(dst)
	l.end = len(dst)
	return dst, err
}

// mirror repeats in the header what the message says. MCP 2026-07-28,
// basic/transports/streamable-http.
func (p *post) mirror(req *jsonrpc.Request, claim json.RawMessage) {
	version := string(mcp.LatestVersion)
	if !jsonscan.KeyIs(claim, version) {
		version = mirror.Encode(jsonscan.Unquote(claim))
	}
	p.words = [...]string{version, mirror.Encode(p.method), ""}
	p.header[headerVersion] = p.words[0:1:1]
	p.header[mirror.HeaderMethod] = p.words[1:2:2]
	name, ok := mirror.Name(req)
	if !ok {
		return
	}
	p.words[2] = mirror.Encode(name)
	p.header[mirror.HeaderName] = p.words[2:3:3]
	if p.method == mcp.MethodToolsCall {
		for key, value := range p.conn.bindings.of(name).All(req.Member("arguments")) {
			p.header[key] = []string{value}
		}
	}
}

// What every request has in its header. Nobody changes these.
var (
	typeJSON      = []string{"application/json"}
	typeEvents    = []string{"text/event-stream"}
	acceptAnswers = []string{"application/json, text/event-stream"}
)

func (p *post) newHeader() http.Header {
	header := make(http.Header, 8)
	header["Content-Type"] = typeJSON
	header["Accept"] = acceptAnswers
	return header
}

// send makes the request. The error is a *jsonrpc.CallError.
func (p *post) send() (*http.Response, error) {
	if !p.modern && !p.opensSession() {
		p.session.addTo(p.header)
	}
	dialer := p.conn.dialer
	res, err := dialer.client.PostText(p.ctx, dialer.url, p.header, &p.text, &p.progress)
	if err != nil {
		return nil, p.broken(err)
	}
	return res, nil
}

// tell sends a message that has no answer.
func (p *post) tell() error {
	res, err := p.send()
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if !isSuccess(res) {
		_, err = p.refused(res)
		return err
	}
	if mediaType(res) != typeEvents[0] { // which some servers keep open
		webclient.Drain(res.Body, p.cancel)
	}
	return nil
}
