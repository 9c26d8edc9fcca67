package era

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/seal"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Server carries a [Core] over links, in both eras at once.
type Server struct {
	core       Core
	keys       *seal.Ring
	callers    callers
	serverInfo serverInfoCache
	lists      listCache
}

// NewServer returns a server that seals what a caller carries between the
// rounds of a call with keys.
func NewServer(core Core, keys *seal.Ring) *Server {
	return &Server{core: core, keys: keys}
}

// Bind makes the handler of one link.
func (s *Server) Bind(link transport.Link) jsonrpc.Handler {
	return &binding{server: s, link: link}
}

// A binding is one link: modern calls need nothing of it, legacy ones the
// session. A shared link carries modern calls only.
type binding struct {
	server  *Server
	link    transport.Link
	legacy  legacySession
	listens atomic.Int32
}

// principal names the authenticated client that a call is of.
func (b *binding) principal(ctx context.Context) string {
	if b.link.Shared {
		return transport.Principal(ctx)
	}
	return b.link.Principal
}

// declaredVersion returns the protocol version in the envelope of a request, nil if the
// request is of the legacy era.
func declaredVersion(req *jsonrpc.Request) json.RawMessage {
	return req.Member("_meta", mcp.MetaProtocolVersion)
}

// Handle answers a call. What its caller must not be shown, a panic too, is
// reported here.
func (b *binding) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = b.server.core.Failed(req.Method, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	err = b.handle(ctx, from, req, reply)
	if err == nil || ctx.Err() != nil || isForCaller(err) {
		return err
	}
	return b.server.core.Failed(req.Method, err)
}

func isForCaller(err error) bool {
	var e *jsonrpc.Error
	return errors.As(err, &e)
}

// handle chooses the era of a call, once.
func (b *binding) handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if declaredVersion(req) != nil {
		return b.handleModern(ctx, from, req, reply)
	}
	return b.handleLegacy(ctx, from, req, reply)
}

// Preempts says what must not wait behind calls, and the handshake, which must
// be over before the next message is looked at.
func (b *binding) Preempts(req *jsonrpc.Request) bool {
	switch req.Method {
	case mcp.MethodInitialize, mcp.MethodPing, mcp.MethodSetLevel:
		return declaredVersion(req) == nil
	}
	return false
}

// Notified takes what a client tells unasked. Its cancellations declare no version;
// ids are the sender's, so one table serves both eras.
func (b *binding) Notified(from jsonrpc.Peer, note *jsonrpc.Request) {
	if note.Method != mcp.NotificationCancelled {
		return
	}
	if id, err := jsonrpc.ParseID(note.Member("requestId")); err == nil {
		from.Cancel(id)
	}
}

// Abandoned tells a legacy client that its answer is not needed any more.
func (b *binding) Abandoned(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	notifyCancelled(from, id, cause)
}

// AcceptBatch takes batches from who negotiated the one version that has them.
func (b *binding) AcceptBatch(batch []jsonrpc.Message) error {
	refuse := func(why string) error {
		return &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: why}
	}
	if caller := b.legacy.caller.Load(); caller == nil || caller.Version != mcp.Version20250326 {
		return refuse("batches exist only in sessions of version 2025-03-26: send one message at a time")
	}
	for _, msg := range batch {
		req, ok := msg.(*jsonrpc.Request)
		switch {
		case ok && req.Method == mcp.MethodInitialize:
			return refuse("initialize must not be part of a batch")
		case ok && declaredVersion(req) != nil:
			return refuse("a request that carries its version must not be part of a batch")
		}
	}
	return nil
}

// errorFor says an error of the core in the words of the caller's version.
func errorFor(version mcp.Version, err error) error {
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		return err
	}
	code := e.Code
	switch {
	case version.Modern() && code == mcp.CodeResourceNotFound:
		code = jsonrpc.InvalidParams
	case !version.Modern() && code == mcp.CodeMissingClientCapability:
		code = jsonrpc.InvalidRequest
	}
	if code == e.Code {
		return err // a transport may know what it is in
	}
	return &jsonrpc.Error{Code: code, Message: e.Message, Data: e.Data}
}

func methodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "method not found: " + jsonscan.Quote(method)}
}
