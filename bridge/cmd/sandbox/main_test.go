//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/control"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

const (
	// asServer makes the test's binary a server, to be added to a sandbox.
	asServer = "SANDBOX_TEST_SERVER"
	// asSleep is the time for which a process sleeps that this server starts and does not stop.
	asSleep = "SANDBOX_TEST_SLEEP"
	// asSidecar makes it a sidecar that listens at an address.
	asSidecar = "SANDBOX_TEST_SIDECAR"
	// asBrowser makes it a server with the tools of browser.json.
	asBrowser = "SANDBOX_TEST_BROWSER"
)

// guard is set before the tests run.
var guard *process.Guard

func TestMain(m *testing.M) {
	guard = process.Main()
	if address := os.Getenv(asSidecar); address != "" {
		log.Fatal(http.ListenAndServe(address, nil))
	}
	if os.Getenv(asBrowser) != "" {
		if err := stdio.Serve(context.Background(), playwright(), nil); err != nil {
			os.Exit(1)
		}
		return
	}
	if greeting := os.Getenv(asServer); greeting != "" {
		if err := stdio.Serve(context.Background(), greeter(greeting), nil); err != nil {
			os.Exit(1)
		}
		return
	}
	// Guards of a test for races would wait a second each when they end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	leaktest.Main(m)
}

// playwright lists the tools of browser.json. Their results are the calls. A call of browser_evaluate returns the text of
// its argument function, and one of browser_snapshot with the argument depth the roots.
func playwright() *server.Server {
	s := server.New(mcp.Implementation{Name: "playwright", Version: "1"}, nil)
	var tools []json.RawMessage
	if err := json.Unmarshal(browserTools, &tools); err != nil {
		log.Fatal(err)
	}
	var entries []*server.Entry
	for _, tool := range tools {
		var listed mcp.Tool
		if err := json.Unmarshal(tool, &listed); err != nil {
			log.Fatal(err)
		}
		entries = append(entries, &server.Entry{
			Target: mcp.Target{Kind: mcp.KindTool, Name: listed.Name, Definition: mcp.NewDefinition(tool)},
			Handle: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				if function := call.Member("arguments", "function"); function != nil {
					return mcp.Raw(`{"content":[{"type":"text","text":` + string(function) + `}]}`), nil
				}
				if call.Member("arguments", "depth") != nil {
					roots, err := call.Input("roots", mcp.InputRequest{Method: mcp.MethodRootsList})
					if err != nil {
						return nil, err
					}
					return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(string(roots))}}, nil
				}
				return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(fmt.Sprintf("%s %s", call.Target().Name, call.Member("arguments")))}}, nil
			},
		})
	}
	if err := s.Replace(entries...); err != nil {
		log.Fatal(err)
	}
	return s
}

func greeter(greeting string) *server.Server {
	s := server.New(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "greet", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, func(context.Context, *server.Request, struct{}) (string, error) {
		return greeting + " " + os.Getenv("TOKEN"), nil
	})
	if greeting == "command" { // as the other half of run_command
		server.AddTool(s, server.Tool{Name: greeting}, func(context.Context, *server.Request, struct{}) (string, error) { return greeting, nil })
	}
	server.AddTool(s, server.Tool{Name: "linger"}, func(context.Context, *server.Request, struct{}) (string, error) {
		_, err := process.Main().Start(&process.Command{Path: "sleep", Args: []string{os.Getenv(asSleep)}})
		return "", err
	})
	return s
}

// options of a sandbox for a test, in a folder of its own.
func testOptions(t *testing.T) options {
	return options{root: t.TempDir(), pass: "GORACE", browser: "no-such-npx", chromium: "no-such-chromium", sidecars: map[string]control.Sidecar{}}
}

