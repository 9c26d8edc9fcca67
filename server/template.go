package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Template describes a resource template at registration.
type Template struct {
	// URITemplate is an RFC 6570 template, such as file:///{+path} or
	// app://users/{id}{?fields}. {x} is one path segment, {+x} and a last {x*}
	// cross slashes, the query is matched by name. A template that cannot be
	// matched in linear time is refused.
	//
	// Values of the path lead nowhere else, whatever was percent-encoded: the value of
	// {x} holds no slash or backslash, is not "." or "..", and no segment of {+x} is;
	// neither holds a NUL. There is no such resource.
	URITemplate string
	// Name is for programs, Title for people; Name defaults to the template.
	Name        string
	Title       string
	Description string
	// MIMEType is that of all resources of the template, if they have one.
	MIMEType    string
	Annotations *mcp.Annotations
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// CacheHint is that of all resources of the template; see [Resource].
	CacheHint mcp.CacheHint
	// Guards and CallMiddleware surround the function; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, as that of the call's target. It is never sent.
	Metadata map[string]any
}

// AddTemplate registers a function that reads the resources of a template. Vars
// is a struct whose fields are the template's variables, by their json names:
// strings, numbers, booleans (true, yes, on, 1 or their opposites), lists of strings
// for {x*}; or a map[string]string. Of what a jsonschema tag says, enum and default
// count. Results are as in [AddResource]. A function for which there is no such resource
// returns [mcp.ResourceNotFound]. It panics, naming the place, when the template
// cannot be registered.
func AddTemplate[Vars, Out any](s *Server, template Template, fn func(ctx context.Context, r *Request, vars Vars) (Out, error)) {
	s.mustAdd(NewTemplate(template, fn))
}

// NewTemplate checks and compiles a resource template for [Server.Replace].
func NewTemplate[Vars, Out any](template Template, fn func(ctx context.Context, r *Request, vars Vars) (Out, error)) (*Entry, error) {
	vars, err := newFields(reflect.TypeFor[Vars]())
	if err != nil {
		return nil, fmt.Errorf("resource template %q: variables: %w", template.URITemplate, err)
	}
	decode := func(values uritemplate.Variables) (in Vars, err error) {
		return in, vars.decode(&in, namesOf(values), valuesOf(values))
	}
	return newTemplate(template, vars, reflect.TypeFor[Out](), decode, func(ctx context.Context, r *Request, in Vars) (any, error) { return fn(ctx, r, in) })
}

// newTemplate makes the entry of a template, typed or annotated.
func newTemplate[In any](template Template, vars *fields, out reflect.Type, decode func(uritemplate.Variables) (In, error), run func(ctx context.Context, r *Request, in In) (any, error)) (*Entry, error) {
	fail := func(err error) (*Entry, error) {
		return nil, fmt.Errorf("resource template %q: %w", template.URITemplate, err)
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
	if err := sameNames(vars.open, vars.names(), parsed.Names()); err != nil {
		return fail(fmt.Errorf("variables: %w", err))
	}
	definition, err := (&mcp.ResourceTemplate{
		URITemplate: template.URITemplate, Name: cmp.Or(template.Name, template.URITemplate), Title: template.Title,
		Description: template.Description, MIMEType: template.MIMEType,
		Annotations: template.Annotations, Icons: template.Icons, Meta: template.Meta,
	}).MarshalJSON()
	if err != nil {
		return fail(err)
	}
	e := newEntry(mcp.KindResourceTemplate, template.URITemplate, definition, template.Scopes, template.Metadata, draft{
		guards: template.Guards, middleware: template.CallMiddleware, values: vars.limited(),
		bind: func(s *Server, within mcp.Middleware) mcp.Handler {
			return decoded(s, within, func(call *mcp.Call) (in In, err error) {
				values, _ := matcher.MatchContained(call.URI())
				if in, err = decode(values); err != nil {
					return in, invalidParams("uri %.256q: %v", call.URI(), err)
				}
				return in, nil
			}, func(ctx context.Context, r *Request, in In) (mcp.Result, error) {
				out, err := run(ctx, r, in)
				if err != nil {
					return nil, err
				}
				return readResult(r.call.URI(), template.MIMEType, template.CacheHint, out)
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

// sameNames refuses a struct that does not fit its template: a misspelt field
// would else stay empty for ever.
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
