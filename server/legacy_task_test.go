package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// legacyResult starts a task of a tool for a client of 2025-11-25 and returns its result.
func (c *taskClient) legacyResult(tool string, opts *client.Options) (json.RawMessage, error) {
	c.t.Helper()
	opts.Era = client.Legacy
	legacy := newTaskClient(c.t, c.server, opts)
	defer legacy.session.Close()
	raw, err := legacy.session.Call(c.t.Context(), mcp.MethodToolsCall, json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":{},"task":{}}`, tool)), nil)
	if err != nil {
		return nil, err
	}
	var created struct {
		Task struct {
			TaskID string `json:"taskId"`
		} `json:"task"`
	}
	if err := json.Unmarshal(raw, &created); err != nil || created.Task.TaskID == "" {
		c.t.Fatalf("the result of the call is %s, want a task", raw)
	}
	return legacy.session.Call(c.t.Context(), mcp.MethodTasksResult, json.RawMessage(fmt.Sprintf(`{"taskId":%q}`, created.Task.TaskID)), nil)
}

// addRemoteTask adds a tool with tasks that another server keeps. get returns the status and further members of
// the task, for each request for its state.
func (c *taskClient) addRemoteTask(tool string, get func(gets int) (status, more string)) {
	state := func(status, more string) mcp.Raw {
		return mcp.Raw(fmt.Sprintf(`{"taskId":"t1","status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null%s}`, status, more))
	}
	var gets atomic.Int32 // a subscription asks too
	entry := &server.Entry{
		Target: mcp.Target{Kind: mcp.KindTool, Name: tool, Definition: mcp.NewDefinition(json.RawMessage(`{"name":"` + tool + `","inputSchema":{"type":"object"}}`))},
		Task:   server.TaskOptional,
		Handle: func(context.Context, *mcp.Call) (mcp.Result, error) {
			task := new(mcp.Task)
			return task, task.UnmarshalJSON(state("working", ""))
		},
		Tasks: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			if call.Method() != mcp.MethodTasksGet {
				return mcp.Raw(`{}`), nil
			}
			return state(get(int(gets.Add(1)))), nil
		},
	}
	if err := c.server.Replace(entry); err != nil {
		c.t.Fatal(err)
	}
}

const formQuestion = `{"method":"elicitation/create","params":{"message":"?","_meta":{"vendor/x":1},"requestedSchema":{"type":"object","properties":{}}}}`

