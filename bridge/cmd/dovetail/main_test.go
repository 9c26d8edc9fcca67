package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// asServer makes the test binary a server. The value says which one.
const asServer = "INSPECT_TEST_SERVER"

// asProgram makes the test binary dovetail itself.
const asProgram = "INSPECT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if path := os.Getenv(hostileFile); path != "" {
		serveHostile(path)
		return
	}
	if name := os.Getenv(hostileLists); name != "" {
		hostileServers[name].serve(os.Stdin, os.Stdout)
		return
	}
	if os.Getenv(asProgram) != "" {
		status := runProcess()
		if path := os.Getenv(peakFile); path != "" {
			writePeak(path)
		}
		os.Exit(int(status))
	}
	var err error
	switch os.Getenv(asServer) {
	case "":
		leaktest.Main(m)
	case shelf:
		err = serveShelf()
	case behind:
		err = stdio.Serve(context.Background(), newBehind(), nil)
	case once:
		err = serveOnce()
	case documented:
		err = stdio.Serve(context.Background(), newDocumented(), nil)
	case silent:
		_, err = io.Copy(io.Discard, os.Stdin)
	default:
		err = stdio.Serve(context.Background(), newServer(), nil)
	}
	if err != nil {
		os.Exit(1)
	}
}

type greeting struct {
	Name string `json:"name"`
}

func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "target", Version: "1"}, &server.Options{PageSize: 2})
	for _, name := range []string{"one", "two", "three", "greet"} {
		server.AddTool(s, server.Tool{Name: name}, func(_ context.Context, r *server.Request, in greeting) (string, error) {
			if in.Name == "" {
				return "", errors.New("nobody to greet")
			}
			return "<hello> " + in.Name, nil
		})
	}
	server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		in, err := server.Elicit[greeting](r, "name", "Who are you?")
		return in.Name, err
	})
	server.AddTool(s, server.Tool{Name: "number"}, func(_ context.Context, _ *server.Request, in struct {
		Count int `json:"count"`
	}) (int, error) {
		return in.Count, nil
	})
	server.AddTool(s, server.Tool{Name: "count"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		return "", errors.Join(r.Progress(ctx, 1, 2, "one"), r.Progress(ctx, 2, 0, "two"))
	})
	server.AddTool(s, server.Tool{Name: "add"}, func(context.Context, *server.Request, struct{}) (string, error) {
		added, err := server.NewPrompt(server.Prompt{Name: "added"}, func(context.Context, *server.Request, struct{}) (string, error) {
			return "", nil
		})
		return "", errors.Join(err, s.Replace(added))
	})
	server.AddTemplate(s, server.Template{URITemplate: "greet://{name}"}, func(_ context.Context, _ *server.Request, in greeting) (string, error) {
		return "hello " + in.Name, nil
	})
	server.AddCompletion(s, server.Completion{Template: "greet://{name}", Argument: "name"},
		func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
			return []string{"Ada", "Alan"}, nil
		})
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(_ context.Context, _ *server.Request, in greeting) (string, error) {
		return "Greet " + in.Name, nil
	})
	return s
}

