package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Provider offers the operations of a document. Make one with [New] and mount it
// with [server.Server.Mount]. It is immutable.
type Provider struct {
	options *Options
	client  *http.Client
	catalog *server.Catalog
}

var _ server.Provider = (*Provider)(nil)

// New reads an OpenAPI 3.0 or 3.1 document, in JSON or YAML, and makes tools and
// resources out of its operations. Nothing is fetched, neither now nor later, but what
// calls ask the service for.
//
// The error joins a *[DocumentError] for each operation, of the first 20, that cannot
// be offered: Options.Rules can exclude these. Two operations of one name are among
// them.
func New(document []byte, opts *Options) (*Provider, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := parseDocument(document)
	if err != nil {
		return nil, err
	}
	p := &Provider{options: options, client: newClient(options.HTTPClient)}
	b := &builder{
		Provider: p, document: d, requests: newConverter(d, false), responses: newConverter(d, true),
		tools: make(map[string]*operation), resources: make(map[string]*operation),
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	p.catalog = server.NewCatalog(b.entries, nil)
	return p, nil
}

// Catalog returns what is offered. It is always the same.
func (p *Provider) Catalog() *server.Catalog { return p.catalog }

// Run waits until ctx ends: a document does not change.
func (p *Provider) Run(ctx context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

// callTool answers tools/call for an operation.
func (p *Provider) callTool(ctx context.Context, call *mcp.Call, o *operation) (mcp.Result, error) {
	arguments := call.Member("arguments")
	switch jsonscan.KindOf(arguments) {
	case jsonscan.Object:
	case jsonscan.Null, jsonscan.EOF:
		arguments = json.RawMessage(`{}`)
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "arguments must be an object"}
	}
	if err := o.input.Validate(arguments); err != nil {
		return failed(err.Error()), nil
	}
	answer, err := p.ask(ctx, call, o, arguments)
	if err != nil {
		if isProtocolError(err) {
			return nil, err
		}
		return failed(err.Error()), nil
	}
	result, mismatch := o.result(answer)
	if mismatch != nil {
		p.options.Logger.Warn("a service's answer does not fit its OpenAPI document", "operation", o.String(), "status", answer.status, "error", mismatch)
	}
	return result, nil
}

// ask makes the request and reads the answer. Its error is for the caller to see.
func (p *Provider) ask(ctx context.Context, call *mcp.Call, o *operation, arguments json.RawMessage) (*answer, error) {
	late := fmt.Errorf("the service did not answer within %v", p.options.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.Timeout, late)
	defer cancel()
	request, err := o.request(ctx, arguments)
	if err != nil {
		return nil, err
	}
	hidden, err := p.authorize(ctx, call, o, request)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, p.unanswered(ctx, o, err, hidden)
	}
	defer response.Body.Close()
	answer, err := readAnswer(response, p.options.MaxResponse, hidden)
	if err != nil {
		return nil, p.unanswered(ctx, o, err, hidden)
	}
	answer.uri = o.origin() + strings.TrimPrefix(request.URL.EscapedPath(), strings.TrimSuffix(o.base.EscapedPath(), "/"))
	return answer, nil
}

// authorize has credentials added to a request, and returns what it must not show.
func (p *Provider) authorize(ctx context.Context, call *mcp.Call, o *operation, request *http.Request) (secrets, error) {
	// A service sends the whole of a TRACE back: RFC 9110, section 9.3.8.
	if p.options.Authorize == nil || o.method == http.MethodTrace {
		return nil, nil
	}
	before := request.Clone(ctx)
	err := p.options.Authorize(ctx, request, Security{
		Alternatives: o.security, OperationID: o.id, Method: o.method, Path: o.path, Call: call,
	})
	switch {
	case err == nil:
		return addedSecrets(before, request), nil
	case isProtocolError(err):
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	p.options.Logger.Error("a request could not be authorized", "operation", o.String(), "error", err)
	return nil, errNotAuthorized
}

// unanswered says why there is no answer. What the transport says is for the operator:
// it may name hosts and keys.
func (p *Provider) unanswered(ctx context.Context, o *operation, err error, hidden secrets) error {
	var tooLarge *tooLargeError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errOtherOrigin):
		return errOtherOrigin
	case errors.Is(err, errTooManyRedirects):
		return errTooManyRedirects
	case errors.As(err, &tooLarge):
		return tooLarge
	}
	for {
		wrapped, ok := errors.AsType[*url.Error](err)
		if !ok {
			break
		}
		err = wrapped.Err // without the URL, in which arguments stand
	}
	p.options.Logger.Error("a service cannot be reached", "operation", o.String(), "error", hidden.redact(err.Error()))
	return errors.New("the service cannot be reached, or broke off its answer")
}

// isProtocolError says whether an error is meant for the protocol, not for the model.
func isProtocolError(err error) bool {
	_, protocol := errors.AsType[*jsonrpc.Error](err)
	_, question := mcp.AsInputRequired(err)
	return protocol || question
}

// asProtocolError is an error where there is no result to put it into.
func asProtocolError(err error) error {
	if isProtocolError(err) {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
}
