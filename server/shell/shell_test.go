//go:build unix

package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
)

// A command gets the credentials that its call names, and the model never sees their values:
// neither in results, nor in progress, nor in errors.
func TestCredentials(t *testing.T) {
	const key, other = "hunter2-hunter2", "sesame-open-sesame"
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		u := newUserOf(t, nil, era)
		credentials := u.shell.Credentials()
		for name, variable := range map[string]string{"github": "GITHUB_TOKEN", "again": "GITHUB_TOKEN"} {
			if err := credentials.Set(name, variable, key); err != nil {
				t.Fatal(err)
			}
		}
		if err := credentials.Set("a user's session", "USER_API_KEY", other); err != nil {
			t.Fatal(err)
		}
		var texts strings.Builder
		call := func(tool, arguments string) string {
			t.Helper()
			result, err := u.CallTool(t.Context(), tool, json.RawMessage(arguments), &client.CallOptions{
				Progress: func(p *mcp.ProgressParams) { texts.WriteString(p.Message) },
			})
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(result)
			if err != nil {
				t.Fatal(err)
			}
			texts.Write(text)
			return string(text)
		}
		for _, c := range []struct{ tool, arguments, want string }{
			{"run_command", `{"command":"echo \"<$GITHUB_TOKEN|$USER_API_KEY>\""}`, `<|>`},
			{"run_command", `{"command":"echo \"<$GITHUB_TOKEN|$USER_API_KEY>\"","credentials":["github"]}`, `<[redacted]|>`},
			{"run_command", `{"command":"env >&2; echo ${#GITHUB_TOKEN} ${#USER_API_KEY}","credentials":["github","a user's session"]}`, `15 18`},
			{"run_command", `{"command":"echo begun $GITHUB_TOKEN; sleep 0.5","credentials":["github"]}`, `begun [redacted]`},
			{"run_command", `{"command":"true","credentials":["nothing"]}`, `there is no credential`},
			{"run_command", `{"command":"true","credentials":["github","again"]}`, `two of the credentials are the variable GITHUB_TOKEN`},
			{"run_command", `{"command":"true","credentials":["1","2","3","4","5","6","7","8","9"]}`, `"isError":true`},
			{"run_background", `{"command":"echo $GITHUB_TOKEN","credentials":["github"]}`, `"id\":\"job-1\"`},
			{"background_read", `{"id":"job-1","wait":30}`, `[redacted]`},
			{"background_read", `{"id":"job-1","since":3}`, `acted]`},
			{"run_background", `{"command":"true","credentials":["nothing"]}`, `there is no credential`},
		} {
			text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(call(c.tool, c.arguments))
			if !strings.Contains(text, c.want) {
				t.Errorf("%v: %s %s: %s, want %s", era, c.tool, c.arguments, text, c.want)
			}
		}
		credentials.Delete("github")
		if got := call("run_command", `{"command":"true","credentials":["github"]}`); !strings.Contains(got, "there is no credential") {
			t.Errorf("%v: a deleted credential: %s", era, got)
		}
		if strings.Contains(texts.String(), key) || strings.Contains(texts.String(), other) {
			t.Errorf("%v: a value is in %s", era, texts.String())
		}
	}
}

