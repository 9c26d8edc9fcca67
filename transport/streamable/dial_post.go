package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/paramheader"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// A post is one message to the server. done must be called exactly once; text must not be
// used after that.
type post struct {
	conn    *clientConn
	caller  context.Context // passed to Call or Notify
	ctx     context.Context // derived from caller; ends also with the connection and after the timeout
	cancel  context.CancelFunc
	number  int64
	session *dialSession

	method string
	id     jsonrpc.ID // zero if no response is expected
	modern bool       // whether the message declares its version
	params trackedParams
	text   httpclient.Body
	header http.Header

	mismatched []byte // the message, if the server refused it for a header mismatch

	from         callReceiver // peer of the messages in the response
	progress     httpclient.Progress
	headerValues [3]string // backing array of header values
}

// newPost begins a request. The error is a *jsonrpc.CallError.
func (c *clientConn) newPost(ctx context.Context, method string) (*post, error) {
	p := &post{conn: c, caller: ctx, method: method, from: callReceiver{receiver{clientConn: c}, ctx}}
	if ctx.Err() != nil {
		return nil, p.callError(jsonrpc.NotSent, context.Cause(ctx))
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
		return nil, p.callError(jsonrpc.NotSent, err)
	}
	return p, nil
}

// done ends the request.
func (p *post) done() {
	p.cancel()
	p.text.Release()
	p.conn.state.finish(p.number)
}

func (p *post) callError(delivery jsonrpc.Delivery, err error) error {
	return &jsonrpc.CallError{Method: p.method, Delivery: delivery, Err: err}
}

// networkError returns the error of a request that was interrupted or not answered.
func (p *post) networkError(err error) error {
	return p.callError(p.progress.Delivery(), p.reason(err))
}

// reason returns why a request failed: the end of the caller's context, the end of the
// connection, the timeout, or err.
func (p *post) reason(err error) error {
	switch {
	case p.caller.Err() != nil:
		return context.Cause(p.caller)
	case p.ctx.Err() == nil:
		return err
	case p.conn.state.endReason() != nil:
		return p.conn.state.endReason()
	}
	return context.DeadlineExceeded
}

// encode encodes the message and its header from one scan of the params.
func (p *post) encode(id jsonrpc.ID, params jsonrpc.Appender) error {
	memory := p.conn.buffers.Get()
	defer p.text.Hold(memory)
	p.id = id
	p.params.Appender = params
	raw, err := p.appendTo(memory)
	if err != nil {
		return err
	}
	req, err := jsonrpc.NewRequest(id, p.method, raw)
	if err != nil {
		return fmt.Errorf("%v", err) // hide *jsonrpc.Error, which means an error of the server
	}
	declared := req.Member("_meta", mcp.MetaProtocolVersion)
	p.modern = jsonscan.KindOf(declared) == jsonscan.String
	p.header = p.newHeader()
	if p.modern {
		p.addHeaders(req, declared)
	}
	if !id.IsZero() {
		p.conn.incoming.Sent(p.caller, id)
	}
	p.conn.incoming.Trace(true, memory.Bytes)
	return nil
}

