package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

type greeting struct {
	Text   string `json:"text"`
	IsTask bool   `json:"isTask"`
}

// newGreeter returns a server with tools that continue as tasks: greet asks for a name, fail fails, hang
// runs until it is cancelled, and count streams.
func newGreeter(t *testing.T, opts *server.Options) *server.Server {
	s := newServer(opts)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	add := func(name string, mode server.TaskMode, f func(context.Context, *server.Request, noServer) (greeting, error)) {
		server.AddTool(s, server.Tool{Name: name, Task: mode}, f)
	}
	add("greet", server.TaskOptional, func(ctx context.Context, r *server.Request, _ noServer) (greeting, error) {
		if err := r.Progress(ctx, 1, 2, "half"); err != nil {
			return greeting{}, err
		}
		name, err := server.Elicit[string](r, "name", "Your name?")
		if err != nil {
			return greeting{}, err
		}
		return greeting{"hello " + name, r.Call().TaskID() != ""}, nil
	})
	add("fail", server.TaskRequired, func(_ context.Context, r *server.Request, _ noServer) (greeting, error) {
		return greeting{}, &jsonrpc.Error{Code: 7, Message: "no greeting", Data: json.RawMessage(`{"day":"bad"}`)}
	})
	add("refuse", server.TaskRequired, func(_ context.Context, r *server.Request, _ noServer) (greeting, error) {
		return greeting{}, errors.New("not today")
	})
	add("hang", server.TaskOptional, func(ctx context.Context, _ *server.Request, _ noServer) (greeting, error) {
		<-ctx.Done()
		return greeting{}, ctx.Err()
	})
	server.AddStream(s, server.Tool{Name: "count", Task: server.TaskOptional}, func(context.Context, *server.Request, noServer) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range 3 {
				if !yield(i, nil) {
					return
				}
			}
		}
	}, slices.Collect[int])
	return s
}

// answers are the options of a client that knows a name.
func answers(asked *atomic.Int32) client.Options {
	return client.Options{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		asked.Add(1)
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":"Ann"}`)}, nil
	}}
}

