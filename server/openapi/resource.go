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

// uriScheme is that of resources: clients are to ask this server for them, and not
// fetch them themselves. MCP 2025-11-25, server/resources, "Common URI Schemes".
const uriScheme = "openapi"

// addResource offers a GET operation as a resource, or as a resource template if it has
// arguments.
func (b *builder) addResource(o *operation, d *described) error {
	if o.method != http.MethodGet {
		return errors.New("only GET can be a resource: Rule.Methods narrows a rule down")
	}
	if o.body != nil {
		return errors.New("it has a request body, which reading a resource cannot give")
	}
	var err error
	if o.uri, err = o.makeURI(); err != nil {
		return err
	}
	if other := b.resources[o.uri]; other != nil {
		return fmt.Errorf("its URI %s is that of %v too", jsonscan.Quote(o.uri), other)
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
		b.offer(mcp.KindResource, o.uri, encoded, func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			return b.read(ctx, call, o, json.RawMessage(`{}`))
		})
	}
	b.resources[o.uri] = o
	return nil
}

// addTemplate lists an operation with arguments.
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
	e := b.offer(mcp.KindResourceTemplate, o.uri, encoded, func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		values, _ := matcher.Match(call.URI())
		return b.read(ctx, call, o, o.argumentsFrom(values))
	})
	e.Match = func(uri string) bool {
		_, ok := matcher.Match(uri)
		return ok
	}
	return nil
}

// makeURI makes the URI, or URI template, of an operation. Parameters that a URI cannot give
// are left out, if they may be.
func (o *operation) makeURI() (string, error) {
	o.variables = make(map[string]*parameter)
	var uri strings.Builder
	uri.WriteString(o.origin())
	for _, piece := range o.template {
		p := piece.parameter
		if p == nil {
			uri.WriteString(piece.text)
			continue
		}
		err := p.isVariable()
		if err == nil && p.reading.list {
			err = errors.New("it is a list")
		}
		if err != nil {
			return "", fmt.Errorf("the path parameter %.200q cannot stand in a URI: %w", p.name, err)
		}
		o.variables[p.name] = p
		uri.WriteString("{" + p.name + "}")
	}
	var query []string
	for _, p := range o.parameters {
		err := p.isVariable()
		if _, taken := o.variables[p.name]; err == nil && taken {
			err = errors.New("another one has its name")
		}
		if err != nil {
			if p.required {
				return "", fmt.Errorf("the parameter %.200q, which is required, cannot stand in a URI: %w", p.name, err)
			}
			continue
		}
		o.variables[p.name] = p
		variable := p.name
		if p.reading.list {
			variable += "*"
		}
		query = append(query, variable)
	}
	if len(query) > 0 {
		uri.WriteString("{?" + strings.Join(query, ",") + "}")
	}
	return uri.String(), nil
}

// isVariable says why a parameter cannot be a variable of a URI template (RFC 6570,
// section 2.3).
func (p *parameter) isVariable() error {
	switch {
	case p.in != "path" && p.in != "query":
		return fmt.Errorf("it stands in a %s", p.in)
	case p.json || p.reading.nested:
		return errors.New("it is more than text, a number, a boolean, or a list of these")
	case strings.ContainsFunc(p.name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_'
	}):
		return errors.New("its name has other characters than A–Z a–z 0–9 _")
	}
	return nil
}

// read answers resources/read for an operation, with the arguments that the URI holds.
func (p *Provider) read(ctx context.Context, call *mcp.Call, o *operation, arguments json.RawMessage) (mcp.Result, error) {
	uri := call.URI()
	if err := o.input.Validate(arguments); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("uri %s: %v", jsonscan.Quote(uri), err)}
	}
	answer, err := p.ask(ctx, call, o, arguments)
	if err != nil {
		return nil, asProtocolError(err)
	}
	switch {
	case answer.status == http.StatusNotFound || answer.status == http.StatusGone:
		return nil, mcp.ResourceNotFound(uri)
	case !answer.isSuccess():
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: answer.failure()}
	}
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{answer.contents(uri)}}, nil
}

// argumentsFrom writes the values of a URI as arguments.
func (o *operation) argumentsFrom(values uritemplate.Variables) json.RawMessage {
	arguments := []byte{'{'}
	for _, v := range values {
		p := o.variables[v.Name]
		var text []byte
		if !p.reading.list {
			text = p.reading.scalar(nil, v.Value)
		} else {
			text = []byte{'['}
			for i, element := range v.List {
				if i > 0 {
					text = append(text, ',')
				}
				text = p.reading.scalar(text, element)
			}
			text = append(text, ']')
		}
		arguments = appendMember(arguments, jsonscan.AppendString(nil, p.argument), text)
	}
	return append(arguments, '}')
}
