package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// The type of a blank field in the arguments of a service's method says what the method is. The tag
// of the field has its name, description and other properties.
type (
	// ToolTag makes a method a tool. Tags: name (default: the method's name in snake_case), title,
	// description, readOnly, destructive, idempotent, openWorld ("true" or "false"), timeout (a Go
	// duration), tags and scopes (lists with commas), metadata (a list of key=value), reduce for
	// streams, ui (a URI) and visibility (a list of "model" and "app") for [Tool].UI, and lenient, textOnly,
	// requiredByTag and blocking ("true" or "false") for the fields of [Tool] with these names.
	ToolTag struct{}
	// ResourceTag makes a method a resource. If the uri has variables, the method is a resource
	// template, and the variables are the other fields of the struct. Tags: uri, name, title,
	// description, mimeType, ttl (a Go duration) and cache ("private" or "public") for the
	// CacheHint, tags, scopes, metadata.
	ResourceTag struct{}
	// PromptTag makes a method a prompt. Its arguments are the other fields of the struct. Tags:
	// name, title, description, tags, scopes, metadata.
	PromptTag struct{}
	// CompletionTag makes a method a completion. Tags: prompt or template, and argument. The field
	// Value string of the struct is what the user has typed. An optional field Others
	// map[string]string has the values of other arguments.
	CompletionTag struct{}
)

// Annotations are the defaults for all methods of a service. Tags of a method take precedence. A
// service has them if it has a method Annotations() server.Annotations.
type Annotations struct {
	// Tool has the hints of the service's tools.
	Tool mcp.ToolAnnotations
	// Timeout is the timeout of the service's tools.
	Timeout time.Duration
	// Tags, Scopes and Metadata are added to each method's own. The method's own metadata takes
	// precedence.
	Tags, Scopes []string
	Metadata     map[string]any
	// Guards and CallMiddleware apply to all methods.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Methods has properties of single methods that do not fit into tags, by Go name.
	Methods map[string]Method
}

// A Method has the properties of an annotated method that do not fit into its tag.
type Method struct {
	// Guards and CallMiddleware apply to the method, inside the guards and middleware of the service.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Icons and Meta are part of the listed entry. [mcp.Meta.SetResourceUI] sets what a view may use.
	Icons []mcp.Icon
	Meta  mcp.Meta
	// OutputSchema replaces the reflected output schema of a tool.
	OutputSchema json.RawMessage
	// Prepare changes the arguments of a tool's calls; see [Tool].
	Prepare func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
	// Annotations and Size describe a resource. A template has no size.
	Annotations *mcp.Annotations
	Size        *int64
}

// Descriptions are texts for the methods of a service and for the fields of their arguments, with
// the keys "Method" and "Method.field". Tags take precedence. A service has them if it has a method
// Descriptions() server.Descriptions, which the command server/mcpgen generates from doc comments.
type Descriptions map[string]string // "Method" or "Method.field"

// AddService registers the methods of a service: a struct, or a pointer to one. It registers
// exactly the exported methods that take a context.Context, including promoted ones. Each of them
// must fit.
//
// A method takes, in any order, a context.Context, a struct with a blank field of type [ToolTag],
// [ResourceTag], [PromptTag] or [CompletionTag], and optionally a *[Request] and values of
// Options.Dependencies. It returns an error, or an error and a result as in [AddTool],
// [AddResource] or [AddPrompt]. The method of a tool may instead return an iter.Seq2[Chunk, error]:
// a stream as in [AddStream]. Its result is the joined text if Chunk is a string, and otherwise the
// list of all chunks. With the tag reduce:"last" it is the last chunk.
//
//	type SearchIn struct {
//		_     server.ToolTag `name:"search" description:"Full-text search" readOnly:"true"`
//		Query string         `json:"query" jsonschema:"minLength=1"`
//	}
//
//	func (s *Shop) Search(ctx context.Context, in SearchIn, db *DB) ([]Item, error)
//
// Methods are called concurrently. AddService panics, with the file and line of the caller, the
// method and the reason, if the service cannot be registered.
func AddService(s *Server, service any) {
	entries, err := Service(service)
	if err == nil {
		if err = s.registry.register(entries, false); err != nil {
			err = fmt.Errorf("service %T: %w", service, err)
		}
	}
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		panic(fmt.Sprintf("%s:%d: %v", file, line, err))
	}
	s.notifyLists(entries)
}

