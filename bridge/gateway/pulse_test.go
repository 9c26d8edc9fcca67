package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestWaitingCalls: with ?wait=1 the response says whether the call may have been executed, whatever the failure is.
func TestWaitingCalls(t *testing.T) {
	r := &rig{token: aToken, files: newUpstream()}
	r.files.AddFunc("broken", server.Tool{}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return mcp.Raw(`{"content":1}`), nil
	})
	r.files.AddFunc("panics", server.Tool{}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		panic("the function says so")
	})
	r.files.AddFunc("behind", server.Tool{}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "lost", Data: json.RawMessage(`{"type":"UPSTREAM_LOST","executed":"maybe"}`)}
	})
	r.files.AddFunc("refuses", server.Tool{}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return nil, &jsonrpc.Error{Code: 7, Message: "no"}
	})
	dead := frontendtest.To("dead", nil)
	dead.Dialer = dialerFunc(func(context.Context, jsonrpc.Handler) (transport.Conn, error) { return nil, errTest })
	r.bridge = frontendtest.Bridge(t, frontendtest.To("files", r.files), dead)
	guard := mcp.Guard{Name: "test", Check: func(_ context.Context, call *mcp.Call) error {
		if call.Target().Origin.Name == "stat" {
			return errors.New("not now")
		}
		return nil
	}}
	r.serve(t, gateway.Options{CallTimeout: time.Second}, operator{Options: server.Options{Guards: []mcp.Guard{guard}}})
	for _, test := range []struct{ server, tool, code, executed string }{
		{"files", "other", "unknown_tool", "no"},
		{"nobody", "x", "unknown_tool", "no"},
		{"dead", "x", "upstream_unavailable", "no"},
		{"files", "stat", "forbidden", "no"},
		{"files", "refuses", "server_error", "no"},
		{"files", "behind", "server_error", "maybe"},
		{"files", "panics", "server_error", "no"}, // the server has answered
		{"files", "broken", "upstream_malformed", "maybe"},
		{"files", "slow", "timeout", "maybe"},
	} {
		got := r.post(t, call(test.server, test.tool)+"?wait=1&result=full", `{}`)
		var answer struct {
			Success        *bool
			IsError        *bool `json:"is_error"`
			Error          *string
			Code, Executed string
		}
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != http.StatusOK || answer.Success == nil || *answer.Success || *answer.IsError || *answer.Error == "" {
			t.Errorf("%s: %d %s", test.tool, got.status, got.body)
		}
		if answer.Code != test.code || answer.Executed != test.executed {
			t.Errorf("%s is %s, executed %s, want %s, %s: %s", test.tool, answer.Code, answer.Executed, test.code, test.executed, got.body)
		}
	}
	r.post(t, call("files", "read")+"?wait=1", `{}`).wants(t, 200, `{"success":true,"result":"one\ntwo <\u00e9>","error":null,"is_error":false}`)
	r.post(t, call("files", "fail")+"?wait=1", `{}`).wants(t, 200, `{"success":false,"result":"no such file","error":"no such file","is_error":true}`)
}

// TestSpacesWhileACallWaits: the connection of a call is not idle for longer than 15 seconds.
func TestSpacesWhileACallWaits(t *testing.T) {
	for _, test := range []struct {
		query  string
		runs   time.Duration
		spaces int
	}{{"", 40 * time.Second, 0}, {"?wait=1", 10 * time.Second, 0}, {"?wait=1", 40 * time.Second, 2}, {"?wait=1", 2 * time.Minute, 6}} {
		synctest.Test(t, func(t *testing.T) {
			u := frontendtest.NewUpstream()
			u.AddFunc("long", server.Tool{}, func(ctx context.Context, _ *server.Request, _ json.RawMessage) (mcp.Result, error) {
				select {
				case <-time.After(test.runs):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("done")}}, nil
			})
			config := frontendtest.To("files", u)
			config.CallTimeout = time.Hour
			s := frontendtest.Operator(t, server.Options{}, frontendtest.Bridge(t, config))
			g := gateway.New(s, &gateway.Options{
				CallTimeout:   100 * time.Second,
				Authenticator: frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Tokens: frontendtest.Tokens(aToken)}), Logger: frontendtest.Quiet(),
			})
			request := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1/files/tools/long"+test.query, strings.NewReader(`{}`))
			request.Header.Set("Authorization", "Bearer "+aToken)
			request.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			g.Proxy().ServeHTTP(w, request)
			want, status := `{"success":true,"result":"done","error":null,"is_error":false}`, http.StatusOK
			if test.runs > time.Minute+40*time.Second {
				want = `{"success":false,"result":null,"error":"the call took too long; it may have been executed","is_error":false,"code":"timeout","executed":"maybe"}`
			}
			if got := w.Body.String(); got != strings.Repeat(" ", test.spaces)+want || w.Code != status {
				t.Errorf("%s for %v: the answer is %d %q", test.query, test.runs, w.Code, got)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("the content type is %q", got)
			}
		})
	}
}
