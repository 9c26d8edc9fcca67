package resources_test

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/resources"
)

//go:embed testdata/docs
var embedded embed.FS

var denies = mcp.Guard{Name: "nobody", Check: func(context.Context, *mcp.Call) error { return errors.New("no") }}

// sampleFiles has files of all kinds.
var sampleFiles = map[string]string{
	"a.md": "a", "b.txt": "b", "sub/c.md": "c", "sub/deep/d.md": "d", "sub/deep/e.txt": "e", "other/f.md": "f", "a b.md": "space", "ä.md": "umlaut",
	"100%.md": "percent", "what?.md": "question", "x#y.md": "hash", "a+b&c=d;e.md": "delimiters", "%2e%2e.md": "encoded dots", "..c.md": "no parent",
	".hidden.md": "hidden", ".git/config": "hidden", ".git/x.md": "hidden", "sub/.env": "hidden", "sub/.cache/g.md": "hidden", "sub/deep/.h/i/j.md": "hidden",
	"link.md -> a.md": "", "linked -> sub": "", "out.md -> ../secret": "", "up -> ..": "", "absolute.md -> OUTSIDE/secret": "", "hidden.md -> .hidden.md": "",
	"dangling.md -> nowhere": "", "sub/back -> ..": "", "evil -> ../root_evil": "", "sub/hid -> ../.git": "",
}

func TestDirectoryList(t *testing.T) {
	root := open(t, sampleFiles)
	os.Mkdir(filepath.Join(root.Name(), "empty"), 0o777)
	makeFIFO(t, root, "fifo.md")
	plain := []string{"%2e%2e.md", "..c.md", "100%.md", "a b.md", "a+b&c=d;e.md", "a.md", "b.txt", "what?.md", "x#y.md", "ä.md"}
	visible := slices.DeleteFunc(slices.Clone(plain), resources.IsHidden)
	for _, c := range []struct {
		opts resources.DirectoryOptions
		want []string
	}{
		{resources.DirectoryOptions{}, visible},
		{resources.DirectoryOptions{Pattern: "*.txt"}, []string{"b.txt"}},
		{resources.DirectoryOptions{Pattern: "sub/*"}, []string{"sub/c.md"}},
		{resources.DirectoryOptions{Pattern: "sub/**"}, []string{"sub/c.md", "sub/deep/d.md", "sub/deep/e.txt"}},
		{resources.DirectoryOptions{Pattern: "**/*.txt"}, []string{"b.txt", "sub/deep/e.txt"}},
		{resources.DirectoryOptions{Pattern: "*/*.md"}, []string{"other/f.md", "sub/c.md"}},
		{resources.DirectoryOptions{Pattern: "**/d*"}, []string{"sub/deep/d.md"}},
		{resources.DirectoryOptions{Pattern: "nothing"}, nil},
		{resources.DirectoryOptions{Pattern: ".git/*"}, nil},
		{resources.DirectoryOptions{Pattern: ".*"}, nil},
		{resources.DirectoryOptions{Pattern: "linked/*"}, nil},
		{resources.DirectoryOptions{Pattern: "up/**"}, nil},
		{resources.DirectoryOptions{Pattern: "[.][.]/*", Hidden: true}, nil},
		{resources.DirectoryOptions{Pattern: ".git/*", Hidden: true}, []string{".git/config", ".git/x.md"}},
		{resources.DirectoryOptions{Pattern: "sub/**", Hidden: true}, []string{"sub/.cache/g.md", "sub/.env", "sub/c.md", "sub/deep/.h/i/j.md", "sub/deep/d.md", "sub/deep/e.txt"}},
		{resources.DirectoryOptions{Pattern: ".*", Hidden: true}, []string{"..c.md", ".hidden.md"}},
	} {
		got := list(t, serve(t, directory(t, root, &c.opts)...), "file:///")
		if !slices.Equal(got, c.want) {
			t.Errorf("%q, hidden %t: %q, want %q", c.opts.Pattern, c.opts.Hidden, got, c.want)
		}
	}
}

