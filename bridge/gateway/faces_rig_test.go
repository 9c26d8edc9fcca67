package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// open are the words of a schema that takes everything.
var openSchema = json.RawMessage(`{"type":"object"}`)

// A shelf is a server whose tools answer as a test says, byte by byte.
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
	s.says("read", "Reads a file.", `{"content":[{"type":"text","text":"one"},{"type":"text","text":"two <\u00e9>"}]}`)
	s.says("stat", "", `{"content":[{"type":"text","text":"{\"size\": 1}"}],"structuredContent":{ "size" : 12345678901234567890 }}`)
	s.says("picture", "", `{"content":[{"type":"text","text":"a picture"},{"type":"image","data":"AAEC","mimeType":"image/png"}]}`)
	s.says("image", "", `{"content":[{"type":"image","data":"AAEC","mimeType":"image/png"}]}`)
	s.says("nothing", "", `{"content":[]}`)
	s.says("fail", "", `{"content":[{"type":"text","text":"no such file"}],"isError":true}`)
	s.says("draw_badly", "", `{"content":[{"type":"image","data":"AAEC","mimeType":"image/png"}],"isError":true}`)
	s.does("echo", server.Tool{}, func(_ context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(arguments))}}, nil
	})
	s.does("who", server.Tool{}, func(_ context.Context, r *server.Request, _ json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(r.Caller().Principal)}}, nil
	})
	s.does("slow", server.Tool{}, func(ctx context.Context, _ *server.Request, _ json.RawMessage) (mcp.Result, error) {
		s.entered <- struct{}{}
		<-ctx.Done()
		s.left <- context.Cause(ctx)
		return nil, ctx.Err()
	})
	return s
}

// says adds a tool that always answers the same.
func (s *shelf) says(name, description, result string) {
	s.does(name, server.Tool{Description: description}, answers(result))
}

func (s *shelf) does(name string, tool server.Tool, fn func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error)) {
	tool.Name = name
	if tool.InputSchema == nil {
		tool.InputSchema = openSchema
	}
	server.AddRawTool(s.Server, tool, func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		s.calls.Add(1)
		return fn(ctx, r, arguments)
	})
}

