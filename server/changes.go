package server

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// changes notifies subscribers of changes.
type changes struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
}

type watcher struct {
	principal string
	filter    mcp.SubscriptionFilter
	all       bool // whatever the filter says, for anybody
	notify    func(mcp.Change)
}

// watch calls notify, which must not block, for each change that matches and is for the
// principal, or for everybody.
func (c *changes) watch(principal string, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (stop func()) {
	return c.add(&watcher{principal: principal, filter: filter, notify: notify})
}

// watchAll is watch for every change.
func (c *changes) watchAll(notify func(mcp.Change)) (stop func()) {
	return c.add(&watcher{all: true, notify: notify})
}

func (c *changes) add(w *watcher) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers = make(map[*watcher]struct{})
	}
	c.watchers[w] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
	}
}

// notify calls the watchers of a change. None of them blocks.
func (c *changes) notify(change mcp.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		switch {
		case w.all:
			w.notify(change)
		case w.wants(change):
			w.notify(mcp.Change{Kind: change.Kind, URI: change.URI}) // the principal makes no difference to the watcher
		}
	}
}

func (w *watcher) wants(change mcp.Change) bool {
	if change.For != "" && change.For != w.principal {
		return false
	}
	switch {
	case change.URI != "":
		return slices.Contains(w.filter.ResourceSubscriptions, change.URI)
	case change.Kind == mcp.KindTool:
		return w.filter.ToolsListChanged
	case change.Kind == mcp.KindPrompt:
		return w.filter.PromptsListChanged
	default:
		return w.filter.ResourcesListChanged
	}
}

// Watch reports changes that match the filter to notify, until stop is called. It returns
// the part of the filter that it has agreed to: resources that do not exist, or must seem
// so, are left out. call is the request to subscribe; an error of a guard refuses it.
func (c core) Watch(ctx context.Context, call *mcp.Call, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (agreed mcp.SubscriptionFilter, stop func(), err error) {
	agreed = filter
	agreed.ResourceSubscriptions = nil
	var stops []func()
	stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	if len(filter.ResourceSubscriptions) > 0 {
		if err := c.ready(ctx); err != nil {
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
	stops = append(stops, c.changes.watch(call.Caller.Principal, agreed, notify))
	return agreed, stop, nil
}

// subscribe begins to have changes of one resource reported.
func (s *Server) subscribe(ctx context.Context, call *mcp.Call, uri string) (stop func(), err error) {
	entry := s.Catalog().Lookup(mcp.KindResource, uri)
	if entry == nil {
		if entry, err = s.resolveLater(ctx, mcp.KindResource, uri); err != nil {
			return nil, s.notSubscribed(ctx, call, err)
		}
	}
	if entry == nil {
		return nil, mcp.ResourceNotFound(uri)
	}
	one := *call
	one.Resolve(&entry.Target, uri, s.recheckIn)
	if entry.Subscribe == nil {
		return func() {}, nil
	}
	err = safely(func() (err error) {
		stop, err = entry.Subscribe(ctx, &one)
		return err
	})
	if err != nil {
		return nil, s.notSubscribed(ctx, &one, err)
	}
	return stop, nil
}

// notSubscribed is the error that the caller gets. Nobody can be asked here.
func (s *Server) notSubscribed(ctx context.Context, call *mcp.Call, err error) error {
	if _, asks := mcp.AsInputRequired(err); asks {
		err = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "a subscription cannot ask its caller"}
	}
	if _, err = s.conclude(ctx, call, err); err == nil {
		return errors.New("the resource cannot be subscribed to")
	}
	return err
}
