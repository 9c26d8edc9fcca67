package streamable_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const byteOrderMark = "\uFEFF"

// A byte order mark before a message is skipped, in both eras, in a body and in an answer.
func TestByteOrderMarks(t *testing.T) {
	r := serve(t, newServer(), nil)
	r.modern("tools/call", "sum").post(byteOrderMark+sum(1, 2, 3)).is(http.StatusOK, `"result"`)
	r.open(mcp.Version20251125).post(byteOrderMark+call(7, "sum", `{"a":2,"b":3}`)).is(http.StatusOK, `"id":7`, `"result"`)
	r.open(mcp.Version20250326).post(byteOrderMark+"["+call(7, "sum", `{"a":2,"b":3}`)+"]").is(http.StatusOK, `"id":7`, `"result"`)

	for _, stream := range []bool{false, true} {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			s := newServer()
			server.AddTool(s, server.Tool{Name: "done"}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
			endpoint := streamable.Handler(s, nil)
			defer endpoint.Close()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				recorded := httptest.NewRecorder()
				endpoint.ServeHTTP(recorded, r)
				maps.Copy(w.Header(), recorded.Header())
				body := recorded.Body.String()
				if stream && body != "" {
					w.Header().Set("Content-Type", "text/event-stream")
					body = byteOrderMark + "data: " + byteOrderMark + body + "\n\n"
				} else {
					body = byteOrderMark + body
				}
				w.WriteHeader(recorded.Code)
				_, _ = io.WriteString(w, body)
			}))
			defer web.Close()
			session, err := client.Connect(t.Context(), streamable.Dial(web.URL, nil), &client.Options{Era: era, Logger: quiet})
			if err != nil {
				t.Fatalf("%v: %v", era, err)
			}
			defer session.Close()
			if got, err := session.CallTool(t.Context(), "done", nil, nil); err != nil || got.Text() != "done" {
				t.Errorf("%v, a stream: %t: %v, %v", era, stream, got, err)
			}
		}
	}
}

// The endpoint is served with a slash at the end of its path, too.
func TestServePathWithSlash(t *testing.T) {
	for path, urls := range map[string]map[string]int{
		"":        {"/mcp": 200, "/mcp/": 200, "/mcp//": 404, "/mcp/x": 404, "/": 404},
		"/a/b":    {"/a/b": 200, "/a/b/": 200, "/a": 404, "/a/b/c": 404},
		"/slash/": {"/slash/": 200},
		"/":       {"/": 200},
	} {
		address, stop := startServe(t, newServer(), streamable.ServeOptions{Path: path, Options: streamable.Options{Logger: quiet}})
		for url, want := range urls {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+url, strings.NewReader(call(1, "x", `{}`)))
			if err != nil {
				t.Fatal(err)
			}
			req.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
			req.ContentLength = -1
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.StatusCode; got != want && !(want == 404 && got/100 == 3) {
				t.Errorf("Path %q: %s is answered with %d, want %d", path, url, got, want)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}
