package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/textproto"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/paramheader"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable/internal/wire"
)

// answer answers a call without a session on the goroutine of its request. It is canceled
// when the client disconnects. See MCP 2026-07-28, basic/transports/streamable-http.
func (e *Endpoint) answer(w http.ResponseWriter, r *http.Request, accepts wire.Accepts, traced string, req *jsonrpc.Request, declared []byte) {
	network := httpguard.Network(r, e.opts.TrustedProxies)
	ctx, err := e.callContext(r, network, req, declared)
	if err != nil {
		wire.RefuseCall(w, http.StatusBadRequest, req, wire.Error(err))
		return
	}
	isStream := quota.IsSubscription(req.Method)
	if isStream && !accepts.Events {
		wire.RefuseCall(w, http.StatusNotAcceptable, req, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "a subscription is a stream: Accept must list text/event-stream"})
		return
	}
	holder := quota.HolderOf(transport.Principal(r.Context()), network)
	if err := e.quota.Begin(holder, req.Method); err != nil {
		httpguard.RefuseBusy(w, err.Error())
		return
	}
	defer e.quota.End(holder, req.Method)
	if traced != "" {
		ctx = jsonrpc.WithReceived(ctx, traced, req.ID)
	}
	x := callPeer{endpoint: e, w: w, accepts: accepts, traced: traced}
	if !isStream { // a subscription must not hold a buffer until it ends
		memory := e.buffers.Get()
		defer func() { memory.Bytes = x.reply.Buf; memory.Free() }()
		x.reply.Buf = memory.Bytes
	}
	err = jsonrpc.Answer(ctx, e.modern, &x, req, &x.reply)
	if errors.Is(r.Context().Err(), context.Canceled) { // a call that exceeded a deadline is answered
		x.discard()
	} else {
		addErrorHeaders(w, err) // no effect if the response has begun
		x.finish(status(err), x.reply.Buf)
	}
}

// callContext compares the headers of a call with its body, and returns the context of the call.
func (e *Endpoint) callContext(r *http.Request, network string, req *jsonrpc.Request, declared []byte) (context.Context, error) {
	ctx := transport.WithRequest(r.Context(), network, textproto.MIMEHeader(r.Header), "")
	if !hasRequestMeta(req, declared) {
		return ctx, nil
	}
	err := e.checkHeaders(ctx, r.Header, req, declared)
	if err == errUnlistedTool {
		return e.withHeaderCheck(ctx, r.Header, req), nil
	}
	return ctx, err
}

// status returns the status of a response. Errors of calls that were executed have status
// 200. See MCP 2026-07-28, basic/index, section Error Codes.
func status(err error) int {
	if err == nil {
		return http.StatusOK
	}
	switch wire.Error(err).Code {
	case jsonrpc.MethodNotFound:
		return http.StatusNotFound
	case mcp.CodeMissingClientCapability, mcp.CodeUnsupportedVersion, mcp.CodeHeaderMismatch:
		return http.StatusBadRequest
	case jsonrpc.Busy:
		return http.StatusServiceUnavailable
	}
	if _, rejected := errors.AsType[*transport.RejectedError](err); rejected {
		return http.StatusBadRequest
	}
	if _, lacks := errors.AsType[*transport.ScopeError](err); lacks {
		return http.StatusForbidden
	}
	return http.StatusOK
}

// A callPeer is one call with its response, and the peer of its handler. The response is
// JSON, unless a notification precedes the result: then it is an event stream.
type callPeer struct {
	endpoint *Endpoint
	w        http.ResponseWriter
	accepts  wire.Accepts
	reply    jsonrpc.Reply
	traced   string // identifies the request for jsonrpc.Options.Trace

	mu     sync.Mutex
	events *wire.EventStream // nil while the response can still be JSON
	buf    []byte
	done   bool
}

var _ jsonrpc.Peer = (*callPeer)(nil)

var errNoCalls = errors.New("servers of this protocol version cannot call their clients")

// Call fails. In versions without sessions, a result contains the questions to the client.
func (x *callPeer) Call(_ context.Context, method string, _ jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, &jsonrpc.CallError{Method: method, Delivery: jsonrpc.NotSent, Err: errNoCalls}
}

// Cancel does nothing: a client cancels by disconnecting.
func (x *callPeer) Cancel(jsonrpc.ID) {}

// Notify sends a notification before the result. It drops the notification if the client
// does not accept event streams.
func (x *callPeer) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done || !x.accepts.Events {
		return nil
	}
	var err error
	if x.buf, err = jsonrpc.AppendRequest(x.buf[:0], jsonrpc.ID{}, method, params); err != nil {
		return err
	}
	return x.send(ctx, x.buf)
}

func (x *callPeer) send(ctx context.Context, msg []byte) error {
	if x.events == nil {
		x.events = wire.Start(x.w, x.endpoint.opts.KeepAlive, x.endpoint.opts.Limits.WriteTimeout)
	}
	x.trace(msg)
	return x.events.Send(ctx, sse.Event{Data: jsonscan.Line(msg)})
}

// finish sends the answer and drops later notifications.
func (x *callPeer) finish(status int, answer []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = true
	if x.events == nil && (x.accepts.JSON || status != http.StatusOK) {
		x.trace(answer)
		wire.WriteJSON(x.w, status, answer, x.endpoint.opts.Limits.WriteTimeout)
		return
	}
	_ = x.send(context.Background(), answer) // a client that has disconnected has canceled the call
	x.events.Stop()
}

