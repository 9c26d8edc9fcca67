package toolserver_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type addition struct {
	A int `json:"a"`
	B int `json:"b"`
}

// A tool server calls the tools of a bridge for code that knows only their names, and asks
// before each call.
func ExampleNew() {
	ctx := context.Background()
	calc := server.New(mcp.Implementation{Name: "calc", Version: "1"}, nil)
	server.AddTool(calc, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in addition) (int, error) { return in.A + in.B, nil })
	servers, err := bridge.New(&bridge.Options{Logger: slog.New(slog.DiscardHandler)}, bridge.Config{Alias: "calc", Dialer: transport.Pipe(calc)})
	if err != nil {
		log.Fatal(err)
	}

	person := approval.Callback(func(ctx context.Context, p *approval.Prompt) {
		fmt.Println("approving", p.Request)
		_ = p.Accept(ctx) // the call may have ended
	})
	guards := []mcp.Guard{approval.Guard(policy.AskAll(), person, &approval.Options{Logger: slog.New(slog.DiscardHandler)})}
	operator := server.New(mcp.Implementation{Name: "operator", Version: "1"}, &server.Options{Guards: guards})
	if err := operator.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer operator.Shutdown(ctx)
	tools, err := toolserver.New(&toolserver.Options{Server: operator, States: servers.States, Guards: guards})
	if err != nil {
		log.Fatal(err)
	}
	defer tools.Close()
	web := httptest.NewServer(tools)
	defer web.Close()

	runner, err := toolserver.NewRunner(web.URL, "calc", &toolserver.RunnerOptions{Token: tools.Authenticator().Token()})
	if err != nil {
		log.Fatal(err)
	}
	sum, err := toolserver.RunAs[int](ctx, runner, "add", addition{A: 19, B: 23})
	fmt.Println(sum, err)
	// Output:
	// approving calc.add(a=19, b=23)
	// 42 <nil>
}

// A person approves each call of the servers that callers launch.
func ExampleStart() {
	person := approval.Callback(func(ctx context.Context, p *approval.Prompt) {
		fmt.Println("asked about", p.Request)
		_ = p.Reject(ctx, "not today") // the call may have ended
	})
	tools, err := toolserver.Start("localhost:0", &toolserver.Options{
		Approver: person, Launch: toolserver.LaunchAny, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer tools.Close()
	runner, err := toolserver.NewRunner(tools.URL(), "fetch", &toolserver.RunnerOptions{
		Params: toolserver.ServerParams{Command: "uvx", Args: []string{"mcp-server-fetch"}},
		Token:  tools.Authenticator().Token(),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = runner.Run(context.Background(), "fetch", map[string]string{"url": "https://example.com"})
	fmt.Println(err)
	// Output:
	// asked about launched:fetch.fetch(url='https://example.com')
	// fetch.fetch: Approval request for fetch.fetch rejected: not today
}

// A runner may describe how its server is launched, if the tool server allows it.
func ExampleNewRunner() {
	tools, err := toolserver.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tools.Close()
	web := httptest.NewServer(tools)
	defer web.Close()

	runner, err := toolserver.NewRunner(web.URL, "fetch", &toolserver.RunnerOptions{
		Params: toolserver.ServerParams{Command: "uvx", Args: []string{"mcp-server-fetch"}},
		Token:  tools.Authenticator().Token(),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = runner.Run(context.Background(), "fetch", map[string]string{"url": "https://example.com"})
	fmt.Println(err)
	// Output:
	// fetch.fetch: callers must not launch servers: name a server of the operator, and leave server_params empty
}
