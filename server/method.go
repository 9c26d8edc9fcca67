package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dovetail-go/dovetail/mcp"
)

// A methodBinding describes how to call a method of a service.
type methodBinding struct {
	service   reflect.Value
	method    reflect.Value // takes the service first, which is faster than a bound method
	params    []param
	arguments reflect.Type // the annotated struct
	tag       *methodTag
	result    reflect.Type // nil if the method returns only an error
	chunk     reflect.Type // of a stream; nil otherwise
}

// A param is where a parameter of a method gets its value from.
type param struct {
	source paramSource
	of     reflect.Type // the type of a dependency
}

type paramSource uint8

const (
	fromContext paramSource = iota
	fromRequest
	fromArguments
	fromDependencies
)

var (
	contextType = reflect.TypeFor[context.Context]()
	requestType = reflect.TypeFor[*Request]()
	errorType   = reflect.TypeFor[error]()
)

const acceptedMethods = "; a method takes a context.Context, a struct with a blank field of type ToolTag, ResourceTag, PromptTag or CompletionTag, " +
	"and optionally a *server.Request and values of Options.Dependencies; it returns an error, a result and an error, or a stream"

// bindMethod returns the binding of a method.
func bindMethod(service reflect.Value, method reflect.Method) (*methodBinding, error) {
	t := service.Method(method.Index).Type()
	b := &methodBinding{service: service, method: method.Func}
	if t.IsVariadic() {
		return nil, errors.New("it must not be variadic" + acceptedMethods)
	}
	seen := make(map[reflect.Type]bool)
	for in := range t.Ins() {
		if seen[in] {
			return nil, fmt.Errorf("it takes two values of type %v%s", in, acceptedMethods)
		}
		seen[in] = true
		tag, err := tagOf(in)
		switch {
		case err != nil:
			return nil, err
		case in.Kind() == reflect.Pointer && isAnnotated(in.Elem()):
			return nil, fmt.Errorf("it takes a pointer to the annotated struct: let it take the %v itself", in.Elem())
		case in == contextType:
			b.params = append(b.params, param{source: fromContext})
		case in == requestType:
			b.params = append(b.params, param{source: fromRequest})
		case tag != nil && b.tag != nil:
			return nil, errors.New("it takes two annotated structs" + acceptedMethods)
		case tag != nil:
			b.tag, b.arguments = tag, in
			b.params = append(b.params, param{source: fromArguments})
		default:
			b.params = append(b.params, param{fromDependencies, in})
		}
	}
	if b.tag == nil {
		return nil, errors.New("it takes no annotated struct" + acceptedMethods)
	}
	switch {
	case t.NumOut() == 1 && t.Out(0) == errorType:
	case t.NumOut() == 1 && isStream(t.Out(0)) && b.tag.of == reflect.TypeFor[ToolTag]():
		b.chunk = t.Out(0).In(0).In(0)
	case t.NumOut() == 2 && t.Out(1) == errorType:
		b.result = t.Out(0)
	default:
		return nil, errors.New("its results do not fit" + acceptedMethods)
	}
	return b, nil
}

// isStream reports whether a type is an iter.Seq2[Chunk, error].
func isStream(t reflect.Type) bool {
	return t.CanSeq2() && t.Kind() == reflect.Func && t.In(0).In(1) == errorType
}

// dependencies returns the types of the dependencies that the method takes.
func (b *methodBinding) dependencies() []reflect.Type {
	var types []reflect.Type
	for _, p := range b.params {
		if p.source == fromDependencies {
			types = append(types, p.of)
		}
	}
	return types
}

// call is a [function] that calls the method. The result of a method that returns only an error is a nil *any.
func (b *methodBinding) call(ctx context.Context, r *Request, arguments any) (any, error) {
	out := b.callReflect(ctx, r, arguments)
	err, _ := reflect.TypeAssert[error](out[len(out)-1])
	if b.result == nil || err != nil {
		return new(any), err
	}
	result := reflect.New(b.result)
	result.Elem().Set(out[0])
	return result.Interface(), nil
}

