package guardtests

import (
	"bytes"
	"context"
	"encoding/json"
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

// TestGuardOrder checks that the server's guards come first, and that the first refusal ends the
// call.
func (s Suite) TestGuardOrder(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var asked []string
		guard := func(name string, err error) mcp.Guard {
			return mcp.Guard{Name: name, Check: func(context.Context, *mcp.Call) error { asked = append(asked, name); return err }}
		}
		tools := newServer(&server.Options{Logger: quiet(), Guards: []mcp.Guard{guard("s1", nil), guard("s2", nil)}})
		for name, guards := range map[string][]mcp.Guard{
			"open": {guard("e1", nil), guard("e2", nil)}, "shut": {guard("deny", errors.New("no")), guard("allow", nil)}, "late": {guard("allow", nil), guard("deny", errors.New("no"))},
		} {
			server.AddTool(tools, server.Tool{Name: name, Guards: guards}, nothing)
		}
		session := s.Connect(t.Context(), t, tools, quiet(), &client.Options{Era: era})
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

// TestGuardsFailClosed checks that any failure of a guard refuses the call and is logged.
func (s Suite) TestGuardsFailClosed(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&log, nil))
		tools := newServer(&server.Options{Logger: logger})
		var runs atomic.Int64
		add := func(name string, check func(context.Context, *mcp.Call) error) {
			server.AddTool(tools, server.Tool{Name: name, Guards: []mcp.Guard{{Name: "g", Check: check}}},
				func(context.Context, *server.Request, struct{}) (string, error) { runs.Add(1); return "", nil })
		}
		const secret = "the safe is behind the picture"
		add("error", func(context.Context, *mcp.Call) error { return errors.New(secret) })
		add("panic", func(context.Context, *mcp.Call) error { panic(secret) })
		add("nilmap", func(context.Context, *mcp.Call) error {
			return []error{}[len(secret)] //nolint:gosec // it panics
		})
		add("ended", func(context.Context, *mcp.Call) error { return context.Canceled })
		add("own", func(context.Context, *mcp.Call) error {
			return fmt.Errorf("%s: %w", secret, &jsonrpc.Error{Code: -403, Message: "ask the baker", Data: json.RawMessage(`{"a":1}`)})
		})
		session := s.Connect(t.Context(), t, tools, logger, &client.Options{Era: era})
		for _, tool := range []string{"error", "panic", "nilmap", "ended"} {
			log.Reset()
			_, err := session.CallTool(t.Context(), tool, nil, nil)
			if e := protocolError(t, err); e.Code != jsonrpc.InternalError || e.Message != "Guard 'g' denied the tool call for '"+tool+"'" {
				t.Errorf("%s: the caller is told %+v", tool, e)
			}
			if !strings.Contains(log.String(), `"guard":"g"`) || (tool == "error" || tool == "panic") != strings.Contains(log.String(), secret) {
				t.Errorf("%s: the operator is told %s", tool, &log)
			}
			if tool == "panic" && !strings.Contains(log.String(), "guardtests/guard.go") {
				t.Errorf("the log has no stack: %s", &log)
			}
		}
		_, err := session.CallTool(t.Context(), "own", nil, nil)
		e := protocolError(t, err)
		if e.Code != -403 || e.Message != "ask the baker" || string(e.Data) != `{"a":1}` {
			t.Errorf("the guard's own error becomes %+v", err)
		}
		if n := runs.Load(); n > 0 {
			t.Errorf("%d functions ran", n)
		}
	})
}

