package resources_test

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/resources"
)

func TestFileContent(t *testing.T) {
	const invalid = "caf\xe9"
	files := map[string]struct{ content, mimeType string }{
		"a.txt": {"text", "text/plain"}, "a.json": {`{"a":1}`, "application/json"}, "a.svg": {"<svg/>", "image/svg+xml"}, "a.yaml": {"a: 1", "application/yaml"},
		"a.toml": {"a = 1", "application/toml"}, "a.js": {"a", "text/javascript"}, "a.go": {"package a", "text/x-go"}, "README": {"read me", "text/plain"},
		"empty": {"", "text/plain"}, "UPPER.TXT": {"ü", "text/plain"}, "bom.csv": {"\ufeffa,b", "text/csv"},
	}
	blobs := map[string]struct{ content, mimeType string }{
		"a.png": {"text", "image/png"}, "a.bin": {"a\x00b", "application/octet-stream"}, "latin1.txt": {invalid, "text/plain"}, "latin1.json": {invalid, "application/json"},
		"latin1": {invalid, "application/octet-stream"}, "utf16.xml": {"\xff\xfe<\x00", "application/xml"},
	}
	all := make(map[string]string)
	for name, f := range files {
		all[name] = f.content
	}
	for name, f := range blobs {
		all[name] = f.content
	}
	root := open(t, all)
	var entries []*server.Entry
	for name := range all {
		entries = append(entries, file(t, root, name, nil))
	}
	session := serve(t, entries...)
	for name, f := range files {
		contents, err := read(session, "file:///"+name)
		got, ok := contents.(*mcp.TextResourceContents)
		if err != nil || !ok || got.Text != f.content || got.MIMEType != f.mimeType || got.URI != "file:///"+name {
			t.Errorf("%s: %+v, %v", name, contents, err)
		}
	}
	for name, f := range blobs {
		contents, err := read(session, "file:///"+name)
		got, ok := contents.(*mcp.BlobResourceContents)
		if err != nil || !ok || string(got.Blob) != f.content || got.MIMEType != f.mimeType || got.URI != "file:///"+name {
			t.Errorf("%s: %+v, %v", name, contents, err)
		}
	}
}

func TestFileDescription(t *testing.T) {
	root := open(t, map[string]string{"dir/a b{x}?.md": "text"})
	priority := 0.5
	session := serve(t,
		file(t, root, "dir/a b{x}?.md", nil),
		file(t, root, "dir/unknown", nil),
		file(t, root, "dir/a b{x}?.md", &resources.FileOptions{Resource: server.Resource{
			URI: "app:readme", Name: "readme", Title: "Read me", Description: "What to read", MIMEType: "text/x-special",
			Annotations: &mcp.Annotations{Priority: &priority},
		}}))
	var listed []string
	for resource, err := range session.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		encoded, _ := resource.MarshalJSON()
		listed = append(listed, string(encoded))
	}
	want := []string{
		`{"uri":"app:readme","name":"readme","title":"Read me","description":"What to read","mimeType":"text/x-special","annotations":{"priority":0.5}}`,
		`{"uri":"file:///dir/a%20b%7Bx%7D%3F.md","name":"a b{x}?.md","mimeType":"text/markdown"}`,
		`{"uri":"file:///dir/unknown","name":"unknown"}`,
	}
	if got := strings.Join(listed, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("listing\n%s", got)
	}
	for _, uri := range []string{"file:///dir/a%20b%7Bx%7D%3F.md", "app:readme"} {
		if got := text(t, session, uri); got != "text" {
			t.Errorf("%s content %q", uri, got)
		}
	}
}

