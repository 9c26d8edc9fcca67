package openapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server/openapi"
)

const securityDocument = `
security: [{bearer: []}]
paths:
  /bearer: {get: {operationId: bearer}}
  /basic: {get: {operationId: basic, security: [{basic: []}]}}
  /digest: {get: {operationId: digest, security: [{digest: []}]}}
  /header: {get: {operationId: header, security: [{header: []}]}}
  /query: {get: {operationId: query, security: [{query: []}], parameters: [{name: a, in: query, schema: {type: string}}]}}
  /cookie: {get: {operationId: cookie, security: [{cookie: []}], parameters: [{name: a, in: cookie, schema: {type: string}}]}}
  /oauth: {get: {operationId: oauth, security: [{oauth: [read, write]}]}}
  /oidc: {get: {operationId: oidc, security: [{oidc: [x]}]}}
  /mtls: {get: {operationId: mtls, security: [{mtls: []}]}}
  /both: {get: {operationId: both, security: [{header: [], bearer: []}]}}
  /either: {get: {operationId: either, security: [{none: []}, {header: []}]}}
  /optional: {get: {operationId: optional, security: [{none: []}, {}]}}
  /open: {get: {operationId: open, security: []}}
  /missing: {get: {operationId: missing, security: [{none: []}]}}
  /undefined: {get: {operationId: undefined, security: [{nowhere: []}]}}
  /trace: {trace: {operationId: trace}}
components:
  securitySchemes:
    bearer: {type: http, scheme: bearer}
    basic: {type: http, scheme: Basic}
    digest: {type: http, scheme: Digest}
    header: {type: apiKey, in: header, name: X-Key}
    query: {type: apiKey, in: query, name: key}
    cookie: {type: apiKey, in: cookie, name: key}
    oauth: {type: oauth2, flows: {clientCredentials: {tokenUrl: https://t.example, scopes: {read: r, write: w}}}}
    oidc: {type: openIdConnect, openIdConnectUrl: https://o.example/.well-known}
    mtls: {type: mutualTLS}
    none: {type: http, scheme: bearer}
`

var credentials = openapi.Credentials{
	"bearer": "token-b", "basic": "user:pass-word", "digest": "digest-d", "header": "key-h", "query": "key&q", "cookie": "key;c",
	"oauth": "token-o", "oidc": "token-i", "nowhere": "x",
}

func TestCredentials(t *testing.T) {
	p := provide(t, document("3.1.0", securityDocument), openapi.Options{
		BaseURL: serve(t, serveEcho), Authorize: credentials.Authorize, HeaderParameters: true, Include: []string{"trace"},
	})
	for _, test := range []struct{ tool, arguments, want string }{
		{"bearer", `{}`, "Bearer token-b |  | "},
		{"basic", `{}`, "Basic dXNlcjpwYXNzLXdvcmQ= |  | "},
		{"digest", `{}`, "Digest digest-d |  | "},
		{"header", `{}`, " | key-h | "},
		{"query", `{"a":"b"}`, " |  | a=b&key=key%26q"},
		{"query", `{}`, " |  | key=key%26q"},
		{"cookie", `{"a":"b"}`, " |  | a=b; key=key%3Bc"},
		{"oauth", `{}`, "Bearer token-o |  | "},
		{"oidc", `{}`, "Bearer token-i |  | "},
		{"mtls", `{}`, " |  | "},
		{"both", `{}`, "Bearer token-b | key-h | "},
		{"either", `{}`, " | key-h | "},
		{"optional", `{}`, " |  | "},
		{"open", `{}`, " |  | "},
		{"trace", `{}`, " |  | "},
	} {
		got := echoed(t, p, test.tool, test.arguments)
		if line := fmt.Sprintf("%s | %s | %s", got.Headers.Get("Authorization"), got.Headers.Get("X-Key"), got.Query+got.Headers.Get("Cookie")); line != test.want {
			t.Errorf("%s: got %q, want %q", test.tool, line, test.want)
		}
	}
	for _, tool := range []string{"missing", "undefined"} {
		if got := callError(t, p, tool, `{}`); got != "the request could not be authorized" {
			t.Errorf("%s: the text is %q", tool, got)
		}
	}
}

