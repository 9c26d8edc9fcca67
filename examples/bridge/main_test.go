package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Variables that make the test's binary one of the servers, or the program.
const (
	asServer  = "BRIDGE_TEST_SERVER"
	asProgram = "BRIDGE_TEST_CONFIG"
)

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		if err := stdio.Serve(context.Background(), newServer(), nil); err != nil {
			log.Fatal(err)
		}
		return
	}
	if path := os.Getenv(asProgram); path != "" {
		os.Args = append(os.Args[:1], "-config", path)
		main()
		return
	}
	leaktest.Main(m)
}

type address struct {
	URL string `json:"url"`
}

// newServer is one of the servers behind the bridge.
func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "behind", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "process"}, func(context.Context, *server.Request, struct{}) (int, error) {
		return os.Getpid(), nil
	})
	server.AddTool(s, server.Tool{Name: "visit"}, func(ctx context.Context, _ *server.Request, in address) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, in.URL, nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		return response.Status, response.Body.Close()
	})
	return s
}

// configured writes a configuration with servers of these aliases and returns its path.
func configured(t *testing.T, aliases ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	write(t, path, configuration(t, aliases...))
	return path
}

func configuration(t *testing.T, aliases ...string) string {
	t.Helper()
	servers := make(map[string]any)
	for _, alias := range aliases {
		servers[alias] = map[string]any{
			"command": os.Args[0],
			"env":     map[string]string{asServer: alias, "GORACE": "atexit_sleep_ms=0"},
		}
	}
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// write replaces a file atomically, as editors do.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// said is the text of a tool's answer.
func said(ctx context.Context, s *client.Session, tool string, arguments any) (string, error) {
	result, err := s.CallTool(ctx, tool, arguments, nil)
	if err != nil {
		return "", err
	}
	text, ok := result.Content[0].(*mcp.TextContent)
	if !ok || result.IsError {
		return "", fmt.Errorf("%s answers %v", tool, result.Content[0])
	}
	return text.Text, nil
}

func connect(t *testing.T, dialer transport.Dialer, era client.Era) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, &client.Options{Era: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// hasServers checks that the tools are those of servers with these aliases, each of which
// runs in a process of its own.
func hasServers(t *testing.T, s *client.Session, aliases ...string) {
	t.Helper()
	processes := make(map[string]bool)
	for _, alias := range aliases {
		process, err := said(t.Context(), s, alias+"__process", struct{}{})
		if err != nil {
			t.Errorf("%s: %v", alias, err)
		}
		processes[process] = true
	}
	if len(processes) != len(aliases) {
		t.Errorf("%d servers run in the processes %v", len(aliases), processes)
	}
	if got, want := len(toolNames(t, s)), 2*len(aliases); got != want {
		t.Errorf("%d tools, want %d", got, want)
	}
}

func toolNames(t *testing.T, s *client.Session) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for tool, err := range s.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names[tool.Name] = true
	}
	return names
}

var eras = map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy}

func TestProgramOverStdio(t *testing.T) {
	path := configured(t, "one", "two")
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			program := stdio.Command(os.Args[0], nil, &stdio.CommandOptions{Env: []string{asProgram + "=" + path, "GORACE=atexit_sleep_ms=0"}})
			hasServers(t, connect(t, program, era), "one", "two")
		})
	}
}

func TestProgramOverHTTP(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, configured(t, "one", "two"), "127.0.0.1:0", w)
		w.CloseWithError(err)
		ended <- err
	}()
	lines := bufio.NewReader(log)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, lines)
	url := regexp.MustCompile(`http://127[\d.:]+`).FindString(line)
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			hasServers(t, connect(t, streamable.Dial(url+"/mcp", nil), era), "one", "two")
		})
	}
	response, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var health []struct{ Alias, Status string }
	if err := json.NewDecoder(response.Body).Decode(&health); err != nil || len(health) != 2 || health[0].Status != "ready" {
		t.Errorf("health is %v, error %v", health, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("told to end, the program says %v", err)
	}
}

func TestProgramSaysWhatIsWrong(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "mcp.json")
	for text, want := range map[string]string{
		`{`: broken + ":1:2",
		`{"mcpServers": {"": {"url": "http://localhost"}}}`:                                                                       `the alias ""`,
		`{"mcpServers": {"a": {"command": "${BRIDGE_TEST_UNSET}"}}}`:                                                              "server a: command: ",
		`{"servers": {"a": {"command": "x", "args": ["${input:my-key}"]}}, "inputs": [{"id": "my-key", "type": "promptString"}]}`: "INPUT_MY_KEY",
	} {
		write(t, broken, text)
		if err := run(t.Context(), broken, "", io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// A followed desk looks at its file all the time.
func followed(t *testing.T, path string, log io.Writer) *desk {
	t.Helper()
	d, err := open(t.Context(), path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.follow(ctx, 10*time.Millisecond)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := d.face.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestServersComeAndGoWhileACallGoesOn(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			path := configured(t, "one", "two")
			d := followed(t, path, io.Discard)
			changed := make(chan struct{}, 16)
			session, err := client.Connect(t.Context(), transport.Pipe(d.face), &client.Options{
				Era: era, OnChange: func(context.Context, mcp.Change) { changed <- struct{}{} },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			listening, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
			if err != nil {
				t.Fatal(err)
			}
			defer listening.Close()
			before, err := said(t.Context(), session, "one__process", struct{}{})
			if err != nil {
				t.Fatal(err)
			}

			visited, leave := make(chan struct{}), make(chan struct{})
			place := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				close(visited)
				<-leave
			}))
			defer place.Close()
			answered := make(chan error, 1)
			go func() {
				_, err := said(t.Context(), session, "one__visit", address{place.URL})
				answered <- err
			}()
			<-visited
			write(t, path, configuration(t, "one", "three"))
			for names := toolNames(t, session); !names["three__process"] || names["two__process"]; names = toolNames(t, session) {
				<-changed
			}
			hasServers(t, session, "one", "three")
			if after, err := said(t.Context(), session, "one__process", struct{}{}); err != nil || after != before {
				t.Errorf("the server that stayed runs in process %s, error %v, before in %s", after, err, before)
			}
			select {
			case err := <-answered:
				t.Errorf("the call ended too early: %v", err)
			default:
			}
			close(leave)
			if err := <-answered; err != nil {
				t.Errorf("the call that went on: %v", err)
			}
		})
	}
}

func TestBrokenFileChangesNothing(t *testing.T) {
	path := configured(t, "one")
	log := make(lines, 16)
	session := connect(t, transport.Pipe(followed(t, path, log).face), client.Auto)
	before, err := said(t.Context(), session, "one__process", struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range []string{
		`{"mcpServers": {`,
		`{"mcpServers": {"two": {"command": "${BRIDGE_TEST_UNSET}"}}}`,
		`{"mcpServers": {"one": {"command": "a", "dovetail": {"frobnicate": true}}}}`,
	} {
		write(t, path, broken)
		log.await(t, "was not applied")
		if after, err := said(t.Context(), session, "one__process", struct{}{}); err != nil || after != before {
			t.Errorf("after %s the server runs in process %s, error %v, before in %s", broken, after, err, before)
		}
		hasServers(t, session, "one")
	}
}

// lines takes a log, line by line.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
		return len(line), nil
	default:
		return 0, errors.New("nobody reads the log")
	}
}

func (l lines) await(t *testing.T, part string) {
	t.Helper()
	for {
		select {
		case line := <-l:
			if strings.Contains(line, part) {
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("the log does not say %q", part)
		}
	}
}
