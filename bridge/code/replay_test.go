package code_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// An exchange is the responder of a call that may run several times: what its client carries between the runs.
type exchange struct {
	mu      sync.Mutex
	id      string
	stored  map[string]json.RawMessage
	answers map[string]json.RawMessage
}

func (e *exchange) Notify(context.Context, string, jsonrpc.Appender) error { return nil }

func (e *exchange) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if answer, ok := e.answers[key]; ok {
		return answer, nil
	}
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}

func (e *exchange) Load(key string) (json.RawMessage, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	value, ok := e.stored[key]
	return value, ok
}

func (e *exchange) Store(key string, value json.RawMessage) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stored[key] = value
}

func (e *exchange) ID() string         { return e.id }
func (*exchange) OnDone(func())        {}
func (*exchange) Detach(time.Duration) {}
func (*exchange) TaskID() string       { return "" }
func newExchange(id string) *exchange {
	return &exchange{id: id, stored: map[string]json.RawMessage{}, answers: map[string]json.RawMessage{}}
}

// copy returns the same state, which the client sends again.
func (e *exchange) copy() *exchange {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := newExchange(e.id)
	maps.Copy(c.stored, e.stored)
	maps.Copy(c.answers, e.answers)
	return c
}

// A replica offers scripts. Others offer the same ones over the same store.
type replica struct {
	server *server.Server
	dead   atomic.Bool // its store cannot be reached, as if it were killed
	dying  atomic.Bool // it is dead after it has created a record
}

// A mortal is a store that a dead replica cannot reach.
type mortal struct {
	store.Store
	of *replica
}

var errDead = errors.New("the replica is dead")

func (m *mortal) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if m.of.dead.Load() {
		return 0, errDead
	}
	if m.of.dying.Load() {
		defer m.of.dead.Store(true)
	}
	return m.Store.Create(ctx, key, value, ttl)
}

func (m *mortal) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if m.of.dead.Load() {
		return 0, errDead
	}
	return m.Store.Update(ctx, key, value, revision, ttl)
}

