//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A browserRig has the files of a browser.
type browserRig struct {
	*browserFiles
	t *testing.T
}

func newBrowserRig(t *testing.T) browserRig {
	t.Helper()
	return browserRig{started(t, testOptions(t)).browser.files, t}
}

// inBrowser returns the path of a file of the browser.
func (r browserRig) inBrowser(name string) string { return filepath.Join(r.dir, name) }

// inWorkspace returns the path of a file of the workspace.
func (r browserRig) inWorkspace(name string) string { return filepath.Join(r.workspace.Dir(), name) }

// result returns the text of a result of the browser. OUT in the browser's text is its folder.
func (r browserRig) result(text string) string {
	result := &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(strings.ReplaceAll(text, "OUT", r.dir))}}
	r.copyNamed(r.t.Context(), result)
	return result.Text()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A browserUser is a client of a sandbox with the server of playwright.
type browserUser struct {
	browserRig
	*user
	server *server.Server
}

func newBrowserUser(t *testing.T) browserUser {
	t.Helper()
	t.Setenv(asBrowser, "1")
	o := testOptions(t)
	o.browser, o.chromium, o.pass = os.Args[0], os.Args[0], o.pass+","+asBrowser
	s := started(t, o)
	return browserUser{browserRig{s.browser.files, t}, newUser(t, s), s.server}
}

// result is that of browserRig, of a call.
func (u browserUser) result(text string) string {
	u.user.t.Helper()
	encoded, err := json.Marshal(strings.ReplaceAll(text, "OUT", u.dir))
	if err != nil {
		u.user.t.Fatal(err)
	}
	return u.call("browser_evaluate", fmt.Sprintf(`{"function":%s}`, encoded))
}

// The tools for files read what the result of a browser's tool names.
func TestBrowserFilesAreInTheWorkspace(t *testing.T) {
	r := newBrowserUser(t)
	for _, c := range []struct{ file, text, want string }{
		{"page.yml", "### Snapshot\n- [Snapshot](OUT/page.yml)", "### Snapshot\n- [Snapshot](.browser/page.yml)"},
		{"a/b (1).yml", "[Snapshot](OUT/a/b (1).yml) and more", "[Snapshot](.browser/a/b (1).yml) and more"},
		{"console.log", "- New console entries: OUT/console.log#L3-L5", "- New console entries: .browser/console.log#L3-L5"},
		{`say "hi" #1.txt`, `- Downloaded file x to "OUT/say "hi" #1.txt"`, `- Downloaded file x to ".browser/say "hi" #1.txt"`},
		{"page.yml", "OUT/page.yml\nOUT/page.yml", ".browser/page.yml\n.browser/page.yml"},
		{"grüße.yml", "(OUT/grüße.yml)", "(.browser/grüße.yml)"},
	} {
		write(t, r.inBrowser(c.file), "- heading")
		if got := r.result(c.text); got != c.want {
			t.Errorf("%s: %s, want %s", c.file, got, c.want)
		}
		path, err := json.Marshal(browserFolder + "/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.call("read_file", fmt.Sprintf(`{"path":%s,"raw":true}`, path)); got != "- heading" {
			t.Errorf("%s: %s", c.file, got)
		}
		write(t, r.inBrowser(c.file), "- another")
		if got := r.result(c.text); got != c.want {
			t.Errorf("%s again: %s, want %s", c.file, got, c.want)
		}
		if got := r.call("read_file", fmt.Sprintf(`{"path":%s,"raw":true}`, path)); got != "- another" {
			t.Errorf("%s again: %s", c.file, got)
		}
	}
}

// A result without names of files is the browser's. So is one whose names are of no files, but for the folder.
func TestResultsWithoutFilesOfTheBrowser(t *testing.T) {
	r := newBrowserUser(t)
	for text, want := range map[string]string{
		"### Result\n42":  "### Result\n42",
		"[x](page.yml)":   "[x](page.yml)",
		"[x](OUT/no.yml)": "[x](.browser/no.yml)",
		"denied: OUT/../settings.json is outside of OUT, OUT": "denied: .browser/../settings.json is outside of .browser, .browser",
		"OUT/" + strings.Repeat(")", 100_000):                 ".browser/" + strings.Repeat(")", 100_000),
	} {
		if got := r.result(text); got != want {
			t.Errorf("%.100s: %.300s, want %.100s", text, got, want)
		}
	}
	if _, err := os.Lstat(r.inWorkspace(browserFolder)); !os.IsNotExist(err) {
		t.Errorf("there is a folder: %v", err)
	}
}

