package openapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Options configure a [Provider]. The zero value is ready to use for a document that names its
// server.
type Options struct {
	// BaseURL is the URL of the service, such as https://api.example.com/v1. It replaces
	// every server of the document. It is required if the document has no server with an
	// absolute URL. Set it for a document that you do not control, too, which otherwise
	// decides where requests are sent.
	BaseURL string
	// HTTPClient sends the requests. Its CheckRedirect is called for redirects to the same
	// origin; others are never followed. Default: a client
	// of httptransport.NewClient, which accepts compressed responses.
	HTTPClient *http.Client
	// Authorize adds credentials to a request before it is sent. It is called for every
	// request except TRACE, whose response would contain them. The credentials are redacted
	// in errors. An error of Authorize is logged, and the caller gets a general error,
	// unless it is a *jsonrpc.Error. Authorize may be called concurrently. [Credentials]
	// implements it for constant secrets.
	Authorize func(ctx context.Context, request *http.Request, security Security) error
	// Rules decide how an operation is exposed. The first rule that matches applies; without
	// one the operation is a tool.
	Rules []Rule
	// Include lists additional methods to expose: HEAD, OPTIONS, TRACE. GET, POST, PUT,
	// PATCH and DELETE are always exposed.
	Include []string
	// HeaderParameters exposes header and cookie parameters as arguments. By default they
	// are omitted, because most of them are credentials, which Authorize or HTTPClient adds.
	HeaderParameters bool
	// AllowPathSeparators permits / and \ in path arguments, percent-encoded, for a service
	// that treats such a segment as one value. By default they are rejected, because a proxy
	// may decode them and route the request to another operation. The segments . and .. are
	// always rejected.
	AllowPathSeparators bool
	// OmitOutputSchemas omits output schemas, for a service whose responses do not always
	// match its document. With an output schema, such a response is an error result that
	// contains the response as text.
	OmitOutputSchemas bool
	// MaxResponse is the maximum size of a response body after decompression, in bytes.
	// 0 means 1 MiB.
	MaxResponse int64
	// Timeout bounds one call, from Authorize to the end of the response. 0 means 30 s.
	Timeout time.Duration
	// Logger receives ignored parts of the document and the details of errors that callers
	// do not see. Default slog.Default().
	Logger *slog.Logger
}

// defaultMethods are always exposed.
var defaultMethods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// optionalMethods are exposed if Options.Include lists them.
var optionalMethods = []string{http.MethodHead, http.MethodOptions, http.MethodTrace}

// withDefaults checks the options and returns a copy with defaults.
func (o *Options) withDefaults() (*Options, error) {
	complete := Options{}
	if o != nil {
		complete = *o
	}
	include := slices.Clone(defaultMethods)
	for _, method := range complete.Include {
		method = strings.ToUpper(method)
		if !slices.Contains(optionalMethods, method) && !slices.Contains(defaultMethods, method) {
			return nil, fmt.Errorf("openapi: Options.Include names %.40q, expected some of %q", method, optionalMethods)
		}
		include = append(include, method)
	}
	complete.Include = include
	switch {
	case complete.MaxResponse < 0:
		return nil, fmt.Errorf("openapi: Options.MaxResponse is %d, expected a number of bytes", complete.MaxResponse)
	case complete.Timeout < 0:
		return nil, fmt.Errorf("openapi: Options.Timeout is %v, expected a duration above 0", complete.Timeout)
	}
	if complete.MaxResponse == 0 {
		complete.MaxResponse = defaultMaxResponse
	}
	if complete.Timeout == 0 {
		complete.Timeout = defaultTimeout
	}
	if complete.Logger == nil {
		complete.Logger = slog.Default()
	}
	return &complete, nil
}

// An Exposure is how an operation is exposed.
type Exposure uint8

const (
	// AsTool exposes a tool. It is the default.
	AsTool Exposure = iota
	// AsResource exposes a resource, or a resource template if there are parameters. It
	// requires a GET operation without a request body.
	AsResource
	// Excluded does not expose the operation.
	Excluded
)

// String returns "tool", "resource" or "excluded".
func (e Exposure) String() string {
	switch e {
	case AsTool:
		return "tool"
	case AsResource:
		return "resource"
	case Excluded:
		return "excluded"
	}
	return fmt.Sprintf("Exposure(%d)", uint8(e))
}

// A Rule applies to the operations that match all of its conditions Path, Methods, Tags and
// OperationID. A condition that is not set matches every operation.
type Rule struct {
	// Path matches any part of the path in the document. Use ^ and $ to anchor it.
	Path *regexp.Regexp
	// Methods are HTTP methods. Case is ignored.
	Methods []string
	// Tags match an operation with at least one of them.
	Tags []string
	// OperationID matches any part of the operationId.
	OperationID *regexp.Regexp

	// Expose is how the operation is exposed.
	Expose Exposure
	// Name and Description replace the name and description in the document. Name should be set only if the rule
	// matches one operation.
	Name        string
	Description string
}

func (r *Rule) matches(method, path, operationID string, tags []string) bool {
	return (r.Path == nil || r.Path.MatchString(path)) &&
		(r.OperationID == nil || r.OperationID.MatchString(operationID)) &&
		(len(r.Methods) == 0 || slices.ContainsFunc(r.Methods, func(m string) bool { return strings.EqualFold(m, method) })) &&
		(len(r.Tags) == 0 || slices.ContainsFunc(r.Tags, func(tag string) bool { return slices.Contains(tags, tag) }))
}

// matchRule returns the first rule that matches, or one that exposes a tool.
func matchRule(rules []Rule, method, path, operationID string, tags []string) *Rule {
	for i := range rules {
		if rules[i].matches(method, path, operationID, tags) {
			return &rules[i]
		}
	}
	return &Rule{}
}

const (
	// defaultTimeout is the default of Options.Timeout.
	defaultTimeout = 30 * time.Second
	// defaultMaxResponse is the default of Options.MaxResponse.
	defaultMaxResponse = 1 << 20

	// maxDocument is the maximum size of a document, in bytes. GitHub's has 13 MB.
	maxDocument = 64 << 20
	// maxNesting bounds the nesting of arrays and objects in a document, because the time of
	// the parser grows with its square.
	maxNesting = 256
	// maxNodes bounds the values of a YAML document with its aliases expanded.
	maxNodes = 10_000_000
	// maxOperations bounds the operations of a document.
	maxOperations = 10_000
	// maxReferences bounds a chain of references.
	maxReferences = 32
	// maxSchemas bounds the schemas that one schema is composed of.
	maxSchemas = 1000
	// maxPointer is the maximum length of a JSON Pointer, in bytes.
	maxPointer = 4 << 10
	// maxProblems bounds the problems of a document that one error lists.
	maxProblems = 20

	// maxName is the maximum length of a tool name: MCP 2025-11-25, server/tools.
	maxName = 128
	// maxTitle and maxDescription bound the texts about an operation, maxNote the
	// descriptions in a schema, in bytes. Longer texts are cut.
	maxTitle       = 256
	maxDescription = 4 << 10
	maxNote        = 1 << 10
	// maxOutputSchema is the maximum size of an output schema, in bytes. A larger schema is
	// omitted, because every client downloads it.
	maxOutputSchema = 64 << 10

	// maxAccepted bounds the media types in the Accept header.
	maxAccepted = 16
	// maxURL is the maximum length of a URL, in bytes.
	maxURL = 16 << 10
	// maxRedirects bounds the redirects of one request, all to the same origin.
	maxRedirects = 10
	// maxErrorBody is how much of the body of an error response is returned, in bytes.
	maxErrorBody = 4 << 10
)
