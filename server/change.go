package server

import (
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
)

// changes delivers changes to watchers.
type changes struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	byURI    map[string]map[*watcher]struct{} // of resources; "" has those of every change
}

type watcher struct {
	principal string
	filter    mcp.SubscriptionFilter
	all       bool // every change, whatever the filter and the principal
	notify    func(mcp.Change)
}

// watch calls notify for each change that matches the filter, and that is for this principal or for
// everyone. notify must not block.
func (c *changes) watch(principal string, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (stop func()) {
	return c.add(&watcher{principal: principal, filter: filter, notify: notify})
}

// watchAll calls notify for every change. notify must not block.
func (c *changes) watchAll(notify func(mcp.Change)) (stop func()) {
	return c.add(&watcher{all: true, notify: notify})
}

func (c *changes) add(w *watcher) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers, c.byURI = make(map[*watcher]struct{}), make(map[string]map[*watcher]struct{})
	}
	c.watchers[w] = struct{}{}
	for _, uri := range w.uris() {
		if c.byURI[uri] == nil {
			c.byURI[uri] = make(map[*watcher]struct{})
		}
		c.byURI[uri][w] = struct{}{}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
		for _, uri := range w.uris() {
			if delete(c.byURI[uri], w); len(c.byURI[uri]) == 0 {
				delete(c.byURI, uri)
			}
		}
	}
}

// uris returns the keys of the watcher in byURI.
func (w *watcher) uris() []string {
	if w.all {
		return []string{""}
	}
	return w.filter.ResourceSubscriptions
}

// notify calls the watchers of a change.
func (c *changes) notify(change mcp.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if change.URI == "" {
		notifyAll(c.watchers, change)
		return
	}
	notifyAll(c.byURI[""], change)
	notifyAll(c.byURI[change.URI], change)
}

// notifyAll calls those watchers that match the change.
func notifyAll(watchers map[*watcher]struct{}, change mcp.Change) {
	for w := range watchers {
		switch {
		case w.all:
			w.notify(change)
		case w.matches(change):
			w.notify(mcp.Change{Kind: change.Kind, URI: change.URI})
		}
	}
}

// notifyMissed calls the watchers of everything, since changes may have been missed.
func (c *changes) notifyMissed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		for kind := mcp.KindTool; kind < kindCount; kind++ {
			if change := listChange(kind); change.Kind == kind && (w.all || w.matches(change)) {
				w.notify(change)
			}
		}
		for _, uri := range w.filter.ResourceSubscriptions {
			w.notify(mcp.Change{Kind: mcp.KindResource, URI: uri})
		}
	}
}

func (w *watcher) matches(change mcp.Change) bool {
	if change.For != "" && change.For != w.principal {
		return false
	}
	switch {
	case change.URI != "":
		return true // it was found by the URI
	case change.Kind < kindCount && kinds[change.Kind].changed != nil:
		return kinds[change.Kind].changed(&w.filter)
	}
	return w.filter.ResourcesListChanged
}

// listChange returns the change of the list of a kind.
func listChange(kind mcp.Kind) mcp.Change {
	if kinds[kind].changed == nil {
		kind = mcp.KindResource
	}
	return mcp.Change{Kind: kind}
}
