package toolserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// childVariable selects the behavior of this process as a child: "serve", "hang", "exit" or "fail
// for unknown tools".
const childVariable = "DOVETAIL_TEST_CHILD"

// serveChild runs a server that a test has launched.
func serveChild() int {
	switch os.Getenv(childVariable) {
	case "hang":
		io.Copy(io.Discard, os.Stdin)
		return 0
	case "exit":
		fmt.Fprintln(os.Stderr, "cannot use", os.Getenv("API_KEY"))
		return 1
	}
	var opts server.Options
	if os.Getenv(childVariable) == "fail for unknown tools" {
		opts.Middleware = []mcp.Middleware{failForUnknownTools}
	}
	if err := stdio.Serve(context.Background(), newToolsWith(opts), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// failForUnknownTools makes the call of an unknown tool a failure of the tool.
func failForUnknownTools(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if call.Method() == mcp.MethodToolsCall && call.Target() == nil {
			return mcp.Raw(`{"content":[{"type":"text","text":"Tool no-such-tool not found"}],"isError":true}`), nil
		}
		return next(ctx, call)
	}
}

// newTools returns a server with the tools of the tests.
func newTools() *server.Server { return newToolsWith(server.Options{}) }

func newToolsWith(opts server.Options) *server.Server {
	opts.Logger = frontendtest.Quiet()
	s := server.New(mcp.Implementation{Name: "tools", Version: "1"}, &opts)
	add := func(name string, fn func(ctx context.Context, arguments json.RawMessage) (mcp.Result, error)) {
		tool := server.Tool{Name: name, InputSchema: frontendtest.OpenSchema, Annotations: &mcp.ToolAnnotations{Title: name}}
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
	add("start", func(context.Context, json.RawMessage) (mcp.Result, error) { // returns how the process was started
		dir, _ := os.Getwd()
		said, err := json.Marshal(map[string]any{"pid": os.Getpid(), "env": os.Environ(), "args": os.Args[1:], "dir": dir})
		return &mcp.CallToolResult{StructuredContent: said}, err
	})
	add("touch", func(_ context.Context, arguments json.RawMessage) (mcp.Result, error) { // appends to a file
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
	add("wait", func(ctx context.Context, arguments json.RawMessage) (mcp.Result, error) { // creates a file, and blocks
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

// childParams launch this test binary as a child.
func childParams(behaviour string, env ...string) toolserver.ServerParams {
	p := toolserver.ServerParams{Command: os.Args[0], Env: map[string]string{childVariable: behaviour}}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		p.Env[name] = value
	}
	return p
}

// newRemote serves the same tools over streamable HTTP until the test ends.
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

// A rig is a tool server that listens on a loopback address. Every caller may launch servers
// unless the options say otherwise.
type rig struct {
	*toolserver.Server
	url       string
	log       *frontendtest.Log
	approvers http.Handler
}

func newRig(t testing.TB, opts toolserver.Options) *rig {
	t.Helper()
	r := &rig{log: &frontendtest.Log{}, approvers: opts.Approval}
	if opts.Authenticator == nil {
		opts.Authenticator = frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Open: true, Tokens: frontendtest.Tokens()})
	}
	if opts.Launch == nil {
		opts.Launch = toolserver.LaunchAny
	}
	opts.Logger = r.log.Logger()
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

// runner returns a runner without a token.
func (r *rig) runner(t testing.TB, name string, params toolserver.ServerParams) *toolserver.Runner {
	return r.runnerAs(t, "", name, params)
}

func (r *rig) runnerAs(t testing.TB, token, name string, params toolserver.ServerParams) *toolserver.Runner {
	t.Helper()
	runner, err := toolserver.NewRunner(r.url, name, &toolserver.RunnerOptions{Params: params, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// runLater runs a tool in a goroutine, and returns a channel for its error.
func runLater(ctx context.Context, runner *toolserver.Runner, tool string, arguments any) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := runner.Run(ctx, tool, arguments)
		done <- err
	}()
	return done
}

// send sends a request as the clients of ipybox do.
func (r *rig) send(ctx context.Context, method, path, body string) (status int, answer string, err error) {
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

// gated returns options with an open channel like ipybox's, and a guard that always asks.
func gated(t testing.TB, opts approval.Options, verify bool) toolserver.Options {
	t.Helper()
	approvers, err := channel.New(&channel.Options{InsecureNoToken: true, FailOnDisconnect: true, Logger: frontendtest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := approvers.Close(); err != nil {
			t.Error(err)
		}
	})
	opts.Logger = frontendtest.Quiet()
	guard := approval.Guard(frontendtest.Compile(t, askAlways), approvers, &opts)
	return toolserver.Options{Guards: []mcp.Guard{guard}, Approval: approvers, VerifyFirst: verify}
}

// askAlways is a policy that asks about everything.
const askAlways = `{"rules":[{"effect":"ask"}]}`

// A rawApprover is a WebSocket with the frames of ipybox's client.
type rawApprover struct {
	*websocket.Conn
	questions chan question
	ended     chan struct{}
}

// A question is the request that an approver gets. ipybox's client knows three of the params.
type question struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	Params struct {
		Server    string          `json:"server_name"`
		Launched  bool            `json:"launched"`
		Tool      string          `json:"tool_name"`
		Arguments json.RawMessage `json:"tool_args"`
		Launch    string          `json:"launch"`
		Digest    string          `json:"tool_digest"`
	} `json:"params"`
}

// approve connects an approver.
func (r *rig) approve(t testing.TB) *rawApprover {
	t.Helper()
	socket, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(r.url, "http")+"/approval", nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &rawApprover{socket, make(chan question, 100), make(chan struct{})}
	go func() {
		defer close(a.ended)
		defer close(a.questions)
		for {
			var next question
			if err := socket.ReadJSON(&next); err != nil {
				return
			}
			a.questions <- next
		}
	}()
	t.Cleanup(a.leave)
	waittest.Until(t, "the approver is known", r.approvers.(*channel.Channel).Connected)
	return a
}

func (a *rawApprover) leave() {
	a.Close()
	<-a.ended
}

// next waits for a question.
func (a *rawApprover) next(t testing.TB) question {
	t.Helper()
	select {
	case q, ok := <-a.questions:
		if !ok {
			t.Fatal("the channel closed the connection")
		}
		return q
	case <-time.After(20 * time.Second):
		t.Fatal("no question arrived")
	}
	panic("unreachable")
}

// decide answers a question with a JSON value.
func (a *rawApprover) decide(t testing.TB, q question, result string) {
	t.Helper()
	if err := a.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","result":`+result+`,"id":"`+q.ID+`"}`)); err != nil {
		t.Fatal(err)
	}
}

// awaitFile waits until a child has created a file.
func awaitFile(t testing.TB, path string) {
	t.Helper()
	waittest.Until(t, path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// noGuards are options without guards.
func noGuards() toolserver.Options { return toolserver.Options{} }
