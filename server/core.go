package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// holderOf returns the client that has a share of limits.
func holderOf(caller *mcp.Caller) quota.Holder {
	return quota.HolderOf(caller.Principal, caller.Network)
}

// core implements [era.Core].
type core struct{ *Server }

// ServeProtocol answers a call over the protocol. Unlike [Server.Serve], it returns refusals of guards as tool
// results where the guard wants that.
func (c core) ServeProtocol(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	result, err := c.Server.Serve(ctx, call)
	if question, asks := mcp.AsInputRequired(err); asks && len(c.options.Outgoing) > 0 {
		if question, err = c.outgoingQuestion(ctx, call, question); err != nil {
			return c.convertError(ctx, call, err)
		}
		return nil, question
	}
	if err != nil && call.Method() == mcp.MethodToolsCall {
		if refusal, ok := errors.AsType[mcp.ToolRefusal](err); ok {
			if said := refusal.ToolResult(); said != nil {
				return said, nil
			}
		}
	}
	return result, err
}

// Outgoing applies Options.Outgoing to a notification. It returns false if the notification is left out.
func (c core) Outgoing(ctx context.Context, to *mcp.Caller, method string, params jsonrpc.Appender) (jsonrpc.Appender, bool) {
	if len(c.options.Outgoing) == 0 {
		return params, true
	}
	encoded := []byte("{}")
	var err error
	if params != nil {
		encoded, err = params.AppendJSON(nil)
	}
	if err == nil {
		encoded, err = c.outgoing(ctx, to, method, encoded)
	}
	if err != nil {
		c.options.Logger.Debug("a notification was not sent", append(errorAttrs(err), "method", method)...)
		return nil, false
	}
	return mcp.Raw(encoded), true
}

// outgoingQuestion applies Options.Outgoing to the questions of a call. The error says why they are not asked.
func (c core) outgoingQuestion(ctx context.Context, call *mcp.Call, question *mcp.InputRequired) (*mcp.InputRequired, error) {
	asked := &mcp.InputRequired{Requests: maps.Clone(question.Requests), Task: question.Task, Asked: question.Asked}
	for _, key := range slices.Sorted(maps.Keys(asked.Requests)) {
		request := asked.Requests[key]
		params := request.Params
		if params == nil {
			params = json.RawMessage("{}")
		}
		var err error
		if request.Params, err = c.outgoing(ctx, call.Caller, request.Method, params); err != nil {
			return nil, err
		}
		asked.Requests[key] = request
	}
	return asked, nil
}

func (c core) outgoing(ctx context.Context, to *mcp.Caller, method string, params json.RawMessage) (json.RawMessage, error) {
	err := callRecovered(func() (err error) {
		for _, apply := range c.options.Outgoing {
			if params, err = apply(ctx, to, method, params); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && (jsonscan.KindOf(params) != jsonscan.Object || jsonscan.Valid(params) != nil) {
		err = fmt.Errorf("Options.Outgoing returned no JSON object for %s", method)
	}
	return params, err
}

// SessionOpened calls Options.OnSession, and registers a client with roots.
func (c core) SessionOpened(ctx context.Context, caller *mcp.Caller, roots era.RootsFunc) (ended func(reason error)) {
	if c.options.OnSession != nil {
		ended = c.options.OnSession(ctx, caller)
	}
	if roots == nil {
		return ended
	}
	disconnect, own := c.rootsClients.connect(RootsClient{caller, roots}), ended
	return func(reason error) {
		disconnect()
		if own != nil {
			own(reason)
		}
	}
}

// Failed logs an error and returns the error for the caller, which only has a reference to the log.
func (c core) Failed(method string, err error) error {
	return c.internalError("a call failed", "method", method, "error", err)
}

// Describe returns the server's description, and begins to start the server. It does not block.
// While the server is starting, it declares all kinds of entries, since any may still appear. The
// error says that the start has failed.
func (c core) Describe() (*era.Description, error) {
	started, err := c.life.started()
	if err != nil {
		return nil, err
	}
	catalog, state := c.Catalog(), 0
	if started {
		state = 1
	}
	if d := catalog.described[state].Load(); d != nil {
		return d, nil
	}
	hint := c.options.CacheHint
	for kind := mcp.KindTool; kind < kindCount; kind++ {
		if catalog.hasHidden(kind) {
			hint.Scope = mcp.CachePrivate
		}
	}
	catalog.described[state].CompareAndSwap(nil, &era.Description{
		Info: c.info, Capabilities: c.capabilities(catalog, !started || catalog.partial),
		Instructions: c.options.Instructions, CacheHint: hint, LogLevel: c.options.LogLevel,
	})
	return catalog.described[state].Load(), nil
}

// Watch calls notify for changes that match the filter until stop is called. agreed is the accepted
// part of the filter: resources that do not exist, or that the caller may not see, are left out.
// call is the subscribe request. An error of a guard rejects it.
func (c core) Watch(ctx context.Context, call *mcp.Call, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (agreed mcp.SubscriptionFilter, stop func(), err error) {
	to := &subscription{filter: filter, notify: notify}
	for _, f := range c.features {
		if f.watch == nil {
			continue
		}
		if err := f.watch(c.Server, ctx, call, to); err != nil {
			to.stop()
			return filter, nil, err
		}
	}
	c.watchReplicas(ctx)
	stop = c.changes.watch(call.Caller.Principal, to.filter, notify)
	if len(to.stops) == 0 { // a session that watches only lists does not keep the subscription in memory
		return to.filter, stop, nil
	}
	to.stops = append(to.stops, stop)
	return to.filter, to.stop, nil
}

// A subscription is what a subscribe request asks for.
type subscription struct {
	filter mcp.SubscriptionFilter // without what was not accepted
	notify func(mcp.Change)
	stops  []func() // each ends the watch of something in the filter
}

func (s *subscription) stop() {
	for _, stop := range s.stops {
		stop()
	}
}
