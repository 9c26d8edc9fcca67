package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Resource describes a resource at registration.
type Resource struct {
	// URI names the resource; it is absolute.
	URI string
	// Name is for programs, Title for people; Name defaults to the URI.
	Name        string
	Title       string
	Description string
	// MIMEType is the content's, if known. It is the default of what the
	// function gives.
	MIMEType string
	// Size is the content's length in bytes before encoding, nil when unknown.
	Size        *int64
	Annotations *mcp.Annotations
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// CacheHint says how long clients may keep what is read (2026-07-28). By default
	// not at all. What an *mcp.ReadResourceResult says of itself wins; a negative TTLMs
	// there is none. Where guards stand, what is read is private in any case.
	CacheHint mcp.CacheHint
	// Around stands around the function.
	Around Around
}

// AddResource registers a function that reads a resource. The result is what
// Out says: a string is text, []byte is binary, mcp.ResourceContents,
// []mcp.ResourceContents and *mcp.ReadResourceResult are themselves, anything else
// is JSON text. It panics, naming the place, when the resource cannot be
// registered.
func AddResource[Out any](s *Server, resource Resource, fn func(ctx context.Context, r *Request) (Out, error)) {
	s.mustAdd(NewResource(resource, fn))
}

// NewResource checks and compiles a resource for [Server.Replace].
func NewResource[Out any](resource Resource, fn func(ctx context.Context, r *Request) (Out, error)) (Entry, error) {
	read := func(ctx context.Context, r *Request, _ struct{}) (mcp.Result, error) {
		out, err := fn(ctx, r)
		if err != nil {
			return nil, err
		}
		return readResult(resource.URI, resource.MIMEType, resource.CacheHint, out)
	}
	return newResourceEntry(resource, func(ctx context.Context, r *Request) (mcp.Result, error) {
		return inner(ctx, r, struct{}{}, read)
	})
}

func newResourceEntry(resource Resource, run func(ctx context.Context, r *Request) (mcp.Result, error)) (Entry, error) {
	if u, err := url.Parse(resource.URI); err != nil || u.Scheme == "" {
		return nil, fmt.Errorf("resource %q: a URI needs a scheme, as in file:///a or app://settings", resource.URI)
	}
	if err := errors.Join(checkAnnotations(resource.Annotations), checkCacheHint(resource.CacheHint)); err != nil {
		return nil, fmt.Errorf("resource %q: %w", resource.URI, err)
	}
	if resource.Name == "" {
		resource.Name = resource.URI
	}
	encoded, err := (&mcp.Resource{
		URI: resource.URI, Name: resource.Name, Title: resource.Title, Description: resource.Description,
		MIMEType: resource.MIMEType, Size: resource.Size, Annotations: resource.Annotations,
		Icons: resource.Icons, Meta: resource.Meta,
	}).AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("resource %q: %w", resource.URI, err)
	}
	return &answering{attended{of: entryKey{resourceKind, resource.URI}, around: resource.Around}, encoded, run}, nil
}

// checkAnnotations refuses what clients would misread.
func checkAnnotations(a *mcp.Annotations) error {
	if a == nil {
		return nil
	}
	if p := a.Priority; p != nil && !(0 <= *p && *p <= 1) {
		return fmt.Errorf("Annotations: a priority is from 0 to 1, not %v", *p)
	}
	for _, role := range a.Audience {
		if role != mcp.RoleUser && role != mcp.RoleAssistant {
			return fmt.Errorf("Annotations: an audience consists of %q and %q, not of %.40q", mcp.RoleUser, mcp.RoleAssistant, role)
		}
	}
	return nil
}

// readResult is what a function read, as a result.
func readResult(uri, mimeType string, hint mcp.CacheHint, out any) (mcp.Result, error) {
	contents := func(c ...mcp.ResourceContents) (mcp.Result, error) {
		return &mcp.ReadResourceResult{Contents: c, CacheHint: hint}, nil
	}
	switch out := out.(type) {
	case string:
		return contents(&mcp.TextResourceContents{URI: uri, MIMEType: mimeType, Text: out})
	case []byte:
		if mimeType == "" {
			mimeType = "application/octet-stream"
		}
		return contents(&mcp.BlobResourceContents{URI: uri, MIMEType: mimeType, Blob: out})
	case mcp.ResourceContents:
		return contents(out)
	case []mcp.ResourceContents:
		return contents(out...)
	case *mcp.ReadResourceResult:
		if out == nil {
			return nil, errNoResult
		}
		return hinted(out, hint), nil
	}
	text, err := encode(out)
	if err != nil {
		return nil, fmt.Errorf("encoding what was read: %w", err)
	}
	if mimeType == "" {
		mimeType = "application/json"
	}
	return contents(&mcp.TextResourceContents{URI: uri, MIMEType: mimeType, Text: string(text)})
}

// read answers resources/read: the resource with that URI, else the first
// template that matches it.
func (r *registry) read(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	uri, err := stringMember(call, "uri")
	if err != nil {
		return nil, err
	}
	now := r.snapshot()
	if entry := now.entries[entryKey{resourceKind, uri}]; entry != nil {
		return entry.call(ctx, r.server, call)
	}
	for _, template := range now.templates {
		if values, ok := template.match(uri); ok {
			return template.read(ctx, r.server, call, uri, values)
		}
	}
	return nil, mcp.ResourceNotFound(uri)
}
