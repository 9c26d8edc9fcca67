//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The sandbox survives mistakes of a model, and no process is left behind.
func TestContainment(t *testing.T) {
	o := testOptions(t)
	s, err := newSandbox(t.Context(), guard, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t, s)
	path := func(name string) string { return filepath.Join(s.files.Dir(), name) }
	if err := os.WriteFile(path("text"), []byte(strings.Repeat("line\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"text", "sparse"} {
		if f, err := os.OpenFile(path(name), os.O_CREATE|os.O_WRONLY, 0o600); err != nil || f.Truncate(1<<30) != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = syscall.Mknod(path("zero"), syscall.S_IFCHR|0o600, 1<<8|5) // for root only
	for link, target := range map[string]string{"proc": "/proc/self/environ", "root": "/", "up": "../../.."} {
		if err := os.Symlink(target, path(link)); err != nil {
			t.Fatal(err)
		}
	}
	deaf := `trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep 61' & sleep 61; sleep 61`
	storm := `s() { if [ $1 -gt 0 ]; then s $(($1-1)) & s $(($1-1)) & fi; sleep 61; }; s 8`
	for _, name := range []string{"a", "b"} {
		u.call("session_open", `{"name":"`+name+`"}`)
	}
	// A tool that waits for one of the sleeping processes waits until then, and fails.
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for _, c := range []struct{ tool, arguments, want string }{
		{"read_file", `{"path":"sparse"}`, "error: "},
		{"read_file", `{"path":"text","limit":3}`, "more lines follow"},
		{"read_file", `{"path":"text","offset":100000}`, "error: "},
		{"edit_file", `{"path":"text","old_string":"line","new_string":"x"}`, "error: "},
		{"search_content", `{"pattern":"lines?$"}`, "text:1: line"},
		{"search_files", `{"pattern":"**"}`, "sparse"},
		{"read_file", `{"path":"pipe"}`, "error: "},
		{"read_file", `{"path":"zero"}`, "error: "},
		{"read_file", `{"path":"proc"}`, "error: "},
		{"read_file", `{"path":"root/etc/passwd"}`, "error: "},
		{"read_file", `{"path":"up/etc/passwd"}`, "error: "},
		{"write_file", `{"path":"pipe","content":"x"}`, "error: "},
		{"write_file", `{"path":"root/tmp/x","content":"x"}`, "error: "},
		{"list_directory", `{"path":"up"}`, "error: "},
		{"run_command", `{"command":"` + deaf + `","timeout":0.3}`, `"timed_out":true`},
		{"run_command", `{"command":"setsid sleep 61 & (setsid sh -c 'sleep 61 & sleep 61' &); env -i setsid sleep 61 & echo left"}`, "left"},
		{"run_command", `{"command":"` + storm + `"}`, "more than 256 processes"},
		{"run_background", `{"command":"` + deaf + `"}`, `"running":true`},
		{"run_background", `{"command":"setsid sleep 61 & sleep 61"}`, `"running":true`},
		{"session_run", `{"session":"a","command":"` + deaf + `","timeout":0.3}`, `"closed":true`},
		{"session_run", `{"session":"b","command":"setsid sleep 61 & sleep 61 &"}`, `"exit_code":0`},
		{"run_command", `{"command":"cat pipe","timeout":0.3}`, `"timed_out":true`},
		{"run_command", `{"command":"yes | head -c 20000000"}`, `"truncated":true`},
	} {
		group.Go(func() {
			if got := u.callUntil(ctx, c.tool, strings.ReplaceAll(c.arguments, "sleep 61", "sleep "+sleepTime())); !strings.Contains(got, c.want) {
				t.Errorf("%s %s: %.300q, want %q", c.tool, c.arguments, got, c.want)
			}
		})
	}
	group.Wait()
	if got := u.call("list_directory", `{}`); !strings.Contains(got, "pipe!") {
		t.Errorf("afterwards: %s", got)
	}
	if err := s.close(t.Context()); err != nil {
		t.Error(err)
	}
	nothingSleeps(t)
}
