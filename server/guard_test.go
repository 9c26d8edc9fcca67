package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// everyKind is a call of each kind of thing that [addEveryKind] registers.
var everyKind = []struct{ kind, name, method, params string }{
	{"tool", "tool", mcp.MethodToolsCall, `{"name":"tool","arguments":{"x":"1"}}`},
	{"tool", "raw", mcp.MethodToolsCall, `{"name":"raw","arguments":{"x":"1"}}`},
	{"resource", "app:r", mcp.MethodResourcesRead, `{"uri":"app:r"}`},
	{"resource template", "app:t/{x}", mcp.MethodResourcesRead, `{"uri":"app:t/1"}`},
	{"prompt", "prompt", mcp.MethodPromptsGet, `{"name":"prompt","arguments":{"x":"1"}}`},
	{"completion", "prompt", mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x","value":""}}`},
	{"completion", "app:t/{x}", mcp.MethodComplete, `{"ref":{"type":"ref/resource","uri":"app:t/{x}"},"argument":{"name":"x","value":""}}`},
}

// targetKinds are the kinds of their targets: that of a completion is what it completes.
var targetKinds = map[string]mcp.Kind{
	"tool": mcp.KindTool, "raw": mcp.KindTool, "app:r": mcp.KindResource, "app:t/{x}": mcp.KindResourceTemplate, "prompt": mcp.KindPrompt,
}

type xIn struct {
	X string `json:"x"`
}

// addEveryKind registers one of each kind, all with one function.
func addEveryKind(s *server.Server, a surround, fn func(r *server.Request) error) {
	server.AddTool(s, server.Tool{Name: "tool", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata},
		func(_ context.Context, r *server.Request, _ xIn) (string, error) { return "", fn(r) })
	server.AddRawTool(s, server.Tool{
		Name: "raw", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata,
		InputSchema: jsonRaw(`{"type":"object","required":["x"]}`),
	}, func(_ context.Context, r *server.Request, _ jsonRaw) (mcp.Result, error) {
		return mcp.Raw(`{"content":[]}`), fn(r)
	})
	server.AddResource(s, server.Resource{URI: "app:r", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata},
		func(_ context.Context, r *server.Request) (string, error) { return "", fn(r) })
	server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata},
		func(_ context.Context, r *server.Request, _ xIn) (string, error) { return "", fn(r) })
	server.AddPrompt(s, server.Prompt{Name: "prompt", Guards: a.Guards, CallMiddleware: a.CallMiddleware, Scopes: a.Scopes, Metadata: a.Metadata},
		func(_ context.Context, r *server.Request, _ xIn) (string, error) { return "", fn(r) })
	complete := func(_ context.Context, r *server.Request, _ string, _ map[string]string) ([]string, error) {
		return nil, fn(r)
	}
	server.AddCompletion(s, server.Completion{Prompt: "prompt", Argument: "x"}, complete)
	server.AddCompletion(s, server.Completion{Template: "app:t/{x}", Argument: "x"}, complete)
}

func allow(context.Context, *mcp.Call) error { return nil }

// TestGuardsStandBeforeEverything, wherever they are.
func TestGuardsStandBeforeEverything(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		deny := guarded(denying("nobody"))
		var runs atomic.Int64
		run := func(*server.Request) error { runs.Add(1); return nil }
		atEntry, atServer := newServer(&server.Options{Logger: quiet()}), newServer(deny.options())
		addEveryKind(atEntry, deny, run)
		returns(atEntry, "alive", "yes")
		addEveryKind(atServer, surround{}, run)
		for where, s := range map[string]*server.Server{"entry": atEntry, "server": atServer} {
			session := connect(t, s, era)
			for _, test := range everyKind {
				_, err := raw(t, session, test.method, test.params)
				e, ok := errors.AsType[*jsonrpc.Error](err)
				want := fmt.Sprintf("Guard 'nobody' denied the %s call for '%s'", test.kind, test.name)
				if !ok || e.Code != jsonrpc.InternalError || e.Message != want || string(e.Data) != `{"type":"FORBIDDEN","guard":"nobody"}` {
					t.Errorf("at the %s, the %s %s: the error is %+v, want %s", where, test.kind, test.name, err, want)
				}
			}
		}
		if n := runs.Load(); n > 0 {
			t.Errorf("%d functions ran", n)
		}
		session := connect(t, atEntry, era)
		if got := texts(call(t, session, "alive", `{}`)); got != "yes" {
			t.Errorf("after refusals the server says %q", got)
		}
		if names := toolNames(t, session); !slices.Equal(names, []string{"tool", "raw", "alive"}) {
			t.Errorf("the guarded tools are not listed: %q", names)
		}
	})
}

