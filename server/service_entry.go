package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/dovetail-go/dovetail/internal/codec"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// entry makes of a method what its annotation says.
func (s *service) entry(method string, p *plan) (Entry, error) {
	switch p.tag.of {
	case reflect.TypeFor[ToolTag]():
		return s.tool(method, p)
	case reflect.TypeFor[PromptTag]():
		return s.prompt(method, p)
	case reflect.TypeFor[ResourceTag]():
		return s.resource(method, p)
	default:
		return s.completion(p)
	}
}

// description is what the tag says, else what was generated.
func (s *service) description(method string, tag *methodTag) string {
	return cmp.Or(tag.text("description"), s.descriptions[method])
}

// meta is the _meta of a listed entry: its tags.
func (s *service) meta(tag *methodTag) (mcp.Meta, error) {
	tags, ok := s.metadata(tag).Metadata[MetadataTags]
	if !ok {
		return nil, nil
	}
	encoded, err := encode(map[string]any{mcp.MetaTags: tags})
	return mcp.Meta(encoded), err
}

func (s *service) tool(method string, p *plan) (Entry, error) {
	decoder, err := schema.NewTypeDecoder(p.arguments, nil)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	tool := Tool{
		Name: cmp.Or(p.tag.text("name"), snakeCase(method)), Title: p.tag.text("title"),
		Description: s.description(method, p.tag), Around: s.metadata(p.tag),
	}
	if tool.InputSchema, err = s.described(method, decoder.Schema()); err != nil {
		return nil, err
	}
	if err := checkInput(tool.InputSchema); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	if p.result != nil {
		if tool.OutputSchema, err = outputSchema(p.result); err != nil {
			return nil, fmt.Errorf("result: %w", err)
		}
		p.structured, p.codec = tool.OutputSchema != nil, codec.For(p.result)
	}
	if tool.Annotations, err = s.hints(p.tag); err != nil {
		return nil, err
	}
	if tool.Timeout, err = p.tag.duration("timeout", s.Timeout); err != nil {
		return nil, err
	}
	if tool.Meta, err = s.meta(p.tag); err != nil {
		return nil, err
	}
	if err := checkName(toolKind, tool.Name); err != nil {
		return nil, err
	}
	entry, err := newToolEntry(tool, func(ctx context.Context, r *Request, arguments json.RawMessage) (mcp.Result, error) {
		in := reflect.New(p.arguments)
		if err := decoder.Decode(arguments, in.Interface()); err != nil {
			return nil, err
		}
		return inner(ctx, r, in.Elem(), p.toolResult)
	})
	return needing(entry, p), err
}

// hints are the annotations that a client may show, nil if there are none.
func (s *service) hints(tag *methodTag) (*mcp.ToolAnnotations, error) {
	hints := s.Annotations.Tool
	for _, hint := range []struct {
		key   string
		value **bool
	}{
		{"readOnly", &hints.ReadOnlyHint}, {"destructive", &hints.DestructiveHint},
		{"idempotent", &hints.IdempotentHint}, {"openWorld", &hints.OpenWorldHint},
	} {
		var err error
		if *hint.value, err = tag.hint(hint.key, *hint.value); err != nil {
			return nil, err
		}
	}
	if reflect.ValueOf(hints).IsZero() {
		return nil, nil
	}
	return &hints, nil
}

// described is a schema with the descriptions of properties that have none.
func (s *service) described(method string, raw json.RawMessage) (json.RawMessage, error) {
	if len(s.descriptions) == 0 {
		return raw, nil
	}
	root, err := jsonscan.ReadObject(raw)
	if err != nil || root.Get("properties") == nil {
		return raw, err
	}
	properties, err := jsonscan.ReadObject(root.Get("properties"))
	if err != nil {
		return nil, err
	}
	var edits []jsonscan.Edit
	for property := range properties.All() {
		name := jsonscan.Unquote(property.Key)
		text := s.descriptions[method+"."+name]
		object, err := jsonscan.ReadObject(property.Value)
		if text == "" || err != nil || object.Get("description") != nil {
			continue
		}
		value, err := jsonscan.Splice(nil, property.Value, jsonscan.Edit{Name: "description", Value: jsonscan.AppendString(nil, text)})
		if err != nil {
			return nil, err
		}
		edits = append(edits, jsonscan.Edit{Name: name, Value: value})
	}
	described, err := jsonscan.Splice(nil, root.Get("properties"), edits...)
	if err != nil {
		return nil, err
	}
	return jsonscan.Splice(nil, raw, jsonscan.Edit{Name: "properties", Value: described})
}

