package code_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A script makes three calls at the same time, and the model reads one word.
func ExampleNew() {
	wiki := server.New(mcp.Implementation{Name: "wiki", Version: "1.0.0"}, nil)
	server.AddTool(wiki, server.Tool{Name: "read_page", TextOnly: true}, func(_ context.Context, _ *server.Request, in struct {
		Title string `json:"title"`
	}) (string, error) {
		return strings.Repeat(in.Title+" ", 10_000), nil
	})

	engine, err := code.NewEngine(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	scripts, err := code.New(wiki.Provider(), &code.Options{Engine: engine})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	if err := s.Mount(scripts, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())

	session, err := client.Connect(context.Background(), transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	found, err := session.CallTool(context.Background(), code.SearchTool, map[string]string{"query": "read page"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(found.Text())
	result, err := session.CallTool(context.Background(), code.ScriptTool, map[string]string{"script": `
		const pages = await Promise.all(["Bread", "Buns", "Rolls"].map(title => tools.read_page({title})))
		return pages.filter(page => page.includes("Buns")).length
	`}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output:
	// tools.read_page(input: {
	//   title: string;
	// }): Promise<string>
	// {"value":1,"calls":[{"tool":"tools.read_page","times":3}]}
}

// An engine is compiled once, and shared by all providers.
func ExampleNewEngine() {
	engine, err := code.NewEngine(&code.EngineOptions{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(engine.Close())
	// Output: <nil>
}