// discard ends the response without an answer, since the client has disconnected.
func (x *callPeer) discard() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done = true
	if x.events != nil {
		x.events.Stop()
	}
}

func (x *callPeer) trace(msg []byte) {
	if trace := x.endpoint.opts.Conn.Trace; trace != nil {
		trace(x.traced, true, msg)
	}
}

// namesModernVersion reports whether a header names a version without sessions. An unknown
// version counts as a newer one.
func namesModernVersion(header http.Header) bool {
	lines := header[wire.HeaderVersion]
	return len(lines) > 0 && !wire.HasSessions(lines[0])
}

// checkVersion compares the header with the version that a request declares in its body.
func checkVersion(header http.Header, declared json.RawMessage) error {
	switch lines := header[wire.HeaderVersion]; {
	case len(lines) == 0:
		return headerMismatch("the header MCP-Protocol-Version is missing; expected " + excerpt(declared))
	case len(lines) > 1:
		return headerMismatch("the header MCP-Protocol-Version is given more than once")
	case !jsonscan.KeyIs(declared, lines[0]):
		return headerMismatch("the header MCP-Protocol-Version is " + jsonscan.Quote(lines[0]) + ", but the request declares version " + excerpt(declared))
	}
	return nil
}

// excerpt quotes the declared version for an error.
func excerpt(declared json.RawMessage) string { return jsonscan.Quote(jsonscan.Unquote(declared)) }

func headerMismatch(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: message}
}

// hasRequestMeta reports whether the required metadata of a request have the right JSON types. If not, the error of the
// server is better than an error about the headers.
func hasRequestMeta(req *jsonrpc.Request, declared json.RawMessage) bool {
	info := req.Member("_meta", mcp.MetaClientInfo)
	return jsonscan.KindOf(declared) == jsonscan.String &&
		jsonscan.KindOf(req.Member("_meta", mcp.MetaClientCapabilities)) == jsonscan.Object &&
		(info == nil || jsonscan.KindOf(info) == jsonscan.Object)
}

// errUnlistedTool means that the parameters of a tool in headers are not known yet.
var errUnlistedTool = errors.New("the tool is in no list, or has variants")

// checkHeaders compares the headers with the request. The error is errUnlistedTool if only the headers
// of parameters were not compared. See MCP 2026-07-28, basic/transports/streamable-http, section
// Server Validation.
func (e *Endpoint) checkHeaders(ctx context.Context, header http.Header, req *jsonrpc.Request, declared json.RawMessage) error {
	if err := checkVersion(header, declared); err != nil {
		return err
	}
	if version := mcp.Version(header[wire.HeaderVersion][0]); !version.Known() || !version.Modern() {
		return nil // the server refuses the version
	}
	lines := func(name string) []string { return header[name] }
	if err := paramheader.CheckStandard(lines, req); err != nil {
		return headerMismatch(err.Error())
	}
	if req.Method != mcp.MethodToolsCall {
		return nil
	}
	return e.checkParams(ctx, header, req, req)
}

// checkParams compares the headers with the arguments of a call. The request named contains the name of the tool.
func (e *Endpoint) checkParams(ctx context.Context, header http.Header, named, req *jsonrpc.Request) error {
	params, err := e.headerParams.params(ctx, named)
	if err != nil || params == nil {
		return err
	}
	if err := params.Check(func(name string) []string { return header[name] }, req.Member("arguments")); err != nil {
		return headerMismatch(err.Error())
	}
	return nil
}

// withHeaderCheck returns the context of a call of a tool that is in no list under the caller's name, or that has
// variants.
// The server authorizes the call again under the tool's own name, and the headers are compared then.
func (e *Endpoint) withHeaderCheck(ctx context.Context, header http.Header, req *jsonrpc.Request) context.Context {
	return transport.WithAuthorizer(ctx, func(resolved context.Context, named *jsonrpc.Request) error {
		if err := transport.Authorize(ctx, named); err != nil {
			return err
		}
		if err := e.checkParams(resolved, header, named, req); err != errUnlistedTool {
			return err
		}
		return nil
	})
}

// maxHeaderTools is the maximum number of tools whose header parameters are cached.
const maxHeaderTools = 1024

// headerParams caches which parameters of tools are repeated in headers. Few tools have any.
type headerParams struct {
	server schemaProvider // nil if no tool has any
	tools  *lru.Cache[string, headerTool]
}

type headerTool struct {
	schema json.RawMessage
	params *paramheader.Params
}

// params returns the header parameters of the tool that a request calls. The error is errUnlistedTool
// if the server does not know the tool.
func (m *headerParams) params(ctx context.Context, req *jsonrpc.Request) (*paramheader.Params, error) {
	name := req.Member("name")
	if m.server == nil || jsonscan.KindOf(name) != jsonscan.String {
		return nil, nil
	}
	tool := jsonscan.Unquote(name)
	schema := m.server.InputSchema(ctx, tool)
	if schema == nil {
		return nil, errUnlistedTool
	}
	if known, ok := m.tools.Get(tool); ok && sameBytes(known.schema, schema) {
		return known.params, nil
	}
	params, err := paramheader.Compile(schema)
	if err != nil || params == nil {
		return nil, err
	}
	m.tools.Add(tool, headerTool{schema, params})
	return params, nil
}

// newCache returns a cache for size entries, which must be positive.
func newCache[V any](size int) *lru.Cache[string, V] {
	cache, err := lru.New[string, V](size)
	if err != nil {
		panic(err)
	}
	return cache
}

// sameBytes reports whether both are the same slice, not only equal.
func sameBytes(a, b []byte) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }
