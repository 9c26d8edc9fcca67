package policy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

const files = `{
	"allow": ["fs__*"],
	"deny": ["*delete*"],
	"role_overrides": {"guest": {"allow": ["fs__read*"]}},
	"rules": [{
		"name": "outside of tmp", "effect": "ask", "servers": ["fs"], "names": ["write_*"],
		"unless": [{"arguments": [{"path": "/path", "glob": ["/tmp/*"]}]}]
	}]
}`

func ExampleCompile() {
	p, err := policy.Parse([]byte(files))
	if err != nil {
		log.Fatal(err)
	}
	c, err := policy.Compile(p)
	if err != nil {
		log.Fatal(err)
	}
	write := mcp.Target{Name: "fs__write_file", Origin: mcp.Origin{Server: "fs", Name: "write_file"}}
	for _, path := range []string{"/tmp/x", "/etc/passwd"} {
		arguments, _ := json.Marshal(map[string]string{"path": path})
		fmt.Println(c.Decide(&policy.Request{Target: write, Arguments: arguments}))
	}
	fmt.Println(c.Decide(&policy.Request{Target: write, Subject: policy.Subject{Roles: []string{"guest"}}}))
	for _, name := range []string{"fs__read_file", "fs__delete_file", "web__read"} {
		fmt.Println(name, c.Resolve("guest").Allows(name))
	}
	// Output:
	// allow: the allow list has the pattern "fs__*"
	// ask: the rule "outside of tmp" matches
	// deny: no pattern of the allow list of the role matches
	// fs__read_file true
	// fs__delete_file false
	// web__read false
}

// A policy for guards of package approval: a person approves each call of a tool.
func ExampleAskAll() {
	asks := policy.AskAll()
	for _, kind := range []mcp.Kind{mcp.KindTool, mcp.KindResource} {
		fmt.Println(kind, asks.Decide(&policy.Request{Target: mcp.Target{Kind: kind, Name: "x"}}).Effect)
	}
	// Output:
	// tool ask
	// resource allow
}

func ExampleParse() {
	_, err := policy.Parse([]byte("{\n  \"alow\": [\"read_*\"]\n}"))
	fmt.Println(err)
	p, err := policy.Parse([]byte(`{"deny": ["*"], "role_overrides": {"owner": {"mode": "replace"}, "gest": {"allow": ["read_*"]}}}`))
	if err != nil {
		log.Fatal(err)
	}
	for _, warning := range p.Warnings("owner", "guest") {
		fmt.Println(warning)
	}
	// Output:
	// policy: line 2, column 3: unknown member "alow": expected one of allow, deny, exempt, role_overrides, rules, strict
	// role_overrides["gest"]: there is no such role
	// role_overrides["gest"].allow[0]: "read_*" has no effect, because "*" is denied
	// role_overrides["owner"]: it replaces the lists by empty ones, which allow everything, including what the policy denies
}

// An explanation has the result of every list and rule. It is for trying out a policy.
func ExampleCompiled_Explain() {
	p, err := policy.Parse([]byte(files))
	if err != nil {
		log.Fatal(err)
	}
	c, err := policy.Compile(p)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(c.Explain(&policy.Request{
		Target:    mcp.Target{Name: "fs__write_file", Origin: mcp.Origin{Server: "fs", Name: "write_file"}},
		Arguments: json.RawMessage(`{"path":"/tmp/x"}`),
	}))
	// Output:
	// allow: the allow list has the pattern "fs__*"
	// - deny deny: no pattern of the deny list matches
	// + allow allow: the allow list has the pattern "fs__*"
	// - ask outside of tmp: unless[0] does not match
}

// Callers can neither see nor call a tool that the policy does not allow. The model reads why a call
// was refused.
func ExampleGuard() {
	readers, err := policy.Compile(&policy.Policy{Allow: []string{"read_*"}})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, &server.Options{
		Guards: []mcp.Guard{policy.Guard(readers, nil)},
		Logger: slog.New(slog.DiscardHandler),
	})
	for _, name := range []string{"read_file", "write_file"} {
		server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
	}

	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool := range session.Tools(ctx, nil) {
		fmt.Println("listed:", tool.Name)
	}
	result, err := session.CallTool(ctx, "write_file", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.IsError, result.Text())
	_, err = client.CallAs[string](ctx, session, "write_file", nil, nil)
	fmt.Println(client.IsForbidden(err))
	// Output:
	// listed: read_file
	// true The policy does not allow the tool "write_file"
	// The tool was not called. Do not repeat the call: it would be refused again.
	// true
}
