package server

import (
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
)

// A hub tells watchers of changes.
type hub struct {
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
func (h *hub) watch(principal string, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (stop func()) {
	return h.add(&watcher{principal: principal, filter: filter, notify: notify})
}

// watchAll is watch for every change.
func (h *hub) watchAll(notify func(mcp.Change)) (stop func()) {
	return h.add(&watcher{all: true, notify: notify})
}

func (h *hub) add(w *watcher) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers = make(map[*watcher]struct{})
	}
	h.watchers[w] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, w)
	}
}

// tell tells who watches for it. No watcher blocks.
func (h *hub) tell(change mcp.Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		switch {
		case w.all:
			w.notify(change)
		case w.wants(change):
			w.notify(mcp.Change{Kind: change.Kind, URI: change.URI}) // whoever it is for, to the watcher it is the same
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
