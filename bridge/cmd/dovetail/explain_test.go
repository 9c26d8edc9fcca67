package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// TestErrorsForPeople: an error is one sentence that says each thing once and what to do, and the errors of the library
// follow with -verbose only.
func TestErrorsForPeople(t *testing.T) {
	status := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no", len(r.URL.Path)+396) // /login: 402 and so on
	}))
	defer status.Close()
	useFolders(t)
	missing := filepath.Join(t.TempDir(), "nothing")
	for _, test := range []struct {
		line []string
		want string
		code exitStatus
	}{
		{[]string{"ping", "http://127.0.0.1:1/mcp"}, "cannot connect to the server: 127.0.0.1:1: connect: connection refused; start the server there, or check the URL", unreachable},
		{[]string{"ping", "--", missing}, "cannot connect to the server: " + missing + ": no such file or directory; check the path of the program", unreachable},
		{[]string{"ping", "--", "no-such-program"}, `cannot connect to the server: the program "no-such-program" was not found; install it, or give its path`, unreachable},
		{[]string{"ping", "--", "sh", "-c", "echo Error: because >&2; exit 3"}, `cannot connect to the server: the server's process has ended: exit status 3: "Error: because"; -verbose shows all that it writes`, unreachable},
		{[]string{"ping", "--", "true"}, "cannot connect to the server: the server's process has ended: exit status 0; the command must be a server on standard input and output", unreachable},
		{[]string{"ping", status.URL + "/12345678"}, "cannot connect to the server: the URL answers with status 405 Method Not Allowed; it is probably not that of an MCP server, which often ends with /mcp", unreachable},
		{[]string{"ping", status.URL + "/1234"}, "cannot connect to the server: the server demands a token or key (status 401) and offers no login; give it with -header-env, or in the headers of the configuration file", needsLogin},
		{[]string{"ping", "-header", "x-api-key: k", status.URL + "/1234"}, `cannot connect to the server: the server refuses the credentials in the header "x-api-key" (status 401); check them`, needsLogin},
		{[]string{"ping", "-header", "authorization: Bearer k", status.URL + "/1234"}, "cannot connect to the server: the server refuses the credentials in the header Authorization (status 401 Unauthorized); check them", needsLogin},
		{[]string{"ping", "--", "sh", "-c", "exit 140"}, "cannot connect to the server: the server's process has ended: exit status 140; this status is that of a command that a signal has ended (user defined signal 2)", unreachable},
		{[]string{"ping", "--", "sh", "-c", "exit 3"}, "cannot connect to the server: the server's process has ended: exit status 3; it wrote no error: run the command by itself to see what it does", unreachable},
		{[]string{"pack"}, "pack needs -name, the name of the server in reverse DNS form, such as io.github.acme/calc", misused},
		{[]string{"pack", "-name", "io.github.acme/calc"}, "pack needs -build PACKAGE for a bundle", misused},
		{[]string{"migrate"}, "the folder . has no go.mod; expected the folder of a Go module", failed},
		{[]string{"migrate", "nowhere"}, "there is no folder nowhere; expected the folder of a Go module", failed},
		{[]string{"pong"}, `unknown command "pong"; did you mean "ping"?`, misused},
		{[]string{"help", "serv"}, `unknown command "serv"; did you mean "serve"?`, misused},
		{[]string{"-verbose", "tolls", "http://127.0.0.1:1/mcp"}, `unknown command "tolls"; did you mean "tools"?`, misused},
		{[]string{"ping", "-verbos", "http://127.0.0.1:1/mcp"}, `unknown flag -verbos; did you mean "-verbose"?`, misused},
		{[]string{"ping", "-x", "http://127.0.0.1:1/mcp"}, "unknown flag -x; dovetail help ping lists the flags", misused},
		{[]string{"serve", "-http", "127.0.0.1:0", "-approve", "terminl"}, `-approve: expected one of page, channel, terminal, caller, none; did you mean "terminal"?`, misused},
		{[]string{"list", "-client", "cursr"}, `unknown client "cursr"; did you mean "cursor"?`, misused},
		{[]string{"tools", "fils"}, `no client has a server "fils"; did you mean "files"?`, misused},
		{[]string{"tools", "other"}, `no client has a server "other": expected a URL, the name of a server that dovetail list prints`, misused},
		{[]string{"remove", "fils"}, `no client has a server "fils"; did you mean "files"?`, failed},
	} {
		t.Run(strings.Join(test.line, " "), func(t *testing.T) {
			err := run(t.Context(), test.line, strings.NewReader(""), io.Discard, io.Discard)
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || statusOf(err) != test.code || strings.Contains(err.Error(), "\n") {
				t.Errorf("status %d, error = %v\nwant %s", statusOf(err), err, test.want)
			}
			if test.code != unreachable {
				return
			}
			err = run(t.Context(), append([]string{"-verbose"}, test.line...), strings.NewReader(""), io.Discard, io.Discard)
			want, _, _ := strings.Cut(test.want, "; -verbose")
			if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "\nclient: ") || strings.Contains(err.Error(), "-verbose shows") || slices.Contains(test.line, "--") && strings.Contains(err.Error(), "before that") {
				t.Errorf("with -verbose the error = %v", err)
			}
		})
	}
}

