package toolserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// childVariable says how this process behaves as a child: "serve", "hang" or "exit".
const childVariable = "DOVETAIL_TEST_CHILD"

// serveChild is a server that a test has launched.
func serveChild() int {
	switch os.Getenv(childVariable) {
	case "hang":
		io.Copy(io.Discard, os.Stdin)
		return 0
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot use", os.Getenv("API_KEY"))
		return 1
	}
	if err := stdio.Serve(context.Background(), newTools(), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// newTools is a server with the tools of the tests.
func newTools() *server.Server {
	s := server.New(mcp.Implementation{Name: "tools", Version: "1"}, &server.Options{Logger: quiet()})
	add := func(name string, fn func(ctx context.Context, arguments json.RawMessage) (mcp.Result, error)) {
		tool := server.Tool{Name: name, InputSchema: openSchema, Annotations: &mcp.ToolAnnotations{Title: name}}
		server.AddRawTool(s, tool, func(ctx context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
			return fn(ctx, arguments)
		})
	}
	says := func(result string) func(context.Context, json.RawMessage) (mcp.Result, error) {
		return func(context.Context, json.RawMessage) (mcp.Result, error) { return mcp.Raw(result), nil }
	}
	add("echo", func(_ context.Context, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
	})
	add("picky", func(context.Context, json.RawMessage) (mcp.Result, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "x must be odd"}
	})
	add("tool-1", says(`{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}`))
	add("tool_2", says(`{"content":[{"type":"text","text":"ignored"}],"structuredContent":{"sum":12345678901234567890}}`))
	add("empty", says(`{"content":[{"type":"text","text":"{}"}],"structuredContent":{}}`))
	add("nothing", says(`{"content":[]}`))
	add("picture", says(`{"content":[{"type":"text","text":"a"},{"type":"image","data":"AAEC","mimeType":"image/png"}]}`))
	add("fail", says(`{"content":[{"type":"text","text":"no such"},{"type":"text","text":"file"}],"isError":true}`))
	add("fail_quietly", says(`{"content":[],"isError":true}`))
	add("start", func(context.Context, json.RawMessage) (mcp.Result, error) { // how it was started
		dir, _ := os.Getwd()
		said, err := json.Marshal(map[string]any{"pid": os.Getpid(), "env": os.Environ(), "args": os.Args[1:], "dir": dir})
		return &mcp.CallToolResult{StructuredContent: said}, err
	})
	add("touch", func(_ context.Context, arguments json.RawMessage) (mcp.Result, error) { // leaves a mark
		var in struct{ Path string }
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(in.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		_, err = f.WriteString("x")
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("touched")}}, err
	})
	add("wait", func(ctx context.Context, arguments json.RawMessage) (mcp.Result, error) { // leaves a mark, and stays
		var in struct{ Path string }
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, err
		}
		if err := os.WriteFile(in.Path, nil, 0o600); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	return s
}

// childParams launch a child of this test binary.
func childParams(behaviour string, env ...string) toolserver.ServerParams {
	p := toolserver.ServerParams{Command: os.Args[0], Env: map[string]string{childVariable: behaviour}}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		p.Env[name] = value
	}
	return p
}

// newRemote serves the same tools by streamable HTTP, until the test ends.
func newRemote(t testing.TB) (url string) {
	t.Helper()
	handler := streamable.Handler(newTools(), nil)
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		web.CloseClientConnections()
		if err := handler.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return web.URL + "/mcp"
}

// A lines takes what is logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A toolRig is a tool server that listens on a loopback address. Everybody may launch servers
// unless the options say otherwise.
type toolRig struct {
	*toolserver.Server
	url       string
	log       *lines
	approvers http.Handler
}

func newToolRig(t testing.TB, opts toolserver.Options) *toolRig {
	t.Helper()
	r := &toolRig{log: &lines{}, approvers: opts.Approval}
	if opts.Access == nil {
		opts.Access = newAccess(t, gateway.AccessOptions{Open: true, Tokens: map[string]string{"a-token-of-sandbox-one": "one", "a-token-of-sandbox-two": "two"}})
	}
	if opts.Launch == nil {
		opts.Launch = toolserver.LaunchAny
	}
	opts.Logger = slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if r.Server, err = toolserver.New(&opts); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(r.Server)
	r.url = web.URL
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return r
}

// runner runs tools of a server that it launches.
func (r *toolRig) runner(t testing.TB, name string, params toolserver.ServerParams) *toolserver.Runner {
	return r.runnerAs(t, "", name, params)
}

