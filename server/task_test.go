package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// withTasks are the options of a client that supports tasks, and answers questions.
func withTasks() *client.Options {
	return &client.Options{Era: client.Modern, Capabilities: &mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapability{},
		Extensions:  map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
	}}
}

func TestTaskLifecycle(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "s", Version: "1"}, nil)
	defer s.Shutdown(context.Background())
	type in struct {
		Seconds int `json:"seconds"`
	}
	server.AddTool(s, server.Tool{Name: "slow", Task: server.TaskOptional}, func(ctx context.Context, r *server.Request, in in) (string, error) {
		if r.Call().TaskID() == "" {
			return "direct", nil
		}
		_ = r.Progress(ctx, 1, 2, "half")
		select {
		case <-time.After(time.Duration(in.Seconds) * 10 * time.Millisecond):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		name, err := server.Elicit[string](r, "name", "Name?")
		if err != nil {
			return "", err
		}
		return "hello " + name, nil
	})
	c := dial(s, withTasks())
	defer c.Close()
	raw, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"slow","arguments":{"seconds":1}}`), nil)
	fmt.Println(string(raw), err)
	var created mcp.Task
	if err := created.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	for {
		raw, err = c.Call(t.Context(), "tasks/get", json.RawMessage(`{"taskId":"`+created.TaskID+`"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(string(raw))
		var got mcp.Task
		if err := got.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		if got.Status == mcp.TaskInputRequired {
			raw, err = c.Call(t.Context(), "tasks/update", json.RawMessage(`{"taskId":"`+created.TaskID+`","inputResponses":{"name":{"action":"accept","content":{"value":"Ann"}}}}`), nil)
			fmt.Println(string(raw), err)
		}
		if got.Status.Ended() {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	_ = errors.New
}
