package openapi_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
	"github.com/dovetail-go/dovetail/transport"
)

// A provider is offered by a server, to clients of both eras.
func TestProviderIsMounted(t *testing.T) {
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) {
			notes, err := os.ReadFile("testdata/notes.yaml")
			if err != nil {
				t.Fatal(err)
			}
			s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
			p := provide(t, notes, openapi.Options{
				BaseURL: serve(t, echoing), OmitOutputSchemas: true, Authorize: openapi.Credentials{"key": "hunter2"}.Authorize,
				Rules: []openapi.Rule{{Methods: []string{"GET"}, Expose: openapi.AsResource}},
			})
			if err := s.Mount(p, &server.MountOptions{Prefix: "notes."}); err != nil {
				t.Fatal(err)
			}
			session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				session.Close()
				if err := s.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})

			result, err := session.CallTool(t.Context(), "notes.addNote", json.RawMessage(`{"text":"hello","tags":["a"]}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got echo
			if err := json.Unmarshal(result.StructuredContent, &got); err != nil || got.Body != `{"text":"hello","tags":["a"]}` || got.Headers.Get("X-Key") != "hunter2" {
				t.Errorf("the service got %+v, %v", got, err)
			}
			if result, err = session.CallTool(t.Context(), "notes.addNote", json.RawMessage(`{"id":1,"text":"hello"}`), nil); err != nil || !result.IsError {
				t.Errorf("a property that is read-only was taken: %v, %v", result, err)
			}

			var templates []string
			for template, err := range session.Templates(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				templates = append(templates, template.URITemplate)
			}
			if len(templates) != 2 {
				t.Fatalf("the templates are %q", templates)
			}
			origin := templates[1][:len(templates[1])-len("/notes/{id}")]
			read, err := session.Read(t.Context(), origin+"/notes/7", nil)
			if err != nil {
				t.Fatal(err)
			}
			if contents := read.Contents[0].(*mcp.TextResourceContents); contents.MIMEType != "application/json" {
				t.Errorf("got %+v", contents)
			}
		})
	}
}
