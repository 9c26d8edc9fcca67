package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// forClients returns a guard that shows entries to clients whose name has a word.
func forClients(word string) mcp.Guard {
	return mcp.Guard{Name: word, Visible: func(_ context.Context, caller *mcp.Caller, _ *mcp.Target) bool {
		return strings.Contains(caller.Info.Name, word)
	}}
}

// variants are two variants of each kind, for clients named gold and blue. Each says its color in its definition and its
// answers, and has an argument with the color.
func variants(t testing.TB) (entries []*server.Entry) {
	t.Helper()
	for _, color := range []string{"gold", "blue"} {
		guards := []mcp.Guard{forClients(color)}
		add := func(e *server.Entry, err error) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Complete == nil && e.Kind != mcp.KindTool && e.Kind != mcp.KindResource {
				e.Complete = func(context.Context, *mcp.Call) (mcp.Result, error) {
					return &mcp.CompleteResult{Completion: mcp.CompletionValues{Values: []string{color}}}, nil
				}
			}
			entries = append(entries, e)
		}
		read := func(context.Context, *server.Request) (string, error) { return color, nil }
		add(server.NewTool(server.Tool{Name: "tool", Description: color, Guards: guards}, func(context.Context, *server.Request, xIn) (string, error) { return color, nil }))
		add(server.NewResource(server.Resource{URI: "app:r", Description: color, Guards: guards}, read))
		add(server.NewTemplate(server.Template{URITemplate: "app:t/{x}", Name: "t", Description: color, Guards: guards}, func(context.Context, *server.Request, xIn) (string, error) { return color, nil }))
		add(server.NewPrompt(server.Prompt{Name: "prompt", Description: color, Guards: guards}, func(context.Context, *server.Request, xIn) (string, error) { return color, nil }))
	}
	return entries
}

// variantServers are the ways in which a server has variants.
var variantServers = map[string]func(t *testing.T, s *server.Server) (prefix string){
	"registered": func(t *testing.T, s *server.Server) string {
		replace(t, s, variants(t)...)
		return ""
	},
	"added": func(t *testing.T, s *server.Server) string {
		for _, color := range []string{"gold", "blue"} {
			server.AddTool(s, server.Tool{Name: "tool", Description: color, Guards: []mcp.Guard{forClients(color)}}, func(context.Context, *server.Request, xIn) (string, error) { return color, nil })
		}
		rest := slices.DeleteFunc(variants(t), func(e *server.Entry) bool { return e.Kind == mcp.KindTool })
		replace(t, s, rest...)
		return ""
	},
	"mounted": func(t *testing.T, s *server.Server) string {
		child := newServer(nil)
		replace(t, child, variants(t)...)
		mountProvider(t, s, child.Provider(), "p_")
		return "p_"
	},
	"mounted twice, with middleware": func(t *testing.T, s *server.Server) string {
		pass := func(next mcp.Handler) mcp.Handler { return next }
		inner, outer := newServer(&server.Options{Middleware: []mcp.Middleware{pass}}), newServer(&server.Options{Guards: []mcp.Guard{{Name: "all", Check: allow}}})
		replace(t, inner, variants(t)...)
		mountProvider(t, outer, inner.Provider(), "p_")
		mountProvider(t, s, outer.Provider(), "q_")
		return "q_p_"
	},
	"of a provider": func(t *testing.T, s *server.Server) string {
		p := newTestProvider()
		p.catalog.Store(server.Merge(nil, server.Part{Owner: "one", Catalog: server.NewCatalog(variants(t), nil)}))
		mountProvider(t, s, p, "")
		return ""
	},
}

