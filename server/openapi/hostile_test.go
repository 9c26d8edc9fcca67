package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/openapi"
)

const hostileDocument = `
paths:
  /pets/{id}/toys/{toy}:
    get:
      operationId: get
      parameters:
      - {name: id, in: path, required: true, schema: {}}
      - {name: toy, in: path, required: true, schema: {}}
      - {name: q, in: query, schema: {type: string}}
      - {name: X-H, in: header, schema: {type: string}}
      - {name: c, in: cookie, schema: {type: string}}
  /dots/{a}{b}:
    get: {operationId: dots}
`

var hostileValues = []string{
	"admin/..x?x=1#", "a/b", "/", "//evil.example/", "a%2fadmin", "%2e%2e%2e", "a?b", "a#b", "a;b=c", "a&b=c",
	"a b", "a\r\nHost: evil.example", "\x00", "\u202e\u0000ü\U0001F9F7", "http://evil.example/", "@evil.example", ":80", "\\...\\", "a%", "...",
	strings.Repeat("x", 1000),
}

// The service gets every argument as one unchanged value.
func TestHostileValues(t *testing.T) {
	type got struct{ id, toy, q string }
	var last got
	service := func(_ http.ResponseWriter, r *http.Request) {
		segments := strings.Split(r.URL.EscapedPath(), "/")
		if len(segments) != 5 || segments[1] != "pets" || segments[3] != "toys" {
			t.Errorf("the service got a request for %s", r.RequestURI)
			return
		}
		id, _ := url.PathUnescape(segments[2])
		last = got{id, segments[4], r.URL.Query().Get("q")}
	}
	p := provide(t, document("3.1.0", hostileDocument), openapi.Options{BaseURL: serve(t, service), AllowPathSeparators: true})
	for _, value := range hostileValues {
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		result := call(t, p, "get", `{"id":`+string(quoted)+`,"toy":"t","q":`+string(quoted)+`}`)
		if result.IsError {
			t.Errorf("%q: %s", value, texts(result))
		} else if want := (got{value, "t", value}); last != want {
			t.Errorf("%q: the service got %q", value, last)
		}
	}
}

func TestDotSegmentsAndEmptyValues(t *testing.T) {
	p := provide(t, document("3.1.0", hostileDocument), openapi.Options{BaseURL: serve(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the service got a request for %s", r.RequestURI)
	})})
	for _, id := range []string{`""`, `"."`, `".."`, `[]`, `{}`, `null`, `[""]`, `["a",".."]`, `{"a":"."}`} {
		wantContains(t, callError(t, p, "get", `{"id":`+id+`,"toy":"t"}`), `"id"`, "path")
	}
	wantContains(t, callError(t, p, "get", `{"toy":"t"}`), `"id"`)
	wantContains(t, callError(t, p, "dots", `{"a":".","b":"."}`), "cannot be part of a path")
}

