package server

import (
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
)

// Scopes are those that a call needs: what is called declares them, as
// [MetadataScopes]. The name is that of the tool or prompt, the URI of the resource; a
// completion needs the scopes of what it completes as well. Other methods need none,
// and neither does what does not exist. Metadata of that name that is no []string is a
// scope "", which nobody has.
//
// The server itself does not look at scopes: whoever authenticates its callers does,
// such as oauth.Protect with this method as its CallScopes.
func (s *Server) Scopes(method, name string) []string {
	var all []string
	for _, key := range s.provider.called(method, name) {
		for _, scope := range scopesOf(s.provider.metadata(key)) {
			if !slices.Contains(all, scope) {
				all = append(all, scope)
			}
		}
	}
	return all
}

func scopesOf(metadata map[string]any) []string {
	switch scopes := metadata[MetadataScopes].(type) {
	case nil:
		return nil
	case []string:
		return scopes
	}
	return []string{""}
}

// called are the entries that a call is for.
func (c *composite) called(method, name string) []entryKey {
	switch method {
	case mcp.MethodToolsCall:
		return []entryKey{{toolKind, name}}
	case mcp.MethodPromptsGet:
		return []entryKey{{promptKind, name}}
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return []entryKey{c.readable(name)}
	case mcp.MethodComplete:
		return slices.Concat(c.completing(entryKey{promptKind, name}), c.completing(entryKey{templateKind, name}))
	}
	return nil
}

// readable is the resource with a URI, or the template that matches it: that which a
// call for it reaches.
func (c *composite) readable(uri string) entryKey {
	if len(c.mounted()) > 0 {
		if of := c.now().resource(uri); of != nil && of.mount != nil {
			if child := of.mount.child; child != nil {
				return child.provider.readable(uri)
			}
			return of.key
		}
	}
	now := c.own.snapshot()
	if now.entries[entryKey{resourceKind, uri}] == nil {
		for _, template := range now.templates {
			if _, ok := template.match(uri); ok {
				return template.of
			}
		}
	}
	return entryKey{resourceKind, uri}
}

// completing are a prompt or template, and the completions of it.
func (c *composite) completing(about entryKey) []entryKey {
	keys := []entryKey{about}
	for key := range c.own.snapshot().entries {
		if key.kind == completionKind && key.about() == about {
			keys = append(keys, key)
		}
	}
	for _, m := range c.mounted() {
		if inside, ok := m.inside(about); ok && m.child != nil {
			for _, key := range m.child.provider.completing(inside)[1:] {
				keys = append(keys, m.outside(key))
			}
		}
	}
	slices.SortFunc(keys[1:], func(a, b entryKey) int { return strings.Compare(a.name, b.name) })
	return keys
}