// A replay against a server that cannot be reached says what to do, as other commands do.
func TestReplayExplainsAFailedConnection(t *testing.T) {
	path, config := filepath.Join(t.TempDir(), "session.jsonl"), filepath.Join(t.TempDir(), "mcp.json")
	writeConfig(t, config, map[string]any{"a": childConfig(t)})
	if out, err := inspectAt(t, "ping", "-record", path, "-config", config, "a"); err != nil {
		t.Fatalf("error %v:\n%s", err, out)
	}
	for _, test := range []struct {
		target []string
		want   string
	}{
		{[]string{"http://127.0.0.1:1/mcp"}, "connection refused; start the server there, or check the URL"},
		{[]string{"--", "no-such-program"}, "was not found; install it, or give its path"},
		{[]string{"--", "true"}, "the command must be a server on standard input and output"},
	} {
		_, err := inspectAt(t, append([]string{"replay", path}, test.target...)...)
		if statusOf(err) != unreachable || !strings.HasPrefix(err.Error(), "cannot connect to the server: ") || !strings.HasSuffix(err.Error(), test.want) {
			t.Errorf("%v: status %d, error = %v, want %s", test.target, statusOf(err), err, test.want)
		}
	}
}

// doctor says what to do about a server that cannot be reached.
func TestDoctorAdvisesOnAFailedConnection(t *testing.T) {
	for want, target := range map[string][]string{
		"start the server there, or check the URL": {"http://127.0.0.1:1/mcp"},
		"check the path of the program":            {"--", filepath.Join(t.TempDir(), "nothing")},
	} {
		if out, err := inspectAt(t, append([]string{"doctor"}, target...)...); err != checkFailed || !strings.Contains(out, "→ "+want+"\n") {
			t.Errorf("%v: error %v, want %s:\n%s", target, err, want, out)
		}
	}
}

// Progress without a message, as servers in the field send it, is printed without an empty one.
func TestProgressWithoutAMessage(t *testing.T) {
	var out strings.Builder
	total := 2.0
	newBar(io.Discard, &out).report(&mcp.ProgressParams{Progress: 1, Total: &total})
	if out.String() != "progress 1 of 2\n" {
		t.Errorf("printed %q", out.String())
	}
}

// list says that there is no server, and its JSON stays a list.
func TestListOfNoServers(t *testing.T) {
	useFolders(t)
	for flag, want := range map[string]string{"-json=false": "dovetail add adds one\n", "-json": ""} {
		var out, said strings.Builder
		err := run(t.Context(), []string{"list", "-project", flag}, strings.NewReader(""), &out, &said)
		if err != nil || !strings.HasSuffix(said.String(), want) || want == "" && (said.String() != "" || out.String() != "[]\n") {
			t.Errorf("%s: error %v, printed %q, said %q", flag, err, out.String(), said.String())
		}
	}
}

// The folder of the generated file is made, as it is in a new program.
func TestGenMakesTheFolder(t *testing.T) {
	path, config := filepath.Join(t.TempDir(), "shop", "client.go"), filepath.Join(t.TempDir(), "mcp.json")
	writeConfig(t, config, map[string]any{"a": childConfig(t)})
	for _, check := range []string{"-check=false", "-check"} {
		if out, err := inspectAt(t, "gen", check, "-package", "shop", "-o", path, "-config", config, "a"); err != nil {
			t.Fatalf("gen %s: error %v:\n%s", check, err, out)
		}
	}
}

// useFolders makes a home with a server named files.
func useFolders(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "USERPROFILE": home, "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "CODEX_HOME": ""} {
		t.Setenv(name, value)
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir(filepath.Join(home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".cursor", "mcp.json"), []byte(`{"mcpServers":{"files":{"command":"x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNamesAreSuggested: the list of the server is searched for a name or an argument that it does not know.
func TestNamesAreSuggested(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"call gret", `the server answered: unknown tool: "gret"; did you mean "greet"?`},
		{"-era legacy call gret", `the server answered: unknown tool: "gret"; did you mean "greet"?`},
		{"call nothing_like_it", `the server answered: unknown tool: "nothing_like_it"; tools lists the tools of the server`},
		{"prompt gret", `the server answered: unknown prompt: "gret"; did you mean "greet"?`},
		{"call greet nam=Ada", `dovetail: the tool failed; it has no argument "nam"; did you mean "name"?`},
		{"call number count=1", `dovetail: the tool failed; "count" is of the type integer: write count:=VALUE`},
		{"events x", "the server does not offer events; info shows what it offers"},
	} {
		t.Run(test.line, func(t *testing.T) {
			var out, said bytes.Buffer
			err := run(t.Context(), append(strings.Fields(test.line), child(t)...), strings.NewReader(""), &out, &said)
			if err == nil || !strings.Contains(err.Error()+said.String(), test.want) {
				t.Errorf("error = %v, want %s; printed:\n%s", err, test.want, &said)
			}
		})
	}
}

func TestClosestName(t *testing.T) {
	known := []string{"tools", "templates", "prompts", "prompt", "ping", "Read_File", "github__create_pull_request", "github__list_issues", "files__list_allowed_directories"}
	for name, want := range map[string]string{
		"tols": "tools", "tool": "tools", "pign": "ping", "promt": "prompt", "prompst": "prompts", "read_file": "Read_File", "templ": "templates",
		"github__create_pull_requst": "github__create_pull_request", "create_pull_requst": "github__create_pull_request", "list_al": "files__list_allowed_directories",
		"list": "github__list_issues", "list_isues": "github__list_issues", "promp": "prompt", "x": "", "": "", "frobnicate": "", strings.Repeat("tools", 100): "",
	} {
		if got := closestName(name, known); got != want {
			t.Errorf("closestName(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestTypingErrors(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abcd", 1}, {"kitten", "sitting", 3}, {"größe", "grösse", 2}} {
		if got := typingErrors(test.a, test.b); got != test.want {
			t.Errorf("typingErrors(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
