package memory_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/transport"
)

// forEachServer runs a test with a new server and clients of each era that the transport of
// this run supports.
func forEachServer(t *testing.T, opts *memory.Options, test func(t *testing.T, era client.Era, s *server.Server)) {
	t.Helper()
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		if era == client.Modern && !transporttests.CarriesModern() {
			continue
		}
		t.Run(name, func(t *testing.T) { test(t, era, memory.New(memory.InMemory(nil), opts)) })
	}
}

// forEachEra is forEachServer for tests with one client.
func forEachEra(t *testing.T, opts *memory.Options, test func(t *testing.T, era client.Era, session *client.Session)) {
	t.Helper()
	forEachServer(t, opts, func(t *testing.T, era client.Era, s *server.Server) {
		test(t, era, connect(t, transporttests.Dialer(t, s), &client.Options{Era: era}))
	})
}

func connect(t testing.TB, dialer transport.Dialer, opts *client.Options) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// as returns a dialer for connections of a principal.
func as(principal string, s *server.Server) transport.Dialer {
	return transport.Pipe(principalBinder{s, principal})
}

type principalBinder struct {
	transport.Binder
	principal string
}

func (b principalBinder) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = b.principal
	return b.Binder.Bind(link)
}

// call calls a tool and returns its text, with the prefix "error: " if it has failed.
func call(t testing.TB, session *client.Session, tool, arguments string) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), tool, json.RawMessage(arguments), nil)
	if err != nil {
		t.Fatalf("%s(%s): %v", tool, arguments, err)
	}
	return textOf(result)
}

func textOf(result *mcp.CallToolResult) string {
	var texts []string
	for _, c := range result.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	text := strings.Join(texts, "\n")
	if result.IsError {
		return "error: " + text
	}
	return text
}

// wantText checks the text of a tool result.
func wantText(t testing.TB, session *client.Session, tool, arguments, want string) {
	t.Helper()
	if got := call(t, session, tool, arguments); got != want {
		t.Errorf("%s(%.200s):\n%.500s\nwant\n%.500s", tool, arguments, got, want)
	}
}

// wantResource checks the contents of a resource.
func wantResource(t testing.TB, session *client.Session, uri, want string) {
	t.Helper()
	result, err := session.ReadResource(t.Context(), uri, nil)
	if err != nil {
		t.Errorf("reading %s: %v", uri, err)
		return
	}
	if len(result.Contents) != 1 {
		t.Fatalf("%s has %d contents", uri, len(result.Contents))
	}
	got, ok := result.Contents[0].(*mcp.TextResourceContents)
	if !ok || got.Text != want || got.URI != uri || got.MIMEType != "application/json" {
		t.Errorf("%s: contents %+v, want %.500s", uri, result.Contents[0], want)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// quoted returns text as a JSON string.
func quoted(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

func TestMain(m *testing.M) { transporttests.Main(m) }
