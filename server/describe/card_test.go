package describe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/describe"
)

// newServer returns a server with a tool, a prompt, and two tools that some callers do not see.
func newServer(opts *server.Options) *server.Server {
	s := server.New(mcp.Implementation{
		Name: "com.example/calc", Title: "Calculator", Version: "1.2.0", Description: "Adds numbers.",
		WebsiteURL: "https://example.com", Icons: []mcp.Icon{{Src: "https://example.com/icon.png"}},
	}, opts)
	run := func(context.Context, *server.Request, struct{}) (string, error) { return "", nil }
	hidden := mcp.Guard{Name: "staff", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return true }}
	server.AddTool(s, server.Tool{Name: "add", Title: "Add", Description: "Add two integers."}, run)
	server.AddTool(s, server.Tool{Name: "audit", Guards: []mcp.Guard{hidden}}, run)
	server.AddPrompt(s, server.Prompt{Name: "sum", Description: "Add numbers."},
		func(_ context.Context, _ *server.Request, in struct {
			Numbers string `json:"numbers"`
		}) (string, error) {
			return in.Numbers, nil
		})
	return s
}

func TestOf(t *testing.T) {
	got := describe.Of(newServer(nil))
	want := describe.Server{
		Name: "com.example/calc", Title: "Calculator", Version: "1.2.0", Description: "Adds numbers.",
		Website: "https://example.com", Icons: []mcp.Icon{{Src: "https://example.com/icon.png"}},
		Tools:     []describe.Tool{{Name: "add", Description: "Add two integers."}},
		MoreTools: true,
		Prompts:   []describe.Prompt{{Name: "sum", Description: "Add numbers.", Arguments: []string{"numbers"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A guard of the server that hides hides from documents too.
func TestOfHidden(t *testing.T) {
	guard := mcp.Guard{Name: "all", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return true }}
	got := describe.Of(newServer(&server.Options{Guards: []mcp.Guard{guard}}))
	if len(got.Tools) != 0 || len(got.Prompts) != 0 || !got.MoreTools || !got.MorePrompts {
		t.Errorf("tools %v, prompts %v, more %v, %v", got.Tools, got.Prompts, got.MoreTools, got.MorePrompts)
	}
}

func TestCard(t *testing.T) {
	text, err := os.ReadFile("testdata/card.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	validator, err := schema.Compile(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]describe.Server{
		"card.json":    full(),
		"minimal.json": {Name: "example-org/minimal", Version: "1.0.0", Description: "Smallest."},
	} {
		card, err := s.Card()
		if err != nil {
			t.Fatal(err)
		}
		wantFile(t, name, card)
		if err := validator.Validate(t.Context(), card); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		parsed, err := describe.ParseCard(card)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Packages, s.Author, s.License, s.Tools, s.Prompts = nil, describe.Author{}, "", nil, nil
		if diff := cmp.Diff(s, parsed); diff != "" {
			t.Errorf("%s is not read as it was (-want +got):\n%s", name, diff)
		}
	}
}

// identityFaults are faults that no document allows.
var identityFaults = map[string]fault{
	"no name":               {func(s *describe.Server) { s.Name = "" }, "Name"},
	"name without slash":    {func(s *describe.Server) { s.Name = "calc" }, "Name"},
	"name with two slashes": {func(s *describe.Server) { s.Name = "a.b/c/dd" }, "Name"},
	"long name":             {func(s *describe.Server) { s.Name = "com.example/" + strings.Repeat("a", 189) }, "Name"},
	"long title":            {func(s *describe.Server) { s.Title = strings.Repeat("é", 101) }, "Title"},
	"blank title":           {func(s *describe.Server) { s.Title = " " }, "Title"},
	"no description":        {func(s *describe.Server) { s.Description = "" }, "Description"},
	"long description":      {func(s *describe.Server) { s.Description = strings.Repeat("a", 101) }, "Description"},
	"invalid UTF-8":         {func(s *describe.Server) { s.Description = "\xff" }, "Description"},
	"no version":            {func(s *describe.Server) { s.Version = "" }, "Version"},
	"website with http":     {func(s *describe.Server) { s.Website = "http://example.com" }, "Website"},
	"website with password": {func(s *describe.Server) { s.Website = "https://a:b@example.com" }, "Website"},
	"website with quote":    {func(s *describe.Server) { s.Website = `https://example.com/"` }, "Website"},
	"icon with http":        {func(s *describe.Server) { s.Icons[0].Src = "http://example.com/i.png" }, "Icons[0].Src"},
	"icon theme":            {func(s *describe.Server) { s.Icons[0].Theme = "blue" }, "Icons[0].Theme"},
	"too many icons":        {func(s *describe.Server) { s.Icons = repeat(s.Icons[0], 101) }, "Icons"},
	"no source":             {func(s *describe.Server) { s.Repository.Source = "" }, "Repository.Source"},
	"folder above":          {func(s *describe.Server) { s.Repository.Subfolder = "../calc" }, "Repository.Subfolder"},
	"absolute folder":       {func(s *describe.Server) { s.Repository.Subfolder = "/calc" }, "Repository.Subfolder"},
	"stdio remote":          {func(s *describe.Server) { s.Remotes[1].Transport = "stdio" }, "Remotes[1].Transport"},
	"remote with http":      {func(s *describe.Server) { s.Remotes[1].URL = "http://example.com/sse" }, "Remotes[1].URL"},
	"remote with fragment":  {func(s *describe.Server) { s.Remotes[1].URL = "https://example.com/#a" }, "Remotes[1].URL"},
	"remote with password":  {func(s *describe.Server) { s.Remotes[1].URL = "https://a:b@example.com/" }, "Remotes[1].URL"},
	"unknown variable":      {func(s *describe.Server) { s.Remotes[1].URL = "https://example.com/{x}" }, "Remotes[1].URL"},
	"too many remotes":      {func(s *describe.Server) { s.Remotes = repeat(s.Remotes[1], 101) }, "Remotes"},
	"version of protocol":   {func(s *describe.Server) { s.Remotes[1].Versions = []mcp.Version{"1.0"} }, "Remotes[1].Versions"},
	"header name":           {func(s *describe.Server) { s.Remotes[0].Headers[0].Name = "a b" }, "Remotes[0].Headers[0].Name"},
	"repeated header": {func(s *describe.Server) {
		s.Remotes[0].Headers = append(s.Remotes[0].Headers, describe.NamedInput{Name: "authorization"})
	}, "Remotes[0].Headers[1].Name"},
	"too many headers": {func(s *describe.Server) {
		s.Remotes[0].Headers = nil
		for i := range 101 {
			s.Remotes[0].Headers = append(s.Remotes[0].Headers, describe.NamedInput{Name: fmt.Sprintf("h%d", i)})
		}
	}, "Remotes[0].Headers"},
	"published secret":  {func(s *describe.Server) { s.Remotes[0].Headers[0].Value = "Bearer abc" }, "Remotes[0].Headers[0].Value"},
	"secret in braces":  {func(s *describe.Server) { s.Remotes[0].Headers[0].Value = "Bearer {abc}" }, "Remotes[0].Headers[0].Value"},
	"default of secret": {func(s *describe.Server) { s.Remotes[0].Headers[0].Default = "abc" }, "Remotes[0].Headers[0]"},
	"format": {func(s *describe.Server) {
		s.Remotes[0].Variables["tenant"] = describe.Input{Format: "date"}
	}, `Remotes[0].Variables["tenant"].Format`},
	"default is no choice": {func(s *describe.Server) {
		s.Remotes[0].Variables["tenant"] = describe.Input{Default: "c", Choices: []string{"a", "b"}}
	}, `Remotes[0].Variables["tenant"].Default`},
	"name of variable": {func(s *describe.Server) { s.Remotes[0].Variables["a b"] = describe.Input{} }, `Remotes[0].Variables["a b"]`},
}

func repeat[T any](v T, count int) (list []T) {
	for range count {
		list = append(list, v)
	}
	return list
}

func TestCardFaults(t *testing.T) {
	wantFaults(t, identityFaults, func(s describe.Server) error { _, err := s.Card(); return err })
}

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{
		"1.0.0": true, "v2": true, "2026.7.28": true, "1.0.0-alpha.x": true, "1.0.0+build": true, "next": true, "1.0-x86": true,
		"latest": false, "^1.2.3": false, "~1.2": false, ">=1.0.0": false, "<2": false, "=1.0.0": false, "1.x": false, "1.2.*": false,
		"1.2.X": false, "1.x.0": false, "*": false, "x": false, "1.0.0 - 2.0.0": false, "1.2 || 1.3": false, "": false, strings.Repeat("1", 256): false,
	} {
		s := full()
		s.Version = version
		if _, err := s.Card(); (err == nil) != ok {
			t.Errorf("version %q: %v", version, err)
		}
	}
}

// All faults are reported together.
func TestAllFaults(t *testing.T) {
	s := full()
	s.Name, s.Version = "calc", "latest"
	_, err := s.Card()
	wantFields(t, err, "Name", "Version")
	if e, ok := errors.AsType[*describe.FieldError](err); !ok || !strings.HasPrefix(e.Error(), "describe: Name: expected") {
		t.Errorf("got %v", err)
	}
}

func TestParseCard(t *testing.T) {
	card := func(members string) string {
		return `{"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", "name": "a.b/c", "version": "1", "description": "d"` + members + `}`
	}
	for name, test := range map[string]struct {
		text, want string
	}{
		"minimal":           {card(""), ""},
		"unknown members":   {card(`, "x": {"y": 1}, "_meta": {}`), ""},
		"http":              {card(`, "websiteUrl": "http://a.example", "remotes": [{"type": "sse", "url": "http://a.example"}]`), ""},
		"variable URL":      {card(`, "remotes": [{"type": "sse", "url": "{base}/mcp", "variables": {"base": {}}}]`), ""},
		"not JSON":          {"{", "a server card"},
		"twice":             {card(`, "name": "a.b/d"`), "duplicate"},
		"another case":      {strings.Replace(card(""), `"name"`, `"Name"`, 1), "Name"},
		"another schema":    {strings.Replace(card(""), "v1", "v2", 1), "$schema"},
		"no URL":            {card(`, "remotes": [{"type": "sse"}]`), "Remotes[0].URL"},
		"script":            {card(`, "remotes": [{"type": "sse", "url": "javascript:alert(1)"}]`), "Remotes[0].URL"},
		"control character": {card(`, "remotes": [{"type": "sse", "url": "https://a.example/\u0007"}]`), "Remotes[0].URL"},
		"too long":          {card(strings.Repeat(" ", 64<<10+1-len(card("")))), "may have 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := describe.ParseCard([]byte(test.text))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := describe.ParseCard([]byte(card(strings.Repeat(" ", 64<<10-len(card("")))))); err != nil {
		t.Errorf("a card of the maximum length: %v", err)
	}
}

func TestCatalog(t *testing.T) {
	fixed := full()
	fixed.Name, fixed.Remotes = "io.github.acme/notes", []describe.Remote{describe.NewRemote("https://acme.example:8443/notes/mcp?x=1")}
	text, err := describe.Catalog(full(), fixed)
	if err != nil {
		t.Fatal(err)
	}
	wantFile(t, "catalog.json", text)
	if _, err := describe.Catalog(fixed, fixed); err == nil || !strings.Contains(err.Error(), "two servers have the name") {
		t.Errorf("two servers of one name: %v", err)
	}
	if _, err := describe.Catalog(repeat(fixed, 101)...); err == nil || !strings.Contains(err.Error(), "may have 100 servers") {
		t.Errorf("101 servers: %v", err)
	}
	if _, err := describe.Catalog(describe.Server{}); err == nil {
		t.Error("an empty description was accepted")
	}
	empty, err := describe.Catalog()
	if err != nil || !json.Valid(empty) || !strings.Contains(string(empty), `"entries": []`) {
		t.Errorf("no servers: %s, %v", empty, err)
	}
}

func FuzzParseCard(f *testing.F) {
	for _, s := range []describe.Server{full(), {Name: "a.b/c", Version: "1", Description: "d"}} {
		card, err := s.Card()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(card)
	}
	f.Add([]byte(`{"remotes":[{"url":"{a}{b}"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := describe.ParseCard(text)
		if err != nil {
			return
		}
		card, err := s.Card()
		if err != nil {
			return // stricter for authors
		}
		again, err := describe.ParseCard(card)
		if err != nil && len(card) <= 64<<10 {
			t.Errorf("%s is written as %s, which is refused: %v", text, card, err)
		}
		if second, err2 := again.Card(); err == nil && (err2 != nil || string(second) != string(card)) {
			t.Errorf("%s is written as %s, and then as %s, %v", text, card, second, err2)
		}
	})
}
