package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// wantStepUp checks a refusal that names the needed scopes.
func wantStepUp(t *testing.T, name string, res *http.Response, scope string) {
	t.Helper()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("%s: status %d: %s", name, res.StatusCode, bodyOf(t, res))
		return
	}
	want := map[string]string{
		"error": "insufficient_scope", "scope": scope,
		"resource_metadata": "https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
	}
	c := challengeOf(t, res)
	got := map[string]string{"error": c.Params["error"], "scope": c.Params["scope"], "resource_metadata": c.Params["resource_metadata"]}
	if diff := cmp.Diff(want, got); diff != "" || !c.Is("Bearer") || c.Params["error_description"] == "" {
		t.Errorf("%s: %v (-want +got):\n%s", name, c, diff)
	}
}

// ProtectOptions.Scopes are checked for each request.
func TestScopesOfServer(t *testing.T) {
	m, inner := newSigner(t, "k"), &recordingHandler{}
	h := protected(t, m, inner, func(o *oauth.ProtectOptions) {
		o.Scopes = []string{"mcp", "shop"}
		o.Implies = map[string][]string{"admin": {"staff"}, "staff": {"mcp", "shop"}, "loop": {"loop", "admin"}, "half": {"mcp"}}
	})
	for scope, enough := range map[string]bool{
		"mcp shop": true, "shop mcp x": true, "admin": true, "staff": true, "loop": true, "half shop": true,
		"mcp": false, "shop": false, "": false, "x": false, "MCP SHOP": false, "mcp,shop": false, "half": false, "mcpshop": false,
	} {
		for _, method := range []string{"POST", "GET", "DELETE"} {
			res := do(h, method, "/mcp", bearer(m.token(t, validClaims(claimSet{"scope": scope}))), "")
			if got := inner.takeRequests(); (got != nil) != enough {
				t.Errorf("%q: status %d", scope, res.StatusCode)
			}
			if !enough {
				wantStepUp(t, scope, res, "mcp shop")
			}
		}
	}
}

// protectShop returns a protected handler for a shop at /mcp.
func protectShop(t *testing.T, m *tokenSigner, change func(*oauth.ProtectOptions)) http.Handler {
	t.Helper()
	s := shop(t)
	return protectServer(t, m, s, func(o *oauth.ProtectOptions) {
		o.CallScopes = s.Scopes
		if change != nil {
			change(o)
		}
	})
}

