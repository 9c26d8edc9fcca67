package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
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

// taskCaller is the responder of a call that may continue as a task.
type taskCaller struct{ mcp.Responder }

func (taskCaller) TaskID() string { return "" }
func (taskCaller) OnDone(func())  {}
func (taskCaller) ID() string     { return "1" }

// TestTaskOfFoundTool checks that a call continues as the task that its tool asks for. Hidden tools and tools that do
// not exist have the same error.
func TestTaskOfFoundTool(t *testing.T) {
	source := server.New(mcp.Implementation{Name: "source", Version: "1"}, nil)
	pay := func(context.Context, *server.Request, struct{}) (string, error) { return "", nil }
	for _, name := range []string{"secret_pay", "pay"} {
		server.AddTool(source, server.Tool{Name: name, Task: server.TaskOptional, TTL: time.Hour}, pay)
	}
	remote := func(name string) *server.Entry {
		return &server.Entry{
			Target: mcp.Target{Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition(json.RawMessage(`{"name":"` + name + `","inputSchema":{"type":"object"}}`))},
			Task:   server.TaskOptional,
			Handle: func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(`{"content":[]}`), nil },
			Tasks:  func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(`{}`), nil },
		}
	}
	if err := source.Replace(remote("secret_remote"), remote("remote")); err != nil {
		t.Fatal(err)
	}
	provider, err := search.New(source.Provider(), &search.Options{Guards: []mcp.Guard{hiding("secret")}})
	if err != nil {
		t.Fatal(err)
	}
	s := mounted(t, provider, "", nil)
	for name, want := range map[string]*mcp.TaskRequest{
		"pay": {TTL: time.Hour}, "remote": {},
		"secret_pay": nil, "secret_remote": nil, "secret_none": nil,
	} {
		request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, []byte(`{"name":"call_tool","arguments":{"name":"`+name+`"}}`))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(request, &mcp.Caller{Info: &mcp.Implementation{Name: "guest"}, Capabilities: mcp.ClientCapabilities{
			Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
		}}, taskCaller{})
		_, err = s.Serve(t.Context(), &call)
		question, asks := mcp.AsInputRequired(err)
		failure, failed := errors.AsType[*jsonrpc.Error](err)
		switch {
		case want == nil && (!failed || !strings.Contains(failure.Message, "unknown tool")):
			t.Errorf("%s: %v, want the error of an unknown tool", name, err)
		case want != nil && (!asks || question.Task == nil || *question.Task != *want):
			t.Errorf("%s: %v, want the task %+v", name, err, want)
		}
	}
}