func TestAuthorizeSecurity(t *testing.T) {
	var security openapi.Security
	p := provide(t, document("3.1.0", securityDocument), openapi.Options{
		BaseURL: serve(t, serveEcho), Authorize: func(_ context.Context, _ *http.Request, s openapi.Security) error {
			security = s
			return nil
		},
	})
	echoed(t, p, "oauth", `{}`)
	if got := fmt.Sprintf("%+v %s %s %s %s", security.Alternatives, security.OperationID, security.Method, security.Path, security.Call.Caller.Principal); got !=
		"[[{Name:oauth Type:oauth2 In: Parameter: Scheme: Scopes:[read write] OpenIDConnectURL:}]] oauth GET /oauth ada" {
		t.Errorf("Authorize got %s", got)
	}
	echoed(t, p, "open", `{}`)
	if len(security.Alternatives) != 0 {
		t.Errorf("for an open operation Authorize got %+v", security.Alternatives)
	}
}

// Secrets in a response are redacted.
func TestSecretsAreRedacted(t *testing.T) {
	var log bytes.Buffer
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/login?was="+r.URL.Query().Get("key"))
		w.WriteHeader(http.StatusUnauthorized)
		r.Header.Write(w)
		user, password, _ := r.BasicAuth()
		io.WriteString(w, r.RequestURI+" "+user+" "+password+strings.Repeat("x", 4000)+r.Header.Get("Authorization"))
	})
	p := provide(t, document("3.1.0", securityDocument), openapi.Options{
		BaseURL: url, Authorize: credentials.Authorize, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for _, tool := range []string{"bearer", "basic", "digest", "header", "query", "cookie", "oauth", "both"} {
		got := callError(t, p, tool, `{}`)
		wantContains(t, got, "401 Unauthorized", "[redacted]")
		for _, secret := range []string{"token-b", "pass-word", "dXNlcjpwYXNzLXdvcmQ", "digest-d", "key-h", "key&q", "key%26q", "key%3Bc", "token-o"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: the text is the secret %q:\n%s", tool, secret, got)
			}
		}
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", &log)
	}
}

// A partial secret at the end of a cut error body is removed.
func TestSecretAtCut(t *testing.T) {
	const token = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789"
	p := provide(t, document("3.1.0", securityDocument), openapi.Options{
		HTTPClient: responding(500, "text/plain", strings.Repeat(token, 200)), Authorize: openapi.Credentials{"header": token}.Authorize,
	})
	if got := callError(t, p, "header", `{}`); strings.Contains(got, token[:8]) {
		t.Errorf("the text is %s", got)
	}
}

func TestSecretInURL(t *testing.T) {
	p := provide(t, document("3.1.0", securityDocument), openapi.Options{
		BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, password, _ := r.BasicAuth()
			http.Error(w, "not with "+password, http.StatusForbidden)
		}),
		Authorize: func(_ context.Context, r *http.Request, _ openapi.Security) error {
			r.URL.User = url.UserPassword("ada", "hunter2")
			return nil
		},
	})
	if got := callError(t, p, "open", `{}`); got != "the service responded with 403 Forbidden\nnot with [redacted]" {
		t.Errorf("the text is %q", got)
	}
}

func TestAuthorizeErrors(t *testing.T) {
	var log bytes.Buffer
	failure := errors.New("no token for client secret-id")
	p := provide(t, document("3.1.0", securityDocument), openapi.Options{
		BaseURL:   serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the service was called") }),
		Authorize: func(context.Context, *http.Request, openapi.Security) error { return failure },
		Logger:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	if got := callError(t, p, "bearer", `{}`); got != "the request could not be authorized" {
		t.Errorf("the text is %q", got)
	}
	wantContains(t, log.String(), "secret-id")
	failure = fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: -32001, Message: "log in first"})
	_, err := tryCall(t, p, "bearer", `{}`)
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32001 {
		t.Errorf("the protocol error is %v", err)
	}
}

func TestApplyErrors(t *testing.T) {
	for _, scheme := range []openapi.SecurityScheme{
		{Name: "a", Type: "apiKey", In: "body"}, {Name: "b", Type: "http", Scheme: "basic"}, {Name: "c"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://service.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := scheme.Apply(r, "hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") || len(r.Header) > 0 {
			t.Errorf("%+v: %v, %v", scheme, err, r.Header)
		}
	}
}