// TestVariants checks that a caller gets the variant that it sees, in lists, calls, completions and subscriptions, as
// target of guards, and the errors for an unknown name if it sees none.
func TestVariants(t *testing.T) {
	for how, arrange := range variantServers {
		t.Run(how, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				var targets []string
				s := newServer(&server.Options{Logger: discardLogger(), Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
					return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
						if target := call.Target(); target != nil {
							var definition struct{ Description string }
							if err := json.Unmarshal(target.Definition.JSON(), &definition); err != nil {
								t.Error(err)
							}
							targets = append(targets, definition.Description)
						}
						return next(ctx, call)
					}
				}}})
				prefix := arrange(t, s)
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				empty := newServer(nil)
				for _, color := range []string{"gold", "blue"} {
					session := connectAs(t, s, era, color)
					if got, want := listed(t, session), []string{prefix + "tool", "app:r", "app:t/{x}", prefix + "prompt"}; !slices.Equal(got, want) {
						t.Errorf("%s sees %q, want %q", color, got, want)
					}
					for tool := range session.Tools(t.Context(), nil) {
						if tool.Description != color {
							t.Errorf("%s sees the description %q", color, tool.Description)
						}
					}
					for _, test := range everyKind {
						if test.name == "raw" {
							continue
						}
						targets = nil
						got, err := raw(t, session, test.method, withPrefix(test.params, prefix))
						if err != nil || !strings.Contains(got, `"`+color+`"`) {
							t.Errorf("%s: %s gets %s, %v", test.params, color, got, err)
						}
						if !slices.Equal(targets, []string{color}) {
							t.Errorf("%s: the targets for %s are %q", test.params, color, targets)
						}
					}
					for _, uri := range []string{"app:r", "app:t/1"} {
						if err := subscribed(t.Context(), session, uri); err != nil {
							t.Errorf("%s subscribes to %s: %v", color, uri, err)
						}
					}
				}
				guest, lost := connectAs(t, s, era, "guest"), connectAs(t, empty, era, "guest")
				if names := listed(t, guest); len(names) > 0 {
					t.Errorf("a guest sees %q", names)
				}
				for _, test := range everyKind {
					if test.name == "raw" {
						continue
					}
					_, err := raw(t, guest, test.method, withPrefix(test.params, prefix))
					_, want := raw(t, lost, test.method, withPrefix(test.params, prefix))
					if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
						t.Errorf("%s: a guest gets %v, would get %v if there were nothing", test.params, err, want)
					}
				}
				if err := subscribed(t.Context(), guest, "app:r"); !mcp.IsResourceNotFound(err) {
					t.Errorf("a guest subscribes: %v", err)
				}
			})
		})
	}
}

// withPrefix returns params with a prefix of the names of tools and prompts.
func withPrefix(params, prefix string) string {
	return strings.NewReplacer(`"name":"tool"`, `"name":"`+prefix+`tool"`, `"name":"prompt"`, `"name":"`+prefix+`prompt"`).Replace(params)
}

// TestAmbiguousVariants checks that a caller that sees two variants gets neither, and that the log says so.
func TestAmbiguousVariants(t *testing.T) {
	for how, arrange := range variantServers {
		t.Run(how, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				var log bytes.Buffer
				s := newServer(&server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				prefix := arrange(t, s)
				returns(s, "other", "")
				session := connectAs(t, s, era, "gold and blue")
				for range 2 {
					if names := listed(t, session); !slices.Equal(names, []string{"other"}) {
						t.Errorf("listed are %q", names)
					}
				}
				if count := strings.Count(log.String(), "left out of a list"); count != 4 {
					t.Errorf("the log has %d messages about lists, want one for each kind:\n%s", count, &log)
				}
				for _, test := range everyKind {
					if test.name == "raw" {
						continue
					}
					_, err := raw(t, session, test.method, withPrefix(test.params, prefix))
					if e := protocolError(t, err); e.Code != jsonrpc.InternalError || !strings.Contains(e.Message, "reference") {
						t.Errorf("%s: %v", test.params, err)
					}
				}
				if err := subscribed(t.Context(), session, "app:r"); err == nil {
					t.Error("the caller has subscribed")
				}
				if !strings.Contains(log.String(), "the caller sees several variants of the tool") {
					t.Errorf("the log does not name the tool:\n%s", &log)
				}
			})
		})
	}
}

// TestPagesOfVariants checks that each caller gets all pages, wherever its variants are registered, and that a cursor is
// valid only for callers that see its entry.
func TestPagesOfVariants(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{PageSize: 2, RegistrationOrder: true, Logger: discardLogger()})
		for _, color := range []string{"gold", "blue", "red"} {
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				if color == "red" && name == "b" {
					continue
				}
				server.AddTool(s, server.Tool{Name: name, Guards: []mcp.Guard{forClients(color)}}, nothing[struct{}])
			}
			returns(s, "all-"+color, "")
		}
		for color, want := range map[string]string{
			"gold": "a b c d e all-gold all-blue all-red", "blue": "a b c d e all-gold all-blue all-red",
			"red": "a c d e all-gold all-blue all-red", "none": "all-gold all-blue all-red",
		} {
			if got := toolNames(t, connectAs(t, s, era, color)); strings.Join(got, " ") != want {
				t.Errorf("%s sees %q, want %q", color, got, want)
			}
		}
		_, next := page(t, connectAs(t, s, era, "gold"), "")
		_, err := raw(t, connectAs(t, s, era, "red"), mcp.MethodToolsList, `{"cursor":"`+next+`"}`)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}