// TestTaskIsOneCall makes calls that continue as tasks for a modern client, over each transport.
func TestTaskIsOneCall(t *testing.T) {
	s := newGreeter(t, nil)
	eachEra(t, func(t *testing.T, era client.Era) {
		var asked, seen, tasks atomic.Int32
		opts := answers(&asked)
		opts.Era = era
		opts.Middleware = []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				seen.Add(1)
				return next(ctx, call)
			}
		}}
		session := connect(t, transporttests.Dialer(t, s), opts)
		var last *mcp.ProgressParams
		calls := &client.CallOptions{
			Progress: func(p *mcp.ProgressParams) { last = p },
			OnTask:   func(*mcp.Task) { tasks.Add(1) },
		}
		want := greeting{"hello Ann", era == client.Modern}
		got, err := client.CallAs[greeting](t.Context(), session, "greet", nil, calls)
		if err != nil || got != want {
			t.Errorf("the call returns %+v, %v, want %+v", got, err, want)
		}
		if asked, seen := asked.Load(), seen.Load(); asked != 1 || seen != 1 {
			t.Errorf("the user was asked %d times, and the middleware saw %d calls", asked, seen)
		}
		if isTask := tasks.Load() == 1; isTask != want.IsTask {
			t.Errorf("OnTask was called: %v", isTask)
		}
		// A task may ask before its progress is stored.
		if last == nil && !want.IsTask || last != nil && (last.Progress != 1 || last.Total == nil || *last.Total != 2 || last.Message != "half") {
			t.Errorf("the progress is %+v", last)
		}
		result, err := session.CallTool(t.Context(), "greet", nil, nil)
		if err != nil || result.IsError || !strings.Contains(string(result.StructuredContent), "hello Ann") {
			t.Errorf("CallTool returns %+v, %v", result, err)
		}
		raw, err := session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"greet"}`), nil)
		if err != nil || !strings.Contains(string(raw), "hello Ann") {
			t.Errorf("Call returns %s, %v", raw, err)
		}
		var chunks []string
		for chunk, err := range session.Stream(t.Context(), "count", nil, calls) {
			if err != nil {
				t.Error(err)
			}
			chunks = append(chunks, string(chunk))
		}
		if !slices.Equal(chunks, []string{"0", "1", "2"}) {
			t.Errorf("the chunks are %q", chunks)
		}
	})
}

// TestTaskReports has a tool that goes on when the client has seen its progress.
func TestTaskReports(t *testing.T) {
	if !transporttests.CarriesModern() {
		return
	}
	s := newGreeter(t, nil)
	seen := make(chan *mcp.ProgressParams, 1)
	server.AddTool(s, server.Tool{Name: "report", Task: server.TaskOptional}, func(ctx context.Context, r *server.Request, _ noServer) (string, error) {
		if err := r.Progress(ctx, 1, 2, "half"); err != nil {
			return "", err
		}
		p := <-seen
		return fmt.Sprintf("%v/%v %s", p.Progress, *p.Total, p.Message), nil
	})
	session := connect(t, transporttests.Dialer(t, s), client.Options{Era: client.Modern})
	got, err := client.CallAs[string](t.Context(), session, "report", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) { seen <- p }})
	if err != nil || got != "1/2 half" {
		t.Errorf("the client sees the progress %q, %v", got, err)
	}
}

func TestTaskFailures(t *testing.T) {
	if !transporttests.CarriesModern() {
		return
	}
	s := newGreeter(t, nil)
	session := connect(t, transporttests.Dialer(t, s), client.Options{Era: client.Modern})
	_, err := session.CallTool(t.Context(), "fail", nil, nil)
	if failure, ok := errors.AsType[*jsonrpc.Error](err); !ok || failure.Code != 7 || failure.Message != "no greeting" || string(failure.Data) != `{"day":"bad"}` {
		t.Errorf("a task that fails gives %v", err)
	}
	_, err = client.CallAs[greeting](t.Context(), session, "refuse", nil, nil)
	if failure, ok := errors.AsType[*client.ToolError](err); !ok || failure.Tool != "refuse" || failure.Result.Text() != "not today" {
		t.Errorf("a tool that fails gives %v", err)
	}
	off := connect(t, transporttests.Dialer(t, s), client.Options{Era: client.Modern, NoTasks: true})
	_, err = off.CallTool(t.Context(), "refuse", nil, nil)
	if failure, ok := errors.AsType[*jsonrpc.Error](err); !ok || failure.Code != mcp.CodeMissingClientCapability {
		t.Errorf("a client without tasks gets %v", err)
	}
	if _, err = off.Task("x").Get(t.Context()); err == nil {
		t.Error("a client without tasks gets a task")
	}
	_, err = session.Task("unknown").Wait(t.Context(), nil)
	if failure, ok := errors.AsType[*jsonrpc.Error](err); !ok || failure.Code != jsonrpc.InvalidParams {
		t.Errorf("an unknown task gives %v", err)
	}
	if _, err = session.Task("").Wait(t.Context(), nil); err == nil {
		t.Error("a task without an id gives no error")
	}
}

// TestTaskResumes abandons a call, and continues in another session.
func TestTaskResumes(t *testing.T) {
	if !transporttests.CarriesModern() {
		return
	}
	s := newGreeter(t, nil)
	var asked atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	opts := answers(&asked)
	opts.Era = client.Modern
	opts.Elicit = func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		cancel()
		return nil, ctx.Err()
	}
	var id string
	session := connect(t, transporttests.Dialer(t, s), opts)
	_, err := session.CallTool(ctx, "greet", nil, &client.CallOptions{OnTask: func(task *mcp.Task) { id = task.TaskID }})
	if failed(t, err, jsonrpc.MaybeExecuted); !errors.Is(err, context.Canceled) {
		t.Errorf("the abandoned call returns %v", err)
	}
	opts = answers(&asked)
	opts.Era = client.Modern
	other := connect(t, transporttests.Dialer(t, s), opts)
	task := other.Task(id)
	if state, err := task.Get(t.Context()); err != nil || state.Status != mcp.TaskInputRequired || task.ID() != id {
		t.Errorf("the task is %+v, %v", state, err)
	}
	want := greeting{"hello Ann", true}
	if got, err := client.WaitAs[greeting](t.Context(), task, nil); err != nil || got != want {
		t.Errorf("the task returns %+v, %v, want %+v", got, err, want)
	}
	if result, err := task.Wait(t.Context(), nil); err != nil || !strings.Contains(string(result.StructuredContent), "hello Ann") {
		t.Errorf("the task returns %+v, %v", result, err)
	}
	if asked.Load() != 1 {
		t.Errorf("the user was asked %d times", asked.Load())
	}
}

func TestTaskIsCancelled(t *testing.T) {
	if !transporttests.CarriesModern() {
		return
	}
	s := newGreeter(t, nil)
	session := connect(t, transporttests.Dialer(t, s), client.Options{Era: client.Modern})
	_, err := session.CallTool(t.Context(), "hang", nil, &client.CallOptions{OnTask: func(task *mcp.Task) {
		if err := session.Task(task.TaskID).Cancel(t.Context()); err != nil {
			t.Error(err)
		}
	}})
	if failed(t, err, jsonrpc.MaybeExecuted); !errors.Is(err, client.ErrTaskCancelled) {
		t.Errorf("a cancelled task gives %v", err)
	}
}

// A taskScript is a server whose calls of tools return tasks. It returns the states one after the other,
// and the last one for ever.
type taskScript struct {
	states []string
	get    func(polls int) (answer func(*jsonrpc.Request) string) // replaces an answer; may be nil
	update func(updates int) (answer func(*jsonrpc.Request) string)
	listen func(req *jsonrpc.Request) []string

	mu       sync.Mutex
	requests []string // methods about tasks, and the answers
	polls    []time.Time
	updates  int
	gets     int
}

func (s *taskScript) answer(req *jsonrpc.Request) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch req.Method {
	case mcp.MethodToolsCall:
		s.polls = append(s.polls, time.Now())
		return []string{result(req, `{"resultType":"task",`+s.states[0][1:])}
	case mcp.MethodTasksGet:
		s.polls = append(s.polls, time.Now())
		s.gets++
		if s.get != nil {
			if answer := s.get(s.gets); answer != nil {
				return []string{answer(req)}
			}
		}
		if len(s.states) > 1 {
			s.states = s.states[1:]
		}
		return []string{result(req, `{"resultType":"complete",`+s.states[0][1:])}
	case mcp.MethodTasksUpdate:
		s.requests = append(s.requests, "update "+string(req.Member("inputResponses")))
		s.updates++
		if s.update != nil {
			if answer := s.update(s.updates); answer != nil {
				return []string{answer(req)}
			}
		}
		return []string{result(req, `{"resultType":"complete"}`)}
	case mcp.MethodTasksCancel:
		s.requests = append(s.requests, "cancel "+string(req.Member("taskId")))
		return []string{result(req, `{"resultType":"complete"}`)}
	case mcp.MethodSubscriptionsListen:
		s.requests = append(s.requests, "listen "+string(req.Member("notifications", "taskIds")))
		if s.listen != nil {
			return s.listen(req)
		}
	}
	return nil
}

// pauses returns the times between requests in milliseconds.
func (s *taskScript) pauses() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var pauses []int64
	for i := range s.polls[1:] {
		pauses = append(pauses, s.polls[i+1].Sub(s.polls[i]).Milliseconds())
	}
	return pauses
}

// state returns the state of a task with further members.
func state(status, more string) string {
	return fmt.Sprintf(`{"taskId":"t1","status":%q,"createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null%s}`, status, more)
}

const doneResult = `,"result":{"content":[{"type":"text","text":"done"}]}`

func questions(keys ...string) string {
	members := make([]string, len(keys))
	for i, key := range keys {
		members[i] = fmt.Sprintf(`%q:{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}`, key)
	}
	return state("input_required", `,"inputRequests":{`+strings.Join(members, ",")+`}`)
}

const answered = `{"action":"accept","content":{"value":"Ann"}}`

func TestTaskStates(t *testing.T) {
	working := state("working", "")
	for name, test := range map[string]struct {
		states []string
		want   string // in the text of the result or error
	}{
		"complete":             {[]string{working, state("completed", doneResult)}, "done"},
		"complete immediately": {[]string{state("completed", doneResult)}, "done"},
		"type of the task":     {[]string{working, `{"resultType":"task",` + state("completed", doneResult)[1:]}, "done"},
		"type of the result":   {[]string{working, state("completed", `,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)}, "done"},
		"failed":               {[]string{working, state("failed", `,"error":{"code":-5,"message":"broken"}`)}, "broken"},
		"failed without error": {[]string{working, state("failed", "")}, "no valid error"},
		"error is no object":   {[]string{working, state("failed", `,"error":"broken"`)}, "no valid error"},
		"cancelled":            {[]string{working, state("cancelled", `,"statusMessage":"by an admin"`)}, `the task was cancelled: "by an admin"`},
		"without result":       {[]string{working, state("completed", "")}, "no valid result"},
		"result is no object":  {[]string{working, state("completed", `,"result":[]`)}, "no valid result"},
		"result asks":          {[]string{working, state("completed", `,"result":{"resultType":"input_required"}`)}, "unknown type"},
		"unknown status":       {[]string{working, state("paused", "")}, `unknown status "paused"`},
		"no status":            {[]string{working, `{"taskId":"t1"}`}, `unknown status ""`},
		"another task":         {[]string{working, strings.Replace(working, "t1", "t2", 1)}, "another task"},
		"no id":                {[]string{`{"status":"working"}`}, "the id of the task has 0 bytes"},
		"long id":              {[]string{strings.Replace(working, "t1", strings.Repeat("x", 5000), 1)}, "the id of the task has 5000 bytes"},
		"no task":              {[]string{working, `{"taskId":"t1","status":5}`}, "the state of the task"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &taskScript{states: test.states}
				if strings.HasPrefix(test.states[len(test.states)-1], `{"resultType"`) {
					s.get = func(int) func(*jsonrpc.Request) string {
						return func(req *jsonrpc.Request) string { return result(req, test.states[len(test.states)-1]) }
					}
				}
				session := connect(t, script(s.answer), client.Options{Era: client.Modern})
				result, err := session.CallTool(t.Context(), "tool", nil, nil)
				got := fmt.Sprint(err)
				if err == nil {
					got = result.Text()
				}
				if !strings.Contains(got, test.want) {
					t.Errorf("the call returns %s, want %s", got, test.want)
				}
				if _, ok := err.(*jsonrpc.Error); ok != (name == "failed") {
					t.Errorf("the error is %T", err)
				}
				if errors.Is(err, client.ErrTaskCancelled) != (name == "cancelled") {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}

// TestTaskPolls compares the pauses of a client with the interval of the server.
func TestTaskPolls(t *testing.T) {
	for interval, want := range map[string][]int64{
		"0":             {50, 100, 200, 400, 800, 1000, 1000, 1000},
		"-7":            {50, 100, 200, 400, 800, 1000, 1000, 1000},
		"1":             {50, 50, 50, 50, 50, 50, 50, 50},
		"120":           {120, 120, 120, 120, 120, 120, 120, 120},
		"5000":          {5000, 5000, 5000, 5000},
		"9000000000000": {60_000, 60_000, 60_000},
	} {
		t.Run(interval, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &taskScript{states: slices.Repeat([]string{state("working", `,"pollIntervalMs":`+interval)}, 16)}
				s.states = append(s.states, state("completed", doneResult))
				session := connect(t, script(s.answer), client.Options{Era: client.Modern})
				if _, err := session.CallTool(t.Context(), "tool", nil, nil); err != nil {
					t.Fatal(err)
				}
				pauses := s.pauses()
				if got := pauses[:len(want)]; !slices.Equal(got, want) {
					t.Errorf("the pauses are %d, want %d", got, want)
				}
				if longest := slices.Max(pauses); longest > 60_000 {
					t.Errorf("a pause has %d ms", longest)
				}
			})
		})
	}
}

// TestTaskAsksOnce has a server that repeats questions, asks more, and takes its time.
func TestTaskAsksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &taskScript{states: []string{
			questions("a", "b"), questions("a", "b"), questions("b"), questions("b", "c"), questions("b"), state("working", ""), state("completed", doneResult),
		}}
		var asked atomic.Int32
		opts := answers(&asked)
		opts.Era = client.Modern
		session := connect(t, script(s.answer), opts)
		result, err := session.CallTool(t.Context(), "tool", nil, nil)
		if err != nil || result.Text() != "done" {
			t.Errorf("the call returns %+v, %v", result, err)
		}
		want := []string{`update {"a":` + answered + `,"b":` + answered + `}`, `update {"c":` + answered + `}`}
		if diff := cmp.Diff(want, s.requests); diff != "" || asked.Load() != 3 {
			t.Errorf("the user was asked %d times, and the requests differ:\n%s", asked.Load(), diff)
		}
	})
}

func TestTaskUpdateFails(t *testing.T) {
	refuse := func(code jsonrpc.Code) func(*jsonrpc.Request) string {
		return func(req *jsonrpc.Request) string { return failure(req, code, "no update") }
	}
	for name, test := range map[string]struct {
		failures int
		code     jsonrpc.Code
		then     string // the state after the questions
		want     string
	}{
		"busy":             {3, jsonrpc.Busy, state("completed", doneResult), "done"},
		"internal error":   {3, jsonrpc.InternalError, state("completed", doneResult), "done"},
		"for ever":         {100, jsonrpc.InternalError, questions("a"), "no update"},
		"too late":         {1, jsonrpc.InvalidParams, state("completed", doneResult), "done"},
		"without a reason": {1, jsonrpc.InvalidParams, questions("a"), "no update"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &taskScript{states: []string{questions("a"), test.then}}
				s.update = func(updates int) func(*jsonrpc.Request) string {
					if updates > test.failures {
						return nil
					}
					return refuse(test.code)
				}
				var asked atomic.Int32
				opts := answers(&asked)
				opts.Era = client.Modern
				session := connect(t, script(s.answer), opts)
				result, err := session.CallTool(t.Context(), "tool", nil, nil)
				got := fmt.Sprint(err)
				if err == nil {
					got = result.Text()
				}
				if !strings.Contains(got, test.want) || asked.Load() != 1 {
					t.Errorf("the call returns %s, and the user was asked %d times", got, asked.Load())
				}
			})
		})
	}
}

// TestTaskQuestionUnanswered: the client cancels a task that it cannot answer.
func TestTaskQuestionUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, opts := range map[string]client.Options{
			"no handler": {},
			"an error":   {Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, errors.New("away") }},
		} {
			s := &taskScript{states: []string{questions("a")}}
			opts.Era = client.Modern
			session := connect(t, script(s.answer), opts)
			_, err := session.CallTool(t.Context(), "tool", nil, nil)
			failed(t, err, jsonrpc.MaybeExecuted)
			if want := []string{`cancel "t1"`}; !slices.Equal(s.requests, want) {
				t.Errorf("%s: the requests are %q, want %q", name, s.requests, want)
			}
		}
	})
}

func TestTaskRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &taskScript{states: []string{questions("a"), questions("b"), questions("c"), questions("d")}}
		var asked atomic.Int32
		opts := answers(&asked)
		opts.Era, opts.Limits.Rounds = client.Modern, 2
		session := connect(t, script(s.answer), opts)
		_, err := session.CallTool(t.Context(), "tool", nil, nil)
		if limit, ok := errors.AsType[*mcp.LimitError](err); !ok || limit.Limit != "Rounds" || asked.Load() != 2 {
			t.Errorf("the call returns %v after %d questions", err, asked.Load())
		}
	})
}

func TestTaskProgress(t *testing.T) {
	meta := func(status, progress string) string {
		return state("working", fmt.Sprintf(`,"statusMessage":%q,"_meta":{%q:%s}`, status, mcp.MetaTaskProgress, progress))
	}
	message := func(text string) string { return state("working", fmt.Sprintf(`,"statusMessage":%q`, text)) }
	for name, test := range map[string]struct {
		states []string
		want   []string
	}{
		"numbers":        {[]string{meta("a", `{"progress":1,"total":4}`), meta("a", `{"progress":1,"total":4}`), meta("b", `{"progress":3}`), meta("c", `{"progress":2}`)}, []string{"1/4 a", "3 b"}},
		"messages":       {[]string{message("a"), message("a"), message("b"), message("")}, []string{"1 a", "2 b"}},
		"no numbers":     {[]string{meta("a", `{"progress":"1"}`), meta("a", `[]`), meta("a", `{}`)}, []string{"1 a"}},
		"at the end":     {[]string{state("working", ""), strings.Replace(meta("a", `{"progress":1}`), "working", "paused", 1)}, []string{"1 a"}},
		"both":           {[]string{message("a"), meta("b", `{"progress":0.5}`), meta("b", `{"progress":5}`), message("c")}, []string{"1 a", "5 b", "6 c"}},
		"nothing at all": {[]string{state("working", "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &taskScript{states: append(test.states, state("completed", doneResult+`,"statusMessage":"end"`))}
				session := connect(t, script(s.answer), client.Options{Era: client.Modern})
				var got []string
				_, _ = session.CallTool(t.Context(), "tool", nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
					text := fmt.Sprint(p.Progress)
					if p.Total != nil {
						text += fmt.Sprint("/", *p.Total)
					}
					got = append(got, text+" "+p.Message)
				}})
				if !slices.Equal(got, test.want) {
					t.Errorf("the progress is %q, want %q", got, test.want)
				}
			})
		})
	}
}

// accept accepts a subscription, and sends states.
func accept(req *jsonrpc.Request, ids string, states ...string) []string {
	tag := fmt.Sprintf(`"_meta":{%q:%s}`, mcp.MetaSubscriptionID, req.ID)
	frames := []string{notification(mcp.NotificationAcknowledged, fmt.Sprintf(`{%s,"notifications":{"taskIds":%s}}`, tag, ids))}
	for _, s := range states {
		frames = append(frames, notification(mcp.NotificationTasks, s[:len(s)-1]+`,`+tag+`}`))
	}
	return frames
}

func TestTaskNotifications(t *testing.T) {
	done := state("completed", doneResult)
	for name, test := range map[string]struct {
		listen   func(req *jsonrpc.Request) []string
		listens  int
		polls    int // at least
		mostTime time.Duration
		ends     int // the poll that finds the end
	}{
		"the result":       {func(req *jsonrpc.Request) []string { return accept(req, `["t1"]`, state("working", ""), done) }, 1, 5, 3 * time.Second, 100},
		"only the safe":    {func(req *jsonrpc.Request) []string { return accept(req, `["t1"]`) }, 1, 8, 200 * time.Second, 10},
		"malformed states": {func(req *jsonrpc.Request) []string { return accept(req, `["t1"]`, `{"taskId":5}`, `{"taskId":"t9"}`) }, 1, 8, 200 * time.Second, 10},
		"not this task":    {func(req *jsonrpc.Request) []string { return accept(req, `[]`) }, 1, 20, 30 * time.Second, 20},
		"refused":          {func(req *jsonrpc.Request) []string { return []string{failure(req, jsonrpc.InvalidParams, "no")} }, 1, 20, 30 * time.Second, 20},
		"ended": {func(req *jsonrpc.Request) []string {
			return append(accept(req, `["t1"]`), notification(mcp.NotificationCancelled, fmt.Sprintf(`{"requestId":%s}`, req.ID)))
		}, 2, 20, 30 * time.Second, 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &taskScript{states: []string{state("working", "")}, listen: test.listen}
				s.get = func(polls int) func(*jsonrpc.Request) string {
					if polls < test.ends {
						return nil
					}
					return func(req *jsonrpc.Request) string { return result(req, done) }
				}
				session := connect(t, script(s.answer), client.Options{Era: client.Modern})
				began := time.Now()
				result, err := session.CallTool(t.Context(), "tool", nil, nil)
				if err != nil || result.Text() != "done" {
					t.Fatalf("the call returns %+v, %v", result, err)
				}
				if took := time.Since(began); took > test.mostTime || s.gets < test.polls {
					t.Errorf("it took %v and %d requests", took, s.gets)
				}
				if listens := len(s.requests); listens < test.listens || test.listens == 1 && listens > 1 || s.requests[0] != `listen ["t1"]` {
					t.Errorf("the requests are %q", s.requests)
				}
				if name == "only the safe" && !slices.Contains(s.pauses(), 30_000) {
					t.Errorf("the pauses are %d", s.pauses())
				}
			})
		})
	}
}

// TestNullsOfTaskNotifications checks that a result in a notification comes without members that are null, as a result
// of tasks/get does.
func TestNullsOfTaskNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := state("completed", `,"error":null,"result":{"content":[{"type":"text","text":"done","annotations":null}],"isError":null}`)
		s := &taskScript{states: []string{state("working", "")}, listen: func(req *jsonrpc.Request) []string {
			return accept(req, `["t1"]`, done)
		}}
		s.get = func(int) func(*jsonrpc.Request) string { return nil } // only a notification ends the task
		session := connect(t, script(s.answer), client.Options{Era: client.Modern})
		got, err := session.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"tool"}`), nil)
		if err != nil || string(got) != `{"content":[{"type":"text","text":"done"}]}` {
			t.Errorf("the result is %s, %v", got, err)
		}
	})
}

// TestTaskWithLongInterval: the result of a short call does not wait for the interval of the server, and the
// client does not ask more often than the interval says.
func TestTaskWithLongInterval(t *testing.T) {
	done := state("completed", doneResult)
	for name, test := range map[string]struct {
		listen func(req *jsonrpc.Request) []string
		ends   int           // the poll that finds the end
		took   time.Duration // at most
	}{
		"complete before the subscription": {func(req *jsonrpc.Request) []string { return accept(req, `["t1"]`) }, 1, 0},
		"complete after the subscription":  {func(req *jsonrpc.Request) []string { return accept(req, `["t1"]`, state("working", ""), done) }, 100, 0},
		"ended": {func(req *jsonrpc.Request) []string {
			return append(accept(req, `["t1"]`), notification(mcp.NotificationCancelled, fmt.Sprintf(`{"requestId":%s}`, req.ID)))
		}, 20, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &taskScript{states: []string{state("working", `,"pollIntervalMs":5000`)}, listen: test.listen}
				s.get = func(polls int) func(*jsonrpc.Request) string {
					if polls < test.ends {
						return nil
					}
					return func(req *jsonrpc.Request) string { return result(req, done) }
				}
				session := connect(t, script(s.answer), client.Options{Era: client.Modern})
				began := time.Now()
				result, err := session.CallTool(t.Context(), "tool", nil, nil)
				if err != nil || result.Text() != "done" {
					t.Fatalf("the call returns %+v, %v", result, err)
				}
				// A client asks once when a subscription begins, and once when it has ended.
				took := time.Since(began)
				if most := 3 + 3*int(took/(5*time.Second)); took > test.took || s.gets > most {
					t.Errorf("it took %v and %d requests, want at most %d", took, s.gets, most)
				}
			})
		})
	}
}

