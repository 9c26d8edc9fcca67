package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestProxiedResults: each kind of result has its form in the response.
func TestProxiedResults(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{})
	const image = `[{"type":"image","data":"AAEC","mimeType":"image/png"}]`
	for _, test := range []struct{ tool, body, want string }{
		{"read", `{"arguments":{}}`, `{"success":true,"result":"one\ntwo <\u00e9>","error":null,"is_error":false}`},
		{"read", `{}`, `{"success":true,"result":"one\ntwo <\u00e9>","error":null,"is_error":false}`},
		{"stat", `{"arguments":null}`, `{"success":true,"result":"{\"size\": 1}","error":null,"is_error":false}`},
		{"stat?result=structured", `{}`, `{"success":true,"result":{ "size" : 12345678901234567890 },"error":null,"is_error":false}`},
		{"read?result=structured", `{}`, `{"success":true,"result":"one\ntwo <\u00e9>","error":null,"is_error":false}`},
		{"picture", `{}`, `{"success":true,"result":"a picture","error":null,"is_error":false}`},
		{"image", `{}`, `{"success":true,"result":` + image + `,"error":null,"is_error":false}`},
		{"nothing", `{}`, `{"success":true,"result":[],"error":null,"is_error":false}`},
		{"fail", `{}`, `{"success":false,"result":"no such file","error":"no such file","is_error":true}`},
		{"draw_badly", `{}`, `{"success":false,"result":` + image + `,"error":"[{\"type\":\"image\",\"data\":\"AAEC\",\"mimeType\":\"image/png\"}]","is_error":true}`},
		{"echo", `{"arguments":{ "n" : 12345678901234567890.10 , "t":"\u00e9<" },"extra":1}`, `{"success":true,"result":"{ \"n\" : 12345678901234567890.10 , \"t\":\"\\u00e9<\" }","error":null,"is_error":false}`},
		{"e%63ho", `{"arguments":{}}`, `{"success":true,"result":"{}","error":null,"is_error":false}`},
	} {
		t.Run(test.tool, func(t *testing.T) {
			r.post(t, call("files", test.tool), test.body).wants(t, http.StatusOK, test.want)
		})
	}
	full := r.post(t, call("files", "picture?result=full"), `{}`)
	if p := full.proxied(t); !strings.Contains(string(p.Result), `{"type":"image","data":"AAEC","mimeType":"image/png"}`) || !p.Success {
		t.Errorf("the picture is lost: %s", full.body)
	}
	if p := r.post(t, call("files", "other"), `{}`).proxied(t); p.Success || p.IsError || *p.Error != `there is no tool "files__other"` {
		t.Errorf("a tool that is not there: %+v", p)
	}
}

