//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server/process"
)

// in returns the result of a command in a session.
func (u *user) in(session, command string, timeout float64) sessionResult {
	u.t.Helper()
	arguments, err := json.Marshal(map[string]any{"session": session, "command": command, "timeout": timeout})
	if err != nil {
		u.t.Fatal(err)
	}
	text := u.call("session_run", string(arguments))
	var result sessionResult
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		u.t.Errorf("%s: %s", command, text)
	}
	return result
}

// A session keeps its directory, variables and functions. The commands follow each other in one
// session.
func TestSession(t *testing.T) {
	u := newUser(t, nil)
	u.call("write_file", `{"path":"src/a","content":"x"}`)
	if got := u.call("session_open", `{"name":"build_1-a"}`); !strings.Contains(got, `"name":"build_1-a","running":false`) {
		t.Fatal(got)
	}
	dir := u.files.Dir()
	src := filepath.Join(dir, "src")
	for _, c := range []struct {
		command string
		timeout float64
		want    sessionResult
	}{
		{"cd src; NAME=value; export OTHER='a \"b\"'; greet() { echo hello $1; }", 60, sessionResult{Directory: src}},
		{`echo "$NAME $(sh -c 'echo $OTHER')"; greet you; ls`, 60, sessionResult{Output: "value a \"b\"\nhello you\na\n", Directory: src}},
		{"echo err >&2; false", 60, sessionResult{ExitCode: 1, Output: "err\n", Directory: src}},
		{"echo one\necho 'two\nthree'", 60, sessionResult{Output: "one\ntwo\nthree\n", Directory: src}},
		{"cat; read line || echo no input", 60, sessionResult{Output: "no input\n", Directory: src}},
		{`printf 'no line break\0 and NUL'`, 60, sessionResult{Output: "no line break\x00 and NUL", Directory: src}},
		{"(exit 3)", 60, sessionResult{ExitCode: 3, Directory: src}},
		{"sh -c 'kill -KILL $$'", 60, sessionResult{ExitCode: 137, Output: "Killed\n", Directory: src}},
		{"sleep 63; echo not reached", 0.1, sessionResult{ExitCode: 130, Directory: src, TimedOut: true}},
		{"while true; do sleep 1; done", 0.1, sessionResult{ExitCode: 130, Directory: src, TimedOut: true}},
		{"sh -c 'sleep 63; echo $?' | cat; echo not reached", 0.1, sessionResult{ExitCode: 130, Directory: src, TimedOut: true}},
		{"f() { sleep 63; echo not reached; }; f", 0.1, sessionResult{ExitCode: 130, Directory: src, TimedOut: true}},
		{"g() { for i in 1 2 3; do f; done; }; g", 0.1, sessionResult{ExitCode: 130, Directory: src, TimedOut: true}},
		{"printf() { echo function; }; printf", 60, sessionResult{Output: "function\n", Directory: src}},
		{"false", 60, sessionResult{ExitCode: 1, Directory: src}},
		{"echo $?", 60, sessionResult{Output: "1\n", Directory: src}},
		{"echo $?", 60, sessionResult{Output: "0\n", Directory: src}},
		{"echo $NAME; cd ..", 60, sessionResult{Output: "value\n", Directory: dir}},
		{"exec >/dev/null; echo hidden", 60, sessionResult{Directory: dir}},
		{"exec >&2; echo shown", 60, sessionResult{Output: "shown\n", Directory: dir}},
		{"echo bye; exit 4", 60, sessionResult{ExitCode: 4, Output: "bye\n", Closed: true}},
	} {
		got := u.in("build_1-a", c.command, c.timeout)
		if strings.Contains(got.Output, "Killed") { // some shells add the process id and the command
			got.Output = "Killed\n"
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.command, got, c.want)
		}
	}
	if got := u.call("session_run", `{"session":"build_1-a","command":"true"}`); !strings.Contains(got, `there is no open session "build_1-a"`) {
		t.Error(got)
	}
	if got := u.call("session_list", `{}`); got != `{"sessions":[]}` {
		t.Error(got)
	}
	if got := u.call("session_open", `{"name":"build_1-a"}`); !strings.Contains(got, `"running":false`) {
		t.Errorf("opened again: %s", got)
	}
	if got := u.in("build_1-a", "echo \"[$NAME]\"; pwd", 60); got.Output != "[]\n"+dir+"\n" {
		t.Errorf("the new session: %+v", got)
	}
}

