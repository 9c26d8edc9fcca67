package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestErrorsNameNoTypes: a caller reads the text that the program's author wrote, and
// nothing of how the program is made.
func TestErrorsNameNoTypes(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: quiet()})
		addEveryKind(s, surround{}, func(*server.Request) error { return fmt.Errorf("baking: %w", &shortage{"salt"}) })
		session := connect(t, s, era)
		for _, test := range everyKind {
			result, err := raw(t, session, test.method, test.params)
			if test.kind == "tool" {
				const want = `{"content":[{"type":"text","text":"baking: out of salt"}],"isError":true`
				if err != nil || !strings.HasPrefix(result, want) || strings.Contains(result, "shortage") {
					t.Errorf("%s: the result is %s, %v", test.params, result, err)
				}
				continue
			}
			e := protocolError(t, err)
			if e.Code != jsonrpc.InternalError || e.Message != "baking: out of salt" || e.Data != nil {
				t.Errorf("%s: the error is %+v", test.params, e)
			}
		}
	})
}

// TestMiddlewareMakesNonsense: what is no result is for the operator, and the connection
// goes on.
func TestMiddlewareMakesNonsense(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		for name, nonsense := range map[string]mcp.Result{
			"number": mcp.Raw(`7`), "list": mcp.Raw(`[]`), "nothing": mcp.Raw(``), "nil_block": &mcp.CallToolResult{Content: []mcp.Content{nil}},
		} {
			server.AddTool(s, server.Tool{Name: name, CallMiddleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
				return func(context.Context, *mcp.Call) (mcp.Result, error) { return nonsense, nil }
			}}}, func(context.Context, *server.Request, struct{}) (string, error) { return "", &shortage{"salt"} })
		}
		returns(s, "alive", "yes")
		session := connect(t, s, era)
		for _, tool := range []string{"number", "list", "nothing", "nil_block"} {
			log.Reset()
			_, err := session.CallTool(t.Context(), tool, nil, nil)
			if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) || log.Len() == 0 {
				t.Errorf("%s: the caller is told %v, the operator %s", tool, err, &log)
			}
			if got := texts(call(t, session, "alive", `{}`)); got != "yes" {
				t.Errorf("after %s the server says %q", tool, got)
			}
		}
	})
}
