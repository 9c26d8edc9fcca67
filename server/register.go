package server

import (
	"fmt"
	"runtime"

	"github.com/dovetail-go/dovetail/mcp"
)

// Replace registers entries, in place of those with the same kind and name if
// there are any: all of them, or none and an error. Clients are told once for
// each kind of list that changed.
func (s *Server) Replace(entries ...Entry) error {
	if err := s.registry.put(entries, true); err != nil {
		return err
	}
	s.tellListsChanged(entries)
	return nil
}

// RemoveTools takes tools out; names that are not registered are ignored.
func (s *Server) RemoveTools(names ...string) { s.remove(toolKind, names) }

// RemovePrompts takes prompts out; names that are not registered are ignored.
func (s *Server) RemovePrompts(names ...string) { s.remove(promptKind, names) }

// RemoveResources takes resources out; URIs that are not registered are ignored.
func (s *Server) RemoveResources(uris ...string) { s.remove(resourceKind, uris) }

// RemoveTemplates takes resource templates out; templates that are not
// registered are ignored.
func (s *Server) RemoveTemplates(templates ...string) { s.remove(templateKind, templates) }

// ResourceUpdated tells the clients that subscribed to a resource that it is
// another now.
func (s *Server) ResourceUpdated(uri string) { s.ResourceUpdatedFor("", uri) }

// ResourceUpdatedFor is ResourceUpdated for a resource that is another for one
// principal only (see [mcp.Caller]): nobody else is told. Callers that are not
// authenticated have no principal of their own: for "" all subscribers are told.
func (s *Server) ResourceUpdatedFor(principal, uri string) {
	s.changes.tell(mcp.Change{Kind: mcp.KindResource, URI: uri, For: principal})
}

func (s *Server) remove(kind kind, names []string) {
	if s.registry.remove(kind, names) {
		s.changes.tell(mcp.Change{Kind: kind.change()})
	}
}

func (s *Server) tellListsChanged(entries []Entry) {
	told := make(map[mcp.Kind]bool)
	for _, e := range entries {
		change := e.key().kind.change()
		if change == 0 || told[change] {
			continue
		}
		told[change] = true
		s.changes.tell(mcp.Change{Kind: change})
	}
}

// change is what clients are told when a list of this kind changes, 0 if they
// are not.
func (k kind) change() mcp.Kind {
	switch k {
	case toolKind:
		return mcp.KindTool
	case promptKind:
		return mcp.KindPrompt
	case resourceKind, templateKind:
		return mcp.KindResource
	}
	return 0
}

// mustAdd registers one new entry for start-up code. It panics, naming the place
// of the caller's caller, when the entry cannot be made or is there already.
func (s *Server) mustAdd(entry Entry, err error) {
	if err == nil {
		err = s.registry.put([]Entry{entry}, false)
	}
	if err != nil {
		_, file, line, _ := runtime.Caller(2)
		panic(fmt.Sprintf("%s:%d: %v", file, line, err))
	}
	s.tellListsChanged([]Entry{entry})
}
