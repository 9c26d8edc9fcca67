package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/everywhere"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func toolNames(t *testing.T, session *client.Session) ([]string, error) {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context()) {
		if err != nil {
			return names, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func TestListsArePaged(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var pages int
		s := newServer(&server.Options{PageSize: 2, Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				pages++
				return next(ctx, call)
			}
		}}})
		var want []string
		for i := range 5 {
			name := fmt.Sprintf("tool-%d", i)
			want = append(want, name)
			server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, none) (string, error) { return "", nil })
			server.AddPrompt(s, server.Prompt{Name: name}, func(context.Context, *server.Request, none) (string, error) { return "", nil })
			server.AddResource(s, server.Resource{URI: "app://" + name, Name: name}, func(context.Context, *server.Request) (string, error) { return "", nil })
			server.AddTemplate(s, server.Template{URITemplate: "app://" + name + "/{x}", Name: name}, func(context.Context, *server.Request, map[string]string) (string, error) { return "", nil })
		}
		session := connect(t, everywhere.Dialer(t, s), client.Options{Era: era})
		lists := map[string][]string{}
		add := func(kind, name string, err error) {
			if err != nil {
				t.Fatal(err)
			}
			lists[kind] = append(lists[kind], name)
		}
		for x, err := range session.Tools(t.Context()) {
			add("tools", x.Name, err)
		}
		for x, err := range session.Prompts(t.Context()) {
			add("prompts", x.Name, err)
		}
		for x, err := range session.Resources(t.Context()) {
			add("resources", x.Name, err)
		}
		for x, err := range session.Templates(t.Context()) {
			add("templates", x.Name, err)
		}
		if diff := cmp.Diff(map[string][]string{"tools": want, "prompts": want, "resources": want, "templates": want}, lists); diff != "" {
			t.Error(diff)
		}
		if pages != 12 {
			t.Errorf("%d pages were asked for, want 12", pages)
		}

		pages = 0
		for tool, err := range session.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Name == "tool-1" {
				break
			}
		}
		if pages != 1 {
			t.Errorf("a reader that stopped on the first page made the client ask for %d", pages)
		}
	})
}

// book is a server whose list of tools has the pages that turn returns for a
// cursor, the raw JSON of which is "" on the first page.
func book(turn func(cursor string) (tools, next string)) script {
	return func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsList {
			return nil
		}
		tools, next := turn(string(req.Member("cursor")))
		list := fmt.Sprintf(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[%s]`, tools)
		if next != "" {
			list += `,"nextCursor":` + next
		}
		return []string{result(req, list+"}")}
	}
}

func tool(name string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name)
}

func TestCursors(t *testing.T) {
	endless := 0
	tests := map[string]struct {
		turn  func(cursor string) (tools, next string)
		names []string
		err   string
	}{
		"null ends the list": {
			turn:  func(string) (string, string) { return tool("a"), `null` },
			names: []string{"a"},
		},
		"empty is a cursor like any other": {
			turn: func(cursor string) (string, string) {
				if cursor == "" {
					return tool("a"), `""`
				}
				return tool("b") + "," + tool(cursor), ""
			},
			names: []string{"a", "b", `""`},
		},
		"kept as it is": {
			turn: func(cursor string) (string, string) {
				if cursor == "" {
					return "", `"\u0041/ \"x\""`
				}
				return tool(cursor), ""
			},
			names: []string{`"A/ \"x\""`},
		},
		"an empty page is not the last": {
			turn: func(cursor string) (string, string) {
				if cursor == "" {
					return "", `"n"`
				}
				return tool("b"), ""
			},
			names: []string{"b"},
		},
		"a circle": {
			turn: func(cursor string) (string, string) {
				if cursor == `"1"` {
					return tool("b"), `"2"`
				}
				return tool("a"), `"1"`
			},
			names: []string{"a", "b", "a"},
			err:   "same cursor again",
		},
		"no end": {
			turn: func(string) (string, string) {
				endless++
				return "", fmt.Sprintf(`"%d"`, endless)
			},
			err: "more than 64 pages",
		},
		"a number": {
			turn: func(string) (string, string) { return tool("a"), `7` },
			err:  "nextCursor",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			session := connect(t, book(test.turn), client.Options{})
			names, err := toolNames(t, session)
			if diff := cmp.Diff(test.names, names); diff != "" {
				t.Error(diff)
			}
			switch {
			case test.err == "" && err != nil:
				t.Error(err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("the error is %v, want one that says %q", err, test.err)
			}
			if test.err != "" {
				failed(t, err, jsonrpc.MaybeExecuted)
			}
		})
	}
}

func TestMaxPages(t *testing.T) {
	turned := 0
	session := connect(t, book(func(string) (string, string) {
		turned++
		return tool("x"), fmt.Sprintf(`"%d"`, turned)
	}), client.Options{MaxPages: 3})
	names, err := toolNames(t, session)
	if err == nil || len(names) != 3 || turned != 3 {
		t.Errorf("%d pages were turned, names %v, error %v; want 3 pages and an error", turned, names, err)
	}
}
