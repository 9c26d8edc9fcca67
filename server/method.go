package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A binding is how a method of a service is called: made once, by reflection.
type binding struct {
	service   reflect.Value
	method    reflect.Value // takes the service first: a bound method costs more to call
	params    []param
	arguments reflect.Type // the annotated struct
	tag       *methodTag
	result    reflect.Type // nil: an error only
	chunk     reflect.Type // of a stream, in place of the result
}

// A param is where a parameter of a method comes from.
type param struct {
	source source
	of     reflect.Type // of a dependency
}

type source uint8

const (
	fromContext source = iota
	fromRequest
	fromArguments
	fromDependencies
)

var (
	contextType = reflect.TypeFor[context.Context]()
	requestType = reflect.TypeFor[*Request]()
	errorType   = reflect.TypeFor[error]()
)

const wouldFit = "; a method takes a context.Context, a struct with a blank field of type ToolTag, ResourceTag, PromptTag or CompletionTag, " +
	"and as it likes a *server.Request and values of Options.Dependencies; it returns an error, a result and an error, or a stream"

// bindMethod finds out how to call a method.
func bindMethod(service reflect.Value, method reflect.Method) (*binding, error) {
	t := service.Method(method.Index).Type()
	b := &binding{service: service, method: method.Func}
	if t.IsVariadic() {
		return nil, errors.New("it must not be variadic" + wouldFit)
	}
	seen := make(map[reflect.Type]bool)
	for in := range t.Ins() {
		if seen[in] {
			return nil, fmt.Errorf("it takes two values of type %v%s", in, wouldFit)
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
			return nil, errors.New("it takes two annotated structs" + wouldFit)
		case tag != nil:
			b.tag, b.arguments = tag, in
			b.params = append(b.params, param{source: fromArguments})
		default:
			b.params = append(b.params, param{fromDependencies, in})
		}
	}
	if b.tag == nil {
		return nil, errors.New("it takes no annotated struct" + wouldFit)
	}
	switch {
	case t.NumOut() == 1 && t.Out(0) == errorType:
	case t.NumOut() == 1 && isStream(t.Out(0)) && b.tag.of == reflect.TypeFor[ToolTag]():
		b.chunk = t.Out(0).In(0).In(0)
	case t.NumOut() == 2 && t.Out(1) == errorType:
		b.result = t.Out(0)
	default:
		return nil, errors.New("its results do not fit" + wouldFit)
	}
	return b, nil
}

// isStream reports whether a type is an iter.Seq2[Chunk, error].
func isStream(t reflect.Type) bool {
	return t.CanSeq2() && t.Kind() == reflect.Func && t.In(0).In(1) == errorType
}

// dependencies are the types of the dependencies that the method takes.
func (b *binding) dependencies() []reflect.Type {
	var types []reflect.Type
	for _, p := range b.params {
		if p.source == fromDependencies {
			types = append(types, p.of)
		}
	}
	return types
}

// call calls the method. What it returns is nil if the method has no result.
func (b *binding) call(ctx context.Context, r *Request, arguments reflect.Value) (any, error) {
	out := b.invoke(ctx, r, arguments)
	err, _ := reflect.TypeAssert[error](out[len(out)-1])
	if b.result == nil || err != nil {
		return nil, err
	}
	return out[0].Interface(), nil
}

func (b *binding) invoke(ctx context.Context, r *Request, arguments reflect.Value) []reflect.Value {
	var room [8]reflect.Value
	in := append(room[:0], b.service)
	for _, p := range b.params {
		switch p.source {
		case fromContext:
			in = append(in, reflect.ValueOf(ctx))
		case fromRequest:
			in = append(in, reflect.ValueOf(r))
		case fromArguments:
			in = append(in, arguments)
		case fromDependencies:
			value, _ := r.dependency(p.of) // registration has made sure that there is one
			if value == nil {
				in = append(in, reflect.Zero(p.of))
			} else {
				in = append(in, reflect.ValueOf(value))
			}
		}
	}
	return b.method.Call(in)
}