// Service returns the entries of a service, for [Server.Replace] or [NewCatalog], ordered by the
// names of the methods. The error names a method that does not fit.
func Service(service any) ([]*Entry, error) {
	value := reflect.ValueOf(service)
	if !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, errors.New("a service must not be nil")
	}
	if err := checkService(value.Type()); err != nil {
		return nil, fmt.Errorf("service %T: %w", service, err)
	}
	of := serviceOf(service)
	var entries []*Entry
	methods := make(map[completionKey]string)
	for method := range value.Type().Methods() {
		if !takesContext(method.Type) {
			continue
		}
		entry, err := of.entry(value, method)
		if err == nil {
			if other, there := methods[entry.completionKey()]; there {
				err = fmt.Errorf("%s is the %v already", other, entry.completionKey())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("service %T: method %s%s: %w", service, method.Name, signature(value.Method(method.Index).Type()), err)
		}
		methods[entry.completionKey()] = method.Name
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("service %T has no exported method that takes a context.Context", service)
	}
	for name := range of.Methods {
		if !slices.Contains(slices.Collect(maps.Values(methods)), name) {
			return nil, fmt.Errorf("service %T: Annotations.Methods names %s, which is no method that takes a context.Context", service, name)
		}
	}
	return entries, nil
}

func takesContext(method reflect.Type) bool {
	for in := range method.Ins() {
		if in == contextType {
			return true
		}
	}
	return false
}

// signature returns the signature of a method without its receiver.
func signature(method reflect.Type) string {
	return strings.TrimPrefix(method.String(), "func")
}

// A service is what its methods have in common.
type service struct {
	Annotations
	descriptions Descriptions
}

func serviceOf(value any) *service {
	s := &service{}
	if value, ok := value.(annotator); ok {
		s.Annotations = value.Annotations()
	}
	if value, ok := value.(describer); ok {
		s.descriptions = value.Descriptions()
	}
	return s
}

// entry returns the entry of a method.
func (s *service) entry(value reflect.Value, method reflect.Method) (*Entry, error) {
	b, err := bindMethod(value, method)
	if err != nil {
		return nil, err
	}
	e, err := s.newEntry(&serviceMethod{methodBinding: b, name: method.Name, Method: s.Methods[method.Name]})
	if err != nil {
		return nil, err
	}
	e.pending.dependencies = b.dependencies()
	if !e.isListed() {
		return e, nil
	}
	return e.withRequirements(s.Scopes, s.Metadata).Wrap(s.Guards, s.CallMiddleware), nil
}

// A serviceMethod is a method with its annotations.
type serviceMethod struct {
	*methodBinding
	Method
	name string
}

// newEntry returns the entry that the annotation asks for.
func (s *service) newEntry(m *serviceMethod) (*Entry, error) {
	switch m.tag.of {
	case reflect.TypeFor[ToolTag]():
		return s.tool(m)
	case reflect.TypeFor[PromptTag]():
		return s.prompt(m)
	case reflect.TypeFor[ResourceTag]():
		return s.resource(m)
	default:
		return m.completion()
	}
}

// description returns the description from the tag, or the generated one.
func (s *service) description(m *serviceMethod) string {
	return cmp.Or(m.tag.get("description"), s.descriptions[m.name])
}

// describer returns a function that returns the generated description of an argument of the method. It returns nil if
// there are no descriptions.
func (s *service) describer(m *serviceMethod) func(argument string) string {
	if len(s.descriptions) == 0 {
		return nil
	}
	return func(argument string) string { return s.descriptions[m.name+"."+argument] }
}

// meta returns the _meta of an entry, with its tags.
func (s *service) meta(m *serviceMethod) (mcp.Meta, error) {
	meta := m.Meta
	tags := append(slices.Clip(s.Tags), m.tag.list("tags")...)
	if len(tags) == 0 {
		return meta, nil
	}
	return meta, meta.SetValue(mcp.MetaTags, tags)
}

func (s *service) tool(m *serviceMethod) (*Entry, error) {
	tool := Tool{
		Name: cmp.Or(m.tag.get("name"), snakeCase(m.name)), Title: m.tag.get("title"),
		Description: s.description(m), Icons: m.Icons, OutputSchema: m.OutputSchema, Prepare: m.Prepare,
		Guards: m.Guards, CallMiddleware: m.CallMiddleware, Scopes: m.tag.list("scopes"), Metadata: m.tag.metadata,
	}
	var err error
	if tool.Annotations, err = s.hints(m.tag); err != nil {
		return nil, err
	}
	if tool.Timeout, err = m.tag.duration("timeout", s.Timeout); err != nil {
		return nil, err
	}
	if tool.Meta, err = s.meta(m); err != nil {
		return nil, err
	}
	for key, option := range map[string]*bool{"lenient": &tool.Lenient, "textOnly": &tool.TextOnly, "requiredByTag": &tool.RequiredByTag, "blocking": &tool.Blocking} {
		if *option, err = m.tag.flag(key); err != nil {
			return nil, err
		}
	}
	tool.UI = m.tag.ui()
	call, out, err := m.toolFunction()
	if err != nil {
		return nil, err
	}
	return newTypedTool(&tool, s.describer(m), m.arguments, out, call)
}

