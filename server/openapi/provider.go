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
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server"
)

// A Provider exposes the operations of a document. Create one with [New] and mount it with
// [server.Server.Mount]. It is immutable.
type Provider struct {
	options *Options
	client  *http.Client
	catalog *server.Catalog
	memory  *schema.Memory // shared by the validators of all operations
}

var _ server.Provider = (*Provider)(nil)

// New reads an OpenAPI 3.0 or 3.1 document in JSON or YAML. It fetches nothing.
//
// The error joins a *[DocumentError] for each operation that cannot be exposed, up to 20 of
// them. Two operations with the same name are such an error. Use Options.Rules to exclude or
// rename operations.
func New(document []byte, opts *Options) (*Provider, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d, err := parseDocument(document)
	if err != nil {
		return nil, err
	}
	p := &Provider{options: options, client: newClient(options.HTTPClient), memory: schema.NewMemory(0)}
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

// Catalog returns the tools and resources. It never changes.
func (p *Provider) Catalog() *server.Catalog { return p.catalog }

// Run waits until ctx ends.
func (p *Provider) Run(ctx context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

// callTool handles tools/call for an operation.
func (p *Provider) callTool(ctx context.Context, call *mcp.Call, o *operation) (mcp.Result, error) {
	arguments := call.Member("arguments")
	switch jsonscan.KindOf(arguments) {
	case jsonscan.Object:
	case jsonscan.Null, jsonscan.EOF:
		arguments = json.RawMessage(`{}`)
	default:
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "arguments must be an object"}
	}
	if err := o.input.Validate(ctx, arguments); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return failed(err.Error()), nil
	}
	response, err := p.send(ctx, call, o, arguments)
	if err != nil {
		if isProtocolError(err) {
			return nil, err
		}
		return failed(err.Error()), nil
	}
	result, mismatch := o.result(ctx, response)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case mismatch != nil:
		p.options.Logger.Warn("a response does not match the OpenAPI document", "operation", o.String(), "status", response.status, "error", mismatch)
	}
	return result, nil
}

// send sends the request of an operation and reads the response. Its errors contain no secrets.
func (p *Provider) send(ctx context.Context, call *mcp.Call, o *operation, arguments json.RawMessage) (*response, error) {
	timeout := fmt.Errorf("the service did not respond within %v", p.options.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, p.options.Timeout, timeout)
	defer cancel()
	request, err := o.request(ctx, arguments)
	if err != nil {
		return nil, err
	}
	secrets, err := p.authorize(ctx, call, o, request)
	if err != nil {
		return nil, err
	}
	httpResponse, err := p.client.Do(request)
	if err != nil {
		return nil, p.requestError(ctx, o, err, secrets)
	}
	defer httpResponse.Body.Close()
	response, err := readResponse(httpResponse, p.options.MaxResponse, secrets)
	if err != nil {
		return nil, p.requestError(ctx, o, err, secrets)
	}
	response.uri = o.origin() + strings.TrimPrefix(request.URL.EscapedPath(), strings.TrimSuffix(o.base.EscapedPath(), "/"))
	return response, nil
}

// authorize calls Options.Authorize and returns the secrets that it has added.
func (p *Provider) authorize(ctx context.Context, call *mcp.Call, o *operation, request *http.Request) (secrets, error) {
	// The response to TRACE contains the request: RFC 9110, section 9.3.8.
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

// requestError returns the error of a failed request for the caller. It logs errors of the
// transport, which may contain hosts and keys.
func (p *Provider) requestError(ctx context.Context, o *operation, err error, secrets secrets) error {
	var tooLarge *responseTooLargeError
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
		err = wrapped.Err // remove the URL, which contains arguments
	}
	p.options.Logger.Error("a request has failed", "operation", o.String(), "error", secrets.redact(err.Error()))
	return errors.New("the service is not available, or its response is incomplete")
}

// isProtocolError reports whether an error is returned as a JSON-RPC error or a question, not as
// an error result.
func isProtocolError(err error) bool {
	_, protocol := errors.AsType[*jsonrpc.Error](err)
	_, question := mcp.AsInputRequired(err)
	return protocol || question
}

// asProtocolError converts an error for a method without error results.
func asProtocolError(err error) error {
	if isProtocolError(err) {
		return err
	}
	return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
}

// An operation converts arguments to requests and responses to results.
type operation struct {
	name   string // of the tool or resource
	method string
	// path and id are the path and operationId in the document.
	path, id string

	base       *url.URL
	template   pathTemplate
	separators bool         // path arguments may contain / and \
	parameters []*parameter // except parameters of the path
	body       *body
	accept     string
	security   []Requirement

	input  *schema.Validator
	output *schema.Validator // nil without an output schema

	uri       string                // of a resource, or its template
	variables map[string]*parameter // of the template, by name
}

// origin returns the prefix of resource URIs: the host and base path of the service with the
// scheme "openapi", which clients cannot fetch themselves.
func (o *operation) origin() string {
	return uriScheme + "://" + o.base.Host + strings.TrimSuffix(o.base.EscapedPath(), "/")
}

// String returns the method and path.
func (o *operation) String() string { return o.method + " " + o.path }

// A DocumentError says why a document, or one of its operations, cannot be exposed. [New] joins
// several of them with [errors.Join].
type DocumentError struct {
	// Operation is the method and path of the operation, such as "GET /pets". It is empty if
	// the error is about the whole document.
	Operation string
	// Reason says what was expected and what was found.
	Reason string
}

// Error returns the operation and the reason.
func (e *DocumentError) Error() string {
	if e.Operation == "" {
		return "openapi: " + e.Reason
	}
	return "openapi: " + e.Operation + ": " + e.Reason
}

func documentError(format string, args ...any) error {
	return &DocumentError{Reason: fmt.Sprintf(format, args...)}
}
