package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// behind is the value of asServer that makes the test binary one of the servers that come and go.
const behind = "behind"

type address struct {
	URL string `json:"url"`
}

// newBehind is one of the servers behind the bridge.
func newBehind() *server.Server {
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

// behindFile writes a configuration with servers of these aliases and returns its path.
func behindFile(t *testing.T, aliases ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcp.json")
	write(t, path, behindConfig(t, aliases...))
	return path
}

func behindConfig(t *testing.T, aliases ...string) string {
	t.Helper()
	servers := make(map[string]any)
	for _, alias := range aliases {
		servers[alias] = map[string]any{
			"command": os.Args[0],
			"env":     map[string]string{asServer: behind, "GORACE": "atexit_sleep_ms=0"},
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

// answer is the text of a tool's answer.
func answer(ctx context.Context, s *client.Session, tool string, arguments any) (string, error) {
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

// hasServers checks that the listed tools are the tools of servers with these aliases. Each server must run in a
// process of its own.
func hasServers(t *testing.T, s *client.Session, aliases ...string) {
	t.Helper()
	processes := make(map[string]bool)
	for _, alias := range aliases {
		process, err := answer(t.Context(), s, alias+"__process", struct{}{})
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

func TestServeOverStdio(t *testing.T) {
	path := behindFile(t, "one", "two")
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			program := stdio.Command(os.Args[0], []string{"serve", "-config", path}, &stdio.CommandOptions{Env: []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}})
			hasServers(t, connect(t, program, era), "one", "two")
		})
	}
}

// followed returns a hub that reads its file all the time.
func followed(t *testing.T, path string, log io.Writer) *hub {
	t.Helper()
	return changedBeforeFollow(t, &serveOptions{config: path}, log, func() {})
}

// changedBeforeFollow is followed for a hub with other options. change is called between the first
// reading of the files and the beginning of the watch.
func changedBeforeFollow(t *testing.T, o *serveOptions, log io.Writer, change func()) *hub {
	t.Helper()
	o.reload = 10 * time.Millisecond
	h := &hub{opts: o, env: &environment{stderr: io.Discard}, logger: slog.New(slog.NewTextHandler(log, nil))}
	if err := h.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	change()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.follow(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestServersComeAndGoWhileACallGoesOn(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			path := behindFile(t, "one", "two")
			d := followed(t, path, io.Discard)
			changed := make(chan struct{}, 16)
			session, err := client.Connect(t.Context(), transport.Pipe(d.server), &client.Options{
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
			before, err := answer(t.Context(), session, "one__process", struct{}{})
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
				_, err := answer(t.Context(), session, "one__visit", address{place.URL})
				answered <- err
			}()
			<-visited
			write(t, path, behindConfig(t, "one", "three"))
			for names := toolNames(t, session); !names["three__process"] || names["two__process"]; names = toolNames(t, session) {
				<-changed
			}
			hasServers(t, session, "one", "three")
			if after, err := answer(t.Context(), session, "one__process", struct{}{}); err != nil || after != before {
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
	path := behindFile(t, "one")
	said := &output{}
	session := connect(t, transport.Pipe(followed(t, path, said).server), client.Auto)
	before, err := answer(t.Context(), session, "one__process", struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"mcpServers": {`)
	said.await(t, "was not applied")
	if after, err := answer(t.Context(), session, "one__process", struct{}{}); err != nil || after != before {
		t.Errorf("the server runs in process %s, error %v, before in %s", after, err, before)
	}
	hasServers(t, session, "one")
}

func TestFilesChangeBeforeTheyAreWatched(t *testing.T) {
	path, lock := behindFile(t, "one"), filepath.Join(t.TempDir(), "mcp.lock")
	empty := pin.NewLock(lock)
	if err := empty.Save(); err != nil {
		t.Fatal(err)
	}
	said := &output{}
	changedBeforeFollow(t, &serveOptions{config: path, lock: lock}, said, func() {
		write(t, path, behindConfig(t, "two"))
		write(t, lock, "{")
	})
	said.await(t, "the new configuration was applied")
	said.await(t, "the lock file was not read")
}

func TestUnchangedFileIsNotAppliedAgain(t *testing.T) {
	path := behindFile(t, "one")
	said := &output{}
	followed(t, path, said)
	write(t, path, behindConfig(t, "two"))
	said.await(t, "the new configuration was applied")
	if n := strings.Count(said.String(), "was applied"); n != 1 {
		t.Errorf("%d configurations were applied:\n%s", n, said)
	}
}
