package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Resource configures a resource.
type Resource struct {
	// URI identifies the resource. It is absolute, or a path such as /reports, which clients that expect
	// a URI of RFC 3986 refuse. A resource with the scheme ui is a view for results of tools (MCP Apps):
	// an HTML document that clients show in a sandbox.
	URI string
	// Name is for programs and defaults to the URI. Title is shown to people.
	Name        string
	Title       string
	Description string
	// MIMEType is the media type of the content. The default of a view is [mcp.MIMETypeApp], which it
	// must have, and the default for a function that returns a string is text/plain, also in lists.
	// Contents that a function returns have their own.
	MIMEType string
	// UI says what a view may use and how clients show it. It is sent in Meta, and with the contents
	// where they have no UI of their own. Default: the view may use nothing outside of its document.
	UI *mcp.ResourceUI
	// Size is the length of the content in bytes before encoding; nil if it is unknown.
	Size        *int64
	Annotations *mcp.Annotations
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// CacheHint says how long, and for whom, clients may cache the content (2026-07-28). By default
	// they may not. A hint in an *mcp.ReadResourceResult takes precedence, where a negative TTLMs
	// means no caching. Content that is read behind guards is always private.
	CacheHint mcp.CacheHint
	// Guards and CallMiddleware apply to calls of the function; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, in [mcp.Target]. It is not sent to clients.
	Metadata map[string]any
}

// AddResource registers a function that reads a resource. Its result depends on Out:
//
//   - string: text
//   - []byte: binary data
//   - mcp.ResourceContents, []mcp.ResourceContents, *mcp.ReadResourceResult: the contents themselves, with the URI of the resource where they have none
//   - any other type: JSON text
//
// The function is called concurrently. AddResource panics, with the file and line of the caller, if
// the resource cannot be registered.
func AddResource[Out any](s *Server, resource Resource, fn func(ctx context.Context, r *Request) (Out, error)) {
	s.mustAdd(NewResource(resource, fn))
}

// NewResource returns the entry of a resource, for [Server.Replace] or [NewCatalog]. The error
// explains why the resource is invalid.
func NewResource[Out any](resource Resource, fn func(ctx context.Context, r *Request) (Out, error)) (*Entry, error) {
	return newResource(&resource, reflect.TypeFor[Out](), func(ctx context.Context, r *Request, _ any) (any, error) {
		out, err := fn(ctx, r)
		return &out, err
	})
}

// noArguments is the decoder of a function without arguments.
func noArguments(context.Context, *mcp.Call) (any, error) { return nil, nil }

// newResource returns the entry of a typed or annotated resource.
func newResource(resource *Resource, out reflect.Type, fn function) (*Entry, error) {
	if u, err := url.Parse(resource.URI); err != nil || u.Scheme == "" && !isPath(u) {
		return nil, fmt.Errorf("resource %q: a URI needs a scheme, as in file:///a or app://settings, or is a path such as /settings", resource.URI)
	}
	if err := errors.Join(checkAnnotations(resource.Annotations), checkCacheHint(resource.CacheHint), checkContents(out), resource.setView()); err != nil {
		return nil, fmt.Errorf("resource %q: %w", resource.URI, err)
	}
	resource.MIMEType = cmp.Or(resource.MIMEType, typeOf(out))
	var ui json.RawMessage // of a view
	if resource.isView() {
		ui = resource.Meta.Get(mcp.MetaUI)
	}
	definition, err := (&mcp.Resource{
		URI: resource.URI, Name: cmp.Or(resource.Name, resource.URI), Title: resource.Title, Description: resource.Description,
		MIMEType: resource.MIMEType, Size: resource.Size, Annotations: resource.Annotations,
		Icons: resource.Icons, Meta: resource.Meta,
	}).MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("resource %q: %w", resource.URI, err)
	}
	e := newEntry(mcp.KindResource, resource.URI, definition, resource.Scopes, resource.Metadata, pending{
		guards: resource.Guards, middleware: resource.CallMiddleware,
		bind: func(s *Server, middleware mcp.Middleware) mcp.Handler {
			return decodeAndRun(s, middleware, noArguments, func(ctx context.Context, r *Request, in any) (mcp.Result, error) {
				out, err := fn(ctx, r, in)
				if err != nil {
					return nil, err
				}
				return readResult(resource.URI, resource.MIMEType, ui, resource.CacheHint, out)
			})
		},
	})
	return e, e.check()
}

