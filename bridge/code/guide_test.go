package code_test

import (
	"context"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestGuide runs the script of docs/scripts.md over a bridge, and compares what the model reads.
func TestGuide(t *testing.T) {
	type content struct {
		Content string `json:"content"`
	}
	files := server.New(mcp.Implementation{Name: "files"}, nil)
	server.AddTool(files, server.Tool{Name: "list_directory"}, func(context.Context, *server.Request, struct {
		Path string `json:"path"`
	}) (content, error) {
		return content{"[DIR] old\n[FILE] a.txt\n[FILE] b.txt\n[FILE] c.txt"}, nil
	})
	server.AddTool(files, server.Tool{Name: "read_text_file", Description: "Read the complete contents of a file as text"}, func(_ context.Context, _ *server.Request, in struct {
		Path string `json:"path"`
		Head int    `json:"head,omitempty" jsonschema:"If provided, returns only the first N lines of the file"`
	}) (content, error) {
		return content{map[string]string{"/data/a.txt": "done", "/data/b.txt": "TODO: write", "/data/c.txt": ""}[in.Path]}, nil
	})
	servers, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "files", Dialer: transport.Pipe(files)})
	if err != nil {
		t.Fatal(err)
	}
	session := connect(t, servers, nil, nil)
	for _, step := range []struct{ tool, argument, file, want string }{
		{code.SearchTool, "query", "", "guide.ts"},
		{code.ScriptTool, "script", "guide.js", "guide.json"},
	} {
		text, want := "read file", readFile(t, step.want)
		if step.file != "" {
			text = readFile(t, step.file)
		}
		arguments := map[string]any{step.argument: text}
		if step.tool == code.SearchTool {
			arguments["limit"] = 1
		}
		result, err := session.CallTool(t.Context(), step.tool, arguments, nil)
		if err != nil || result.Text() != want && result.Text()+"\n" != want {
			t.Errorf("%s: %s %v, want %s", step.tool, result.Text(), err, want)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