func (b *methodBinding) callReflect(ctx context.Context, r *Request, arguments any) []reflect.Value {
	var room [8]reflect.Value
	in := append(room[:0], b.service)
	for _, p := range b.params {
		switch p.source {
		case fromContext:
			in = append(in, reflect.ValueOf(ctx))
		case fromRequest:
			in = append(in, reflect.ValueOf(r))
		case fromArguments:
			in = append(in, reflect.ValueOf(arguments).Elem())
		case fromDependencies:
			value, _ := r.dependency(p.of) // registration has checked that it exists
			if value == nil {
				in = append(in, reflect.Zero(p.of))
			} else {
				in = append(in, reflect.ValueOf(value))
			}
		}
	}
	return b.method.Call(in)
}

// toolFunction returns a function that calls the method of a tool, and the type of its results. The
// result of a stream is its reduced value.
func (b *methodBinding) toolFunction() (call function, out reflect.Type, err error) {
	reduce := b.tag.get("reduce")
	switch {
	case b.chunk == nil && reduce != "":
		return nil, nil, errors.New("only a stream has the tag reduce")
	case b.chunk == nil && b.result == nil:
		return b.call, reflect.TypeFor[any](), nil
	case b.chunk == nil:
		return b.call, b.result, nil
	}
	out = reflect.SliceOf(b.chunk)
	switch isText := b.chunk.Kind() == reflect.String; {
	case reduce == "" && isText, reduce == "join" && isText:
		reduce, out = "join", reflect.TypeFor[string]()
	case reduce == "", reduce == "list":
		reduce = "list"
	case reduce == "last":
		out = b.chunk
	default:
		return nil, nil, fmt.Errorf("reduce must be list or last, or join for text, not %.40q", reduce)
	}
	return func(ctx context.Context, r *Request, arguments any) (any, error) {
		return b.stream(ctx, r, arguments, reduce, out)
	}, out, nil
}

// stream sends the chunks of a stream, and reduces them.
func (b *methodBinding) stream(ctx context.Context, r *Request, arguments any, reduce string, out reflect.Type) (any, error) {
	chunks := b.callReflect(ctx, r, arguments)[0]
	result := reflect.New(out)
	value := result.Elem()
	if reduce == "list" {
		value.Set(reflect.MakeSlice(out, 0, 0))
	}
	var text strings.Builder
	sender := chunkSender{request: r}
	for chunk, failure := range chunks.Seq2() {
		err, _ := reflect.TypeAssert[error](failure)
		if !sender.send(ctx, chunk.Interface(), err) {
			return nil, sender.err
		}
		switch reduce {
		case "join":
			text.WriteString(chunk.String())
		case "list":
			value.Set(reflect.Append(value, chunk))
		default:
			value.Set(chunk)
		}
	}
	if reduce == "join" {
		value.SetString(text.String())
	}
	return result.Interface(), nil
}

// checkDependencies rejects an entry that takes a dependency that the server does not have.
func (s *Server) checkDependencies(e *Entry) error {
	if e.pending == nil {
		return nil
	}
	for _, taken := range e.pending.dependencies {
		if !slices.ContainsFunc(s.options.Dependencies, func(d Dependency) bool { return d.typ == taken }) {
			return fmt.Errorf("the method of the %v takes a %v, which Options.Dependencies does not provide: it provides %s, and types must be the same%s",
				e.completionKey(), taken, s.provided(), acceptedMethods)
		}
	}
	return nil
}

// provided lists the types of the dependencies.
func (s *Server) provided() string {
	if len(s.options.Dependencies) == 0 {
		return "nothing"
	}
	types := make([]string, len(s.options.Dependencies))
	for i, d := range s.options.Dependencies {
		types[i] = d.typ.String()
	}
	return strings.Join(types, ", ")
}

// Optional methods of a service, which [Service] looks for. Without them, the methods of the service have
// only their own tags, and no descriptions of the source code.
type (
	annotator interface{ Annotations() Annotations }
	describer interface{ Descriptions() Descriptions }
)