// newBridge returns a bridge to servers, which runs as long as a server that it is mounted on.
func newBridge(t testing.TB, configs ...bridge.Config) *bridge.Bridge {
	t.Helper()
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// An operator is what stands between the bridge and the gateway.
type operator struct {
	server.Options
	pseudo map[string]gateway.ToolFunc
}

// serving is a server of the operator's that runs until the test ends.
func (o operator) serving(t testing.TB, providers ...server.Provider) *server.Server {
	t.Helper()
	o.Logger = quiet()
	s := server.New(mcp.Implementation{Name: "operator", Version: "1"}, &o.Options)
	pseudo, err := gateway.Pseudo(o.pseudo)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(providers, pseudo) {
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

func to(alias string, s transport.Binder) bridge.Config {
	return bridge.Config{Alias: alias, Dialer: transport.Pipe(s)}
}

const aToken = "a-token-of-the-tests"

// A rig is a gateway that listens on a loopback address.
type rig struct {
	files, wiki *shelf
	bridge      *bridge.Bridge
	server      *server.Server
	gateway     *gateway.Gateway
	url         string
	token       string
}

// faces are the paths of a rig's faces.
const (
	proxyPath = "/api/v1/mcp/proxy"
	restPath  = "/api/v1"
)

// newRig serves both faces of a bridge with two servers.
func newRig(t testing.TB, opts gateway.Options, o operator) *rig {
	t.Helper()
	r := &rig{files: newShelf(), wiki: newShelf(), token: aToken}
	r.bridge = newBridge(t, to("files", r.files), to("wiki", r.wiki))
	r.serve(t, opts, o)
	return r
}

func (r *rig) serve(t testing.TB, opts gateway.Options, o operator) {
	t.Helper()
	r.server, opts.States = o.serving(t, r.bridge), r.bridge.States
	if opts.Access == nil {
		opts.Access = newAccess(t, gateway.AccessOptions{Tokens: map[string]string{aToken: "", "a-token-of-sandbox-one": "one", "a-token-of-sandbox-two": "two"}})
	}
	if opts.Logger == nil {
		opts.Logger = quiet()
	}
	r.gateway = gateway.New(r.server, &opts)
	mux := http.NewServeMux()
	mux.Handle(proxyPath+"/", http.StripPrefix(proxyPath, r.gateway.Proxy()))
	mux.Handle(restPath+"/", http.StripPrefix(restPath, r.gateway.REST(nil)))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	r.url = web.URL
}

func newAccess(t testing.TB, opts gateway.AccessOptions) *gateway.Access {
	t.Helper()
	opts.Logger = quiet()
	access, err := gateway.NewAccess(&opts)
	if err != nil {
		t.Fatal(err)
	}
	return access
}

// A reply is what a face has answered.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r *rig) get(t testing.TB, path string) reply { return r.do(t, r.request(t, "GET", path, "")) }

func (r *rig) post(t testing.TB, path, body string) reply {
	t.Helper()
	return r.do(t, r.request(t, "POST", path, body))
}

func (r *rig) request(t testing.TB, method, path, body string) *http.Request {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, r.url+path, content)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	return request
}

func (r *rig) do(t testing.TB, request *http.Request) reply {
	t.Helper()
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(body)}
}

// as is the rig for another caller.
func (r *rig) as(token string) *rig {
	other := *r
	other.token = token
	return &other
}

// wants checks status and body of a reply.
func (r reply) wants(t testing.TB, status int, body string) {
	t.Helper()
	if r.status != status || r.body != body {
		t.Errorf("the answer is %d %s\nwant %d %s", r.status, r.body, status, body)
	}
}

// problem is a reply of the REST face that is an error.
func (r reply) problem(t testing.TB) (p struct {
	Type   string          `json:"type"`
	Status int             `json:"status"`
	Detail string          `json:"detail"`
	Error  json.RawMessage `json:"error"`
	Result json.RawMessage `json:"result"`
}) {
	t.Helper()
	if got := r.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("the error is %s: %s", got, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	if p.Status != r.status {
		t.Errorf("the problem's status is %d, and the answer's %d", p.Status, r.status)
	}
	p.Type = p.Type[strings.LastIndexByte(p.Type, '/')+1:]
	return p
}

// proxied is a reply of the proxy to a call.
func (r reply) proxied(t testing.TB) (p struct {
	Success bool            `json:"success"`
	Result  json.RawMessage `json:"result"`
	Error   *string         `json:"error"`
	IsError bool            `json:"is_error"`
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != http.StatusOK {
		t.Fatalf("the answer is no call's: %d %s", r.status, r.body)
	}
	return p
}

var errTest = errors.New("the test says so")

func call(alias, tool string) string {
	return fmt.Sprintf("%s/%s/tools/%s", proxyPath, alias, tool)
}

// answers is a function that always answers the same.
func answers(result string) func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
	return func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return mcp.Raw(result), nil
	}
}

// names are those of all tools of the bridge.
func (r *rig) names() (all []string) {
	for e := range r.bridge.Catalog().All(mcp.KindTool) {
		all = append(all, e.Name)
	}
	return all
}

// settle waits until the bridge has heard of tools that have been added.
func (r *rig) settle(t testing.TB, names ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for !slices.ContainsFunc(r.names(), func(name string) bool { return name == names[len(names)-1] }) {
		select {
		case <-ctx.Done():
			t.Fatalf("the bridge has not heard of %q", names)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func withLocal(r *http.Request, addr net.Addr) context.Context {
	return context.WithValue(r.Context(), http.LocalAddrContextKey, addr)
}