// Exactly the listed files can be read.
func TestDirectoryReadsListed(t *testing.T) {
	root := open(t, sampleFiles)
	for _, opts := range []resources.DirectoryOptions{
		{}, {Pattern: "**"}, {Pattern: "*.md"}, {Pattern: "**/*.md"}, {Pattern: "sub/**"}, {Pattern: "**", Hidden: true}, {Pattern: "*/*", Hidden: true},
	} {
		session := serve(t, directory(t, root, &opts)...)
		listed := list(t, session, "file:///")
		for name, content := range sampleFiles {
			name, _, isLink := strings.Cut(name, " -> ")
			uri := resources.URIOf("file:///", name)
			if !slices.Contains(listed, name) || isLink {
				wantNotFound(t, session, uri)
			} else if got := text(t, session, uri); got != content {
				t.Errorf("%s content %q, want %q", uri, got, content)
			}
		}
		if len(listed) == 0 {
			t.Error("nothing is listed")
		}
	}
}

// escapingPaths returns ends of URIs that must not be found.
func escapingPaths() []string {
	ways := []string{
		"../secret", "..%2fsecret", "..%2Fsecret", "%2e%2e/secret", "%2e%2e%2fsecret", "%2E%2E%2Fsecret", ".%2e/secret", "sub/../../secret", "sub/../a.md",
		"./a.md", "sub/./c.md", "sub//c.md", "/a.md", "//a.md", "%2fetc%2fpasswd", "/etc/passwd", "%2Fa.md", "..", ".", "%2e", "%2e%2e", "sub/..", "sub/%2e%2e/a.md",
		"a.md/", "a.md/..", "sub", "sub/", "sub/deep", "%00", "a.md%00", "a.md%00.txt", "%00/../secret", "..\\secret", "..%5csecret", "sub\\c.md", "sub%5Cc.md",
		"C:%5Csecret", "C:/secret", "%5C%5Chost%5Cshare", "//host/share/a", "a.md::$DATA", "NUL", "COM1", "%252e%252e/secret", "%c0%ae%c0%ae/secret", "%ff",
		"..%c0%afsecret", "%e0%80%ae%e0%80%ae/secret", "../root_evil/a", "..%2Froot_evil%2Fa", "../root/a.md", "evil/a", "link.md", "linked/c.md", "out.md", "up/secret",
		"up/root/a.md", "absolute.md", "hidden.md", "sub/back/a.md", "sub/hid/config", ".hidden.md", ".git/config", "sub/.env", "%2egit/config", ".git%2fconfig",
		"sub/.cache/g.md", "nowhere", strings.Repeat("a/", 100) + "a", strings.Repeat("a", 300), strings.Repeat("../", 50) + "etc/passwd", "fifo.md",
	}
	return ways
}

func TestReadOutside(t *testing.T) {
	root := open(t, sampleFiles)
	makeFIFO(t, root, "fifo.md")
	fsys := os.DirFS(root.Name())
	for name, entries := range map[string][]*server.Entry{
		"Directory": directory(t, root, &resources.DirectoryOptions{Pattern: "**"}),
		"FS":        fileSystem(t, fsys, &resources.DirectoryOptions{Pattern: "**"}),
	} {
		t.Run(name, func(t *testing.T) {
			session := serve(t, entries...)
			for _, way := range escapingPaths() {
				wantNotFound(t, session, "file:///"+way)
			}
		})
	}
}

// The path in a URI is decoded exactly once.
func TestPathDecoding(t *testing.T) {
	root := open(t, sampleFiles)
	session := serve(t, directory(t, root, &resources.DirectoryOptions{Resource: server.Resource{URI: "docs://Shelf"}, Pattern: "**"})...)
	for path, want := range map[string]string{
		"a%20b.md": "space", "%C3%A4.md": "umlaut", "ä.md": "umlaut", "%c3%a4.md": "umlaut", "%61.md": "a", "sub%2Fc.md": "c", "sub/%63.md": "c",
		"what%3F.md": "question", "x%23y.md": "hash", "100%25.md": "percent", "a+b&c=d;e.md": "delimiters", "a%2Bb%26c%3Dd%3Be.md": "delimiters",
		"%252e%252e.md": "encoded dots", "a.md?version=2": "a", "a.md#part": "a",
	} {
		if got := text(t, session, "docs://Shelf/"+path); got != want {
			t.Errorf("%s content %q, want %q", path, got, want)
		}
	}
	if got := text(t, session, "DOCS://shelf/a.md"); got != "a" { // scheme and host have no case
		t.Errorf("content %q", got)
	}
	if got := list(t, session, "docs://Shelf"); !slices.Contains(got, "sub/c.md") {
		t.Errorf("listing %q", got)
	}
}

