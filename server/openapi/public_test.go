package openapi_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server/openapi"
)

// publicDocuments names the variable with a folder of OpenAPI documents to try. When
// it is not set, a small one of our own is tried.
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

// tryDocument makes tools out of a document, looks at them, and calls each.
func tryDocument(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var asked *http.Request
	service := roundTripper(func(r *http.Request) (*http.Response, error) {
		asked = r
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
		asked = nil
		result := call(t, p, tool.Name, string(arguments))
		if asked == nil { // for some patterns, say, the test has no text
			t.Logf("%s(%.200s): %.300s", tool.Name, arguments, texts(result))
			continue
		}
		called++
		path, _, _ := strings.Cut(security.Path, "#")
		want := regexp.MustCompile(`\\\{[^}]*\\\}`).ReplaceAllString(regexp.QuoteMeta("/base"+path), `[^/?#]+`)
		if got := asked.URL.EscapedPath(); asked.URL.Host != "service.example" || asked.Method != security.Method || !regexp.MustCompile("^"+want+"$").MatchString(got) {
			t.Errorf("%s(%.200s) asked for %s %s, want %s %s", tool.Name, arguments, asked.Method, asked.URL, security.Method, security.Path)
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
		t.Errorf("a tool is called %q, listed as %q, and described as %q", tool.Name, name, tool.Description)
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
		t.Errorf("%s: the arguments are no object: %.100s", name, tool.InputSchema)
	}
	return tool
}
