package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// asProgram makes the test binary the example itself.
const asProgram = "OPENAPI_EXAMPLE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		servertest.Main(m)
	}
	main()
}

func connect(t *testing.T, dialer transport.Dialer, era client.Era) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, &client.Options{Era: era})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// visit does what a client of the notes would do.
func visit(t *testing.T, session *client.Session) {
	t.Helper()
	defer session.Close()
	ctx := t.Context()
	call := func(tool, arguments string) *mcp.CallToolResult {
		t.Helper()
		result, err := session.CallTool(ctx, tool, json.RawMessage(arguments), nil)
		if err != nil {
			t.Fatalf("%s(%s): %v", tool, arguments, err)
		}
		return result
	}
	text := func(result *mcp.CallToolResult) string { return result.Content[0].(*mcp.TextContent).Text }

	var tools []string
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool.Name)
	}
	if want := []string{"search", "addNote", "replaceNote", "deleteNote"}; !slices.Equal(tools, want) {
		t.Errorf("the tools are %q, want %q", tools, want)
	}

	first := call("addNote", `{"text":"flour, eggs","tags":["shopping","today"]}`)
	if got := string(first.StructuredContent); got != `{"id":1,"text":"flour, eggs","tags":["shopping","today"]}` {
		t.Errorf("the first note is %s", got)
	}
	call("addNote", `{"text":"call Ada","tags":["today"]}`)
	if got := string(call("search", `{"tag":["today","shopping"]}`).StructuredContent); got != `{"notes":[`+string(first.StructuredContent)+`]}` {
		t.Errorf("found %s", got)
	}
	if got := string(call("search", `{"tag":["today"],"limit":1}`).StructuredContent); strings.Contains(got, "Ada") {
		t.Errorf("more than one note was found: %s", got)
	}
	if got := string(call("replaceNote", `{"id":2,"text":"write to Ada"}`).StructuredContent); got != `{"id":2,"text":"write to Ada"}` {
		t.Errorf("the second note is %s", got)
	}

	var template string
	for listed, err := range session.Templates(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		template = listed.URITemplate
	}
	uri, found := strings.CutSuffix(template, "{id}")
	if !found {
		t.Fatalf("the resource template is %q", template)
	}
	read, err := session.ReadResource(ctx, uri+"2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := read.Contents[0].(*mcp.TextResourceContents).Text; got != `{"id":2,"text":"write to Ada"}` {
		t.Errorf("read %q", got)
	}
	if _, err := session.ReadResource(ctx, uri+"9", nil); !mcp.IsResourceNotFound(err) {
		t.Errorf("a note that there is not: %v", err)
	}

	if got := text(call("deleteNote", `{"id":2}`)); got != "204 No Content" {
		t.Errorf("deleting says %q", got)
	}
	for arguments, want := range map[string]string{
		`{"id":2}`:               "the service responded with 404 Not Found\nnote not found",
		`{"id":"2/../../reset"}`: `at "/id": expected an integer, got the string "2/../../reset"`,
	} {
		if result := call("deleteNote", arguments); !result.IsError || text(result) != want {
			t.Errorf("deleteNote(%s): %q, want %q", arguments, text(result), want)
		}
	}
}

var eras = map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy}

func TestOverStdio(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			env := []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}
			visit(t, connect(t, stdio.Command(self, nil, &stdio.CommandOptions{Env: env}), era))
		})
	}
}

func TestOverHTTP(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			read, said := io.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- run(ctx, "127.0.0.1:0", said) }()
			lines := bufio.NewReader(read)
			urls := make([]string, 2)
			for i := range urls {
				line, err := lines.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				urls[i] = regexp.MustCompile(`http://[\d.:]+\d`).FindString(line)
			}

			visit(t, connect(t, streamable.Dial(urls[1], nil), era))

			// The service refuses requests without the key.
			response, err := http.Get(urls[0] + "/notes")
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized {
				t.Errorf("without the key the service answers %s", response.Status)
			}
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
