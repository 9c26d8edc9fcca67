package describe_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/server/describe"
)

const png = "\x89PNG\r\n\x1a\n"

// fullBundle returns a bundle that uses every field.
func fullBundle() *describe.Bundle {
	low, high := 1.0, 9.0
	return &describe.Bundle{
		Files: fstest.MapFS{
			"calc-linux": {Data: []byte("a program"), Mode: 0o600, ModTime: time.Now()}, "calc.exe": {Data: []byte("another")},
			"calc-darwin": {Data: []byte("a third")}, "icon.png": {Data: []byte(png)}, "text": {Data: []byte("text")},
			"empty": {}, "folder/a": {Data: []byte("a")},
		},
		Programs: map[string]string{"linux": "calc-linux", "windows": "calc.exe", "darwin": "calc-darwin"},
		Icon:     "icon.png", LongDescription: "**Adds** numbers.",
		Documentation: "https://example.com/docs", Support: "https://example.com/help",
		PrivacyPolicies: []string{"https://example.com/privacy"}, Keywords: []string{"math"},
		Args:        []string{"-root", "${user_config.folders}", "-state", "${HOME}/calc"},
		Environment: map[string]string{"CALC_TOKEN": "${user_config.token}", "CALC_DIGITS": "${user_config.digits}"},
		Settings: map[string]describe.Setting{
			"token":   {Type: "string", Title: "Token", Description: "An API token.", Required: true, Sensitive: true},
			"digits":  {Type: "number", Title: "Digits", Description: "How many.", Default: 3, Min: &low, Max: &high},
			"folders": {Type: "directory", Title: "Folders", Description: "Where.", Multiple: true, Default: []string{"${HOME}"}},
			"exact":   {Type: "boolean", Title: "Exact", Description: "Whether.", Default: false},
		},
	}
}