// checkService rejects a type if some of its methods would be ignored: ignoring a guard is worse
// than not starting.
func checkService(t reflect.Type) error {
	if t.Kind() != reflect.Pointer {
		for method := range reflect.PointerTo(t).Methods() {
			if _, ok := t.MethodByName(method.Name); !ok && takesContext(method.Type) {
				return needsPointer(t, method.Name)
			}
		}
	}
	if err := checkOptionalMethod(t, reflect.TypeFor[annotator]()); err != nil {
		return err
	}
	return checkOptionalMethod(t, reflect.TypeFor[describer]())
}

// checkOptionalMethod rejects a method that has the right name and not the right type.
func checkOptionalMethod(t, common reflect.Type) error {
	if t.Implements(common) {
		return nil
	}
	wanted := common.Method(0)
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(common) {
		return needsPointer(t, wanted.Name)
	}
	if method, ok := t.MethodByName(wanted.Name); ok && returnsType(method.Type, wanted.Type.Out(0)) {
		return fmt.Errorf("its method %s must be func() %v", wanted.Name, wanted.Type.Out(0))
	}
	for _, embedded := range embeddedTypes(t) {
		if embedded.Implements(common) || reflect.PointerTo(embedded).Implements(common) {
			return fmt.Errorf("the method %s of the embedded %v is not promoted, since it is not the only one: the service needs its own", wanted.Name, embedded)
		}
	}
	return nil
}

func needsPointer(t reflect.Type, method string) error {
	return fmt.Errorf("its method %s has a pointer receiver: register a *%v", method, t)
}

// returnsType reports whether a method returns the type, a pointer to it, or a map like it.
func returnsType(method, wanted reflect.Type) bool {
	for out := range method.Outs() {
		if out.Kind() == reflect.Pointer {
			out = out.Elem()
		}
		if out == wanted || wanted.Kind() == reflect.Map && out.Kind() == reflect.Map && out.ConvertibleTo(wanted) {
			return true
		}
	}
	return false
}

// embeddedTypes returns the types of all embedded fields.
func embeddedTypes(t reflect.Type) []reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var types []reflect.Type
	for _, field := range reflect.VisibleFields(t) {
		if field.Anonymous {
			types = append(types, field.Type)
		}
	}
	return types
}

// A methodTag is the annotation of a method.
type methodTag struct {
	of       reflect.Type // ToolTag, ResourceTag, PromptTag or CompletionTag
	values   reflect.StructTag
	metadata map[string]any // nil if there is none
}

// tagKeys returns the keys that the tag of an annotation may have.
func tagKeys(of reflect.Type) []string {
	switch of {
	case reflect.TypeFor[ToolTag]():
		return []string{"name", "title", "description", "readOnly", "destructive", "idempotent", "openWorld", "timeout", "blocking", "tags", "scopes", "metadata", "reduce", "ui", "visibility", "lenient", "textOnly", "requiredByTag"}
	case reflect.TypeFor[ResourceTag]():
		return []string{"uri", "name", "title", "description", "mimeType", "ttl", "cache", "tags", "scopes", "metadata"}
	case reflect.TypeFor[PromptTag]():
		return []string{"name", "title", "description", "tags", "scopes", "metadata"}
	case reflect.TypeFor[CompletionTag]():
		return []string{"prompt", "template", "argument"}
	}
	return nil
}

// tagOf returns the annotation of a parameter, or nil.
func tagOf(t reflect.Type) (*methodTag, error) {
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	var tag *methodTag
	for field := range t.Fields() {
		keys := tagKeys(field.Type)
		switch {
		case keys == nil:
			continue
		case field.Name != "_":
			return nil, fmt.Errorf("%v: the field of type %v must be blank: _ %v", t, field.Type, field.Type)
		case tag != nil:
			return nil, fmt.Errorf("%v has two annotations", t)
		}
		if err := checkKeys(field.Tag, keys); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
		tag = &methodTag{of: field.Type, values: field.Tag}
		var err error
		if tag.metadata, err = tag.metadataPairs("metadata"); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
	}
	return tag, nil
}

func isAnnotated(t reflect.Type) bool {
	tag, err := tagOf(t)
	return tag != nil || err != nil
}

