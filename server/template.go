package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

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
	// No value that crosses slashes has a segment "..", encoded or not: there is no
	// such resource. It may begin with a slash.
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
	// Around stands around the function.
	Around Around
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
func NewTemplate[Vars, Out any](template Template, fn func(ctx context.Context, r *Request, vars Vars) (Out, error)) (Entry, error) {
	vars, err := newFields(reflect.TypeFor[Vars]())
	if err != nil {
		return nil, fmt.Errorf("resource template %q: variables: %w", template.URITemplate, err)
	}
	return newTemplateEntry(template, vars, func(ctx context.Context, r *Request, uri string, values uritemplate.Variables) (mcp.Result, error) {
		var in Vars
		if err := vars.decode(&in, namesOf(values), valuesOf(values)); err != nil {
			return nil, invalidParams("uri %.256q: %v", uri, err)
		}
		return inner(ctx, r, in, func(ctx context.Context, r *Request, in Vars) (mcp.Result, error) {
			out, err := fn(ctx, r, in)
			if err != nil {
				return nil, err
			}
			return readResult(uri, template.MIMEType, template.CacheHint, out)
		})
	})
}

// A templateReader reads the resource of a template with these variables.
type templateReader func(ctx context.Context, r *Request, uri string, values uritemplate.Variables) (mcp.Result, error)

func newTemplateEntry(template Template, vars *fields, run templateReader) (Entry, error) {
	parsed, err := uritemplate.Parse(template.URITemplate)
	if err != nil {
		return nil, fmt.Errorf("resource template %q: %w", template.URITemplate, err)
	}
	matcher, err := parsed.Matcher()
	if err != nil {
		return nil, fmt.Errorf("resource template %q: %w", template.URITemplate, err)
	}
	if err := errors.Join(checkAnnotations(template.Annotations), checkCacheHint(template.CacheHint)); err != nil {
		return nil, fmt.Errorf("resource template %q: %w", template.URITemplate, err)
	}
	if err := sameNames(vars.open, vars.names(), parsed.Names()); err != nil {
		return nil, fmt.Errorf("resource template %q: variables: %w", template.URITemplate, err)
	}
	if template.Name == "" {
		template.Name = template.URITemplate
	}
	encoded, err := (&mcp.ResourceTemplate{
		URITemplate: template.URITemplate, Name: template.Name, Title: template.Title,
		Description: template.Description, MIMEType: template.MIMEType,
		Annotations: template.Annotations, Icons: template.Icons, Meta: template.Meta,
	}).AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("resource template %q: %w", template.URITemplate, err)
	}
	return &templateEntry{
		attended: attended{of: entryKey{templateKind, template.URITemplate}, around: template.Around}, names: parsed.Names(), values: vars.limited(), matcher: matcher,
		list: Listed{template.URITemplate, encoded}, run: run,
	}, nil
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

type templateEntry struct {
	attended
	values  map[string][]string // of the variables that may have some only
	names   []string
	matcher *uritemplate.Matcher
	list    Listed
	run     templateReader
}

func (e *templateEntry) listed() Listed { return e.list }

func (e *templateEntry) within(more Around) Entry {
	inner := *e
	inner.around = e.around.within(more)
	return &inner
}

// match returns the values of the variables if the template has such a resource. A
// function may take a value for a path below some directory: it must not lead out.
func (e *templateEntry) match(uri string) (uritemplate.Variables, bool) {
	values, ok := e.matcher.Match(uri)
	if !ok {
		return nil, false
	}
	path, _ := values.Lookup(e.matcher.Crossing())
	for segment := range strings.FieldsFuncSeq(path.Value, isSlash) {
		if segment == ".." {
			return nil, false
		}
	}
	return values, true
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

// call is for a template named by itself, which is no resource.
func (e *templateEntry) call(_ context.Context, _ *Server, _ *mcp.Call) (mcp.Result, error) {
	return nil, mcp.ResourceNotFound(e.of.name)
}

func (e *templateEntry) read(ctx context.Context, s *Server, call *mcp.Call, uri string, values uritemplate.Variables) (mcp.Result, error) {
	return e.answer(ctx, s, call, func(ctx context.Context, r *Request) (mcp.Result, error) {
		return e.run(ctx, r, uri, values)
	})
}
