package code_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// engine returns an engine that the tests of this process share.
var engine = sync.OnceValue(func() *code.Engine {
	e, err := code.NewEngine(nil)
	if err != nil {
		panic(err)
	}
	return e
})

// A ledger counts what tools have done.
type ledger struct {
	mu   sync.Mutex
	done map[string]int
}

func (l *ledger) add(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(map[string]int)
	}
	l.done[what]++
}

func (l *ledger) do(what string) error {
	l.add(what)
	return nil
}

func (l *ledger) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[what]
}

type text struct {
	Text string `json:"text"`
}

// newTools returns a server with tools of all kinds, which write to the ledger.
func newTools(l *ledger) *server.Server {
	s := server.New(mcp.Implementation{Name: "tools"}, nil)
	server.AddTool(s, server.Tool{Name: "echo", TextOnly: true, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, func(_ context.Context, _ *server.Request, in text) (string, error) {
		l.add("echo " + in.Text)
		return in.Text, nil
	})
	server.AddTool(s, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in struct{ A, B int }) (int, error) {
		return in.A + in.B, nil
	})
	server.AddTool(s, server.Tool{Name: "write", TextOnly: true}, func(_ context.Context, _ *server.Request, in text) (string, error) {
		l.add("write " + in.Text)
		return "written " + in.Text, nil
	})
	server.AddTool(s, server.Tool{Name: "fail"}, func(_ context.Context, _ *server.Request, in text) (string, error) {
		return "", errors.New("no such file: " + in.Text)
	})
	server.AddTool(s, server.Tool{Name: "ask", TextOnly: true}, func(_ context.Context, r *server.Request, in text) (string, error) {
		l.add("begin " + in.Text)
		name, err := server.Elicit[string](r, "name", in.Text)
		if err != nil {
			return "", err
		}
		l.add("ask " + in.Text)
		return name, nil
	})
	server.AddRawTool(s, server.Tool{Name: "picture", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text("a dot"), &mcp.ImageContent{MIMEType: "image/png", Data: []byte("PNG")}}}, nil
	})
	server.AddTool(s, server.Tool{Name: "large", TextOnly: true}, func(_ context.Context, _ *server.Request, in struct{ Size int }) (string, error) {
		return strings.Repeat("x", in.Size), nil
	})
	server.AddRawTool(s, server.Tool{Name: "empty", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{IsError: true}, nil
	})
	server.AddRawTool(s, server.Tool{Name: "nothing", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		var none *mcp.CallToolResult
		return none, nil
	})
	server.AddTool(s, server.Tool{Name: "steps", TextOnly: true}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		return "done", errors.Join(r.Progress(ctx, 1, 2, "first"), r.Progress(ctx, 2, 2, "second"))
	})
	return s
}

// connect returns a session with a server that offers scripts over tools.
func connect(t testing.TB, tools server.Provider, opts *code.Options, test *servertest.Options) *client.Session {
	t.Helper()
	o := code.Options{}
	if opts != nil {
		o = *opts
	}
	if o.Engine == nil {
		o.Engine = engine()
	}
	scripts, err := code.New(tools, &o)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "scripts"}, nil)
	if err := s.Mount(scripts, nil); err != nil {
		t.Fatal(err)
	}
	return servertest.Connect(t, s, test)
}

// A result is what the model reads.
type result struct {
	Value   json.RawMessage
	Error   string
	Console string
	Calls   []struct {
		Tool  string
		Times int
		Error string
	}
	Notes []string

	IsError bool            `json:"-"`
	Content mcp.ContentList `json:"-"`
}

func (r *result) isError() bool { return r.Error != "" }

// run runs a script.
func run(t *testing.T, session *client.Session, script string) *result {
	t.Helper()
	r, err := tryRun(t.Context(), session, script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return r
}

func tryRun(ctx context.Context, session *client.Session, script string) (*result, error) {
	got, err := session.CallTool(ctx, code.ScriptTool, map[string]string{"script": script}, nil)
	if err != nil {
		return nil, err
	}
	r := &result{IsError: got.IsError, Content: got.Content}
	first, _ := got.Content[0].(*mcp.TextContent)
	if err := json.Unmarshal([]byte(first.Text), r); err != nil {
		return nil, fmt.Errorf("%w: %s", err, first.Text)
	}
	return r, nil
}

// quiet returns a logger that discards everything.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
