package code_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// compiled returns a policy.
func compiled(t *testing.T, text string) *policy.Compiled {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPolicyDecidesAboutCallsOfScripts: a tool that the policy denies is not in scripts, nor found, and a call that it refuses
// by its arguments is a ToolError with the reason.
func TestPolicyDecidesAboutCallsOfScripts(t *testing.T) {
	rules := compiled(t, `{"rules":[
		{"effect":"deny","names":["write"],"reason":"never"},
		{"effect":"deny","names":["echo"],"arguments":[{"path":"/text","glob":["secret*"]}],"reason":"no secrets"},
		{"effect":"allow","names":["*"]}]}`)
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		l := &ledger{}
		session := connect(t, newTools(l).Provider(), &code.Options{Guards: []mcp.Guard{policy.Guard(rules, nil)}}, &servertest.Options{Mode: mode})
		for script, want := range map[string]string{
			`return tools.write({text: "x"})`: "tools has no tool write",
			`return (await Promise.allSettled(["a", "secret 1", "b"].map(text => tools.echo({text})))).map(r => r.value ?? r.reason.message).join("; ")`: `a; The policy does not allow the tool "echo": no secrets` + "\nThe tool was not called. Do not repeat the call: it would be refused again.; b",
		} {
			if r := run(t, session, script); !strings.Contains(r.Error, want) && string(r.Value) != quoted(want) {
				t.Errorf("%s: %s %s, want %s", script, r.Value, r.Error, want)
			}
		}
		if l.count("echo secret 1")+l.count("write x") > 0 {
			t.Errorf("the tools did %v", l.done)
		}
		found, err := session.CallTool(t.Context(), code.SearchTool, map[string]string{"query": "write"}, nil)
		if err != nil || strings.Contains(found.Text(), "tools.write") {
			t.Errorf("found is %s %v", found.Text(), err)
		}
	})
}

func quoted(text string) string {
	return `"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(text) + `"`
}

// An approver notes what it is asked, and says yes to what does not contain no.
type approver struct {
	mu             sync.Mutex
	asked, scripts []string
}

func (a *approver) Approve(_ context.Context, r *approval.Request) (approval.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, fmt.Sprintf("%s %s", r.Tool, r.Arguments))
	a.scripts = append(a.scripts, r.Script)
	return approval.Answer{Approved: !strings.Contains(string(r.Arguments), "no"), Reason: "because"}, nil
}

// TestEachCallOfAScriptIsApproved: the approver is asked about each nested call with its exact arguments, once, also about equal
// calls that run at the same time, and a refusal is a ToolError.
func TestEachCallOfAScriptIsApproved(t *testing.T) {
	ask := compiled(t, `{"rules":[{"effect":"ask","names":["write"]},{"effect":"allow","names":["*"]}]}`)
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		l, a := &ledger{}, &approver{}
		session := connect(t, newTools(l).Provider(), &code.Options{Guards: []mcp.Guard{approval.Guard(ask, a, &approval.Options{Logger: quiet()})}}, &servertest.Options{Mode: mode})
		r := run(t, session, `return (await Promise.allSettled(["a", "a", "no", "b"].map(text => tools.write({ text }))))
			.map(r => r.value ?? r.reason.message.split("\n")[0]).join("; ")`)
		if want := `"written a; written a; The call of write was rejected: because; written b"`; !strings.Contains(string(r.Value), "written a; written a; ") || !strings.Contains(string(r.Value), "because") || !strings.HasSuffix(string(r.Value), `; written b"`) {
			t.Errorf("the value is %s %s, want %s", r.Value, r.Error, want)
		}
		slices.Sort(a.asked)
		if want := []string{`write {"text":"a"}`, `write {"text":"a"}`, `write {"text":"b"}`, `write {"text":"no"}`}; !slices.Equal(a.asked, want) {
			t.Errorf("asked was %q, want %q", a.asked, want)
		}
		slices.Sort(a.scripts)
		if want := "call 1 of the script ad99a224b193, call 2 of the script ad99a224b193, call 3 of the script ad99a224b193, call 4 of the script ad99a224b193"; strings.Join(a.scripts, ", ") != want {
			t.Errorf("the scripts are %s, want %s", strings.Join(a.scripts, ", "), want)
		}
		if l.count("write a") != 2 || l.count("write b") != 1 || l.count("write no") != 0 {
			t.Errorf("the tools did %v", l.done)
		}
	})
}

// TestUsersApproveCallsOfScripts: questions of calls that run at the same time are asked together, and each call is executed once.
func TestUsersApproveCallsOfScripts(t *testing.T) {
	ask := compiled(t, `{"rules":[{"effect":"ask","names":["write","ask"]},{"effect":"allow","names":["*"]}]}`)
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		l := &ledger{}
		var mu sync.Mutex
		var messages []string
		session := connect(t, newTools(l).Provider(), &code.Options{Guards: []mcp.Guard{approval.Guard(ask, approval.Elicitation(), &approval.Options{Logger: quiet()})}}, &servertest.Options{
			Mode: mode, Client: client.Options{Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				mu.Lock()
				defer mu.Unlock()
				messages = append(messages, p.Message)
				if strings.Contains(string(p.RequestedSchema), "decision") {
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"decision":"approve"}`)}, nil
				}
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":"blue"}`)}, nil
			}},
		})
		r := run(t, session, `const before = await tools.echo({text: "before"})
			const [a, b, color] = await Promise.all([tools.write({text: "a"}), tools.write({text: "b"}), tools.ask({text: "Which color?"})])
			return [before, a, b, color, await tools.write({text: color})]`)
		if want := `["before","written a","written b","blue","written blue"]`; string(r.Value) != want {
			t.Errorf("the value is %s %s, want %s", r.Value, r.Error, want)
		}
		for what, want := range map[string]int{"echo before": 1, "write a": 1, "write b": 1, "ask Which color?": 1, "write blue": 1} {
			if got := l.count(what); got != want {
				t.Errorf("%s was done %d times", what, got)
			}
		}
		if len(messages) != 5 {
			t.Errorf("asked was %d times: %q", len(messages), messages)
		}
	})
}

