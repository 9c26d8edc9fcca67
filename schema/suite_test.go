package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
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

// A refusingTransport fails the test if something is fetched.
type refusingTransport struct{ testing.TB }

func (r refusingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	r.Errorf("%s was fetched", request.URL)
	return nil, errors.New("nothing is fetched here")
}

// refuseFetching fails the test if the default client of package http fetches something.
func refuseFetching(t *testing.T) {
	former := http.DefaultTransport
	http.DefaultTransport = refusingTransport{t}
	t.Cleanup(func() { http.DefaultTransport = former })
}

// References to hosts and files are neither resolved nor fetched nor read.
func TestNeverFetches(t *testing.T) {
	refuseFetching(t)
	host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was fetched", r.URL) }))
	defer host.Close()
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{host.URL + "/a", host.URL + "/a#/b", strings.TrimPrefix(host.URL, "http:") + "/a", "file://" + file, file, "other.json", "urn:a:b", "mem:///other"} {
		for _, format := range []string{
			`{"$ref":%q}`, `{"$schema":%q}`, `{"allOf":[{"$ref":%q}]}`, `{"$dynamicRef":%q}`, `{"$id":"` + host.URL + `/","$ref":%q}`,
			`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":%q}`, `{"$defs":{"a":{"$id":"x:y","$schema":%q}},"$ref":"#/$defs/a"}`,
		} {
			_, err := schema.Compile(json.RawMessage(fmt.Sprintf(format, target)), nil)
			if _, ok := errors.AsType[*schema.CompileError](err); !ok {
				t.Errorf("%s to %s: got %v, want a CompileError", format, target, err)
			}
		}
	}
}

func TestSuite(t *testing.T) {
	refuseFetching(t)
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
	if tests, ok := testsuites.Dir(t, "jsonschema/tests/"+folder); ok {
		remotes, _ := testsuites.Dir(t, "jsonschema/remotes")
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
		err := validator.Validate(t.Context(), test.Data)
		var invalid *schema.ValidationError
		if err != nil && !errors.As(err, &invalid) {
			t.Errorf("%s: %s: %s: unexpected kind of error: %v", file, group.Description, test.Description, err)
		}
		if schema.IsGeneral(validator) && schema.Verdict(validator, test.Data) != test.Valid {
			t.Errorf("%s: %s: %s: without descriptions, valid should be %v", file, group.Description, test.Description, test.Valid)
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

func TestMain(m *testing.M) { leaktest.Main(m) }