func started(t *testing.T, o options) *sandbox {
	t.Helper()
	s, err := newSandbox(t.Context(), guard, o, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A user is a client of a sandbox.
type user struct {
	*client.Session
	t *testing.T

	mu      sync.Mutex
	changes []mcp.Change
}

func connected(t *testing.T, dialer transport.Dialer, opts client.Options) *user {
	t.Helper()
	u := &user{t: t}
	opts.Era = client.Legacy // receives changes without a subscription
	opts.OnChange = func(_ context.Context, change mcp.Change) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.changes = append(u.changes, change)
	}
	var err error
	if u.Session, err = client.Connect(t.Context(), dialer, &opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

func newUser(t *testing.T, s *sandbox) *user {
	return connected(t, transport.Pipe(s.server), client.Options{})
}

// waitChanges returns the changes that were reported since the last call. It waits for as many as are
// expected, and a while for more.
func (u *user) waitChanges(expected int) []mcp.Change {
	u.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		<-time.After(100 * time.Millisecond)
		u.mu.Lock()
		changes := u.changes
		if len(changes) >= expected || time.Now().After(deadline) {
			u.changes = nil
			u.mu.Unlock()
			return changes
		}
		u.mu.Unlock()
	}
}

// call returns the text of a tool's result. The text of a failure begins with "error: ".
func (u *user) call(tool, arguments string) string {
	u.t.Helper()
	return u.callUntil(u.t.Context(), tool, arguments)
}

// callUntil is call until a context ends.
func (u *user) callUntil(ctx context.Context, tool, arguments string) string {
	u.t.Helper()
	result, err := u.CallTool(ctx, tool, json.RawMessage(arguments), nil)
	if err != nil {
		return "failure: " + err.Error()
	}
	var text strings.Builder
	if result.IsError {
		text.WriteString("error: ")
	}
	for _, content := range result.Content {
		switch content := content.(type) {
		case *mcp.TextContent:
			text.WriteString(content.Text)
		case *mcp.ImageContent:
			fmt.Fprintf(&text, "%s of %d bytes", content.MIMEType, len(content.Data))
		}
	}
	return text.String()
}

func (u *user) tools() map[string]*mcp.Tool {
	u.t.Helper()
	tools := make(map[string]*mcp.Tool)
	for tool, err := range u.Tools(u.t.Context(), nil) {
		if err != nil {
			u.t.Fatal(err)
		}
		tools[tool.Name] = tool
	}
	return tools
}

// A site is a sandbox over HTTP.
type site struct {
	*sandbox
	t              *testing.T
	url            string
	token, control string // tokens of agents and of the control routes
}

// served serves a sandbox over HTTP for a test.
func served(t *testing.T, o options) *site {
	t.Helper()
	o.address = "127.0.0.1:0"
	s := &site{sandbox: started(t, o), t: t}
	ctx, cancel := context.WithCancel(context.Background())
	said, w := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.serveHTTP(ctx, w) }()
	lines := bufio.NewReader(said)
	read := func(format string, word *string) {
		line, err := lines.ReadString('\n')
		if _, wrong := fmt.Sscanf(line, format, word); err != nil || wrong != nil {
			t.Fatalf("%q, want %q: %v", line, format, err)
		}
	}
	read("serving %s", &s.url)
	s.url = strings.TrimSuffix(s.url, "/mcp")
	s.token, s.control = o.token, o.controlToken
	if o.token == "" && !o.open {
		read("the token is %s", &s.token)
	}
	if o.controlToken == "" {
		read("the control token is %s", &s.control)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s
}

// send sends a request and returns the answer's status and body.
func (s *site) send(method, path, body string, header ...string) (int, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	token := s.control
	if forAgents(path) {
		token = s.token
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			request.Host = header[i+1]
		} else {
			request.Header.Set(header[i], header[i+1])
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, strings.TrimSpace(string(answer))
}

// forAgents reports whether a path takes the token of agents.
func forAgents(path string) bool { return path == "/mcp" || strings.HasPrefix(path, "/mcp/tools") }

func bearer(token string) func(context.Context, http.Header) error {
	return func(_ context.Context, header http.Header) error {
		header.Set("Authorization", "Bearer "+token)
		return nil
	}
}

func elicit(answer func(*mcp.ElicitParams) *mcp.ElicitResult) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) { return answer(p), nil }
}

func connectedTo(t *testing.T, s *sandbox, opts client.Options) *user {
	return connected(t, transport.Pipe(s.server), opts)
}

// sleepTime is a duration that no other test process on this machine uses, longer than any test.
func sleepTime() string { return fmt.Sprintf("61000.%d", os.Getpid()) }

// nothingSleeps checks that no process is left of those that sleep for sleepTime.
func nothingSleeps(t *testing.T) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if line, err := os.ReadFile(name); err == nil && string(line) == "sleep\x00"+sleepTime()+"\x00" {
			t.Errorf("%s is left behind", name)
		}
	}
}
