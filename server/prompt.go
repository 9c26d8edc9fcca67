package server

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
)

// Prompt configures a prompt. Its arguments are the fields of the function's argument type.
type Prompt struct {
	// Name has 1 to 128 characters of A–Z a–z 0–9 _ - and dot.
	Name string
	// Title is shown to people. Description explains the prompt.
	Title       string
	Description string
	// Arguments are the arguments of a function that takes a map[string]string, for prompts that are known only
	// at run time. A call needs the required ones, and must not have others. nil: the call may have any
	// arguments, and none are listed.
	Arguments []mcp.PromptArgument
	Icons     []mcp.Icon
	Meta      mcp.Meta
	// Guards and CallMiddleware apply to calls of the function; see [mcp.Guard].
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, in [mcp.Target]. It is not sent to clients.
	Metadata map[string]any
}

// AddPrompt registers a function as a prompt. Args is a struct whose fields are the arguments, with
// the names of their json tags. Fields with omitempty, omitzero, a pointer type or a default are
// optional; null for an optional argument means that it is absent. Of the tags that [schema.ForType]
// describes, the description, enum, default and required are used. Args may also be map[string]string; see
// [Prompt].Arguments. A result of type string is one message of the user; []mcp.PromptMessage and
// *mcp.GetPromptResult are used as they are. The function is called concurrently. AddPrompt panics, with the file and line of the caller, if the prompt cannot
// be registered.
func AddPrompt[Args, Out any](s *Server, prompt Prompt, fn func(ctx context.Context, r *Request, args Args) (Out, error)) {
	s.mustAdd(NewPrompt(prompt, fn))
}

// NewPrompt returns the entry of a prompt, for [Server.Replace] or [NewCatalog]. The error explains
// why the prompt is invalid.
func NewPrompt[Args, Out any](prompt Prompt, fn func(ctx context.Context, r *Request, args Args) (Out, error)) (*Entry, error) {
	return newPrompt(&prompt, nil, reflect.TypeFor[Args](), reflect.TypeFor[Out](), func(ctx context.Context, r *Request, in any) (any, error) {
		out, err := fn(ctx, r, *in.(*Args))
		return &out, err
	})
}

// promptFeature is prompts/list and prompts/get.
var promptFeature = feature{
	methods: []method{
		{name: mcp.MethodPromptsList, list: mcp.KindPrompt},
		{name: mcp.MethodPromptsGet, kinds: []mcp.Kind{mcp.KindPrompt}, unknown: unknownEntry},
	},
	needed:  func(c *Catalog, more bool) bool { return more || c.Len(mcp.KindPrompt) > 0 },
	declare: func(has *mcp.ServerCapabilities) { has.Prompts = &mcp.PromptsCapability{ListChanged: true} },
}