// Calls need the scopes of their target; other calls do not.
func TestScopesOfCalls(t *testing.T) {
	m := newSigner(t, "k")
	h := protectShop(t, m, func(o *oauth.ProtectOptions) {
		declared := o.CallScopes
		o.CallScopes = func(method, name string) []string {
			if method == mcp.MethodPromptsList {
				return []string{"prompts"}
			}
			if method == mcp.MethodComplete && name != "free" {
				return []string{"complete:" + name}
			}
			return declared(method, name)
		}
	})
	for _, test := range []struct {
		method, name, params, needs string
		status                      int // with the scopes
	}{
		{mcp.MethodToolsList, "", "", "", 200},
		{mcp.MethodPromptsList, "", "", "prompts", 200},
		{mcp.MethodToolsCall, "look", `,"name":"look"`, "", 200},
		{mcp.MethodToolsCall, "buy", `,"name":"buy"`, "orders:write", 200},
		{mcp.MethodToolsCall, "buy", `,"name":"b\u0075y"`, "orders:write", 200},
		{mcp.MethodToolsCall, "unknown", `,"name":"unknown"`, "", 200},
		{mcp.MethodResourcesRead, "shop:books", `,"uri":"shop:books"`, "books:read", 200},
		{mcp.MethodComplete, "", `,"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`, "complete:p", 200},
		{mcp.MethodComplete, "", `,"ref":{"type":"ref\/prompt","name":"p","uri":"free"},"argument":{"name":"a","value":""}`, "complete:p", 200},
		{mcp.MethodComplete, "", `,"ref":{"type":"ref/resource","name":"free","uri":"u"},"argument":{"name":"a","value":""}`, "complete:u", 200},
		{mcp.MethodSubscriptionsListen, "", `,"notifications":{"resourceSubscriptions":["shop:other","shop:books"]}`, "books:read", 200},
		{mcp.MethodSubscriptionsListen, "", `,"notifications":{"resourceSubscriptions":["shop:books"],"ResourceSubscriptions":["shop:other"]}`, "books:read", 200},
	} {
		name := test.method + " " + test.params
		header, body := modern(bearer(m.token(t, validClaims(claimSet{"scope": "mcp"}))), test.method, test.name, test.params)
		res := post(h, header, body)
		if test.needs != "" {
			wantStepUp(t, name, res, "mcp "+test.needs)
			var answer struct {
				ID    int
				Error *jsonrpc.Error
			}
			if err := json.Unmarshal([]byte(bodyOf(t, res)), &answer); err != nil || answer.ID != 1 || answer.Error == nil {
				t.Errorf("%s: the answer is %+v, %v", name, answer, err)
			}
		}
		if test.method == mcp.MethodSubscriptionsListen {
			continue
		}
		header, body = modern(bearer(m.token(t, validClaims(claimSet{"scope": "mcp " + test.needs}))), test.method, test.name, test.params)
		if res := post(h, header, body); res.StatusCode != test.status {
			t.Errorf("%s with its scope: status %d: %s", name, res.StatusCode, bodyOf(t, res))
		}
	}
}

// A scope that a function requires becomes a challenge, if the response has not started.
func TestScopesOfFunctions(t *testing.T) {
	m := newSigner(t, "k")
	h := protectShop(t, m, func(o *oauth.ProtectOptions) { o.Implies = map[string][]string{"all": {"late:scope"}} })
	call := func(scope string) *http.Response {
		header, body := modern(bearer(m.token(t, validClaims(claimSet{"scope": scope}))), mcp.MethodToolsCall, "late", `,"name":"late"`)
		return post(h, header, body)
	}
	wantStepUp(t, "late", call("mcp"), "mcp late:scope")
	for _, scope := range []string{"mcp late:scope", "mcp all"} {
		if res := call(scope); res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", scope, res.StatusCode)
		}
	}
	if err := oauth.Require(t.Context(), "a"); err == nil {
		t.Error("a context that has not come through Protect has the scope a")
	}
	if err := oauth.Require(t.Context()); err != nil {
		t.Errorf("no scope is needed, but %v", err)
	}
}

// Each request of a session is checked with its own token.
func TestScopesInSession(t *testing.T) {
	m := newSigner(t, "k")
	h := protectShop(t, m, nil)
	header := bearer(m.token(t, validClaims(claimSet{"scope": "mcp"})))
	opened := post(h, header, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	if opened.StatusCode != http.StatusOK {
		t.Fatalf("status %d: %s", opened.StatusCode, bodyOf(t, opened))
	}
	in := func(scope string) http.Header {
		header := bearer(m.token(t, validClaims(claimSet{"scope": scope})))
		header.Set("Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"))
		return header
	}
	post(h, in("mcp"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const buy, look = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"buy"}}`, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"look"}}`
	wantStepUp(t, "buy", post(h, in("mcp"), buy), "mcp orders:write")
	wantStepUp(t, "a batch", post(h, in("mcp"), "["+look+","+buy+"]"), "mcp orders:write")
	wantStepUp(t, "subscribe", post(h, in("mcp"), `{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"shop:books"}}`), "mcp books:read")
	for _, body := range []string{buy, "[" + look + "," + strings.Replace(buy, "2,", "4,", 1) + "]"} {
		if res := post(h, in("mcp orders:write"), body); res.StatusCode != http.StatusOK || !strings.Contains(bodyOf(t, res), "bought") {
			t.Errorf("%s: status %d", body, res.StatusCode)
		}
	}
	wantStepUp(t, "buy with the first token again", post(h, in("mcp"), buy), "mcp orders:write")
}

