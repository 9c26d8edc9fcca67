package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newUpstream returns a server with tools for each kind of result.
func newUpstream() *frontendtest.Upstream {
	u := frontendtest.NewUpstream()
	u.Add("picture", "", `{"content":[{"type":"text","text":"a picture"},{"type":"image","data":"AAEC","mimeType":"image/png"}]}`)
	u.Add("image", "", `{"content":[{"type":"image","data":"AAEC","mimeType":"image/png"}]}`)
	u.Add("draw_badly", "", `{"content":[{"type":"image","data":"AAEC","mimeType":"image/png"}],"isError":true}`)
	u.AddFunc("who", server.Tool{}, func(_ context.Context, r *server.Request, _ json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(r.Caller().Principal)}}, nil
	})
	return u
}

// An operator holds the options and the pseudo-servers of a server in front of a bridge.
type operator struct {
	server.Options
	pseudo map[string]gateway.ToolFunc
}

// serve returns a server with mounted providers, which runs until the test ends.
func (o operator) serve(t testing.TB, providers ...server.Provider) *server.Server {
	t.Helper()
	pseudo, err := gateway.NewPseudo(o.pseudo)
	if err != nil {
		t.Fatal(err)
	}
	return frontendtest.Operator(t, o.Options, append(providers, pseudo)...)
}

const aToken = "a-token-of-the-tests"

// A rig is a gateway that listens on a loopback address.
type rig struct {
	files, wiki *frontendtest.Upstream
	bridge      *bridge.Bridge
	server      *server.Server
	gateway     *gateway.Gateway
	url         string
	token       string
}

// The paths of the two handlers.
const (
	proxyPath = "/api/v1/mcp/proxy"
	restPath  = "/api/v1"
)

// newRig serves both handlers for a bridge with two servers.
func newRig(t testing.TB, opts gateway.Options, o operator) *rig {
	t.Helper()
	r := &rig{files: newUpstream(), wiki: newUpstream(), token: aToken}
	r.bridge = frontendtest.Bridge(t, frontendtest.To("files", r.files), frontendtest.To("wiki", r.wiki))
	r.serve(t, opts, o)
	return r
}

func (r *rig) serve(t testing.TB, opts gateway.Options, o operator) {
	t.Helper()
	r.server, opts.States = o.serve(t, r.bridge), r.bridge.States
	if opts.Authenticator == nil {
		opts.Authenticator = frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Tokens: frontendtest.Tokens(aToken)})
	}
	if opts.Logger == nil {
		opts.Logger = frontendtest.Quiet()
	}
	r.gateway = gateway.New(r.server, &opts)
	mux := http.NewServeMux()
	mux.Handle(proxyPath+"/", http.StripPrefix(proxyPath, r.gateway.Proxy()))
	mux.Handle(restPath+"/", http.StripPrefix(restPath, r.gateway.REST(nil)))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	r.url = web.URL
}

// A reply is an HTTP response.
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

// as returns the rig with another token.
func (r *rig) as(token string) *rig {
	other := *r
	other.token = token
	return &other
}

// wants checks the status and the body.
func (r reply) wants(t testing.TB, status int, body string) {
	t.Helper()
	if r.status != status || r.body != body {
		t.Errorf("the answer is %d %s\nwant %d %s", r.status, r.body, status, body)
	}
}

// problem decodes an error of the REST handler.
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

// proxied decodes the response of the proxy to a call.
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

// answers returns a function that always returns the same result.
func answers(result string) func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
	return func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return mcp.Raw(result), nil
	}
}

// names returns the names of all tools of the bridge.
func (r *rig) names() (all []string) {
	for e := range r.bridge.Catalog().All(mcp.KindTool) {
		all = append(all, e.Name)
	}
	return all
}

// settle waits until the bridge has these tools.
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