// A syntax error ends no session, neither in bash nor in other shells.
func TestSyntaxErrorInSession(t *testing.T) {
	tools := t.TempDir()
	for _, name := range []string{"sh", "cat", "sleep"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range map[string]string{"default": os.Getenv("PATH"), "sh": tools} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", path)
			u := newUser(t, nil)
			u.call("session_open", `{"name":"a"}`)
			if got := u.in("a", "X=1; if then", 60); got.ExitCode == 0 || got.Output == "" || got.Closed {
				t.Errorf("%+v", got)
			}
			if got := u.in("a", "Y=2; sleep 63", 0.1); !got.TimedOut || got.Closed {
				t.Errorf("%+v", got)
			}
			if got := u.in("a", "echo $Y", 60); got.Output != "2\n" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A command that ignores the interrupt takes its session with it. Nothing of it is left.
func TestSessionIgnoresInterrupt(t *testing.T) {
	t.Parallel() // it waits
	u := newUser(t, nil)
	u.call("session_open", `{"name":"a"}`)
	u.in("a", "trap '' INT TERM", 60)
	if got := u.in("a", "echo begun; sleep 63; sleep 63", 0.5); !got.TimedOut || !got.Closed || got.Output != "begun\n" {
		t.Errorf("%+v", got)
	}
	if got := u.call("session_list", `{}`); got != `{"sessions":[]}` {
		t.Error(got)
	}
}

// The output of background processes is part of the next result. session_close ends them.
func TestBackgroundOfSession(t *testing.T) {
	u := newUser(t, nil)
	u.call("session_open", `{"name":"a"}`)
	if got := u.in("a", "{ until [ -e go ]; do sleep 0.02; done; echo gone; touch done; sleep 63; } &", 60); got.ExitCode != 0 || got.Closed {
		t.Errorf("%+v", got)
	}
	if got := u.in("a", "touch go; until [ -e done ]; do sleep 0.02; done; echo seen", 60); got.Output != "gone\nseen\n" {
		t.Errorf("%+v", got)
	}
	if got := u.call("session_close", `{"session":"a"}`); got != "Closed the session a" {
		t.Error(got)
	}
	if got := u.call("session_close", `{"session":"a"}`); !strings.Contains(got, "there is no open session") {
		t.Error(got)
	}
}

// Sessions run at the same time, one command each, and have no state in common.
func TestSessions(t *testing.T) {
	u := newUser(t, &Options{MaxSessions: 2, MaxOutput: 100})
	for _, name := range []string{"a", "b"} {
		u.call("session_open", `{"name":"`+name+`"}`)
		u.in(name, "WHO="+name, 60)
	}
	for arguments, want := range map[string]string{
		`{"name":"a"}`:   `the session \"a\" is open already`,
		`{"name":"c"}`:   "2 sessions are open: close one first",
		`{"name":""}`:    "error: ",
		`{"name":"a b"}`: "error: ",
		`{"name":"` + strings.Repeat("x", 65) + `"}`: "error: ",
		`{"name":"c","credentials":["nothing"]}`:     "there is no credential",
	} {
		if got := u.call("session_open", arguments); !strings.HasPrefix(got, "error: ") || !strings.Contains(strings.ReplaceAll(got, `"`, `\"`), want) {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		if got := u.in("a", "touch began; until [ -e go ]; do sleep 0.02; done; echo $WHO", 60); got.Output != "a\n" {
			t.Errorf("%+v", got)
		}
	})
	for _, err := os.Stat(filepath.Join(u.files.Dir(), "began")); err != nil; _, err = os.Stat(filepath.Join(u.files.Dir(), "began")) {
		<-time.After(5 * time.Millisecond)
	}
	if got := u.call("session_run", `{"session":"a","command":"true"}`); !strings.Contains(got, "still runs a command") {
		t.Error(got)
	}
	if got := u.call("session_list", `{}`); !strings.Contains(got, `"name":"a","running":true`) || !strings.Contains(got, `"name":"b","running":false`) {
		t.Error(got)
	}
	if got := u.in("b", "echo $WHO; touch go", 60); got.Output != "b\n" {
		t.Errorf("%+v", got)
	}
	group.Wait()
	if got := u.in("a", "head -c 5000 /dev/zero | tr '\\0' x", 60); !got.Truncated || len(got.Output) > 200 {
		t.Errorf("%+v", got)
	}
	if got := u.in("a", "true", 60); got.Truncated || got.Output != "" {
		t.Errorf("afterwards: %+v", got)
	}
	if got := u.call("session_run", `{"session":"a","command":"a\u0000b"}`); !strings.Contains(got, "without NUL") {
		t.Error(got)
	}
	u.call("session_close", `{"session":"a"}`)
	if got := u.call("session_open", `{"name":"c"}`); strings.HasPrefix(got, "error") {
		t.Errorf("after one is closed: %s", got)
	}
}

// A canceled call interrupts its command, and a closed shell ends it.
func TestSessionIsInterrupted(t *testing.T) {
	u := newUser(t, nil)
	u.call("session_open", `{"name":"a"}`)
	u.in("a", "X=1", 60)
	_, err := u.CallTool(t.Context(), "session_run", json.RawMessage(`{"session":"a","command":"sleep 63"}`), &client.CallOptions{Timeout: 300 * time.Millisecond})
	if err == nil {
		t.Error("the call has a result")
	}
	for deadline := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
		if got := u.call("session_list", `{}`); strings.Contains(got, `"running":false`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the command still runs")
		}
	}
	if got := u.in("a", "echo $X", 60); got.Output != "1\n" {
		t.Errorf("%+v", got)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if got := u.call("session_run", `{"session":"a","command":"touch began; sleep 63"}`); !strings.Contains(got, process.ErrClosed.Error()) {
			t.Error(got)
		}
	})
	for _, err := os.Stat(filepath.Join(u.files.Dir(), "began")); err != nil; _, err = os.Stat(filepath.Join(u.files.Dir(), "began")) {
		<-time.After(5 * time.Millisecond)
	}
	if err := u.shell.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
}

