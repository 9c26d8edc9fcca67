package era

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A Core is a server that does not depend on the era.
type Core interface {
	// Describe returns the current description of the server. It starts the server and does not wait until the start is
	// complete. The description is immutable; a changed server has another one. The error says why the server could not
	// start.
	Describe() (*Description, error)
	// ServeProtocol answers one call of any method that is not part of the protocol's session
	// management. It waits until the server has started.
	ServeProtocol(ctx context.Context, call *mcp.Call) (mcp.Result, error)
	// Failed records an error that the client must not see, and returns the error for the
	// client.
	Failed(method string, err error) error
	// Watch calls notify for each change that matches the filter until stop is called. call
	// is the call that subscribes, and ctx its context; the subscription may last longer.
	// Watch returns the accepted part of the filter, without the resources that do not exist
	// for the caller. notify does not block.
	Watch(ctx context.Context, call *mcp.Call, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (accepted mcp.SubscriptionFilter, stop func(), err error)
	// CreateTask continues a call in the background, with the state of its runs so far. It returns
	// when every replica can find the task.
	CreateTask(ctx context.Context, call *mcp.Call, request mcp.TaskRequest, state json.RawMessage) (*mcp.Task, error)
	// RefusesVisibleTask reports whether the caller sees a tool that does not run as a task. It is false for a
	// tool that does not exist or is hidden: Serve refuses both alike.
	RefusesVisibleTask(ctx context.Context, caller *mcp.Caller, tool string) bool
	// Task returns the state of a task of the caller.
	Task(ctx context.Context, caller *mcp.Caller, id string) (*mcp.Task, error)
	// RootsChanged is called when a legacy client has changed its roots. A modern server asks for
	// them in each call.
	RootsChanged(ctx context.Context, caller *mcp.Caller)
	// SessionOpened is called when a legacy client has opened a session, with the context of the request. roots asks the
	// client for its roots; it is nil if the client has none. ended, if not nil, is called once, when the session has
	// ended. SessionOpened and ended do not block.
	SessionOpened(ctx context.Context, caller *mcp.Caller, roots RootsFunc) (ended func(reason error))
	// Outgoing returns the params of a notification as they are sent to a client, and false if it is not sent.
	Outgoing(ctx context.Context, to *mcp.Caller, method string, params jsonrpc.Appender) (jsonrpc.Appender, bool)
	// Stopping returns a channel that is closed when the server shuts down.
	Stopping() <-chan struct{}
}

// A RootsFunc asks a client for its roots, outside of a call.
type RootsFunc func(ctx context.Context) ([]mcp.Root, error)

// A Description describes a server to its clients.
type Description struct {
	Info         mcp.Implementation
	Capabilities mcp.ServerCapabilities
	Instructions string
	// CacheHint is sent with the description and the lists, in 2026-07-28 only.
	CacheHint mcp.CacheHint
	// LogLevel is the level of a legacy session whose client has set none; "" means info. It is not sent.
	LogLevel mcp.LoggingLevel
}

// Limits of both ends.
const (
	// MaxRounds is how often one call may ask questions, in both eras and at both ends. A client may
	// have another limit.
	MaxRounds = 10
	// MaxListens is how many subscriptions one connection may hold open.
	MaxListens = 32
	// MaxStreams is how many streams of events one connection may hold open.
	MaxStreams = 128
	// MaxHandshake is the length of the params of initialize in bytes, since the session keeps
	// most of them.
	MaxHandshake = 64 << 10
	// MaxListenParams is the length of the params of subscriptions/listen in bytes, since they are
	// held as long as the subscription.
	MaxListenParams = 64 << 10
	// MaxWatchedURI is the length of the URI of a watched resource in bytes.
	MaxWatchedURI = 8 << 10
	// MaxSubscribed is how many resources one connection may watch.
	MaxSubscribed = 1024
	// InputTimeout is how long a person may take to answer.
	InputTimeout = 10 * time.Minute
	// StateLifetime is how long a sealed state is valid.
	StateLifetime = time.Hour
)

// A Server serves a [Core] over links of both eras.
type Server struct {
	core       Core
	key        StateKey
	retained   *quota.Retained
	callers    callers
	serverInfo serverInfoCache
}

// A StateKey seals the state that a client carries between the rounds of a call. The errors are errors of [token.Ring],
// the error of ctx, or a *[jsonrpc.Error] for the client.
type StateKey interface {
	// Seal is like [token.Ring.Seal].
	Seal(ctx context.Context, plaintext, binding []byte, expires time.Time) (string, error)
	// Open is like [token.Ring.Open].
	Open(ctx context.Context, token string, binding []byte, now time.Time) ([]byte, error)
}

// NewServer returns a server. retained counts what sessions and subscriptions leave behind.
func NewServer(core Core, key StateKey, retained *quota.Retained) *Server {
	return &Server{core: core, key: key, retained: retained}
}

// Bind returns the handler of one link.
func (s *Server) Bind(link transport.Link) jsonrpc.Handler {
	return &binding{server: s, link: link}
}

// A binding is the handler of one link. Legacy calls use its session. A shared link carries
// modern calls only.
type binding struct {
	server  *Server
	link    transport.Link
	legacy  legacySession
	listens atomic.Int32
	streams atomic.Int32
}

// notify sends a notification to a client, unless the core leaves it out.
func (s *Server) notify(ctx context.Context, peer jsonrpc.Peer, to *mcp.Caller, method string, params jsonrpc.Appender) error {
	params, send := s.core.Outgoing(ctx, to, method, params)
	if !send {
		return nil
	}
	return peer.Notify(ctx, method, params)
}

// client returns the name of the authenticated client of a call, and its network.
func (b *binding) client(ctx context.Context) (principal, network string) {
	if b.link.Shared {
		return transport.Principal(ctx), transport.Network(ctx)
	}
	return b.link.Principal, b.link.Network
}

// declaredVersion returns the protocol version in the envelope of a request, nil if the
// request is of the legacy era.
func declaredVersion(req *jsonrpc.Request) json.RawMessage {
	return req.Member("_meta", mcp.MetaProtocolVersion)
}

// Handle answers a call in the era of its request. Errors that the client must not see, and
// panics, are passed to Core.Failed.
func (b *binding) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = b.server.core.Failed(req.Method, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if declaredVersion(req) != nil {
		err = b.handleModern(ctx, from, req, reply)
	} else {
		err = b.handleLegacy(ctx, from, req, reply)
	}
	switch {
	case err != nil && context.Cause(ctx) == error(errNewSession):
		return errNewSession
	case err == nil || ctx.Err() != nil || isForCaller(err):
		return err
	}
	return b.server.core.Failed(req.Method, err)
}

func isForCaller(err error) bool {
	var e *jsonrpc.Error
	return errors.As(err, &e)
}

// Preempts reports whether a request must not wait for other calls, or is the handshake, which
// must be complete before the next message is read.
func (b *binding) Preempts(req *jsonrpc.Request) bool {
	return methods[req.Method].preempts && declaredVersion(req) == nil
}

// HandleNotification handles the notifications of a client: cancellations, and changes of the roots.
// A cancellation declares no version, so it applies to calls of both eras.
func (b *binding) HandleNotification(from jsonrpc.Peer, notification *jsonrpc.Request) {
	switch notification.Method {
	case mcp.NotificationCancelled:
		if id, err := jsonrpc.ParseID(notification.Member("requestId")); err == nil {
			from.Cancel(id)
		}
	case mcp.NotificationRootsListChanged:
		b.rootsChanged()
	}
}

// NotifyCancelled notifies a legacy client of an abandoned question.
func (b *binding) NotifyCancelled(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
	notifyCancelled(from, id, cause)
}

// AcceptBatch accepts batches in sessions of 2025-03-26, the only version that has them.
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

// ErrorFor returns an error of the core with the code of the caller's version.
func ErrorFor(version mcp.Version, err error) error {
	var e *jsonrpc.Error
	if !errors.As(err, &e) {
		return err
	}
	code, message := e.Code, e.Message
	switch {
	case version.Modern() && code == mcp.CodeResourceNotFound:
		code = jsonrpc.InvalidParams
	case version == mcp.Version20251125 && code == mcp.CodeMissingClientCapability && bytes.Equal(e.Data, mcp.MissingExtension(mcp.ExtensionTasks).Data):
		code, message = jsonrpc.MethodNotFound, "the tool runs only as a task: call it with the parameter task"
	case !version.Modern() && code == mcp.CodeMissingClientCapability:
		code = jsonrpc.InvalidRequest
	}
	if code == e.Code {
		return err // unchanged, since a transport may check wrapped errors
	}
	return &jsonrpc.Error{Code: code, Message: message, Data: e.Data}
}

func methodNotFound(method string) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "method not found: " + jsonscan.Quote(method)}
}
