package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// configuration is a file with the test server, one over HTTP, and some that do not work.
func configuration(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"child": map[string]any{"command": child(t)[1], "env": map[string]string{asServer: "1", "GORACE": "atexit_sleep_ms=0"}},
		"web":   map[string]any{"url": web(t) + "/mcp", "headers": map[string]string{"Greeting": "hello: world"}, "icon": "x"},
		"gone":  map[string]any{"command": filepath.Join(t.TempDir(), "nothing")},
		"bad":   map[string]any{"command": "x", "timeout": -1},
		"unset": map[string]any{"command": "${INSPECT_TEST_UNSET}"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func inspectAll(t *testing.T, path, line string) (stdout, stderr string, err error) {
	t.Helper()
	var out, said bytes.Buffer
	err = run(t.Context(), append([]string{"-config", path}, strings.Fields(line)...), strings.NewReader(""), &out, &said)
	return out.String(), said.String(), err
}

func TestServersOfConfigurationAreOne(t *testing.T) {
	path := configuration(t)
	for _, test := range []struct {
		line string
		want []string
	}{
		{"tools", []string{`"child__greet"`, `"web__greet"`}},
		{"-era legacy tools", []string{`"child__greet"`, `"web__greet"`}},
		{`call child__greet {"name":"Ada"}`, []string{`"text": "<hello> Ada"`}},
		{`-era legacy call web__greet {"name":"Ada"}`, []string{`"text": "<hello> Ada"`}},
		{"read greet://Ada", []string{`"text": "hello Ada"`}},
		{"info", []string{"\"alias\": \"child\",\n      \"status\": \"ready\"", "\"alias\": \"gone\",\n      \"status\": \"failed\"", "nothing: no such file"}},
	} {
		t.Run(test.line, func(t *testing.T) {
			shown, said, err := inspectAll(t, path, test.line)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range test.want {
				if !strings.Contains(shown, part) {
					t.Errorf("printed without %s:\n%s", part, shown)
				}
			}
			for _, part := range []string{`dovetail: the server "gone" cannot be used: `, "server unset: command: ", "mcpServers.web.icon: "} {
				if !strings.Contains(said, part) {
					t.Errorf("%q is not said in:\n%s", part, said)
				}
			}
		})
	}
}

func TestToolErrorOfOneOfManyExitsWithTwo(t *testing.T) {
	shown, _, err := inspectAll(t, configuration(t), `call child__greet {"name":""}`)
	var status exitStatus
	if !errors.As(err, &status) || status != toolFailed || !strings.Contains(shown, "nobody to greet") {
		t.Errorf("error = %v, printed:\n%s", err, shown)
	}
}

func TestWrongConfigurationsSayWhatIsExpected(t *testing.T) {
	path := configuration(t)
	for _, test := range []struct{ path, line, want string }{
		{path, "tools -- true", "expected no command"},
		{path, "-header a:b tools", "expected headers in the file"},
		{path, "call gone__greet", `the server answered: the server "gone" is not available at the moment; the call was not executed`},
		{path + ".no", "tools", "no such file"},
		{path, "ping typo", path + ` has no server "typo"; for all its servers, expected: ping alone, without "typo"`},
		{path, "ping chld", path + ` has no server "chld"; did you mean "child"?`},
		{path, "session typo", `has no server "typo"`},
		{path, "call typo greet {}", `has no server "typo"`},
		{path, "call chld greet {}", `has no server "chld"; did you mean "child"?`},
		{path, "ping bad", "bad: timeout"},
	} {
		t.Run(test.line, func(t *testing.T) {
			shown, said, err := inspectAll(t, test.path, test.line)
			if strings.Contains(said, "gone") && !strings.Contains(test.line, "gone") {
				t.Errorf("the servers are started: %s", said)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || shown != "" {
				t.Errorf("error = %v, want %q, printed:\n%s", err, test.want, shown)
			}
		})
	}
}

// A server of a configuration file is dialed as the file says, each time with the same headers, and
// -header overrides one.
func TestServerOfConfigurationIsDialedAsItSays(t *testing.T) {
	base := web(t)
	path := filepath.Join(t.TempDir(), "mcp.json")
	text := strings.ReplaceAll(`{"mcpServers":{"http":{"url":"BASE/mcp","headers":{"Greeting":"hello: world"}},"wrong":{"url":"BASE/mcp","headers":{"Greeting":"no"}},
		"ws":{"type":"ws","url":"BASE/ws","headers":{"Greeting":"hello: world"}},"child":{"command":"x"}}}`, "BASE", base)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ line, want string }{
		{"tools http", `"greet"`}, {"tools ws", `"greet"`}, {"tools wrong", "403"}, {"tools child -header Greeting:x", "-header is for servers at a URL"},
		{"doctor http", "2025-11-25 is supported too"},
	} {
		out, err := inspectAt(t, append(strings.Fields(test.line), "-config", path)...)
		if err != nil {
			out += err.Error()
		}
		if !strings.Contains(out, test.want) {
			t.Errorf("%s prints %s", test.line, out)
		}
	}
	if out, err := inspectAt(t, append([]string{"tools", "wrong", "-config", path}, greeted...)...); err != nil || !strings.Contains(out, `"greet"`) {
		t.Errorf("error %v:\n%s", err, out)
	}
}

// A URL that ends with /sse is one of HTTP+SSE, also if the server leaves a POST to it unanswered, or
// else of streamable HTTP.
func TestTheTransportOfAURLWithSSE(t *testing.T) {
	s := newServer()
	events, main := sse.Handler(s, nil), streamable.Handler(s, nil)
	t.Cleanup(func() {
		if err := errors.Join(events.Close(), main.Close()); err != nil {
			t.Error(err)
		}
	})
	silent := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.RawQuery == "" {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		events.ServeHTTP(w, r)
	}
	for name, handler := range map[string]http.Handler{"sse": http.HandlerFunc(silent), "streamable": main} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(handler)
			t.Cleanup(web.Close)
			out, err := inspectAt(t, "-timeout", "20s", "call", web.URL+"/a/sse", "greet", `{"name":"Ada"}`)
			if err != nil || !strings.Contains(out, "<hello> Ada") {
				t.Errorf("it prints %s%v", out, err)
			}
		})
	}
}
