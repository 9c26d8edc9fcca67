package servertest_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// offering returns a server with an entry of each kind.
func offering(description string) *server.Server {
	s := server.New(mcp.Implementation{Name: "offering", Version: "1.0.0"}, &server.Options{Instructions: "Ask <first> & then order.", PageSize: 1})
	for _, name := range []string{"a", "b"} {
		server.AddTool(s, server.Tool{Name: name, Description: description}, func(context.Context, *server.Request, none) (string, error) { return "", nil })
	}
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(context.Context, *server.Request, none) (string, error) { return "Hello", nil })
	server.AddResource(s, server.Resource{URI: "mem://menu", Name: "menu"}, func(context.Context, *server.Request) (string, error) { return "Soup", nil })
	server.AddTemplate(s, server.Template{URITemplate: "mem://dishes/{id}", Name: "dish"},
		func(_ context.Context, _ *server.Request, in struct {
			ID string `json:"id"`
		}) (string, error) {
			return in.ID, nil
		})
	return s
}

// update makes the tests of one test write files.
func update(t *testing.T) { t.Setenv("SERVERTEST_UPDATE", "1") }

// A file that one mode has written is valid for every mode.
func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "testdata", "catalog.json")
	t.Run("write", func(t *testing.T) {
		update(t)
		servertest.Golden(t, servertest.Connect(t, offering("Order."), nil), path)
	})
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		servertest.Golden(t, servertest.Connect(t, offering("Order."), &servertest.Options{Mode: mode}), path)
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Ask <first> & then order."`, `"name": "b"`, `"name": "greet"`, `"uri": "mem://menu"`, `"uriTemplate": "mem://dishes/{id}"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the file lacks %s:\n%s", want, text)
		}
	}

	got := failing(t, func(tb *fakeTB) { servertest.Golden(tb, servertest.Connect(tb, offering("Order now."), nil), path) })
	wantFailure(t, got, "-      \"description\": \"Order.\",\n")
	wantFailure(t, got, "+      \"description\": \"Order now.\",\n")
	wantFailure(t, got, "SERVERTEST_UPDATE=1")

	// Line ends of a checkout on Windows do not matter.
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "\n", "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	servertest.Golden(t, servertest.Connect(t, offering("Order."), nil), path)
}

func TestGoldenFails(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "catalog.json")
	got := failing(t, func(tb *fakeTB) { servertest.Golden(tb, servertest.Connect(tb, newServer(nil), nil), missing) })
	wantFailure(t, got, "catalog.json does not exist. To write it")
	got = failing(t, func(tb *fakeTB) { servertest.Golden(tb, servertest.Connect(tb, newServer(nil), nil), t.TempDir()) })
	wantFailure(t, got, "servertest: ")

	// A test that has failed writes nothing.
	update(t)
	failing(t, func(tb *fakeTB) {
		session := servertest.Connect(tb, newServer(nil), nil)
		tb.Errorf("something else")
		servertest.Golden(tb, session, missing)
	})
	if _, err := os.Stat(missing); err == nil {
		t.Error("a failed test has written a file")
	}

	closed := failing(t, func(tb *fakeTB) {
		session := servertest.Connect(tb, newServer(nil), nil)
		session.Close()
		servertest.Golden(tb, session, missing)
	})
	wantFailure(t, closed, "list the catalog")
}
