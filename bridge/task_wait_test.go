package bridge_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// An oddServer has a tool whose calls continue as tasks. Each request for the state of a task gets the next of the
// states, and the last one for ever. A state is an object without the id of the task and its times, "cut", which ends
// all connections, or the code and the message of an error.
type oddServer struct {
	states []string
	dialer *faultyDialer

	mu   sync.Mutex
	gets int
}

// dial returns a dialer for the server, which speaks one era.
func (s *oddServer) dial(era client.Era) *faultyDialer {
	fake := &fakeServer{era: era, answer: s.answer, capabilities: `{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`}
	if era == client.Legacy {
		fake.answer, fake.capabilities = s.answerLegacy, `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`
	}
	s.dialer = dialerTo(fake)
	return s.dialer
}

// next returns the next state.
func (s *oddServer) next(ctx context.Context) (string, error) {
	s.mu.Lock()
	state := s.states[min(s.gets, len(s.states)-1)]
	s.gets++
	gets := s.gets
	s.mu.Unlock()
	var code jsonrpc.Code
	var message string
	if n, _ := fmt.Sscanf(state, "%d %s", &code, &message); n == 2 {
		return "", &jsonrpc.Error{Code: code, Message: state}
	}
	if state == "cut" {
		go s.dialer.cut()
		<-ctx.Done()
		return "", ctx.Err()
	}
	if !strings.HasPrefix(state, "{") {
		return state, nil
	}
	state = strings.ReplaceAll(state, "KEY", fmt.Sprint("key", gets))
	if !strings.Contains(state, "taskId") {
		state = `{"taskId":"x",` + state[1:]
	}
	return strings.TrimSuffix(state, "}") + `,` + taskTimes + `,"ttlMs":null}`, nil
}

func (s *oddServer) answer(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
	switch req.Method {
	case mcp.MethodToolsList:
		return `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`, nil
	case mcp.MethodToolsCall:
		return `{"resultType":"task","taskId":"x","status":"working",` + taskTimes + `,"ttlMs":null}`, nil
	case mcp.MethodTasksGet:
		return s.next(ctx)
	case mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		return `{}`, nil
	}
	return "", nil
}