func writeBundle(t *testing.T, s describe.Server, b *describe.Bundle) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := s.WriteBundle(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBundle(t *testing.T) {
	text := writeBundle(t, full(), fullBundle())
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range archive.File {
		content, err := fs.ReadFile(archive, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name == "manifest.json" {
			wantFile(t, "manifest.json", content)
			content = nil
		}
		got = append(got, f.Mode().String()+" "+f.Modified.UTC().Format(time.DateOnly)+" "+f.Name+" "+string(content))
	}
	want := []string{
		"-rw-r--r-- 2000-01-01 icon.png " + png,
		"-rw-r--r-- 2000-01-01 manifest.json ",
		"-rwxr-xr-x 2000-01-01 server/darwin/calc a third",
		"-rwxr-xr-x 2000-01-01 server/linux/calc a program",
		"-rwxr-xr-x 2000-01-01 server/win32/calc.exe another",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	later := fullBundle()
	later.Files.(fstest.MapFS)["calc-linux"].ModTime = time.Now().Add(time.Hour)
	if !bytes.Equal(text, writeBundle(t, full(), later)) {
		t.Error("the same description gives other bytes")
	}
}

// One program needs no overrides, and prompts without a text are not listed.
func TestBundleOfOneProgram(t *testing.T) {
	s := describe.Of(newServer(nil))
	s.Author.Name = "Example"
	text := writeBundle(t, s, &describe.Bundle{
		Files: fstest.MapFS{"calc": {Data: []byte("a program")}}, Programs: map[string]string{"linux": "calc"},
	})
	archive, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := fs.ReadFile(archive, "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(manifest, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"manifest_version": "0.3", "name": "calc", "display_name": "Calculator", "version": "1.2.0", "description": "Adds numbers.",
		"author": map[string]any{"name": "Example"}, "homepage": "https://example.com",
		"server": map[string]any{
			"type": "binary", "entry_point": "server/linux/calc", "mcp_config": map[string]any{"command": "${__dirname}/server/linux/calc"},
		},
		"tools":           []any{map[string]any{"name": "add", "description": "Add two integers."}},
		"tools_generated": true, "prompts_generated": true,
		"compatibility": map[string]any{"platforms": []any{"linux"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBundleFaults(t *testing.T) {
	wantFaults(t, map[string]fault{
		"no name":           {func(s *describe.Server) { s.Name = "calc" }, "Name"},
		"name with dots":    {func(s *describe.Server) { s.Name = "com.example/.." }, "Name"},
		"version":           {func(s *describe.Server) { s.Version = "1.2" }, "Version"},
		"no author":         {func(s *describe.Server) { s.Author.Name = "" }, "Author.Name"},
		"author's address":  {func(s *describe.Server) { s.Author.Email = "example" }, "Author.Email"},
		"author's URL":      {func(s *describe.Server) { s.Author.URL = "example" }, "Author.URL"},
		"tool without name": {func(s *describe.Server) { s.Tools[1].Name = "" }, "Tools[1].Name"},
		"too many tools":    {func(s *describe.Server) { s.Tools = repeat(s.Tools[0], 1001) }, "Tools"},
		"too many prompts":  {func(s *describe.Server) { s.Prompts = repeat(s.Prompts[0], 1001) }, "Prompts"},
	}, func(s describe.Server) error { return s.WriteBundle(io.Discard, fullBundle()) })

	for name, test := range map[string]struct {
		change func(b *describe.Bundle)
		field  string
	}{
		"no files":         {func(b *describe.Bundle) { b.Files = nil }, "Bundle.Files"},
		"no programs":      {func(b *describe.Bundle) { b.Programs = nil }, "Bundle.Programs"},
		"operating system": {func(b *describe.Bundle) { b.Programs["plan9"] = "text" }, "Bundle.Programs"},
		"path of program":  {func(b *describe.Bundle) { b.Programs["linux"] = "../a" }, "Bundle.Programs[linux]"},
		"path of icon":     {func(b *describe.Bundle) { b.Icon = "/icon.png" }, "Bundle.Icon"},
		"documentation":    {func(b *describe.Bundle) { b.Documentation = "http://example.com" }, "Bundle.Documentation"},
		"support":          {func(b *describe.Bundle) { b.Support = "a" }, "Bundle.Support"},
		"privacy policy":   {func(b *describe.Bundle) { b.PrivacyPolicies[0] = "" }, "Bundle.PrivacyPolicies"},
		"unknown setting":  {func(b *describe.Bundle) { b.Args[1] = "${user_config.x}" }, "Bundle.Args"},
		"unknown variable": {func(b *describe.Bundle) { b.Environment["A"] = "${SECRET}" }, "Bundle.Environment[A]"},
		"environment name": {func(b *describe.Bundle) { b.Environment["A="] = "" }, "Bundle.Environment"},
		"too many args":    {func(b *describe.Bundle) { b.Args = repeat("a", 101) }, "Bundle.Args"},
		"type of setting": {func(b *describe.Bundle) {
			set(b, "exact", func(s *describe.Setting) { s.Type = "bool"; s.Default = nil })
		}, "Bundle.Settings[exact].Type"},
		"no title":         {func(b *describe.Bundle) { set(b, "exact", func(s *describe.Setting) { s.Title = "" }) }, "Bundle.Settings[exact]"},
		"bounds of string": {func(b *describe.Bundle) { set(b, "token", func(s *describe.Setting) { s.Min = new(float64) }) }, "Bundle.Settings[token]"},
		"multiple strings": {func(b *describe.Bundle) { set(b, "token", func(s *describe.Setting) { s.Multiple = true }) }, "Bundle.Settings[token].Multiple"},
		"published secret": {func(b *describe.Bundle) { set(b, "token", func(s *describe.Setting) { s.Default = "abc" }) }, "Bundle.Settings[token].Default"},
		"sensitive number": {func(b *describe.Bundle) {
			set(b, "digits", func(s *describe.Setting) { s.Sensitive, s.Default = true, nil })
		}, "Bundle.Settings[digits].Sensitive"},
		"default of number": {func(b *describe.Bundle) { set(b, "digits", func(s *describe.Setting) { s.Default = "3" }) }, "Bundle.Settings[digits].Default"},
		"default of list":   {func(b *describe.Bundle) { set(b, "folders", func(s *describe.Setting) { s.Default = []int{1} }) }, "Bundle.Settings[folders].Default"},
		"default without JSON": {func(b *describe.Bundle) {
			set(b, "exact", func(s *describe.Setting) { s.Default = func() {} })
		}, "Bundle.Settings[exact].Default"},
		"key": {func(b *describe.Bundle) { b.Settings["a b"] = b.Settings["exact"] }, "Bundle.Settings[a b]"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fullBundle()
			test.change(b)
			var out bytes.Buffer
			wantFields(t, full().WriteBundle(&out, b), test.field)
			if out.Len() != 0 {
				t.Error("something was written")
			}
		})
	}
}

func set(b *describe.Bundle, key string, change func(s *describe.Setting)) {
	setting := b.Settings[key]
	change(&setting)
	b.Settings[key] = setting
}

func TestBundleFiles(t *testing.T) {
	dir := t.TempDir()
	large := func(name string, size int64) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(png), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
			t.Fatal(err)
		}
	}
	large("program", 256<<20+1) // a sparse file
	large("icon", 1<<20+1)
	for name, test := range map[string]struct {
		change func(b *describe.Bundle)
		want   string
	}{
		"missing program": {func(b *describe.Bundle) { b.Programs["linux"] = "absent" }, "does not exist"},
		"empty program":   {func(b *describe.Bundle) { b.Programs["linux"] = "empty" }, "empty has 0 bytes; expected 1 to 268435456"},
		"folder":          {func(b *describe.Bundle) { b.Programs["linux"] = "folder" }, "folder is not a regular file"},
		"missing icon":    {func(b *describe.Bundle) { b.Icon = "absent" }, "does not exist"},
		"icon of text":    {func(b *describe.Bundle) { b.Icon = "text" }, "text is not a PNG image"},
		"large program": {func(b *describe.Bundle) {
			b.Files, b.Icon, b.Programs = os.DirFS(dir), "", map[string]string{"linux": "program"}
		}, "program has 268435457 bytes"},
		"large icon": {func(b *describe.Bundle) { b.Files, b.Icon = os.DirFS(dir), "icon" }, "icon has 1048577 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fullBundle()
			test.change(b)
			var out bytes.Buffer
			if err := full().WriteBundle(&out, b); err == nil || !strings.Contains(err.Error(), test.want) || out.Len() != 0 {
				t.Errorf("got %v after %d bytes, want %q", err, out.Len(), test.want)
			}
		})
	}
}

// growing is a file system whose files are longer when they are read.
type growing struct{ fstest.MapFS }

func (g growing) Open(name string) (fs.File, error) {
	g.MapFS = fstest.MapFS{name: {Data: slices.Concat(g.MapFS[name].Data, []byte("more"))}}
	return g.MapFS.Open(name)
}

func (g growing) Stat(name string) (fs.FileInfo, error) { return g.MapFS.Stat(name) }

// A failed write, and a file that changes while it is written, are errors.
func TestBundleIsIncomplete(t *testing.T) {
	b := fullBundle()
	b.Files, b.Icon = growing{b.Files.(fstest.MapFS)}, ""
	if err := full().WriteBundle(io.Discard, b); err == nil || !strings.Contains(err.Error(), "server/darwin/calc: its size has changed") {
		t.Errorf("a file that grows: %v", err)
	}
	failed := errors.New("the disk is full")
	if err := full().WriteBundle(failingWriter{failed}, fullBundle()); !errors.Is(err, failed) {
		t.Errorf("a full disk: %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
