package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
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
	// Around stands around the function.
	Around Around
}

// AddCompletion registers a function that completes what a person has typed so
// far. others are the values of other arguments that are known already (since
// 2025-06-18). More than 100 values are cut, and the client is told that there are
// more. It panics, naming the place, when the completion cannot be registered.
func AddCompletion(s *Server, completion Completion, fn func(ctx context.Context, r *Request, typed string, others map[string]string) ([]string, error)) {
	s.mustAdd(NewCompletion(completion, fn))
}

// NewCompletion checks a completion for [Server.Replace].
func NewCompletion(completion Completion, fn func(ctx context.Context, r *Request, typed string, others map[string]string) ([]string, error)) (Entry, error) {
	if (completion.Prompt == "") == (completion.Template == "") || completion.Argument == "" {
		return nil, fmt.Errorf("completion {Prompt:%s Template:%s Argument:%s}: one of Prompt and Template, and Argument, must be set",
			completion.Prompt, completion.Template, completion.Argument)
	}
	return &completionEntry{attended{of: completion.key(), around: completion.Around}, fn}, nil
}

type completionEntry struct {
	attended
	fn func(ctx context.Context, r *Request, typed string, others map[string]string) ([]string, error)
}

// completionMark keeps the parts of a completion's key apart: none of them holds it.
const completionMark = "\x00"

func (c Completion) key() entryKey {
	return entryKey{completionKind, c.Prompt + completionMark + c.Template + completionMark + c.Argument}
}

// completion is the key of the completion of an argument of a prompt or template.
func (k entryKey) completion(argument string) entryKey {
	if k.kind == promptKind {
		return Completion{Prompt: k.name, Argument: argument}.key()
	}
	return Completion{Template: k.name, Argument: argument}.key()
}

// about is the key of the prompt or template that a completion is about; any other key
// is about itself.
func (k entryKey) about() entryKey {
	if k.kind != completionKind {
		return k
	}
	if template, ok := strings.CutPrefix(k.name, completionMark); ok {
		template, _, _ = strings.Cut(template, completionMark)
		return entryKey{templateKind, template}
	}
	prompt, _, _ := strings.Cut(k.name, completionMark)
	return entryKey{promptKind, prompt}
}

// label is the name as callers know it.
func (k entryKey) label() string { return k.about().name }

func (e *completionEntry) listed() Listed { return Listed{} }

func (e *completionEntry) within(more Around) Entry {
	inner := *e
	inner.around = e.around.within(more)
	return &inner
}

func (e *completionEntry) call(ctx context.Context, s *Server, call *mcp.Call) (mcp.Result, error) {
	return e.answer(ctx, s, call, func(ctx context.Context, r *Request) (mcp.Result, error) {
		typed, err := stringMember(r.call, "argument", "value")
		if err != nil {
			return nil, err
		}
		others, err := knownArguments(r.call)
		if err != nil {
			return nil, err
		}
		return inner(ctx, r, typed, func(ctx context.Context, r *Request, typed string) (mcp.Result, error) {
			values, err := e.fn(ctx, r, typed, others)
			if err != nil {
				return nil, err
			}
			return completed(values), nil
		})
	})
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

// complete answers completion/complete. An argument that exists and has no completion
// has the values that it is limited to, if it is; one that does not exist is an error.
func (r *registry) complete(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	argument, err := stringMember(call, "argument", "name")
	if err != nil {
		return nil, err
	}
	of := Completion{Argument: argument}
	var about entryKey
	switch kind, _ := stringMember(call, "ref", "type"); kind {
	case "ref/prompt":
		of.Prompt, err = stringMember(call, "ref", "name")
		about = entryKey{promptKind, of.Prompt}
	case "ref/resource":
		of.Template, err = stringMember(call, "ref", "uri")
		about = entryKey{templateKind, of.Template}
	default:
		err = invalidParams(`ref.type must be "ref/prompt" or "ref/resource"`)
	}
	if err != nil {
		return nil, err
	}
	if !r.isVisible(ctx, about, call) {
		return nil, noArgument(argument, about.name)
	}
	now := r.snapshot()
	if entry := now.entries[of.key()]; entry != nil {
		result, err := entry.call(ctx, r.server, call)
		if d, denied := errors.AsType[*denial](err); !denied || !d.hides {
			return result, err
		}
	}
	values, ok := argumentValues(now.entries[about], argument)
	if !ok {
		return nil, noArgument(argument, about.name)
	}
	typed, err := stringMember(call, "argument", "value")
	if err != nil {
		return nil, err
	}
	return completed(slices.DeleteFunc(slices.Clone(values), func(value string) bool {
		return !strings.HasPrefix(value, typed)
	})), nil
}

func noArgument(argument, of string) error {
	return invalidParams("there is no argument %.80q of %.256q", argument, of)
}

// argumentValues are those that an argument may have, nil if they are not limited. It
// says whether there is such an argument.
func argumentValues(entry Entry, argument string) (values []string, ok bool) {
	switch e := entry.(type) {
	case *templateEntry:
		return e.values[argument], slices.Contains(e.names, argument)
	case *promptEntry:
		return e.values[argument], slices.Contains(e.arguments, argument)
	}
	return nil, false
}

// completed is the answer with these values, as many as it may hold.
func completed(values []string) mcp.Result {
	total := len(values)
	shown := append([]string{}, values[:min(total, maxCompletions)]...)
	return &mcp.CompleteResult{Completion: mcp.CompletionValues{Values: shown, Total: &total, HasMore: total > maxCompletions}}
}
