package oauth

import (
	"slices"
	"strings"
)

// offlineAccess is the scope that asks for a refresh token. OpenID Connect Core, section
// 11.
const offlineAccess = "offline_access"

// wanted are the scopes to ask for: those that are demanded, else all that the resource
// has; and those that were asked for before, so that nothing is lost.
func (c *Client) wanted(d demand, resource *resourceMetadata, as *serverMetadata, old *login) []string {
	scopes := d.scopes()
	if len(scopes) == 0 {
		scopes = resource.scopes
	}
	scopes = append(slices.Clone(scopes), c.options.Scopes...)
	if old != nil {
		scopes = append(scopes, old.asked...)
	}
	_, person := c.options.Flow.(*CodeFlow)
	if person && !c.options.NoRefresh && len(scopes) > 0 && slices.Contains(as.scopes, offlineAccess) {
		scopes = append(scopes, offlineAccess)
	}
	return uniqueScopes(scopes)
}

// uniqueScopes are scopes in the order in which they come first, no more than may be.
func uniqueScopes(scopes []string) []string {
	var all []string
	size := 0
	for _, scope := range scopes {
		if slices.Contains(all, scope) || !isScope(scope) {
			continue
		}
		if size += len(scope) + 1; size > maxScope || len(all) == maxScopes {
			break
		}
		all = append(all, scope)
	}
	return all
}

// splitScope reads a scope parameter.
func splitScope(text string) []string {
	return uniqueScopes(strings.Fields(text[:min(len(text), maxScope)]))
}

// contains tells whether all of some scopes are among others.
func contains(all, some []string) bool {
	for _, scope := range some {
		if !slices.Contains(all, scope) {
			return false
		}
	}
	return true
}

// isScope tells what can be a scope. RFC 6749, section 3.3.
func isScope(text string) bool {
	return isHeaderText(text) && !strings.ContainsAny(text, `"\`)
}