// isPath reports whether a URI is only a path, as the URIs of templates may be.
func isPath(u *url.URL) bool { return u.Scheme == "" && u.Host == "" && strings.HasPrefix(u.Path, "/") }

// mimeText is the default media type of text.
const mimeText = "text/plain"

// typeOf returns the default media type for functions with a result of type out, or "".
func typeOf(out reflect.Type) string {
	if out.Kind() == reflect.String {
		return mimeText
	}
	return ""
}

// isView reports whether the resource is a view of MCP Apps.
func (r *Resource) isView() bool { return uritemplate.HasScheme(r.URI, mcp.SchemeUI) }

// setView sets the media type and Meta of a view. It rejects what a client would not show.
func (r *Resource) setView() error {
	if !r.isView() {
		if r.UI != nil {
			return fmt.Errorf("UI: the URI of a view starts with %s", mcp.SchemeUI)
		}
		return nil
	}
	if r.MIMEType = cmp.Or(r.MIMEType, mcp.MIMETypeApp); r.MIMEType != mcp.MIMETypeApp {
		return fmt.Errorf("MIMEType: the media type of a view is %s, not %.80s", mcp.MIMETypeApp, r.MIMEType)
	}
	if r.UI != nil {
		if err := r.Meta.SetResourceUI(*r.UI); err != nil {
			return fmt.Errorf("UI: %w", err)
		}
	} else if _, err := r.Meta.ResourceUI(); err != nil {
		return fmt.Errorf("Meta: %w", err)
	}
	return nil
}

// resourceFeature is the lists of resources and templates, and resources/read.
var resourceFeature = feature{
	methods: []method{
		{name: mcp.MethodResourcesList, list: mcp.KindResource},
		{name: mcp.MethodResourceTemplatesList, list: mcp.KindResourceTemplate},
		{name: mcp.MethodResourcesRead, kinds: []mcp.Kind{mcp.KindResource}},
		{name: mcp.MethodResourcesSubscribe, kinds: []mcp.Kind{mcp.KindResource}, session: true},
		{name: mcp.MethodResourcesUnsubscribe, kinds: []mcp.Kind{mcp.KindResource}, session: true},
	},
	needed: func(c *Catalog, more bool) bool {
		return more || c.Len(mcp.KindResource)+c.Len(mcp.KindResourceTemplate) > 0
	},
	declare: declareResources,
	watch:   (*Server).watchResources,
}

func declareResources(has *mcp.ServerCapabilities) {
	has.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
}

// checkContents rejects types that look like data and are meant as contents.
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

// checkAnnotations rejects annotations that clients would misread.
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

// checkCacheHint rejects hints that clients would misread.
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

// readResult converts what out points to, the result of a function.
func readResult(uri, mimeType string, ui json.RawMessage, hint mcp.CacheHint, out any) (mcp.Result, error) {
	contents := func(c ...mcp.ResourceContents) (mcp.Result, error) {
		return &mcp.ReadResourceResult{Contents: withUI(withURI(c, uri), ui), CacheHint: hint}, nil
	}
	switch out := reflect.ValueOf(out).Elem().Interface().(type) {
	case string:
		return contents(&mcp.TextResourceContents{URI: uri, MIMEType: cmp.Or(mimeType, mimeText), Text: out})
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
		result := *out // the function may return the same value again
		result.Contents = withUI(withURI(result.Contents, uri), ui)
		result.TTLMs = max(0, cmp.Or(result.TTLMs, hint.TTLMs))
		result.Scope = cmp.Or(result.Scope, hint.Scope)
		return &result, nil
	}
	text, err := jsonvalue.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encoding what was read: %w", err)
	}
	return contents(&mcp.TextResourceContents{URI: uri, MIMEType: cmp.Or(mimeType, "application/json"), Text: string(text)})
}

// withURI returns contents with the URI where they have none. It does not change the contents that
// the function returned.
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

// withUI returns contents with the UI of a view where they have none: clients read it there first. ui
// may be nil. It does not change the contents that the function returned.
func withUI(contents []mcp.ResourceContents, ui json.RawMessage) []mcp.ResourceContents {
	if ui == nil {
		return contents
	}
	contents = slices.Clone(contents)
	for i, c := range contents {
		var with mcp.ResourceContents
		var meta *mcp.Meta
		switch c := c.(type) {
		case *mcp.TextResourceContents:
			if c != nil {
				text := *c
				with, meta = &text, &text.Meta
			}
		case *mcp.BlobResourceContents:
			if c != nil {
				blob := *c
				with, meta = &blob, &blob.Meta
			}
		}
		if meta != nil && meta.Get(mcp.MetaUI) == nil && meta.Set(mcp.MetaUI, ui) == nil {
			contents[i] = with
		}
	}
	return contents
}