// Transports without a status per call enforce the same scopes.
func TestScopesOverEveryTransport(t *testing.T) {
	m := newSigner(t, "k")
	s := shop(t)
	endpoint, events, sockets := streamable.Handler(s, nil), sse.Handler(s, nil), ws.Handler(s, nil)
	t.Cleanup(func() {
		endpoint.Close()
		events.Close()
		sockets.Close()
	})
	for name, transport := range map[string]struct {
		handler http.Handler
		dial    func(url string, header func(context.Context, http.Header) error) transport.Dialer
	}{
		"streamable": {endpoint, func(url string, header func(context.Context, http.Header) error) transport.Dialer {
			return streamable.Dial(url, &streamable.DialOptions{Header: header})
		}},
		"sse": {events, func(url string, header func(context.Context, http.Header) error) transport.Dialer {
			return sse.Dial(url, &sse.DialOptions{Header: header})
		}},
		"ws": {sockets, func(url string, header func(context.Context, http.Header) error) transport.Dialer {
			return ws.Dial(strings.Replace(url, "http", "ws", 1), &ws.DialOptions{Header: header})
		}},
	} {
		h := protected(t, m, transport.handler, func(o *oauth.ProtectOptions) { o.CallScopes = s.Scopes })
		web := serve(t, h)
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			if name == "sse" && era == client.Modern {
				continue
			}
			as := func(scope string) *client.Session {
				token := m.token(t, validClaims(claimSet{"scope": scope}))
				dialer := transport.dial(web.URL, func(_ context.Context, header http.Header) error {
					header.Set("Authorization", "Bearer "+token)
					return nil
				})
				session, err := client.Connect(t.Context(), dialer, &client.Options{Era: era})
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				t.Cleanup(func() { session.Close() })
				return session
			}
			customer, guest := as("mcp orders:write"), as("mcp")
			if result, err := guest.CallTool(t.Context(), "look", nil, nil); err != nil || !strings.Contains(textOf(result), testIssuer+"#ada") {
				t.Errorf("%s, era %v: %v, %v", name, era, result, err)
			}
			if result, err := customer.CallTool(t.Context(), "buy", nil, nil); err != nil || textOf(result) != "bought" {
				t.Errorf("%s, era %v: %v, %v", name, era, result, err)
			}
			_, err := guest.CallTool(t.Context(), "buy", nil, nil)
			if name == "streamable" {
				status, ok := errors.AsType[*httptransport.StatusError](err)
				if !ok || !client.IsForbidden(err) {
					t.Errorf("%s, era %v: the guest gets %v, want status 403", name, era, err)
					continue
				}
				challenges, err := oauth.ParseChallenges(status.Header.Values("WWW-Authenticate"))
				if err != nil || len(challenges) == 0 || challenges[0].Params["scope"] != "mcp orders:write" {
					t.Errorf("%s, era %v: the challenges are %v, %v; want the scopes", name, era, challenges, err)
				}
				continue
			}
			refused, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok || !client.IsForbidden(err) || string(refused.Data) != `{"type":"FORBIDDEN","guard":"scope","scopes":["mcp","orders:write"]}` {
				t.Errorf("%s, era %v: the guest gets %v", name, era, err)
			}
			if _, err := guest.ReadResource(t.Context(), "shop:books", nil); !client.IsForbidden(err) {
				t.Errorf("%s, era %v: the guest reads: %v", name, era, err)
			}
		}
	}
}

func textOf(result *mcp.CallToolResult) string {
	if result == nil || len(result.Content) == 0 {
		return ""
	}
	text, _ := result.Content[0].(*mcp.TextContent)
	if text == nil {
		return ""
	}
	return text.Text
}
