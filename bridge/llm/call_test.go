package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// newServer returns a server with the tools add, fail and ask, which asks the user.
func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "calculator", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	server.AddTool(s, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
	server.AddTool(s, server.Tool{Name: "fail"}, func(context.Context, *server.Request, struct{}) (int, error) { return 0, errors.New("no way") })
	server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		name, err := server.Elicit[string](r, "name", "What is your name?")
		return "hello " + name, err
	})
	return s
}

func answer(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":"Ann"}`)}, nil
}

// The questions of all servers of a bridge go to the handlers of one session.
func ExampleSessionTools() {
	ctx := context.Background()
	servers, err := bridge.New(nil, bridge.Config{Alias: "calc", Dialer: transport.Pipe(newServer())})
	if err != nil {
		log.Fatal(err)
	}
	agent := server.New(mcp.Implementation{Name: "agent", Version: "1.0.0"}, nil)
	if err := agent.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer agent.Shutdown(ctx)
	session, err := client.Connect(ctx, transport.Pipe(agent), &client.Options{Elicit: answer})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	tools := llm.SessionTools(session)
	result, err := tools.CallTool(ctx, "calc__ask", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output: hello Ann
}

func ExampleRun() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newServer()), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	calls := []llm.Call{{ID: "1", Name: "add", Arguments: json.RawMessage(`{"A":1,"B":2}`)}, {ID: "2", Name: "fly"}}
	for _, message := range llm.OpenAIReplies(llm.Run(ctx, llm.SessionTools(session), calls), nil) {
		fmt.Println(string(message))
	}
	// Output:
	// {"content":"3","role":"tool","tool_call_id":"1"}
	// {"content":"{\"error\":\"There is no tool \\\"fly\\\".\"}","role":"tool","tool_call_id":"2"}
}

func ExampleNewHandler() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newServer()), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	call := llm.NewHandler(llm.SessionTools(session))
	fmt.Println(call(ctx, "add", json.RawMessage(`{"A":1,"B":2}`)))
	// Output: 3 <nil>
}

// sessionTools returns the tools of a server by a session of an era.
func sessionTools(t *testing.T, s transport.Binder, era client.Era) llm.Tools {
	t.Helper()
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{
		Era: era, Elicit: answer, NoReconnect: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return llm.SessionTools(session)
}

// A model may send arguments in any of these forms for a tool without parameters.
func TestArguments(t *testing.T) {
	b, stop, err := newBridge()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for name, test := range map[string]struct {
		tools llm.Tools
		tool  string
	}{
		"bridge": {b, "calc__none"}, "legacy session": {sessionTools(t, newServer(), client.Legacy), "ask"},
		"modern session": {sessionTools(t, newServer(), client.Modern), "ask"},
	} {
		for _, arguments := range []string{"", " ", "null", " null\n", "{}", " { } "} {
			reply := llm.Run(t.Context(), test.tools, []llm.Call{{Name: test.tool, Arguments: json.RawMessage(arguments)}})[0]
			if reply.Err != nil || reply.Result.IsError {
				t.Errorf("%s: %q: %v, %s", name, arguments, reply.Err, reply.Result.Text())
			}
			if _, err := llm.NewHandler(test.tools)(t.Context(), test.tool, json.RawMessage(arguments)); err != nil {
				t.Errorf("%s: the handler: %q: %v", name, arguments, err)
			}
		}
		for _, arguments := range []string{"[]", "{", `"{}"`} {
			reply := llm.Run(t.Context(), test.tools, []llm.Call{{Name: test.tool, Arguments: json.RawMessage(arguments)}})[0]
			if !reply.Result.IsError {
				t.Errorf("%s: %q: %s", name, arguments, reply.Result.Text())
			}
		}
	}
}

// A callingTools calls the function for each call of a tool.
type callingTools func() (*mcp.CallToolResult, error)

func (c callingTools) Tools(context.Context) ([]mcp.Tool, error) { return nil, nil }
func (c callingTools) CallTool(context.Context, string, json.RawMessage) (*mcp.CallToolResult, error) {
	return c()
}

// Each call has a reply. It repeats words of the server, and no others, which may have addresses of the operator.
func TestFailedCalls(t *testing.T) {
	secret := errors.New("dial tcp 10.1.2.3:443: refused")
	for _, test := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w: %q", bridge.ErrUnknownTool, "f"), `There is no tool "f".`},
		{&jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "a is missing"}, "a is missing"},
		{&jsonrpc.CallError{Method: mcp.MethodToolsCall, Delivery: jsonrpc.MaybeExecuted, Err: secret}, "The tool has not answered. It may have been executed."},
		{&jsonrpc.CallError{Method: mcp.MethodToolsCall, Delivery: jsonrpc.NotSent, Err: secret}, "The tool cannot be reached. It was not executed."},
		{&bridge.UpstreamError{Server: "s", Failure: bridge.Lost, Delivery: jsonrpc.MaybeExecuted, Err: secret}, `closed the connection before it answered; the call may have been executed`},
		{bridge.ErrNotStarted, "The tool cannot be called."},
		{secret, "The tool cannot be called."},
	} {
		calls := []llm.Call{{ID: "1", Name: "f"}, {ID: "2", Name: "f"}}
		replies := llm.Run(t.Context(), callingTools(func() (*mcp.CallToolResult, error) { return nil, test.err }), calls)
		for i, reply := range replies {
			text := reply.Result.Text()
			if reply.Call.ID != calls[i].ID || !reply.Result.IsError || reply.Err != test.err || !strings.Contains(text, test.want) || strings.Contains(text, "10.1.2.3") {
				t.Errorf("%v: the reply is %q, want %q", test.err, text, test.want)
			}
		}
		if len(replies) != 2 {
			t.Errorf("%v: %d replies", test.err, len(replies))
		}
	}
}

