package client

import (
	"context"
	"iter"

	"github.com/dovetail-go/dovetail/mcp"
)

// Prompts lists the server's prompts, page by page.
func (s *Session) Prompts(ctx context.Context) iter.Seq2[*mcp.Prompt, error] {
	return pages(ctx, s, mcp.MethodPromptsList, func(r *mcp.ListPromptsResult) ([]mcp.Prompt, *string) {
		return r.Prompts, r.NextCursor
	})
}

// Prompt gets a prompt's messages.
func (s *Session) Prompt(ctx context.Context, name string, arguments map[string]string, opts *CallOptions) (*mcp.GetPromptResult, error) {
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(mcp.MethodPromptsGet, err)
	}
	result := new(mcp.GetPromptResult)
	params := &mcp.GetPromptParams{Name: name, Arguments: arguments, Meta: meta}
	if err := s.call(ctx, mcp.MethodPromptsGet, params, result, opts); err != nil {
		return nil, err
	}
	return result, nil
}

// CompletePrompt completes what has been typed of a prompt's argument. others are
// the values of arguments that are known already; it may be nil.
func (s *Session) CompletePrompt(ctx context.Context, prompt, argument, typed string, others map[string]string) (*mcp.CompletionValues, error) {
	return s.complete(ctx, mcp.CompletionReference{Type: mcp.RefPrompt, Name: prompt}, argument, typed, others)
}

// CompleteTemplate completes what has been typed of a resource template's
// variable, likewise.
func (s *Session) CompleteTemplate(ctx context.Context, template, variable, typed string, others map[string]string) (*mcp.CompletionValues, error) {
	return s.complete(ctx, mcp.CompletionReference{Type: mcp.RefResource, URI: template}, variable, typed, others)
}

func (s *Session) complete(ctx context.Context, ref mcp.CompletionReference, argument, typed string, others map[string]string) (*mcp.CompletionValues, error) {
	params := &mcp.CompleteParams{Ref: ref, Argument: mcp.CompletionArgument{Name: argument, Value: typed}}
	if others != nil {
		params.Context = &mcp.CompletionContext{Arguments: others}
	}
	result := new(mcp.CompleteResult)
	if err := s.call(ctx, mcp.MethodComplete, params, result, nil); err != nil {
		return nil, err
	}
	return &result.Completion, nil
}
