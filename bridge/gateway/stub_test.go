package gateway_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A stub is a provider with one server, s, and the given tools.
type stub struct {
	catalog *server.Catalog
	result  mcp.Result
	called  []json.RawMessage // the params of calls
}

// newStub returns a stub with tools whose input and output schemas are schema.
func newStub(schema string, tools ...string) *stub {
	s := &stub{result: mcp.Raw(`{"content":[]}`)}
	var entries []*server.Entry
	for _, own := range tools {
		name, _ := json.Marshal("s__" + own)
		e := s.tool("s__"+own, `{"name":`+string(name)+`,"inputSchema":`+schema+`,"outputSchema":`+schema+`}`)
		e.Origin = mcp.Origin{Server: "s", Name: own}
		entries = append(entries, e)
	}
	s.catalog = server.NewCatalog(entries, nil)
	return s
}

// tool returns the entry of a tool without an origin.
func (s *stub) tool(name, definition string) *server.Entry {
	return &server.Entry{
		Target: mcp.Target{Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition(json.RawMessage(definition))},
		Handle: s.answer,
	}
}

func (s *stub) Catalog() *server.Catalog { return s.catalog }

func (s *stub) answer(_ context.Context, call *mcp.Call) (mcp.Result, error) {
	s.called = append(s.called, call.Params())
	return s.result, nil
}

func (s *stub) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

func (s *stub) States() []bridge.State { return []bridge.State{{Alias: "s", Status: "ready"}} }

// gateway returns a gateway that requires no token.
func (s *stub) gateway(t testing.TB, opts gateway.Options) *gateway.Gateway {
	t.Helper()
	return s.behind(t, opts, operator{})
}

func (s *stub) behind(t testing.TB, opts gateway.Options, o operator) *gateway.Gateway {
	t.Helper()
	opts.Authenticator, opts.Logger, opts.States = frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Open: true}), frontendtest.Quiet(), s.States
	return gateway.New(o.serve(t, s), &opts)
}

// send calls a handler with a request from this machine.
func send(handler http.Handler, method, path string, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost/", strings.NewReader(body))
	r.URL = &url.URL{Path: path}
	if unescaped, err := url.PathUnescape(path); err == nil {
		r.URL = &url.URL{Path: unescaped, RawPath: path}
	}
	r.Header.Set("Content-Type", "application/json")
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

// TestHostileNames: every tool can be called by its exact name, and a name calls no other tool.
func TestHostileNames(t *testing.T) {
	names := []string{
		"dir/list", "a b", "%2F", "%", "..", "../../etc", "{id}", "a\"b", "é", "\u202e", "a\nb", "a__b", "__", "s__x", "?result=full", "#x", ".", "tools", "call",
		"A", "a",
	}
	s := newStub(`{"type":"object"}`, names...)
	g := s.gateway(t, gateway.Options{})
	for _, name := range names {
		s.called = nil
		w := send(g.Proxy(), "POST", "/s/tools/"+url.PathEscape(name), `{}`)
		if name == "." || name == ".." {
			if w.Code != 404 || len(s.called) != 0 {
				t.Errorf("%q: %d %s", name, w.Code, w.Body)
			}
			continue
		}
		want, _ := json.Marshal("s__" + name)
		var params struct{ Name string }
		if w.Code != 200 || len(s.called) != 1 {
			t.Errorf("%q: %d %s", name, w.Code, w.Body)
			continue
		}
		unmarshal(t, string(s.called[0]), &params)
		if params.Name != "s__"+name {
			t.Errorf("%q is called as %s, want %s", name, s.called[0], want)
		}
		if w := send(g.REST(nil), "POST", "/tools/"+url.PathEscape("s__"+name), `{}`); len(s.called) != 2 {
			t.Errorf("%q: %d %s", name, w.Code, w.Body)
		}
	}
	if w := send(g.Proxy(), "POST", "/s/tools/dir/list", `{}`); w.Code != 200 {
		t.Errorf("a slash as it is: %d %s", w.Code, w.Body)
	}
	var document struct {
		Paths map[string]struct {
			Post struct{ OperationID string }
		}
		Components struct{ Schemas map[string]json.RawMessage }
	}
	unmarshal(t, send(g.REST(nil), "GET", "/openapi.json", "").Body.String(), &document)
	if len(document.Paths) != len(names) || len(document.Components.Schemas) != 1+2*len(names) {
		t.Errorf("there are %d paths and %d schemas of %d tools", len(document.Paths), len(document.Components.Schemas), len(names))
	}
	for path, item := range document.Paths {
		if path != "/tools/"+url.PathEscape(item.Post.OperationID) {
			t.Errorf("%s is the path of %q", path, item.Post.OperationID)
		}
	}
}

// TestBusy: concurrent requests are limited per principal and in total.
func TestBusy(t *testing.T) {
	r := newRig(t, gateway.Options{Limits: transport.Limits{Calls: 2, CallsPerPrincipal: 1}}, operator{})
	one, two := r.as(frontendtest.TokenOne), r.as(frontendtest.TokenTwo)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 2)
	begin := func(of *rig) {
		request := of.request(t, "POST", call("files", "slow"), `{}`).WithContext(ctx)
		go func() {
			if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
				response.Body.Close()
			}
			ended <- struct{}{}
		}()
		<-r.files.Entered
	}
	begin(one)
	busy := one.post(t, call("files", "read"), `{}`)
	busy.wants(t, 503, `{"detail":"busy: too many requests are being served"}`)
	if busy.header.Get("Retry-After") == "" {
		t.Error("it is not said when to come again")
	}
	two.post(t, call("files", "read"), `{}`).wants(t, 200, `{"success":true,"result":"one\ntwo <\u00e9>","error":null,"is_error":false}`)
	begin(two)
	if got := r.get(t, restPath+"/tools"); got.status != 503 || got.problem(t).Type != "service_unavailable" {
		t.Errorf("a third: %d %s", got.status, got.body)
	}
	cancel()
	for range 2 {
		waittest.Receive(t, "the end of the call", ended)
		waittest.Receive(t, "the end of the request for a file", r.files.Left)
	}
}