// All commands of a session have its credentials, and their output is redacted.
func TestCredentialsOfSession(t *testing.T) {
	u := newUser(t, nil)
	if err := u.shell.Credentials().Set("github", "GITHUB_TOKEN", "hunter2-hunter2"); err != nil {
		t.Fatal(err)
	}
	u.call("session_open", `{"name":"a","credentials":["github"]}`)
	for range 2 {
		if got := u.in("a", "echo ${#GITHUB_TOKEN} $GITHUB_TOKEN", 60); got.Output != "15 [redacted]\n" {
			t.Errorf("%+v", got)
		}
	}
}

// A marker is found however the output is divided, and only a complete one.
func TestTranscript(t *testing.T) {
	for size := 1; size < 40; size++ {
		script := newTranscript(1000, nil)
		script.script("true", 0)
		if c := script.marker[1]; '0' <= c && c <= '9' {
			t.Fatalf("printf reads %q as a part of the number", c)
		}
		marker := script.marker
		text := "one\x00two" + marker[:5] + marker + "3 /a b\x00later\x00"
		for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
			if n, err := script.Write([]byte(rest[:min(size, len(rest))])); err != nil || n != min(size, len(rest)) {
				t.Fatal(n, err)
			}
		}
		end := <-script.ends
		got := fmt.Sprintf("%d %s %q %q", end.status, end.directory, end.output.String(), script.current().String()+string(script.held))
		if want := fmt.Sprintf("3 /a b %q %q", "one\x00two"+marker[:5], "later\x00"); got != want {
			t.Errorf("%d bytes at a time: %s, want %s", size, got, want)
		}
	}
}

