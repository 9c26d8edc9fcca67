package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

var reference = regexp.MustCompile(`reference ([A-Z2-7]{26})$`)

// TestPanics: a function that panics costs its call, and tells the client
// nothing but where the operator has to look.
func TestPanics(t *testing.T) {
	const secret = "the safe is behind the picture"
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		server.AddTool(s, server.Tool{Name: "tool"}, func(context.Context, *server.Request, struct{}) (string, error) { panic(secret) })
		server.AddTool(s, server.Tool{Name: "nil"}, func(context.Context, *server.Request, struct{}) (string, error) {
			none := make([]string, 0)
			return none[len(secret)], nil
		})
		server.AddRawTool(s, server.Tool{Name: "raw", InputSchema: []byte(`{"type":"object"}`)},
			func(context.Context, *server.Request, jsonRaw) (mcp.Result, error) { panic(errors.New(secret)) })
		server.AddResource(s, server.Resource{URI: "app:r"}, func(context.Context, *server.Request) (string, error) { panic(secret) })
		server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}"}, func(context.Context, *server.Request, map[string]string) (string, error) { panic(secret) })
		server.AddPrompt(s, server.Prompt{Name: "prompt"}, func(context.Context, *server.Request, struct {
			X string `json:"x,omitempty"`
		}) (string, error) {
			panic(secret)
		})
		server.AddCompletion(s, server.Completion{Prompt: "prompt", Argument: "x"},
			func(context.Context, *server.Request, string, map[string]string) ([]string, error) { panic(secret) })
		returns(s, "alive", "yes")
		session := connect(t, s, era)
		for _, test := range []struct{ kind, method, params string }{
			{"tool", mcp.MethodToolsCall, `{"name":"tool"}`},
			{"tool", mcp.MethodToolsCall, `{"name":"nil"}`},
			{"tool", mcp.MethodToolsCall, `{"name":"raw"}`},
			{"resource", mcp.MethodResourcesRead, `{"uri":"app:r"}`},
			{"resource template", mcp.MethodResourcesRead, `{"uri":"app:t/1"}`},
			{"prompt", mcp.MethodPromptsGet, `{"name":"prompt"}`},
			{"completion", mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x","value":""}}`},
		} {
			log.Reset()
			_, err := raw(t, session, test.method, test.params)
			wantCode(t, err, jsonrpc.InternalError)
			found := reference.FindStringSubmatch(message(err))
			if found == nil || strings.Contains(err.Error(), "safe") {
				t.Errorf("%s %s: the client is told %q", test.method, test.params, err)
				continue
			}
			for _, want := range []string{found[1], "panic_test.go", `"kind":"` + test.kind + `"`} {
				if !strings.Contains(log.String(), want) {
					t.Errorf("%s %s: the log lacks %q: %s", test.method, test.params, want, &log)
				}
			}
		}
		if got := texts(call(t, session, "alive", `{}`)); got != "yes" {
			t.Errorf("the server says %q", got)
		}
	})
}

// TestMiddlewarePanics: the panic costs its call, and the server goes on.
func TestMiddlewarePanics(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{
			Logger: slog.New(slog.NewJSONHandler(&log, nil)),
			Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					if call.Method() == mcp.MethodToolsCall {
						panic("intercepted")
					}
					return next(ctx, call)
				}
			}},
		})
		returns(s, "alive", "yes")
		session := connect(t, s, era)
		for range 2 {
			_, err := session.CallTool(t.Context(), "alive", nil, nil)
			wantCode(t, err, jsonrpc.InternalError)
			if !reference.MatchString(message(err)) || strings.Contains(err.Error(), "intercepted") || !strings.Contains(log.String(), "intercepted") {
				t.Errorf("the client is told %q, the operator %s", err, &log)
			}
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("a call that panicked counts as running: %v", err)
		}
	})
}