// TestProxyRefusals: malformed requests and unknown servers.
func TestProxyRefusals(t *testing.T) {
	r := newRig(t, gateway.Options{Limits: transport.Limits{MessageBytes: 1000}}, operator{})
	for _, test := range []struct {
		method, path, body string
		status             int
		detail             string
	}{
		{"POST", call("github", "star"), `{}`, 404, "MCP server 'github' is not running. Available servers: ['files', 'wiki']"},
		{"POST", call("FILES", "read"), `{}`, 404, "MCP server 'FILES' is not running. Available servers: ['files', 'wiki']"},
		{"POST", call("fi%1B[2Jles", "read"), `{}`, 404, "MCP server 'fi\\u001b[2Jles' is not running. Available servers: ['files', 'wiki']"},
		{"POST", call("files__read", "x"), `{}`, 404, "MCP server 'files__read' is not running. Available servers: ['files', 'wiki']"},
		{"POST", call("files", "read"), `{"arguments":[]}`, 400, "arguments must be an object"},
		{"POST", call("files", "read"), `{"arguments":"{}"}`, 400, "arguments must be an object"},
		{"POST", call("files", "read"), `{"Arguments":{}}`, 400, `the member "Arguments" must be arguments, in lower case`},
		{"POST", call("files", "read") + "?result=all", `{}`, 400, "the parameter result must be text, structured or full"},
		{"POST", call("files", "read"), `{"arguments":{"a":"` + strings.Repeat("x", 1000) + `"}}`, 413, "a body may have at most 1000 bytes"},
		{"POST", proxyPath + "/files/read", `{}`, 404, "Not Found"},
		{"POST", proxyPath + "/files/tools/", `{}`, 404, "Not Found"},
		{"POST", proxyPath + "/files/tools/%2e%2e", `{}`, 404, "Not Found"},
		{"POST", proxyPath + "/%2e%2e/tools/read", `{}`, 404, "Not Found"},
		{"POST", proxyPath + "/files/tools/a%ff", `{}`, 404, "Not Found"},
		{"POST", proxyPath + "/files/tools" + strings.Repeat("/x", 20), `{}`, 404, "Not Found"},
		{"GET", call("files", "read"), "", 405, "Method Not Allowed"},
		{"POST", proxyPath + "/servers", `{}`, 405, "Method Not Allowed"},
		{"DELETE", proxyPath + "/health", "", 405, "Method Not Allowed"},
	} {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			got := r.do(t, r.request(t, test.method, test.path, test.body))
			var failure struct{ Detail string }
			if err := json.Unmarshal([]byte(got.body), &failure); err != nil || got.status != test.status || failure.Detail != test.detail {
				t.Errorf("the answer is %d %s", got.status, got.body)
			}
		})
	}
	for _, body := range []string{`{`, `[]`, `null`, `{"arguments":{}} x`, `{"arguments":{},"arguments":{}}`, `{"arguments":{"a":1,"a":2}}`, "{\"arguments\":{\"a\":\"\xff\"}}"} {
		got := r.post(t, call("files", "read"), body)
		if got.status != http.StatusBadRequest && !(got.status == http.StatusOK && !got.proxied(t).Success) {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	}
	if n := r.files.Calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

// TestTwoDots: paths with dots or empty segments are rejected, not cleaned.
func TestTwoDots(t *testing.T) {
	r := newRig(t, gateway.Options{}, operator{})
	for _, path := range []string{"/files/tools/../tools/read", "//files/tools/read", "/files//tools/read", "/./files/tools/read"} {
		if got := r.post(t, proxyPath+path, `{}`); got.status == http.StatusOK {
			t.Errorf("%s was served: %s", path, got.body)
		}
	}
}

// TestServerThatDoesNotRun: the error differs from the error for an unknown server.
func TestServerThatDoesNotRun(t *testing.T) {
	r := &rig{token: aToken}
	dead := frontendtest.To("dead", nil)
	dead.Dialer = dialerFunc(func(context.Context, jsonrpc.Handler) (transport.Conn, error) { return nil, errTest })
	r.bridge = frontendtest.Bridge(t, frontendtest.To("files", newUpstream()), dead)
	r.serve(t, gateway.Options{CallTimeout: time.Second}, operator{})
	got := r.get(t, proxyPath+"/servers")
	if !strings.Contains(got.body, `{"id":"dead","name":"dead","is_config":true,"is_running":false,"tools":[]}`) {
		t.Errorf("the servers are %s", got.body)
	}
	r.post(t, call("other", "x"), `{}`).wants(t, 404, `{"detail":"MCP server 'other' is not running. Available servers: ['files']"}`)
	r.post(t, call("dead", "x"), `{}`).wants(t, 503, `{"detail":"MCP server 'dead' has no active session"}`)
}

type dialerFunc func(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error)

func (f dialerFunc) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	return f(ctx, handler)
}

// TestServers: servers list their tools under the names that the servers use.
func TestServers(t *testing.T) {
	r := &rig{token: aToken}
	small := server.New(mcp.Implementation{Name: "small", Version: "1"}, &server.Options{Logger: frontendtest.Quiet()})
	server.AddRawTool(small, server.Tool{Name: "look.up", Description: "Looks \"it\" up.", InputSchema: frontendtest.OpenSchema},
		func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
			return mcp.Raw(`{"content":[]}`), nil
		})
	r.bridge = frontendtest.Bridge(t, frontendtest.To("small", small))
	r.serve(t, gateway.Options{}, operator{})
	r.get(t, proxyPath+"/servers").wants(t, 200, `{"servers":[{"id":"small","name":"small","is_config":true,"is_running":true,"tools":[{"name":"look.up","description":"Looks \"it\" up."}]}],"total":1}`)
	r.get(t, proxyPath+"/servers?schema=1").wants(t, 200, `{"servers":[{"id":"small","name":"small","is_config":true,"is_running":true,"tools":[{"name":"look.up","description":"Looks \"it\" up.","inputSchema":{"type":"object"}}]}],"total":1}`)
	r.get(t, proxyPath+"/health").wants(t, 200, `{"status":"ok"}`)
	r.post(t, call("small", "look.up"), `{}`).wants(t, 200, `{"success":true,"result":[],"error":null,"is_error":false}`)
	if got := r.do(t, r.request(t, "HEAD", proxyPath+"/health", "")); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %d %s", got.status, got.body)
	}
}