func newReplica(t *testing.T, tools *server.Server, shared store.Store, limits code.Limits) *replica {
	t.Helper()
	r := &replica{server: server.New(mcp.Implementation{Name: "scripts"}, nil)}
	opts := &code.Options{Engine: engine(), Limits: limits}
	if shared != nil {
		opts.Store = &mortal{shared, r}
	}
	scripts, err := code.New(tools.Provider(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.server.Mount(scripts, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// run makes one run of a call.
func (r *replica) run(ctx context.Context, script string, e mcp.Responder) (*result, error) {
	return r.runAs(ctx, "", script, e)
}

// runAs makes one run of a call of a client.
func (r *replica) runAs(ctx context.Context, principal, script string, e mcp.Responder) (*result, error) {
	arguments, err := json.Marshal(map[string]any{"name": code.ScriptTool, "arguments": map[string]string{"script": script}})
	if err != nil {
		return nil, err
	}
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, arguments)
	if err != nil {
		return nil, err
	}
	call := mcp.NewCall(request, &mcp.Caller{Principal: principal}, e)
	got, err := r.server.Serve(ctx, &call)
	if err != nil {
		return nil, err
	}
	text := got.(*mcp.CallToolResult).Text()
	made := new(result)
	if err := json.Unmarshal([]byte(text), made); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	made.IsError = got.(*mcp.CallToolResult).IsError
	return made, nil
}

// A doer does what a tool does.
type doer func(what string) error

// newSlowTools returns tools that take a random time, and count what they do. With ask, a person is asked first.
func newSlowTools(l doer) *server.Server {
	s := server.New(mcp.Implementation{Name: "tools"}, nil)
	wait := func() { time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond) }
	server.AddTool(s, server.Tool{Name: "read", TextOnly: true, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, func(_ context.Context, _ *server.Request, in text) (string, error) {
		wait()
		return in.Text, nil
	})
	server.AddTool(s, server.Tool{Name: "write", TextOnly: true}, func(_ context.Context, _ *server.Request, in text) (string, error) {
		if err := l(in.Text); err != nil {
			return "", err
		}
		wait()
		return in.Text, nil
	})
	server.AddTool(s, server.Tool{Name: "fail", TextOnly: true}, func(_ context.Context, _ *server.Request, in text) (string, error) {
		if err := l(in.Text); err != nil {
			return "", err
		}
		wait()
		return "", errors.New(in.Text)
	})
	server.AddTool(s, server.Tool{Name: "ask", TextOnly: true}, func(_ context.Context, r *server.Request, in text) (string, error) {
		wait()
		answer, err := server.Elicit[string](r, "q", in.Text)
		if err != nil {
			return "", err
		}
		if err := l(in.Text); err != nil {
			return "", err
		}
		wait()
		return answer, nil
	})
	return s
}

// A writer writes random scripts, whose calls have different arguments.
type writer struct {
	*rand.Rand
	id    string
	calls int
}

// expression returns an expression with calls, whose value is a list of texts.
func (w *writer) expression(depth int) string {
	if w.calls > 12 || depth > 3 {
		return `["-"]`
	}
	switch w.IntN(7) {
	case 0:
		return fmt.Sprintf("(await Promise.all([%s].map(async (x) => await x))).flat()", w.list(depth, func(e string) string { return "(async () => " + e + ")()" }))
	case 1:
		return fmt.Sprintf("[...%s, ...%s]", w.expression(depth+1), w.expression(depth+1))
	case 2:
		return fmt.Sprintf("await (async () => { const a = %s; if (a.join().length %% 2) { return [...a, ...%s] } return a })()", w.expression(depth+1), w.expression(depth+1))
	case 3: // what comes first decides
		return fmt.Sprintf("await (async () => { const a = %s, b = %s; const first = await Promise.race([a, b]); return [...first, await %s, ...(await a), ...(await b)] })()",
			w.promise(depth), w.promise(depth), w.call("first.join()"))
	case 4:
		return fmt.Sprintf("await (async () => { try { return [await %s] } catch (e) { return [e.message] } })()", w.callOf("fail", ""))
	default:
		return fmt.Sprintf("[await %s]", w.call(""))
	}
}

func (w *writer) promise(depth int) string { return "(async () => " + w.expression(depth+1) + ")()" }

func (w *writer) list(depth int, wrap func(string) string) string {
	var parts []string
	for range 2 + w.IntN(3) {
		parts = append(parts, wrap(w.expression(depth+1)))
	}
	return strings.Join(parts, ", ")
}

// call returns a call of a random tool.
func (w *writer) call(more string) string {
	return w.callOf([]string{"read", "write", "write", "ask", "ask"}[w.IntN(5)], more)
}

func (w *writer) callOf(tool, more string) string {
	w.calls++
	text := strconv.Quote(fmt.Sprintf("%s.%d", w.id, w.calls))
	if more != "" {
		text += " + " + more + " + Math.random()"
	}
	return fmt.Sprintf("tools.%s({ text: %s })", tool, text)
}

// TestCallsOfScriptsAreMadeOnce: whatever the order of results, the pauses, the replicas, kills and states that are sent again,
// no call that must not run twice is executed twice, and each script ends clearly.
func TestCallsOfScriptsAreMadeOnce(t *testing.T) {
	for _, shared := range []bool{true, false} {
		t.Run(fmt.Sprintf("shared store %v", shared), func(t *testing.T) { testOnce(t, shared) })
	}
}

func testOnce(t *testing.T, shared bool) {
	count := 25
	if n, err := strconv.Atoi(os.Getenv("DOVETAIL_SCRIPTS")); err == nil {
		count = n
	}
	l := &ledger{}
	tools := newSlowTools(l.do)
	var keep store.Store
	if shared {
		memory, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		keep = memory
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	var ended, failed, unknown, pauses int
	for i := range count {
		w := &writer{Rand: random, id: fmt.Sprint("s", i)}
		script := "return " + w.expression(0)
		replicas := []*replica{newReplica(t, tools, keep, code.Limits{}), newReplica(t, tools, keep, code.Limits{})}
		e := newExchange(fmt.Sprint("call ", i))
		var old []*exchange
		for round := range 30 {
			r := replicas[0]
			if shared {
				r = replicas[random.IntN(2)]
			}
			ctx, cancel := context.WithCancel(t.Context())
			killed := shared && round > 0 && random.IntN(4) == 0
			var timer *time.Timer
			if killed {
				timer = time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, func() { r.dead.Store(true); cancel() })
			}
			run := e.copy()
			got, err := r.run(ctx, script, run)
			if timer != nil {
				timer.Stop()
			}
			cancel()
			if r.dead.Load() && (err != nil || got.IsError) { // the client sends the same state to another replica
				replicas = []*replica{newReplica(t, tools, keep, code.Limits{}), newReplica(t, tools, keep, code.Limits{})}
				continue
			}
			if len(old) > 0 && random.IntN(2) == 0 { // the client sends an old state again
				again := old[random.IntN(len(old))].copy()
				if r, err := replicas[0].run(t.Context(), script, again); err == nil && !r.IsError {
					t.Errorf("%s: an old state has ended the script: %s", script, r.Value)
				}
			}
			asked, asks := mcp.AsInputRequired(err)
			if !asks {
				switch {
				case err != nil:
					t.Fatalf("%s: %v", script, err)
				case got.IsError && strings.Contains(got.Error, "UnknownOutcome"):
					unknown++
				case got.IsError:
					failed++
					if !strings.Contains(got.Error, "cannot be continued") && !strings.Contains(got.Error, "continued elsewhere") {
						t.Errorf("%s: %s", script, got.Error)
					}
				default:
					ended++
				}
				break
			}
			pauses++
			old = append(old, run)
			e = run.copy()
			for key, question := range asked.Requests {
				e.answers[key] = json.RawMessage(`{"action":"accept","content":{"value":` + strconv.Quote("answer "+strconv.Itoa(len(question.Params))) + `}}`)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for what, times := range l.done {
		if times > 1 {
			t.Errorf("%s was executed %d times", what, times)
		}
	}
	t.Logf("%d scripts: %d ended, %d with an unknown outcome, %d refused, %d pauses, %d calls", count, ended, unknown, failed, pauses, len(l.done))
	if ended < count/2 || pauses < count/5 {
		t.Errorf("only %d scripts of %d have ended, with %d pauses", ended, count, pauses)
	}
}

// begin makes the first run of a call, which asks, and returns the answered exchange.
func begin(t *testing.T, r *replica, script, id string) *exchange {
	t.Helper()
	e := newExchange(id)
	got, err := r.run(t.Context(), script, e)
	asked, asks := mcp.AsInputRequired(err)
	if !asks {
		t.Fatalf("%s: %+v %v", script, got, err)
	}
	for key := range asked.Requests {
		e.answers[key] = json.RawMessage(`{"action":"accept","content":{"value":"yes"}}`)
	}
	return e
}

// TestOldStateIsRefused: also after the script has ended, and when a call of it was abandoned or cancelled.
func TestOldStateIsRefused(t *testing.T) {
	for name, script := range map[string]string{
		"plain":     `await tools.ask({text: "a"}); return await tools.write({text: "w"})`,
		"abandoned": `await tools.ask({text: "a"}); const w = tools.write({text: "w"}); await Promise.race([w, tools.ask({text: "b"}).catch(() => {})]); return await w`,
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{}
			r := newReplica(t, newSlowTools(l.do), nil, code.Limits{})
			e := begin(t, r, script, name)
			if got, err := r.run(t.Context(), script, e.copy()); err != nil || string(got.Value) != `"w"` {
				t.Fatalf("%+v %v", got, err)
			}
			got, err := r.run(t.Context(), script, e.copy())
			if err != nil || !strings.Contains(got.Error, "cannot be continued") || l.count("w") != 1 {
				t.Errorf("the old state gives %+v %v, and the tools did %v", got, err, l.done)
			}
		})
	}
}

// TestChangedToolsAreNotCalledWithOldAnswers: a script whose tools are others than before its question does not go on.
func TestChangedToolsAreNotCalledWithOldAnswers(t *testing.T) {
	l := &ledger{}
	tool := func(name, description string) *server.Entry {
		e, err := server.NewTool(server.Tool{Name: name, Description: description, TextOnly: true}, func(_ context.Context, r *server.Request, in text) (string, error) {
			answer, err := server.Elicit[string](r, "q", "Really "+name+"?")
			if err == nil {
				l.add(name)
			}
			return answer, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	const script = `return await tools.delete_x({text: "a"})`
	for name, change := range map[string]func(*server.Server) error{
		"another tool has the name":  func(s *server.Server) error { return s.Replace(tool("delete-x", "")) },
		"the definition has changed": func(s *server.Server) error { return s.Replace(tool("delete_x", "Deletes more.")) },
		"the tool is removed":        func(s *server.Server) error { s.Remove(mcp.KindTool, "delete_x"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := server.New(mcp.Implementation{Name: "tools"}, nil)
			if err := s.Replace(tool("delete_x", "")); err != nil {
				t.Fatal(err)
			}
			r := newReplica(t, s, nil, code.Limits{})
			e := begin(t, r, script, name)
			if err := change(s); err != nil {
				t.Fatal(err)
			}
			if got, err := r.run(t.Context(), script, e); err != nil || !got.IsError || len(l.done) > 0 {
				t.Errorf("the script gives %+v %v, and the tools did %v", got, err, l.done)
			}
		})
	}
}

// TestResultsBeforeAQuestionAreLimited: a script that has to keep too much fails and says why, and what is below the limit is
// kept, whatever it consists of.
func TestResultsBeforeAQuestionAreLimited(t *testing.T) {
	for _, shared := range []bool{true, false} {
		size, calls := 40<<10, 1
		if shared {
			size, calls = 1<<20, 4
		}
		var keep store.Store
		if shared {
			memory, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer memory.Close()
			keep = memory
		}
		for _, c := range []string{"x", "<", "é"} {
			r := newReplica(t, newSlowTools((&ledger{}).do), keep, code.Limits{Computing: time.Minute})
			script := func(n int) string {
				return fmt.Sprintf(`let n = 0; for (let i = 0; i < %d; i++) n += (await tools.read({text: %q.repeat(%d)})).length; await tools.ask({text: "q"}); return n`, calls, c, n/len(c)/calls)
			}
			fits := script(size - 1000)
			e := begin(t, r, fits, fmt.Sprint("fits ", shared, c))
			if got, err := r.run(t.Context(), fits, e); err != nil || got.IsError || string(got.Value) != fmt.Sprint((size-1000)/len(c)/calls*calls) {
				t.Errorf("%v %s: %+v %v", shared, c, got, err)
			}
			got, err := r.run(t.Context(), script(size+1000), newExchange(fmt.Sprint("does not fit ", shared, c)))
			if err != nil || !strings.Contains(got.Error, "cannot be kept while a person is asked") {
				t.Errorf("%v %s: %+v %v", shared, c, got, err)
			}
		}
	}
}

// TestAnotherReplicaContinuesWithoutStore: the client carries what the script has done, also while the keys of the replicas change.
func TestAnotherReplicaContinuesWithoutStore(t *testing.T) {
	l := &ledger{}
	keys := [][]byte{[]byte(strings.Repeat("1", 32)), []byte(strings.Repeat("2", 32))}
	endpoint := func(keys ...[]byte) http.Handler {
		scripts, err := code.New(newSlowTools(l.do).Provider(), &code.Options{Engine: engine()})
		if err != nil {
			t.Fatal(err)
		}
		s := server.New(mcp.Implementation{Name: "scripts"}, &server.Options{StateKeys: keys})
		if err := s.Mount(scripts, nil); err != nil {
			t.Fatal(err)
		}
		handler := streamable.Handler(s, nil)
		t.Cleanup(func() {
			if err := errors.Join(handler.Close(), s.Shutdown(context.Background())); err != nil {
				t.Error(err)
			}
		})
		return handler
	}
	replicas := []http.Handler{endpoint(keys[0]), endpoint(keys[1], keys[0]), endpoint(keys[1])}
	var answers atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { replicas[answers.Load()].ServeHTTP(w, r) }))
	defer web.Close()
	session, err := client.Connect(t.Context(), streamable.Dial(web.URL, nil), &client.Options{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		answers.Add(1)
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":"yes"}`)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got := run(t, session, `const made = await tools.write({text: "a"}); const one = await tools.ask({text: "one?"}); await tools.write({text: "b"}); return [made, one, await tools.ask({text: "two?"})]`)
	if string(got.Value) != `["a","yes","yes"]` || answers.Load() != 2 || l.count("a") != 1 || l.count("b") != 1 {
		t.Errorf("the script gives %s %s after %d answers, and the tools did %v", got.Value, got.Error, answers.Load(), l.done)
	}
}

// TestLaterResultIsKept: a tool that may run again returns another result after its replica has died. A script that asks
// afterwards goes on with the result that it got, not with the one that was lost.
func TestLaterResultIsKept(t *testing.T) {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	var reads atomic.Int32
	tools := newSlowTools((&ledger{}).do)
	server.AddTool(tools, server.Tool{Name: "count", TextOnly: true, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}}, func(context.Context, *server.Request, struct{}) (string, error) {
		return fmt.Sprint(reads.Add(1)) + strings.Repeat("x", 20_000), nil
	})
	const script = `await tools.ask({text: "first"}); const a = await tools.count(); await tools.write({text: "w"}); await tools.ask({text: "second"}); return a[0]`
	first, second := newReplica(t, tools, memory, code.Limits{}), newReplica(t, tools, memory, code.Limits{})
	e := begin(t, first, script, "call")
	first.dying.Store(true) // with the result of count in a record of its own
	if got, err := first.run(t.Context(), script, e.copy()); err == nil && !got.IsError {
		t.Fatalf("the dead replica gives %+v", got)
	}
	again := e.copy()
	_, err = second.run(t.Context(), script, again)
	asked, asks := mcp.AsInputRequired(err)
	if !asks {
		t.Fatal(err)
	}
	for key := range asked.Requests {
		again.answers[key] = json.RawMessage(`{"action":"accept","content":{"value":"yes"}}`)
	}
	got, err := second.run(t.Context(), script, again)
	if err != nil || string(got.Value) != `"2"` || reads.Load() != 2 {
		t.Errorf("the script gives %+v %v after %d reads, want the second result", got, err, reads.Load())
	}
}
