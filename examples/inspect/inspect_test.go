package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// asServer makes the test binary a server when it is run as inspect's target.
const asServer = "INSPECT_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		leak.Main(m)
	}
	if err := stdio.Serve(context.Background(), newServer(), nil); err != nil {
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

// inspect runs a command line on the test server and returns what it printed.
func inspect(t *testing.T, line ...string) (stdout string, err error) {
	t.Helper()
	t.Setenv(asServer, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // else each server sleeps a second at its end, under the race detector
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = run(t.Context(), append(line, "--", self), &out, io.Discard)
	return out.String(), err
}

func TestVerbsPrintResults(t *testing.T) {
	for _, test := range []struct {
		line string
		want []string // parts of what is printed
	}{
		{"info", []string{`"name": "target"`, `"protocolVersion": "2026-07-28"`}},
		{"-era legacy info", []string{`"protocolVersion": "2025-11-25"`}},
		{"tools", []string{`"one"`, `"two"`, `"three"`, `"greet"`, `"ask"`}}, // three pages
		{"resources", []string{`"resources": []`}},
		{"templates", []string{`"uriTemplate": "greet://{name}"`}},
		{"prompts", []string{`"name": "greet"`}},
		{`call greet {"name":"Ada"}`, []string{`"text": "<hello> Ada"`}},
		{"read greet://Ada", []string{`"text": "hello Ada"`}},
		{`prompt greet {"name":"Ada"}`, []string{`"text": "Greet Ada"`}},
		{"complete resource greet://{name} name A", []string{`"Ada"`, `"Alan"`}},
		{"complete prompt greet name A", []string{`"values": []`}},
		{"ping", []string{"{}"}},
	} {
		t.Run(test.line, func(t *testing.T) {
			out, err := inspect(t, strings.Fields(test.line)...)
			if err != nil {
				t.Fatal(err)
			}
			if !json.Valid([]byte(out)) {
				t.Errorf("printed no JSON document:\n%s", out)
			}
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("printed without %s:\n%s", want, out)
				}
			}
			if strings.Contains(out, "nextCursor") {
				t.Errorf("printed a cursor:\n%s", out)
			}
		})
	}
}

func TestToolErrorIsPrintedAndExitsWithTwo(t *testing.T) {
	out, err := inspect(t, "call", "greet", `{"name":""}`)
	var status exitStatus
	if !errors.As(err, &status) || status != 2 {
		t.Errorf("error = %v, want exit status 2", err)
	}
	if !strings.Contains(out, "nobody to greet") {
		t.Errorf("printed:\n%s", out)
	}
}

func TestQuestionWithoutTerminalIsDeclined(t *testing.T) {
	out, err := inspect(t, "call", "ask")
	if err != toolFailed || !strings.Contains(out, "decline") {
		t.Errorf("error = %v, printed:\n%s", err, out)
	}
}

func TestWrongCommandLinesSayWhatIsExpected(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"frobnicate", "unknown verb"},
		{"call", "expected: call NAME [JSON]"},
		{"call greet [1]", "must be a JSON object"},
		{"complete tool x y z", "expected: complete prompt"},
		{"-era stone tools", "expected auto, modern or legacy"},
		{"call nothing", "unknown tool"},
	} {
		t.Run(test.line, func(t *testing.T) {
			out, err := inspect(t, strings.Fields(test.line)...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
			if out != "" {
				t.Errorf("printed:\n%s", out)
			}
		})
	}
}

func TestTargetIsRequired(t *testing.T) {
	err := run(t.Context(), []string{"tools"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "expected a server") {
		t.Errorf("error = %v", err)
	}
}
