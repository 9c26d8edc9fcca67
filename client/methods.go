package client

import (
	"context"
	"iter"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// Resources returns an iterator over the server's resources. It reads page by page, as
// [Session.Tools] does.
func (s *Session) Resources(ctx context.Context, opts *CallOptions) iter.Seq2[*mcp.Resource, error] {
	return pages(ctx, s, opts, mcp.KindResource, mcp.MethodResourcesList, "resources", func(r *mcp.ListResourcesResult) ([]mcp.Resource, *string) {
		return r.Resources, r.NextCursor
	})
}

// Templates returns an iterator over the server's resource templates. It reads page by page, as
// [Session.Tools] does.
func (s *Session) Templates(ctx context.Context, opts *CallOptions) iter.Seq2[*mcp.ResourceTemplate, error] {
	return pages(ctx, s, opts, mcp.KindResourceTemplate, mcp.MethodResourceTemplatesList, "resourceTemplates", func(r *mcp.ListResourceTemplatesResult) ([]mcp.ResourceTemplate, *string) {
		return r.ResourceTemplates, r.NextCursor
	})
}

// ReadResource reads a resource. [mcp.IsResourceNotFound] recognizes the error for one that does
// not exist; other errors are as in [Session.Call]. The result may come from the session's cache,
// unless opts has a Meta. opts may be nil.
func (s *Session) ReadResource(ctx context.Context, uri string, opts *CallOptions) (*mcp.ReadResourceResult, error) {
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(mcp.MethodResourcesRead, err)
	}
	result := new(mcp.ReadResourceResult)
	params := &mcp.ReadResourceParams{URI: uri, Meta: meta}
	if meta.IsZero() {
		err = s.fetch(ctx, mcp.MethodResourcesRead, uri, params, result, opts)
	} else {
		err = s.call(ctx, mcp.MethodResourcesRead, params, result, opts)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Prompts returns an iterator over the server's prompts. It reads page by page, as
// [Session.Tools] does.
func (s *Session) Prompts(ctx context.Context, opts *CallOptions) iter.Seq2[*mcp.Prompt, error] {
	return pages(ctx, s, opts, mcp.KindPrompt, mcp.MethodPromptsList, "prompts", func(r *mcp.ListPromptsResult) ([]mcp.Prompt, *string) {
		return r.Prompts, r.NextCursor
	})
}

// GetPrompt returns the messages of a prompt. opts may be nil. Errors are as in [Session.Call].
func (s *Session) GetPrompt(ctx context.Context, name string, arguments map[string]string, opts *CallOptions) (*mcp.GetPromptResult, error) {
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

// CompletePrompt returns completions of what the user has typed for a prompt's argument. others has
// the values of other arguments, and may be nil. The result has at most Limits.CompletionValues
// values; its Total is the number of all values if the server knows it, and HasMore is set if there
// are more. opts may be nil. Errors are as in [Session.Call].
func (s *Session) CompletePrompt(ctx context.Context, prompt, argument, typed string, others map[string]string, opts *CallOptions) (*mcp.CompletionValues, error) {
	return s.complete(ctx, mcp.CompletionReference{Type: mcp.RefPrompt, Name: prompt}, argument, typed, others, opts)
}

// CompleteTemplate is CompletePrompt for a variable of a resource template.
func (s *Session) CompleteTemplate(ctx context.Context, template, variable, typed string, others map[string]string, opts *CallOptions) (*mcp.CompletionValues, error) {
	return s.complete(ctx, mcp.CompletionReference{Type: mcp.RefResource, URI: template}, variable, typed, others, opts)
}

func (s *Session) complete(ctx context.Context, ref mcp.CompletionReference, argument, typed string, others map[string]string, opts *CallOptions) (*mcp.CompletionValues, error) {
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(mcp.MethodComplete, err)
	}
	params := &mcp.CompleteParams{Ref: ref, Argument: mcp.CompletionArgument{Name: argument, Value: typed}, Meta: meta}
	if others != nil {
		params.Context = &mcp.CompletionContext{Arguments: others}
	}
	result := new(mcp.CompleteResult)
	if err := s.call(ctx, mcp.MethodComplete, params, result, opts); err != nil {
		return nil, err
	}
	values := &result.Completion
	if most := s.opts.Limits.CompletionValues; len(values.Values) > most {
		values.Values, values.HasMore = slices.Clone(values.Values[:most]), true
	}
	return values, nil
}