// TestGuardAsksQuestion checks that a guard can ask, and is called before each run of the call.
func (s Suite) TestGuardAsksQuestion(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		confirm := mcp.Guard{Name: "confirm", Check: func(_ context.Context, call *mcp.Call) error {
			answer, err := call.Input("sure", mcp.InputRequest{Method: mcp.MethodElicit, Params: json.RawMessage(
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
		tools := newServer(&server.Options{Logger: quiet(), Guards: []mcp.Guard{confirm}})
		server.AddTool(tools, server.Tool{Name: "tool"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			runs.Add(1)
			_, err := server.Elicit[sure](r, "really", "Really?")
			return "done", err
		})
		for answer, want := range map[string]string{`{"sure":true}`: "", `{"sure":false}`: "Guard 'confirm' denied the tool call for 'tool'"} {
			runs.Store(0)
			session := s.Connect(t.Context(), t, tools, quiet(), &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(answer)}, nil
			}})
			result, err := session.CallTool(t.Context(), "tool", nil, nil)
			if want != "" && protocolError(t, err).Message != want || want == "" && (err != nil || result.Text() != "done") {
				t.Errorf("%s: the tool gives %+v, %v", answer, result, err)
			}
			if n := runs.Load(); want != "" && n > 0 || want == "" && n != 2 {
				t.Errorf("%s: the function ran %d times", answer, n)
			}
		}
		// Who cannot be asked is refused.
		_, err := s.Connect(t.Context(), t, tools, quiet(), &client.Options{Era: era}).CallTool(t.Context(), "tool", nil, nil)
		if e := protocolError(t, err); !strings.Contains(e.Message, "elicitation") {
			t.Errorf("a client that cannot be asked gets %v", e)
		}
	})
}

// TestReplacedKeepsGuards checks that the server's guards apply to replaced entries.
func (s Suite) TestReplacedKeepsGuards(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		tools := newServer(&server.Options{Logger: quiet(), Guards: []mcp.Guard{refuse("shut")}})
		session := s.Connect(t.Context(), t, tools, quiet(), &client.Options{Era: era})
		for range 2 {
			entry, err := server.NewTool(server.Tool{Name: "a"}, nothing)
			if err != nil {
				t.Fatal(err)
			}
			if err := tools.Replace(entry); err != nil {
				t.Fatal(err)
			}
			_, err = session.CallTool(t.Context(), "a", nil, nil)
			if e := protocolError(t, err); e.Code != jsonrpc.InternalError {
				t.Errorf("the caller is told %+v", e)
			}
		}
	})
}

// TestVisibleFailsClosed checks that a panic hides the entry.
func (s Suite) TestVisibleFailsClosed(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		tools := newServer(&server.Options{Logger: quiet()})
		server.AddTool(tools, server.Tool{Name: "panics", Guards: []mcp.Guard{{Name: "g", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool {
			panic("it is there")
		}}}}, nothing)
		session := s.Connect(t.Context(), t, tools, quiet(), &client.Options{Era: era})
		if names := toolNames(t, session); len(names) > 0 {
			t.Errorf("listed are %q", names)
		}
		_, err := session.CallTool(t.Context(), "panics", nil, nil)
		if e := protocolError(t, err); e.Code != jsonrpc.InvalidParams || e.Message != `unknown tool: "panics"` {
			t.Errorf("the caller is told %+v", e)
		}
	})
}

// TestCheckDecidesCalls checks that Visible of a guard with Check is for lists only.
func (s Suite) TestCheckDecidesCalls(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		hidden := func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }
		tools := newServer(&server.Options{Logger: quiet()})
		server.AddTool(tools, server.Tool{Name: "callable", Guards: []mcp.Guard{{Name: "g", Visible: hidden, Check: allow}}}, nothing)
		server.AddTool(tools, server.Tool{Name: "refused", Guards: []mcp.Guard{{Name: "g", Visible: hidden, Check: refuse("").Check}}}, nothing)
		session := s.Connect(t.Context(), t, tools, quiet(), &client.Options{Era: era})
		if names := toolNames(t, session); len(names) > 0 {
			t.Errorf("listed are %q", names)
		}
		if _, err := session.CallTool(t.Context(), "callable", nil, nil); (err != nil) != s.Hides {
			t.Errorf("a tool that may be called gives %v", err)
		}
		if _, err := session.CallTool(t.Context(), "refused", nil, nil); err == nil || client.IsForbidden(err) == s.Hides {
			t.Errorf("the error is %v", err)
		}
	})
}
