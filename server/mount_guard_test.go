package server_test

import (
	"bytes"
	"context"
	"errors"
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

// newMounted is a server in which a child with one of each kind is mounted, as "p_".
func newMounted(t testing.TB, around, ofChild, ofEntries server.Around, fn func(*server.Request) error) *server.Server {
	t.Helper()
	s := newServer(&server.Options{Around: around, Logger: quiet()})
	child := newServer(&server.Options{Around: ofChild, Logger: quiet()})
	addEveryKind(child, ofEntries, fn)
	mount(t, s, child, "p_")
	return s
}

// TestMountedGuards: a guard refuses wherever it stands, at the server, at what is
// mounted or at the entry, and each sees the call under the name that it has there.
func TestMountedGuards(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		var denies string
		at := func(where string) server.Around {
			return server.Around{Guards: []server.Guard{{Name: where, Allow: func(_ context.Context, r *server.Request) error {
				tr.step(where + " " + r.Kind() + " " + r.Name() + " " + string(r.Call().Member("name")))
				if where == denies {
					return errors.New("no")
				}
				return nil
			}}}}
		}
		s := newMounted(t, at("server"), at("child"), at("entry"), func(*server.Request) error { tr.step("run"); return nil })
		session := connect(t, s, era)
		for i, test := range mountedKinds("p_") {
			own := everyKind[i]
			var name, ownName string
			if strings.Contains(test.params, `{"name":"p_`) && test.kind != "completion" {
				name, ownName = `"`+test.name+`"`, `"`+own.name+`"`
			}
			want := []string{
				"server " + test.kind + " " + test.name + " " + name, "child " + own.kind + " " + own.name + " " + ownName,
				"entry " + own.kind + " " + own.name + " " + ownName, "run",
			}
			for n, where := range []string{"server", "child", "entry", "nobody"} {
				denies = where
				tr.take()
				_, err := raw(t, session, test.method, test.params)
				denied := fmt.Sprintf("Guard '%s' denied the %s call for '", where, test.kind)
				if open := where == "nobody"; open != (err == nil) || !open && !strings.HasPrefix(message(err), denied) {
					t.Errorf("%s, refused at the %s: the error is %v", test.params, where, err)
				}
				wantSteps(t, &tr, want[:n+1]...)
			}
		}
	})
}

// TestMountedAround: what the server has stands around what is mounted, with all that
// stands around that.
func TestMountedAround(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		fails := false
		s := newMounted(t, tr.around("s"), tr.around("c"), tr.around("e"), func(*server.Request) error {
			tr.step("function")
			if fails {
				return errors.New("broken")
			}
			return nil
		})
		session := connect(t, s, era)
		for _, test := range mountedKinds("p_") {
			for _, fails = range []bool{false, true} {
				mappers := func(where string) []string {
					if !fails {
						return nil
					}
					return []string{where + "-mapper1", where + "-mapper2"}
				}
				tr.take()
				_, err := raw(t, session, test.method, test.params)
				wantSteps(t, &tr, slices.Concat(
					[]string{"s-outer1", "s-outer2", "s-guard", "s-inner1", "s-inner2"},
					[]string{"c-outer1", "c-outer2", "e-outer1", "e-outer2", "c-guard", "e-guard", "c-inner1", "c-inner2", "e-inner1", "e-inner2", "function"},
					[]string{"/e-inner2", "/e-inner1", "/c-inner2", "/c-inner1"}, mappers("e"), mappers("c"),
					[]string{"/e-outer2", "/e-outer1", "/c-outer2", "/c-outer1", "/s-inner2", "/s-inner1"}, mappers("s"),
					[]string{"/s-outer2", "/s-outer1"})...)
				if refused := fails && test.kind != "tool"; (err != nil) != refused {
					t.Errorf("%s: the error is %v", test.params, err)
				}
			}
		}
	})
}