func (r *toolRig) runnerAs(t testing.TB, token, name string, params toolserver.ServerParams) *toolserver.Runner {
	t.Helper()
	runner, err := toolserver.NewRunner(r.url, name, &toolserver.RunnerOptions{Params: params, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// send makes a request as the original clients do.
func (r *toolRig) send(ctx context.Context, method, path, body string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("User-Agent", "Python/3.12 aiohttp/3.11.18")
	request.Header.Set("Accept", "*/*")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// gated are options with an open channel as the original has it, and a guard that always asks.
func gated(t testing.TB, opts approval.Options, verify bool) toolserver.Options {
	t.Helper()
	approvers, err := channel.New(&channel.Options{Open: true, FailOnDisconnect: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := approvers.Close(); err != nil {
			t.Error(err)
		}
	})
	opts.Logger = quiet()
	guard := approval.Guard(compiled(t, askAlways), approvers, &opts)
	return toolserver.Options{Guards: []mcp.Guard{guard}, Approval: approvers, VerifyFirst: verify}
}

// askAlways is a policy that asks about everything.
const askAlways = `{"rules":[{"effect":"ask"}]}`

func compiled(t testing.TB, text string) *policy.Compiled {
	t.Helper()
	parsed, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := policy.Compile(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

var openSchema = json.RawMessage(`{"type":"object"}`)

func newAccess(t testing.TB, opts gateway.AccessOptions) *gateway.Access {
	t.Helper()
	opts.Logger = quiet()
	access, err := gateway.NewAccess(&opts)
	if err != nil {
		t.Fatal(err)
	}
	return access
}

// A shelf is a server of the operator's that counts its calls.
type shelf struct {
	*server.Server

	calls   atomic.Int32
	entered chan struct{} // a call of slow has come
	left    chan error    // and has ended, for that reason
}

func newShelf() *shelf {
	s := &shelf{
		Server:  server.New(mcp.Implementation{Name: "shelf", Version: "1"}, &server.Options{Logger: quiet()}),
		entered: make(chan struct{}, 10), left: make(chan error, 10),
	}
	add := func(name string, fn func(ctx context.Context) (mcp.Result, error)) {
		server.AddRawTool(s.Server, server.Tool{Name: name, InputSchema: openSchema}, func(ctx context.Context, _ *server.Request, _ json.RawMessage) (mcp.Result, error) {
			s.calls.Add(1)
			return fn(ctx)
		})
	}
	for name, result := range map[string]string{
		"read": `{"content":[{"type":"text","text":"one"}]}`, "nothing": `{"content":[]}`, "echo": `{"content":[]}`,
		"stat": `{"content":[],"structuredContent":{ "size" : 12345678901234567890 }}`, "fail": `{"content":[{"type":"text","text":"no such file"}],"isError":true}`,
	} {
		add(name, func(context.Context) (mcp.Result, error) { return mcp.Raw(result), nil })
	}
	add("slow", func(ctx context.Context) (mcp.Result, error) {
		s.entered <- struct{}{}
		<-ctx.Done()
		s.left <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	return s
}

func newBridge(t testing.TB, configs ...bridge.Config) *bridge.Bridge {
	t.Helper()
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func to(alias string, s transport.Binder) bridge.Config {
	return bridge.Config{Alias: alias, Dialer: transport.Pipe(s)}
}

// serving is a server with providers mounted, that runs until the test ends.
func serving(t testing.TB, opts *server.Options, providers ...server.Provider) *server.Server {
	t.Helper()
	var o server.Options
	if opts != nil {
		o = *opts
	}
	o.Logger = quiet()
	s := server.New(mcp.Implementation{Name: "operator", Version: "1"}, &o)
	for _, p := range providers {
		if err := s.Mount(p, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// An originalApprover is the end of a socket as the original client has it.
type originalApprover struct {
	*websocket.Conn
	asked chan asked
	ended chan struct{}
}

// asked is what it is shown. Of the params it knows three.
type asked struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	Params struct {
		Server    string          `json:"server_name"`
		Tool      string          `json:"tool_name"`
		Arguments json.RawMessage `json:"tool_args"`
		Launch    string          `json:"launch"`
		Digest    string          `json:"tool_digest"`
	} `json:"params"`
}

// approve connects an approver.
func (r *toolRig) approve(t testing.TB) *originalApprover {
	t.Helper()
	socket, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.url, "http")+"/approval", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &originalApprover{socket, make(chan asked, 100), make(chan struct{})}
	go func() {
		defer close(a.ended)
		defer close(a.asked)
		for {
			var next asked
			if err := socket.ReadJSON(&next); err != nil {
				return
			}
			a.asked <- next
		}
	}()
	t.Cleanup(a.leave)
	await(t, "the approver is known", r.approvers.(*channel.Channel).Connected)
	return a
}

func (a *originalApprover) leave() {
	a.Close()
	<-a.ended
}

// next waits for a question.
func (a *originalApprover) next(t testing.TB) asked {
	t.Helper()
	select {
	case q, ok := <-a.asked:
		if !ok {
			t.Fatal("the approver was sent away")
		}
		return q
	case <-time.After(20 * time.Second):
		t.Fatal("nobody was asked")
	}
	panic("unreachable")
}

// decide answers a question with a JSON value.
func (a *originalApprover) decide(t testing.TB, q asked, result string) {
	t.Helper()
	if err := a.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","result":`+result+`,"id":"`+q.ID+`"}`)); err != nil {
		t.Fatal(err)
	}
}

// awaitFile waits until a child has left its mark.
func awaitFile(t testing.TB, path string) {
	t.Helper()
	await(t, path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// await looks until something outside of this process has happened.
func await(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it has not happened: %s", what)
		}
	}
}

// gatedNever are options without a gate.
func gatedNever() toolserver.Options { return toolserver.Options{} }