// newPrompt returns the entry of a typed or annotated prompt. describe returns the description of an argument without a
// tag for it; it may be nil.
func newPrompt(prompt *Prompt, describe func(argument string) string, in, out reflect.Type, fn function) (*Entry, error) {
	args, err := newFields(in)
	if err == nil && prompt.Arguments != nil {
		err = args.declare(prompt.Arguments)
	}
	if err != nil {
		return nil, fmt.Errorf("prompt %q: arguments: %w", prompt.Name, err)
	}
	if err := checkPromptResult(out); err != nil {
		return nil, fmt.Errorf("prompt %q: %w", prompt.Name, err)
	}
	listed := &mcp.Prompt{
		Name: prompt.Name, Title: prompt.Title, Description: prompt.Description,
		Icons: prompt.Icons, Meta: prompt.Meta, Arguments: prompt.Arguments,
	}
	if listed.Arguments == nil {
		for _, a := range args.list {
			if a.description == "" && describe != nil {
				a.description = describe(a.name)
			}
			listed.Arguments = append(listed.Arguments, mcp.PromptArgument{
				Name: a.name, Description: a.description, Required: !a.optional,
			})
		}
	}
	definition, err := listed.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("prompt %q: %w", prompt.Name, err)
	}
	e := newEntry(mcp.KindPrompt, prompt.Name, definition, prompt.Scopes, prompt.Metadata, pending{
		guards: prompt.Guards, middleware: prompt.CallMiddleware, values: args.allowedValues(),
		bind: func(s *Server, middleware mcp.Middleware) mcp.Handler {
			return decodeAndRun(s, middleware, func(_ context.Context, call *mcp.Call) (any, error) {
				value := reflect.New(in).Interface()
				return value, decodeArguments(value, args, call)
			}, func(ctx context.Context, r *Request, in any) (mcp.Result, error) {
				out, err := fn(ctx, r, in)
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
	if raw == nil || string(raw) == "null" {
		raw = []byte("{}")
	}
	object, err := jsonscan.ReadObject(raw)
	if err != nil {
		return invalidParams("arguments must be an object of strings: %v", err)
	}
	given := make([]string, 0, object.Len())
	for m := range object.All() {
		name := jsonscan.Unquote(m.Key)
		if string(m.Value) == "null" && args.isOptional(name) {
			continue
		}
		if m.Value[0] != '"' {
			return invalidParams("arguments: %.80q must be a string", name)
		}
		given = append(given, name)
	}
	err = args.decode(into, given, func(name string) []string {
		if value := object.Get(name); value != nil && value[0] == '"' {
			return []string{jsonscan.Unquote(value)}
		}
		return nil
	})
	if err != nil {
		return invalidParams("arguments: %v", err)
	}
	return nil
}

// promptResult converts what out points to, the result of a function.
func promptResult(description string, out any) (mcp.Result, error) {
	switch out := out.(type) {
	case *string:
		message := mcp.PromptMessage{Role: mcp.RoleUser, Content: mcp.Text(*out)}
		return &mcp.GetPromptResult{Description: description, Messages: []mcp.PromptMessage{message}}, nil
	case *[]mcp.PromptMessage:
		return &mcp.GetPromptResult{Description: description, Messages: *out}, nil
	case **mcp.GetPromptResult:
		if *out != nil {
			return *out, nil
		}
	}
	return nil, errNoResult
}

func checkPromptResult(t reflect.Type) error {
	switch t {
	case reflect.TypeFor[string](), reflect.TypeFor[[]mcp.PromptMessage](), reflect.TypeFor[*mcp.GetPromptResult]():
		return nil
	}
	return fmt.Errorf("a prompt returns string, []mcp.PromptMessage or *mcp.GetPromptResult, not %v", t)
}

// maxCompletions is the maximum number of values in one answer. MCP 2025-11-25,
// server/utilities/completion.
const maxCompletions = 100

// Completion says what a function completes: an argument of a prompt, or a variable of a resource
// template.
type Completion struct {
	// Prompt is the name of the prompt, and Template is the URI template. Exactly one of them is
	// set.
	Prompt   string
	Template string
	// Argument is the name of the argument or variable.
	Argument string
}

// AddCompletion registers a function that completes what a user has typed. others are the values of
// other arguments, as far as the client knows them (since 2025-06-18). If the function returns more
// than 100 values, the client gets the first 100, and the information that there are more. A function that
// returns only a part of the values says so with an [mcp.CompletionValues]: the client gets its Total and
// HasMore. A nil pointer means no values. The
// guards of the prompt or template apply. The completion may be registered before its prompt or
// template. The function is called concurrently. AddCompletion panics, with the file and line of
// the caller, if the completion cannot be registered.
func AddCompletion[Out []string | *mcp.CompletionValues](s *Server, completion Completion, fn func(ctx context.Context, r *Request, typed string, others map[string]string) (Out, error)) {
	s.mustAdd(NewCompletion(completion, fn))
}

// NewCompletion returns the entry of a completion, for [Server.Replace]. The error explains why the
// completion is invalid.
func NewCompletion[Out []string | *mcp.CompletionValues](completion Completion, fn func(ctx context.Context, r *Request, typed string, others map[string]string) (Out, error)) (*Entry, error) {
	return newCompletion(completion, func(ctx context.Context, r *Request, typed string, others map[string]string) (any, error) {
		return fn(ctx, r, typed, others)
	})
}

// newCompletion returns the entry of a typed or annotated completion. fn returns []string or *mcp.CompletionValues.
func newCompletion(completion Completion, fn func(ctx context.Context, r *Request, typed string, others map[string]string) (any, error)) (*Entry, error) {
	if (completion.Prompt == "") == (completion.Template == "") || completion.Argument == "" {
		return nil, fmt.Errorf("completion {Prompt:%s Template:%s Argument:%s}: one of Prompt and Template, and Argument, must be set",
			completion.Prompt, completion.Template, completion.Argument)
	}
	of := mcp.Target{Kind: mcp.KindPrompt, Name: completion.Prompt}
	if completion.Template != "" {
		of = mcp.Target{Kind: mcp.KindResourceTemplate, Name: completion.Template}
	}
	return &Entry{Target: of, pending: &pending{argument: completion.Argument, bind: func(s *Server, _ mcp.Middleware) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
			defer recoverPanic(&err)
			typed, err := stringMember(call, "argument", "value")
			if err != nil {
				return nil, err
			}
			others, err := otherArguments(call)
			if err != nil {
				return nil, err
			}
			values, err := fn(ctx, &Request{ctx: ctx, call: call, server: s}, typed, others)
			if err != nil {
				return nil, functionErrorOf(err)
			}
			return completionResult(values), nil
		}
	}}}, nil
}

func otherArguments(call *mcp.Call) (map[string]string, error) {
	raw := call.Member("context", "arguments")
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	object, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, invalidParams("context.arguments must be an object of strings: %v", err)
	}
	known := make(map[string]string, object.Len())
	for m := range object.All() {
		if m.Value[0] != '"' {
			return nil, invalidParams("context.arguments must be an object of strings")
		}
		known[jsonscan.Unquote(m.Key)] = jsonscan.Unquote(m.Value)
	}
	return known, nil
}

// completionFeature is completion/complete, for prompts and templates.
var completionFeature = feature{
	methods: []method{{
		name: mcp.MethodComplete, kinds: []mcp.Kind{mcp.KindPrompt, mcp.KindResourceTemplate}, target: completionTarget,
		unknown: func(call *mcp.Call, _ mcp.Kind, name string) error {
			return unknownArgument(jsonscan.Unquote(call.Member("argument", "name")), name)
		},
		handle: (*Server).complete,
	}},
	needed:  func(c *Catalog, more bool) bool { return more || c.completes() },
	declare: func(has *mcp.ServerCapabilities) { has.Completions = &mcp.EmptyObject{} },
}

// completes reports whether any prompt or template has completions.
func (c *Catalog) completes() bool {
	for _, kind := range []mcp.Kind{mcp.KindPrompt, mcp.KindResourceTemplate} {
		for e := range c.All(kind) {
			if e.Complete != nil {
				return true
			}
		}
	}
	return false
}

// completionTarget returns the kind and quoted name of the entry that a call completes.
func completionTarget(call *mcp.Call) (kind mcp.Kind, name []byte, err error) {
	if _, err := stringMember(call, "argument", "name"); err != nil {
		return 0, nil, err
	}
	member := "uri"
	switch of, _ := stringMember(call, "ref", "type"); of {
	case "ref/prompt":
		kind, member = mcp.KindPrompt, "name"
	case "ref/resource":
		kind = mcp.KindResourceTemplate
	default:
		return 0, nil, invalidParams(`ref.type must be "ref/prompt" or "ref/resource"`)
	}
	if name = call.Member("ref", member); jsonscan.KindOf(name) != jsonscan.String {
		return 0, nil, invalidParams("%s must be a string", member)
	}
	return kind, name, nil
}

// complete answers completion/complete for an entry.
func (s *Server) complete(ctx context.Context, call *mcp.Call, e *Entry) (mcp.Result, error) {
	switch {
	case !e.visibleTo(ctx, call.Caller):
		return nil, s.unknownName(call)
	case e.Complete == nil:
		return emptyCompletion(call, e)
	}
	return e.Complete(ctx, call)
}

// emptyCompletion answers for an argument without completions. It returns an error for an unknown
// argument.
func emptyCompletion(call *mcp.Call, e *Entry) (mcp.Result, error) {
	argument := jsonscan.Unquote(call.Member("argument", "name"))
	if !slices.Contains(e.argumentNames(), argument) {
		return nil, unknownArgument(argument, e.Name)
	}
	if _, err := stringMember(call, "argument", "value"); err != nil {
		return nil, err
	}
	return completionResult([]string(nil)), nil
}

// argumentNames returns the names of a prompt's arguments, or of a template's variables.
func (e *Entry) argumentNames() []string {
	if e.Kind == mcp.KindResourceTemplate {
		template, err := uritemplate.Parse(e.Name)
		if err != nil {
			return nil
		}
		return template.Names()
	}
	var prompt mcp.Prompt
	if err := prompt.UnmarshalJSON(e.Definition.JSON()); err != nil {
		return nil
	}
	names := make([]string, len(prompt.Arguments))
	for i, a := range prompt.Arguments {
		names[i] = a.Name
	}
	return names
}

// completionResult returns the answer with as many of the values as it may hold.
func completionResult(found any) mcp.Result {
	var completion mcp.CompletionValues
	switch found := found.(type) {
	case []string:
		completion = mcp.CompletionValues{Values: found, Total: new(len(found))}
	case *mcp.CompletionValues:
		if found != nil {
			completion = *found
		}
	}
	if all := len(completion.Values); all > maxCompletions {
		completion.HasMore = true
		if completion.Total == nil {
			completion.Total = &all
		}
	}
	completion.Values = append([]string{}, completion.Values[:min(len(completion.Values), maxCompletions)]...)
	return &mcp.CompleteResult{Completion: completion}
}
