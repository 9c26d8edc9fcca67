package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A server offers the entries of another one, with a prefix.
func ExampleServer_Mount() {
	calc := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(calc, server.Tool{Name: "add"}, func(ctx context.Context, r *server.Request, in AddIn) (int, error) { return in.A + in.B, nil })

	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	if err := s.Mount(calc.Provider(), &server.MountOptions{Prefix: "calc_"}); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
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

// Two entries with the same name are an error, which names both owners.
func ExampleCollisionError() {
	tool := func(name string) *server.Entry {
		entry, err := server.NewTool(server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		if err != nil {
			log.Fatal(err)
		}
		return entry
	}
	calc := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	if err := errors.Join(calc.Replace(tool("add")), s.Mount(calc.Provider(), &server.MountOptions{Prefix: "calc_"})); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Replace(tool("calc_add")))
	fmt.Println(calc.Replace(tool("mul")), s.Replace(tool("add")))
	// Output:
	// the tool "calc_add" of the server itself is not offered: mount 1 (prefix "calc_") has one too; use a prefix
	// <nil> <nil>
}
