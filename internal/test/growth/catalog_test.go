//go:build soak

package growth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// catalogRows are those of what a server offers.
func catalogRows() []row {
	return []row{
		{of: "tools", operation: "registration of all", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			return func() { serverWithTools(n) }
		}},
		{of: "tools", operation: "call", n: 100, prepare: func(tb testing.TB, n int) func() {
			s := serverWithTools(n)
			return caller(tb, s, "tool0")
		}},
		{of: "tools", operation: "list of all", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := serverWithTools(n)
			return lister(tb, s, n)
		}},
		{of: "tools", operation: "removal of all", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			entries, names := newTools(n)
			return func() {
				must(tb, s.Replace(entries...))
				s.Remove(mcp.KindTool, names...)
			}
		}},
		{of: "tools", operation: "one is added and removed, and the catalog is built again", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := serverWithTools(n)
			entries, names := newTools(1)
			return func() {
				must(tb, s.Replace(entries...))
				s.Catalog()
				s.Remove(mcp.KindTool, names...)
				s.Catalog()
			}
		}},
		{of: "tools after a mount", operation: "registration of all", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			mounted := serverWithTools(1)
			return func() {
				s := newServer(nil)
				must(tb, s.Mount(mounted.Provider(), &server.MountOptions{Prefix: "mounted_"}))
				addTools(s, n)
			}
		}},
		{of: "mounted tools", operation: "registration of one", n: 100, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			mounted := serverWithTools(n)
			must(tb, s.Mount(mounted.Provider(), &server.MountOptions{Prefix: "mounted_"}))
			entries, names := newTools(1)
			return func() {
				must(tb, s.Replace(entries...))
				s.Remove(mcp.KindTool, names...)
			}
		}},
		{of: "mounts", operation: "all are mounted", n: 5, whole: true, prepare: func(tb testing.TB, n int) func() {
			return func() { mountAll(tb, n) }
		}},
		{of: "mounts", operation: "call", n: 5, reason: "each mount is asked for its catalog, which may have changed", prepare: func(tb testing.TB, n int) func() {
			return caller(tb, mountAll(tb, n), "m0_tool0")
		}},
		{of: "mounts", operation: "the catalog is built again", n: 5, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := mountAll(tb, n)
			entries, names := newTools(1)
			return func() {
				must(tb, s.Replace(entries...))
				s.Catalog()
				s.Remove(mcp.KindTool, names...)
				s.Catalog()
			}
		}},
		{of: "mounted servers within each other", operation: "call", n: 1, reason: "each server passes the call on", prepare: func(tb testing.TB, n int) func() {
			s := serverWithTools(1)
			for range n {
				outer := newServer(nil)
				must(tb, outer.Mount(s.Provider(), &server.MountOptions{Prefix: "m_"}))
				s = outer
			}
			return caller(tb, s, strings.Repeat("m_", n)+"tool0")
		}},
		{of: "prompts with completions", operation: "the catalog is built again", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			addPrompts(s, n)
			entries, names := newTools(1)
			return func() {
				must(tb, s.Replace(entries...))
				s.Catalog()
				s.Remove(mcp.KindTool, names...)
				s.Catalog()
			}
		}},
		{of: "prompts with completions", operation: "registration of all", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			return func() { addPrompts(newServer(nil), n) }
		}},
		{of: "prompts with completions", operation: "get", n: 100, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			addPrompts(s, n)
			session := connect(tb, s, nil)
			return func() {
				_, err := session.GetPrompt(tb.Context(), "prompt0", map[string]string{"city": "Ulm"}, nil)
				must(tb, err)
			}
		}},
		{of: "prompts with completions", operation: "completion", n: 100, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			addPrompts(s, n)
			session := connect(tb, s, nil)
			return func() {
				_, err := session.CompletePrompt(tb.Context(), "prompt0", "city", "U", nil, nil)
				must(tb, err)
			}
		}},
		{of: "resources", operation: "registration of all", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			return func() { addResources(newServer(nil), n) }
		}},
		{of: "resources", operation: "read", n: 100, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			addResources(s, n)
			return reader(tb, s, "test://resource/0")
		}},
		{of: "templates", operation: "read of the last one", n: 10, reason: "a URI is compared with each template, since the first that matches decides", prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			for i := range n {
				server.AddTemplate(s, server.Template{URITemplate: fmt.Sprintf("test://%d/{name}", i)},
					func(context.Context, *server.Request, map[string]string) (string, error) { return "text", nil })
			}
			return reader(tb, s, fmt.Sprintf("test://%d/x", n-1))
		}},
		{of: "kilobytes of a list of 1 MiB and more", operation: "list", n: 2 << 10, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			for i := range n / 64 {
				server.AddTool(s, server.Tool{Name: fmt.Sprint("tool", i), Description: strings.Repeat("long ", 64<<10/5)}, answer)
			}
			return lister(tb, s, n/64)
		}},
		{of: "pages of 50 tools", operation: "list of one", n: 2, prepare: func(tb testing.TB, n int) func() {
			s := newServer(&server.Options{PageSize: 50})
			addTools(s, 50*n)
			session := connect(tb, s, nil)
			first, err := session.Call(tb.Context(), mcp.MethodToolsList, json.RawMessage(`{}`), nil)
			must(tb, err)
			var page struct {
				NextCursor string `json:"nextCursor"`
			}
			must(tb, json.Unmarshal(first, &page))
			params := json.RawMessage(fmt.Sprintf(`{"cursor":%q}`, page.NextCursor))
			return func() {
				_, err := session.Call(tb.Context(), mcp.MethodToolsList, params, nil)
				must(tb, err)
			}
		}},
		{of: "tools that guards hide from some callers", operation: "list of all", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := newServer(&server.Options{Guards: []mcp.Guard{allVisible}})
			addTools(s, n)
			return lister(tb, s, n)
		}},
		{of: "tools that guards hide from some callers", operation: "list in pages of 50", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := newServer(&server.Options{PageSize: 50, Guards: []mcp.Guard{allVisible}})
			addTools(s, n)
			return lister(tb, s, n)
		}},
		{of: "guards of a server", operation: "call", n: 4, prepare: func(tb testing.TB, n int) func() {
			guards := make([]mcp.Guard, n)
			for i := range guards {
				guards[i] = allVisible
			}
			s := newServer(&server.Options{Guards: guards})
			addTools(s, 1)
			return caller(tb, s, "tool0")
		}},
	}
}

