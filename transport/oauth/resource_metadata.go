package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/webclient"
)

// resourceMetadata is what a protected resource says of itself. RFC 9728, section 2.
type resourceMetadata struct {
	resource    string
	issuers     []string // at least one
	scopes      []string
	boundTokens bool // tokens must be bound to a key
	legacy      bool // there is no such document: the server is its own authorization server, as in MCP 2025-03-26
}

const resourceDocument = "oauth-protected-resource"

// discover finds out what a server demands: where its challenge says so, else at the two
// places where the document of a resource can lie.
func (c *Client) discover(ctx context.Context, server *url.URL, challenged string) (*resourceMetadata, error) {
	if challenged != "" {
		d, err := fetchDocument(ctx, c.http, challenged, false)
		if err != nil {
			return nil, err
		}
		return parseResource(d, server)
	}
	root := &url.URL{Scheme: server.Scheme, Host: server.Host}
	places := []string{wellKnown(server, resourceDocument), wellKnown(root, resourceDocument)}
	if places[0] == places[1] {
		places = places[1:]
	}
	for _, place := range places {
		d, err := fetchDocument(ctx, c.http, place, true)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return parseResource(d, server)
	}
	return &resourceMetadata{resource: canonical(server), issuers: []string{root.String()}, legacy: true}, nil
}

// parseResource reads a document, which must be about the server.
func parseResource(d *document, server *url.URL) (*resourceMetadata, error) {
	r := &resourceMetadata{}
	d.get("resource", &r.resource)
	d.get("authorization_servers", &r.issuers)
	d.get("scopes_supported", &r.scopes)
	d.get("dpop_bound_access_tokens_required", &r.boundTokens)
	switch {
	case d.err != nil:
		return nil, d.err
	case !covers(r.resource, server):
		return nil, d.wrong(fmt.Sprintf("expected the resource %s or one that it lies in, got %s", quote(canonical(server)), quote(r.resource)))
	case len(r.issuers) == 0 || len(r.issuers) > maxIssuers:
		return nil, d.wrong(fmt.Sprintf("expected 1 to %d authorization servers, got %d", maxIssuers, len(r.issuers)))
	}
	r.scopes = uniqueScopes(r.scopes)
	return r, nil
}

// covers tells whether a resource is a server, or what the server is a part of.
func covers(resource string, server *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" || u.User != nil || strings.Contains(resource, "#") || !webclient.SameOrigin(u, server) {
		return false
	}
	if u.RawQuery != "" && u.RawQuery != server.RawQuery {
		return false
	}
	whole, part := strings.TrimSuffix(u.EscapedPath(), "/"), server.EscapedPath()
	rest, ok := strings.CutPrefix(part, whole)
	return ok && (rest == "" || rest[0] == '/')
}

// canonical is how a server is named as a resource. RFC 8707, section 2.
func canonical(server *url.URL) string {
	u := plain(server)
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.Path == "/" {
		u.Path = ""
	}
	return u.String()
}
