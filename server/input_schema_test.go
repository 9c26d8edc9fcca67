package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func addRaw(s *server.Server, name, schema string) {
	server.AddRawTool(s, server.Tool{Name: name, Title: "inputSchema", InputSchema: json.RawMessage(schema), Meta: mcp.Meta(`{"inputSchema":{}}`)}, nil)
}

// TestInputSchema: the bytes that clients see in the list, of what is offered now.
func TestInputSchema(t *testing.T) {
	const given = `{"type":"object", "properties":{"inputSchema":{"type":"string","x-mcp-header":"Region"}}}`
	s := newServer(&server.Options{PageSize: 1})
	if got := s.InputSchema("raw"); got != nil {
		t.Errorf("a server without tools has %s", got)
	}
	addRaw(s, "raw", given)
	server.AddTool(s, server.Tool{Name: "typed"}, nothing[struct {
		Region string `json:"region" jsonschema_extras:"x-mcp-header=Region"`
	}])
	server.AddPrompt(s, server.Prompt{Name: "prompt"}, nothing[struct{}])
	if got := string(s.InputSchema("raw")); got != given {
		t.Errorf("the schema is %s, want %s", got, given)
	}
	for _, name := range []string{"", "Raw", "prompt", "inputSchema"} {
		if got := s.InputSchema(name); got != nil {
			t.Errorf("%q has %s", name, got)
		}
	}
	session := connect(t, s, client.Modern)
	for tool, err := range session.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got := s.InputSchema(tool.Name); string(got) != string(tool.InputSchema) {
			t.Errorf("%s is listed with %s, but has %s", tool.Name, tool.InputSchema, got)
		}
	}

	const other = `{"type":"object","properties":{}}`
	entry, err := server.NewRawTool(server.Tool{Name: "raw", InputSchema: json.RawMessage(other)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(entry); err != nil {
		t.Fatal(err)
	}
	if got := string(s.InputSchema("raw")); got != other {
		t.Errorf("after a change the schema is %s, want %s", got, other)
	}
	s.Remove(mcp.KindTool, "raw")
	if got := s.InputSchema("raw"); got != nil {
		t.Errorf("a tool that is gone has %s", got)
	}
}

// TestInputSchemaUnderChanges: whoever asks gets one of the schemas that were.
func TestInputSchemaUnderChanges(t *testing.T) {
	s := newServer(nil)
	schemas := []string{`{"type":"object","title":"a"}`, `{"type":"object","title":"b"}`}
	addRaw(s, "raw", schemas[0])
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if got := string(s.InputSchema("raw")); got != schemas[0] && got != schemas[1] {
					t.Errorf("the schema is %s", got)
					return
				}
			}
		})
	}
	for i := range 200 {
		entry, err := server.NewRawTool(server.Tool{Name: "raw", InputSchema: json.RawMessage(schemas[i%2])}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(entry); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

// TestInputSchemaBudget: transports ask before every call.
func TestInputSchemaBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates too")
	}
	s := newPaged(500, 0)
	n := testing.AllocsPerRun(100, func() {
		if s.InputSchema("tool00") == nil || s.InputSchema("none") != nil {
			t.Fatal("the schemas are not those of the tools")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// A transport compares request headers with the arguments that the schema
// annotates.
func ExampleServer_InputSchema() {
	s := server.New(mcp.Implementation{Name: "database", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "query"}, func(ctx context.Context, r *server.Request, in struct {
		Region string `json:"region" jsonschema_extras:"x-mcp-header=Region"`
	}) (string, error) {
		return "from " + in.Region, nil
	})
	var schema struct{ Properties map[string]any }
	if err := json.Unmarshal(s.InputSchema("query"), &schema); err != nil {
		fmt.Println(err)
	}
	fmt.Println(schema.Properties["region"])
	fmt.Println(s.InputSchema("drop") == nil)
	// Output:
	// map[type:string x-mcp-header:Region]
	// true
}