// A service behind nginx gets /users/..%2Fadmin%2Fkeys as /admin/keys.
func TestPathTraversal(t *testing.T) {
	const climbing = `
paths:
  /users/{id}:
    get: {operationId: simple, parameters: [{name: id, in: path, required: true, schema: {}}]}
  /exploded/{id}:
    get: {operationId: exploded, parameters: [{name: id, in: path, required: true, explode: true, schema: {}}]}
  /label/{id}:
    get: {operationId: label, parameters: [{name: id, in: path, required: true, style: label, schema: {}}]}
  /labels/{id}:
    get: {operationId: labels, parameters: [{name: id, in: path, required: true, style: label, explode: true, schema: {}}]}
  /matrix/{id}:
    get: {operationId: matrix, parameters: [{name: id, in: path, required: true, style: matrix, schema: {}}]}
  /matrices/{id}:
    get: {operationId: matrices, parameters: [{name: id, in: path, required: true, style: matrix, explode: true, schema: {}}]}
  /json/{id}:
    get: {operationId: json, parameters: [{name: id, in: path, required: true, content: {application/json: {schema: {}}}}]}
  /undeclared/{id}:
    get: {operationId: undeclared}
`
	tools := []string{"simple", "exploded", "label", "labels", "matrix", "matrices", "json", "undeclared"}
	dots := []string{
		"../admin/keys", "..", "%2e%2E", ".%2e", "..%2fadmin", "..%5Cadmin", "%252e%252e%252fadmin", `..\admin`, "x/../../admin", "..;/admin", "..;a=b/admin",
	}
	separators := []string{"a/b", "a/", `a\b`, "a%2Fb", "a%5cb", "a%25252fb"}
	for _, allowed := range []bool{false, true} {
		reached := 0
		p := provide(t, document("3.1.0", climbing), openapi.Options{AllowPathSeparators: allowed, BaseURL: serve(t, func(w http.ResponseWriter, r *http.Request) {
			reached++
			if !allowed {
				t.Errorf("the service got a request for %s", r.RequestURI)
			}
			serveEcho(w, r)
		})})
		refuse := dots
		if !allowed {
			refuse = append(refuse, separators...)
		}
		for _, tool := range tools {
			for _, value := range refuse {
				quoted, _ := json.Marshal(value)
				for _, argument := range []string{"%s", `[%s]`, `["a",%s]`, `{"a":%s}`, `{%s:"a"}`} {
					if tool == "undeclared" && argument != "%s" {
						continue // it is text
					}
					text := fmt.Sprintf(argument, quoted)
					if tool == "json" && (allowed || value == ".." || value == "%2e%2E" || value == ".%2e") {
						continue // with quotes it is not a segment . or ..
					}
					wantContains(t, callError(t, p, tool, `{"id":`+text+`}`), `"id"`, "cannot be part of a path")
				}
			}
			if allowed {
				for _, value := range separators {
					quoted, _ := json.Marshal(value)
					if result := call(t, p, tool, `{"id":`+string(quoted)+`}`); result.IsError {
						t.Errorf("%s %s: %s", tool, quoted, texts(result))
					}
				}
			}
		}
		if allowed != (reached > 0) {
			t.Errorf("the service got %d requests", reached)
		}
	}
}

func TestPathTraversalInDocument(t *testing.T) {
	wantContains(t, problems(t, document("3.1.0", `
paths:
  /users/../admin: {get: {operationId: a}}
  /users/%2e%2e%2fadmin: {get: {operationId: b}}
`), openapi.Options{BaseURL: "https://service.example"}), "dot segment")
	text := `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"servers":[{"url":"https://service.example/{v}","variables":{"v":{"default":"a/..%2f.."}}}],"paths":{"/a":{"get":{}}}}`
	if _, err := openapi.New([]byte(text), nil); err == nil || !strings.Contains(err.Error(), "dot segment") {
		t.Errorf("got %v", err)
	}
}

func TestDotSegmentOfSeveralValues(t *testing.T) {
	p := provide(t, document("3.1.0", `
paths:
  /{a}.: {get: {operationId: dot, parameters: [{name: a, in: path, required: true, style: label, schema: {}}]}}
  /x{b}: {get: {operationId: label, parameters: [{name: b, in: path, required: true, style: label, schema: {}}]}}
`), openapi.Options{BaseURL: serve(t, serveEcho)})
	if got := echoed(t, p, "label", `{"b":"y"}`).Path; got != "/x.y" {
		t.Errorf("the path is %q", got)
	}
	wantContains(t, callError(t, p, "dot", `{"a":"."}`), "path")
}

func TestHeaderControlCharacters(t *testing.T) {
	p := provide(t, document("3.1.0", hostileDocument), openapi.Options{BaseURL: serve(t, serveEcho), HeaderParameters: true})
	for _, value := range []string{`"a\r\nX-Evil: 1"`, `"a\nb"`, `"a\u0000"`, `"\u007f"`} {
		wantContains(t, callError(t, p, "get", `{"id":1,"toy":2,"X-H":`+value+`}`), `"X-H"`, "control characters")
	}
	got := echoed(t, p, "get", `{"id":1,"toy":2,"X-H":"ü","c":"a\r\nb; d=e"}`)
	if got.Headers.Get("X-H") != "ü" || got.Headers.Get("Cookie") != "c=a%0D%0Ab%3B%20d%3De" {
		t.Errorf("got %q", got.Headers)
	}
}