// A command that ends as its timeout passes is not interrupted.
func TestSessionEndsWithTimeout(t *testing.T) {
	u := newUser(t, nil)
	u.call("session_open", `{"name":"a"}`)
	opened, err := u.shell.sessions.find("a")
	if err != nil {
		t.Fatal(err)
	}
	// The end of no command reaches this transcript.
	ended := &session{shell: opened.shell, transcript: newTranscript(1000, nil)}
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	for range 30 {
		ended.transcript.ends <- commandEnd{status: 7, output: new(process.Output)}
		if got, err := ended.run(expired, "true", nil); err != nil || got != (sessionResult{ExitCode: 7}) {
			t.Fatalf("%+v %v", got, err)
		}
	}
}

// A command that knows the text of its marker harms no later command, and what follows a marker
// takes no memory.
func TestForgedMarkers(t *testing.T) {
	u := newUser(t, nil)
	u.call("session_open", `{"name":"a"}`)
	u.in("a", "set -v; exec 2>log", 60)
	forged := `printf "\0end $(sed -n 's/.*end \([A-Z0-9]*\) .*/\1/p' log | tail -n 1) 7 /forged\0"; exec 2>&1; set +v`
	if got := u.in("a", forged, 60); got.ExitCode != 0 || !strings.Contains(got.Output, " 7 /forged\x00") {
		t.Errorf("the marker of the command before: %+v", got)
	}
	for range 2 {
		if got := u.in("a", "echo yes", 60); got.Output != "yes\n" {
			t.Errorf("the command after it: %+v", got)
		}
	}

	script := newTranscript(100, nil)
	script.script("true", 0)
	endless := script.marker + strings.Repeat("x", 1000)
	for range 100 {
		if n, err := script.Write([]byte(endless)); err != nil || n != len(endless) {
			t.Fatal(n, err)
		}
		endless = endless[len(endless)-1000:]
	}
	if len(script.held) > 2*maxReport || script.current().Written() < 80000 {
		t.Errorf("%d bytes are held, %d written", len(script.held), script.current().Written())
	}
	script.Write([]byte(script.marker + "no status\x00" + script.marker + "3 /a\x00" + script.marker + "4 /b\x00"))
	if end := <-script.ends; end.status != 3 || end.directory != "/a" {
		t.Errorf("%+v", end)
	}
	if len(script.ends) > 0 {
		t.Error("a command has two ends")
	}
}

// Credentials that occur in markers are redacted only in outputs and directories.
func TestShortCredentialsOfSession(t *testing.T) {
	u := newUser(t, nil)
	for variable, value := range map[string]string{"WORD": "end", "DIGIT": "0", "DIR": "secret-directory"} {
		if err := u.shell.Credentials().Set(variable, variable, value); err != nil {
			t.Fatal(err)
		}
	}
	u.call("session_open", `{"name":"a","credentials":["WORD","DIGIT","DIR"]}`)
	got := u.in("a", `mkdir "$DIR"; cd "$DIR"; echo $WORD $DIGIT; printf secret-`, 5)
	want := strings.ReplaceAll(u.files.Dir(), "0", "[redacted]") + "/[redacted]"
	if got != (sessionResult{Output: "[redacted] [redacted]\nsecret-", Directory: want}) {
		t.Errorf("%+v", got)
	}
	if got := u.in("a", "printf directory; exit", 5); got != (sessionResult{Output: "directory", Closed: true}) {
		t.Errorf("%+v", got)
	}
}
