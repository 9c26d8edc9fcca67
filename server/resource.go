package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"

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
	// there is none. Behind guards, what is read is private in any case.
	CacheHint mcp.CacheHint
	// Guards and CallMiddleware surround the function; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, as that of the call's target. It is never sent.
	Metadata map[string]any
}

// AddResource registers a function that reads a resource. The result is what
// Out says: a string is text, []byte is binary, mcp.ResourceContents,
// []mcp.ResourceContents and *mcp.ReadResourceResult are themselves, with the resource's
// URI where they name none, anything else is JSON text. It panics, naming the place, when
// the resource cannot be registered.
func AddResource[Out any](s *Server, resource Resource, fn func(ctx context.Context, r *Request) (Out, error)) {
	s.mustAdd(NewResource(resource, fn))
}

// NewResource checks and compiles a resource for [Server.Replace].
func NewResource[Out any](resource Resource, fn func(ctx context.Context, r *Request) (Out, error)) (*Entry, error) {
	return newResource(resource, reflect.TypeFor[Out](), func(ctx context.Context, r *Request) (any, error) { return fn(ctx, r) })
}

// newResource makes the entry of a resource, typed or annotated.
func newResource(resource Resource, out reflect.Type, run func(ctx context.Context, r *Request) (any, error)) (*Entry, error) {
	if u, err := url.Parse(resource.URI); err != nil || u.Scheme == "" {
		return nil, fmt.Errorf("resource %q: a URI needs a scheme, as in file:///a or app://settings", resource.URI)
	}
	if err := errors.Join(checkAnnotations(resource.Annotations), checkCacheHint(resource.CacheHint), checkContents(out)); err != nil {
		return nil, fmt.Errorf("resource %q: %w", resource.URI, err)
	}
	definition, err := (&mcp.Resource{
		URI: resource.URI, Name: cmp.Or(resource.Name, resource.URI), Title: resource.Title, Description: resource.Description,
		MIMEType: resource.MIMEType, Size: resource.Size, Annotations: resource.Annotations,
		Icons: resource.Icons, Meta: resource.Meta,
	}).MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("resource %q: %w", resource.URI, err)
	}
	e := newEntry(mcp.KindResource, resource.URI, definition, resource.Scopes, resource.Metadata, draft{
		guards: resource.Guards, middleware: resource.CallMiddleware,
		bind: func(s *Server, within mcp.Middleware) mcp.Handler {
			return decoded(s, within, func(*mcp.Call) (struct{}, error) { return struct{}{}, nil }, func(ctx context.Context, r *Request, _ struct{}) (mcp.Result, error) {
				out, err := run(ctx, r)
				if err != nil {
					return nil, err
				}
				return readResult(resource.URI, resource.MIMEType, resource.CacheHint, out)
			})
		},
	})
	return e, e.check()
}

// checkContents refuses types whose values would be taken for data, and are none.
func checkContents(t reflect.Type) error {
	for _, contents := range []reflect.Type{reflect.TypeFor[mcp.ReadResourceResult](), reflect.TypeFor[mcp.TextResourceContents](), reflect.TypeFor[mcp.BlobResourceContents]()} {
		switch t {
		case contents:
			return fmt.Errorf("%v is a result or contents: return a pointer, *%v", t, t)
		case reflect.SliceOf(contents), reflect.SliceOf(reflect.PointerTo(contents)):
			return fmt.Errorf("%v is a list of contents: return []mcp.ResourceContents", t)
		}
	}
	return nil
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

// checkCacheHint refuses what clients would misread.
func checkCacheHint(hint mcp.CacheHint) error {
	if hint.TTLMs < 0 {
		return fmt.Errorf("CacheHint: a time to live is 0 or more milliseconds, not %d", hint.TTLMs)
	}
	switch hint.Scope {
	case "", mcp.CachePrivate, mcp.CachePublic:
		return nil
	}
	return fmt.Errorf("CacheHint: the scope is %q or %q, not %.40q", mcp.CachePrivate, mcp.CachePublic, hint.Scope)
}

// readResult makes the result of a read of what a function returned.
func readResult(uri, mimeType string, hint mcp.CacheHint, out any) (mcp.Result, error) {
	contents := func(c ...mcp.ResourceContents) (mcp.Result, error) {
		return &mcp.ReadResourceResult{Contents: withURI(c, uri), CacheHint: hint}, nil
	}
	switch out := out.(type) {
	case string:
		return contents(&mcp.TextResourceContents{URI: uri, MIMEType: mimeType, Text: out})
	case []byte:
		return contents(&mcp.BlobResourceContents{URI: uri, MIMEType: cmp.Or(mimeType, "application/octet-stream"), Blob: out})
	case mcp.ResourceContents:
		return contents(out)
	case []mcp.ResourceContents:
		return contents(out...)
	case *mcp.ReadResourceResult:
		if out == nil {
			return nil, errNoResult
		}
		result := *out // the function may return it again
		result.Contents = withURI(result.Contents, uri)
		result.TTLMs = max(0, cmp.Or(result.TTLMs, hint.TTLMs))
		result.Scope = cmp.Or(result.Scope, hint.Scope)
		return &result, nil
	}
	text, err := encode(out)
	if err != nil {
		return nil, fmt.Errorf("encoding what was read: %w", err)
	}
	return contents(&mcp.TextResourceContents{URI: uri, MIMEType: cmp.Or(mimeType, "application/json"), Text: string(text)})
}

// withURI returns contents with the URI where they have none. The contents themselves are
// the function's, and stay as they are.
func withURI(contents []mcp.ResourceContents, uri string) []mcp.ResourceContents {
	var copied bool
	for i, c := range contents {
		var with mcp.ResourceContents
		switch c := c.(type) {
		case *mcp.TextResourceContents:
			if c != nil && c.URI == "" {
				text := *c
				text.URI = uri
				with = &text
			}
		case *mcp.BlobResourceContents:
			if c != nil && c.URI == "" {
				blob := *c
				blob.URI = uri
				with = &blob
			}
		}
		if with == nil {
			continue
		}
		if !copied {
			contents, copied = slices.Clone(contents), true
		}
		contents[i] = with
	}
	return contents
}
