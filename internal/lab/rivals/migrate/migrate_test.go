package migrate

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

var update = flag.Bool("update", false, "write the files in testdata/*/after")

// dovetail builds the command in the workspace.
func dovetail(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dovetail")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = filepath.Join("..", "..", "..", "..", "bridge", "cmd", "dovetail")
	build.Env = append(os.Environ(), "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building dovetail: %v\n%s", err, out)
	}
	return path
}

// newModule returns a folder with a program, as a module with the requirements of this one.
func newModule(t *testing.T, program string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(program)); err != nil {
		t.Fatal(err)
	}
	lab, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(lab, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	module = regexp.MustCompile(`(?m)^module .*`).ReplaceAll(module, []byte("module example.com/library"))
	module = regexp.MustCompile(`=> \.`).ReplaceAll(module, []byte("=> "+lab+"/."))
	sums, err := os.ReadFile(filepath.Join(lab, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"go.mod": module, "go.sum": sums} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestMigratedProgramOffersTheSame(t *testing.T) {
	command := dovetail(t)
	library, err := filepath.Abs(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, sdk := range []string{"gosdk", "mcpgo"} {
		t.Run(sdk, func(t *testing.T) {
			folder := newModule(t, filepath.Join("testdata", sdk, "before"))
			before := offers(t, folder)

			var report strings.Builder
			run := exec.Command(command, "migrate", "-w", "-force", "-library", library, folder)
			run.Stderr = &report
			if err := run.Run(); err != nil {
				t.Fatalf("dovetail migrate: %v\n%s", err, report.String())
			}
			if !strings.HasSuffix(report.String(), " 0 places are left to do by hand. 0 compile errors remain.\n") {
				t.Errorf("the report is\n%s", report.String())
			}
			compare(t, folder, filepath.Join("testdata", sdk, "after"))
			goes(t, folder, "vet", "./...")
			goes(t, folder, "test", "./...")
			if diff := cmp.Diff(before, offers(t, folder)); diff != "" {
				t.Errorf("the program offers something else (-before +after):\n%s", diff)
			}
		})
	}
}

// goes runs the go command in a module.
func goes(t *testing.T, folder string, args ...string) {
	t.Helper()
	c := exec.Command("go", args...)
	c.Dir, c.Env = folder, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -trimpath")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("go %v: %v\n%s", args, err, out)
	}
}

// compare compares the Go files of a module with those of a folder, or writes the latter.
func compare(t *testing.T, module, golden string) {
	t.Helper()
	if *update {
		if err := os.RemoveAll(golden); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(module, path)
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.Contains(name, "compat") {
			return err
		}
		got, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path = filepath.Join(golden, name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			return os.WriteFile(path, got, 0o644)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// offers builds a program and returns what it lists, by meaning, and what some calls return.
func offers(t *testing.T, folder string) map[string]any {
	t.Helper()
	program := filepath.Join(t.TempDir(), "library")
	goes(t, folder, "build", "-o", program, ".")
	session, err := client.Connect(t.Context(), stdio.Command(program, nil, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	offered := map[string]any{"instructions": session.Instructions(), "server": session.Server().Name}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		offered["tool "+tool.Name] = meaning(t, tool)
	}
	for prompt, err := range session.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		offered["prompt "+prompt.Name] = meaning(t, prompt)
	}
	for resource, err := range session.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		offered["resource "+resource.URI] = meaning(t, resource)
	}
	for template, err := range session.Templates(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		offered["template "+template.URITemplate] = meaning(t, template)
	}
	for _, call := range []struct {
		tool      string
		arguments map[string]any
	}{
		{"lend", map[string]any{"title": "Emma"}},
		{"lend", map[string]any{"title": "Odyssey"}},
		{"lend", map[string]any{"title": "Ulysses", "copies": 2}},
		{"find", map[string]any{"word": "mm"}},
		{"cover", map[string]any{"title": "Emma"}},
	} {
		result, err := session.CallTool(t.Context(), call.tool, call.arguments, nil)
		if err != nil {
			t.Fatal(err)
		}
		offered[fmt.Sprint("call ", call)] = meaning(t, result)
	}
	if offered["tool count"] != nil { // mcp-go has no tools of this kind
		result, err := session.CallTool(t.Context(), "count", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		offered["call count"] = meaning(t, result)
	}
	prompt, err := session.GetPrompt(t.Context(), "recommend", map[string]string{"title": "Emma"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	offered["get recommend"] = meaning(t, prompt)
	for _, uri := range []string{"library://rules", "library://page/7"} {
		contents, err := session.ReadResource(t.Context(), uri, nil)
		if err != nil {
			t.Fatal(err)
		}
		offered["read "+uri] = meaning(t, contents)
	}
	return offered
}

// meaning returns a value without what says nothing: empty members of schemas, and hints with their defaults.
func meaning(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&decoded); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"resultType", "_meta", "ttlMs", "cacheScope", "isError", "execution"} {
		if name != "isError" || decoded[name] == false {
			delete(decoded, name)
		}
	}
	if decoded["isError"] == true { // of go-sdk it has the zero value
		delete(decoded, "structuredContent")
	}
	if hints, ok := decoded["annotations"].(map[string]any); ok {
		defaults := map[string]any{"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}
		for name, value := range defaults {
			if hints[name] == value {
				delete(hints, name)
			}
		}
		if len(hints) == 0 {
			delete(decoded, "annotations")
		}
	}
	if schema, ok := decoded["inputSchema"].(map[string]any); ok {
		for _, name := range []string{"required", "properties"} {
			switch member := schema[name].(type) {
			case []any:
				if len(member) == 0 {
					delete(schema, name)
				}
			case map[string]any:
				if len(member) == 0 {
					delete(schema, name)
				}
			}
		}
	}
	return decoded
}