func TestDirectoryDescription(t *testing.T) {
	root := open(t, sampleFiles)
	describe := func(opts *resources.DirectoryOptions) string {
		session := serve(t, directory(t, root, opts)...)
		var all []string
		for resource, err := range session.Resources(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprintf("%s|%s|%s|%s", resource.URI, resource.Name, resource.MIMEType, resource.Description))
		}
		for template, err := range session.Templates(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprintf("%s|%s|%s|%s", template.URITemplate, template.Name, template.MIMEType, template.Description))
		}
		return strings.Join(all, "\n")
	}
	for want, opts := range map[string]*resources.DirectoryOptions{
		"file:///|files|application/json|The paths of the files, as a JSON array. Read a file at file:///{+path}.\n" +
			"file:///{+path}|file||A file listed by file:///, by its path.": nil,
		"docs://a/b/|docs|application/json|Papers\ndocs://a/b/{+path}|docs||A file listed by docs://a/b/, by its path.": {Resource: server.Resource{URI: "docs://a/b/", Name: "docs", Description: "Papers"}},
		"docs:|files|application/json|The paths of the files, as a JSON array.":                                         {Resource: server.Resource{URI: "docs:"}, ListOnly: true},
	} {
		if got := describe(opts); got != want {
			t.Errorf("description\n%s\nwant\n%s", got, want)
		}
	}
}

func TestListOnly(t *testing.T) {
	root := open(t, sampleFiles)
	session := serve(t, directory(t, root, &resources.DirectoryOptions{ListOnly: true})...)
	if got := list(t, session, "file:///"); !slices.Contains(got, "a.md") {
		t.Errorf("listing %q", got)
	}
	wantNotFound(t, session, "file:///a.md")
}

func TestDirectoryLimits(t *testing.T) {
	root := open(t, map[string]string{"a.txt": "12345", "b.txt": "123456", "c.md": ""})
	for limit, ok := range map[int]bool{2: true, 1: false, 3: true, 0: true, -1: true} {
		session := serve(t, directory(t, root, &resources.DirectoryOptions{Pattern: "*.txt", MaxFiles: limit, MaxSize: 5})...)
		if !ok {
			wantFailed(t, session, "file:///", "too many files")
		} else if got := list(t, session, "file:///"); len(got) != 2 {
			t.Errorf("at most %d: %q", limit, got)
		}
		if got := text(t, session, "file:///a.txt"); got != "12345" {
			t.Errorf("content %q", got)
		}
		wantFailed(t, session, "file:///b.txt", "longer than 5 bytes")
	}
}

// Listing a huge tree fails with bounded cost.
func TestListHugeTree(t *testing.T) {
	wide := make(fstest.MapFS)
	for i := range 30_000 {
		wide[fmt.Sprintf("%d.txt", i)] = &fstest.MapFile{}
	}
	wantFailed(t, serve(t, fileSystem(t, wide, nil)...), "file:///", "too many files")
	if got := list(t, serve(t, fileSystem(t, wide, &resources.DirectoryOptions{Pattern: "1*7.txt"})...), "file:///"); len(got) != 1111 {
		t.Errorf("%d files listed", len(got))
	}
	wantFailed(t, serve(t, fileSystem(t, endlessDir{}, &resources.DirectoryOptions{Pattern: "nothing"})...), "file:///", "too many entries")
	long := make(fstest.MapFS)
	name := strings.Repeat(strings.Repeat("x", 200)+"/", 60)
	for i := range 400 {
		long[fmt.Sprintf("%s%d.txt", name, i)] = &fstest.MapFile{}
	}
	wantFailed(t, serve(t, fileSystem(t, long, &resources.DirectoryOptions{Pattern: "**"})...), "file:///", "too many files")
	deep := fstest.MapFS{
		strings.Repeat("x/", resources.MaxDepth-1) + "in":   {},
		strings.Repeat("x/", resources.MaxDepth) + "beyond": {},
	}
	session := serve(t, fileSystem(t, deep, &resources.DirectoryOptions{Pattern: "**"})...)
	if got := list(t, session, "file:///"); len(got) != 1 || !strings.HasSuffix(got[0], "/in") {
		t.Errorf("listing %q", got)
	}
}