// child is the test server as a command.
func child(t *testing.T) []string {
	t.Helper()
	t.Setenv(asServer, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else each server sleeps a second at its end, under the race detector
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--", self}
}

// web serves the test server over HTTP and returns the base of its URLs: /mcp, /sse
// and /ws. It wants to be greeted by a header.
func web(t *testing.T) string {
	t.Helper()
	s := newServer()
	main, events, sockets := streamable.Handler(s, nil), sse.Handler(s, nil), ws.Handler(s, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", main)
	mux.Handle("/sse", events)
	mux.Handle("/ws", sockets)
	polite := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Equal(r.Header.Values("Greeting"), []string{"hello: world"}) {
			http.Error(w, "no greeting", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
	served := httptest.NewServer(polite)
	t.Cleanup(func() {
		main.Close()
		events.Close()
		sockets.Close()
		served.Close()
	})
	return served.URL
}

// greeted is the flag that web wants.
var greeted = []string{"-header", "Greeting: hello: world"}

// targets are the command lines for the test server, before and after the verb, and the
// expected protocol version.
var targets = map[string]struct {
	open    func(t *testing.T) (flags, target []string)
	version string
}{
	"command": {func(t *testing.T) ([]string, []string) { return nil, child(t) }, "2026-07-28"},
	"http":    {func(t *testing.T) ([]string, []string) { return greeted, []string{web(t) + "/mcp"} }, "2026-07-28"},
	"http+sse": {func(t *testing.T) ([]string, []string) {
		return greeted, []string{web(t) + "/sse"}
	}, "2026-07-28"},
	"ws": {func(t *testing.T) ([]string, []string) {
		return greeted, []string{"ws" + strings.TrimPrefix(web(t), "http") + "/ws"}
	}, "2026-07-28"},
}

// dovetail runs a command line on the test server, as a command, and returns its output.
func dovetail(t *testing.T, line ...string) (stdout string, err error) {
	t.Helper()
	return inspectAt(t, append(line, child(t)...)...)
}

// inspectAt runs a command line that has a target.
func inspectAt(t *testing.T, line ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	err = run(t.Context(), line, strings.NewReader(""), &out, io.Discard)
	return out.String(), err
}

// withTarget adds a target to a line: a command at the end, and a URL after the verb.
func withTarget(line, target []string) []string {
	if target[0] == "--" {
		return append(line, target...)
	}
	at := slices.IndexFunc(line, func(word string) bool { return verbs[word] != nil })
	return slices.Insert(line, at+1, target...)
}

func TestVerbsPrintResults(t *testing.T) {
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			flags, target := target.open(t)
			for _, test := range verbTests {
				t.Run(test.line, func(t *testing.T) {
					line := slices.Concat(flags, withTarget(strings.Fields(test.line), target))
					checkPrinted(t, line, test.want)
				})
			}
		})
	}
}

var verbTests = []struct {
	line string
	want []string // parts of the output
}{
	{"info", []string{`"name": "target"`}},
	{"-era legacy info", []string{`"protocolVersion": "2025-11-25"`}},
	{"tools", []string{`"one"`, `"two"`, `"three"`, `"greet"`, `"ask"`}}, // three pages
	{"resources", []string{`"resources": []`}},
	{"templates", []string{`"uriTemplate": "greet://{name}"`}},
	{"prompts", []string{`"name": "greet"`}},
	{"skills", []string{`"skills": []`}},
	{`call greet {"name":"Ada"}`, []string{`"text": "<hello> Ada"`}},
	{"call greet name=Ada", []string{`"text": "<hello> Ada"`}},
	{`call greet name:="Ada"`, []string{`"text": "<hello> Ada"`}},
	{"read greet://Ada", []string{`"text": "hello Ada"`}},
	{`prompt greet {"name":"Ada"}`, []string{`"text": "Greet Ada"`}},
	{"prompt greet name=Ada", []string{`"text": "Greet Ada"`}},
	{"complete resource greet://{name} name A", []string{`"Ada"`, `"Alan"`}},
	{"complete prompt greet name A", []string{`"values": []`}},
	{"ping", []string{"{}"}},
}

// checkPrinted runs a command line that prints a JSON document with some parts.
func checkPrinted(t *testing.T, line, parts []string) {
	t.Helper()
	out, err := inspectAt(t, line...)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid([]byte(out)) {
		t.Errorf("printed no JSON document:\n%s", out)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			t.Errorf("printed without %s:\n%s", part, out)
		}
	}
	if strings.Contains(out, "nextCursor") {
		t.Errorf("printed a cursor:\n%s", out)
	}
}

