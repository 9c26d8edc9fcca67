package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// silent is a client that hears nothing.
type silent struct{}

func (silent) Handle(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing"}
}
func (silent) Notified(jsonrpc.Peer, *jsonrpc.Request) {}

func resolve(t *testing.T, server string, env map[string]string) *config.Resolved {
	t.Helper()
	r, err := one(t, server).Expand(t.Context(), &config.Expander{LookupEnv: lookup(env)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func dial(t *testing.T, r *config.Resolved, opts *config.DialOptions) transport.Conn {
	t.Helper()
	dialer, err := r.Dialer(opts)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dialer.Dial(t.Context(), silent{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// started runs this binary as the server and returns what it was given.
func started(t *testing.T, options string) start {
	t.Helper()
	t.Setenv("CONFIG_TEST_SECRET", canary)
	t.Setenv("CONFIG_TEST_PASSED", "passed")
	r := resolve(t, `{"command":"${SELF}","args":["one","two ${V}"],"env":{"B":"${V}","`+childVariable+`":"1"}`+options+`}`,
		map[string]string{"SELF": os.Args[0], "V": "v w", "CONFIG_TEST_PASSED": "passed"})
	resp, err := dial(t, r, nil).Call(t.Context(), "start", jsonrpc.Raw(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	var s start
	if err := json.Unmarshal(resp.Result, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestChildGetsWhatTheFileSays(t *testing.T) {
	s := started(t, "")
	if diff := cmp.Diff([]string{"one", "two v w"}, s.Args); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(s.Env, "B=v w") {
		t.Errorf("no variable of the file in %q", s.Env)
	}
	if tells(strings.Join(s.Env, "\n")) || len(s.Env) > 16 {
		t.Errorf("this process's environment is in %q", s.Env)
	}
	if slices.Contains(s.Env, "CONFIG_TEST_PASSED=passed") {
		t.Error("a variable is passed on that was not named")
	}
}

func TestChildGetsVariablesThatAreNamed(t *testing.T) {
	s := started(t, `,"dovetail":{"passEnv":["CONFIG_TEST_PASSED","CONFIG_TEST_UNSET"]}`)
	if !slices.Contains(s.Env, "CONFIG_TEST_PASSED=passed") || tells(strings.Join(s.Env, "\n")) {
		t.Errorf("got %q", s.Env)
	}
}

func TestChildInheritsTheEnvironmentOnRequest(t *testing.T) {
	s := started(t, `,"dovetail":{"inheritEnv":true}`)
	if !tells(strings.Join(s.Env, "\n")) || !slices.Contains(s.Env, "B=v w") {
		t.Errorf("got %q", s.Env)
	}
}

func TestChildRunsInItsFolder(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if s := started(t, fmt.Sprintf(`,"cwd":%q`, dir)); s.Dir != dir {
		t.Errorf("it runs in %s, not in %s", s.Dir, dir)
	}
}

// Each type leads to its own transport, and the file's headers with it.
func TestRemoteServersGetTheHeaders(t *testing.T) {
	for kind, handler := range map[config.Type]interface {
		http.Handler
		Close() error
	}{
		config.HTTP:      streamable.Handler(teller{}, nil),
		config.SSE:       sse.Handler(teller{}, nil),
		config.WebSocket: ws.Handler(teller{}, nil),
	} {
		t.Run(string(kind), func(t *testing.T) {
			seen := make(chan http.Header, 16)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen <- r.Header.Clone()
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(func() { handler.Close(); web.Close() })
			r := resolve(t, fmt.Sprintf(`{"type":%q,"url":"${BASE}/mcp","headers":{"authorization":"Bearer ${T}","X-Fixed":"1"}}`, kind),
				map[string]string{"BASE": web.URL, "T": canary})
			conn := dial(t, r, &config.DialOptions{Header: func(_ context.Context, header http.Header) error {
				header.Set("X-Fixed", "2")
				header.Set("X-More", header.Get("Authorization"))
				return nil
			}})
			if kind == config.HTTP { // idle until it is called
				conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`))
			}
			header := <-seen
			got := []string{header.Get("Authorization"), header.Get("X-Fixed"), header.Get("X-More")}
			if diff := cmp.Diff([]string{"Bearer " + canary, "2", "Bearer " + canary}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCallTimeoutIsTheFiles(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server would not see the client go
		<-r.Context().Done()
	}))
	defer web.Close()
	for _, server := range []string{`{"url":%q,"timeout":20}`, `{"url":%q,"timeout":60000,"dovetail":{"callTimeout":"20ms"}}`} {
		conn := dial(t, resolve(t, fmt.Sprintf(server, web.URL), nil), nil)
		began := time.Now()
		if _, err := conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 10*time.Second {
			t.Errorf("%s: got %v after %v", server, err, time.Since(began))
		}
		conn.Close()
	}
}

func TestDialerOfAnUnknownType(t *testing.T) {
	if _, err := (&config.Resolved{Alias: "a"}).Dialer(nil); err == nil {
		t.Error("a server without a type has a dialer")
	}
}
