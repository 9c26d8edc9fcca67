package openapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Options configure a [Provider]. The zero value is good for a document that names
// its server.
type Options struct {
	// BaseURL is where the service is, such as https://api.example.com/v1. It
	// replaces every server of the document, and must be set where the document
	// names none by an absolute URL. Set it as well for a document that is not
	// yours, which else says where requests go.
	BaseURL string
	// HTTPClient makes the requests. Its CheckRedirect is asked after this package
	// has refused other origins. By default a client without cookies on
	// http.DefaultTransport.
	HTTPClient *http.Client
	// Authorize adds credentials to a request, before it is sent. It is called for
	// every call, but not for TRACE, whose answer would show them. What it adds is
	// kept out of errors; an error that it returns is logged, and the caller learns
	// only that there is one, unless it is a *jsonrpc.Error. It may be called
	// concurrently. [Credentials] has one for secrets that do not change.
	Authorize func(ctx context.Context, request *http.Request, security Security) error
	// Rules say what becomes of each operation: the first that matches, and a tool
	// where none does.
	Rules []Rule
	// Include lists methods to offer beside GET, POST, PUT, PATCH and DELETE: HEAD,
	// OPTIONS, TRACE.
	Include []string
	// HeaderParameters offers parameters in headers and cookies as arguments.
	// Without it they are left out, since most are credentials: Authorize, or the
	// HTTPClient, adds what is needed.
	HeaderParameters bool
	// AllowPathSeparators lets arguments in a path contain / and \, percent-encoded,
	// for a service that takes such as one value. Without it they are refused: a proxy
	// may decode them, and lead the request to another operation. Segments . and .. are
	// always refused.
	AllowPathSeparators bool
	// OmitOutputSchemas declares no output schemas, for a service whose answers do
	// not always follow its document. With an output schema such an answer is an
	// error, which shows the model the answer as text.
	OmitOutputSchemas bool
	// MaxResponse is the size in bytes of the largest body that is taken from the
	// service, after decompression. 0 means 1 MiB.
	MaxResponse int64
	// Timeout bounds one call, from Authorize to the last byte of the answer. 0 means
	// 30 s.
	Timeout time.Duration
	// Logger takes what an operator should know: parts of the document that are
	// ignored, failures that callers see only in outline. Default slog.Default().
	Logger *slog.Logger
}

// methods are those that are offered unasked.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// optional are those that Options.Include may name.
var optional = []string{http.MethodHead, http.MethodOptions, http.MethodTrace}

// withDefaults returns a copy that is complete.
func (o *Options) withDefaults() (*Options, error) {
	complete := Options{}
	if o != nil {
		complete = *o
	}
	include := slices.Clone(methods)
	for _, method := range complete.Include {
		method = strings.ToUpper(method)
		if !slices.Contains(optional, method) && !slices.Contains(methods, method) {
			return nil, fmt.Errorf("openapi: Options.Include names %.40q, expected some of %q", method, optional)
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
