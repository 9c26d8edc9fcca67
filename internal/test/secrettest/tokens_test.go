package secrettest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// Tokens of callers and approvers, ids of sessions, and what handlers panic with do not occur in
// logs or answers, whatever a request does with them.
func TestSecretsOfServers(t *testing.T) {
	s, out := newSecrets(t), &recorder{}
	caller, approver, wrong, panicked := s.new("token of callers"), s.new("token of approvers"), s.new("wrong token"), s.new("panic")
	launched := s.new("key of a launched server")
	approvers, err := channel.New(&channel.Options{Token: approver, Logger: out.logger()})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Parse([]byte(`{"rules":[{"effect":"ask","names":["asked"]},{"effect":"allow"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	audit := &gateway.Audit{Logger: out.logger()}
	all := server.New(mcp.Implementation{Name: "all", Version: "1"}, &server.Options{
		Logger: out.logger(), Middleware: []mcp.Middleware{audit.Middleware},
		Guards: []mcp.Guard{approval.Guard(compiled, approvers, &approval.Options{Logger: out.logger(), Expiry: 50 * time.Millisecond})},
	})
	for name, reason := range map[string]any{"panic_text": panicked, "panic_error": errors.New(panicked)} {
		server.AddTool(all, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { panic(reason) })
	}
	server.AddTool(all, server.Tool{Name: "asked"}, func(context.Context, *server.Request, struct{}) (string, error) { return "x", nil })
	access := mustAuthenticate(t, &gateway.AuthenticatorOptions{Tokens: map[string]string{caller: "caller"}, Logger: out.logger()})
	tools, err := toolserver.New(&toolserver.Options{Server: all, Authenticator: access, Approval: approvers, Launch: toolserver.LaunchAny, Logger: out.logger()})
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain := gateway.New(all, &gateway.Options{Authenticator: access, Logger: out.logger()})
	modern, events, sockets := streamable.Handler(all, &streamable.Options{Logger: out.logger()}), sse.Handler(all, &sse.Options{Logger: out.logger()}), ws.Handler(all, &ws.Options{Logger: out.logger()})
	mux := http.NewServeMux()
	mux.Handle("/", tools)
	mux.Handle("/mcp", access.Handler(modern))
	mux.Handle("/sse", access.Handler(events))
	mux.Handle("/ws", access.Handler(sockets))
	mux.Handle("/proxy/", http.StripPrefix("/proxy", plain.Proxy()))
	mux.Handle("/rest/", http.StripPrefix("/rest", plain.REST(nil)))
	mux.Handle("/approval", approvers)
	web := httptest.NewServer(mux)

	call := func(tool string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
	}
	launch := `{"server_name":"x","server_params":{"command":"` + os.Args[0] + `","env":{"` + childVariable + `":"exit","API_KEY":"` + launched + `"}},"tool_name":"x","tool_args":{}}`
	bodies := map[string][]string{
		"/mcp":                    {call("panic_text"), call("asked"), "{", `[]`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`},
		"/rest/tools/call":        {`{"name":"panic_text","arguments":{}}`, `{"name":"panic_error","arguments":{}}`, `{"name":"asked","arguments":{}}`, "{"},
		"/rest/tools/panic_error": {"{}"},
		"/proxy/x/tools/y":        {`{"arguments":{}}`},
		"/run":                    {launch, "{", `{"server_name":"x"}`},
		"/approval":               {""},
		"/sse":                    {""},
		"/ws":                     {""},
		"/nothing":                {""},
	}
	for path, texts := range bodies {
		for _, body := range texts {
			for _, token := range []string{"", caller, approver, wrong, wrong + " " + caller} {
				answer := get(t, http.MethodPost, web.URL+path+"?token="+wrong, token, body)
				s.search("an answer to POST "+path, answer)
				if !strings.Contains(path, "sse") { // it does not end
					s.search("an answer to GET "+path, get(t, http.MethodGet, web.URL+path, token, ""))
				}
			}
		}
	}
	initialized := get(t, http.MethodPost, web.URL+"/mcp", caller, bodies["/mcp"][4])
	_, id, _ := strings.Cut(initialized, "Mcp-Session-Id:[")
	id, _, ok := strings.Cut(id, "]")
	if !ok || len(id) < 16 {
		t.Fatalf("no session was opened: %s", initialized)
	}
	s.texts["id of a session"] = id
	for _, id := range []string{id, id + "x", wrong, "s-" + caller} { // the others do not exist
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/mcp", strings.NewReader(call("asked")))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Authorization": {"Bearer " + caller}, "Mcp-Session-Id": {id}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	for name, session := range sessions(t, web.URL, caller) {
		for _, tool := range []string{"panic_text", "panic_error", "asked"} {
			_, err := session.CallTool(t.Context(), tool, json.RawMessage(`{}`), nil)
			s.search("the error of a client over "+name, fmt.Sprint(err))
		}
		session.Close()
	}
	connected, err := channel.Dial(t.Context(), "ws"+strings.TrimPrefix(web.URL, "http")+"/approval", func(context.Context, *approval.Prompt) {}, &channel.ClientOptions{Token: approver, Logger: out.logger()})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{wrong, caller, ""} { // the errors of an approver without the token
		_, err := channel.Dial(t.Context(), "ws"+strings.TrimPrefix(web.URL, "http")+"/approval", func(context.Context, *approval.Prompt) {}, &channel.ClientOptions{Token: token, Logger: out.logger()})
		s.search("the error of an approver", fmt.Sprint(err))
		if err == nil {
			t.Error("an approver has no token and is connected")
		}
	}
	s.search("formatted values", fmt.Sprintf("%v %+v %#v %v %+v %#v", access, access, access, approvers, approvers, approvers)+
		fmt.Sprintf("%v %+v %#v", connected, connected, connected))
	if err := connected.Close(); err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
	defer cancel()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	err = errors.Join(approvers.Close(), tools.Shutdown(ctx), plain.Shutdown(ctx), modern.Close(), events.Close(), sockets.Close(), all.Shutdown(ctx))
	web.Close()
	s.search("the error of the end", fmt.Sprint(err))
	if !strings.Contains(out.String(), panicked) {
		t.Errorf("the log does not tell the operator of the panic:\n%s", out)
	}
	delete(s.texts, "panic") // the operator needs it
	s.search("the log", out.String())
}

// sessions connects clients over the transports.
func sessions(t *testing.T, base, token string) map[string]*client.Session {
	t.Helper()
	header := func(_ context.Context, h http.Header) error { h.Set("Authorization", "Bearer "+token); return nil }
	found := map[string]*client.Session{}
	for name, era := range map[string]client.Era{"http": client.Modern, "http of a session": client.Legacy} {
		session, err := client.Connect(t.Context(), streamable.Dial(base+"/mcp", &streamable.DialOptions{Header: header}), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		found[name] = session
	}
	session, err := client.Connect(t.Context(), ws.Dial("ws"+strings.TrimPrefix(base, "http")+"/ws", &ws.DialOptions{Header: header}), nil)
	if err != nil {
		t.Fatal(err)
	}
	found["ws"] = session
	return found
}

// echoIssuer is a resource and its authorization server. It refuses every access, and repeats what
// it got: in the answer of the resource, and in the answer of the token endpoint unless that issues
// a token.
func echoIssuer(t *testing.T, method, issued string) string {
	t.Helper()
	var base string
	repeat := func(r *http.Request) string {
		var all strings.Builder
		_ = r.Write(&all) // never fails
		return all.String()
	}
	reply := func(w http.ResponseWriter, status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value) // the client sees what is missing
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+base+`/.well-known/oauth-protected-resource/mcp"`)
		http.Error(w, repeat(r), http.StatusUnauthorized)
	})
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"resource": base + "/mcp", "authorization_servers": []string{base}})
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{
			"issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token", "response_types_supported": []string{"code"},
			"grant_types_supported": []string{"client_credentials", "authorization_code"}, "code_challenge_methods_supported": []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{method},
		})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if issued != "" {
			reply(w, http.StatusOK, map[string]any{"access_token": issued, "token_type": "Bearer", "expires_in": 300})
			return
		}
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_client", "error_description": repeat(r)})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	base = server.URL
	return base
}

