package server_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// fixed is a provider of a catalog that does not change.
type fixed struct{ catalog *server.Catalog }

func (f fixed) Catalog() *server.Catalog { return f.catalog }

func (f fixed) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

// Map changes one of two catalogs, and Merge combines them. A provider offers the result. It is
// mounted with a prefix, and with a guard that hides a tool.
func Example_composition() {
	tool := func(name string) *server.Entry {
		entry, err := server.NewTool(server.Tool{Name: name}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			return name + ", called by " + r.Caller().Principal, nil
		})
		if err != nil {
			log.Fatal(err)
		}
		return entry
	}
	kitchen := server.NewCatalog([]*server.Entry{tool("bake"), tool("debug")}, nil)
	counter := server.NewCatalog([]*server.Entry{tool("order")}, nil)

	kitchen = kitchen.Map(func(e *server.Entry) *server.Entry {
		if e.Name == "debug" {
			return nil // drops it
		}
		changed := *e
		changed.Metadata = map[string]any{"staff": true}
		return &changed
	})
	bakery := server.Merge(nil,
		server.Part{Owner: "kitchen", Catalog: kitchen},
		server.Part{Owner: "counter", Catalog: counter})

	staff := mcp.Guard{Name: "staff", Visible: func(_ context.Context, caller *mcp.Caller, target *mcp.Target) bool {
		return target.Metadata["staff"] != true || caller.Principal == "baker"
	}}
	s := server.New(mcp.Implementation{Name: "town", Version: "1.0.0"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Mount(fixed{bakery}, &server.MountOptions{Prefix: "bakery_", Guards: []mcp.Guard{staff}}); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())

	for _, principal := range []string{"baker", "guest"} {
		// owned sets the principal, as a transport does that authenticates its callers.
		session, err := client.Connect(context.Background(), transport.Pipe(owned{s, principal}), nil)
		if err != nil {
			log.Fatal(err)
		}
		for tool := range session.Tools(context.Background(), nil) {
			fmt.Println(principal, "sees", tool.Name)
		}
		say(session, "bakery_bake", nil)
		say(session, "bakery_order", nil)
		session.Close()
	}
	// Output:
	// baker sees bakery_bake
	// baker sees bakery_order
	// bake, called by baker
	// order, called by baker
	// guest sees bakery_order
	// protocol error: jsonrpc: -32602 "unknown tool: \"bakery_bake\""
	// order, called by guest
}

// The first part that has a name keeps it. The catalog reports the other entry.
func ExampleMerge() {
	entry := func(name string) *server.Entry {
		return &server.Entry{
			Target: mcp.Target{Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition([]byte(`{"name":"` + name + `","inputSchema":{"type":"object"}}`))},
			Handle: func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(`{"content":[]}`), nil },
		}
	}
	merged := server.Merge(nil,
		server.Part{Owner: "kitchen", Catalog: server.NewCatalog([]*server.Entry{entry("bake"), entry("clean")}, nil)},
		server.Part{Owner: "counter", Catalog: server.NewCatalog([]*server.Entry{entry("clean")}, nil)})
	for e := range merged.All(mcp.KindTool) {
		fmt.Println(e.Name)
	}
	for _, collision := range merged.Collisions() {
		fmt.Println(collision)
	}
	// Output:
	// bake
	// clean
	// the tool "clean" of counter is not offered: kitchen has one too; use a prefix
}

// The first of two entries with one name is offered.
func ExampleNewCatalog() {
	add, err := server.NewTool(server.Tool{Name: "add"}, func(context.Context, *server.Request, struct{}) (int, error) { return 0, nil })
	if err != nil {
		log.Fatal(err)
	}
	catalog := server.NewCatalog([]*server.Entry{add, add}, nil)
	for entry := range catalog.All(mcp.KindTool) {
		fmt.Println(entry.Kind, entry.Name)
	}
	fmt.Println("not offered:", len(catalog.Collisions()))
	// Output:
	// tool add
	// not offered: 1
}
