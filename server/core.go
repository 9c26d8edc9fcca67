package server

import (
	"context"
	"errors"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// core implements [era.Core].
type core struct{ *Server }

// A toolRefusal is the error of a guard that callers of a tool get as a result.
type toolRefusal interface {
	error
	ToolResult() *mcp.CallToolResult // nil: a protocol error
}

// Serve answers a call over the protocol. Unlike [Server.Serve], it returns refusals of guards as tool
// results where the guard wants that.
func (c core) Serve(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	result, err := c.Server.Serve(ctx, call)
	if err != nil && call.Method() == mcp.MethodToolsCall {
		if refusal, ok := errors.AsType[toolRefusal](err); ok {
			if said := refusal.ToolResult(); said != nil {
				return said, nil
			}
		}
	}
	return result, err
}

// SessionOpened calls Options.OnSession.
func (c core) SessionOpened(caller *mcp.Caller) (ended func(reason error)) {
	if c.options.OnSession == nil {
		return nil
	}
	return c.options.OnSession(caller)
}

// Failed logs an error and returns the error for the caller, which only has a reference to the log.
func (c core) Failed(method string, err error) error {
	return c.internalError("a call failed", "method", method, "error", err)
}

// Describe returns the server's description, and begins to start the server. It does not block.
// While the server is starting, it declares all kinds of entries, since any may still appear. The
// error is that of a failed start.
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
	if catalog.hasHidden() {
		hint.Scope = mcp.CachePrivate
	}
	catalog.described[state].CompareAndSwap(nil, &era.Description{
		Info: c.info, Capabilities: c.capabilities(catalog, !started || catalog.partial),
		Instructions: c.options.Instructions, CacheHint: hint,
	})
	return catalog.described[state].Load(), nil
}

// Watch calls notify for changes that match the filter until stop is called. agreed is the accepted
// part of the filter: resources that do not exist, or that the caller may not see, are left out.
// call is the subscribe request. An error of a guard rejects it.
func (c core) Watch(ctx context.Context, call *mcp.Call, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (agreed mcp.SubscriptionFilter, stop func(), err error) {
	agreed = filter
	agreed.ResourceSubscriptions = nil
	var stops []func()
	stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	var watching func()
	if agreed.TaskIDs, watching, err = c.watchTasks(ctx, call.Caller, filter.TaskIDs, notify); err != nil {
		return agreed, nil, c.taskError(ctx, call, err)
	}
	stops = append(stops, watching)
	if len(filter.ResourceSubscriptions) > 0 {
		if err := c.ready(ctx); err != nil {
			stop()
			return agreed, nil, err
		}
	}
	for _, uri := range filter.ResourceSubscriptions {
		ended, err := c.subscribe(ctx, call, uri)
		if mcp.IsResourceNotFound(err) {
			continue
		}
		if err != nil {
			stop()
			return agreed, nil, err
		}
		agreed.ResourceSubscriptions = append(agreed.ResourceSubscriptions, uri)
		stops = append(stops, ended)
	}
	c.watchReplicas(ctx)
	stops = append(stops, c.changes.watch(call.Caller.Principal, agreed, notify))
	return agreed, stop, nil
}

// subscribe starts to report changes of one resource.
func (s *Server) subscribe(ctx context.Context, call *mcp.Call, uri string) (stop func(), err error) {
	entry := s.Catalog().Lookup(mcp.KindResource, uri)
	if entry == nil {
		if entry, err = s.resolveUnlisted(ctx, mcp.KindResource, uri); err != nil {
			return nil, s.notSubscribed(ctx, call, err)
		}
	}
	if entry == nil {
		return nil, mcp.ResourceNotFound(uri)
	}
	one := *call
	one.Resolve(&entry.Target, uri, s.recheckFunc)
	if entry.Subscribe == nil {
		return func() {}, nil
	}
	err = callRecovered(func() (err error) {
		stop, err = entry.Subscribe(ctx, &one)
		return err
	})
	if err != nil {
		return nil, s.notSubscribed(ctx, &one, err)
	}
	return stop, nil
}

// notSubscribed returns the error for the caller. A subscription cannot ask questions.
func (s *Server) notSubscribed(ctx context.Context, call *mcp.Call, err error) error {
	if _, asks := mcp.AsInputRequired(err); asks {
		err = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "a subscription cannot ask its caller"}
	}
	if _, err = s.convertError(ctx, call, err); err == nil {
		return errors.New("the resource cannot be subscribed to")
	}
	return err
}
