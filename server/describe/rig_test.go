package describe_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/describe"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// full returns a description that uses every field of cards and of server.json.
func full() describe.Server {
	remote := describe.NewRemote("https://{tenant}.example.com/mcp")
	remote.Variables = map[string]describe.Input{"tenant": {Description: "Your tenant.", Required: true, Default: "main", Choices: []string{"main", "test"}}}
	remote.Headers = []describe.NamedInput{{
		Name: "Authorization", Input: describe.Input{Description: "A token.", Required: true, Secret: true, Value: "Bearer {token}"},
		Variables: map[string]describe.Input{"token": {Required: true, Secret: true, Placeholder: "abc"}},
	}}
	return describe.Server{
		Name: "com.example/calc", Title: "Calculator", Description: "Adds numbers <exactly>.", Version: "1.2.0",
		Website: "https://example.com/calc",
		Icons:   []mcp.Icon{{Src: "https://example.com/icon.png", MIMEType: "image/png", Sizes: []string{"48x48"}, Theme: mcp.IconDark}},
		Repository: &describe.Repository{
			URL: "https://github.com/example/calc", Source: "github", ID: "1234", Subfolder: "cmd/calc",
		},
		Remotes: []describe.Remote{remote, {Transport: "sse", URL: "https://example.com/sse"}},
		Packages: []describe.Package{
			{
				Registry: "oci", Identifier: "ghcr.io/example/calc:1.2.0", Runtime: "docker",
				Transport: "streamable-http", URL: "http://localhost:{--port}/mcp",
				RuntimeArguments: []describe.Argument{{Name: "-p", Input: describe.Input{Value: "{port}:8080", Required: true},
					Variables: map[string]describe.Input{"port": {Format: "number", Default: "8080"}}}},
				Arguments: []describe.Argument{
					{Name: "--port", Input: describe.Input{Default: "8080"}},
					{Label: "file", Repeated: true, Input: describe.Input{Format: "filepath"}},
				},
				Environment: []describe.NamedInput{{Name: "CALC_TOKEN", Input: describe.Input{Secret: true}}},
			},
			{
				Registry: "mcpb", Identifier: "https://github.com/example/calc/releases/download/v1.2.0/calc.mcpb", Version: "1.2.0",
				SHA256: "fe333e598595000ae021bd27117db32ec69af6987f507ba7a63c90638ff633ce",
			},
		},
		Author: describe.Author{Name: "Example", Email: "calc@example.com", URL: "https://example.com"}, License: "Apache-2.0",
		Tools:   []describe.Tool{{Name: "add", Description: "Add two integers."}, {Name: "now"}},
		Prompts: []describe.Prompt{{Name: "sum", Arguments: []string{"numbers"}, Text: "Add ${arguments.numbers}."}, {Name: "other"}},
	}
}

// A fault is a change of a valid description, and the field that is wrong then.
type fault struct {
	change func(s *describe.Server)
	field  string
}

// wantFaults checks that each change gives an error of its field, and no other.
func wantFaults(t *testing.T, faults map[string]fault, write func(s describe.Server) error) {
	t.Helper()
	if err := write(full()); err != nil {
		t.Fatal(err)
	}
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			s := full()
			f.change(&s)
			wantFields(t, write(s), f.field)
		})
	}
}

// wantFields checks the fields of the FieldErrors in an error.
func wantFields(t *testing.T, err error, fields ...string) {
	t.Helper()
	var got []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if e, ok := errors.AsType[*describe.FieldError](err); ok && !slices.Contains(got, e.Field) {
				got = append(got, e.Field)
			}
		}
	}
	if !slices.Equal(got, fields) {
		t.Errorf("got errors of %q, want %q: %v", got, fields, err)
	}
}

// wantFile compares a document with a file in testdata, which SERVERTEST_UPDATE=1 writes.
func wantFile(t *testing.T, name string, got []byte) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if os.Getenv("SERVERTEST_UPDATE") == "1" {
		if err := os.WriteFile(name, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
