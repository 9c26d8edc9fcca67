package openapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/openapi"
)

// responding returns a client whose requests all have the same response.
func responding(status int, contentType, body string, headers ...string) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		response := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		if contentType != "" {
			response.Header.Set("Content-Type", contentType)
		}
		for i := 0; i < len(headers); i += 2 {
			response.Header.Set(headers[i], headers[i+1])
		}
		return response, nil
	})}
}

// recording returns a client that stores the URL of the last request.
func recording(url *string) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		*url = r.URL.String()
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	})}
}

const responseDocument = "paths: {'/a/{id}': {get: {operationId: get}, head: {operationId: head, responses: {'200': {description: ok, content: {application/json: {schema: {type: object}}}}}}, delete: {operationId: delete}}}"

func TestResponses(t *testing.T) {
	for _, test := range []struct {
		name   string
		client *http.Client
		want   string
	}{
		{"JSON", responding(200, "application/json", "\xef\xbb\xbf {\"n\": 12345678901234567890}\n"), "text: {\"n\": 12345678901234567890}; structured: {\"n\": 12345678901234567890}"},
		{"JSON list", responding(201, "application/hal+json; charset=utf-8", "[1]"), "text: [1]; structured: [1]"},
		{"broken JSON", responding(200, "application/json", "{"), "text: {"},
		{"text", responding(200, "text/plain; charset=utf-8", "häh"), "text: häh"},
		{"XML", responding(200, "application/atom+xml", "<a/>"), "text: <a/>"},
		{"no type", responding(200, "", "a"), "text: a"},
		{"Latin-1", responding(200, "text/plain", "h\xe4h"), "blob: h\xe4h text/plain openapi://service.example/a/1%2F2"},
		{"picture", responding(200, "image/png", "\x89PNG"), "image: \x89PNG image/png"},
		{"sound", responding(200, "audio/wav", "RIFF"), "audio: RIFF audio/wav"},
		{"bytes", responding(200, "application/pdf", "%PDF"), "blob: %PDF application/pdf openapi://service.example/a/1%2F2"},
		{"bytes without type", responding(200, "", "\xff"), "blob: \xff  openapi://service.example/a/1%2F2"},
		{"nothing", responding(204, "", ""), "text: 204 No Content"},
		{"nothing but a place", responding(201, "", "", "Location", "/a/7", "Set-Cookie", "a=b"), "text: 201 Created\nLocation: /a/7"},
		{"nothing as JSON", responding(202, "application/json", ""), "text: 202 Accepted\nContent-Type: application/json"},
		{"failure", responding(404, "application/json", ` {"error":"none"} `), "error text: the service responded with 404 Not Found\n{\"error\":\"none\"}"},
		{"failure to come back", responding(429, "text/plain", "", "Retry-After", "30"), "error text: the service responded with 429 Too Many Requests\nRetry-After: 30"},
		{"failure in bytes", responding(500, "application/octet-stream", "\x00"), "error text: the service responded with 500 Internal Server Error"},
		{"unknown failure", responding(599, "", "a\xffb"), "error text: the service responded with 599\nab"},
		{"redirect without place", responding(304, "", ""), "error text: the service responded with 304 Not Modified"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := provide(t, document("3.0.3", responseDocument), openapi.Options{HTTPClient: test.client, AllowPathSeparators: true})
			if got := summary(call(t, p, "get", `{"id":"1/2"}`)); got != test.want {
				t.Errorf("got\n%q, want\n%q", got, test.want)
			}
		})
	}
}

// summary returns a result as one line.
func summary(result *mcp.CallToolResult) string {
	var parts []string
	for _, content := range result.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			parts = append(parts, "text: "+content.Text)
		case *mcp.ImageContent:
			parts = append(parts, fmt.Sprintf("image: %s %s", content.Data, content.MIMEType))
		case *mcp.AudioContent:
			parts = append(parts, fmt.Sprintf("audio: %s %s", content.Data, content.MIMEType))
		case *mcp.EmbeddedResource:
			blob := content.Resource.(*mcp.BlobResourceContents)
			parts = append(parts, fmt.Sprintf("blob: %s %s %s", blob.Blob, blob.MIMEType, blob.URI))
		}
	}
	if result.StructuredContent != nil {
		parts = append(parts, "structured: "+string(result.StructuredContent))
	}
	text := strings.Join(parts, "; ")
	if result.IsError {
		text = "error " + text
	}
	return text
}

func TestHead(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Length", "12")
		w.Header().Set("Content-Type", "text/plain")
	})
	p := provide(t, document("3.0.3", responseDocument), openapi.Options{BaseURL: url, Include: []string{"HEAD"}})
	if got := texts(call(t, p, "head", `{"id":"1"}`)); got != "200 OK\nContent-Type: text/plain\nContent-Length: 12\nETag: \"1\"" {
		t.Errorf("got %q", got)
	}
}

