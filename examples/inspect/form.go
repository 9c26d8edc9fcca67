package main

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
)

// fill asks for each field of a form, in the form's order. An empty line leaves a
// field out.
func (p *person) fill(ctx context.Context, form *mcp.ElicitSchema) (json.RawMessage, error) {
	values := make(map[string]any)
	for _, field := range form.Fields {
		label, read := reader(field.Schema)
		text, err := p.typed.ask(ctx, "  "+printable(field.Name+label)+": ")
		if err != nil {
			return nil, err
		}
		if text != "" {
			values[field.Name] = read(text)
		}
	}
	return json.Marshal(values)
}

// reader says what a field takes, and makes its value of what was typed. What is
// no such value stays text, which the form then refuses.
func reader(field mcp.PrimitiveSchema) (label string, read func(string) any) {
	asText := func(text string) any { return text }
	switch f := field.(type) {
	case *mcp.StringSchema:
		return labelled(f.Description, "text"), asText
	case *mcp.BooleanSchema:
		return labelled(f.Description, "true or false"), parsed(strconv.ParseBool)
	case *mcp.NumberSchema:
		return labelled(f.Description, "a number"), func(text string) any { return asNumber(text) }
	case *mcp.EnumSchema:
		if f.Multiple {
			return labelled(f.Description, "some of "+options(f)), func(text string) any { return strings.Fields(text) }
		}
		return labelled(f.Description, options(f)), asText
	}
	return "", asText
}

func parsed[T any](parse func(string) (T, error)) func(string) any {
	return func(text string) any {
		if value, err := parse(text); err == nil {
			return value
		}
		return text
	}
}

// asNumber keeps every digit.
func asNumber(text string) any {
	if json.Valid([]byte(text)) {
		return json.Number(text)
	}
	return text
}

func labelled(description, takes string) string {
	if description == "" {
		return " (" + takes + ")"
	}
	return " (" + takes + "), " + description
}

func options(f *mcp.EnumSchema) string {
	var texts []string
	for _, o := range f.Options {
		if o.Title != "" && o.Title != o.Value {
			texts = append(texts, o.Value+" = "+o.Title)
			continue
		}
		texts = append(texts, o.Value)
	}
	return strings.Join(texts, " | ")
}
