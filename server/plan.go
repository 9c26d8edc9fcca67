package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/codec"
	"github.com/dovetail-go/dovetail/mcp"
)

// A plan is how a method of a service is called: made once, by reflection.
type plan struct {
	service   reflect.Value
	method    reflect.Value // takes the service first: a bound method costs more to call
	sources   []source
	arguments reflect.Type // the annotated struct
	tag       *methodTag
	result    reflect.Type // nil: an error only
	// structured says that a tool's result is a value with a schema, not content.
	structured bool
	codec      *codec.Codec // of the result, if it is structured
}

// A source is where a parameter of a method comes from.
type source struct {
	kind sourceKind
	of   reflect.Type // of a dependency
}

type sourceKind uint8

const (
	fromContext sourceKind = iota
	fromRequest
	fromArguments
	fromLifespan
)

var (
	contextType = reflect.TypeFor[context.Context]()
	requestType = reflect.TypeFor[*Request]()
	errorType   = reflect.TypeFor[error]()
)

const wouldFit = "; a method takes a context.Context, a struct with a blank field of type ToolTag, ResourceTag, PromptTag or CompletionTag, " +
	"and as it likes a *server.Request and values of Options.Lifespan; it returns an error, or a result and an error"

// newPlan finds out how to call a method.
func newPlan(service reflect.Value, method reflect.Method) (*plan, error) {
	t := service.Method(method.Index).Type()
	p := &plan{service: service, method: method.Func}
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
			p.sources = append(p.sources, source{kind: fromContext})
		case in == requestType:
			p.sources = append(p.sources, source{kind: fromRequest})
		case tag != nil && p.tag != nil:
			return nil, errors.New("it takes two annotated structs" + wouldFit)
		case tag != nil:
			p.tag, p.arguments = tag, in
			p.sources = append(p.sources, source{kind: fromArguments})
		default:
			p.sources = append(p.sources, source{fromLifespan, in})
		}
	}
	if p.tag == nil {
		return nil, errors.New("it takes no annotated struct" + wouldFit)
	}
	switch {
	case t.NumOut() == 1 && t.Out(0) == errorType:
	case t.NumOut() == 2 && t.Out(1) == errorType:
		p.result = t.Out(0)
	default:
		return nil, errors.New("its results do not fit" + wouldFit)
	}
	return p, nil
}

// needs are the types of the dependencies that the method takes.
func (p *plan) needs() []reflect.Type {
	var types []reflect.Type
	for _, s := range p.sources {
		if s.kind == fromLifespan {
			types = append(types, s.of)
		}
	}
	return types
}

// call calls the method. What it returns is nil if the method has no result.
func (p *plan) call(ctx context.Context, r *Request, arguments reflect.Value) (any, error) {
	var room [8]reflect.Value
	in := append(room[:0], p.service)
	for _, s := range p.sources {
		switch s.kind {
		case fromContext:
			in = append(in, reflect.ValueOf(ctx))
		case fromRequest:
			in = append(in, reflect.ValueOf(r))
		case fromArguments:
			in = append(in, arguments)
		case fromLifespan:
			in = append(in, dependency(r, s.of))
		}
	}
	out := p.method.Call(in)
	err, _ := reflect.TypeAssert[error](out[len(out)-1])
	if p.result == nil || err != nil {
		return nil, err
	}
	return out[0].Interface(), nil
}

// dependency is a value of the lifespan. Registration has seen to it that there is one.
func dependency(r *Request, of reflect.Type) reflect.Value {
	value := r.server.life.values[of]
	if value == nil {
		return reflect.Zero(of)
	}
	return reflect.ValueOf(value)
}

// checkNeeds refuses entries that need what the server does not have.
func (s *Server) checkNeeds(entries []Entry) error {
	for _, e := range entries {
		for _, needed := range e.needs() {
			if !s.provides(needed) {
				return fmt.Errorf("the method of the %v %q takes a %v, which Options.Lifespan does not provide: it provides %s, and types must be the same%s",
					e.key().kind, e.key().label(), needed, s.provided(), wouldFit)
			}
		}
	}
	return nil
}

func (s *Server) provides(t reflect.Type) bool {
	return slices.ContainsFunc(s.options.Lifespan, func(d Dependency) bool { return d.of == t })
}

// provided lists the types of the dependencies.
func (s *Server) provided() string {
	if len(s.options.Lifespan) == 0 {
		return "nothing"
	}
	types := make([]string, len(s.options.Lifespan))
	for i, d := range s.options.Lifespan {
		types[i] = d.of.String()
	}
	return strings.Join(types, ", ")
}

// toolResult is what a method gave as a tool's result.
func (p *plan) toolResult(ctx context.Context, r *Request, arguments reflect.Value) (mcp.Result, error) {
	out, err := p.call(ctx, r, arguments)
	if err != nil {
		return nil, err
	}
	switch {
	case p.result == nil:
		return contentResult(), nil
	case p.structured && p.result.Kind() == reflect.Pointer:
		return newPointed(p.codec, out)
	case p.structured:
		return newStructured(p.codec, out)
	}
	return anyResult(out)
}
