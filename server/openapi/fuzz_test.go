package openapi_test

import (
	"encoding/json"
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

// A document that is accepted makes tools that can be called.
func FuzzNew(f *testing.F) {
	notes, err := os.ReadFile("testdata/notes.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(notes)
	for _, paths := range []string{securityDocument, resourceDocument, hostileDocument, ruleDocument, answerDocument} {
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
				t.Errorf("no JSON: %q", listed.Definition.JSON())
			}
			for _, arguments := range []string{`{}`, `{"id":1,"a":"b","body":[{}]}`} {
				if _, err := tryCall(t, p, listed.Name, arguments); err != nil {
					t.Errorf("%s(%s): %v", listed.Name, arguments, err)
				}
			}
		}
	})
}

// A value in a path is refused, or arrives as it was, in its place.
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
		var asked *url.URL
		p := provide(t, document("3.1.0", "paths: {'/pets/{id}/toys/{toy}': {parameters: [{name: id, in: path, style: "+style+"}], get: {operationId: get}}}"), openapi.Options{
			HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				asked = r.URL
				return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
			})},
		})
		arguments, err := json.Marshal(map[string]string{"id": id, "toy": toy})
		if err != nil {
			t.Fatal(err)
		}
		call(t, p, "get", string(arguments))
		if asked == nil {
			return
		}
		lead := map[string]string{"simple": "", "label": ".", "matrix": ";id="}[style]
		segments := strings.Split(asked.EscapedPath(), "/")
		if len(segments) != 5 || asked.Host != "service.example" || asked.RawQuery != "" || asked.Fragment != "" {
			t.Fatalf("asked for %s", asked)
		}
		for i, want := range map[int]string{1: "pets", 2: lead + id, 3: "toys", 4: toy} {
			if got, err := url.PathUnescape(segments[i]); err != nil || got != want || got == "." || got == ".." {
				t.Errorf("segment %d of %s is %q, want %q", i, asked, got, want)
			}
		}
	})
}