func TestNewestVersionIsFound(t *testing.T) {
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			flags, at := target.open(t)
			checkPrinted(t, slices.Concat(flags, []string{"info"}, at), []string{`"protocolVersion": "` + target.version + `"`})
		})
	}
}

func TestVerboseShowsMessages(t *testing.T) {
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			flags, at := target.open(t)
			var shown bytes.Buffer
			if err := run(t.Context(), slices.Concat(flags, []string{"-verbose", "tools"}, at), strings.NewReader(""), io.Discard, &shown); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{`→ {`, `"method":"tools/list"`, `← {`, `"inputSchema"`} {
				if !strings.Contains(shown.String(), want) {
					t.Errorf("%s is not shown in:\n%s", want, &shown)
				}
			}
		})
	}
}

func TestServerThatRefusesIsNamed(t *testing.T) {
	_, err := inspectAt(t, "tools", web(t)+"/mcp") // without the header that it wants
	if err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("error = %v, want the status", err)
	}
}

func TestToolErrorIsPrintedAndExitsWithTwo(t *testing.T) {
	out, err := dovetail(t, "call", "greet", `{"name":""}`)
	var status exitStatus
	if !errors.As(err, &status) || status != 2 {
		t.Errorf("error = %v, want exit status 2", err)
	}
	if !strings.Contains(out, "nobody to greet") {
		t.Errorf("printed:\n%s", out)
	}
}

func TestQuestionWithoutTerminalIsDeclined(t *testing.T) {
	out, err := dovetail(t, "call", "ask")
	if err != toolFailed || !strings.Contains(out, "decline") {
		t.Errorf("error = %v, printed:\n%s", err, out)
	}
}

func TestWrongCommandLinesSayWhatIsExpected(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"frobnicate", "unknown command"},
		{"call", "expected: call NAME [ARGUMENTS]"},
		{"call greet [1]", "one JSON object, or name=text and name:=json"},
		{"call greet {}{}", "expected one JSON object"},
		{"call greet {} name=x", "expected one JSON object"},
		{"call greet name:=Ada", `name:= must be followed by JSON, not by "Ada"; name=Ada is text`},
		{"call greet name=Ada name=Alan", "is there twice"},
		{"complete tool x y z", "expected: complete prompt"},
		{"-era stone tools", "expected auto, modern or legacy"},
		{"call nothing", "unknown tool"},
	} {
		t.Run(test.line, func(t *testing.T) {
			out, err := dovetail(t, strings.Fields(test.line)...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			if out != "" {
				t.Errorf("printed:\n%s", out)
			}
		})
	}
}

func TestInterruptWhileConnecting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that net/http notices the end of the connection
		cancel()
		<-r.Context().Done()
	}))
	defer silent.Close()
	if err := run(ctx, []string{"tools", silent.URL}, strings.NewReader(""), io.Discard, io.Discard); statusOf(err) != failed || err.Error() != "interrupted" {
		t.Errorf("error = %v", err)
	}
}

func TestWrongTargetsSayWhatIsExpected(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"tools", "expected a server"},
		{"tools --", "expected a command"},
		{"read greet://Ada", "expected a URL that begins with http"},
		{"-header Greeting tools http://127.0.0.1", `expected "name: value"`},
		{"-header-env INSPECT_TEST_UNSET tools http://127.0.0.1", `the variable is not set, or has no header: expected "name: value"`},
		{"-header Greeting:hello tools -- true", "-header is for servers at a URL"},
		{"tools http://127.0.0.1:1/mcp", "127.0.0.1:1"},
		{"tools ws://127.0.0.1:1/ws", "127.0.0.1:1"},
	} {
		t.Run(test.line, func(t *testing.T) {
			var out, said strings.Builder
			err := run(t.Context(), strings.Fields(test.line), strings.NewReader(""), &out, &said)
			if err == nil || !strings.Contains(err.Error()+said.String(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			if out.Len() > 0 {
				t.Errorf("printed:\n%s", &out)
			}
		})
	}
}