// The OAuth client has no secret in its errors, also if the authorization server and the resource
// refuse everything and repeat what they got.
func TestSecretsOfOAuthClient(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		for _, issues := range []bool{false, true} {
			s := newSecrets(t)
			secret, issued := s.new("client secret"), ""
			if issues {
				issued = s.new("access token")
			}
			base := echoIssuer(t, method, issued)
			tokens, err := oauth.NewClient(&oauth.ClientOptions{
				AllowLoopback: true, Flow: &oauth.ClientCredentials{},
				Registrations: []oauth.Registration{{ClientID: "demo", Secret: oauth.Secret(secret), Issuer: base}},
			})
			if err != nil {
				t.Fatal(err)
			}
			login := tokens.Login(t.Context(), base+"/mcp")
			if (login == nil) != issues {
				t.Errorf("%s: the login: %v", method, login)
			}
			_, err = client.Connect(t.Context(), streamable.Dial(base+"/mcp", &streamable.DialOptions{Authorizer: tokens}), nil)
			if err == nil {
				t.Error("the client is connected")
			}
			s.search("the errors of a client with "+method, fmt.Sprintf("%v %+v %#v %v", login, login, login, err))
			s.search("formatted values", fmt.Sprintf("%v %+v %#v", tokens, tokens, tokens))
			t.Logf("%s, a token: %t: %v; %v", method, issues, login, err)
		}
	}
}