func (s *oddServer) answerLegacy(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
	switch req.Method {
	case mcp.MethodToolsList:
		return `{"tools":[{"name":"t","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]}`, nil
	case mcp.MethodToolsCall:
		return `{"task":{"taskId":"x","status":"working",` + taskTimes + `,"ttl":null}}`, nil
	case mcp.MethodTasksGet:
		state, err := s.next(ctx)
		return strings.ReplaceAll(state, "pollIntervalMs", "pollInterval"), err
	case mcp.MethodTasksCancel:
		return `{}`, nil
	case mcp.MethodTasksResult:
		asked := false
		s.mu.Lock()
		state := s.states[min(s.gets-1, len(s.states)-1)]
		s.mu.Unlock()
		for {
			if strings.Contains(state, `"a":{`) && !asked {
				asked = true
				question := mcp.Raw(`{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}`)
				if _, err := from.Call(ctx, mcp.MethodElicit, question); err != nil {
					return "", err
				}
			}
			result, _ := jsonscan.Find([]byte(state), "result")
			failure, _ := jsonscan.Find([]byte(state), "error")
			status, _ := jsonscan.Find([]byte(state), "status")
			switch {
			case result != nil:
				return string(result), nil
			case failure != nil:
				failed := new(jsonrpc.Error)
				if err := json.Unmarshal(failure, failed); err != nil {
					return "", err
				}
				return "", failed
			case string(status) != `"input_required"` && !asked:
				return "", &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "the task has no result: " + string(status)}
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return "", ctx.Err()
			}
			var err error
			if state, err = s.next(ctx); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

// A waiter is one of the components that wait for tasks. It starts a task and returns the text of its outcome, and how
// many questions its user was asked.
type waiter func(t *testing.T, s *oddServer) (outcome string, asked int)

func outcomeOf(result *mcp.CallToolResult, err error) string {
	if err != nil {
		return err.Error()
	}
	return result.Text()
}

// waitCounting calls the tool with a client that counts questions.
func waitCounting(t *testing.T, session func(opts client.Options) *client.Session, tool string) (string, int) {
	asked := 0
	opts := client.Options{CallTimeout: time.Hour, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		asked++
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{}`)}, nil
	}}
	outcome := outcomeOf(session(opts).CallTool(t.Context(), tool, nil, nil))
	return outcome, asked
}

const (
	direct     = "client"
	awaited    = "task of a bridge"
	forwarded  = "forwarded call"
	legacy     = "client of 2025-11-25"
	subscriber = "subscriber" // at a server, to a task of a server behind it

	noChange = "no change was notified"
)

var waiters = map[string]waiter{
	direct: func(t *testing.T, s *oddServer) (string, int) {
		return waitCounting(t, func(opts client.Options) *client.Session {
			opts.Era = client.Modern
			return connect(t, s.dial(client.Modern), opts)
		}, "t")
	},
	awaited: func(t *testing.T, s *oddServer) (string, int) {
		b := bridgeOf(t, &bridge.Options{Guards: []mcp.Guard{background()}}, bridge.Config{Alias: "w", Dialer: s.dial(client.Modern)})
		user := useTasks(t, pipeTo(mount(t, b)), client.Modern)
		state := user.finish(user.start("w__t"))
		return string(state.Status) + string(state.Result) + string(state.Error), len(user.asked)
	},
	forwarded: func(t *testing.T, s *oddServer) (string, int) {
		frontend := mount(t, bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: s.dial(client.Legacy)}))
		return waitCounting(t, func(opts client.Options) *client.Session {
			opts.NoTasks = true
			return connect(t, pipeTo(frontend), opts)
		}, "w__t")
	},
	legacy: func(t *testing.T, s *oddServer) (string, int) {
		user := useTasks(t, pipeTo(mount(t, bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: s.dial(client.Modern)}))), client.Legacy)
		raw, err := user.call(mcp.MethodTasksResult, `{"taskId":"`+user.start("w__t")+`"}`)
		if err != nil {
			return err.Error(), len(user.asked)
		}
		return string(raw), len(user.asked)
	},
	subscriber: func(t *testing.T, s *oddServer) (string, int) {
		frontend := mount(t, bridgeOf(t, nil, bridge.Config{Alias: "w", Dialer: s.dial(client.Modern)}))
		var mu sync.Mutex
		var seen []string
		ended := make(chan struct{})
		var user *taskUser
		session := connect(t, pipeTo(frontend), client.Options{Era: client.Modern, Capabilities: &taskCapabilities, OnChange: func(ctx context.Context, change mcp.Change) {
			raw, err := user.Call(ctx, mcp.MethodTasksGet, json.RawMessage(`{"taskId":"`+change.TaskID+`"}`), nil)
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(string(raw), err))
			state := new(mcp.Task)
			if err == nil && state.UnmarshalJSON(raw) == nil && state.Status.Ended() {
				close(ended)
			}
		}})
		user = &taskUser{Session: connect(t, pipeTo(frontend), client.Options{Era: client.Modern, Capabilities: &taskCapabilities}), t: t, era: client.Modern}
		id := user.start("w__t")
		if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{id}}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Minute):
		}
		mu.Lock()
		defer mu.Unlock()
		return cmp.Or(strings.Join(seen, "\n"), noChange), 0
	},
}

// TestOddTasks has servers that answer oddly, for everything that waits for a task. No question is asked twice, and no
// server is asked for a state without a pause.
func TestOddTasks(t *testing.T) {
	const (
		done   = `{"status":"completed","result":{"content":[{"type":"text","text":"done"}]}}`
		asks   = `{"status":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}}}}`
		asksOn = `{"status":"input_required","inputRequests":{"KEY":{"method":"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}}}}`
		works  = `{"status":"working"}`

		malformed     = "UPSTREAM_MALFORMED"
		maybeExecuted = "the call may have been executed"
	)
	type wants map[string]string
	for name, test := range map[string]struct {
		states []string
		want   string // in the outcome
		other  wants  // that differ
		asked  int
	}{
		"complete": {[]string{works, done}, "done", nil, 0},
		"lost": {[]string{works, "-32602 there is no such task"}, "there is no such task", wants{
			forwarded: maybeExecuted, subscriber: noChange,
		}, 0},
		"unknown status": {[]string{works, `{"status":"paused"}`}, "unknown status", wants{
			awaited: malformed, forwarded: "has no result", subscriber: "paused",
		}, 0},
		"no status": {[]string{works, `{"statusMessage":"hm"}`}, "unknown status", wants{
			awaited: malformed, forwarded: "has no result", subscriber: "hm",
		}, 0},
		"interval of centuries": {[]string{`{"status":"working","pollIntervalMs":9000000000000}`, done}, "done", nil, 0},
		"negative interval":     {[]string{`{"status":"working","pollIntervalMs":-1}`, `{"status":"working","pollIntervalMs":-9000000000000}`, done}, "done", nil, 0},
		"interval of 1 ms":      {append(slices.Repeat([]string{`{"status":"working","pollIntervalMs":1}`}, 50), done), "done", nil, 0},
		"interval is a text": {[]string{`{"status":"working","pollIntervalMs":"soon"}`, done}, "not valid", wants{
			awaited: malformed, forwarded: "done", subscriber: "done",
		}, 0},
		"status is a number": {[]string{works, `{"status":7}`}, "not valid", wants{awaited: malformed, forwarded: "has no result", subscriber: noChange}, 0},
		"state is a list":    {[]string{works, `[]`}, "malformed answer", wants{awaited: malformed, forwarded: maybeExecuted, legacy: maybeExecuted, subscriber: noChange}, 0},
		"state of another task": {[]string{works, `{"taskId":"y","status":"working"}`, done}, "another task", wants{
			awaited: malformed, forwarded: maybeExecuted, legacy: "done", subscriber: "done", // a server replaces the id
		}, 0},
		"connection lost once": {[]string{works, "cut", works, done}, "done", wants{
			forwarded: "closed the connection before it answered; " + maybeExecuted, // the session had the task
		}, 0},
		"busy for some time": {[]string{works, "429 busy", "-32603 internal", "429 busy", done}, "done", nil, 0},
		"busy for ever": {[]string{works, "429 busy"}, "busy", wants{
			awaited: "UPSTREAM_BUSY", forwarded: maybeExecuted, legacy: "too many calls", subscriber: noChange,
		}, 0},
		"question repeated": {append(slices.Repeat([]string{asks}, 20), works, done), "done", nil, 1},
		"questions for ever": {[]string{asksOn}, "asked more than 10 times", wants{
			forwarded: "did not answer in time", subscriber: "input_required", // a server of 2025-11-25 asks by requests
		}, 10},
		"failed": {[]string{works, `{"status":"failed","error":{"code":-5,"message":"broken"}}`}, "broken", nil, 0},
		"failed without error": {[]string{works, `{"status":"failed"}`}, "no valid error", wants{
			awaited: malformed, forwarded: "has no result", subscriber: `"status":"failed"`,
		}, 0},
		"no result": {[]string{works, `{"status":"completed"}`}, "no valid result", wants{
			awaited: malformed, forwarded: "has no result", subscriber: `"status":"completed"`,
		}, 0},
		"result is a list": {[]string{works, `{"status":"completed","result":[]}`}, "no valid result", wants{
			awaited: malformed, forwarded: maybeExecuted, subscriber: `"result":[]`,
		}, 0},
		"result asks": {[]string{works, `{"status":"completed","result":{"resultType":"input_required"}}`}, "unknown type", wants{
			awaited: malformed, forwarded: maybeExecuted, subscriber: `"status":"completed"`,
		}, 0},
		"cancelled": {[]string{works, `{"status":"cancelled"}`}, "cancelled", nil, 0},
	} {
		for who, wait := range waiters {
			t.Run(name+"/"+who, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &oddServer{states: test.states}
					began := time.Now()
					outcome, asked := wait(t, s)
					want := cmp.Or(test.other[who], test.want)
					if !strings.Contains(outcome, want) || strings.Contains(outcome, "not executed") {
						t.Errorf("the outcome is %s, want %s", outcome[max(0, len(outcome)-800):], want)
					}
					if asked != test.asked && who != subscriber && test.other[who] == "" {
						t.Errorf("the user was asked %d times, want %d", asked, test.asked)
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					if took := time.Since(began); s.gets > 8+int(took/(50*time.Millisecond)) {
						t.Errorf("the server was asked %d times in %v", s.gets, took)
					}
				})
			})
		}
	}
}
