package server

import (
	"context"
	"fmt"
	"reflect"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Prompt describes a prompt at registration. Its arguments are described by
// the function's argument type.
type Prompt struct {
	// Name is what clients call it: 1 to 128 of A–Z a–z 0–9 _ - and dot.
	Name string
	// Title is for people; Description tells what the prompt is for.
	Title       string
	Description string
	Icons       []mcp.Icon
	Meta        mcp.Meta
	// Guards and CallMiddleware surround the function; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, as that of the call's target. It is never sent.
	Metadata map[string]any
}

// AddPrompt registers a function as a prompt. Args is a struct whose fields are
// the arguments, by their json names; those with omitempty, omitzero, a pointer type
// or a default are optional. Of what a jsonschema tag says, enum and default count.
// The result is what Out says: a string is one message of the user,
// []mcp.PromptMessage and *mcp.GetPromptResult are themselves. It panics, naming the
// place, when the prompt cannot be registered.
func AddPrompt[Args, Out any](s *Server, prompt Prompt, fn func(ctx context.Context, r *Request, args Args) (Out, error)) {
	s.mustAdd(NewPrompt(prompt, fn))
}

// NewPrompt checks and compiles a prompt for [Server.Replace].
func NewPrompt[Args, Out any](prompt Prompt, fn func(ctx context.Context, r *Request, args Args) (Out, error)) (*Entry, error) {
	args, err := newFields(reflect.TypeFor[Args]())
	if err != nil {
		return nil, fmt.Errorf("prompt %q: arguments: %w", prompt.Name, err)
	}
	decode := func(call *mcp.Call) (in Args, err error) { return in, decodeArguments(&in, args, call) }
	return newPrompt(prompt, args, reflect.TypeFor[Out](), decode, func(ctx context.Context, r *Request, in Args) (any, error) { return fn(ctx, r, in) })
}

// newPrompt makes the entry of a prompt, typed or annotated.
func newPrompt[In any](prompt Prompt, args *fields, out reflect.Type, decode func(*mcp.Call) (In, error), run func(ctx context.Context, r *Request, in In) (any, error)) (*Entry, error) {
	if err := checkPromptResult(out); err != nil {
		return nil, fmt.Errorf("prompt %q: %w", prompt.Name, err)
	}
	listed := &mcp.Prompt{
		Name: prompt.Name, Title: prompt.Title, Description: prompt.Description,
		Icons: prompt.Icons, Meta: prompt.Meta,
	}
	for _, a := range args.list {
		listed.Arguments = append(listed.Arguments, mcp.PromptArgument{
			Name: a.name, Description: a.description, Required: !a.optional,
		})
	}
	definition, err := listed.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("prompt %q: %w", prompt.Name, err)
	}
	e := newEntry(mcp.KindPrompt, prompt.Name, definition, prompt.Scopes, prompt.Metadata, draft{
		guards: prompt.Guards, middleware: prompt.CallMiddleware, values: args.limited(),
		bind: func(s *Server, within mcp.Middleware) mcp.Handler {
			return decoded(s, within, decode, func(ctx context.Context, r *Request, in In) (mcp.Result, error) {
				out, err := run(ctx, r, in)
				if err != nil {
					return nil, err
				}
				return promptResult(prompt.Description, out)
			})
		},
	})
	return e, e.check()
}

func decodeArguments(into any, args *fields, call *mcp.Call) error {
	raw := call.Member("arguments")
	if raw == nil {
		raw = []byte("{}")
	}
	object, err := jsonscan.ReadObject(raw)
	if err != nil {
		return invalidParams("arguments must be an object of strings: %v", err)
	}
	given := make([]string, 0, object.Len())
	for m := range object.All() {
		name := jsonscan.Unquote(m.Key)
		if m.Value[0] != '"' {
			return invalidParams("arguments: %.80q must be a string", name)
		}
		given = append(given, name)
	}
	err = args.decode(into, given, func(name string) []string {
		if value := object.Get(name); value != nil {
			return []string{jsonscan.Unquote(value)}
		}
		return nil
	})
	if err != nil {
		return invalidParams("arguments: %v", err)
	}
	return nil
}

// promptResult makes a prompt's result of what a function returned.
func promptResult(description string, out any) (mcp.Result, error) {
	switch out := out.(type) {
	case string:
		message := mcp.PromptMessage{Role: mcp.RoleUser, Content: mcp.Text(out)}
		return &mcp.GetPromptResult{Description: description, Messages: []mcp.PromptMessage{message}}, nil
	case []mcp.PromptMessage:
		return &mcp.GetPromptResult{Description: description, Messages: out}, nil
	case *mcp.GetPromptResult:
		if out != nil {
			return out, nil
		}
	}
	return nil, errNoResult
}

func checkPromptResult(t reflect.Type) error {
	switch t {
	case reflect.TypeFor[string](), reflect.TypeFor[[]mcp.PromptMessage](), reflect.TypeFor[*mcp.GetPromptResult]():
		return nil
	}
	return fmt.Errorf("a prompt gives string, []mcp.PromptMessage or *mcp.GetPromptResult, not %v", t)
}
