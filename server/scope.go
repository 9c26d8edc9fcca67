package server

import (
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
)

// Scopes are those that a call needs: what is called declares them, as
// [MetadataScopes], and so does what it is mounted from, as a [Scoper]. The name is that
// of the tool or prompt, the URI of the resource; a completion needs the scopes of what it
// completes as well. Other methods need none, and neither does what does not exist, but
// for those of [Options].Around. Metadata of that name that is no []string is a scope "",
// which nobody has.
//
// The server itself does not look at scopes: whoever authenticates its callers does,
// such as oauth.Protect with this method as its CallScopes.
func (s *Server) Scopes(method, name string) []string {
	var all []string
	for _, key := range called(method, name) {
		all = addScopes(all, s.provider.scopes(method, key))
	}
	return all
}

// called is what a call can be for.
func called(method, name string) []entryKey {
	switch method {
	case mcp.MethodToolsCall:
		return []entryKey{{toolKind, name}}
	case mcp.MethodPromptsGet:
		return []entryKey{{promptKind, name}}
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		return []entryKey{{resourceKind, name}}
	case mcp.MethodComplete:
		return []entryKey{{promptKind, name}, {templateKind, name}}
	}
	return nil
}

// scopes are those of what a call is for, which the part says that offers it, and of what
// stands around this server.
func (c *composite) scopes(method string, key entryKey) []string {
	of := c.offering(key)
	if of == nil || of.mount == nil {
		return c.own.scopes(method, key)
	}
	all := addScopes(nil, scopesOf(c.own.around.Metadata))
	if scoper, ok := of.mount.provider.(Scoper); ok {
		inside, _ := of.mount.inside(key)
		all = addScopes(all, scoper.Scopes(method, inside.name))
	}
	return all
}

// offering is who has what a call is for, nil if nobody or if there is nobody else.
func (c *composite) offering(key entryKey) *owner {
	switch {
	case len(c.mounted()) == 0:
		return nil
	case key.kind == resourceKind:
		return c.now().resource(key.name)
	}
	return c.now().owners[key]
}

// scopes are those of an entry, and of its completions if the call is for one.
func (r *registry) scopes(method string, key entryKey) []string {
	now := r.snapshot()
	keys := []entryKey{now.readable(key)}
	if method == mcp.MethodComplete {
		keys = append(keys, now.completions(key)...)
	}
	var all []string
	for _, key := range keys {
		metadata := r.around.Metadata
		if entry := now.entries[key]; entry != nil {
			metadata = entry.metadata()
		}
		all = addScopes(all, scopesOf(metadata))
	}
	return all
}

// readable is the template that a resource is made by which is not there itself.
func (s *snapshot) readable(key entryKey) entryKey {
	if key.kind != resourceKind || s.entries[key] != nil {
		return key
	}
	for _, template := range s.templates {
		if _, ok := template.match(key.name); ok {
			return template.of
		}
	}
	return key
}

// completions are those of a prompt or template.
func (s *snapshot) completions(about entryKey) []entryKey {
	var keys []entryKey
	for key := range s.entries {
		if key.kind == completionKind && key.about() == about {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b entryKey) int { return strings.Compare(a.name, b.name) })
	return keys
}

// scopesOf are the scopes that metadata declares.
func scopesOf(metadata map[string]any) []string {
	switch scopes := metadata[MetadataScopes].(type) {
	case nil:
		return nil
	case []string:
		return scopes
	}
	return []string{""}
}

// addScopes adds scopes to others that are the caller's own.
func addScopes(all, more []string) []string {
	for _, scope := range more {
		if !slices.Contains(all, scope) {
			all = append(all, scope)
		}
	}
	return all
}