// A copy changes nothing outside of its folder, and no file of others in it. The result of the call is kept.
func TestBrowserFilesStayInTheirFolder(t *testing.T) {
	const missing = "The browser's file "
	for name, c := range map[string]struct {
		prepare func(r browserRig, outside string)
		file    string
		want    []string
	}{
		"the folder is a link to the outside": {
			func(r browserRig, outside string) { symlink(r.t, outside, r.inWorkspace(".browser")) }, "page.yml", []string{"(page.yml)", missing},
		},
		"the folder is a link to another": {
			func(r browserRig, _ string) {
				write(r.t, r.inWorkspace("src/page.yml"), "of the user")
				symlink(r.t, "src", r.inWorkspace(".browser"))
			}, "page.yml", []string{missing, "symbolic link"},
		},
		"the folder is a link to nothing": {
			func(r browserRig, outside string) { symlink(r.t, outside+"/new", r.inWorkspace(".browser")) }, "page.yml", []string{missing},
		},
		"the folder is a file": {
			func(r browserRig, _ string) { write(r.t, r.inWorkspace(".browser"), "of the user") }, "page.yml", []string{missing},
		},
		"a folder in it is a link": {
			func(r browserRig, outside string) {
				write(r.t, r.inWorkspace(".browser/x"), "of the user")
				symlink(r.t, outside, r.inWorkspace(".browser/a"))
			}, "a/page.yml", []string{missing},
		},
		"the file is a link to the outside": {
			func(r browserRig, outside string) {
				write(r.t, r.inWorkspace(".browser/x"), "of the user")
				symlink(r.t, outside+"/secret", r.inWorkspace(".browser/page.yml"))
			}, "page.yml", []string{"(.browser/page-2.yml)"},
		},
		"the file is a link to nothing": {
			func(r browserRig, outside string) {
				write(r.t, r.inWorkspace(".browser/x"), "of the user")
				symlink(r.t, "new", r.inWorkspace(".browser/page.yml"))
			}, "page.yml", []string{missing, "symbolic link"},
		},
		"the file is a link with the name of the ignored files": {
			func(r browserRig, outside string) { symlink(r.t, outside, r.inWorkspace(".browser")) }, ".gitignore", []string{missing},
		},
		"the file is of the user": {
			func(r browserRig, _ string) { write(r.t, r.inWorkspace(".browser/page.yml"), "of the user") }, "page.yml", []string{"(.browser/page-2.yml)"},
		},
		"the file has another name": {
			func(r browserRig, outside string) {
				write(r.t, r.inWorkspace(".browser/x"), "of the user")
				if err := os.Link(outside+"/secret", r.inWorkspace(".browser/page.yml")); err != nil {
					r.t.Fatal(err)
				}
			}, "page.yml", []string{"(.browser/page-2.yml)"},
		},
		"the file is a pipe": {
			func(r browserRig, _ string) {
				write(r.t, r.inWorkspace(".browser/x"), "of the user")
				if err := syscall.Mkfifo(r.inWorkspace(".browser/page.yml"), 0o600); err != nil {
					r.t.Fatal(err)
				}
			}, "page.yml", []string{"(.browser/page-2.yml)"},
		},
		"the browser's file is a pipe": {
			func(r browserRig, _ string) {
				os.Remove(r.inBrowser("page.yml"))
				if err := syscall.Mkfifo(r.inBrowser("page.yml"), 0o600); err != nil {
					r.t.Fatal(err)
				}
			}, "page.yml", []string{missing, "not a regular file"},
		},
		"the browser's file is a link to the outside": {
			func(r browserRig, outside string) {
				os.Remove(r.inBrowser("page.yml"))
				symlink(r.t, outside+"/secret", r.inBrowser("page.yml"))
			}, "page.yml", []string{"(.browser/page.yml)"}, // which does not exist
		},
		"the browser's file is huge": {
			func(r browserRig, _ string) {
				if err := os.Truncate(r.inBrowser("page.yml"), 1<<40); err != nil {
					r.t.Fatal(err)
				}
			}, "page.yml", []string{missing, "too large"},
		},
		"the name is protected":           {nil, ".git/config", []string{missing, "protected"}},
		"the name is that of ignored":     {nil, ".gitignore", []string{"(.browser/-2.gitignore)"}},
		"the name has control characters": {nil, "a\x1b[31m.yml", []string{`"a\x1b[31m.yml"`, "control characters"}},
		"the name is long":                {nil, strings.Repeat("x", 255), []string{"(.browser/xxx"}},
		"the names are many":              {nil, strings.Repeat("a/", 100) + "x", []string{missing, "more than 16 folders"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newBrowserRig(t)
			outside := t.TempDir()
			write(t, outside+"/secret", "hunter2")
			write(t, r.inBrowser(c.file), "written by the browser")
			if c.prepare != nil {
				c.prepare(r, outside)
			}
			before := tree(t, r.inWorkspace("."))
			got := r.result("[Snapshot](OUT/" + c.file + ")")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%.500s, want %s", got, want)
				}
			}
			if !strings.HasPrefix(got, "[Snapshot](") || strings.Contains(got, r.dir) {
				t.Errorf("the result is not kept: %.300s", got)
			}
			if found := tree(t, outside); len(found) != 1 || found["secret"] != "hunter2" {
				t.Errorf("outside: %v", found)
			}
			after := tree(t, r.inWorkspace("."))
			for name, text := range before {
				if after[name] != text {
					t.Errorf("%s was %q and is %q", name, text, after[name])
				}
			}
		})
	}
}

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// tree returns the texts of all files of a folder. It follows no links.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[name] = entry.Type().String()
		if err == nil && entry.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path)
			files[name] = string(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// While the folder is exchanged with a link, no file is written elsewhere.
func TestBrowserFolderThatIsExchanged(t *testing.T) {
	r := newBrowserRig(t)
	outside := t.TempDir()
	write(t, r.inBrowser("page.yml"), "written by the browser")
	folder, link, aside := r.inWorkspace(browserFolder), r.inWorkspace("link"), r.inWorkspace("aside")
	symlink(t, outside, link)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if os.Rename(folder, aside) == nil && os.Rename(link, folder) == nil {
				_ = os.Rename(folder, link)
			}
			_ = os.Rename(aside, folder)
		}
	})
	for range 100 {
		r.result("(OUT/page.yml)")
	}
	close(stop)
	swapping.Wait()
	if found := tree(t, outside); len(found) > 0 {
		t.Errorf("outside: %v", found)
	}
}