// An endlessDir is a directory with infinitely many entries.
type endlessDir struct{}

func (endlessDir) Open(string) (fs.File, error) { return endlessDir{}, nil }
func (endlessDir) Stat() (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: filepath.Join(os.TempDir(), "a"), Err: fs.ErrInvalid}
}

func (endlessDir) Read([]byte) (int, error) { return 0, fs.ErrInvalid }
func (endlessDir) Close() error             { return nil }
func (endlessDir) ReadDir(n int) (all []fs.DirEntry, _ error) {
	info, _ := fs.Stat(fstest.MapFS{"a": {}}, "a")
	for range n {
		all = append(all, fs.FileInfoToDirEntry(info))
	}
	return all, nil
}

// Directories in which no file can match are not opened.
func TestUnmatchedDirectoriesAreNotOpened(t *testing.T) {
	opened := make(map[string]bool)
	fsys := fstest.MapFS{".git/a": {}, "sub/.cache/a": {}, "sub/deep/a": {}, "other/a": {}, `back\slash/a`: {}}
	session := serve(t, fileSystem(t, recordingFS{fsys, opened}, &resources.DirectoryOptions{Pattern: "[^o]*/**"})...)
	if got := list(t, session, "file:///"); !slices.Equal(got, []string{"sub/deep/a"}) {
		t.Errorf("listing %q", got)
	}
	if names := slices.Sorted(maps.Keys(opened)); !slices.Equal(names, []string{".", "sub", "sub/deep"}) {
		t.Errorf("opened %q", names)
	}
}

// A recordingFS records the names that are opened.
type recordingFS struct {
	fstest.MapFS
	opened map[string]bool
}

func (n recordingFS) Open(name string) (fs.File, error) {
	n.opened[name] = true
	return n.MapFS.Open(name)
}

func TestUnusualNames(t *testing.T) {
	root := open(t, map[string]string{"a": "text"})
	for _, name := range []string{"\xff.txt", `back\slash`, "caf\xe9"} {
		if err := os.WriteFile(filepath.Join(root.Name(), name), []byte("x"), 0o666); err != nil {
			t.Skipf("this file system has no such names: %v", err)
		}
	}
	session := serve(t, directory(t, root, nil)...)
	if got := list(t, session, "file:///"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("listing %q", got)
	}
	wantNotFound(t, session, "file:///back%5Cslash")
}

func TestDirectoryErrors(t *testing.T) {
	root := open(t, nil)
	for _, opts := range []resources.DirectoryOptions{
		{Pattern: "../*"}, {Pattern: "/etc/*"}, {Pattern: "a/../../*"}, {Pattern: `..\*`}, {Pattern: "["},
		{Resource: server.Resource{URI: "no scheme"}}, {Resource: server.Resource{URI: "app:x?y"}}, {Resource: server.Resource{URI: "app:x#y"}},
		{Resource: server.Resource{URI: "app:{x}"}}, {Resource: server.Resource{URI: "app:a b"}},
	} {
		if _, err := resources.Directory(root, &opts); err == nil {
			t.Errorf("%+v is accepted", opts)
		}
	}
	if _, err := resources.Directory(nil, nil); err == nil {
		t.Error("no root is taken")
	}
	if _, err := resources.FS(nil, nil); err == nil {
		t.Error("no file system is taken")
	}
}

// Guards and middleware of the listing apply to the files.
func TestDirectoryGuards(t *testing.T) {
	root := open(t, sampleFiles)
	opts := &resources.DirectoryOptions{Resource: server.Resource{Guards: []mcp.Guard{denies}}}
	session := serve(t, directory(t, root, opts)...)
	wantFailed(t, session, "file:///", "denied")
	wantFailed(t, session, "file:///a.md", "denied")
}

