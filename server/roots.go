package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
)

// A RootsClient is a client with roots that has opened a session of the legacy era. Clients of the modern era have no sessions.
type RootsClient struct {
	Caller *mcp.Caller
	// ListRoots asks the client for its roots, outside of a call.
	ListRoots func(ctx context.Context) ([]mcp.Root, error)
}

// rootsClients are the connected clients of a server that have roots, and those of the servers that it is mounted on. Their
// methods may be called concurrently.
type rootsClients struct {
	mu        sync.Mutex
	connected map[*RootsClient]bool
	outer     map[*context.Context]bool // of Provider.Run in the servers that this one is mounted on
}

// mount adds the clients of an outer server. ctx is the context of Provider.Run there.
func (c *rootsClients) mount(ctx context.Context) (unmount func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outer == nil {
		c.outer = make(map[*context.Context]bool)
	}
	c.outer[&ctx] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.outer, &ctx)
	}
}

func (c *rootsClients) connect(client RootsClient) (disconnect func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connected == nil {
		c.connected = make(map[*RootsClient]bool)
	}
	c.connected[&client] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.connected, &client)
	}
}

type rootsClientsKey struct{}

// context returns the context of [Provider].Run, from which [RootsClients] gets the clients.
func (c *rootsClients) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, rootsClientsKey{}, c.all)
}

// all returns each client once, also if a server is mounted several times on its way.
func (c *rootsClients) all() []RootsClient {
	var all []RootsClient
	c.mu.Lock()
	for client := range c.connected {
		all = append(all, *client)
	}
	outer := slices.Collect(maps.Keys(c.outer))
	c.mu.Unlock()
	for _, ctx := range outer {
		for _, client := range RootsClients(*ctx) {
			if !slices.ContainsFunc(all, func(known RootsClient) bool { return known.Caller == client.Caller }) {
				all = append(all, client)
			}
		}
	}
	return all
}

// RootsClients returns the clients with roots that are connected now to the server that runs a provider, in any order. ctx is the
// context of [Provider].Run, or one made from it. A provider that asks for roots outside of a call, as a proxy does, uses it to
// find out whether there is only one client.
func RootsClients(ctx context.Context) []RootsClient {
	if all, ok := ctx.Value(rootsClientsKey{}).(func() []RootsClient); ok {
		return all()
	}
	return nil
}

// RootsChanged passes a change of a client's roots to the providers. A provider that panics is logged.
func (c core) RootsChanged(ctx context.Context, caller *mcp.Caller) {
	changed := c.Catalog().rootsChanged
	if changed == nil {
		return
	}
	if err := changed(ctx, caller); err != nil {
		c.options.Logger.Error("a change of a client's roots was not passed on", "error", err)
	}
}

// A rootsChange calls CatalogOptions.RootsChanged of a provider, or of several. A panic is an error.
type rootsChange func(ctx context.Context, caller *mcp.Caller) error

func newRootsChange(changed func(context.Context, *mcp.Caller)) rootsChange {
	if changed == nil {
		return nil
	}
	return func(ctx context.Context, caller *mcp.Caller) error {
		return callRecovered(func() error {
			changed(ctx, caller)
			return nil
		})
	}
}

// mergeRootsChanged sets a function that calls the functions of the parts concurrently, since each may wait
// for another server.
func (c *Catalog) mergeRootsChanged() {
	var each []rootsChange
	for _, p := range c.parts {
		if p.Catalog.rootsChanged != nil {
			each = append(each, p.Catalog.rootsChanged)
		}
	}
	switch len(each) {
	case 0:
		c.rootsChanged = nil
	case 1:
		c.rootsChanged = each[0]
	default:
		c.rootsChanged = func(ctx context.Context, caller *mcp.Caller) error {
			errs := make([]error, len(each))
			var calls sync.WaitGroup
			for i, changed := range each {
				calls.Go(func() { errs[i] = changed(ctx, caller) })
			}
			calls.Wait()
			return errors.Join(errs...)
		}
	}
}
