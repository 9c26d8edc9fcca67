package server

import (
	"context"
	"errors"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
)

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