// TestLargeBodiesAreLimited: a large body beyond the limit is refused until the call of another is
// answered. Small ones do not count.
func TestLargeBodiesAreLimited(t *testing.T) {
	r := newRig(t, gateway.Options{Limits: transport.Limits{HeldBytes: 1 << 20}}, operator{})
	large := `{"arguments":{}` + strings.Repeat(" ", 600<<10) + `}`
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	slow := r.request(t, "POST", call("files", "slow"), large).WithContext(ctx)
	go func() {
		defer close(ended)
		if response, err := http.DefaultTransport.RoundTrip(slow); err == nil {
			response.Body.Close()
		}
	}()
	waittest.Receive(t, "the request for a file", r.files.Entered)
	busy := r.post(t, call("files", "read"), large)
	busy.wants(t, 503, `{"detail":"busy: too many large messages are being read or handled"}`)
	if busy.header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	const content = `{"success":true,"result":"one\ntwo <\u00e9>","error":null,"is_error":false}`
	r.post(t, call("files", "read"), `{}`).wants(t, 200, content)
	cancel()
	waittest.Receive(t, "the end of the call", ended)
	waittest.Receive(t, "the end of the request for a file", r.files.Left)
	for range 5 {
		r.post(t, call("files", "read"), large).wants(t, 200, content)
	}
}

// TestPanicsCostOneCall: a panic of a middleware fails one call.
func TestPanicsCostOneCall(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{Options: server.Options{
		Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if strings.Contains(string(call.Params()), "echo") {
					panic("canary")
				}
				return next(ctx, call)
			}
		}},
	}})
	for _, got := range []reply{r.post(t, restPath+"/tools/files__echo", `{}`), r.post(t, call("files", "echo"), `{}`)} {
		if got.status != 500 || !strings.Contains(got.body, "internal error, reference ") || strings.Contains(got.body, "canary") {
			t.Errorf("a panic: %d %s", got.status, got.body)
		}
	}
	if got := r.post(t, restPath+"/tools/files__read", `{}`); got.status != 200 {
		t.Errorf("the next call: %d %s", got.status, got.body)
	}
}

// TestToolNamedCall: the path of the general call takes precedence over the tool call, which
// the general call can call.
func TestToolNamedCall(t *testing.T) {
	s := newStub(`{"type":"object"}`, "x")
	s.catalog = server.NewCatalog(append(slices.Collect(s.catalog.All(mcp.KindTool)), s.tool("call", `{"name":"call","inputSchema":{"type":"object"}}`)), nil)
	rest := s.gateway(t, gateway.Options{}).REST(nil)
	if w := send(rest, http.MethodGet, "/openapi.json", ""); strings.Contains(w.Body.String(), `"/tools/call"`) || !strings.Contains(w.Body.String(), `"/tools/s__x"`) {
		t.Errorf("the document is %s", w.Body)
	}
	w := send(rest, http.MethodPost, "/tools/call", `{"name":"call","arguments":{"a":1}}`)
	if w.Code != http.StatusOK || len(s.called) != 1 || string(s.called[0]) != `{"name":"call","arguments":{"a":1}}` {
		t.Errorf("%d %s: %s", w.Code, w.Body, s.called)
	}
}
