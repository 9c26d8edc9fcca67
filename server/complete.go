package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxCompletions is how many values an answer may hold. MCP 2025-11-25,
// server/utilities/completion.
const maxCompletions = 100

// A Completion says what is completed: an argument of a prompt, or a variable of
// a resource template.
type Completion struct {
	// Prompt is the prompt's name, Template the URI template; one of them is
	// set.
	Prompt   string
	Template string
	// Argument is the argument's or the variable's name.
	Argument string
}

// AddCompletion registers a function that completes what a person has typed so
// far. others are the values of other arguments that are known already (since
// 2025-06-18). More than 100 values are cut, and the client gets to know that there are
// more. The guards of the prompt or template surround the function; it may be registered
// before that. It panics, naming the place, when the completion cannot be registered.
func AddCompletion(s *Server, completion Completion, fn func(ctx context.Context, r *Request, typed string, others map[string]string) ([]string, error)) {
	s.mustAdd(NewCompletion(completion, fn))
}

// NewCompletion checks a completion for [Server.Replace].
func NewCompletion(completion Completion, fn func(ctx context.Context, r *Request, typed string, others map[string]string) ([]string, error)) (*Entry, error) {
	if (completion.Prompt == "") == (completion.Template == "") || completion.Argument == "" {
		return nil, fmt.Errorf("completion {Prompt:%s Template:%s Argument:%s}: one of Prompt and Template, and Argument, must be set",
			completion.Prompt, completion.Template, completion.Argument)
	}
	of := mcp.Target{Kind: mcp.KindPrompt, Name: completion.Prompt}
	if completion.Template != "" {
		of = mcp.Target{Kind: mcp.KindResourceTemplate, Name: completion.Template}
	}
	return &Entry{Target: of, draft: &draft{argument: completion.Argument, bind: func(s *Server, _ mcp.Middleware) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (result mcp.Result, err error) {
			defer recovered(&err)
			typed, err := stringMember(call, "argument", "value")
			if err != nil {
				return nil, err
			}
			others, err := knownArguments(call)
			if err != nil {
				return nil, err
			}
			values, err := fn(ctx, &Request{call, s}, typed, others)
			if err != nil {
				return nil, own(err)
			}
			return completed(values), nil
		}
	}}}, nil
}

func knownArguments(call *mcp.Call) (map[string]string, error) {
	raw := call.Member("context", "arguments")
	if raw == nil {
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

// completes returns the kind and the name, in quotes, of what a call wants completed.
func completes(call *mcp.Call) (kind mcp.Kind, name []byte, err error) {
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
func complete(ctx context.Context, call *mcp.Call, e *Entry) (mcp.Result, error) {
	switch {
	case e == nil, e.Visible != nil && !e.Visible(ctx, call.Caller):
		return nil, unknown(call)
	case e.Complete == nil:
		return completeNothing(call, e)
	}
	return e.Complete(ctx, call)
}

// completeNothing answers for an argument without values. One that does not exist is an
// error.
func completeNothing(call *mcp.Call, e *Entry) (mcp.Result, error) {
	argument := jsonscan.Unquote(call.Member("argument", "name"))
	if !slices.Contains(e.arguments(), argument) {
		return nil, noArgument(argument, e.Name)
	}
	if _, err := stringMember(call, "argument", "value"); err != nil {
		return nil, err
	}
	return completed(nil), nil
}

// arguments are the names of a prompt's arguments, or of a template's variables.
func (e *Entry) arguments() []string {
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

// completed is the answer with these values, as many as it may hold.
func completed(values []string) mcp.Result {
	total := len(values)
	shown := append([]string{}, values[:min(total, maxCompletions)]...)
	return &mcp.CompleteResult{Completion: mcp.CompletionValues{Values: shown, Total: &total, HasMore: total > maxCompletions}}
}