// TestMiddlewareSeesCallsOfScripts: middleware and guards of Options see each nested call, with values of its own, also if the
// server has the same guard, which sees the script.
func TestMiddlewareSeesCallsOfScripts(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[string]string)
	type key struct{}
	guard := mcp.Guard{Name: "audit", Check: func(_ context.Context, call *mcp.Call) error {
		if call.Get(key{}) != nil {
			return errors.New("the values of another call")
		}
		call.Set(key{}, true)
		mu.Lock()
		defer mu.Unlock()
		seen[call.ID()] = call.Target().Name + " " + string(call.Member("arguments"))
		return nil
	}}
	scripts, err := code.New(newTools(&ledger{}).Provider(), &code.Options{Engine: engine(), Guards: []mcp.Guard{guard}})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "scripts"}, &server.Options{Guards: []mcp.Guard{guard}})
	if err := s.Mount(scripts, nil); err != nil {
		t.Fatal(err)
	}
	run(t, servertest.Connect(t, s, nil), `await Promise.all(["a", "b", "c"].map(text => tools.echo({text})))`)
	var calls []string
	for _, call := range seen {
		calls = append(calls, call)
	}
	slices.Sort(calls)
	if want := []string{`echo {"text":"a"}`, `echo {"text":"b"}`, `echo {"text":"c"}`}; len(calls) != 4 || !slices.Equal(calls[:3], want) || !strings.HasPrefix(calls[3], code.ScriptTool) {
		t.Errorf("seen was %q, want %q and the script", calls, want)
	}
}

// TestScriptNeedsTheScopesOfItsTools: since it can call any of them.
func TestScriptNeedsTheScopesOfItsTools(t *testing.T) {
	tools := newTools(&ledger{})
	server.AddTool(tools, server.Tool{Name: "delete", Scopes: []string{"files.write"}}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	session := connect(t, tools.Provider(), nil, &servertest.Options{Mode: servertest.Mode{Transport: "streamable"}, Scopes: []string{"files.read"}})
	if r, err := tryRun(t.Context(), session, `return 1`); err == nil {
		t.Errorf("without the scope the script returned %s", r.Value)
	}
}

// TestCancelledScriptCancelsItsCalls: tools of a script that nobody waits for end.
func TestCancelledScriptCancelsItsCalls(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		begun, ended := make(chan bool), make(chan bool)
		tools := server.New(mcp.Implementation{Name: "tools"}, nil)
		server.AddTool(tools, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			begun <- true
			<-ctx.Done()
			ended <- true
			return "", ctx.Err()
		})
		session := connect(t, tools.Provider(), nil, &servertest.Options{Mode: mode})
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			_, err := tryRun(ctx, session, `await Promise.all([tools.wait(), tools.wait()])`)
			result <- err
		}()
		<-begun
		<-begun
		cancel()
		for range 2 {
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("a call of the script goes on")
			}
		}
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		if r := run(t, session, `return 1`); string(r.Value) != "1" {
			t.Errorf("after that a script returns %s %s", r.Value, r.Error)
		}
	})
}

// TestBlockingToolsInScripts: functions that wait for an answer go on with it, also several at the same time.
func TestBlockingToolsInScripts(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		l := &ledger{}
		tools := server.New(mcp.Implementation{Name: "tools"}, nil)
		server.AddTool(tools, server.Tool{Name: "order", Blocking: true, TextOnly: true}, func(_ context.Context, r *server.Request, in text) (string, error) {
			l.add("begin " + in.Text)
			return server.Elicit[string](r, "how", "How many "+in.Text+"?")
		})
		session := connect(t, tools.Provider(), nil, &servertest.Options{Mode: mode, Answers: map[string]any{"How many buns?": "3", "How many rolls?": "4"}})
		r := run(t, session, `return (await Promise.all(["buns", "rolls"].map(text => tools.order({text})))).join()`)
		if string(r.Value) != `"3,4"` || l.count("begin buns") != 1 || l.count("begin rolls") != 1 {
			t.Errorf("the value is %s %s, and the functions did %v", r.Value, r.Error, l.done)
		}
	})
}

// TestClientWithManyScriptsDoesNotKeepOthersWaiting: a script of another client computes after at most one that waits.
func TestClientWithManyScriptsDoesNotKeepOthersWaiting(t *testing.T) {
	limits := code.Limits{Computing: 5 * time.Second, Running: 1, Open: 1000}
	r := newReplica(t, newTools(&ledger{}), nil, limits)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var ended atomic.Int32
	var many sync.WaitGroup
	for i := range 12 {
		many.Go(func() {
			if got, err := r.runAs(ctx, "many", `for (;;);`, newExchange(fmt.Sprint("many ", i))); err == nil && !got.IsError {
				t.Errorf("an endless script: %+v", got)
			}
			ended.Add(1)
		})
	}
	for ended.Load() == 0 { // the others wait
		runtime.Gosched()
	}
	if got, err := r.runAs(t.Context(), "other", `return 1`, newExchange("other")); err != nil || string(got.Value) != "1" {
		t.Errorf("the script of another client: %+v %v", got, err)
	}
	if n := ended.Load(); n > 6 {
		t.Errorf("%d scripts of one client have ended before the script of another", n)
	}
	cancel()
	many.Wait()
}