// TestShortTask: the result of a short call that became a task is there soon.
func TestShortTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(nil)
		defer s.Shutdown(t.Context())
		server.AddTool(s, server.Tool{Name: "short", Task: server.TaskRequired}, func(context.Context, *server.Request, noServer) (string, error) {
			<-time.After(20 * time.Millisecond)
			return "done", nil
		})
		session := connect(t, transport.Pipe(s), client.Options{Era: client.Modern})
		defer session.Close()
		began := time.Now()
		got, err := client.CallAs[string](t.Context(), session, "short", nil, nil)
		if took := time.Since(began); err != nil || got != "done" || took > 50*time.Millisecond {
			t.Errorf("the call returns %q, %v after %v", got, err, took)
		}
	})
}

func TestTaskOfAbandonedCall(t *testing.T) {
	for _, stored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &taskScript{states: []string{state("working", "")}}
			session := connect(t, script(s.answer), client.Options{Era: client.Modern})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			opts := &client.CallOptions{}
			var want []string
			if stored {
				opts.OnTask = func(*mcp.Task) {}
			} else {
				want = []string{`cancel "t1"`}
			}
			_, err := session.CallTool(ctx, "tool", nil, opts)
			if failed(t, err, jsonrpc.MaybeExecuted); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the call returns %v", err)
			}
			if !slices.Equal(s.requests, want) {
				t.Errorf("the requests are %q, want %q", s.requests, want)
			}
		})
	}
}

