//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// picture is a PNG of one pixel.
const picture = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"

// Each tool is called, in an order in which a tool finds the results of earlier tools.
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
		{"session_open", `{"name":"main"}`, `{"name":"main","running":false,"began":".*"}`},
		{"session_run", `{"session":"main","command":"cd src; export NAME=value"}`, `"exit_code":0,"output":"","directory":"` + regexp.QuoteMeta(s.files.Dir()) + `/src","truncated":false,"timed_out":false,"closed":false`},
		{"session_run", `{"session":"main","command":"echo $NAME; cat a.txt"}`, `"output":"value\\nuno\\nTWO`},
		{"session_run", `{"session":"other","command":"true"}`, "error: there is no open session"},
		{"session_list", `{}`, `{"sessions":\[{"name":"main",`},
		{"session_close", `{"session":"main"}`, "Closed the session main"},
		{"background_read", `{"id":"job-99"}`, "error: .*there is no job"},
	} {
		if got := u.call(c.tool, c.arguments); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s %s: %q, want %q", c.tool, c.arguments, got, c.want)
		}
	}
}

// Rules match the annotations of tools.
func TestAnnotations(t *testing.T) {
	tools := newUser(t, started(t, testOptions(t))).tools()
	readers := "read_file list_directory search_files search_content git_status git_diff git_log git_show git_branch background_list background_read session_list todo_read"
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
		case "run_command", "run_background", "background_write", "session_run":
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