func TestUnknownArguments(t *testing.T) {
	p := provide(t, withBody("3.0.3", "application/json", "{type: object, properties: {name: {type: string}}}"), openapi.Options{
		BaseURL: serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the service was called") }),
	})
	wantContains(t, callError(t, p, "post", `{"id":1,"name":"a","admin":true}`), "admin")
	wantContains(t, callError(t, p, "post", `{"id":"1"}`), "integer")
	wantContains(t, callError(t, p, "post", `{}`), "id")
}

func TestLongURL(t *testing.T) {
	p := provide(t, document("3.1.0", hostileDocument), openapi.Options{BaseURL: serve(t, serveEcho)})
	wantContains(t, callError(t, p, "get", `{"id":1,"toy":2,"q":"`+strings.Repeat("x", 20<<10)+`"}`), "URL", "at most 16384")
}

func TestRedirects(t *testing.T) {
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other origin got a request with %q", r.Header.Get("Authorization"))
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /other", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) })
	mux.HandleFunc("GET /same", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/end", http.StatusFound) })
	mux.HandleFunc("GET /end", serveEcho)
	mux.HandleFunc("GET /loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	})
	p := provide(t, document("3.1.0", `
paths:
  /other: {get: {operationId: other}}
  /same: {get: {operationId: same}}
  /loop: {get: {operationId: loop}}
  /user: {get: {operationId: user}}
`), openapi.Options{BaseURL: serve(t, mux.ServeHTTP), Authorize: func(_ context.Context, r *http.Request, _ openapi.Security) error {
		r.Header.Set("Authorization", "Bearer secret-token")
		return nil
	}})
	wantContains(t, callError(t, p, "other", `{}`), "another origin")
	wantContains(t, callError(t, p, "user", `{}`), "another origin")
	wantContains(t, callError(t, p, "loop", `{}`), "too often")
	if got := echoed(t, p, "same", `{}`); got.Path != "/end" || got.Headers.Get("Authorization") != "Bearer secret-token" {
		t.Errorf("same origin: %+v", got)
	}
}

// CheckRedirect of the given client is called, too.
func TestRedirectsOfGivenClient(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/b", http.StatusFound) })
	p := provide(t, document("3.1.0", `paths: {/a: {get: {operationId: a}}}`), openapi.Options{BaseURL: url, HTTPClient: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}})
	wantContains(t, callError(t, p, "a", `{}`), "302 Found", "Location: /b")
}

func TestTransportErrorsAreHidden(t *testing.T) {
	var log bytes.Buffer
	p := provide(t, document("3.1.0", `paths: {"/a/{id}": {get: {operationId: a}}}`), openapi.Options{
		BaseURL: "https://internal.example", HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return nil, &url.Error{Op: "Get", URL: r.URL.String(), Err: errors.New("dial " + r.URL.Host + " with " + r.Header.Get("Authorization"))}
		})},
		Authorize: func(_ context.Context, r *http.Request, _ openapi.Security) error {
			r.Header.Set("Authorization", "Bearer secret-token")
			return nil
		},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if got := callError(t, p, "a", `{"id":"1"}`); got != "the service is not available, or its response is incomplete" {
		t.Errorf("the text is %q", got)
	}
	wantContains(t, log.String(), "dial internal.example", "[redacted]", `operation="GET /a/{id}"`)
	if strings.Contains(log.String(), "secret-token") || strings.Contains(log.String(), "https://") {
		t.Errorf("the log has a secret or an argument: %s", &log)
	}
}

