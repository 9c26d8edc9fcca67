package openapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server/openapi"
)

const ruleDocument = `
paths:
  /pets: {get: {operationId: listPets, tags: [pets]}, post: {operationId: addPet, tags: [pets, write]}}
  /admin/users: {get: {operationId: listUsers}, delete: {operationId: dropUsers}}
  /pets/{id}: {get: {operationId: getPet, summary: One pet., description: "  "}}
`

func TestRules(t *testing.T) {
	for name, test := range map[string]struct {
		rules []openapi.Rule
		want  []string
	}{
		"none":         {nil, []string{"listPets", "addPet", "listUsers", "dropUsers", "getPet"}},
		"path":         {[]openapi.Rule{{Path: regexp.MustCompile("^/admin"), Expose: openapi.Excluded}}, []string{"listPets", "addPet", "getPet"}},
		"unanchored":   {[]openapi.Rule{{Path: regexp.MustCompile("users"), Expose: openapi.Excluded}}, []string{"listPets", "addPet", "getPet"}},
		"method":       {[]openapi.Rule{{Methods: []string{"Post", "delete"}, Expose: openapi.Excluded}}, []string{"listPets", "listUsers", "getPet"}},
		"tag":          {[]openapi.Rule{{Tags: []string{"write", "other"}, Expose: openapi.Excluded}}, []string{"listPets", "listUsers", "dropUsers", "getPet"}},
		"operationId":  {[]openapi.Rule{{OperationID: regexp.MustCompile("^list"), Expose: openapi.Excluded}}, []string{"addPet", "dropUsers", "getPet"}},
		"all of these": {[]openapi.Rule{{Path: regexp.MustCompile("pets"), Methods: []string{"GET"}, Expose: openapi.Excluded}}, []string{"addPet", "listUsers", "dropUsers"}},
		"first wins": {
			[]openapi.Rule{{OperationID: regexp.MustCompile("^getPet$"), Name: "pet"}, {Methods: []string{"GET"}, Expose: openapi.Excluded}},
			[]string{"addPet", "dropUsers", "pet"},
		},
		"everything": {[]openapi.Rule{{Expose: openapi.Excluded}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := provide(t, document("3.0.3", ruleDocument), openapi.Options{Rules: test.rules})
			if diff := cmp.Diff(test.want, toolNames(p)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDescriptions(t *testing.T) {
	rules := []openapi.Rule{{OperationID: regexp.MustCompile("listPets"), Description: "All pets."}}
	p := provide(t, document("3.0.3", ruleDocument+"  /old: {get: {operationId: old, deprecated: true, description: An old one.}}\n"), openapi.Options{Rules: rules})
	for name, want := range map[string]string{"listPets": "All pets.", "getPet": "One pet.", "addPet": "addPet", "old": "Deprecated. An old one."} {
		if got := tool(t, p, name).Description; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestToolNames(t *testing.T) {
	for id, want := range map[string]string{
		`operationId: "repos/get-content"`:                "repos_get-content",
		`operationId: " Get  a pet! "`:                    "Get_a_pet",
		`operationId: v1.pets.list`:                       "v1.pets.list",
		`operationId: "日本"`:                               "get_pets_petId_toys",
		`operationId: ""`:                                 "get_pets_petId_toys",
		`summary: none`:                                   "get_pets_petId_toys",
		`operationId: ` + strings.Repeat("x", 200):        strings.Repeat("x", 128),
		`operationId: ` + strings.Repeat("x", 127) + "-y": strings.Repeat("x", 127) + "-",
	} {
		p := provide(t, document("3.0.3", "paths: {'/pets/{petId}/toys/': {get: {"+id+"}}}"), openapi.Options{})
		if got := toolNames(p); len(got) != 1 || got[0] != want {
			t.Errorf("%s: the name is %q, want %q", id, got, want)
		}
	}
}

func TestNameCollisions(t *testing.T) {
	text := document("3.0.3", "paths: {/a: {get: {operationId: same/one}}, /b: {put: {operationId: same_one}}}")
	wantContains(t, problems(t, text, openapi.Options{}), "PUT /b", "GET /a", `"same_one"`)
	provide(t, text, openapi.Options{Rules: []openapi.Rule{{Path: regexp.MustCompile("b"), Name: "other"}}})

	// Rule.Name is not sanitized.
	one := []openapi.Rule{{Methods: []string{"GET"}, Name: "a name"}}
	wantContains(t, problems(t, text, openapi.Options{Rules: one}), "Rule.Name", "a name")
	wantContains(t, problems(t, text, openapi.Options{Rules: []openapi.Rule{{Name: "x"}}}), "GET /a", "PUT /b")
}

func TestProblems(t *testing.T) {
	var paths strings.Builder
	for i := range 30 {
		fmt.Fprintf(&paths, "  /a%02d?: {get: {}}\n", i)
	}
	got := problems(t, document("3.0.3", "paths:\n"+paths.String()), openapi.Options{})
	wantContains(t, got, "/a00?", "/a19?", "10 more operations")
}

// publicDocuments is the environment variable with a folder of OpenAPI documents to test. Without
// it, a small document of this package is tested.
const publicDocuments = "DOVETAIL_OPENAPI"

func TestPublicDocuments(t *testing.T) {
	folder, given := os.LookupEnv(publicDocuments)
	if !given {
		folder = "testdata"
	}
	var files []string
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(name)) {
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no documents in %s: %v", folder, err)
	}
	for _, file := range files {
		name, err := filepath.Rel(folder, file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.ToSlash(name), func(t *testing.T) { tryDocument(t, file) })
	}
}

// tryDocument creates the tools of a document, checks them, and calls each of them.
func tryDocument(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var requested *http.Request
	service := roundTripper(func(r *http.Request) (*http.Response, error) {
		requested = r
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	})
	var security openapi.Security
	began := time.Now()
	p := provide(t, text, openapi.Options{
		BaseURL: "https://service.example/base", HTTPClient: &http.Client{Transport: service}, HeaderParameters: true, OmitOutputSchemas: true,
		Authorize: func(_ context.Context, _ *http.Request, s openapi.Security) error {
			security = s
			return nil
		},
	})
	took, size, called := time.Since(began), 0, 0
	for listed := range p.Catalog().All(mcp.KindTool) {
		size += len(listed.Definition.JSON())
		tool := checkTool(t, listed.Name, listed.Definition.JSON())
		arguments := instanceOf(t, tool.InputSchema)
		requested = nil
		result := call(t, p, tool.Name, string(arguments))
		if requested == nil { // the test may have no text for a pattern
			t.Logf("%s(%.200s): %.300s", tool.Name, arguments, texts(result))
			continue
		}
		called++
		path, _, _ := strings.Cut(security.Path, "#")
		want := regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta("/base"+path), `[^/?#]+`)
		if got := requested.URL.EscapedPath(); requested.URL.Host != "service.example" || requested.Method != security.Method || !regexp.MustCompile("^"+want+"$").MatchString(got) {
			t.Errorf("%s(%.200s) sent %s %s, want %s %s", tool.Name, arguments, requested.Method, requested.URL, security.Method, security.Path)
		}
	}
	tools := p.Catalog().Len(mcp.KindTool)
	t.Logf("%d bytes in %v: %d tools of %d bytes, %d called", len(text), took.Round(time.Millisecond), tools, size, called)
	if called < tools/2 {
		t.Errorf("only %d of %d tools were called", called, tools)
	}
	// Output schemas must be usable, too.
	for listed := range provide(t, text, openapi.Options{}).Catalog().All(mcp.KindTool) {
		checkTool(t, listed.Name, listed.Definition.JSON())
	}
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func checkTool(t *testing.T, name string, listed json.RawMessage) *mcp.Tool {
	t.Helper()
	tool := new(mcp.Tool)
	if err := tool.UnmarshalJSON(listed); err != nil {
		t.Fatal(err)
	}
	if tool.Name != name || !toolName.MatchString(name) || tool.Description == "" {
		t.Errorf("the tool %q is listed as %q with the description %q", tool.Name, name, tool.Description)
	}
	for _, text := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
		if text == nil {
			continue
		}
		if _, err := schema.Compile(text, nil); err != nil {
			t.Errorf("%s: %v in %.300s", name, err, text)
		}
	}
	if !strings.HasPrefix(string(tool.InputSchema), `{"type":"object",`) {
		t.Errorf("%s: the arguments are not an object: %.100s", name, tool.InputSchema)
	}
	return tool
}