// TestRegisteringVariants checks which entries may have one name.
func TestRegisteringVariants(t *testing.T) {
	tool := func(tool server.Tool) *server.Entry {
		entry, err := server.NewTool(tool, nothing[struct{}])
		if err != nil {
			t.Fatal(err)
		}
		return entry
	}
	gold, blue := forClients("gold"), forClients("blue")
	visible := tool(server.Tool{Name: "x"})
	visible.Visible = func(context.Context, *mcp.Caller) bool { return true }
	event, _, err := server.NewEvent[struct{}, string](server.Event{Name: "x", Description: "x", Guards: []mcp.Guard{gold}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name          string
		first, second *server.Entry
		refused       string
	}{
		{"both hide", tool(server.Tool{Name: "x", Guards: []mcp.Guard{gold}}), tool(server.Tool{Name: "x", Guards: []mcp.Guard{blue}}), ""},
		{"Visible of the entry", visible, tool(server.Tool{Name: "x", Guards: []mcp.Guard{blue}}), ""},
		{"the first is for all", tool(server.Tool{Name: "x"}), tool(server.Tool{Name: "x", Guards: []mcp.Guard{blue}}), `the tool "x" is registered already`},
		{"the second is for all", tool(server.Tool{Name: "x", Guards: []mcp.Guard{gold}}), tool(server.Tool{Name: "x"}), `the tool "x" is registered already`},
		{"a guard only checks", tool(server.Tool{Name: "x", Guards: []mcp.Guard{{Name: "g", Check: allow}}}), tool(server.Tool{Name: "x", Guards: []mcp.Guard{blue}}), `the tool "x" is registered already`},
		{"scopes", tool(server.Tool{Name: "x", Guards: []mcp.Guard{gold}, Scopes: []string{"a"}}), tool(server.Tool{Name: "x", Guards: []mcp.Guard{blue}}), "with other scopes"},
		{"the same scopes", tool(server.Tool{Name: "x", Guards: []mcp.Guard{gold}, Scopes: []string{"a"}}), tool(server.Tool{Name: "x", Guards: []mcp.Guard{blue}, Scopes: []string{"a"}}), ""},
		{"events", event, event, `the event "x" is registered already`},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
					t.Errorf("the error is %v, want %q", err, test.refused)
				}
			}
			hiding := &server.Options{Guards: []mcp.Guard{forClients("")}} // what the server hides does not make variants
			check(newServer(hiding).Replace(test.first, test.second))
			collisions := len(server.NewCatalog([]*server.Entry{test.first, test.second}, nil).Collisions())
			if (collisions == 0) != (test.refused == "") {
				t.Errorf("there are %d collisions", collisions)
			}
		})
	}
}

// TestReplacingVariants checks that Replace replaces all variants, at their place, and Remove removes all.
func TestReplacingVariants(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{RegistrationOrder: true})
		replace(t, s, variants(t)...)
		returns(s, "last", "")
		gold, blue := connectAs(t, s, era, "gold"), connectAs(t, s, era, "blue")
		replace(t, s, slices.DeleteFunc(variants(t), func(e *server.Entry) bool {
			return e.Kind != mcp.KindTool || strings.Contains(string(e.Definition.JSON()), "gold")
		})...)
		if got := toolNames(t, gold); !slices.Equal(got, []string{"last"}) {
			t.Errorf("gold sees %q", got)
		}
		if got := toolNames(t, blue); !slices.Equal(got, []string{"tool", "last"}) {
			t.Errorf("blue sees %q", got)
		}
		s.Remove(mcp.KindTool, "tool")
		if got := toolNames(t, blue); !slices.Equal(got, []string{"last"}) {
			t.Errorf("blue sees %q", got)
		}
	})
}

// TestVariantsAcrossMounts checks that two mounts cannot have variants of one name: neither knows the other.
func TestVariantsAcrossMounts(t *testing.T) {
	s := newServer(nil)
	for i, color := range []string{"gold", "blue"} {
		child := newServer(nil)
		server.AddTool(child, server.Tool{Name: "tool", Guards: []mcp.Guard{forClients(color)}}, nothing[struct{}])
		if err := s.Mount(child.Provider(), nil); i == 1 {
			wantCollision(t, err, "tool", "tool")
		}
	}
	shutDownAtEnd(t, s)
}

// TestVariantOfChangedCaller checks that a middleware that changes the caller changes the variant.
func TestVariantOfChangedCaller(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				caller := *call.Caller
				caller.Info = &mcp.Implementation{Name: "blue"}
				changed := *call
				changed.Caller = &caller
				return next(ctx, &changed)
			}
		}}})
		replace(t, s, variants(t)...)
		for _, name := range []string{"gold", "guest"} {
			session := connectAs(t, s, era, name)
			if got := textOf(call(t, session, "tool", `{"x":"1"}`)); got != "blue" {
				t.Errorf("%s gets %q", name, got)
			}
		}
	})
}

// TestRecheckOfVariants checks that a call of any variant is still valid while the variants are offered unchanged.
func TestRecheckOfVariants(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var recheck []error
		s := newServer(&server.Options{CallMiddleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				recheck = append(recheck, call.Recheck(ctx))
				return next(ctx, call)
			}
		}}})
		replace(t, s, variants(t)...)
		for _, color := range []string{"gold", "blue"} {
			call(t, connectAs(t, s, era, color), "tool", `{"x":"1"}`)
		}
		if len(recheck) != 2 || recheck[0] != nil || recheck[1] != nil {
			t.Errorf("the errors are %v", recheck)
		}
	})
}
