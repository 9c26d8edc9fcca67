package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// uriScheme is the scheme of resources. With https, clients may fetch them without this server:
// MCP 2025-11-25, server/resources, "Common URI Schemes".
const uriScheme = "openapi"

// addResource adds a resource for a GET operation, or a template if it has arguments.
func (b *builder) addResource(o *operation, d *apiOperation) error {
	if o.method != http.MethodGet {
		return errors.New("only a GET operation can be a resource: restrict the rule with Rule.Methods")
	}
	if o.body != nil {
		return errors.New("a resource cannot have a request body")
	}
	var err error
	if o.uri, err = o.uriTemplate(); err != nil {
		return err
	}
	if other := b.resources[o.uri]; other != nil {
		return fmt.Errorf("its URI %s is also the URI of %v", jsonscan.Quote(o.uri), other)
	}
	_, media, _ := onlySuccess(d.Responses)
	r := mcp.Resource{URI: o.uri, Name: o.name, Title: cut(d.Summary, maxTitle), Description: d.text(o.name), MIMEType: mediaType(media)}
	if len(o.variables) > 0 {
		if err := b.addTemplate(o, &r); err != nil {
			return err
		}
	} else {
		encoded, err := r.MarshalJSON()
		if err != nil {
			return err
		}
		b.addEntry(mcp.KindResource, o.uri, encoded, func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			return b.read(ctx, call, o, json.RawMessage(`{}`))
		})
	}
	b.resources[o.uri] = o
	return nil
}

// addTemplate adds a resource template.
func (b *builder) addTemplate(o *operation, r *mcp.Resource) error {
	template, err := uritemplate.Parse(o.uri)
	if err != nil {
		return err
	}
	matcher, err := template.Matcher()
	if err != nil {
		return err
	}
	encoded, err := (&mcp.ResourceTemplate{
		URITemplate: o.uri, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType,
	}).MarshalJSON()
	if err != nil {
		return err
	}
	e := b.addEntry(mcp.KindResourceTemplate, o.uri, encoded, func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		values, _ := matcher.Match(call.URI())
		return b.read(ctx, call, o, o.argumentsOf(values))
	})
	e.Match = func(uri string) bool {
		_, ok := matcher.Match(uri)
		return ok
	}
	return nil
}

// uriTemplate returns the URI or URI template of an operation and sets o.variables. Optional
// parameters that cannot be variables are omitted.
func (o *operation) uriTemplate() (string, error) {
	o.variables = make(map[string]*parameter)
	var uri strings.Builder
	uri.WriteString(o.origin())
	for _, piece := range o.template {
		p := piece.parameter
		if p == nil {
			uri.WriteString(piece.text)
			continue
		}
		err := p.checkVariable()
		if err == nil && p.valueType.list {
			err = errors.New("it is a list")
		}
		if err != nil {
			return "", fmt.Errorf("the path parameter %.200q cannot be part of a URI: %w", p.name, err)
		}
		o.variables[p.name] = p
		uri.WriteString("{" + p.name + "}")
	}
	var query []string
	for _, p := range o.parameters {
		err := p.checkVariable()
		if _, taken := o.variables[p.name]; err == nil && taken {
			err = errors.New("another parameter has the same name")
		}
		if err != nil {
			if p.required {
				return "", fmt.Errorf("the required parameter %.200q cannot be part of a URI: %w", p.name, err)
			}
			continue
		}
		o.variables[p.name] = p
		variable := p.name
		if p.valueType.list {
			variable += "*"
		}
		query = append(query, variable)
	}
	if len(query) > 0 {
		uri.WriteString("{?" + strings.Join(query, ",") + "}")
	}
	return uri.String(), nil
}

// checkVariable says why a parameter cannot be a variable of a URI template: RFC 6570, section
// 2.3.
func (p *parameter) checkVariable() error {
	switch {
	case p.in != "path" && p.in != "query":
		return fmt.Errorf("it is in a %s", p.in)
	case p.json || p.valueType.nested:
		return errors.New("it is not a string, number, boolean, or list of these")
	case strings.ContainsFunc(p.name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_'
	}):
		return errors.New("its name has characters other than A–Z a–z 0–9 _")
	}
	return nil
}

// read handles resources/read for an operation.
func (p *Provider) read(ctx context.Context, call *mcp.Call, o *operation, arguments json.RawMessage) (mcp.Result, error) {
	uri := call.URI()
	if err := o.input.Validate(ctx, arguments); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("uri %s: %v", jsonscan.Quote(uri), err)}
	}
	response, err := p.send(ctx, call, o, arguments)
	if err != nil {
		return nil, asProtocolError(err)
	}
	switch {
	case response.status == http.StatusNotFound || response.status == http.StatusGone:
		return nil, mcp.ResourceNotFound(uri)
	case !response.isSuccess():
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: response.failure()}
	}
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{response.contents(uri)}}, nil
}

// argumentsOf converts the variables of a URI to arguments.
func (o *operation) argumentsOf(values uritemplate.Variables) json.RawMessage {
	arguments := []byte{'{'}
	for _, v := range values {
		p := o.variables[v.Name]
		var text []byte
		if !p.valueType.list {
			text = p.valueType.scalar(nil, v.Value)
		} else {
			text = []byte{'['}
			for i, element := range v.List {
				if i > 0 {
					text = append(text, ',')
				}
				text = p.valueType.scalar(text, element)
			}
			text = append(text, ']')
		}
		arguments = appendMember(arguments, jsonscan.AppendString(nil, p.argument), text)
	}
	return append(arguments, '}')
}

// A valueType is the JSON type of a variable in a URI.
type valueType struct {
	kind   string // of the value, or of the elements of a list; empty for any
	list   bool
	nested bool // an object or a list of lists
}

// valueType returns the type of a schema.
func (s *source) valueType(schema json.RawMessage) (valueType, error) {
	var r valueType
	members, err := s.object(schema)
	if err != nil {
		return r, err
	}
	if r.kind = typeOf(members); r.kind == "array" {
		r.list = true
		if members, err = s.object(members.Get("items")); err != nil {
			return r, err
		}
		r.kind = typeOf(members)
	}
	r.nested = r.kind == "object" || r.kind == "array"
	return r, nil
}

// object returns the members of a schema, or of the target if it is a reference. A boolean schema
// has no members.
func (s *source) object(schema json.RawMessage) (*jsonscan.Members, error) {
	schema, err := s.follow(schema)
	if err != nil || jsonscan.KindOf(schema) != jsonscan.Object {
		return new(jsonscan.Members), err
	}
	members, err := jsonscan.ReadObject(schema)
	return &members, err
}

// typeOf returns the first type of a schema except null, or "".
func typeOf(schema *jsonscan.Members) string {
	value := schema.Get("type")
	if name, ok := asString(value); ok {
		return name
	}
	var names []string
	if value == nil || json.Unmarshal(value, &names) != nil {
		return ""
	}
	for _, name := range names {
		if name != "null" {
			return name
		}
	}
	return ""
}

// scalar appends a text as JSON. A text that does not match the type becomes a string, which the
// schema then rejects with an explanation.
func (r valueType) scalar(dst []byte, text string) []byte {
	kind := jsonscan.KindOf([]byte(text))
	fits := (r.kind == "integer" || r.kind == "number") && kind == jsonscan.Number || r.kind == "boolean" && kind == jsonscan.Bool
	if fits && jsonscan.Valid([]byte(text)) == nil {
		return append(dst, text...)
	}
	return jsonscan.AppendString(dst, text)
}