// The folder is bounded. The oldest copies go first, those of an earlier run too, and no other file.
func TestBrowserFolderIsBounded(t *testing.T) {
	const earlier = "page-2026-01-02T03-04-05-678Z.yml"
	past := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		users, size   int // files of the user, and bytes of each
		results, most int // files of the browser, and bytes of each
	}{
		"number": {10, 1, 35, 1},
		"bytes":  {3, 4 << 10, 20, 8 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			r := newBrowserRig(t)
			r.maxFiles, r.maxBytes = 30, 64<<10
			for _, name := range []string{earlier, "mine.yml", "changed.yml"} {
				write(t, r.inWorkspace(".browser/"+name), "old")
				if err := os.Chtimes(r.inWorkspace(".browser/"+name), past, past); err != nil {
					t.Fatal(err)
				}
			}
			for i := range c.users {
				write(t, r.inWorkspace(fmt.Sprintf(".browser/sub/%d", i)), strings.Repeat("u", c.size))
			}
			last := ""
			for i := range c.results {
				last = fmt.Sprintf("result-%d.yml", i)
				write(t, r.inBrowser(last), strings.Repeat("b", c.most))
				if got := r.result("(OUT/" + last + ")"); got != "(.browser/"+last+")" {
					t.Fatalf("%d: %.300s", i, got)
				}
				if i == 0 { // the copy is one of the user now
					write(t, r.inWorkspace(".browser/result-0.yml"), "changed")
					if err := os.Chtimes(r.inWorkspace(".browser/result-0.yml"), past, past); err != nil {
						t.Fatal(err)
					}
				}
			}
			found := tree(t, r.inWorkspace(".browser"))
			total := 0
			for _, text := range found {
				total += len(text)
			}
			if len(found) > r.maxFiles || int64(total) > r.maxBytes {
				t.Errorf("%d files of %d bytes", len(found), total)
			}
			for name, want := range map[string]string{earlier: "", "mine.yml": "old", "result-0.yml": "changed", "result-1.yml": "", "sub/0": strings.Repeat("u", c.size), last: strings.Repeat("b", c.most)} {
				if found[name] != want {
					t.Errorf("%s has %d bytes, want %d", name, len(found[name]), len(want))
				}
			}
			if n := len(r.made); n > r.maxFiles {
				t.Errorf("%d copies are remembered", n)
			}
		})
	}
}