func TestTwoDirectories(t *testing.T) {
	one, two := open(t, map[string]string{"a": "one"}), open(t, map[string]string{"a": "two"})
	session := serve(t, append(
		directory(t, one, &resources.DirectoryOptions{Resource: server.Resource{URI: "app:one"}}),
		directory(t, two, &resources.DirectoryOptions{Resource: server.Resource{URI: "app:two"}})...)...)
	for uri, want := range map[string]string{"app:one/a": "one", "app:two/a": "two"} {
		if got := text(t, session, uri); got != want {
			t.Errorf("%s content %q", uri, got)
		}
	}
}

func TestFS(t *testing.T) {
	docs, err := fs.Sub(embedded, "testdata/docs")
	if err != nil {
		t.Fatal(err)
	}
	opts := &resources.DirectoryOptions{Pattern: "**"}
	for name, fsys := range map[string]fs.FS{
		"embedded": docs,
		"map":      fstest.MapFS{"guide.md": {Data: []byte("# Guide\n")}, "api/index.json": {Data: []byte("{}\n")}, "device": {Mode: fs.ModeDevice}, "link": {Data: []byte("guide.md"), Mode: fs.ModeSymlink}},
	} {
		session := serve(t, fileSystem(t, fsys, opts)...)
		if got := list(t, session, "file:///"); !slices.Equal(got, []string{"api/index.json", "guide.md"}) {
			t.Errorf("%s lists %q", name, got)
		}
		if got := text(t, session, "file:///guide.md"); got != "# Guide\n" {
			t.Errorf("%s: the guide is %q", name, got)
		}
		for _, file := range []string{"device", "link", "api", "api/none", "guide.md/x"} {
			wantNotFound(t, session, "file:///"+file)
		}
	}
	// Errors of a file system are reported.
	session := serve(t, fileSystem(t, endlessDir{}, nil)...)
	wantFailed(t, session, "file:///a", "cannot be read")
	wantNotFound(t, serve(t, fileSystem(t, filesOnly{docs}, nil)...), "file:///")
}

// filesOnly is a file system that cannot list directories.
type filesOnly struct{ fsys fs.FS }

func (f filesOnly) Open(name string) (fs.File, error) {
	file, err := f.fsys.Open(name)
	return struct{ fs.File }{file}, err
}

func fileSystem(t testing.TB, fsys fs.FS, opts *resources.DirectoryOptions) []*server.Entry {
	t.Helper()
	entries, err := resources.FS(fsys, opts)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// FuzzRead reads arbitrary URIs. Only listed files must be found.
func FuzzRead(f *testing.F) {
	root := open(f, sampleFiles)
	entries := directory(f, root, &resources.DirectoryOptions{Pattern: "**"})
	s, contents := serve(f, entries...), make(map[string]bool)
	for _, name := range list(f, s, "file:///") {
		contents[sampleFiles[name]] = true
		f.Add(name)
	}
	for _, way := range escapingPaths() {
		f.Add(way)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got, err := read(s, "file:///"+path)
		if err != nil {
			return
		}
		file, ok := got.(*mcp.TextResourceContents)
		if !ok || !contents[file.Text] && file.URI != "file:///" {
			t.Fatalf("%q holds %+v", path, got)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	root := open(b, map[string]string{"doc.md": strings.Repeat("x", 4<<10), "a/b/c/doc.md": strings.Repeat("x", 4<<10)})
	session := serve(b, append(directory(b, root, &resources.DirectoryOptions{Pattern: "**"}), file(b, root, "doc.md", &resources.FileOptions{}))...)
	for name, uri := range map[string]string{"single": "file:///doc.md", "deep": "file:///a/b/c/doc.md"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := read(session, uri); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	files := make(map[string]string)
	for i := range 1000 {
		files[fmt.Sprintf("%d/%d/%d.md", i/100, i/10%10, i)] = ""
	}
	session := serve(b, directory(b, open(b, files), &resources.DirectoryOptions{Pattern: "**/*.md"})...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := read(session, "file:///"); err != nil {
			b.Fatal(err)
		}
	}
}
