package server

import (
	"context"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
)

// RootsChanged passes a change of a client's roots to the providers. A provider that panics is logged.
func (c core) RootsChanged(ctx context.Context, caller *mcp.Caller) {
	changed := c.Catalog().rootsChanged
	if changed == nil {
		return
	}
	err := callRecovered(func() error {
		changed(ctx, caller)
		return nil
	})
	if err != nil {
		c.options.Logger.Error("a change of a client's roots was not passed on", "error", err)
	}
}

// mergeRootsChanged sets a function that calls those of the parts concurrently, since each may wait
// for another server.
func (c *Catalog) mergeRootsChanged() {
	var each []func(context.Context, *mcp.Caller)
	for _, p := range c.parts {
		if p.Catalog.rootsChanged != nil {
			each = append(each, p.Catalog.rootsChanged)
		}
	}
	if len(each) <= 1 {
		c.rootsChanged = append(each, nil)[0]
		return
	}
	c.rootsChanged = func(ctx context.Context, caller *mcp.Caller) {
		var calls sync.WaitGroup
		for _, changed := range each {
			calls.Go(func() { changed(ctx, caller) })
		}
		calls.Wait()
	}
}