// After the end of the context no tool is called, and each call has a reply.
func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	called := 0
	tools := callingTools(func() (*mcp.CallToolResult, error) {
		called++
		cancel()
		return &mcp.CallToolResult{}, nil
	})
	replies := llm.Run(ctx, tools, []llm.Call{{Name: "a"}, {Name: "b"}})
	if called != 1 || replies[0].Err != nil || !errors.Is(replies[1].Err, context.Canceled) || !replies[1].Result.IsError {
		t.Errorf("%d calls, and the replies are %+v", called, replies)
	}
}

// A tool is unknown if the server refuses it, in either form, and does not list it.
func TestUnknownToolsOfSessions(t *testing.T) {
	for _, era := range []client.Era{client.Legacy, client.Modern} {
		s := newServer()
		tools := sessionTools(t, s, era)
		if _, err := tools.CallTool(t.Context(), "fly", nil); !errors.Is(err, bridge.ErrUnknownTool) {
			t.Errorf("%v: an unknown tool: %v", era, err)
		}
		if result, err := tools.CallTool(t.Context(), "fail", nil); err != nil || result.Text() != "no way" {
			t.Errorf("%v: a failure: %+v, %v", era, result, err)
		}
		list, err := tools.Tools(t.Context())
		if err != nil || len(list) != 3 || list[0].Name != "add" {
			t.Errorf("%v: the tools are %+v, %v", era, list, err)
		}

		// Some servers answer so to a call of any tool.
		lax := server.New(mcp.Implementation{Name: "lax", Version: "1"}, &server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if call.Method() != mcp.MethodToolsCall {
					return next(ctx, call)
				}
				return mcp.Raw(`{"resultType":"complete","content":[{"type":"text","text":"Unknown tool"}],"isError":true}`), nil
			}
		}}})
		server.AddTool(lax, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
		tools = sessionTools(t, lax, era)
		if _, err := tools.CallTool(t.Context(), "fly", nil); !errors.Is(err, bridge.ErrUnknownTool) {
			t.Errorf("%v: a result for an unknown tool: %v", era, err)
		}
		if result, err := tools.CallTool(t.Context(), "add", nil); err != nil || !result.IsError {
			t.Errorf("%v: a listed tool: %+v, %v", era, result, err)
		}
		first := llm.FirstMatch(llm.NewHandler(tools), llm.NewHandler(sessionTools(t, newServer(), era)))
		if got, err := first(t.Context(), "ask", nil); got != "hello Ann" || err != nil {
			t.Errorf("%v: the next session: %q, %v", era, got, err)
		}
	}
}