// TestQuestionsOfLegacyTasks has servers that repeat questions until they have processed the answers. The
// client is asked once, with the _meta of the question, and the server is not asked without a pause.
func TestQuestionsOfLegacyTasks(t *testing.T) {
	const done = `,"result":{"content":[]}`
	for name, test := range map[string]struct {
		questions func(gets int) string
		ends      int // the request that finds the result
		asked     []string
		failure   string
		pauses    time.Duration // at least
	}{
		"repeated": {func(int) string { return `"a":` + formQuestion }, 10, []string{"?"}, "", time.Second},
		"none":     {func(int) string { return "" }, 10, nil, "", time.Second},
		"one after the other": {func(gets int) string {
			return `"a":` + formQuestion + fmt.Sprintf(`,"b%d":%s`, gets/5, formQuestion)
		}, 10, []string{"?", "?", "?"}, "", 300 * time.Millisecond},
		"for ever": {func(gets int) string { return fmt.Sprintf(`"a%d":%s`, gets, formQuestion) }, 1000, slices.Repeat([]string{"?"}, 10), "asked more than 10 times", 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, c *taskClient) {
				c.addRemoteTask("remote", func(gets int) (status, more string) {
					if gets >= test.ends {
						return "completed", done
					}
					return "input_required", `,"inputRequests":{` + test.questions(gets) + `}`
				})
				var asked []string
				began := time.Now()
				_, err := c.legacyResult("remote", &client.Options{Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					asked = append(asked, p.Message)
					if string(p.Meta.Get("vendor/x")) != "1" || !strings.Contains(string(p.Meta.Get(mcp.MetaRelatedTask)), "taskId") {
						t.Errorf("the _meta of the question is %s", p.Meta)
					}
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{}`)}, nil
				}})
				if test.failure == "" && err != nil || test.failure != "" && (err == nil || !strings.Contains(err.Error(), test.failure)) {
					t.Errorf("the error is %v, want %q", err, test.failure)
				}
				if !slices.Equal(asked, test.asked) {
					t.Errorf("the client was asked %q, want %q", asked, test.asked)
				}
				if took := time.Since(began); took < test.pauses {
					t.Errorf("the server was asked %d times in %v", test.ends, took)
				}
			})
		})
	}
}

// TestHiddenToolsAndLegacyTasks: a client that wants a task cannot find out which hidden tools there are.
func TestHiddenToolsAndLegacyTasks(t *testing.T) {
	guard := mcp.Guard{Name: "hide", Visible: func(_ context.Context, _ *mcp.Caller, t *mcp.Target) bool { return t.Name == "plain" }}
	inBubble(t, &server.Options{Guards: []mcp.Guard{guard}}, func(t *testing.T, c *taskClient) {
		run := func(context.Context, *server.Request, struct{}) (string, error) { return "", nil }
		server.AddTool(c.server, server.Tool{Name: "plain"}, run)
		server.AddTool(c.server, server.Tool{Name: "hidden"}, run)
		server.AddTool(c.server, server.Tool{Name: "hidden-task", Task: server.TaskOptional}, run)
		want := map[string]jsonrpc.Code{
			"plain": jsonrpc.MethodNotFound, "hidden": jsonrpc.InvalidParams, "hidden-task": jsonrpc.InvalidParams, "missing": jsonrpc.InvalidParams,
		}
		for tool, code := range want {
			_, err := c.legacyResult(tool, &client.Options{})
			failure, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok || failure.Code != code || code == jsonrpc.InvalidParams && !strings.Contains(failure.Message, "nknown tool") {
				t.Errorf("a task of %s gives %v, want the code %d", tool, err, code)
			}
		}
	})
}

// TestTTLOfLegacyTasks checks that a client can only shorten the time to live of a task.
func TestTTLOfLegacyTasks(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *taskClient) {
		done := func(context.Context, *server.Request, struct{}) (string, error) { return "", nil }
		server.AddTool(c.server, server.Tool{Name: "default", Task: server.TaskOptional}, done)
		server.AddTool(c.server, server.Tool{Name: "hour", Task: server.TaskOptional, TTL: time.Hour}, done)
		legacy := newTaskClient(t, c.server, &client.Options{Era: client.Legacy})
		defer legacy.session.Close()
		for _, test := range []struct {
			tool, wanted string
			want         time.Duration
		}{
			{"default", `{}`, 24 * time.Hour},
			{"default", `{"ttl":1000}`, time.Second},
			{"default", `{"ttl":86400001}`, 24 * time.Hour},
			{"default", `{"ttl":9000000000000000000}`, 24 * time.Hour},
			{"default", `{"ttl":-1}`, 24 * time.Hour},
			{"hour", `{"ttl":1000}`, time.Second},
			{"hour", `{"ttl":86400000}`, time.Hour},
		} {
			raw, err := legacy.session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":{},"task":%s}`, test.tool, test.wanted)), nil)
			if want := fmt.Sprintf(`"ttl":%d,`, test.want.Milliseconds()); err != nil || !strings.Contains(string(raw), want) {
				t.Errorf("%s with %s: %s, %v, want %s", test.tool, test.wanted, raw, err, want)
			}
		}
		synctest.Wait()
	})
}

// TestExecutedCallOfLegacyTask calls an entry that answers directly, for a client that waits for a task. The
// function has run when the task is created: the limit of tasks does not apply, and an error says so.
func TestExecutedCallOfLegacyTask(t *testing.T) {
	for name, test := range map[string]struct {
		room    int64 // 0 means the default
		size    int   // of the result, in bytes
		failure string
	}{
		"too many tasks":   {0, 10, ""},
		"no room":          {256 << 10, 200 << 10, "the call was executed, but its result is lost: no task could be created for it: the server cannot keep its result with 204"},
		"too large result": {0, 17 << 20, "the call was executed, but its result is lost: no task could be created for it: the state of the task has"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &server.Options{MaxTasks: 1, RetainedBytes: test.room}, func(t *testing.T, c *taskClient) {
				runs := 0
				if err := c.server.Replace(&server.Entry{
					Target: mcp.Target{Kind: mcp.KindTool, Name: "pay", Definition: mcp.NewDefinition(json.RawMessage(`{"name":"pay","inputSchema":{"type":"object"}}`))},
					Task:   server.TaskOptional,
					Handle: func(context.Context, *mcp.Call) (mcp.Result, error) {
						runs++
						return mcp.Raw(`{"content":[{"type":"text","text":"` + strings.Repeat("x", test.size) + `"}]}`), nil
					},
				}); err != nil {
					t.Fatal(err)
				}
				server.AddTool(c.server, server.Tool{Name: "wait", Task: server.TaskOptional}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
					<-ctx.Done()
					return "", ctx.Err()
				})
				id := c.start("wait", `{}`)
				var cancelled sync.WaitGroup
				cancelled.Go(func() {
					<-time.After(time.Second)
					c.cancel(id)
				})
				defer cancelled.Wait()
				raw, err := c.legacyResult("pay", &client.Options{})
				var failure *jsonrpc.Error
				switch {
				case runs != 1:
					t.Errorf("the tool has run %d times", runs)
				case test.failure == "":
					if err != nil || !strings.Contains(string(raw), `"xxxxxxxxxx"`) {
						t.Errorf("the result is %.200s, %v", raw, err)
					}
				case !errors.As(err, &failure) || failure.Code != jsonrpc.InternalError || !strings.HasPrefix(failure.Message, test.failure):
					t.Errorf("the error is %.300v", err)
				}
			})
		})
	}
}