func TestMaxResponse(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		size := 100
		if strings.HasSuffix(r.URL.Path, "/large") {
			size = 101
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/plain")
		zip := gzip.NewWriter(w)
		zip.Write(bytes.Repeat([]byte{'x'}, size))
		zip.Close()
	})
	p := provide(t, document("3.0.3", responseDocument), openapi.Options{BaseURL: url, MaxResponse: 100})
	if got := texts(call(t, p, "get", `{"id":"small"}`)); len(got) != 100 {
		t.Errorf("got %d bytes", len(got))
	}
	wantContains(t, callError(t, p, "get", `{"id":"large"}`), "larger than 100 bytes")
}

func TestLongErrorBody(t *testing.T) {
	p := provide(t, document("3.0.3", responseDocument), openapi.Options{HTTPClient: responding(500, "text/html", strings.Repeat("é", 10_000))})
	if got := callError(t, p, "get", `{"id":"1"}`); len(got) > 5<<10 || !strings.HasSuffix(got, "é…") {
		t.Errorf("the text is %d bytes", len(got))
	}
}

func TestOutputSchemaMismatch(t *testing.T) {
	text := document("3.0.3", `
paths:
  /a: {get: {operationId: get, responses: {'200': {description: ok, content: {application/json: {schema: {type: object, required: [id], properties: {id: {type: integer}}}}}}}}}
`)
	var log bytes.Buffer
	for body, want := range map[string]string{
		`{"id":1}`:   `text: {"id":1}; structured: {"id":1}`,
		`{"id":"1"}`: `error text: the call succeeded (200), but the response does not match the schema in the OpenAPI document: at "/id": expected an integer, got the string "1"; text: {"id":"1"}`,
		`{`:          `error text: the call succeeded (200), but the response does not match the schema in the OpenAPI document: it is not JSON; text: {`,
	} {
		log.Reset()
		p := provide(t, text, openapi.Options{HTTPClient: responding(200, "application/json", body), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if got := summary(call(t, p, "get", `{}`)); got != want {
			t.Errorf("%s: got\n%s, want\n%s", body, got, want)
		}
		if logged := strings.Contains(log.String(), "does not match"); logged != strings.HasPrefix(want, "error") {
			t.Errorf("%s: the log has %q", body, log.String())
		}
		p = provide(t, text, openapi.Options{HTTPClient: responding(200, "application/json", body), OmitOutputSchemas: true})
		if call(t, p, "get", `{}`).IsError {
			t.Errorf("%s: an error without an output schema", body)
		}
	}
}

func TestAcceptHeader(t *testing.T) {
	p := provide(t, document("3.0.3", `
paths:
  /a: {get: {operationId: a, responses: {'200': {description: ok, content: {text/csv: {}, application/json: {}, 'bad type': {}}}, default: {description: e, content: {application/problem+json: {}}}}}}
  /b: {get: {operationId: b}}
`), openapi.Options{BaseURL: serve(t, serveEcho)})
	if got := echoed(t, p, "a", `{}`).Headers.Get("Accept"); got != "application/json, application/problem+json, text/csv" {
		t.Errorf("Accept: %q", got)
	}
	if got := echoed(t, p, "b", `{}`).Headers.Get("Accept"); got != "*/*" {
		t.Errorf("Accept: %q", got)
	}
}

// silent returns a client whose requests never get a response.
func silent() *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provide(t, document("3.0.3", responseDocument), openapi.Options{HTTPClient: silent()})
		began := time.Now()
		wantContains(t, callError(t, p, "get", `{"id":"1"}`), "did not respond within 30s")
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("duration %v", took)
		}
	})
}

func TestCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provide(t, document("3.0.3", responseDocument), openapi.Options{HTTPClient: silent()})
		ctx, cancel := context.WithCancelCause(t.Context())
		context.AfterFunc(ctx, func() {})
		go func() {
			synctest.Wait()
			cancel(errors.New("enough"))
		}()
		result, err := tryCallIn(ctx, t, p, "get", `{"id":"1"}`)
		if err != nil || !result.IsError || texts(result) != "enough" {
			t.Errorf("got %v, %v", result, err)
		}
	})
}

// An incomplete response is an error.
func TestIncompleteResponse(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "half")
	})
	p := provide(t, document("3.0.3", responseDocument), openapi.Options{BaseURL: url})
	wantContains(t, callError(t, p, "get", `{"id":"1"}`), "its response is incomplete")
}
