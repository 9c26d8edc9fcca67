package config_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// refuseAll is a client that refuses all calls.
type refuseAll struct{}

func (refuseAll) Handle(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing"}
}
func (refuseAll) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

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
	conn, err := dialer.Dial(t.Context(), refuseAll{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// started runs the test binary as the server and returns the command line and environment that it got.
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

func TestChildGetsArgumentsAndEnvironment(t *testing.T) {
	s := started(t, "")
	if diff := cmp.Diff([]string{"one", "two v w"}, s.Args); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(s.Env, "B=v w") {
		t.Errorf("no variable of the file in %q", s.Env)
	}
	if leaks(strings.Join(s.Env, "\n")) || len(s.Env) > 16 {
		t.Errorf("this process's environment is in %q", s.Env)
	}
	if slices.Contains(s.Env, "CONFIG_TEST_PASSED=passed") {
		t.Error("a variable that is not in passEnv is passed")
	}
}

func TestChildGetsVariablesThatAreNamed(t *testing.T) {
	s := started(t, `,"dovetail":{"passEnv":["CONFIG_TEST_PASSED","CONFIG_TEST_UNSET"]}`)
	if !slices.Contains(s.Env, "CONFIG_TEST_PASSED=passed") || leaks(strings.Join(s.Env, "\n")) {
		t.Errorf("got %q", s.Env)
	}
}

func TestChildInheritsTheEnvironmentOnRequest(t *testing.T) {
	s := started(t, `,"dovetail":{"inheritEnv":true}`)
	if !leaks(strings.Join(s.Env, "\n")) || !slices.Contains(s.Env, "B=v w") {
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

// Each type uses its own transport, with the headers of the file.
func TestRemoteServersGetTheHeaders(t *testing.T) {
	for kind, handler := range map[string]interface {
		http.Handler
		Close() error
	}{
		"http": streamable.Handler(reporter{}, nil),
		"sse":  sse.Handler(reporter{}, nil),
		"ws":   ws.Handler(reporter{}, nil),
	} {
		t.Run(kind, func(t *testing.T) {
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
			if kind == "http" { // sends nothing before the first call
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

// A keyholder adds a key to each request.
type keyholder struct{}

func (keyholder) Authorize(_ context.Context, _ *url.URL, req *http.Request) error {
	req.Header.Set("Authorization", "Bearer "+canary)
	return nil
}

func (keyholder) Challenged(context.Context, *url.URL, *http.Request, *http.Response) (bool, error) {
	return false, nil
}

func TestAuthorizerOfRemoteServers(t *testing.T) {
	for _, kind := range []string{"http", "sse", "ws"} {
		seen := make(chan string, 16)
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Get("Authorization")
			http.Error(w, "enough", http.StatusTeapot)
		}))
		dialer, err := resolve(t, fmt.Sprintf(`{"type":%q,"url":%q}`, kind, web.URL), nil).Dialer(&config.DialOptions{Authorizer: func(*config.Resolved) httptransport.Authorizer { return keyholder{} }})
		if err != nil {
			t.Fatal(err)
		}
		if conn, err := dialer.Dial(t.Context(), refuseAll{}); err == nil { // HTTP sends nothing before the first call
			_, _ = conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`)) // it is refused
			conn.Close()
		}
		web.Close()
		if got := <-seen; got != "Bearer "+canary {
			t.Errorf("%s: %q", kind, got)
		}
	}
}

func TestCallTimeoutOfTheFile(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that net/http notices the end of the connection
		<-r.Context().Done()
	}))
	defer web.Close()
	for _, server := range []string{`{"url":%q,"timeout":"20ms"}`, `{"url":%q,"timeout":60000,"dovetail":{"callTimeout":"20ms"}}`} {
		conn := dial(t, resolve(t, fmt.Sprintf(server, web.URL), nil), nil)
		waittest.Return(t, "the timeout of the file", func() {
			if _, err := conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v", server, err)
			}
		})
		conn.Close()
	}
}

func TestDialerOfAnUnknownType(t *testing.T) {
	if _, err := (&config.Resolved{Alias: "a"}).Dialer(nil); err == nil {
		t.Error("a server without a type has a dialer")
	}
}

// child serves a reporter.
func child() int {
	if err := stdio.Serve(context.Background(), reporter{}, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A start describes how a child was started.
type start struct {
	Args []string
	Env  []string
	Dir  string
}

// A reporter is a server that replies with a start.
type reporter struct{}

func (s reporter) Bind(transport.Link) jsonrpc.Handler { return s }

func (reporter) Handle(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	text, err := json.Marshal(start{Args: os.Args[1:], Env: os.Environ(), Dir: dir})
	if err != nil {
		return err
	}
	return reply.Write(jsonrpc.Raw(text))
}

func (reporter) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

func TestChildIsWrapped(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := resolve(t, `{"command":"child","args":["${A}"],"env":{"`+childVariable+`":"1"}}`, map[string]string{"A": "two"})
	conn := dial(t, r, &config.DialOptions{Dir: dir, Wrap: func(path string, args ...string) (string, []string) {
		return os.Args[0], append([]string{"wraps", path}, args...)
	}})
	resp, err := conn.Call(t.Context(), "start", jsonrpc.Raw(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	var s start
	if err := json.Unmarshal(resp.Result, &s); err != nil {
		t.Fatal(err)
	}
	if want := []string{"wraps", "child", "two"}; !slices.Equal(s.Args, want) || s.Dir != dir {
		t.Errorf("it was started with %q in %s", s.Args, s.Dir)
	}
}

// Names in allow and deny are expected tools; patterns are not.
func TestNamedToolsAreExpected(t *testing.T) {
	r := resolve(t, `{"command":"x","dovetail":{"tools":{"allow":["a","b*"],"deny":["c","*"],"override":{"d":{"name":"e"}}}}}`, nil)
	config, err := r.Bridge(nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "c"}; !slices.Equal(config.Expect, want) {
		t.Errorf("expected are %q, want %q", config.Expect, want)
	}
	if _, renamed := config.Rename["d"]; !renamed {
		t.Errorf("renamed are %v", config.Rename)
	}
}
