package server

import (
	"context"
	"errors"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/quota"
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
	if err != nil && call.Method() == mcp.MethodToolsCall {
		if refusal, ok := errors.AsType[mcp.ToolRefusal](err); ok {
			if said := refusal.ToolResult(); said != nil {
				return said, nil
			}
		}
	}
	return result, err
}

// SessionOpened calls Options.OnSession.
func (c core) SessionOpened(ctx context.Context, caller *mcp.Caller) (ended func(reason error)) {
	if c.options.OnSession == nil {
		return nil
	}
	return c.options.OnSession(ctx, caller)
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
