package openapi_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/openapi"
)

func BenchmarkNew(b *testing.B) {
	text, err := os.ReadFile("testdata/notes.yaml")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openapi.New(text, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCall is what a call costs beside the service.
func BenchmarkCall(b *testing.B) {
	text, err := os.ReadFile("testdata/notes.yaml")
	if err != nil {
		b.Fatal(err)
	}
	const note = `{"id":7,"text":"hello","tags":["a","b"]}`
	p := provide(b, text, openapi.Options{HTTPClient: saying(http.StatusCreated, "application/json", note)})
	entry := p.Catalog().Lookup(mcp.KindTool, "addNote")
	call := request(b, mcp.MethodToolsCall, `{"name":"addNote","arguments":{"text":"hello","tags":["a","b"]}}`)
	call.Resolve(&entry.Target, "", nil)
	b.ReportAllocs()
	for b.Loop() {
		result, err := entry.Handle(b.Context(), call)
		if err != nil {
			b.Fatal(err)
		}
		if encoded, err := result.AppendJSON(nil); err != nil || strings.Contains(string(encoded), "isError") {
			b.Fatalf("%s, %v", encoded, err)
		}
	}
}