// TestGuardsAreAskedInOrder: the server's first, and the first refusal is the last
// question.
func TestGuardsAreAskedInOrder(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var asked []string
		guard := func(name string, err error) mcp.Guard {
			return mcp.Guard{Name: name, Check: func(context.Context, *mcp.Call) error { asked = append(asked, name); return err }}
		}
		s := newServer(&server.Options{Logger: quiet(), Guards: []mcp.Guard{guard("s1", nil), guard("s2", nil)}})
		for name, guards := range map[string][]mcp.Guard{
			"open": {guard("e1", nil), guard("e2", nil)}, "shut": {guard("deny", errors.New("no")), guard("allow", nil)}, "late": {guard("allow", nil), guard("deny", errors.New("no"))},
		} {
			server.AddTool(s, server.Tool{Name: name, Guards: guards}, nothing[struct{}])
		}
		session := connect(t, s, era)
		for _, test := range []struct {
			tool string
			want []string
			open bool
		}{
			{"open", []string{"s1", "s2", "e1", "e2"}, true},
			{"shut", []string{"s1", "s2", "deny"}, false},
			{"late", []string{"s1", "s2", "allow", "deny"}, false},
		} {
			asked = nil
			_, err := session.CallTool(t.Context(), test.tool, nil, nil)
			if !slices.Equal(asked, test.want) || (err == nil) != test.open {
				t.Errorf("%s: asked are %q, want %q; the error is %v", test.tool, asked, test.want, err)
			}
		}
	})
}

// TestGuardsFailClosed: whatever goes wrong in a guard refuses the call, and is for
// the operator to know.
func TestGuardsFailClosed(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		var runs atomic.Int64
		add := func(name string, check func(context.Context, *mcp.Call) error) {
			server.AddTool(s, server.Tool{Name: name, Guards: []mcp.Guard{{Name: "g", Check: check}}},
				func(context.Context, *server.Request, struct{}) (string, error) { runs.Add(1); return "", nil })
		}
		const secret = "the safe is behind the picture"
		add("error", func(context.Context, *mcp.Call) error { return errors.New(secret) })
		add("panic", func(context.Context, *mcp.Call) error { panic(secret) })
		add("nilmap", func(context.Context, *mcp.Call) error {
			return []error{}[len(secret)]
		})
		add("ended", func(context.Context, *mcp.Call) error { return context.Canceled })
		add("own", func(context.Context, *mcp.Call) error {
			return fmt.Errorf("%s: %w", secret, &jsonrpc.Error{Code: -403, Message: "ask the baker", Data: jsonRaw(`{"a":1}`)})
		})
		session := connect(t, s, era)
		for _, tool := range []string{"error", "panic", "nilmap", "ended"} {
			log.Reset()
			_, err := session.CallTool(t.Context(), tool, nil, nil)
			if wantCode(t, err, jsonrpc.InternalError); message(err) != "Guard 'g' denied the tool call for '"+tool+"'" {
				t.Errorf("%s: the caller is told %q", tool, message(err))
			}
			if !strings.Contains(log.String(), `"guard":"g"`) || (tool == "error" || tool == "panic") != strings.Contains(log.String(), secret) {
				t.Errorf("%s: the operator is told %s", tool, &log)
			}
			if tool == "panic" && !strings.Contains(log.String(), "guard_test.go") {
				t.Errorf("the log has no stack: %s", &log)
			}
		}
		_, err := session.CallTool(t.Context(), "own", nil, nil)
		e, _ := errors.AsType[*jsonrpc.Error](err)
		if e == nil || e.Code != -403 || e.Message != "ask the baker" || string(e.Data) != `{"a":1}` {
			t.Errorf("the guard's own error becomes %+v", err)
		}
		if n := runs.Load(); n > 0 {
			t.Errorf("%d functions ran", n)
		}
	})
}

// TestGuardSeesTheCall, with what it is for, before the arguments have been looked at.
func TestGuardSeesTheCall(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen string
		look := mcp.Guard{Name: "look", Check: func(_ context.Context, call *mcp.Call) error {
			target := call.Target()
			seen = fmt.Sprint(target.Kind, " ", target.Name, " ", target.Metadata["shared"], " ", target.Metadata["server"], " ", target.Metadata["entry"], " ", target.Metadata["none"],
				" ", call.Method(), " ", string(call.Params()) != "", " ", string(call.Member("_meta", "m")), " ", call.Caller.Info.Name)
			return nil
		}}
		s := newServer(&server.Options{Guards: []mcp.Guard{look}, Metadata: map[string]any{"shared": "of server", "server": 1}})
		addEveryKind(s, surround{Metadata: map[string]any{"shared": "of entry", "entry": 2}}, func(*server.Request) error { return nil })
		session := connectWith(t, s, &client.Options{Era: era, Info: mcp.Implementation{Name: "baker", Version: "1"}})
		for _, test := range everyKind {
			params := strings.TrimSuffix(test.params, "}") + `,"_meta":{"m":7}}`
			if _, err := raw(t, session, test.method, params); err != nil {
				t.Errorf("%s: %v", params, err)
			}
			want := targetKinds[test.name].String() + " " + test.name + " of entry 1 2 <nil> " + test.method + " true 7 baker"
			if seen != want {
				t.Errorf("the guard sees %q, want %q", seen, want)
			}
		}
		for _, params := range []string{`{"name":"tool","arguments":{}}`, `{"name":"tool","arguments":7}`, `{"name":"raw"}`} {
			seen = ""
			if _, _ = raw(t, session, mcp.MethodToolsCall, params); seen == "" {
				t.Errorf("%s: the guard has not been asked", params)
			}
		}
		for tool := range session.Tools(t.Context()) {
			if text, err := tool.AppendJSON(nil); err != nil || strings.Contains(string(text), "of entry") || strings.Contains(string(text), "etadata") {
				t.Errorf("the list holds %s", text)
			}
		}
	})
}