// hints returns the annotations of a tool, or nil if there are none.
func (s *service) hints(tag *methodTag) (*mcp.ToolAnnotations, error) {
	hints := s.Annotations.Tool
	for _, hint := range []struct {
		key   string
		value **bool
	}{
		{"readOnly", &hints.ReadOnlyHint}, {"destructive", &hints.DestructiveHint},
		{"idempotent", &hints.IdempotentHint}, {"openWorld", &hints.OpenWorldHint},
	} {
		var err error
		if *hint.value, err = tag.hint(hint.key, *hint.value); err != nil {
			return nil, err
		}
	}
	if reflect.ValueOf(hints).IsZero() {
		return nil, nil
	}
	return &hints, nil
}

func (s *service) prompt(m *serviceMethod) (*Entry, error) {
	if m.result == nil {
		return nil, errors.New("a prompt must have a result")
	}
	prompt := Prompt{
		Name: cmp.Or(m.tag.get("name"), snakeCase(m.name)), Title: m.tag.get("title"), Description: s.description(m), Icons: m.Icons,
		Guards: m.Guards, CallMiddleware: m.CallMiddleware, Scopes: m.tag.list("scopes"), Metadata: m.tag.metadata,
	}
	var err error
	if prompt.Meta, err = s.meta(m); err != nil {
		return nil, err
	}
	return newPrompt(&prompt, s.describer(m), m.arguments, m.result, m.call)
}

func (s *service) resource(m *serviceMethod) (*Entry, error) {
	vars, err := newFields(m.arguments)
	if err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	if m.result == nil {
		return nil, errors.New("a resource must have a result")
	}
	meta, err := s.meta(m)
	if err != nil {
		return nil, err
	}
	hint, err := m.tag.cacheHint()
	if err != nil {
		return nil, err
	}
	resource := Resource{
		URI: m.tag.get("uri"), Name: cmp.Or(m.tag.get("name"), snakeCase(m.name)), Title: m.tag.get("title"),
		Description: s.description(m), MIMEType: m.tag.get("mimeType"), Size: m.Size, Annotations: m.Method.Annotations, Icons: m.Icons,
		Meta: meta, CacheHint: hint,
		Guards: m.Guards, CallMiddleware: m.CallMiddleware, Scopes: m.tag.list("scopes"), Metadata: m.tag.metadata,
	}
	if !strings.Contains(resource.URI, "{") && len(vars.list) == 0 {
		return newResource(&resource, m.result, func(ctx context.Context, r *Request, _ any) (any, error) {
			return m.call(ctx, r, reflect.New(m.arguments).Interface())
		})
	}
	template := Template{
		URITemplate: resource.URI, Name: resource.Name, Title: resource.Title, Description: resource.Description,
		MIMEType: resource.MIMEType, Annotations: resource.Annotations, Icons: m.Icons, Meta: meta, CacheHint: hint,
		Guards: m.Guards, CallMiddleware: m.CallMiddleware, Scopes: resource.Scopes, Metadata: resource.Metadata,
	}
	return newTemplate(&template, m.arguments, m.result, m.call)
}

func (m *serviceMethod) completion() (*Entry, error) {
	value, others, err := completionFields(m.arguments)
	if err != nil {
		return nil, err
	}
	if m.result != reflect.TypeFor[[]string]() && m.result != reflect.TypeFor[*mcp.CompletionValues]() {
		return nil, errors.New("a completion's result must be []string or *mcp.CompletionValues")
	}
	completion := Completion{Prompt: m.tag.get("prompt"), Template: m.tag.get("template"), Argument: m.tag.get("argument")}
	return newCompletion(completion, func(ctx context.Context, r *Request, typed string, known map[string]string) (any, error) {
		in := reflect.New(m.arguments)
		in.Elem().Field(value).SetString(typed)
		if others >= 0 {
			in.Elem().Field(others).Set(reflect.ValueOf(known))
		}
		out, err := m.call(ctx, r, in.Interface())
		if err != nil {
			return nil, err
		}
		return reflect.ValueOf(out).Elem().Interface(), nil
	})
}

// completionFields returns the indexes of the fields Value and Others. others is -1 if there is no
// such field.
func completionFields(of reflect.Type) (value, others int, err error) {
	value, others = -1, -1
	for i := range of.NumField() {
		switch field := of.Field(i); {
		case field.Name == "_":
		case field.Name == "Value" && field.Type.Kind() == reflect.String:
			value = i
		case field.Name == "Others" && field.Type == reflect.TypeFor[map[string]string]():
			others = i
		default:
			return 0, 0, fmt.Errorf("%v has a field %s %v; it may have Value string, for what has been typed, and Others map[string]string", of, field.Name, field.Type)
		}
	}
	if value < 0 {
		return 0, 0, fmt.Errorf("%v needs a field Value string, for what has been typed", of)
	}
	return value, others, nil
}
