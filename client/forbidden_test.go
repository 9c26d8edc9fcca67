package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestForbidden: a refusal by a guard is told from other failures, and the session
// goes on.
func TestForbidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		add := func(name string, guards ...mcp.Guard) {
			server.AddTool(s, server.Tool{Name: name, Guards: guards}, func(context.Context, *server.Request, none) (string, error) {
				return "", nil
			})
			server.AddPrompt(s, server.Prompt{Name: name, Guards: guards}, func(context.Context, *server.Request, none) (string, error) {
				return "", nil
			})
		}
		refuse := func(context.Context, *mcp.Call) error { return errors.New("the reason stays here") }
		add("open")
		add("shut", mcp.Guard{Name: `the "door"`, Check: refuse})
		add("hidden", mcp.Guard{Name: "curtain", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }})
		session := connect(t, transport.Pipe(s), client.Options{Era: era})
		for name, want := range map[string]bool{"open": false, "shut": true, "hidden": false, "absent": false} {
			_, err := session.CallTool(t.Context(), name, nil, nil)
			if got := client.IsForbidden(err); got != want || (err == nil) != (name == "open") {
				t.Errorf("the tool %s is forbidden: %t, by %v", name, got, err)
			}
			_, err = session.Prompt(t.Context(), name, nil, nil)
			if got := client.IsForbidden(err); got != want || (err == nil) != (name == "open") {
				t.Errorf("the prompt %s is forbidden: %t, by %v", name, got, err)
			}
		}
	})
}

func TestIsForbidden(t *testing.T) {
	refusal := func(code jsonrpc.Code, data string) error {
		return fmt.Errorf("calling: %w", &jsonrpc.Error{Code: code, Message: "Guard 'g' denied the tool call for 't'", Data: []byte(data)})
	}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{refusal(jsonrpc.InternalError, `{"type":"FORBIDDEN","guard":"g"}`), true},
		{refusal(jsonrpc.InternalError, ` { "type" : "FORBIDDE\u004e" }`), true},
		{nil, false},
		{errors.New("FORBIDDEN"), false},
		{refusal(jsonrpc.InvalidParams, `{"type":"FORBIDDEN","guard":"g"}`), false},
		{refusal(jsonrpc.InternalError, ``), false},
		{refusal(jsonrpc.InternalError, `null`), false},
		{refusal(jsonrpc.InternalError, `"FORBIDDEN"`), false},
		{refusal(jsonrpc.InternalError, `{"type":`), false},
		{refusal(jsonrpc.InternalError, `{"type":7}`), false},
		{refusal(jsonrpc.InternalError, `{"type":"forbidden"}`), false},
		{refusal(jsonrpc.InternalError, `{"Type":"FORBIDDEN"}`), false},
	} {
		if got := client.IsForbidden(test.err); got != test.want {
			t.Errorf("%v: %t", test.err, got)
		}
	}
}