// checkKeys rejects unknown and repeated keys, which would be ignored.
func checkKeys(tag reflect.StructTag, keys []string) error {
	seen := make(map[string]bool)
	rest := string(tag)
	for rest = strings.TrimLeft(rest, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, after, ok := strings.Cut(rest, ":")
		if !ok || !slices.Contains(keys, key) {
			return fmt.Errorf("the annotation has a tag %.40q; accepted: %s", key, strings.Join(keys, ", "))
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return fmt.Errorf(`the annotation's tag %s must look like %s:"…"`, key, key)
		}
		if seen[key] {
			return fmt.Errorf("the annotation has two tags %s", key)
		}
		seen[key] = true
		rest = after[len(quoted):]
	}
	return nil
}

func (t *methodTag) get(key string) string { return t.values.Get(key) }

// list returns the elements of a tag with commas.
func (t *methodTag) list(key string) []string {
	var items []string
	for item := range strings.SplitSeq(t.get(key), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// metadataPairs parses a list of key=value. It rejects tags and scopes, which have tags of their
// own.
func (t *methodTag) metadataPairs(key string) (map[string]any, error) {
	var pairs map[string]any
	for _, item := range t.list(key) {
		name, value, ok := strings.Cut(item, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		_, twice := pairs[name]
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("%s must be pairs such as team=search, not %.40q", key, item)
		case name == "tags" || name == "scopes":
			return nil, fmt.Errorf("%s has %s, which is a tag of its own", key, name)
		case twice:
			return nil, fmt.Errorf("%s has two values of %.40q", key, name)
		}
		if pairs == nil {
			pairs = make(map[string]any)
		}
		pairs[name] = value
	}
	return pairs, nil
}

// hint parses "true" or "false". defaultHint is used if the tag is absent.
func (t *methodTag) hint(key string, defaultHint *bool) (*bool, error) {
	text, ok := t.values.Lookup(key)
	if !ok {
		return defaultHint, nil
	}
	if text != "true" && text != "false" {
		return nil, fmt.Errorf(`%s must be "true" or "false", not %.40q`, key, text)
	}
	hint := text == "true"
	return &hint, nil
}

// flag parses "true" or "false". An absent tag is false.
func (t *methodTag) flag(key string) (bool, error) {
	flag, err := t.hint(key, new(bool))
	return flag != nil && *flag, err
}

func (t *methodTag) duration(key string, defaultDuration time.Duration) (time.Duration, error) {
	text, ok := t.values.Lookup(key)
	if !ok {
		return defaultDuration, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s must be a duration such as 30s, not %.40q", key, text)
	}
	return d, nil
}

// ui returns the tags ui and visibility, or nil if there are none.
func (t *methodTag) ui() *mcp.ToolUI {
	uri, hasURI := t.values.Lookup("ui")
	_, hasVisibility := t.values.Lookup("visibility")
	if !hasURI && !hasVisibility {
		return nil
	}
	ui := &mcp.ToolUI{ResourceURI: uri}
	if hasVisibility {
		ui.Visibility = []mcp.ToolVisibility{}
		for _, who := range t.list("visibility") {
			ui.Visibility = append(ui.Visibility, mcp.ToolVisibility(who))
		}
	}
	return ui
}

// cacheHint parses the tags ttl and cache.
func (t *methodTag) cacheHint() (mcp.CacheHint, error) {
	ttl, err := t.duration("ttl", 0)
	if err != nil {
		return mcp.CacheHint{}, err
	}
	scope := mcp.CacheScope(t.get("cache"))
	if _, said := t.values.Lookup("cache"); said && scope != mcp.CachePrivate && scope != mcp.CachePublic {
		return mcp.CacheHint{}, fmt.Errorf(`cache must be "private" or "public", not %.40q`, scope)
	}
	return mcp.CacheHint{TTLMs: ttl.Milliseconds(), Scope: scope}, nil
}

// snakeCase converts the name of a method: ReadURL becomes read_url.
func snakeCase(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && runes[i-1] != '_' &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
