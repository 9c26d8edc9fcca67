package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type addIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

// newCalculator returns a bridge to a server with two tools.
func newCalculator() *bridge.Bridge {
	calc := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(calc, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
	server.AddTool(calc, server.Tool{Name: "reset"}, func(context.Context, *server.Request, struct{}) (string, error) { return "gone", nil })
	servers, err := bridge.New(nil, bridge.Config{Alias: "calc", Dialer: transport.Pipe(calc)})
	if err != nil {
		log.Fatal(err)
	}
	return servers
}

// post makes a request and prints the answer.
func post(url, token, body string) {
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	fmt.Println(response.StatusCode, string(answer))
}

func ExampleNew() {
	rules, err := policy.Compile(&policy.Policy{Deny: []string{"*__reset"}})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, &server.Options{
		Guards: []mcp.Guard{policy.Guard(rules, nil)}, Logger: slog.New(slog.DiscardHandler),
	})
	servers := newCalculator()
	if err := s.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	g := gateway.New(s, &gateway.Options{States: servers.States})

	mux := http.NewServeMux()
	mux.Handle("/api/v1/mcp/proxy/", http.StripPrefix("/api/v1/mcp/proxy", g.Proxy()))
	web := httptest.NewServer(mux)
	defer web.Close()

	token := g.Authenticator().Token()
	post(web.URL+"/api/v1/mcp/proxy/calc/tools/add", token, `{"arguments":{"a":1,"b":2}}`)
	post(web.URL+"/api/v1/mcp/proxy/calc/tools/reset", token, `{"arguments":{}}`)
	// Output:
	// 200 {"success":true,"result":"3","error":null,"is_error":false}
	// 200 {"success":false,"result":null,"error":"The policy does not allow the tool \"calc__reset\"","is_error":false}
}

func ExampleNewAuthenticator() {
	access, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Tokens: map[string]string{"the-token-of-sandbox-1": "sandbox-1"}})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(access.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "welcome, "+transport.Principal(r.Context()))
	})))
	defer web.Close()

	token, revoke := access.Issue("sandbox-2")
	post(web.URL, "the-token-of-sandbox-1", `{}`)
	post(web.URL, token, `{}`)
	revoke()
	post(web.URL, token, `{}`)
	// Output:
	// 200 welcome, sandbox-1
	// 200 welcome, sandbox-2
	// 401 {"jsonrpc":"2.0","error":{"code":-32600,"message":"expected the header Authorization: Bearer with a token of this gateway"}}
}

func ExampleNewPseudo() {
	pseudo, err := gateway.NewPseudo(map[string]gateway.ToolFunc{
		"skills": func(_ context.Context, name string, _ json.RawMessage) (json.RawMessage, error) {
			return json.Marshal("called as " + name)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, nil)
	if err := s.Mount(pseudo, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	g := gateway.New(s, nil)
	web := httptest.NewServer(g.Proxy())
	defer web.Close()

	post(web.URL+"/skills/tools/load", g.Authenticator().Token(), `{}`)
	if err := pseudo.Set("skills", nil); err != nil { // while it serves
		log.Fatal(err)
	}
	post(web.URL+"/skills/tools/load", g.Authenticator().Token(), `{}`)
	// Output:
	// 200 {"success":true,"result":"called as skills__load","error":null,"is_error":false}
	// 404 {"detail":"MCP server 'skills' is not running. Available servers: []"}
}

func ExampleAudit() {
	short := func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case "msg", "server", "tool", "outcome", "argumentsSize":
			return a
		}
		return slog.Attr{}
	}
	audit := &gateway.Audit{Logger: slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: short}))}
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1.0.0"}, &server.Options{Middleware: []mcp.Middleware{audit.Middleware}})
	if err := s.Mount(newCalculator(), nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	g := gateway.New(s, nil)
	web := httptest.NewServer(g.Proxy())
	defer web.Close()

	post(web.URL+"/calc/tools/add", g.Authenticator().Token(), `{"arguments":{"a":1,"b":2}}`)
	// Output:
	// msg=call server=calc tool=add outcome=ok argumentsSize=13
	// 200 {"success":true,"result":"3","error":null,"is_error":false}
}