// TestPseudoServer: a function is called like a tool of a server, and does not replace one.
func TestPseudoServer(t *testing.T) {
	skills := func(_ context.Context, name string, arguments json.RawMessage) (json.RawMessage, error) {
		switch name {
		case "skills__list_skills":
			return json.RawMessage(`[ "jokes" ,12345678901234567890]`), nil
		case "skills__load/skill":
			return arguments, nil
		case "skills__nothing":
			return nil, nil
		case "skills__broken":
			return json.RawMessage(`{`), nil
		case "skills__panics":
			panic("the function says so")
		}
		return nil, errors.New("Unknown skill tool: " + name)
	}
	r := newRig(t, gateway.Options{}, operator{pseudo: map[string]gateway.ToolFunc{"skills": skills}})
	for _, test := range []struct{ tool, body, want string }{
		{"list_skills", `{}`, `{"success":true,"result":[ "jokes" ,12345678901234567890],"error":null,"is_error":false}`},
		{"load/skill", `{"arguments":{ "a":1}}`, `{"success":true,"result":{ "a":1},"error":null,"is_error":false}`},
		{"nothing", `{}`, `{"success":true,"result":null,"error":null,"is_error":false}`},
		{"other", `{}`, `{"success":false,"result":null,"error":"Unknown skill tool: skills__other","is_error":false}`},
	} {
		r.post(t, call("skills", test.tool), test.body).wants(t, 200, test.want)
	}
	for _, tool := range []string{"broken", "panics"} {
		if got := r.post(t, call("skills", tool), `{}`); got.status != 500 || !strings.HasPrefix(got.body, `{"detail":"internal error, reference `) {
			t.Errorf("%s: %d %s", tool, got.status, got.body)
		}
	}
	for _, alias := range []string{"", "a__b", "a_"} {
		if _, err := gateway.NewPseudo(map[string]gateway.ToolFunc{alias: skills}); err == nil {
			t.Errorf("a pseudo-server %q was made", alias)
		}
	}
	if err := r.bridge.Update(frontendtest.To("files", r.files), frontendtest.To("skills", r.wiki)); err != nil {
		t.Fatal(err)
	}
	if p := r.post(t, call("skills", "list_skills"), `{}`).proxied(t); p.Success {
		t.Error("the pseudo-server was called in place of the new server")
	}
}

// TestPseudoServerChanges: the caller of skills is set, replaced, read and removed while the proxy serves, and a call that
// has begun keeps its function.
func TestPseudoServerChanges(t *testing.T) {
	pseudo, err := gateway.NewPseudo(nil)
	if err != nil {
		t.Fatal(err)
	}
	proxy := gateway.New(frontendtest.Operator(t, server.Options{}, pseudo), &gateway.Options{
		Authenticator: frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Open: true}), Logger: frontendtest.Quiet(),
	}).Proxy()
	load := func() string {
		w := send(proxy, "POST", "/skills/tools/load", `{"arguments":{}}`)
		return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
	}
	want := func(want string) {
		t.Helper()
		if got := load(); got != want {
			t.Errorf("the answer is %s, want %s", got, want)
		}
	}
	says := func(text string) gateway.ToolFunc {
		return func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return json.Marshal(text) }
	}
	set := func(fn gateway.ToolFunc) {
		t.Helper()
		if err := pseudo.Set("skills", fn); err != nil {
			t.Fatal(err)
		}
	}
	const none = `404 {"detail":"MCP server 'skills' is not running. Available servers: []"}`
	want(none)
	if pseudo.Get("skills") != nil {
		t.Error("there is a function")
	}
	begun, release := make(chan struct{}), make(chan struct{})
	set(func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		close(begun)
		<-release
		return json.RawMessage(`"first"`), nil
	})
	slow := make(chan string)
	go func() { slow <- load() }()
	<-begun
	set(says("second"))
	close(release)
	if got, want := <-slow, `200 {"success":true,"result":"first","error":null,"is_error":false}`; got != want {
		t.Errorf("the call that had begun: %s, want %s", got, want)
	}
	want(`200 {"success":true,"result":"second","error":null,"is_error":false}`)
	if got, err := pseudo.Get("skills")(t.Context(), "skills__load", nil); err != nil || string(got) != `"second"` {
		t.Errorf("the function that was read: %s, %v", got, err)
	}
	set(nil)
	want(none)
	if err := pseudo.Set("a__b", says("x")); err == nil {
		t.Error("an alias with the separator is set")
	}
}

