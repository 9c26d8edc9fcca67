package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// Resources returns an iterator over the server's resources. It reads page by page, as
// [Session.Tools] does.
func (s *Session) Resources(ctx context.Context, opts *CallOptions) iter.Seq2[*mcp.Resource, error] {
	return pages(ctx, s, opts, mcp.KindResource, mcp.MethodResourcesList, "resources", resourceField)
}

// Templates returns an iterator over the server's resource templates. It reads page by page, as
// [Session.Tools] does.
func (s *Session) Templates(ctx context.Context, opts *CallOptions) iter.Seq2[*mcp.ResourceTemplate, error] {
	return pages(ctx, s, opts, mcp.KindResourceTemplate, mcp.MethodResourceTemplatesList, "resourceTemplates", templateField)
}

// Skills returns an iterator over the server's skills (SEP-2640). It reads page by page, as
// [Session.Tools] does, and reads no file of a skill; package client/skills does that. A server may
// have skills that it does not list. The error is ErrNoSkills, in a *[jsonrpc.CallError], if the
// server does not declare the extension. An entry that is no skill is skipped, and the reason is
// logged.
func (s *Session) Skills(ctx context.Context, opts *CallOptions) iter.Seq2[*mcp.Skill, error] {
	if _, err := s.skills(); err != nil {
		return func(yield func(*mcp.Skill, error) bool) { yield(nil, notSent(mcp.MethodSkillsList, err)) }
	}
	return pages[mcp.Skill](ctx, s, opts, mcp.KindSkill, mcp.MethodSkillsList, "skills", nil)
}

// GetSkill returns the current entry of a skill, listed or not, by the URI of its SKILL.md. Errors are
// as in [Session.ReadResource] and [Session.Skills]. The result may come from the session's cache,
// unless opts has a Meta. opts may be nil.
func (s *Session) GetSkill(ctx context.Context, uri string, opts *CallOptions) (*mcp.Skill, error) {
	if _, err := s.skills(); err != nil {
		return nil, notSent(mcp.MethodSkillsGet, err)
	}
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(mcp.MethodSkillsGet, err)
	}
	result := new(mcp.GetSkillResult)
	params := &mcp.GetSkillParams{URI: uri, Meta: meta}
	if meta.IsZero() {
		err = s.fetch(ctx, mcp.MethodSkillsGet, uri, params, result, opts)
	} else {
		err = s.call(ctx, mcp.MethodSkillsGet, params, result, opts)
	}
	if err != nil {
		return nil, err
	}
	return &result.Skill, nil
}

// Directory returns an iterator over the direct children of a directory resource (SEP-2640), such as
// skill://git-workflow/references. Children that are directories have the MIMEType
// [mcp.MIMEDirectory]. It reads page by page, as [Session.Tools] does. The error is ErrNoSkills, in a
// *[jsonrpc.CallError], if the server does not declare that it lists directories.
func (s *Session) Directory(ctx context.Context, uri string, opts *CallOptions) iter.Seq2[*mcp.Resource, error] {
	declared, err := s.skills()
	if err == nil && !declared.DirectoryRead {
		err = ErrNoSkills
	}
	if err != nil {
		return func(yield func(*mcp.Resource, error) bool) { yield(nil, notSent(mcp.MethodDirectoryRead, err)) }
	}
	return pagesOf(ctx, s, opts, listOf{kind: mcp.KindResource, method: mcp.MethodDirectoryRead, member: "resources", uri: uri}, resourceField)
}

// ErrNoSkills means that the server does not declare the extension for skills, or the part of it that
// a call needs.
var ErrNoSkills = errors.New("client: the server does not declare that it has skills")

// skills returns what the server declares about skills.
func (s *Session) skills() (*mcp.SkillsCapability, error) {
	settings, ok := s.Capabilities().Extensions[mcp.ExtensionSkills]
	if !ok {
		return nil, ErrNoSkills
	}
	declared := new(mcp.SkillsCapability)
	if err := declared.UnmarshalJSON(settings); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoSkills, err)
	}
	return declared, nil
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
	return pages(ctx, s, opts, mcp.KindPrompt, mcp.MethodPromptsList, "prompts", promptField)
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