func TestFileCurrentContent(t *testing.T) {
	root := open(t, nil)
	session := serve(t, file(t, root, "later.txt", nil))
	wantNotFound(t, session, "file:///later.txt")
	for _, content := range []string{"one", "two"} {
		if err := root.WriteFile("later.txt", []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		if got := text(t, session, "file:///later.txt"); got != content {
			t.Errorf("content %q, want %q", got, content)
		}
	}
	if err := root.Remove("later.txt"); err != nil {
		t.Fatal(err)
	}
	wantNotFound(t, session, "file:///later.txt")
}

func TestFileLimit(t *testing.T) {
	root := open(t, map[string]string{"a.txt": strings.Repeat("x", 1000)})
	session := serve(t,
		file(t, root, "a.txt", &resources.FileOptions{MaxSize: 1000}),
		file(t, root, "a.txt", &resources.FileOptions{Resource: server.Resource{URI: "app:small"}, MaxSize: 999}),
		file(t, root, "big", nil), file(t, root, "bigger", nil))
	if got := text(t, session, "file:///a.txt"); len(got) != 1000 {
		t.Errorf("%d bytes were read", len(got))
	}
	wantFailed(t, session, "app:small", "longer than 999 bytes")
	if err := root.WriteFile("big", bytes.Repeat([]byte("x"), 10<<20), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := text(t, session, "file:///big"); len(got) != 10<<20 {
		t.Errorf("%d bytes were read", len(got))
	}
	bigger, err := root.Create("bigger")
	if err != nil {
		t.Fatal(err)
	}
	bigger.Truncate(1 << 40) // with a hole in it
	bigger.Close()
	wantFailed(t, session, "file:///bigger", "longer than 10485760 bytes")
}

// Files of /proc have the size 0 and are not empty.
func TestFileWithWrongSize(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	root, err := os.OpenRoot("/proc/self")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	session := serve(t, file(t, root, "status", nil), file(t, root, "status", &resources.FileOptions{Resource: server.Resource{URI: "app:small"}, MaxSize: 10}))
	if got := text(t, session, "file:///status"); !strings.Contains(got, "Threads:") {
		t.Errorf("content %q", got)
	}
	wantFailed(t, session, "app:small", "longer than 10 bytes")
}

func TestSpecialFiles(t *testing.T) {
	root := open(t, map[string]string{"dir/a": "text"})
	entries := []*server.Entry{file(t, root, "dir", nil), file(t, root, "dir/a/b", nil)}
	names := []string{"dir", "dir/a/b"}
	if makeFIFO(t, root, "fifo") {
		names = append(names, "fifo")
		entries = append(entries, file(t, root, "fifo", nil))
	}
	session := serve(t, entries...)
	for _, name := range names {
		wantNotFound(t, session, "file:///"+name)
	}
}

func TestDevice(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no /dev")
	}
	root, err := os.OpenRoot("/dev")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	session := serve(t, append(directory(t, root, nil), file(t, root, "zero", &resources.FileOptions{Resource: server.Resource{URI: "app:zero"}}))...)
	wantNotFound(t, session, "app:zero")
	for _, name := range []string{"zero", "null", "random", "tty", "fd", "stdin"} {
		wantNotFound(t, session, "file:///"+name)
	}
}

// File follows links that stay below the root.
func TestFileLinks(t *testing.T) {
	root := open(t, map[string]string{
		"now -> data/v1": "", "data/v1/config.toml": "a = 1", "config.toml -> now/config.toml": "",
		"out -> ../secret": "", "absolute -> OUTSIDE/secret": "", "dangling -> nowhere": "", "loop -> loop": "", "up -> ..": "",
	})
	names := []string{"out", "absolute", "loop", "up/secret"}
	entries := []*server.Entry{file(t, root, "config.toml", nil), file(t, root, "dangling", nil)}
	for _, name := range names {
		entries = append(entries, file(t, root, name, nil))
	}
	session := serve(t, entries...)
	if got := text(t, session, "file:///config.toml"); got != "a = 1" {
		t.Errorf("content %q", got)
	}
	wantNotFound(t, session, "file:///dangling")
	for _, name := range names {
		wantFailed(t, session, "file:///"+name, "cannot be read")
	}
}

// Braces in a URI are literal characters.
func TestFileURIWithBraces(t *testing.T) {
	root := open(t, map[string]string{"a": "text"})
	session := serve(t, file(t, root, "a", &resources.FileOptions{Resource: server.Resource{URI: "app:{x}"}}))
	if got := text(t, session, "app:{x}"); got != "text" {
		t.Errorf("content %q", got)
	}
	wantNotFound(t, session, "app:a")
	for template := range session.Templates(t.Context(), nil) {
		t.Errorf("unexpected template %s", template.URITemplate)
	}
}

func TestFileReadErrors(t *testing.T) {
	root := open(t, map[string]string{"a": "text"})
	session := serve(t, file(t, root, "a", nil))
	if err := root.Chmod("a", 0); err != nil {
		t.Fatal(err)
	}
	if f, err := root.Open("a"); err == nil {
		f.Close() // as root, nothing is denied; a closed root denies all
		root.Close()
	}
	wantFailed(t, session, "file:///a", "cannot be read")
}

func TestFileErrors(t *testing.T) {
	root := open(t, nil)
	for _, name := range invalidNames {
		if _, err := resources.File(root, name, nil); err == nil {
			t.Errorf("the file name %.80q is accepted", name)
		}
	}
	if _, err := resources.File(nil, "a", nil); err == nil {
		t.Error("a file of no root is offered")
	}
	if _, err := resources.File(root, "a", &resources.FileOptions{Resource: server.Resource{URI: "no scheme"}}); err == nil {
		t.Error("an invalid URI is accepted")
	}
}

// Guards and middleware apply to files.
func TestFileGuards(t *testing.T) {
	root := open(t, map[string]string{"a": "text"})
	opts := &resources.FileOptions{Resource: server.Resource{Guards: []mcp.Guard{denies}}}
	session, _ := serveTo(t, &client.Options{}, file(t, root, "a", opts))
	wantFailed(t, session, "file:///a", "denied")
}
