package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

func TestObserversOfACallObserveItsCopies(t *testing.T) {
	for name, copied := range map[string]func(*mcp.Call) (*mcp.Call, error){
		"the call itself": func(c *mcp.Call) (*mcp.Call, error) { return c, nil },
		"WithParams":      func(c *mcp.Call) (*mcp.Call, error) { return c.WithParams(json.RawMessage(`{"a":1}`)) },
		"WithMeta":        func(c *mcp.Call) (*mcp.Call, error) { return c.WithMeta(mcp.Meta(`{"a":1}`)) },
		"Enter":           func(c *mcp.Call) (*mcp.Call, error) { return c.Enter(nil, nil, nil) },
		"Enter, params":   func(c *mcp.Call) (*mcp.Call, error) { return c.Enter(nil, json.RawMessage(`{}`), nil) },
		"Fork":            func(c *mcp.Call) (*mcp.Call, error) { return c.Fork(), nil },
	} {
		t.Run(name, func(t *testing.T) {
			request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			call := mcp.NewCall(request, &mcp.Caller{}, silent{})
			var observed []string
			var kept []json.RawMessage
			for _, observer := range []string{"first", "second"} {
				call.Observe(func(method string, params json.RawMessage) {
					observed = append(observed, fmt.Sprintf("%s %s %s", observer, method, params))
					kept = append(kept, params)
				})
			}
			c, err := copied(&call)
			if err != nil {
				t.Fatal(err)
			}
			borrowed := mcp.Raw(`{"progress":1}`)
			if err := c.Notify(t.Context(), mcp.NotificationProgress, borrowed); err != nil {
				t.Fatal(err)
			}
			clear(borrowed)
			want := []string{`second notifications/progress {"progress":1}`, `first notifications/progress {"progress":1}`}
			if !slices.Equal(observed, want) {
				t.Errorf("observed %q, want %q", observed, want)
			}
			for _, params := range kept {
				if string(params) != `{"progress":1}` {
					t.Errorf("the params of an observer have changed to %q", params)
				}
			}
		})
	}
}

// failing is a responder of a caller that has disconnected.
type failing struct{ mcp.Responder }

func (failing) Notify(context.Context, string, jsonrpc.Appender) error { return errors.New("gone") }

func TestUnsentNotificationsAreNotObserved(t *testing.T) {
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{}, failing{})
	call.Observe(func(string, json.RawMessage) { t.Error("a notification that was not sent is observed") })
	if err := call.Notify(t.Context(), mcp.NotificationMessage, nil); err == nil {
		t.Error("Notify returned no error")
	}
}