// TestMountedErrorMappers are shown the error of the function itself, however deep it is
// mounted, and what they leave is told as if it were not.
func TestMountedErrorMappers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		look := func(where string) server.Around {
			return server.Around{Mappers: []server.ErrorMapper{func(_ context.Context, r *server.Request, err error) (mcp.Result, error) {
				e, ok := errors.AsType[*shortage](err)
				tr.step(fmt.Sprint(where, " ", r.Name(), " ", ok))
				if ok && e.Of == where {
					return nil, fmt.Errorf("%s mapped this", where)
				}
				return nil, nil
			}}}
		}
		var of string
		middle := newMounted(t, look("middle"), server.Around{}, server.Around{}, func(*server.Request) error { return fmt.Errorf("baking: %w", &shortage{of}) })
		s := newServer(&server.Options{Around: look("server"), Logger: quiet()})
		mount(t, s, middle, "m_")
		session := connect(t, s, era)
		for i, test := range mountedKinds("m_p_") {
			inner := mountedKinds("p_")[i]
			for _, of = range []string{"salt", "middle", "server"} {
				tr.take()
				result, err := raw(t, session, test.method, test.params)
				want := map[string]string{"salt": "baking: out of salt", "middle": "middle mapped this", "server": "server mapped this"}[of]
				if test.kind == "tool" && (err != nil || !strings.Contains(result, want) || !strings.Contains(result, `"isError":true`)) {
					t.Errorf("%s: the result is %s, %v", test.params, result, err)
				}
				if test.kind != "tool" && (protocolError(t, err).Code != jsonrpc.InternalError || message(err) != want) {
					t.Errorf("%s: the error is %v", test.params, err)
				}
				if of == "middle" {
					wantSteps(t, &tr, "middle "+inner.name+" true", "server "+test.name+" false") // it is another error now
				} else {
					wantSteps(t, &tr, "middle "+inner.name+" true", "server "+test.name+" true")
				}
			}
		}
	})
}

// TestMountedErrorMappersSeeNoDenial, no question, and nothing that an interceptor of
// what is mounted has dealt with.
func TestMountedErrorMappersSeeNoDenial(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet(), Around: server.Around{Mappers: []server.ErrorMapper{
			func(_ context.Context, r *server.Request, err error) (mcp.Result, error) {
				t.Errorf("%s: a mapper is asked about %v", r.Name(), err)
				return nil, nil
			},
		}}})
		child := newServer(&server.Options{Logger: quiet(), Around: server.Around{Outer: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := next(ctx, call)
				if string(call.Member("name")) == `"broken"` {
					return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("dealt with")}}, nil
				}
				return result, err
			}
		}}}})
		server.AddTool(child, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			_, err := server.Elicit[sure](r, "sure", "Sure?")
			return "done", err
		})
		server.AddTool(child, server.Tool{Name: "broken"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", errors.New("broken") })
		server.AddTool(child, server.Tool{Name: "shut", Around: server.Around{Guards: []server.Guard{{Name: "g"}}}}, nothing[struct{}])
		server.AddTool(child, server.Tool{Name: "hidden", Around: server.Around{Guards: []server.Guard{{Name: "g", Hides: true}}}}, nothing[struct{}])
		mount(t, s, child, "p_")
		session := connectWith(t, s, accepting(era))
		for tool, want := range map[string]string{"p_ask": "done", "p_broken": "dealt with"} {
			if got := texts(call(t, session, tool, `{}`)); got != want {
				t.Errorf("%s says %q, want %q", tool, got, want)
			}
		}
		for tool, code := range map[string]jsonrpc.Code{"p_shut": jsonrpc.InternalError, "p_hidden": jsonrpc.InvalidParams} {
			_, err := session.CallTool(t.Context(), tool, nil, nil)
			wantCode(t, err, code)
		}
	})
}

// TestMountedMetadata: guards of the server see what was registered with the entry.
func TestMountedMetadata(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen string
		around := server.Around{Metadata: map[string]any{"shared": "server", "server": 1}, Guards: []server.Guard{{Name: "look", Allow: func(_ context.Context, r *server.Request) error {
			seen = fmt.Sprint(r.Metadata("shared"), r.Metadata("server"), r.Metadata("middle"), r.Metadata("child"), r.Metadata("entry"))
			return nil
		}}}}
		middle := newMounted(t, server.Around{Metadata: map[string]any{"shared": "middle", "middle": 2}},
			server.Around{Metadata: map[string]any{"shared": "child", "child": 3}},
			server.Around{Metadata: map[string]any{"shared": "entry", "entry": 4}}, func(*server.Request) error { return nil })
		s := newServer(&server.Options{Around: around})
		mount(t, s, newServer(&server.Options{Around: server.Around{Metadata: map[string]any{"child": "of another"}}}), "")
		mount(t, s, middle, "m_")
		session := connect(t, s, era)
		for _, test := range mountedKinds("m_p_") {
			seen = ""
			if _, err := raw(t, session, test.method, test.params); err != nil || seen != "entry1 2 3 4" {
				t.Errorf("%s: the guard sees %q, %v", test.params, seen, err)
			}
		}
	})
}