var allVisible = mcp.Guard{Name: "all", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return true }}

func serverWithTools(n int) *server.Server {
	s := newServer(nil)
	addTools(s, n)
	return s
}

func addTools(s *server.Server, n int) {
	for i := range n {
		server.AddTool(s, server.Tool{Name: fmt.Sprint("tool", i)}, answer)
	}
}

// newTools returns entries that replace those of addTools, and tools of other names.
func newTools(n int) (entries []*server.Entry, names []string) {
	for i := range n {
		name := fmt.Sprint("other", i)
		entry, err := server.NewTool(server.Tool{Name: name}, answer)
		if err != nil {
			panic(err)
		}
		entries, names = append(entries, entry), append(names, name)
	}
	return entries, names
}

func mountAll(tb testing.TB, n int) *server.Server {
	tb.Helper()
	s := newServer(nil)
	for i := range n {
		mounted := serverWithTools(10)
		must(tb, s.Mount(mounted.Provider(), &server.MountOptions{Prefix: fmt.Sprintf("m%d_", i)}))
	}
	return s
}

func addPrompts(s *server.Server, n int) {
	for i := range n {
		name := fmt.Sprint("prompt", i)
		server.AddPrompt(s, server.Prompt{Name: name}, func(context.Context, *server.Request, struct {
			City string `json:"city"`
		}) (string, error) {
			return "text", nil
		})
		server.AddCompletion(s, server.Completion{Prompt: name, Argument: "city"},
			func(context.Context, *server.Request, string, map[string]string) ([]string, error) {
				return []string{"Ulm"}, nil
			})
	}
}

func addResources(s *server.Server, n int) {
	for i := range n {
		server.AddResource(s, server.Resource{URI: fmt.Sprint("test://resource/", i), Name: fmt.Sprint("resource", i)},
			func(context.Context, *server.Request) (string, error) { return "text", nil })
	}
}

// caller returns a call of a tool.
func caller(tb testing.TB, s *server.Server, tool string) func() {
	tb.Helper()
	session := connect(tb, s, nil)
	return func() { call(tb, session, tool, nil) }
}

// reader returns a read of a resource.
func reader(tb testing.TB, s *server.Server, uri string) func() {
	tb.Helper()
	session := connect(tb, s, nil)
	return func() {
		_, err := session.ReadResource(tb.Context(), uri, nil)
		must(tb, err)
	}
}

// lister returns a list of all tools, of which there are n.
func lister(tb testing.TB, s *server.Server, n int) func() {
	tb.Helper()
	session := connect(tb, s, &client.Options{Limits: client.Limits{ListBytes: -1, ListEntries: -1, Pages: -1}})
	return func() {
		listed := 0
		for _, err := range session.Tools(tb.Context(), nil) {
			must(tb, err)
			listed++
		}
		if listed != n {
			tb.Fatalf("%d tools were listed, expected %d", listed, n)
		}
	}
}

func newServer(opts *server.Options) *server.Server {
	return server.New(mcp.Implementation{Name: "many", Version: "1.0.0"}, opts)
}

func answer(context.Context, *server.Request, struct{}) (string, error) { return "yes", nil }

func connect(tb testing.TB, s *server.Server, opts *client.Options) *client.Session {
	tb.Helper()
	session, err := client.Connect(tb.Context(), transport.Pipe(s), opts)
	must(tb, err)
	tb.Cleanup(func() {
		session.Close()
		must(tb, s.Shutdown(context.Background()))
	})
	return session
}

func call(tb testing.TB, session *client.Session, tool string, arguments any) {
	tb.Helper()
	result, err := session.CallTool(tb.Context(), tool, arguments, nil)
	must(tb, err)
	if result.IsError {
		tb.Fatalf("%s: %v", tool, result.Content)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