// A folder full of files of others gets no more, and the result says what to do. One result names many files.
func TestFullBrowserFolder(t *testing.T) {
	r := newBrowserRig(t)
	r.maxFiles = 10
	for i := range r.maxFiles - 3 {
		write(t, r.inWorkspace(fmt.Sprintf(".browser/%d", i)), "mine")
	}
	var text strings.Builder
	for i := range 20 {
		name := fmt.Sprintf("result-%d.yml", i)
		write(t, r.inBrowser(name), "x")
		fmt.Fprintf(&text, "- [x](OUT/%s)\n", name)
	}
	got := r.result(text.String())
	for want, count := range map[string]int{"(.browser/result-": 3, "delete some of them": maxNotCopied, "\n7 more files of the browser could not be copied": 1} {
		if n := strings.Count(got, want); n != count {
			t.Errorf("%q is there %d times, want %d:\n%s", want, n, count, got)
		}
	}
	if n := len(tree(t, r.inWorkspace(".browser"))); n != r.maxFiles {
		t.Errorf("%d files", n)
	}
}

// A result gets a bounded number of copies, however many downloads a page has started.
func TestManyBrowserFilesInOneResult(t *testing.T) {
	r := newBrowserRig(t)
	var text strings.Builder
	for i := range maxCopied + 15 {
		name := fmt.Sprintf("loaf-%d.txt", i)
		write(t, r.inBrowser(name), "x")
		fmt.Fprintf(&text, "- Downloaded file %s to \"OUT/%[1]s\"\n", name)
	}
	got := r.result(text.String())
	for want, count := range map[string]int{`to ".browser/loaf-`: maxCopied, "more than 100 files": maxNotCopied, "\n5 more files of the browser could not be copied": 1} {
		if n := strings.Count(got, want); n != count {
			t.Errorf("%q is there %d times, want %d", want, n, count)
		}
	}
}

// git does not see the folder, unless it is one of the user.
func TestGitIgnoresBrowserFiles(t *testing.T) {
	for _, users := range []bool{false, true} {
		r := newBrowserUser(t)
		if users {
			write(t, r.inWorkspace(".browser/notes"), "of the user")
		}
		write(t, r.inBrowser("page.yml"), "x")
		r.result("(OUT/page.yml)")
		got := r.call("run_command", `{"command":"git init -q && git status --porcelain"}`)
		if strings.Contains(got, ".browser") != users {
			t.Errorf("a folder of the user %v: %s", users, got)
		}
	}
}

// Concurrent calls get their files.
func TestConcurrentBrowserCalls(t *testing.T) {
	r := newBrowserUser(t)
	var calls sync.WaitGroup
	for i := range 20 {
		name := fmt.Sprintf("page-%d.yml", i)
		write(t, r.inBrowser(name), name)
		calls.Go(func() {
			if got := r.result("(OUT/" + name + ")"); got != "(.browser/"+name+")" {
				t.Error(got)
			}
			if got := r.call("read_file", `{"path":".browser/`+name+`","raw":true}`); got != name {
				t.Error(got)
			}
		})
	}
	calls.Wait()
}

// The browser writes to no folder of a client's user: its only root is its own folder.
func TestBrowserGetsNoRootsOfClients(t *testing.T) {
	r := newBrowserUser(t)
	const want = `{"roots":[{"uri":"file://.browser"}]}` // where the result names the browser's folder
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(t.Context(), transport.Pipe(r.server), &client.Options{Era: era, Roots: func(context.Context) ([]mcp.Root, error) {
			t.Errorf("%v: the client is asked for roots", era)
			return []mcp.Root{{URI: "file:///home/ann"}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		result, err := session.CallTool(t.Context(), "browser_snapshot", json.RawMessage(`{"depth":1}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Text(); got != want {
			t.Errorf("%v: %s, want %s", era, got, want)
		}
	}
}