// caller returns what calls the method of a tool, and the type of the values that it
// returns. A stream is sent, and reduced to a value.
func (b *binding) caller() (call func(ctx context.Context, r *Request, arguments reflect.Value) (any, error), out reflect.Type, err error) {
	reduce := b.tag.text("reduce")
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
	case reduce == "last":
		out = b.chunk
	default:
		return nil, nil, fmt.Errorf("reduce must be list or last, or join for text, not %.40q", reduce)
	}
	return func(ctx context.Context, r *Request, arguments reflect.Value) (any, error) {
		return b.stream(ctx, r, arguments, reduce, out)
	}, out, nil
}

// stream sends the chunks of a stream, and reduces them.
func (b *binding) stream(ctx context.Context, r *Request, arguments reflect.Value, reduce string, out reflect.Type) (any, error) {
	chunks := b.invoke(ctx, r, arguments)[0]
	value := reflect.New(out).Elem()
	if reduce == "list" {
		value.Set(reflect.MakeSlice(out, 0, 0))
	}
	var text strings.Builder
	var chunk reflect.Value
	err := forward(ctx, r, func(yield func(any, error) bool) {
		for next, failure := range chunks.Seq2() {
			err, _ := reflect.TypeAssert[error](failure)
			if chunk = next; !yield(chunk.Interface(), err) {
				return
			}
		}
	}, func(any) bool {
		switch reduce {
		case "join":
			text.WriteString(chunk.String())
		case "list":
			value.Set(reflect.Append(value, chunk))
		default:
			value.Set(chunk)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	if reduce == "join" {
		return text.String(), nil
	}
	return value.Interface(), nil
}

// checkDependencies refuses an entry that takes what the server does not have.
func (s *Server) checkDependencies(e *Entry) error {
	if e.draft == nil {
		return nil
	}
	for _, taken := range e.draft.dependencies {
		if !slices.ContainsFunc(s.options.Dependencies, func(d Dependency) bool { return d.of == taken }) {
			return fmt.Errorf("the method of the %v takes a %v, which Options.Dependencies does not provide: it provides %s, and types must be the same%s",
				e.completionKey(), taken, s.provided(), wouldFit)
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
		types[i] = d.of.String()
	}
	return strings.Join(types, ", ")
}

// What a service says of all its methods.
type (
	withAnnotations  interface{ Annotations() Annotations }
	withDescriptions interface{ Descriptions() Descriptions }
)

// checkService refuses a type some of whose methods would be passed over without a
// word: guards that are left out are worse than a service that does not start.
func checkService(t reflect.Type) error {
	if t.Kind() != reflect.Pointer {
		for method := range reflect.PointerTo(t).Methods() {
			if _, ok := t.MethodByName(method.Name); !ok && takesContext(method.Type) {
				return needsPointer(t, method.Name)
			}
		}
	}
	if err := checkCommon(t, reflect.TypeFor[withAnnotations]()); err != nil {
		return err
	}
	return checkCommon(t, reflect.TypeFor[withDescriptions]())
}

// checkCommon looks for a method that was meant to be the one of an interface.
func checkCommon(t, common reflect.Type) error {
	if t.Implements(common) {
		return nil
	}
	wanted := common.Method(0)
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(common) {
		return needsPointer(t, wanted.Name)
	}
	if method, ok := t.MethodByName(wanted.Name); ok && gives(method.Type, wanted.Type.Out(0)) {
		return fmt.Errorf("its method %s must be func() %v", wanted.Name, wanted.Type.Out(0))
	}
	for _, embedded := range embeddedIn(t) {
		if embedded.Implements(common) || reflect.PointerTo(embedded).Implements(common) {
			return fmt.Errorf("the method %s of the embedded %v is not promoted, since it is not the only one: the service needs its own", wanted.Name, embedded)
		}
	}
	return nil
}

func needsPointer(t reflect.Type, method string) error {
	return fmt.Errorf("its method %s has a pointer receiver: register a *%v", method, t)
}

// gives reports whether a method gives a value of the type, or something like it.
func gives(method, wanted reflect.Type) bool {
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

// embeddedIn are the types of all embedded fields.
func embeddedIn(t reflect.Type) []reflect.Type {
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