// A roundTripper is an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// References that multiply schemas are bounded.
func TestSchemaBomb(t *testing.T) {
	var components strings.Builder
	for i := range 40 {
		fmt.Fprintf(&components, "    S%d: {allOf: [{$ref: '#/components/schemas/S%d'}, {$ref: '#/components/schemas/S%[2]d'}]}\n", i, i+1)
	}
	for _, media := range []string{"application/json", "multipart/form-data"} {
		got := problems(t, withBody("3.0.3", media, "{$ref: '#/components/schemas/S0'}", "components:\n  schemas:\n"+components.String()+"    S40: {type: object}"), openapi.Options{})
		wantContains(t, got, "composed of too many schemas")
	}
}

// The tools of every accepted document can be called.
func FuzzNew(f *testing.F) {
	notes, err := os.ReadFile("testdata/notes.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(notes)
	for _, paths := range []string{securityDocument, resourceDocument, hostileDocument, ruleDocument, responseDocument} {
		f.Add(document("3.0.3", paths))
	}
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/a/{b}":{"get":{"parameters":[{"$ref":"#/components/parameters/P"}]}}},"components":{"parameters":{"P":{"$ref":"#/components/parameters/P"}}}}`))
	f.Add([]byte("openapi: 3.0.0\npaths: &p\n  /a: {get: {requestBody: {content: {multipart/form-data: {schema: {$ref: '#/paths'}}}}}}\n  <<: *p"))
	answers := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	})}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := openapi.New(text, &openapi.Options{
			BaseURL: "https://service.example", HTTPClient: answers, HeaderParameters: true, Include: []string{"HEAD", "TRACE"},
			Authorize: openapi.Credentials{"key": "hunter2"}.Authorize, Logger: slog.New(slog.DiscardHandler),
			Rules: []openapi.Rule{{Path: regexp.MustCompile("^/r"), Expose: openapi.AsResource}},
		})
		if err != nil {
			return
		}
		for listed := range p.Catalog().All(mcp.KindTool) {
			if !json.Valid(listed.Definition.JSON()) {
				t.Errorf("not JSON: %q", listed.Definition.JSON())
			}
			for _, arguments := range []string{`{}`, `{"id":1,"a":"b","body":[{}]}`} {
				if _, err := tryCall(t, p, listed.Name, arguments); err != nil {
					t.Errorf("%s(%s): %v", listed.Name, arguments, err)
				}
			}
		}
	})
}

// A path argument is rejected, or the service gets it unchanged.
func FuzzPath(f *testing.F) {
	for _, value := range hostileValues {
		f.Add(value, value, "simple")
		f.Add(".", value, "label")
		f.Add("", value, "matrix")
	}
	f.Fuzz(func(t *testing.T, id, toy, style string) {
		if style != "simple" && style != "label" && style != "matrix" || !utf8.ValidString(id) || !utf8.ValidString(toy) {
			return
		}
		var requested *url.URL
		p := provide(t, document("3.1.0", "paths: {'/pets/{id}/toys/{toy}': {parameters: [{name: id, in: path, style: "+style+"}], get: {operationId: get}}}"), openapi.Options{
			HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				requested = r.URL
				return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
			})},
		})
		arguments, err := json.Marshal(map[string]string{"id": id, "toy": toy})
		if err != nil {
			t.Fatal(err)
		}
		call(t, p, "get", string(arguments))
		if requested == nil {
			return
		}
		lead := map[string]string{"simple": "", "label": ".", "matrix": ";id="}[style]
		segments := strings.Split(requested.EscapedPath(), "/")
		if len(segments) != 5 || requested.Host != "service.example" || requested.RawQuery != "" || requested.Fragment != "" {
			t.Fatalf("request for %s", requested)
		}
		for i, want := range map[int]string{1: "pets", 2: lead + id, 3: "toys", 4: toy} {
			if got, err := url.PathUnescape(segments[i]); err != nil || got != want || got == "." || got == ".." {
				t.Errorf("segment %d of %s is %q, want %q", i, requested, got, want)
			}
		}
	})
}