// Template configures a resource template.
type Template struct {
	// URITemplate is an RFC 6570 template, such as file:///{+path} or app://users/{id}{?fields}.
	// {x} matches one path segment. {+x} and a last {x*} match slashes too. Query variables are
	// matched by name. A template that cannot be matched in linear time is rejected.
	//
	// A value cannot lead to another directory, whatever was percent-encoded: {x} matches no slash,
	// no backslash, and neither "." nor "..". {+x} matches no path with such a segment. Neither
	// matches a NUL. Other URIs get the error for a resource that does not exist.
	URITemplate string
	// Name is for programs and defaults to the template. Title is shown to people.
	Name        string
	Title       string
	Description string
	// MIMEType is the media type of all resources of the template, if they have the same. Its default is
	// as in [Resource].
	MIMEType    string
	Annotations *mcp.Annotations
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// CacheHint applies to all resources of the template; see [Resource].
	CacheHint mcp.CacheHint
	// Guards and CallMiddleware apply to calls of the function; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, in [mcp.Target]. It is not sent to clients.
	Metadata map[string]any
}

// AddTemplate registers a function that reads the resources of a template. Vars is a
// map[string]string, or a struct whose fields are the variables, with the names of their json tags.
// Fields are strings, numbers, booleans (true, yes, on, 1 or false, no, off, 0), or lists of
// strings. The variables of {/x*}, {?x*} and {&x*} must be lists of strings. Of a jsonschema tag, enum and default are used. Results are as in
// [AddResource]. If there is no such resource, the function returns [mcp.ResourceNotFound]. The
// function is called concurrently. AddTemplate panics, with the file and line of the caller, if the
// template cannot be registered.
func AddTemplate[Vars, Out any](s *Server, template Template, fn func(ctx context.Context, r *Request, vars Vars) (Out, error)) {
	s.mustAdd(NewTemplate(template, fn))
}

// NewTemplate returns the entry of a resource template, for [Server.Replace] or [NewCatalog]. The
// error explains why the template is invalid.
func NewTemplate[Vars, Out any](template Template, fn func(ctx context.Context, r *Request, vars Vars) (Out, error)) (*Entry, error) {
	return newTemplate(&template, reflect.TypeFor[Vars](), reflect.TypeFor[Out](), func(ctx context.Context, r *Request, in any) (any, error) {
		out, err := fn(ctx, r, *in.(*Vars))
		return &out, err
	})
}

// newTemplate returns the entry of a typed or annotated template.
func newTemplate(template *Template, in, out reflect.Type, fn function) (*Entry, error) {
	fail := func(err error) (*Entry, error) {
		return nil, fmt.Errorf("resource template %q: %w", template.URITemplate, err)
	}
	vars, err := newFields(in)
	if err != nil {
		return fail(fmt.Errorf("variables: %w", err))
	}
	parsed, err := uritemplate.Parse(template.URITemplate)
	if err != nil {
		return fail(err)
	}
	matcher, err := parsed.Matcher()
	if err != nil {
		return fail(err)
	}
	if err := errors.Join(checkAnnotations(template.Annotations), checkCacheHint(template.CacheHint), checkContents(out)); err != nil {
		return fail(err)
	}
	if err := errors.Join(sameNames(vars.isMap, vars.names(), parsed.Names()), holdsLists(vars, parsed)); err != nil {
		return fail(fmt.Errorf("variables: %w", err))
	}
	template.MIMEType = cmp.Or(template.MIMEType, typeOf(out))
	definition, err := (&mcp.ResourceTemplate{
		URITemplate: template.URITemplate, Name: cmp.Or(template.Name, template.URITemplate), Title: template.Title,
		Description: template.Description, MIMEType: template.MIMEType,
		Annotations: template.Annotations, Icons: template.Icons, Meta: template.Meta,
	}).MarshalJSON()
	if err != nil {
		return fail(err)
	}
	e := newEntry(mcp.KindResourceTemplate, template.URITemplate, definition, template.Scopes, template.Metadata, pending{
		guards: template.Guards, middleware: template.CallMiddleware, values: vars.allowedValues(),
		bind: func(s *Server, middleware mcp.Middleware) mcp.Handler {
			return decodeAndRun(s, middleware, func(_ context.Context, call *mcp.Call) (any, error) {
				values, _ := matcher.MatchContained(call.URI())
				value := reflect.New(in).Interface()
				if err := vars.decode(value, namesOf(values), valuesOf(values)); err != nil {
					return nil, invalidParams("uri %.256q: %v", call.URI(), err)
				}
				return value, nil
			}, func(ctx context.Context, r *Request, in any) (mcp.Result, error) {
				out, err := fn(ctx, r, in)
				if err != nil {
					return nil, err
				}
				return readResult(r.call.URI(), template.MIMEType, nil, template.CacheHint, out)
			})
		},
	})
	e.Match = func(uri string) bool {
		_, ok := matcher.MatchContained(uri)
		return ok
	}
	return e, e.check()
}