// TestProxyPathsNameNoOtherTool: a path does not call a tool of another server, nor a renamed
// one by its new name.
func TestProxyPathsNameNoOtherTool(t *testing.T) {
	s := newStub(`{"type":"object"}`, "b__c")
	if w := send(s.gateway(t, gateway.Options{}).Proxy(), "POST", "/s__b/tools/c", `{}`); w.Code != 404 || len(s.called) != 0 {
		t.Errorf("the tool b__c of s is called: %d %s", w.Code, w.Body)
	}

	skills := func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
		t.Error("the tool a__b of a pseudo-server is called")
		return nil, nil
	}
	pseudo := gateway.New(operator{pseudo: map[string]gateway.ToolFunc{"skills": skills}}.serve(t), &gateway.Options{Authenticator: frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Open: true}), Logger: frontendtest.Quiet()})
	if w := send(pseudo.Proxy(), "POST", "/skills__a/tools/b", `{}`); w.Code != 404 {
		t.Errorf("of a server that is not there: %d %s", w.Code, w.Body)
	}

	files := newUpstream()
	renamed := frontendtest.To("files", files)
	renamed.Rename = map[string]string{"read": "get"}
	known := frontendtest.Bridge(t, renamed)
	g := gateway.New(operator{}.serve(t, known), &gateway.Options{States: known.States, Authenticator: frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Open: true}), Logger: frontendtest.Quiet()})
	w := send(g.Proxy(), "POST", "/files/tools/get", `{}`)
	if w.Code != 200 || w.Body.String() != `{"success":false,"result":null,"error":"there is no such tool","is_error":false}` {
		t.Errorf("what the bridge calls get: %d %s", w.Code, w.Body)
	}
	if n := files.Calls.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	if w := send(g.Proxy(), "POST", "/files/tools/read", `{}`); files.Calls.Load() != 1 {
		t.Errorf("what the server calls read: %d %s", w.Code, w.Body)
	}
}

// TestServersStartedByACall: a lazily started server has its own tool names from the first call
// on, even if tools are renamed or have a prefix.
func TestServersStartedByACall(t *testing.T) {
	for _, prefix := range []string{"", "p_"} {
		for own, wants := range map[string]int32{"get": 0, "read": 1, "none": 0} {
			files := newUpstream()
			lazy := frontendtest.To("files", files)
			lazy.Lazy, lazy.Rename = true, map[string]string{"read": "get"}
			known := frontendtest.Bridge(t, lazy)
			s := operator{}.serve(t)
			if err := s.Mount(known, &server.MountOptions{Prefix: prefix}); err != nil {
				t.Fatal(err)
			}
			g := gateway.New(s, &gateway.Options{States: known.States, Authenticator: frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Open: true}), Logger: frontendtest.Quiet()})
			w := send(g.Proxy(), "POST", "/files/tools/"+own, `{}`)
			if w.Code != 200 || files.Calls.Load() != wants {
				t.Errorf("with the prefix %q, %s: %d %s, after %d calls", prefix, own, w.Code, w.Body, files.Calls.Load())
			}
		}
	}
}

// TestUnlistedServers: if listing fails, the servers are not reported as missing. A denied call
// lists once.
func TestUnlistedServers(t *testing.T) {
	s := newStub(`{"type":"object"}`, "a")
	var lists int
	broken := errors.New("broken")
	g := s.behind(t, gateway.Options{}, operator{Options: server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			switch {
			case call.Method() == mcp.MethodToolsCall:
				return nil, &policy.DeniedError{Kind: mcp.KindTool, Name: "s__a"}
			case broken != nil:
				return nil, broken
			}
			lists++
			return mcp.Raw(`{"tools":[]}`), nil
		}
	}}}})
	for _, w := range []struct{ method, path string }{{"GET", "/servers"}, {"POST", "/s/tools/a"}, {"POST", "/other/tools/a"}} {
		if got := send(g.Proxy(), w.method, w.path, `{}`); got.Code != 500 || !strings.HasPrefix(got.Body.String(), `{"detail":"internal error, reference `) {
			t.Errorf("%s %s: %d %s", w.method, w.path, got.Code, got.Body)
		}
	}
	broken = nil
	const none = `{"detail":"MCP server 's' is not running. Available servers: []"}`
	if got := send(g.Proxy(), "POST", "/s/tools/a", `{}`); got.Code != 404 || got.Body.String() != none || lists != 1 {
		t.Errorf("denied: %d %s, after %d lists", got.Code, got.Body, lists)
	}
}

// A changing provider returns a new catalog each time.
type changing struct{ *stub }

func (r changing) Catalog() *server.Catalog {
	return r.stub.catalog.Map(func(e *server.Entry) *server.Entry { return e })
}

// TestChangingProvider: the origin of a tool is in its entry, so a new catalog does not matter.
func TestChangingProvider(t *testing.T) {
	s := newStub(`{"type":"object"}`, "a")
	g := gateway.New(operator{}.serve(t, changing{s}), &gateway.Options{Authenticator: frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Open: true}), Logger: frontendtest.Quiet()})
	if w := send(g.Proxy(), "POST", "/s/tools/a", `{}`); w.Code != 200 || len(s.called) != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := send(g.Proxy(), "POST", "/s/tools/b", `{}`); len(s.called) != 1 {
		t.Errorf("what is not there is called: %d %s", w.Code, w.Body)
	}
}