// TestGuardRefusesBeforeValidation: who may not call learns nothing of what would be
// valid.
func TestGuardRefusesBeforeValidation(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet()})
		addEveryKind(s, guarded(denying("shut")), func(*server.Request) error { return nil })
		session := connect(t, s, era)
		for _, test := range []struct{ method, params string }{
			{mcp.MethodToolsCall, `{"name":"tool","arguments":{"x":7}}`},
			{mcp.MethodToolsCall, `{"name":"tool","arguments":[]}`},
			{mcp.MethodToolsCall, `{"name":"raw","arguments":7}`},
			{mcp.MethodToolsCall, `{"name":"raw"}`},
			{mcp.MethodPromptsGet, `{"name":"prompt","arguments":{"y":"1"}}`},
			{mcp.MethodPromptsGet, `{"name":"prompt","arguments":7}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x"}}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x","value":""},"context":{"arguments":7}}`},
		} {
			if _, err := raw(t, session, test.method, test.params); !strings.HasPrefix(message(err), "Guard 'shut' denied") {
				t.Errorf("%s %s: the error is %v", test.method, test.params, err)
			}
		}
	})
}

// TestGuardAsks: a guard's question is asked, and its answer decides. It stands before
// each run of the call.
func TestGuardAsks(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		confirm := mcp.Guard{Name: "confirm", Check: func(_ context.Context, call *mcp.Call) error {
			answer, err := call.Input("sure", mcp.InputRequest{Method: mcp.MethodElicit, Params: jsonRaw(
				`{"message":"Sure?","requestedSchema":{"type":"object","properties":{"sure":{"type":"boolean"}},"required":["sure"]}}`)})
			if err != nil {
				return err
			}
			if !strings.Contains(string(answer), `"sure":true`) {
				return errors.New("not sure")
			}
			return nil
		}}
		var runs atomic.Int64
		s := newServer(&server.Options{Logger: quiet(), Guards: []mcp.Guard{confirm}})
		server.AddTool(s, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			runs.Add(1)
			_, err := server.Elicit[sure](r, "really", "Really?")
			return "done", err
		})
		for answer, want := range map[string]string{`{"sure":true}`: "", `{"sure":false}`: "Guard 'confirm' denied the tool call for 'tool'"} {
			runs.Store(0)
			session := connectWith(t, s, &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(answer)}, nil
			}})
			result, err := session.CallTool(t.Context(), "tool", nil, nil)
			if message(err) != want || want == "" && (err != nil || texts(result) != "done") {
				t.Errorf("%s: the tool gives %+v, %v", answer, result, err)
			}
			if n := runs.Load(); want != "" && n > 0 || want == "" && n != 2 {
				t.Errorf("%s: the function ran %d times", answer, n)
			}
		}
		// Who cannot be asked is refused.
		_, err := connect(t, s, era).CallTool(t.Context(), "tool", nil, nil)
		if err == nil || !strings.Contains(message(err), "elicitation") {
			t.Errorf("a client that cannot be asked gets %v", err)
		}
	})
}

// TestReplacedKeepsGuards: an entry that is replaced is still within what its server has.
func TestReplacedKeepsGuards(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet(), Guards: []mcp.Guard{denying("shut")}})
		session := connect(t, s, era)
		for range 2 {
			if err := s.Replace(newTool(t, "a", "")); err != nil {
				t.Fatal(err)
			}
			_, err := session.CallTool(t.Context(), "a", nil, nil)
			wantCode(t, err, jsonrpc.InternalError)
		}
	})
}

// TestGuardsWithoutFunctions are mistakes, wherever they are.
func TestGuardsWithoutFunctions(t *testing.T) {
	none := []mcp.Guard{{Name: "idle"}}
	for name, register := range map[string]func(s *server.Server) error{
		"tool": func(s *server.Server) error {
			_, err := server.NewTool(server.Tool{Name: "a", Guards: none}, nothing[struct{}])
			return err
		},
		"mount": func(s *server.Server) error {
			return s.Mount(newServer(nil).Provider(), &server.MountOptions{Guards: none})
		},
		"server": func(*server.Server) (err error) {
			defer func() { err = fmt.Errorf("panic: %v", recover()) }()
			newServer(&server.Options{Guards: none})
			return nil
		},
	} {
		if err := register(newServer(nil)); err == nil || !strings.Contains(err.Error(), `the guard "idle" has no function`) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