// appendTo appends the message to an empty buffer. It returns the params in the buffer, or
// nil if there are none.
func (p *post) appendTo(memory *bufpool.Buffer) (params json.RawMessage, err error) {
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

// trackedParams is an Appender that records the position of its text.
type trackedParams struct {
	jsonrpc.Appender
	start, end int
}

// AppendJSON appends the params.
func (p *trackedParams) AppendJSON(dst []byte) ([]byte, error) {
	p.start = len(dst)
	dst, err := p.Appender.AppendJSON(dst)
	p.end = len(dst)
	return dst, err
}

// addHeaders adds the headers that repeat parts of the message: version, method, name and
// arguments. See MCP 2026-07-28, basic/transports/streamable-http.
func (p *post) addHeaders(req *jsonrpc.Request, declared json.RawMessage) {
	version := string(mcp.LatestVersion)
	if !jsonscan.KeyIs(declared, version) {
		version = paramheader.Encode(jsonscan.Unquote(declared))
	}
	p.headerValues = [...]string{version, paramheader.Encode(p.method), ""}
	p.header[wire.HeaderVersion] = p.headerValues[0:1:1]
	p.header[paramheader.HeaderMethod] = p.headerValues[1:2:2]
	name, ok := paramheader.Name(req)
	if !ok {
		return
	}
	p.headerValues[2] = paramheader.Encode(name)
	p.header[paramheader.HeaderName] = p.headerValues[2:3:3]
	if p.method == mcp.MethodToolsCall {
		for key, value := range p.conn.bindings.get(name).All(req.Member("arguments")) {
			p.header[key] = []string{value}
		}
	}
}

// Header values of every request. They must not be modified.
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

// send sends the request. The error is a *jsonrpc.CallError.
func (p *post) send() (*http.Response, error) {
	if !p.modern && !p.isInitialize() {
		p.session.addTo(p.header)
	}
	dialer := p.conn.dialer
	res, err := dialer.client.PostBody(p.ctx, dialer.client.URL(), p.header, &p.text, &p.progress)
	if err != nil {
		return nil, p.networkError(err)
	}
	return res, nil
}

// deliver sends a message that has no response.
func (p *post) deliver() error {
	res, err := p.send()
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if !isSuccess(res) {
		_, err = p.refused(res)
		return err
	}
	if mediaType(res) != typeEvents[0] { // some servers keep an empty stream open
		httpclient.Drain(res.Body, p.cancel)
	}
	return nil
}

// roundTrip sends a call and waits for its response. If draining is true, a goroutine still
// reads the stream and calls done at its end; otherwise the caller must call done.
func (p *post) roundTrip() (resp *jsonrpc.Response, draining bool, err error) {
	res, err := p.send()
	if err != nil {
		return nil, false, err
	}
	if !isSuccess(res) {
		resp, err = p.refused(res)
		return resp, false, err
	}
	if p.isInitialize() {
		if err := p.storeSession(res); err != nil {
			res.Body.Close()
			return nil, false, p.callError(jsonrpc.MaybeExecuted, err)
		}
	}
	if resp, draining, err = p.read(res); err != nil {
		return nil, draining, err
	}
	if resp.Error != nil {
		if lost := p.checkSession(res, []byte(resp.Error.Message), resp); lost != nil {
			return nil, draining, lost
		}
	}
	resp, err = p.outcome(resp)
	return resp, draining, err
}

// read reads the response to a call from an HTTP response with a status 2xx. draining is as for roundTrip.
func (p *post) read(res *http.Response) (resp *jsonrpc.Response, draining bool, err error) {
	switch kind := mediaType(res); kind {
	case typeJSON[0], "":
		resp, err = p.readJSON(res)
		return resp, false, err
	case typeEvents[0]:
		return p.readStream(res.Body)
	default:
		httpclient.Drain(res.Body, p.cancel)
		res.Body.Close()
		return nil, false, p.callError(jsonrpc.MaybeExecuted, fmt.Errorf(
			"the response must be %s or %s, not %s", typeJSON[0], typeEvents[0], jsonscan.Quote(kind)))
	}
}

func isSuccess(res *http.Response) bool { return res.StatusCode/100 == 2 }

// mediaType returns the media type of a response without parameters.
func mediaType(res *http.Response) string {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// outcome returns the error in a response as a Go error.
func (p *post) outcome(resp *jsonrpc.Response) (*jsonrpc.Response, error) {
	switch {
	case resp.Error == nil:
		return resp, nil
	case resp.Error.Code == jsonrpc.Busy:
		return nil, p.callError(jsonrpc.Rejected, resp.Error)
	}
	return nil, resp.Error
}

// refused handles an HTTP response with a status other than 2xx. It returns the JSON-RPC
// response in the body if there is one, otherwise an error.
func (p *post) refused(res *http.Response) (*jsonrpc.Response, error) {
	defer res.Body.Close()
	body, err := readBody(res, nil, p.conn.dialer.opts.MaxMessage)
	var resp *jsonrpc.Response
	if err == nil {
		resp = p.decodeError(body)
	}
	if lost := p.checkSession(res, body, resp); lost != nil {
		return nil, lost
	}
	if resp != nil && p.isOwnResponse(res, resp) {
		p.conn.incoming.Trace(false, body)
		return p.outcome(resp)
	}
	status := httpclient.NewStatusError(res, body)
	if err != nil && p.ctx.Err() != nil {
		return nil, p.callError(httpclient.DeliveryOf(status), p.reason(err))
	}
	return nil, p.callError(httpclient.DeliveryOf(status), status)
}

// isOwnResponse reports whether a JSON-RPC error with an HTTP error status is the server's
// response to this message. Otherwise it is a refusal of the client or comes from a proxy.
func (p *post) isOwnResponse(res *http.Response, resp *jsonrpc.Response) bool {
	switch hasID := !resp.ID.IsZero(); {
	case httpclient.IsAccess(res.StatusCode):
		return false
	case res.StatusCode >= http.StatusInternalServerError:
		return hasID
	case p.isInitialize():
		return hasID // without an id, the server may only support another transport
	}
	return true
}

// isInitialize reports whether the message opens a session.
func (p *post) isInitialize() bool { return p.method == mcp.MethodInitialize && !p.modern }

// decodeError decodes a JSON-RPC error that has the id of this message, or no id. It returns nil for any other body.
func (p *post) decodeError(body []byte) *jsonrpc.Response {
	msg, err := jsonrpc.Decode(body)
	if err != nil {
		return nil
	}
	resp, ok := msg.(*jsonrpc.Response)
	if !ok || resp.Error == nil || !resp.ID.IsZero() && !resp.ID.Matches(p.id) {
		return nil
	}
	return resp
}

var errNoResponse = errors.New("the HTTP response does not contain the JSON-RPC response to the call")

// readJSON reads a response that is one JSON text. A large text is read into a pooled buffer
// if the params of the call are a bufpool.Holder, which then owns the buffer.
func (p *post) readJSON(res *http.Response) (*jsonrpc.Response, error) {
	defer res.Body.Close()
	var memory *bufpool.Buffer
	var body []byte
	holder, _ := p.params.Appender.(bufpool.Holder)
	if holder != nil && res.ContentLength >= minPooled {
		memory = p.conn.buffers.Fit(int(min(res.ContentLength, p.conn.dialer.opts.MaxMessage)))
		body = memory.Bytes
	}
	body, err := readBody(res, body, p.conn.dialer.opts.MaxMessage)
	if err != nil {
		if _, ok := err.(*SizeError); !ok {
			err = httpclient.NotReached(err)
		}
		return nil, p.networkError(err)
	}
	if len(body) == 0 && p.ctx.Err() != nil { // a server answers a call that was canceled so
		return nil, p.networkError(errNoResponse)
	}
	resp, _, err := p.receive(body)
	if err == nil && resp == nil {
		err = errNoResponse
		if only := p.decodeError(body); only != nil { // the server could not read the id
			return only, nil
		}
		if _, malformed := jsonrpc.Decode(body); malformed != nil {
			err = fmt.Errorf("%w: %w", errNoResponse, malformed)
		}
	}
	if err != nil {
		return nil, p.callError(jsonrpc.MaybeExecuted, err)
	}
	if memory != nil && jsonscan.KindOf(body) != jsonscan.Array { // handlers may retain messages of a batch
		memory.Bytes = body
		holder.Hold(memory)
	}
	return resp, nil
}

const (
	// firstRead is the maximum size in bytes of the first buffer, since Content-Length may
	// be false. A later buffer has at most maxGrowth times the length received so far.
	firstRead = 64 << 10
	maxGrowth = 8
	// minPooled is the length in bytes from which a response is read into a pooled buffer.
	minPooled = 8 << 10
)

// readBody reads a body of at most limit bytes, without a byte order mark. It uses the given buffer if that is large
// enough. The error is a *SizeError or an error of the network.
func readBody(res *http.Response, body []byte, limit int64) ([]byte, error) {
	size := int64(512)
	if res.ContentLength >= 0 {
		size = res.ContentLength
	}
	if size > limit {
		return nil, &SizeError{limit}
	}
	if size = min(size, firstRead); size > int64(cap(body)) {
		body = make([]byte, 0, size)
	}
	for {
		if len(body) == cap(body) {
			have := int64(len(body))
			more := max(have, min(maxGrowth*have, res.ContentLength)-have)
			body = slices.Grow(body, int(max(1, min(more, limit-have+1))))
		}
		n, err := res.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return body, &SizeError{limit}
		case err == io.EOF:
			return jsonscan.TrimBOM(body), nil
		case err != nil:
			return body, err
		}
	}
}

// storeSession stores the session id in the response to "initialize".
func (p *post) storeSession(res *http.Response) error {
	session := new(dialSession)
	if lines := res.Header[wire.HeaderSession]; len(lines) > 0 {
		id := lines[0]
		if len(lines) > 1 || len(id) > maxSessionID || strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' }) {
			return fmt.Errorf("the session id must be visible ASCII of at most %d bytes, not %s", maxSessionID, jsonscan.Quote(id))
		}
		session.id = lines[:1:1]
	}
	p.session = session
	p.conn.state.setSession(session)
	return nil
}

// setVersion stores the version in the response to "initialize".
func (p *post) setVersion(resp *jsonrpc.Response) {
	version := resp.Member("protocolVersion")
	if jsonscan.KindOf(version) != jsonscan.String {
		return // the caller refuses the response
	}
	p.conn.state.setSession(&dialSession{id: p.session.id, version: []string{jsonscan.Unquote(version)}})
}

// SizeError is the error of a call whose response is longer than [DialOptions].MaxMessage,
// or whose stream has an event with a name or id that is too long.
type SizeError struct {
	// Max is the limit in bytes.
	Max int64
}

// Error returns the limit.
func (e *SizeError) Error() string {
	return fmt.Sprintf("the response is longer than %d bytes", e.Max)
}