// TestMountedHidden: what is hidden anywhere is not listed, and a call for it is
// answered as one for what nobody has ever mounted.
func TestMountedHidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		hiding := server.Around{Guards: []server.Guard{staffOnly}}
		mapAll := server.Around{Mappers: []server.ErrorMapper{func(context.Context, *server.Request, error) (mcp.Result, error) { return mcp.Raw(`{}`), nil }}}
		fine := func(*server.Request) error { return nil }
		lost := connectAs(t, newServer(&server.Options{Logger: quiet()}), era, "guest")
		for where, s := range map[string]*server.Server{
			"server": newMounted(t, hiding, server.Around{}, server.Around{}, fine),
			"child":  newMounted(t, server.Around{}, hiding, server.Around{}, fine),
			"entry":  newMounted(t, mapAll, server.Around{}, hiding, fine),
		} {
			staff, guest := connectAs(t, s, era, "staff"), connectAs(t, s, era, "guest")
			for range 2 {
				if got, want := listed(t, staff), []string{"p_tool", "p_raw", "app:r", "app:t/{x}", "p_prompt"}; !slices.Equal(got, want) {
					t.Errorf("hidden at the %s: the staff sees %q, want %q", where, got, want)
				}
				if got := listed(t, guest); len(got) > 0 {
					t.Errorf("hidden at the %s: a guest sees %q", where, got)
				}
			}
			for _, test := range mountedKinds("p_") {
				if _, err := raw(t, staff, test.method, test.params); err != nil {
					t.Errorf("hidden at the %s, %s: the staff gets %v", where, test.params, err)
				}
				_, err := raw(t, guest, test.method, test.params)
				_, want := raw(t, lost, test.method, test.params)
				if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
					t.Errorf("hidden at the %s, %s: a guest gets %v, would get %v if there were nothing", where, test.params, err, want)
				}
			}
		}
	})
}

// TestDeeplyHidden: each server says of what is hidden below what it says of what it has
// never had, and no mapper of any makes something else of it.
func TestDeeplyHidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		mapAll := server.Around{Mappers: []server.ErrorMapper{func(context.Context, *server.Request, error) (mcp.Result, error) { return mcp.Raw(`{}`), nil }}}
		middle := newMounted(t, mapAll, server.Around{}, server.Around{Guards: []server.Guard{staffOnly}}, func(*server.Request) error { return nil })
		s := newServer(&server.Options{Around: mapAll, Logger: quiet()})
		mount(t, s, middle, "m_")
		guest, lost := connectAs(t, s, era, "guest"), connectAs(t, newServer(nil), era, "guest")
		for _, test := range mountedKinds("m_p_") {
			_, err := raw(t, guest, test.method, test.params)
			_, want := raw(t, lost, test.method, test.params)
			if err == nil || fmt.Sprintf("%+v", *protocolError(t, err)) != fmt.Sprintf("%+v", *protocolError(t, want)) {
				t.Errorf("%s: a guest gets %v, would get %v if there were nothing", test.params, err, want)
			}
		}
	})
}

// TestMountedHiddenCompletion: the prompt is there, its completion is not.
func TestMountedHiddenCompletion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newMounted(t, server.Around{Guards: []server.Guard{{Name: "g", Hides: true, Allow: func(_ context.Context, r *server.Request) error {
			if r.Kind() == "completion" {
				return errors.New("no")
			}
			return nil
		}}}}, server.Around{}, server.Around{}, func(*server.Request) error { return nil })
		session := connect(t, s, era)
		if _, err := session.Prompt(t.Context(), "p_prompt", map[string]string{"x": ""}, nil); err != nil {
			t.Error(err)
		}
		for prompt, want := range map[string]string{"p_prompt": `there is no argument "x" of "p_prompt"`, "p_none": `there is no argument "x" of "p_none"`} {
			if _, err := session.CompletePrompt(t.Context(), prompt, "x", "", nil); message(err) != want {
				t.Errorf("the error is %v, want %s", err, want)
			}
		}
		if _, err := session.CompleteTemplate(t.Context(), "app:t/{x}", "x", "", nil); message(err) != `there is no argument "x" of "app:t/{x}"` {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestMountedPanics cost one call, and tell the caller nothing.
func TestMountedPanics(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		child := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		addEveryKind(child, server.Around{}, func(*server.Request) error { panic("the secret is 42") })
		for _, around := range []server.Around{{}, {Guards: []server.Guard{{Allow: allow}}}} {
			s := newServer(&server.Options{Around: around})
			mount(t, s, child, "p_")
			session := connect(t, s, era)
			for _, test := range mountedKinds("p_") {
				log.Reset()
				_, err := raw(t, session, test.method, test.params)
				if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) || !strings.Contains(log.String(), "the secret is 42") {
					t.Errorf("%s: the caller is told %v, the operator %s", test.params, err, &log)
				}
			}
		}
	})
}
