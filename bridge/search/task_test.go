package search_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A call of a found tool continues as a task if calls of the tool may.
func TestFoundToolRunsAsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := server.New(mcp.Implementation{Name: "source", Version: "1"}, nil)
		server.AddTool(source, server.Tool{Name: "slow", Task: server.TaskOptional}, func(_ context.Context, r *server.Request, _ struct{}) (bool, error) {
			return r.Call().TaskID() != "", nil
		})
		s := newServer(t, source.Provider())
		session := connectBy(t, transport.Pipe(s), &client.Options{Era: client.Modern, Capabilities: &mcp.ClientCapabilities{
			Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
		}})
		if has := session.Capabilities(); !has.HasExtension(mcp.ExtensionTasks) {
			t.Error("the server does not declare tasks")
		}
		raw, err := session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"`+search.CallTool+`","arguments":{"name":"slow"}}`), nil)
		var created mcp.Task
		if err != nil || created.UnmarshalJSON(raw) != nil || created.TaskID == "" {
			t.Fatalf("the call gives %s, %v", raw, err)
		}
		<-time.After(time.Second)
		raw, err = session.Call(t.Context(), mcp.MethodTasksGet, json.RawMessage(`{"taskId":"`+created.TaskID+`"}`), nil)
		if err != nil || !strings.Contains(string(raw), `"text":"true"`) {
			t.Errorf("the task is %s, %v", raw, err)
		}
	})
}
