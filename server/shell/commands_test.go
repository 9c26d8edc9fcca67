//go:build unix

package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
)

func TestBackground(t *testing.T) {
	t.Parallel() // it waits
	u := newUser(t, nil)
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
	u := newUser(t, nil)
	heard := make(chan *mcp.ProgressParams, 100)
	_, err := u.CallTool(t.Context(), "run_command", json.RawMessage(`{"command":"echo begun; until [ -e heard ]; do sleep 0.01; done"}`),
		&client.CallOptions{Progress: func(p *mcp.ProgressParams) {
			heard <- p
			if err := os.WriteFile(filepath.Join(u.files.Dir(), "heard"), nil, 0o600); err != nil {
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

// Slow progress reports lose no output of a command.
func TestSlowProgress(t *testing.T) {
	t.Parallel() // it waits
	u := newUser(t, nil)
	result, err := u.CallTool(t.Context(), "run_command", json.RawMessage(`{"command":"for i in 1 2 3 4 5 6 7 8; do printf %08000d $i; sleep 0.1; done"}`),
		&client.CallOptions{Progress: func(*mcp.ProgressParams) { <-time.After(time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	var got commandResult
	if err := json.Unmarshal(result.StructuredContent, &got); err != nil || len(got.Stdout) != 64000 || got.Truncated {
		t.Errorf("%d bytes, truncated %t, %v", len(got.Stdout), got.Truncated, err)
	}
}

// A call that is given up ends its command.
func TestCancelledCommand(t *testing.T) {
	u := newUser(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	exists := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(filepath.Join(u.files.Dir(), name))
			return err == nil
		}
	}
	called := make(chan error, 1)
	go func() {
		_, err := u.CallTool(ctx, "run_command", json.RawMessage(`{"command":"trap 'touch ended; exit' TERM; touch begun; while :; do sleep 0.01; done"}`), nil)
		called <- err
	}()
	waittest.Until(t, "the start of the command", exists("begun"))
	cancel()
	if err := waittest.Receive(t, "the end of the call", called); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ends with %v", err)
	}
	waittest.Until(t, "the end of the command", exists("ended"))
}

// A page of a server in the sandbox is seen at the URL, but not under another name.
func TestRegisteredPort(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello from %s, forwarded %t", r.URL.Path, r.Header.Get("X-Forwarded-For") != "")
	}))
	defer web.Close()
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t, &Options{Ports: []int{number}})
	var at portURL
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
	u := newUser(t, nil)
	u.shell.ports.owns = func(string) bool { return true }
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
	for len(ends) < defaultMaxPorts {
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
