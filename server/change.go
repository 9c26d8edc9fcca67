package server

import (
	"sync"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
)

// changes delivers changes to watchers.
type changes struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
	byURI    map[string]map[*watcher]struct{} // of resources, by [uritemplate.Equivalent]; "" has those of every change
}

type watcher struct {
	principal string
	filter    mcp.SubscriptionFilter
	uris      []string // the keys in byURI: the filter's ResourceSubscriptions in the form of [uritemplate.Equivalent]
	all       bool     // every change, whatever the filter and the principal
	notify    func(mcp.Change)
}

// watch calls notify for each change that matches the filter, and that is for this principal or for
// everyone. notify must not block.
func (c *changes) watch(principal string, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (stop func()) {
	uris := make([]string, len(filter.ResourceSubscriptions))
	for i, uri := range filter.ResourceSubscriptions {
		uris[i] = uritemplate.Equivalent(uri)
	}
	return c.add(&watcher{principal: principal, filter: filter, uris: uris, notify: notify})
}

// watchAll calls notify for every change. notify must not block.
func (c *changes) watchAll(notify func(mcp.Change)) (stop func()) {
	return c.add(&watcher{all: true, uris: []string{""}, notify: notify})
}

func (c *changes) add(w *watcher) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers, c.byURI = make(map[*watcher]struct{}), make(map[string]map[*watcher]struct{})
	}
	c.watchers[w] = struct{}{}
	for _, uri := range w.uris {
		if c.byURI[uri] == nil {
			c.byURI[uri] = make(map[*watcher]struct{})
		}
		c.byURI[uri][w] = struct{}{}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
		for _, uri := range w.uris {
			if delete(c.byURI[uri], w); len(c.byURI[uri]) == 0 {
				delete(c.byURI, uri)
			}
		}
	}
}

// notify calls the watchers of a change. A change of a resource may have another spelling of the URI than the
// subscription. The watcher is notified of the URI that it subscribed to.
func (c *changes) notify(change mcp.Change) {
	equivalent := uritemplate.Equivalent(change.URI)
	c.mu.Lock()
	defer c.mu.Unlock()
	if change.URI == "" {
		notifyAll(c.watchers, change, "")
		return
	}
	notifyAll(c.byURI[""], change, "")
	notifyAll(c.byURI[equivalent], change, equivalent)
}

// notifyAll calls those watchers that match the change. equivalent is the canonical spelling of its URI.
func notifyAll(watchers map[*watcher]struct{}, change mcp.Change, equivalent string) {
	for w := range watchers {
		switch {
		case w.all:
			w.notify(change)
		case change.For != "" && change.For != w.principal:
		case change.URI != "":
			for i, uri := range w.uris {
				if uri == equivalent {
					w.notify(mcp.Change{Kind: change.Kind, URI: w.filter.ResourceSubscriptions[i]})
				}
			}
		case w.matches(change.Kind):
			w.notify(mcp.Change{Kind: change.Kind})
		}
	}
}

// notifyMissed calls the watchers of everything, since changes may have been missed.
func (c *changes) notifyMissed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		for kind := mcp.KindTool; kind < kindCount; kind++ {
			if change := listChange(kind); change.Kind == kind && (w.all || w.matches(change.Kind)) {
				w.notify(change)
			}
		}
		for _, uri := range w.filter.ResourceSubscriptions {
			w.notify(mcp.Change{Kind: mcp.KindResource, URI: uri})
		}
	}
}

// matches reports whether the filter has the list of a kind.
func (w *watcher) matches(kind mcp.Kind) bool {
	if kind < kindCount && kinds[kind].changed != nil {
		return kinds[kind].changed(&w.filter)
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
