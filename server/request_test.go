package server_test

import (
	"context"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A function can be called with a nil request: it sends nothing, and cannot ask.
func TestNilRequest(t *testing.T) {
	var r *server.Request
	r.SetChunks(3)
	r.Detach(0)
	r.Logger("x").ErrorContext(t.Context(), "dropped")
	if err := r.Progress(t.Context(), 1, 2, "half"); err != nil {
		t.Errorf("progress: %v", err)
	}
	if r.Call() != nil || r.Caller() == nil || r.Caller().Principal != "" || r.Meta("x") != nil || r.Header() != nil || r.SessionID() != "" {
		t.Errorf("the call is %v, its caller %v, its _meta %s", r.Call(), r.Caller(), r.Meta("x"))
	}
	if got, err := server.Once(r, "x", func() (int, error) { return 7, nil }); got != 7 || err != nil {
		t.Errorf("once: %d, %v", got, err)
	}
	params := &mcp.CreateMessageParams{Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text("Hi")}}}}
	for name, ask := range map[string]func() error{
		"Elicit":     func() error { _, err := server.Elicit[int](r, "x", "How many?"); return err },
		"ElicitForm": func() error { _, err := server.ElicitForm(r, "x", "How many?", &mcp.ElicitSchema{}); return err },
		"ElicitURL":  func() error { return server.ElicitURL(r, "x", "Visit.", "https://a.example") },
		"Sample":     func() error { _, err := server.Sample(r, "x", params); return err },
		"SampleAs":   func() error { _, err := server.SampleAs[int](r, "x", params); return err },
		"SampleLoop": func() error {
			_, err := server.SampleLoop(t.Context(), r, "x", params, func(context.Context, *mcp.ToolUseContent) (mcp.ContentList, error) { return nil, nil })
			return err
		},
		"Roots": func() error { _, err := server.Roots(r, "x"); return err },
	} {
		if err := ask(); err == nil || err.Error() != "a nil *server.Request has no caller to ask; package servertest makes a request that has one" {
			t.Errorf("%s: %v", name, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("there is a dependency")
		}
	}()
	server.Value[int](r)
}

// NewRequest is the request of a call for functions that are called by other code, such as a handler that is an entry
// itself.
func TestNewRequest(t *testing.T) {
	fn := func(_ context.Context, r *server.Request, in xIn) (string, error) {
		return in.X + r.Caller().Principal, nil
	}
	s := newServer(nil)
	entry := newTool(t, "x", "")
	entry = entry.Wrap(nil, []mcp.Middleware{func(mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			text, err := fn(ctx, server.NewRequest(ctx, s, call), xIn{"direct"})
			return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(text)}}, err
		}
	}})
	replace(t, s, entry)
	if result := call(t, connectWith(t, s, nil), "x", `{}`); textOf(result) != "direct" {
		t.Errorf("got %+v", result)
	}
}
