package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// newWorkshop is the server of these examples.
func newWorkshop() *server.Server {
	s := server.New(mcp.Implementation{Name: "workshop", Version: "1.0.0"}, nil)
	type board struct {
		Length int `json:"length"`
		Count  int `json:"count"`
	}
	server.AddTool(s, server.Tool{Name: "measure", Description: "Add up boards."},
		func(_ context.Context, _ *server.Request, in board) (int, error) { return in.Length * in.Count, nil })
	type choice struct {
		Wood string `json:"wood"`
	}
	server.AddTool(s, server.Tool{Name: "build", Description: "Build a table."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			answer, err := server.Elicit[choice](r, "wood", "Which wood shall it be?")
			return "a table of " + answer.Wood, err
		})
	server.AddResource(s, server.Resource{URI: "workshop://stock"},
		func(context.Context, *server.Request) (string, error) { return "12 boards", nil })
	return s
}

func ExampleConnect() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newWorkshop()), nil) // or: stdio.Command("./workshop", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	fmt.Println(session.Server().Name, session.Version())
	stock, err := session.ReadResource(ctx, "workshop://stock", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stock.Text())
	// Output:
	// workshop 2026-07-28
	// 12 boards
}

func ExampleCallAs() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newWorkshop()), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	length, err := client.CallAs[int](ctx, session, "measure", map[string]int{"length": 240, "count": 3}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(length)
	// Output: 720
}

// A result with several contents, as text.
func ExampleSession_CallTool() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newWorkshop()), &client.Options{CallTimeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	arguments := map[string]int{"length": 240, "count": 3}
	result, err := session.CallTool(ctx, "measure", arguments, &client.CallOptions{
		Timeout: time.Minute,
		Meta:    mcp.Meta(`{"example.com/trace":"7f3a"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text(), result.IsError)
	// Output: 720 false
}

// A server in the same process knows the principal of the client.
func ExampleConnect_principal() {
	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "whoami", Description: "Say who calls."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			return r.Caller().Principal, nil
		})

	ctx := transport.WithPrincipal(context.Background(), "ada")
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	fmt.Println(client.CallAs[string](ctx, session, "whoami", nil, nil))
	// Output: ada <nil>
}

// The roots of a client may change while the session is open.
func ExampleSession_RootsChanged() {
	s := server.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "count", Description: "Count the directories that are open."},
		func(_ context.Context, r *server.Request, _ struct{}) (int, error) {
			roots, err := server.Roots(r, "roots")
			return len(roots), err
		})

	ctx := context.Background()
	var roots atomic.Pointer[[]mcp.Root]
	roots.Store(&[]mcp.Root{{URI: "file:///home/ada/one"}})
	session, err := client.Connect(ctx, transport.Pipe(s), &client.Options{
		Roots: func(context.Context) ([]mcp.Root, error) { return *roots.Load(), nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	roots.Store(&[]mcp.Root{{URI: "file:///home/ada/one"}, {URI: "file:///home/ada/two"}})
	if err := session.RootsChanged(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.CallAs[int](ctx, session, "count", nil, nil))
	// Output: 2 <nil>
}

func ExampleSession_Tools() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newWorkshop()), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name+":", tool.Description)
	}
	// Output:
	// build: Build a table.
	// measure: Add up boards.
}

func ExampleSession_Subscribe() {
	ctx := context.Background()
	s := newWorkshop()
	changed := make(chan mcp.Change)
	session, err := client.Connect(ctx, transport.Pipe(s), &client.Options{
		OnChange: func(_ context.Context, change mcp.Change) { changed <- change },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	stock := mcp.SubscriptionFilter{ResourceSubscriptions: []string{"workshop://stock"}}
	subscription, err := session.Subscribe(ctx, stock)
	if err != nil {
		log.Fatal(err)
	}
	defer subscription.Close()

	s.ResourceUpdated("workshop://stock")
	fmt.Println("read again:", (<-changed).URI)
	// Output: read again: workshop://stock
}

// A client whose user can be asked.
func ExampleOptions() {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(newWorkshop()), &client.Options{
		Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Println(params.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"wood":"cherry"}`)}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	table, err := client.CallAs[string](ctx, session, "build", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table)
	// Output:
	// Which wood shall it be?
	// a table of cherry
}

// A client that gets its model later declares sampling from the beginning.
func ExampleSession_SetHandlers() {
	s := server.New(mcp.Implementation{Name: "poems", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "rhyme"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		answer, err := server.Sample(r, "rhyme", &mcp.CreateMessageParams{MaxTokens: 10})
		if err != nil {
			return "", err
		}
		return answer.Content[0].(*mcp.TextContent).Text, nil
	})
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), &client.Options{
		Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return nil, errors.New("no model is configured")
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	err = session.SetHandlers(client.Handlers{
		Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "small", Content: mcp.SamplingContent{mcp.Text("oak, smoke")}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	rhyme, err := client.CallAs[string](ctx, session, "rhyme", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(rhyme)
	// Output: oak, smoke
}

// A call that continues as a task. The program stores its id, ends, and waits for the result after its
// next start.
func ExampleSession_Task() {
	ctx := context.Background()
	workshop := newWorkshop()
	defer workshop.Shutdown(ctx)
	server.AddTool(workshop, server.Tool{Name: "dry", Description: "Dry wood.", Task: server.TaskOptional},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			wood, err := server.Elicit[string](r, "wood", "Which wood?")
			return "dry " + wood, err
		})

	opts := &client.Options{
		Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Println(p.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":"oak"}`)}, nil
		},
	}
	before, err := client.Connect(ctx, transport.Pipe(workshop), opts)
	if err != nil {
		log.Fatal(err)
	}
	var id string
	calling, stop := context.WithCancel(ctx)
	_, err = before.CallTool(calling, "dry", nil, &client.CallOptions{OnTask: func(task *mcp.Task) {
		id = task.TaskID // store it
		stop()
	}})
	fmt.Println(errors.Is(err, context.Canceled))
	before.Close()

	after, err := client.Connect(ctx, transport.Pipe(workshop), opts)
	if err != nil {
		log.Fatal(err)
	}
	defer after.Close()
	result, err := client.WaitAs[string](ctx, after.Task(id), nil)
	fmt.Println(result, err)
	// Output:
	// true
	// Which wood?
	// dry oak <nil>
}

func ExampleOptions_middleware() {
	ctx := context.Background()
	logged := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			result, err := next(ctx, call)
			fmt.Printf("%s %s: %v\n", call.Method(), call.Member("name"), err)
			return result, err
		}
	}
	session, err := client.Connect(ctx, transport.Pipe(newWorkshop()), &client.Options{Middleware: []mcp.Middleware{logged}})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	length, err := client.CallAs[int](ctx, session, "measure", map[string]int{"length": 240, "count": 3}, nil)
	fmt.Println(length, err)
	// Output:
	// tools/call "measure": <nil>
	// 720 <nil>
}
