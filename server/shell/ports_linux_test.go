package shell

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/porttest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
)

// TestForeignPort: only servers that commands of the shell have started are forwarded.
func TestForeignPort(t *testing.T) {
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") }))
	defer foreign.Close()
	foreignPort := foreign.Listener.Addr().(*net.TCPAddr).Port
	u := newUser(t, nil)
	if got := u.call("register_port", fmt.Sprintf(`{"port":%d}`, foreignPort)); !strings.Contains(got, "that no command of this shell has started") {
		t.Errorf("a foreign service: %s", got)
	}
	for name, script := range map[string]string{
		"a command":            "exec $SELF",
		"a child":              "$SELF & wait",
		"a session of its own": "setsid $SELF & wait",
		"an orphan":            "(setsid $SELF &) ; sleep 1000",
	} {
		for _, host := range []string{"127.0.0.1", "", "[::1]"} {
			if host == "[::1]" {
				listener, err := net.Listen("tcp", "[::1]:0")
				if err != nil {
					continue // not every machine has IPv6
				}
				listener.Close()
			}
			port := porttest.Free(t)
			script := strings.ReplaceAll(script, "$SELF", fmt.Sprintf("env %s=%s:%d %s", serveVariable, host, port, os.Args[0]))
			started, err := json.Marshal(map[string]string{"command": script})
			if err != nil {
				t.Fatal(err)
			}
			var job struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(u.call("run_background", string(started))), &job); err != nil {
				t.Fatal(err)
			}
			var at portURL
			if got := u.call("register_port", fmt.Sprintf(`{"port":%d}`, port)); json.Unmarshal([]byte(got), &at) != nil {
				t.Fatalf("%s at %q: %s", name, host, got)
			}
			if body := get(t, at.URL); body != "own" {
				t.Errorf("%s at %q: %s", name, host, body)
			}
			u.call("background_stop", `{"id":`+string(job.ID)+`}`)
			// Another service gets the port of the command that has ended.
			var other net.Listener
			waittest.Until(t, "the port", func() bool {
				other, err = net.Listen("tcp", net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port)))
				return err == nil
			})
			later := httptest.NewUnstartedServer(foreign.Config.Handler)
			later.Listener.Close()
			later.Listener = other
			later.Start()
			if body := get(t, at.URL); strings.Contains(body, "secret") {
				t.Errorf("%s at %q: a later service is forwarded: %s", name, host, body)
			}
			later.Close()
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
