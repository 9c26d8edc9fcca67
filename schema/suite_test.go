package schema_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/suites"
	"github.com/dovetail-go/dovetail/schema"
)

// A suiteGroup is a schema of the JSON-Schema-Test-Suite
// (https://github.com/json-schema-org/JSON-Schema-Test-Suite) with instances.
type suiteGroup struct {
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Tests       []struct {
		Description string          `json:"description"`
		Data        json.RawMessage `json:"data"`
		Valid       bool            `json:"valid"`
	} `json:"tests"`
}

func TestSuite(t *testing.T) {
	for _, dialect := range []struct{ folder, uri string }{
		{"draft2020-12", "https://json-schema.org/draft/2020-12/schema"},
		{"draft7", "http://json-schema.org/draft-07/schema#"},
	} {
		t.Run(dialect.folder, func(t *testing.T) {
			tests, remotes := suiteFolders(t, dialect.folder)
			opts := &schema.CompileOptions{Resources: readRemotes(t, remotes)}
			files, err := filepath.Glob(filepath.Join(tests, "*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no tests in %s: %v", tests, err)
			}
			verdicts := 0
			for _, file := range files {
				var groups []suiteGroup
				text, err := os.ReadFile(file)
				if err == nil {
					err = json.Unmarshal(text, &groups)
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, group := range groups {
					verdicts += runGroup(t, filepath.Base(file), group, dialect.uri, opts)
				}
			}
			t.Logf("%d verdicts", verdicts)
		})
	}
}

func suiteFolders(t *testing.T, folder string) (tests, remotes string) {
	if tests, ok := suites.Dir(t, "jsonschema/tests/"+folder); ok {
		remotes, _ := suites.Dir(t, "jsonschema/remotes")
		return tests, remotes
	}
	return filepath.Join("testdata", "suite", folder), filepath.Join("testdata", "suite", "remotes")
}

func runGroup(t *testing.T, file string, group suiteGroup, dialect string, opts *schema.CompileOptions) int {
	text := group.Schema
	if strings.HasPrefix(string(text), "{") && !strings.Contains(string(text), `"$schema"`) {
		text = json.RawMessage(`{"$schema":"` + dialect + `",` + strings.TrimPrefix(string(text), "{"))
		text = json.RawMessage(strings.Replace(string(text), ",}", "}", 1))
	}
	validator, err := schema.Compile(text, opts)
	if err != nil {
		t.Errorf("%s: %s: %v", file, group.Description, err)
		return 0
	}
	for _, test := range group.Tests {
		err := validator.Validate(test.Data)
		var invalid *schema.ValidationError
		if err != nil && !errors.As(err, &invalid) {
			t.Errorf("%s: %s: %s: unexpected kind of error: %v", file, group.Description, test.Description, err)
		}
		if (err == nil) != test.Valid {
			t.Errorf("%s: %s: %s: valid should be %v, got %v", file, group.Description, test.Description, test.Valid, err)
		}
	}
	return len(group.Tests)
}

// readRemotes returns the documents that the suite expects at
// http://localhost:1234/.
func readRemotes(t *testing.T, folder string) map[string]json.RawMessage {
	t.Helper()
	documents := map[string]json.RawMessage{}
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		documents["http://localhost:1234/"+path] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return documents
}