func TestSetCredential(t *testing.T) {
	var c Credentials
	for _, wrong := range []struct{ name, variable, value string }{
		{"", "A", "value"}, {"a\nb", "A", "value"}, {strings.Repeat("x", 257), "A", "value"},
		{"a", "", "value"}, {"a", "1A", "value"}, {"a", "A-B", "value"}, {"a", "A=B", "value"},
		{"a", "A", ""}, {"a", "A", "value\x00"}, {"a", "A", strings.Repeat("x", maxCredential+1)},
	} {
		if err := c.Set(wrong.name, wrong.variable, wrong.value); err == nil || wrong.value != "" && strings.Contains(err.Error(), wrong.value) {
			t.Errorf("%.20q %q: %v", wrong.name, wrong.variable, err)
		}
	}
	for i := range maxCredentials {
		if err := c.Set(fmt.Sprint(i), "A", strings.Repeat("x", maxCredential)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Set("more", "A", "hunter2"); !errors.Is(err, ErrTooManyCredentials) || c.Len() != maxCredentials {
		t.Errorf("%v with %d credentials", err, c.Len())
	}
	if err := c.Set("0", "A", "hunter2"); err != nil {
		t.Errorf("replacing one: %v", err)
	}
	var text bytes.Buffer
	slog.New(slog.NewJSONHandler(&text, nil)).Info("x", "credentials", &c)
	fmt.Fprintf(&text, "%v %+v %#v", &c, &c, &c)
	if strings.Contains(text.String(), "hunter2") {
		t.Error("formatting prints a value")
	}
}

// With a template, register_port returns public URLs and forwards nothing. No other test runs at the same time: its
// servers could get the port that is closed here.
func TestPublicURL(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	port := web.URL[strings.LastIndex(web.URL, ":")+1:]
	const template = "https://{port}-host.example/"
	if got := newUser(t, &Options{PortURL: template}).call("register_port", `{"port":`+port+`}`); !strings.Contains(got, "that no command of this shell has started") {
		t.Errorf("a foreign service: %s", got)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t, &Options{PortURL: template, Ports: []int{number}})
	for range 2 {
		if got, want := u.call("register_port", `{"port":`+port+`}`), `{"url":"https://`+port+`-host.example/"}`; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	web.Close()
	if got := u.call("register_port", `{"port":`+port+`}`); !strings.Contains(got, "nothing listens") {
		t.Error(got)
	}
}

func TestWrongOptions(t *testing.T) {
	files, err := workspace.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for _, template := range []string{
		"https://host.example", "https://{port}-{port}.example", "https://{port}-{name}.example", "{port}", "//{port}.example", "ftp://{port}.example",
		"https://a:b@{port}.example", "http://:{port}", "https://{port}.exa mple", "https://%{port}.example",
	} {
		if _, err := New(guard, files, &Options{PortURL: template}); err == nil || !strings.Contains(err.Error(), "PortURL") {
			t.Errorf("%q: %v", template, err)
		}
	}
	for _, template := range []string{"http://localhost:{port}", "https://host.example/ports/{port}/", "https://{port}-a.example:8443"} {
		s, err := New(guard, files, &Options{PortURL: template})
		if err != nil {
			t.Fatalf("%q: %v", template, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := New(guard, files, &Options{MaxJobs: -1}); err == nil || !strings.Contains(err.Error(), "MaxJobs") {
		t.Errorf("a negative limit: %v", err)
	}
	if _, err := New(nil, files, nil); err == nil {
		t.Error("no guard")
	}
}

// Each limit has an error that says so, and what runs goes on.
func TestLimits(t *testing.T) {
	u := newUser(t, &Options{MaxCommands: 1, MaxJobs: 1, MaxProcesses: 8, MaxOutput: 1000})
	began := filepath.Join(u.files.Dir(), "began")
	var group sync.WaitGroup
	group.Go(func() {
		if got := u.call("run_command", `{"command":"touch began; until [ -e go ]; do sleep 0.02; done; head -c 5000 /dev/zero | tr '\\0' x"}`); !strings.Contains(got, `"truncated":true`) || len(got) > 1300 {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	})
	for _, err := os.Stat(began); err != nil; _, err = os.Stat(began) {
		<-time.After(5 * time.Millisecond)
	}
	for tool, arguments := range map[string]string{"run_command": `{"command":"true"}`, "git_status": `{}`, "git_commit": `{"message":"x"}`} {
		if got := u.call(tool, arguments); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "too many commands") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	u.call("write_file", `{"path":"go","content":""}`)
	group.Wait()
	if got := u.call("run_command", `{"command":"echo again"}`); !strings.Contains(got, "again") {
		t.Error(got)
	}
	if got := u.call("run_command", `{"command":"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 61 & done; wait"}`); !strings.Contains(got, "more than 8 processes") {
		t.Error(got)
	}
	if got := u.call("run_background", `{"command":"cat"}`); !strings.Contains(got, `"running":true`) {
		t.Error(got)
	}
	if got := u.call("run_background", `{"command":"cat"}`); !strings.Contains(got, "too many commands are running: stop one first") {
		t.Error(got)
	}
	u.call("background_stop", `{"id":"job-1"}`)
	long, err := json.Marshal(map[string]string{"command": "true " + strings.Repeat("ü", 40_000)})
	if err != nil {
		t.Fatal(err)
	}
	u.call("run_background", string(long))
	if got := u.call("background_list", `{}`); len(got) > 2000 || !strings.Contains(got, "ü…") {
		t.Errorf("a long command has %d bytes in the list", len(got))
	}
}

// Close ends commands and waits for them; nothing starts after it.
func TestClose(t *testing.T) {
	u := newUser(t, nil)
	began := filepath.Join(u.files.Dir(), "began")
	var group sync.WaitGroup
	group.Go(func() {
		if got := u.call("run_command", `{"command":"touch began; sleep 61"}`); !strings.Contains(got, process.ErrClosed.Error()) {
			t.Errorf("a running command: %s", got)
		}
	})
	u.call("run_background", `{"command":"sleep 61"}`)
	u.call("session_open", `{"name":"a"}`)
	u.call("session_run", `{"session":"a","command":"sleep 61 &"}`)
	for _, err := os.Stat(began); err != nil; _, err = os.Stat(began) {
		<-time.After(5 * time.Millisecond)
	}
	for range 2 {
		if err := u.shell.Close(); err != nil {
			t.Error(err)
		}
	}
	group.Wait()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	u.shell.ports.owns = func(string) bool { return true }
	for tool, arguments := range map[string]string{
		"run_command": `{"command":"true"}`, "run_background": `{"command":"true"}`, "session_open": `{"name":"b"}`, "git_commit": `{"message":"x"}`,
		"register_port": `{"port":` + web.URL[strings.LastIndex(web.URL, ":")+1:] + `}`,
	} {
		if got := u.call(tool, arguments); !strings.Contains(got, process.ErrClosed.Error()) {
			t.Errorf("%s after Close: %s", tool, got)
		}
	}
	if got := u.call("background_list", `{}`); strings.Contains(got, `"running":true`) {
		t.Error(got)
	}
}

func TestSetenv(t *testing.T) {
	u := newUser(t, &Options{Env: []string{"A=1", "B=2"}})
	for name, value := range map[string]string{"": "x", "A=B": "x", "A B": "x", "A": "\x00"} {
		if err := u.shell.Setenv(name, value); err == nil {
			t.Errorf("%q=%q is a variable", name, value)
		}
	}
	for _, value := range []string{"3", "4"} {
		if err := u.shell.Setenv("B", value); err != nil {
			t.Fatal(err)
		}
	}
	if got := u.call("run_command", `{"command":"echo $A $B"}`); !strings.Contains(got, `"stdout":"1 4\n"`) {
		t.Error(got)
	}
	if n := len(u.shell.env); n > 3 {
		t.Errorf("there are %d variables", n)
	}
}

// One registered port forwards a bounded number of requests at the same time.
func TestForwardedRequestsAreBounded(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	behind := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer behind.Close()
	handler := forwardAny(behind.Listener.Addr().String())
	request := func() int {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:1/", nil)
		handler.ServeHTTP(w, r)
		return w.Code
	}
	var group sync.WaitGroup
	for range maxForwarded {
		group.Go(func() {
			if code := request(); code != http.StatusOK {
				t.Errorf("a request: %d", code)
			}
		})
	}
	for range maxForwarded {
		<-arrived
	}
	if code := request(); code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", code)
	}
	close(release)
	group.Wait()
}
