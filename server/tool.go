package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/mirror"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// A Tool describes a tool at registration.
type Tool struct {
	// Name is what clients call it: 1 to 128 of A–Z a–z 0–9 _ - and dot.
	Name string
	// Title is for people; Description tells a model what the tool does.
	Title       string
	Description string
	// Annotations are hints; absent ones mean what the protocol says.
	Annotations *mcp.ToolAnnotations
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// InputSchema and OutputSchema are reflected from the function's types
	// unless they are given here. An input schema is an object's. Properties
	// in it that are annotated with x-mcp-header, and so mirrored into HTTP
	// headers, must follow the protocol's rules for that (since 2026-07-28).
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage
	// Timeout bounds one run of a call, guards included, cooperatively: its context
	// ends, and the reply goes out when the function returns. Time spent waiting for a
	// person does not count. 0 means no bound.
	Timeout time.Duration
	// Guards and CallMiddleware surround the function; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, as that of the call's target. It is never sent.
	Metadata map[string]any
}

// AddTool registers a function as a tool. Arguments are validated against In's
// schema and decoded; the result is what Out says:
//
//   - string: text;
//   - an [mcp.Content] type, []mcp.Content or [mcp.ContentList]: that content;
//   - *mcp.CallToolResult: the result as it is;
//   - anything else: structured content with an output schema, and the same JSON
//     as text. A nil pointer is an error. []byte is refused, since it does not say
//     what it holds, and so are results and content that are no pointers.
//
// It panics, naming the place, when the tool cannot be registered.
func AddTool[In, Out any](s *Server, tool Tool, fn func(ctx context.Context, r *Request, in In) (Out, error)) {
	s.mustAdd(NewTool(tool, fn))
}

// NewTool checks and compiles a tool for [Server.Replace].
func NewTool[In, Out any](tool Tool, fn func(ctx context.Context, r *Request, in In) (Out, error)) (*Entry, error) {
	decoder, err := schema.NewDecoder[In](&schema.DecoderOptions{Schema: tool.InputSchema})
	if err != nil {
		return nil, fmt.Errorf("tool %q: arguments: %w", tool.Name, err)
	}
	tool.InputSchema = decoder.Schema()
	return newTool(tool, reflect.TypeFor[Out](), decoder.Decode, func(ctx context.Context, r *Request, in In, o *output) (mcp.Result, error) {
		out, err := fn(ctx, r, in)
		if err != nil {
			return nil, err
		}
		return typedResult(o, out)
	})
}

// AddRawTool registers a function that takes its arguments as the JSON they came
// in, valid by tool.InputSchema, which must be given. It panics, naming the
// place, when the tool cannot be registered.
func AddRawTool(s *Server, tool Tool, fn func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error)) {
	s.mustAdd(NewRawTool(tool, fn))
}

// NewRawTool checks and compiles a raw tool for [Server.Replace].
func NewRawTool(tool Tool, fn func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error)) (*Entry, error) {
	if err := checkInput(tool.InputSchema); err != nil {
		return nil, fmt.Errorf("tool %q: InputSchema: %w", tool.Name, err)
	}
	validator, err := schema.Compile(tool.InputSchema, nil)
	if err != nil {
		return nil, fmt.Errorf("tool %q: InputSchema: %w", tool.Name, err)
	}
	decode := func(arguments json.RawMessage) (json.RawMessage, error) {
		if arguments == nil || string(arguments) == "null" {
			arguments = json.RawMessage("{}")
		}
		return arguments, validator.Validate(arguments)
	}
	return newTool(tool, reflect.TypeFor[any](), decode, func(ctx context.Context, r *Request, arguments json.RawMessage, _ *output) (mcp.Result, error) {
		return fn(ctx, r, arguments)
	})
}

// newTool makes the entry of a tool: typed, raw or annotated, which differ in how arguments
// are decoded and how run encodes results of the type out.
func newTool[In any](tool Tool, out reflect.Type, decode func(json.RawMessage) (In, error), run func(ctx context.Context, r *Request, in In, o *output) (mcp.Result, error)) (*Entry, error) {
	fail := func(part string, err error) (*Entry, error) {
		return nil, fmt.Errorf("tool %q: %s%w", tool.Name, part, err)
	}
	if err := checkInput(tool.InputSchema); err != nil {
		return fail("arguments: ", err)
	}
	check, err := newOutputCheck(tool.OutputSchema)
	if err != nil {
		return fail("OutputSchema: ", err)
	}
	o, err := newOutput(out, tool.OutputSchema)
	if err != nil {
		return fail("result: ", err)
	}
	definition, err := (&mcp.Tool{
		Name: tool.Name, Title: tool.Title, Description: tool.Description,
		InputSchema: tool.InputSchema, OutputSchema: o.schema,
		Annotations: tool.Annotations, Icons: tool.Icons, Meta: tool.Meta,
	}).AppendJSON(make([]byte, 0, 128+len(tool.Description)+len(tool.InputSchema)+len(o.schema)))
	if err != nil {
		return fail("", err)
	}
	e := newEntry(mcp.KindTool, tool.Name, definition, tool.Scopes, tool.Metadata, draft{
		guards: tool.Guards, middleware: tool.CallMiddleware, timeout: tool.Timeout,
		bind: func(s *Server, within mcp.Middleware) mcp.Handler {
			return decoded(s, within, func(call *mcp.Call) (In, error) {
				arguments := call.Member("arguments")
				if arguments != nil && arguments[0] != '{' && string(arguments) != "null" {
					var none In
					return none, invalidParams("arguments must be an object")
				}
				in, err := decode(arguments)
				return in, own(err)
			}, func(ctx context.Context, r *Request, in In) (mcp.Result, error) {
				result, err := run(ctx, r, in, &o)
				if err != nil {
					return nil, err
				}
				return result, check.result(r, tool.Name, result)
			})
		},
	})
	return e, e.check()
}

// newEntry makes an entry of a server's own.
func newEntry(kind mcp.Kind, name string, definition []byte, scopes []string, metadata map[string]any, d draft) *Entry {
	d.guards, d.middleware = slices.Clone(d.guards), slices.Clone(d.middleware)
	return &Entry{Target: mcp.Target{
		Kind: kind, Name: name, Definition: mcp.NewDefinition(definition),
		Scopes: slices.Clone(scopes), Metadata: maps.Clone(metadata),
	}, draft: &d}
}

// checkInput refuses what no version of the protocol has a form for, and what
// makes clients drop the tool: bad x-mcp-header annotations.
func checkInput(inputSchema json.RawMessage) error {
	if !isObject(inputSchema) {
		return errors.New(`a tool takes an object: the schema needs "type":"object" at its root`)
	}
	_, err := mirror.Compile(inputSchema)
	return err
}
