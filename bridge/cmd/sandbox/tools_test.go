//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

// picture is a PNG of one pixel.
const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"

// Each tool, in an order in which one finds what others have left.
func TestTools(t *testing.T) {
	s := started(t, testOptions(t))
	u := newUser(t, s)
	for name, text := range map[string]string{"picture.png": picture, "binary": "\x7fELF\x00\x01"} {
		if err := os.WriteFile(filepath.Join(s.files.Dir(), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(s.files.Dir(), "etc")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(s.files.Dir(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tool, arguments, want string }{
		{"write_file", `{"path":"src/a.txt","content":"one\ntwo\nthree\n"}`, "Successfully wrote 14 bytes to src/a.txt"},
		{"write_file", `{"path":"ü.txt","content":"ü"}`, "Successfully wrote 2 bytes"},
		{"write_file", `{"path":"../x","content":""}`, "error: .*outside of the workspace"},
		{"write_file", `{"path":"etc/x","content":""}`, "error: .*symbolic link"},
		{"write_file", `{"path":".git/config","content":""}`, "error: .*protected"},
		{"write_file", `{"path":"x","contents":""}`, "error: (?s).*content"},
		{"read_file", `{"path":"src/a.txt"}`, "^     1\tone\n     2\ttwo\n     3\tthree\n$"},
		{"read_file", `{"path":"` + s.files.Dir() + `/src/a.txt","encoding":"utf-8","offset":2,"limit":1}`, "^     2\ttwo\n… more lines follow: continue with offset 3\n$"},
		{"read_file", `{"path":"src/a.txt","offset":9}`, "error: .*has 3 lines"},
		{"read_file", `{"path":"picture.png"}`, "^image/png of 33 bytes$"},
		{"read_file", `{"path":"binary"}`, `error: "binary" is a binary file`},
		{"read_file", `{"path":"pipe"}`, "error: .*not a regular file"},
		{"read_file", `{"path":"src"}`, "error: .*not a regular file"},
		{"read_file", `{"path":"etc/passwd"}`, "error: .*outside of the workspace"},
		{"read_file", `{"path":"nothing"}`, "error: .*no such file"},
		{"edit_file", `{"path":"src/a.txt","old_string":"two","new_string":"2"}`, "Edited src/a.txt: 1 replaced"},
		{"edit_file", `{"path":"src/a.txt","old_string":"e","new_string":"E"}`, "error: .*occurs 3 times"},
		{"edit_file", `{"path":"src/a.txt","old_string":"e","new_string":"E","replace_all":true}`, "3 replaced"},
		{"edit_file", `{"path":"src/a.txt","old_string":"four","new_string":"E"}`, "error: .*not in"},
		{"multi_edit", `{"path":"src/a.txt","edits":[{"old_string":"2","new_string":"two"},{"old_string":"missing","new_string":""}]}`, "error: replacement 2"},
		{"multi_edit", `{"path":"src/a.txt","edits":[{"old_string":"2","new_string":"two"},{"old_string":"two","new_string":"TWO"}]}`, "2 replaced"},
		{"read_file", `{"path":"src/a.txt"}`, "1\tonE\n     2\tTWO\n     3\tthrEE\n"},
		{"create_directory", `{"path":"new/deep"}`, "Created the directory new/deep"},
		{"list_directory", `{}`, "^binary\netc@\nnew/\npicture.png\npipe!\nsrc/\nü.txt\n$"},
		{"list_directory", `{"path":"new/deep"}`, "empty"},
		{"list_directory", `{"path":"etc"}`, "error: .*outside"},
		{"search_files", `{"pattern":"*.txt"}`, "src/a.txt"},
		{"search_files", `{"pattern":"../*"}`, "Nothing"},
		{"search_content", `{"pattern":"^T.O$"}`, "^src/a.txt:2: TWO\n$"},
		{"search_content", `{"pattern":"(","include":"*.txt"}`, "error: "},
		{"search_content", `{"pattern":"--pre=touch x"}`, "Nothing found"},
		{"search_content", `{"pattern":"root:"}`, "Nothing found"},
		{"delete_file", `{"path":"new"}`, "error: .*not empty"},
		{"delete_file", `{"path":"new","recursive":true}`, "Deleted new"},
		{"delete_file", `{"path":"."}`, "error: .*the workspace itself"},
		{"delete_file", `{"path":"etc"}`, "Deleted etc"},
		{"run_command", `{"command":"pwd; echo err >&2; exit 3"}`, `"exit_code":3,"stdout":"` + regexp.QuoteMeta(s.files.Dir()) + `\\n","stderr":"err\\n","truncated":false,"timed_out":false`},
		{"run_command", `{"command":"sleep 61","timeout":0.2}`, `"exit_code":143.*"timed_out":true`},
		{"run_command", `{"command":"head -c 100000 /dev/zero | tr '\\0' x"}`, `"truncated":true`},
		{"run_command", `{"command":"cat"}`, `"exit_code":0,"stdout":""`},
		{"run_command", `{"command":"x","timeout":-1}`, "error: "},
		{"git_status", `{}`, "error: .*not a git repository"},
		{"git_diff", `{"paths":["/etc/passwd","/dev/null"]}`, "error: .*outside"},
		{"git_commit", `{"message":"--all first","paths":["src"]}`, "(?s)--all first.*src/a.txt"},
		{"git_commit", `{"message":"again","paths":["src"]}`, "(?s)error: .*"},
		{"git_status", `{}`, `(?s)## .*\?\? binary`},
		{"edit_file", `{"path":"src/a.txt","old_string":"onE","new_string":"uno"}`, "1 replaced"},
		{"git_diff", `{}`, "(?s)-onE\n.uno"},
		{"git_diff", `{"staged":true}`, "There are no changes"},
		{"git_diff", `{"paths":["--output=x"]}`, "There are no changes"},
		{"git_log", `{"limit":5}`, "^[0-9a-f]+ .*: --all first\n$"},
		{"register_port", `{"port":1}`, "error: nothing listens at port 1"},
		{"todo_read", `{}`, `{"todos":\[\]}`},
		{"todo_write", `{"todos":[{"id":"1","content":"sleep","status":"pending"},{"id":"2","content":"eat","status":"in_progress","priority":"high"}]}`, "in the list: 2"},
		{"todo_read", `{}`, `"priority":"medium".*"id":"2"`},
		{"todo_write", `{"todos":[{"id":"1","content":"a","status":"in_progress"},{"id":"2","content":"b","status":"in_progress"}]}`, "error: 2 are in_progress"},
		{"todo_write", `{"todos":[{"id":"1","content":"a","status":"done"}]}`, "error: "},
		{"todo_write", `{"todos":[{"id":"1","content":"a","status":"pending"},{"id":"1","content":"b","status":"pending"}]}`, "error: .*twice"},
		{"browser_navigate", `{"url":"http://127.0.0.1/"}`, "error: The browser cannot be used: .*no-such-npx.*not installed"},
		{"background_read", `{"id":"job-99"}`, "error: .*there is no job"},
	} {
		if got := u.call(c.tool, c.arguments); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s %s: %q, want %q", c.tool, c.arguments, got, c.want)
		}
	}
}

// What tools say of themselves is what rules go by.
func TestAnnotations(t *testing.T) {
	tools := newUser(t, started(t, testOptions(t))).tools()
	readers := "read_file list_directory search_files search_content git_status git_diff git_log background_list background_read todo_read"
	for name := range strings.FieldsSeq(readers) {
		if a := tools[name].Annotations; !*a.ReadOnlyHint || *a.OpenWorldHint {
			t.Errorf("%s: %+v", name, a)
		}
		delete(tools, name)
	}
	for name, tool := range tools {
		a := tool.Annotations
		if a == nil || a.ReadOnlyHint != nil && *a.ReadOnlyHint && !strings.HasPrefix(name, "browser_") {
			t.Errorf("%s says that it changes nothing", name)
		}
		switch name {
		case "run_command", "run_background", "background_write":
			if !*a.DestructiveHint || !*a.OpenWorldHint || *a.IdempotentHint {
				t.Errorf("%s: %+v", name, a)
			}
		case "write_file", "edit_file", "multi_edit", "delete_file":
			if !*a.DestructiveHint || *a.OpenWorldHint {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if tool.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
}

func TestBackground(t *testing.T) {
	s := started(t, testOptions(t))
	u := newUser(t, s)
	started := u.call("run_background", `{"command":"while read line; do echo got $line; done; exit 4"}`)
	if !strings.Contains(started, `"id":"job-1"`) || !strings.Contains(started, `"running":true`) {
		t.Fatal(started)
	}
	u.call("background_write", `{"id":"job-1","text":"one\n"}`)
	u.call("background_write", `{"id":"job-1","text":"two\n","close":true}`)
	got := u.call("background_read", `{"id":"job-1","wait":30}`)
	if !strings.Contains(got, `"exit_code":4`) || !strings.Contains(got, `"output":"got one\ngot two\n","next":16,"left_out":0`) {
		t.Error(got)
	}
	if got := u.call("background_read", `{"id":"job-1","since":8}`); !strings.Contains(got, `"output":"got two\n"`) {
		t.Error(got)
	}
	if got := u.call("background_write", `{"id":"job-1","text":"x"}`); !strings.HasPrefix(got, "error: ") {
		t.Error(got)
	}
	u.call("run_background", `{"command":"until [ -e go ]; do sleep 0.05; done; wc -c"}`)
	much := strings.Repeat("x", 1<<20)
	if got := u.call("background_write", `{"id":"job-2","text":"`+much+`"}`); !strings.Contains(got, "error: ") || !strings.Contains(got, "does not read") || !strings.Contains(got, "of 1048576 bytes") {
		t.Error(got)
	}
	u.call("write_file", `{"path":"go","content":""}`)
	if got := u.call("background_write", `{"id":"job-2","text":"`+much+`","close":true}`); !strings.HasPrefix(got, "Wrote") {
		t.Error(got)
	}
	if got := u.call("background_read", `{"id":"job-2","wait":30}`); !strings.Contains(got, `"exit_code":0`) {
		t.Error(got)
	}
	u.call("run_background", `{"command":"trap '' TERM; setsid sleep 61 & sleep 61"}`)
	if got := u.call("background_stop", `{"id":"job-3"}`); !strings.Contains(got, `"running":false`) {
		t.Error(got)
	}
	if got := u.call("background_list", `{}`); strings.Count(got, `"id"`) != 3 {
		t.Error(got)
	}
}

// Callers receive progress while a command runs. This command ends after the first report.
func TestProgress(t *testing.T) {
	s := started(t, testOptions(t))
	u := newUser(t, s)
	heard := make(chan *mcp.ProgressParams, 100)
	_, err := u.CallTool(t.Context(), "run_command", json.RawMessage(`{"command":"echo begun; until [ -e heard ]; do sleep 0.01; done"}`),
		&client.CallOptions{Progress: func(p *mcp.ProgressParams) {
			heard <- p
			if err := os.WriteFile(filepath.Join(s.files.Dir(), "heard"), nil, 0o600); err != nil {
				t.Error(err)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	if p := <-heard; p.Message != "begun" {
		t.Errorf("%+v", p)
	}
}

// Who tells callers slowly loses nothing of what a command writes.
func TestSlowProgress(t *testing.T) {
	u := newUser(t, started(t, testOptions(t)))
	result, err := u.CallTool(t.Context(), "run_command", json.RawMessage(`{"command":"for i in 1 2 3 4 5 6 7 8; do printf %08000d $i; sleep 0.1; done"}`),
		&client.CallOptions{Progress: func(*mcp.ProgressParams) { <-time.After(time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	var got CommandResult
	if err := json.Unmarshal(result.StructuredContent, &got); err != nil || len(got.Stdout) != 64000 || got.Truncated {
		t.Errorf("%d bytes, truncated %t, %v", len(got.Stdout), got.Truncated, err)
	}
}

// A call that is given up ends its command.
func TestCancelledCommand(t *testing.T) {
	s := started(t, testOptions(t))
	u := newUser(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := filepath.Join(s.files.Dir(), "begun")
	go func() {
		for {
			if _, err := os.Stat(begun); err == nil || ctx.Err() != nil {
				cancel()
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	}()
	start := time.Now()
	_, err := u.CallTool(ctx, "run_command", json.RawMessage(`{"command":"touch begun; sleep 61; touch ended"}`), nil)
	if err == nil || time.Since(start) > 20*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// A page of a server in the sandbox is seen at the URL, but not under another name.
func TestRegisteredPort(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello from %s, forwarded %t", r.URL.Path, r.Header.Get("X-Forwarded-For") != "")
	}))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	s := started(t, testOptions(t))
	u := newUser(t, s)
	var at PortURL
	if err := json.Unmarshal([]byte(u.call("register_port", `{"port":`+port+`}`)), &at); err != nil {
		t.Fatal(err)
	}
	if again := u.call("register_port", `{"port":`+port+`}`); !strings.Contains(again, at.URL) {
		t.Errorf("again: %s, at first %s", again, at.URL)
	}
	for host, want := range map[string]string{"": "hello from /page, forwarded true", "evil.example:80": "expected a request for this machine\n"} {
		request, err := http.NewRequest(http.MethodGet, at.URL+"page", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(text) != want {
			t.Errorf("as %q: %q %v", host, text, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// At the limit of registered ports, ports without a server are removed. One may
// be an address of IPv6.
func TestPortsMakeRoom(t *testing.T) {
	u := newUser(t, started(t, testOptions(t)))
	port := 10_000 // and up: systems choose higher ones, and could choose one of these again
	listen := func(host string) (net.Listener, error) {
		port++
		return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	}
	register := func(host, want string) (end func() error) {
		t.Helper()
		listener, err := listen(host)
		for err != nil && port < 20_000 {
			listener, err = listen(host)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := u.call("register_port", fmt.Sprintf(`{"port":%d}`, port)); !strings.Contains(got, want) {
			t.Errorf("port %d: %s", port, got)
		}
		return listener.Close
	}
	first := "127.0.0.1"
	if listener, err := listen("::1"); err == nil { // not every machine has IPv6
		first = "::1"
		listener.Close()
	}
	ends := []func() error{register(first, "http://")}
	for len(ends) < maxPorts {
		ends = append(ends, register("127.0.0.1", "http://"))
	}
	defer register("127.0.0.1", "16 ports are registered already")()
	for _, end := range ends[:3] {
		end()
	}
	for _, want := range []string{"http://", "http://", "http://", "16 ports are registered already"} {
		defer register("127.0.0.1", want)()
	}
	for _, end := range ends[3:] {
		end()
	}
}

// ranNothing checks that no program of a repository has run: each would leave a file.
func ranNothing(t *testing.T, u *user) {
	t.Helper()
	if ran := u.call("search_files", `{"pattern":"ran-*"}`); !strings.Contains(ran, "Nothing") {
		t.Errorf("these ran: %s", ran)
	}
}

// shell runs commands that must not fail.
func (u *user) shell(lines ...string) {
	u.t.Helper()
	command, err := json.Marshal(map[string]string{"command": "set -e\nexport GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e\n" + strings.Join(lines, "\n")})
	if err != nil {
		u.t.Fatal(err)
	}
	if got := u.call("run_command", string(command)); !strings.Contains(got, `"exit_code":0`) {
		u.t.Fatal(got)
	}
}

// Neither hooks nor programs that stand in the repository's files are run by git's tools.
func TestGitRunsNothing(t *testing.T) {
	s := started(t, testOptions(t))
	u := newUser(t, s)
	u.call("write_file", `{"path":"a.txt","content":"a\n"}`)
	u.call("git_commit", `{"message":"first"}`)
	u.shell(
		`mkdir -p .git/hooks`,
		`for h in pre-commit post-commit post-index-change fsmonitor pre-auto-gc reference-transaction; do printf '#!/bin/sh\ntouch '$PWD/ran-$h > .git/hooks/$h; chmod +x .git/hooks/$h; done`,
		`git config core.fsmonitor .git/hooks/fsmonitor`,
		`git config core.pager 'touch ran-pager'; git config core.editor 'touch ran-editor'; git config core.sshCommand 'touch ran-ssh'`,
		`git config diff.external 'touch ran-diff'; git config diff.evil.textconv 'touch ran-textconv; cat'; git config diff.evil.command 'touch ran-command'`,
		`git config commit.gpgSign true; git config log.showSignature true; git config gpg.program "$PWD/.git/hooks/fsmonitor"`,
		`git config maintenance.commit-graph.enabled true; git config gc.auto 1; git config maintenance.auto true`,
		`git config merge.evil.driver 'touch ran-merge'; git config credential.helper '!touch ran-credential'`,
		`echo '*.txt diff=evil merge=evil' > .gitattributes`,
		// What is missing would be fetched from here.
		`git config core.repositoryFormatVersion 1; git config extensions.partialClone evil; git config remote.evil.promisor true`,
		`git config protocol.ext.allow always; git config remote.evil.url "ext::sh -c touch% $PWD/ran-fetch"`,
	)
	u.call("edit_file", `{"path":"a.txt","old_string":"a","new_string":"b"}`)
	for _, tool := range []string{"git_status", "git_diff", "git_log"} {
		if got := u.call(tool, `{}`); strings.HasPrefix(got, "error") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if got := u.call("git_commit", `{"message":"second"}`); !strings.Contains(got, "second") {
		t.Error(got)
	}
	u.shell(`rm -rf .git/objects/$(git -c core.fsmonitor=false -c core.hooksPath=/dev/null rev-parse HEAD:a.txt | cut -c1-2)`, `rm -f ran-*; echo c > a.txt`)
	u.call("git_diff", `{}`) // it fails
	ranNothing(t, u)
}

// A repository that is elsewhere, or that names another directory as its files, is neither
// read nor written.
func TestGitStaysInTheWorkspace(t *testing.T) {
	for name, configure := range map[string]string{
		"core.worktree": `git config core.worktree "$OUT"`,
		"relative":      `git config core.worktree "../../$(basename "$OUT")"`,
		"file":          `mv .git "$OUT/git"; echo "gitdir: $OUT/git" > .git`,
		"link":          `mv .git "$OUT/git"; ln -s "$OUT/git" .git`,
		"commondir":     `cp -r .git "$OUT/git"; echo "$OUT/git" > .git/commondir`,
		"objects":       `mv .git/objects "$OUT/objects"; ln -s "$OUT/objects" .git/objects`,
		"alternates":    `mkdir -p .git/objects/info; cp -r .git/objects "$OUT/objects"; echo "$OUT/objects" > .git/objects/info/alternates`,
		"refs":          `mv .git/refs "$OUT/refs"; ln -s "$OUT/refs" .git/refs`,
		"index":         `mv .git/index "$OUT/index"; ln -s "$OUT/index" .git/index`,
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			if err := os.WriteFile(filepath.Join(out, "secret.txt"), []byte("of the user\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			u := newUser(t, started(t, testOptions(t)))
			u.call("write_file", `{"path":"a.txt","content":"a\n"}`)
			u.call("git_commit", `{"message":"first"}`)
			u.shell(fmt.Sprintf("OUT=%q", out), configure)
			u.call("write_file", `{"path":"b.txt","content":"b\n"}`)
			before := names(t, out)
			for _, tool := range []string{"git_status", "git_diff", "git_log", "git_commit"} {
				got := u.call(tool, gitTools[tool])
				if strings.Contains(got, "secret") {
					t.Errorf("%s: %s", tool, got)
				}
				worktree := name == "core.worktree" || name == "relative"
				if refused := strings.Contains(got, "elsewhere"); refused == worktree {
					t.Errorf("%s: %s", tool, got)
				}
			}
			if after := names(t, out); after != before {
				t.Errorf("outside there was\n%sand is\n%s", before, after)
			}
		})
	}
}

// names lists the files below a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		fmt.Fprintln(&list, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list.String()
}

var gitTools = map[string]string{"git_status": `{}`, "git_diff": `{}`, "git_log": `{}`, "git_commit": `{"message":"second"}`}

// A repository that names filters is refused, wherever its configuration names them; those of
// the user's own configuration do their work.
func TestGitFilters(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[filter \"mine\"]\n\tclean = tr a-z A-Z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, configure := range map[string]string{
		"clean":    `git config filter.evil.clean 'touch ran-clean; cat'`,
		"process":  `git config filter.evil.process 'touch ran-process'`,
		"included": `printf '[filter "evil"]\nclean = touch ran-included; cat\n' > more; git config include.path ../more`,
		"worktree": `git config core.repositoryFormatVersion 1; git config extensions.worktreeConfig true; git config --worktree filter.evil.clean 'touch ran-worktree; cat'`,
		"hook":     `git config hook.evil.command 'touch ran-hook'; git config hook.evil.event pre-commit`,
	} {
		u := newUser(t, started(t, testOptions(t)))
		u.call("write_file", `{"path":"a.txt","content":"a\n"}`)
		u.call("write_file", `{"path":"b.md","content":"b\n"}`)
		u.call("write_file", `{"path":".gitattributes","content":"*.txt filter=evil\n*.md filter=mine\n"}`)
		if got := u.call("git_commit", `{"message":"first"}`); strings.HasPrefix(got, "error") {
			t.Errorf("%s: %s", name, got)
		}
		u.shell(`[ "$(git show HEAD:b.md)" = B ]`, configure)
		u.call("write_file", `{"path":"a.txt","content":"c\n"}`)
		for tool, arguments := range gitTools {
			if got := u.call(tool, arguments); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, ".evil.") {
				t.Errorf("%s, %s: %s", name, tool, got)
			}
		}
		ranNothing(t, u)
	}
}

// What looks like a repository, and has been written by file tools, is none.
func TestGitBareLayout(t *testing.T) {
	u := newUser(t, started(t, testOptions(t)))
	for name, text := range map[string]string{
		"HEAD": "ref: refs/heads/main\n", "objects/keep": "", "refs/keep": "", ".gitattributes": "*.txt filter=evil\n", "a.txt": "a\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n[filter \"evil\"]\n\tclean = touch ran-clean; cat\n",
	} {
		arguments, err := json.Marshal(map[string]string{"path": name, "content": text})
		if err != nil {
			t.Fatal(err)
		}
		u.call("write_file", string(arguments))
	}
	for _, tool := range []string{"git_status", "git_diff", "git_log"} {
		if got := u.call(tool, `{}`); !strings.Contains(got, "not a git repository") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	u.shell("mkdir .git") // and git looks further
	for _, tool := range []string{"git_status", "git_diff", "git_log"} {
		if got := u.call(tool, `{}`); !strings.HasPrefix(got, "error: ") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	u.shell("rmdir .git")
	if got := u.call("git_commit", `{"message":"first"}`); !strings.Contains(got, "a.txt") {
		t.Error(got)
	}
	ranNothing(t, u)
}

// Git runs nothing in a repository in the repository either.
func TestGitSubmodule(t *testing.T) {
	u := newUser(t, started(t, testOptions(t)))
	u.shell(`git init -q sub; cd sub; echo a > a.txt; git add a.txt; git commit -qm first; cd ..`,
		`git init -q .; printf '[submodule "sub"]\npath = sub\nurl = ./sub\n' > .gitmodules; git add sub .gitmodules 2>/dev/null; git commit -qm first`,
		`cd sub; git config filter.evil.clean "touch $PWD/../ran-clean; cat"; echo '* filter=evil' > .gitattributes; touch -d tomorrow a.txt; cd ..`,
		`echo b > b.txt`)
	for tool, arguments := range gitTools {
		if got := u.call(tool, arguments); strings.HasPrefix(got, "error") != (tool == "git_commit") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	ranNothing(t, u)
}