func namesOf(variables uritemplate.Variables) []string {
	names := make([]string, len(variables))
	for i, v := range variables {
		names[i] = v.Name
	}
	return names
}

func valuesOf(variables uritemplate.Variables) func(name string) []string {
	return func(name string) []string {
		v, ok := variables.Lookup(name)
		switch {
		case !ok:
			return nil
		case v.List != nil:
			return v.List
		}
		return []string{v.Value}
	}
}

// sameNames rejects a struct whose fields are not the variables of its template, such as a misspelt
// field.
func sameNames(open bool, fields, variables []string) error {
	if open {
		return nil
	}
	for _, name := range variables {
		if !slices.Contains(fields, name) {
			return fmt.Errorf("the template's %q has no field with that json name", name)
		}
	}
	for _, name := range fields {
		if !slices.Contains(variables, name) {
			return fmt.Errorf("the field %q is not a variable of the template", name)
		}
	}
	return nil
}

// holdsLists rejects variables that would lose the borders of the elements of a list.
func holdsLists(vars *fields, template *uritemplate.Template) error {
	for _, name := range template.Names() {
		if template.IsList(name) && !vars.isList(name) {
			return fmt.Errorf("the values of %q are lists: take a struct whose field %q is a []string, or {+%s} for text with slashes", name, name, name)
		}
	}
	return nil
}

// watchResources begins to report changes of the resources in the filter.
func (s *Server) watchResources(ctx context.Context, call *mcp.Call, to *subscription) error {
	uris := to.filter.ResourceSubscriptions
	to.filter.ResourceSubscriptions = nil
	if len(uris) > 0 {
		if err := s.ready(ctx); err != nil {
			return err
		}
	}
	for _, uri := range uris {
		stop, err := s.subscribeResource(ctx, call, uri)
		if mcp.IsResourceNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if entry := s.Catalog().Lookup(mcp.KindResource, uri); entry != nil {
			uri = entry.listedURI(uri) // the URI in the notifications, the same for all variants
		}
		to.filter.ResourceSubscriptions = append(to.filter.ResourceSubscriptions, uri)
		to.stops = append(to.stops, stop)
	}
	return nil
}

// subscribeResource starts to report changes of one resource.
func (s *Server) subscribeResource(ctx context.Context, call *mcp.Call, uri string) (stop func(), err error) {
	entry, err := s.find(ctx, call.Caller, mcp.KindResource, uri)
	if err != nil {
		return nil, s.notSubscribed(ctx, call, err)
	}
	if entry == nil {
		return nil, mcp.ResourceNotFound(uri)
	}
	one := *call
	one.Resolve(&entry.Target, entry.listedURI(uri), s.recheckFunc)
	if entry.Subscribe == nil {
		return func() {}, nil
	}
	err = callRecovered(func() (err error) {
		stop, err = entry.Subscribe(ctx, &one)
		return err
	})
	if err != nil {
		return nil, s.notSubscribed(ctx, &one, err)
	}
	return stop, nil
}

// notSubscribed returns the error for the caller. A subscription cannot ask questions.
func (s *Server) notSubscribed(ctx context.Context, call *mcp.Call, err error) error {
	if _, asks := mcp.AsInputRequired(err); asks {
		err = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "a subscription cannot ask its caller"}
	}
	if _, err = s.convertError(ctx, call, err); err == nil {
		return errors.New("the resource cannot be subscribed to")
	}
	return err
}
