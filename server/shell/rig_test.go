//go:build unix

package shell

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
	"github.com/dovetail-go/dovetail/transport"
)

// guard is set by TestMain.
var guard *process.Guard

func TestMain(m *testing.M) {
	guard = process.Main()
	if address := os.Getenv(serveVariable); address != "" {
		serveTest(address)
	}
	// Guard processes of a test with the race detector would wait a second each when they end.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	leaktest.Main(m)
}

// serveVariable makes the test binary an HTTP server at the address that it has.
const serveVariable = "SHELL_TEST_SERVE"

func serveTest(address string) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "own") })
	fmt.Fprintln(os.Stderr, http.ListenAndServe(address, handler))
	os.Exit(1)
}

// A user is a client of a server with the tools of a shell and of its workspace.
type user struct {
	*client.Session
	t     *testing.T
	shell *Shell
	files *workspace.Workspace
}

// newUser starts a shell in a directory of its own. opts may be nil.
func newUser(t *testing.T, opts *Options) *user {
	t.Helper()
	return newUserOf(t, opts, client.Modern)
}

func newUserOf(t *testing.T, opts *Options, era client.Era) *user {
	t.Helper()
	return newUserWith(t, guard, opts, era)
}

// newGitUser is newUser without guard processes, each of which is this program. Tests of Git start hundreds of commands.
func newGitUser(t *testing.T, opts *Options) *user {
	t.Helper()
	return newUserWith(t, new(process.Guard), opts, client.Modern)
}

func newUserWith(t *testing.T, guard *process.Guard, opts *Options, era client.Era) *user {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	opts.Logger = slog.New(slog.DiscardHandler)
	opts.Env = append(opts.Env, process.Variables("GORACE")...)
	files, err := workspace.Open(t.TempDir(), &workspace.Options{Protected: []string{".git"}})
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, files: files}
	if u.shell, err = New(guard, files, opts); err != nil {
		t.Fatal(err)
	}
	entries, err := workspace.Tools(files)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := u.shell.Tools()
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "shell", Version: "1"}, &server.Options{Logger: opts.Logger})
	if err := s.Replace(append(entries, tools...)...); err != nil {
		t.Fatal(err)
	}
	if u.Session, err = client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		u.Session.Close()
		if err := u.shell.Close(); err != nil {
			t.Error(err)
		}
		files.Close()
	})
	return u
}

// call returns the text of a tool's result. The text of a failure begins with "error: ".
func (u *user) call(tool, arguments string) string {
	u.t.Helper()
	result, err := u.CallTool(u.t.Context(), tool, json.RawMessage(arguments), nil)
	if err != nil {
		return "failure: " + err.Error()
	}
	var text strings.Builder
	if result.IsError {
		text.WriteString("error: ")
	}
	for _, content := range result.Content {
		text.WriteString(content.(*mcp.TextContent).Text)
	}
	return text.String()
}