func (s *service) prompt(method string, p *plan) (Entry, error) {
	args, err := newFields(p.arguments)
	if err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	for i := range args.list {
		a := &args.list[i]
		a.description = cmp.Or(a.description, s.descriptions[method+"."+a.name])
	}
	if p.result == nil {
		return nil, errors.New("a prompt must have a result")
	}
	if err := checkPromptResult(p.result); err != nil {
		return nil, err
	}
	prompt := Prompt{
		Name: cmp.Or(p.tag.text("name"), snakeCase(method)), Title: p.tag.text("title"),
		Description: s.description(method, p.tag), Around: s.metadata(p.tag),
	}
	if prompt.Meta, err = s.meta(p.tag); err != nil {
		return nil, err
	}
	answer := func(ctx context.Context, r *Request, in reflect.Value) (mcp.Result, error) {
		out, err := p.call(ctx, r, in)
		if err != nil {
			return nil, err
		}
		return promptResult(prompt.Description, out)
	}
	entry, err := newPromptEntry(prompt, args, func(ctx context.Context, r *Request) (mcp.Result, error) {
		in := reflect.New(p.arguments)
		if err := decodeArguments(in.Interface(), args, r.call); err != nil {
			return nil, err
		}
		return inner(ctx, r, in.Elem(), answer)
	})
	return needing(entry, p), err
}

func (s *service) resource(method string, p *plan) (Entry, error) {
	vars, err := newFields(p.arguments)
	if err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	if p.result == nil {
		return nil, errors.New("a resource must have a result")
	}
	meta, err := s.meta(p.tag)
	if err != nil {
		return nil, err
	}
	hint, err := p.tag.cacheHint()
	if err != nil {
		return nil, err
	}
	resource := Resource{
		URI: p.tag.text("uri"), Name: cmp.Or(p.tag.text("name"), snakeCase(method)), Title: p.tag.text("title"),
		Description: s.description(method, p.tag), MIMEType: p.tag.text("mimeType"),
		Meta: meta, CacheHint: hint, Around: s.metadata(p.tag),
	}
	if !strings.Contains(resource.URI, "{") && len(vars.list) == 0 {
		return fixedResource(resource, p)
	}
	template := Template{
		URITemplate: resource.URI, Name: resource.Name, Title: resource.Title, Description: resource.Description,
		MIMEType: resource.MIMEType, Meta: meta, CacheHint: hint, Around: resource.Around,
	}
	entry, err := newTemplateEntry(template, vars, func(ctx context.Context, r *Request, uri string, values uritemplate.Variables) (mcp.Result, error) {
		in := reflect.New(p.arguments)
		if err := vars.decode(in.Interface(), namesOf(values), valuesOf(values)); err != nil {
			return nil, invalidParams("uri %.256q: %v", uri, err)
		}
		return inner(ctx, r, in.Elem(), func(ctx context.Context, r *Request, in reflect.Value) (mcp.Result, error) {
			out, err := p.call(ctx, r, in)
			if err != nil {
				return nil, err
			}
			return readResult(uri, template.MIMEType, template.CacheHint, out)
		})
	})
	return needing(entry, p), err
}

func fixedResource(resource Resource, p *plan) (Entry, error) {
	read := func(ctx context.Context, r *Request, in reflect.Value) (mcp.Result, error) {
		out, err := p.call(ctx, r, in)
		if err != nil {
			return nil, err
		}
		return readResult(resource.URI, resource.MIMEType, resource.CacheHint, out)
	}
	entry, err := newResourceEntry(resource, func(ctx context.Context, r *Request) (mcp.Result, error) {
		return inner(ctx, r, reflect.Zero(p.arguments), read)
	})
	return needing(entry, p), err
}

func (s *service) completion(p *plan) (Entry, error) {
	value, others, err := completionFields(p.arguments)
	if err != nil {
		return nil, err
	}
	if p.result != reflect.TypeFor[[]string]() {
		return nil, errors.New("a completion's result must be []string")
	}
	completion := Completion{
		Prompt: p.tag.text("prompt"), Template: p.tag.text("template"), Argument: p.tag.text("argument"),
		Around: s.metadata(p.tag),
	}
	entry, err := NewCompletion(completion, func(ctx context.Context, r *Request, typed string, known map[string]string) ([]string, error) {
		in := reflect.New(p.arguments).Elem()
		in.Field(value).SetString(typed)
		if others >= 0 {
			in.Field(others).Set(reflect.ValueOf(known))
		}
		out, err := p.call(ctx, r, in)
		if err != nil {
			return nil, err
		}
		return out.([]string), nil
	})
	return needing(entry, p), err
}

// completionFields finds the fields of a completion's struct, by their index; others is
// -1 if it has no such field.
func completionFields(of reflect.Type) (value, others int, err error) {
	value, others = -1, -1
	for i := range of.NumField() {
		switch field := of.Field(i); {
		case field.Name == "_":
		case field.Name == "Value" && field.Type.Kind() == reflect.String:
			value = i
		case field.Name == "Others" && field.Type == reflect.TypeFor[map[string]string]():
			others = i
		default:
			return 0, 0, fmt.Errorf("%v has a field %s %v; it may have Value string, for what has been typed, and Others map[string]string", of, field.Name, field.Type)
		}
	}
	if value < 0 {
		return 0, 0, fmt.Errorf("%v needs a field Value string, for what has been typed", of)
	}
	return value, others, nil
}

// needing remembers what a method takes from the server's lifespan.
func needing(entry Entry, p *plan) Entry {
	if entry == nil {
		return nil
	}
	entry.need(p.needs())
	return entry
}