// TestTaskTimeout: the timeout of the call bounds each request, and not the task.
func TestTaskTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &taskScript{states: []string{state("working", "")}}
		s.get = func(polls int) func(*jsonrpc.Request) string {
			if polls < 500 {
				return nil
			}
			return func(*jsonrpc.Request) string { return notification("notifications/x", "{}") } // no answer
		}
		session := connect(t, script(s.answer), client.Options{Era: client.Modern})
		began := time.Now()
		_, err := session.CallTool(t.Context(), "tool", nil, &client.CallOptions{Timeout: 10 * time.Second})
		if failed(t, err, jsonrpc.MaybeExecuted); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) < 400*time.Second {
			t.Errorf("the call returns %v after %v", err, time.Since(began))
		}
	})
}

func TestTaskOfOtherMethods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		task := func(req *jsonrpc.Request) []string {
			if req.Method != mcp.MethodPromptsGet && req.Method != mcp.MethodToolsCall {
				return nil
			}
			return []string{result(req, `{"resultType":"task",`+state("working", "")[1:])}
		}
		session := connect(t, script(task), client.Options{Era: client.Modern})
		_, err := session.GetPrompt(t.Context(), "p", nil, nil)
		if failed(t, err, jsonrpc.MaybeExecuted); !strings.Contains(err.Error(), "unknown type") {
			t.Errorf("a prompt that is a task gives %v", err)
		}
		off := connect(t, script(task), client.Options{Era: client.Modern, NoTasks: true})
		_, err = off.CallTool(t.Context(), "tool", nil, nil)
		if failed(t, err, jsonrpc.MaybeExecuted); !strings.Contains(err.Error(), "not declared") {
			t.Errorf("a task that was not asked for gives %v", err)
		}
		for _, err := range session.Stream(t.Context(), "tool", nil, nil) {
			if failed(t, err, jsonrpc.MaybeExecuted); !strings.Contains(err.Error(), "not declared") {
				t.Errorf("a stream that is a task gives %v", err)
			}
		}
		own := connect(t, script(task), client.Options{Era: client.Modern, Capabilities: &mcp.ClientCapabilities{
			Extensions: map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
		}})
		raw, err := own.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"tool"}`), nil)
		var created mcp.Task
		if err != nil || created.UnmarshalJSON(raw) != nil || created.TaskID != "t1" || created.ResultType != mcp.ResultTask {
			t.Errorf("a session with capabilities of its own gets %s, %v", raw, err)
		}
		_, err = own.CallTool(t.Context(), "tool", nil, nil)
		if failed(t, err, jsonrpc.MaybeExecuted); !strings.Contains(err.Error(), "Session.Call") {
			t.Errorf("a result that is a task gives %v", err)
		}
	})
}

// TestTaskSurvivesConnections cuts the connection while a call waits for its task.
func TestTaskSurvivesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		s := &taskScript{states: []string{state("working", "")}}
		s.get = func(int) func(*jsonrpc.Request) string {
			polls++
			switch {
			case polls%3 == 0:
				return func(*jsonrpc.Request) string { return hangUp }
			case polls == 20:
				return func(req *jsonrpc.Request) string { return result(req, state("completed", doneResult)) }
			}
			return nil
		}
		session := connect(t, script(s.answer), client.Options{Era: client.Modern})
		result, err := session.CallTool(t.Context(), "tool", nil, nil)
		if err != nil || result.Text() != "done" {
			t.Errorf("the call returns %+v, %v", result, err)
		}
	})
}

// TestTaskOfEndedSession: a session that ends does not wait any more.
func TestTaskOfEndedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &taskScript{states: []string{state("working", `,"pollIntervalMs":60000`)}}
		session := connect(t, script(s.answer), client.Options{Era: client.Modern})
		began := time.Now()
		time.AfterFunc(10*time.Second, func() { session.Close() })
		_, err := session.CallTool(t.Context(), "tool", nil, nil)
		if failed(t, err, jsonrpc.MaybeExecuted); !errors.Is(err, jsonrpc.ErrClosed) || time.Since(began) > 11*time.Second {
			t.Errorf("the call returns %v after %v", err, time.Since(began))
		}

		s = &taskScript{states: []string{state("working", "")}}
		s.get = func(int) func(*jsonrpc.Request) string { return func(*jsonrpc.Request) string { return hangUp } }
		session = connect(t, script(s.answer), client.Options{Era: client.Modern, NoReconnect: true})
		_, err = session.CallTool(t.Context(), "tool", nil, nil)
		if failed(t, err, jsonrpc.MaybeExecuted); !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the call returns %v", err)
		}
	})
}

// TestTaskSurvivesServer replaces the server while a call waits for its task.
func TestTaskSurvivesServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		opts := &server.Options{Store: shared, StateKeys: [][]byte{[]byte(strings.Repeat("k", 32))}}
		run := make(chan struct{}, 2)
		start := func(wait bool) *server.Server {
			s := newServer(opts)
			server.AddTool(s, server.Tool{Name: "work", Task: server.TaskRequired, MaxRestarts: 1}, func(ctx context.Context, _ *server.Request, _ noServer) (string, error) {
				run <- struct{}{}
				if wait {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return "done", nil
			})
			return s
		}
		first, second := start(true), start(false)
		defer second.Shutdown(context.Background())
		b := &breaker{server: first}
		session := connect(t, b, client.Options{Era: client.Modern})
		created, called := make(chan struct{}), make(chan error, 1)
		go func() {
			text, err := client.CallAs[string](t.Context(), session, "work", nil, &client.CallOptions{OnTask: func(*mcp.Task) { close(created) }})
			if err == nil && text != "done" {
				err = fmt.Errorf("the result is %q", text)
			}
			called <- err
		}()
		<-created
		<-run
		b.refuse.Store(true)
		b.cut()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = first.Shutdown(ended) // interrupts the task
		synctest.Wait()
		b.mu.Lock()
		b.server = second
		b.mu.Unlock()
		b.refuse.Store(false)
		if err := <-called; err != nil {
			t.Error(err)
		}
	})
}

// TestTaskSurvivesProxy fails requests about a task over HTTP, as a proxy does while a server restarts.
func TestTaskSurvivesProxy(t *testing.T) {
	for name, refuse := range map[string]func(http.ResponseWriter){
		"status 503": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"no answer":  func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newGreeter(t, nil)
			handler := streamable.Handler(s, nil)
			var requests atomic.Int32
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				method := r.Header.Get("Mcp-Method")
				if strings.HasPrefix(method, "tasks/") && r.Header.Get("Mcp-Name") == "" {
					t.Errorf("%s lacks the header Mcp-Name", method)
				}
				if strings.HasPrefix(method, "tasks/") && requests.Add(1)%2 == 1 {
					refuse(w)
					return
				}
				handler.ServeHTTP(w, r)
			}))
			defer web.Close()
			defer handler.Close()
			var asked atomic.Int32
			opts := answers(&asked)
			opts.Era = client.Modern
			session := connect(t, streamable.Dial(web.URL, nil), opts)
			got, err := client.CallAs[greeting](t.Context(), session, "greet", nil, nil)
			if want := (greeting{"hello Ann", true}); err != nil || got != want || asked.Load() != 1 {
				t.Errorf("the call returns %+v, %v, and the user was asked %d times", got, err, asked.Load())
			}
			session.Close()
		})
	}
}

// TestTaskSubscription subscribes to tasks as to resources.
func TestTaskSubscription(t *testing.T) {
	if !transporttests.CarriesModern() {
		return
	}
	s := newGreeter(t, nil)
	changed := make(chan mcp.Change, 16)
	session := connect(t, transporttests.Dialer(t, s), client.Options{
		Era:      client.Modern,
		OnChange: func(_ context.Context, change mcp.Change) { changed <- change },
	})
	_, err := session.CallTool(t.Context(), "hang", nil, &client.CallOptions{OnTask: func(task *mcp.Task) {
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{TaskIDs: []string{task.TaskID, "unknown"}})
		if err != nil {
			t.Error(err)
			return
		}
		if agreed := sub.Agreed().TaskIDs; !slices.Equal(agreed, []string{task.TaskID}) {
			t.Errorf("the server has accepted %q", agreed)
		}
		if err := session.Task(task.TaskID).Cancel(t.Context()); err != nil {
			t.Error(err)
		}
		if change := <-changed; change != (mcp.Change{TaskID: task.TaskID}) {
			t.Errorf("the change is %+v", change)
		}
	}})
	if !errors.Is(err, client.ErrTaskCancelled) {
		t.Errorf("the call returns %v", err)
	}
}

// TestTaskStateRefused: the error of a request about a task is not the error of the call. The server may be busy
// although the tool runs.
func TestTaskStateRefused(t *testing.T) {
	for _, code := range []jsonrpc.Code{jsonrpc.Busy, jsonrpc.InternalError, mcp.CodeURLElicitationRequired} {
		synctest.Test(t, func(t *testing.T) {
			s := &taskScript{states: []string{state("working", "")}}
			s.get = func(int) func(*jsonrpc.Request) string {
				return func(req *jsonrpc.Request) string { return failure(req, code, "not now") }
			}
			session := connect(t, script(s.answer), client.Options{Era: client.Modern})
			_, err := session.CallTool(t.Context(), "tool", nil, nil)
			if failed(t, err, jsonrpc.MaybeExecuted); !strings.Contains(err.Error(), "not now") {
				t.Errorf("the call returns %v", err)
			}
			if want := `cancel "t1"`; !slices.Contains(s.requests, want) {
				t.Errorf("the requests are %q, want %q", s.requests, want)
			}
		})
	}
}

// TestTaskForbidden: a refusal is not repeated.
func TestTaskForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &taskScript{states: []string{state("working", "")}}
		s.get = func(int) func(*jsonrpc.Request) string {
			return func(req *jsonrpc.Request) string {
				return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"no","data":{"type":"FORBIDDEN"}}}`, req.ID)
			}
		}
		session := connect(t, script(s.answer), client.Options{Era: client.Modern})
		_, err := session.CallTool(t.Context(), "tool", nil, nil)
		if !client.IsForbidden(err) || s.gets != 1 {
			t.Errorf("the call returns %v after %d requests", err, s.gets)
		}
	})
}
