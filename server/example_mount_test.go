package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// One server offers all that another does; a prefix keeps their names apart.
func ExampleServer_Mount() {
	calc := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(calc, server.Tool{Name: "add"}, func(ctx context.Context, r *server.Request, in AddIn) (int, error) { return in.A + in.B, nil })

	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	if err := s.Mount(calc, "calc_"); err != nil {
		log.Fatal(err)
	}
	session := dial(s, nil)
	defer session.Close()
	say(session, "calc_add", AddIn{A: 2, B: 3})

	// What is registered later is there too.
	server.AddTool(calc, server.Tool{Name: "double"}, func(ctx context.Context, r *server.Request, in AddIn) (int, error) { return 2 * in.A, nil })
	say(session, "calc_double", AddIn{A: 2})
	// Output:
	// 5
	// 4
}

// Two of one name are an error, whichever comes first.
func ExampleCollisionError() {
	tool := func(name string) server.Entry {
		entry, err := server.NewTool(server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		if err != nil {
			log.Fatal(err)
		}
		return entry
	}
	calc := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	if err := errors.Join(calc.Replace(tool("add")), s.Mount(calc, "calc_")); err != nil {
		log.Fatal(err)
	}
	var collision *server.CollisionError
	if err := s.Replace(tool("calc_add")); errors.As(err, &collision) {
		fmt.Println(collision.Kind, collision.Name)
	}
	fmt.Println(calc.Replace(tool("mul")), s.Replace(tool("add")))
	// Output:
	// tool calc_add
	// <nil> <nil>
}

// A Greeter is a provider of one tool.
type Greeter struct{}

var greeterCatalogue = &server.Catalogue{Tools: []server.Listed{{Name: "greet", JSON: []byte(`{"name":"greet","inputSchema":{"type":"object"}}`)}}}

func (Greeter) Catalogue() *server.Catalogue { return greeterCatalogue }

func (Greeter) Call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("Hello, " + string(call.Member("arguments", "name")))}}, nil
}

func (Greeter) Run(ctx context.Context, changed func(mcp.Change)) error {
	<-ctx.Done() // its offer never changes
	return nil
}

// Anything can be mounted that says what it offers and answers calls.
func ExampleServer_MountProvider() {
	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	if err := s.MountProvider(Greeter{}, "front_"); err != nil {
		log.Fatal(err)
	}
	session := dial(s, nil)
	defer session.Close()
	say(session, "front_greet", map[string]string{"name": "Ann"})
	if err := s.Shutdown(context.Background()); err != nil { // Run ends
		log.Fatal(err)
	}
	// Output: Hello, "Ann"
}
