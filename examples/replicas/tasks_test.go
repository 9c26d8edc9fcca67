package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

const (
	// envTasks makes a replica serve jobs that run as tasks.
	envTasks = "REPLICAS_TASKS"
	// userHeader names the caller. The test trusts its clients.
	userHeader = "X-User"
	// openTasks is how many tasks are open at any time.
	openTasks = 1000
	// taskLease is how long a task waits after the end of its replica.
	taskLease = 5 * time.Second
	// maxKills is how many kills of replicas one task survives.
	maxKills = 100
	// jobTime is how long one run of a job takes.
	jobTime = time.Second
)

type jobIn struct {
	Job string `json:"job"`
	Ask bool   `json:"ask"`
}

// runTaskReplica serves a tool that runs as a task, until the standard input ends.
func runTaskReplica() error {
	ctx, cancel := untilInputEnds()
	defer cancel()
	shared, err := openStore(ctx, os.Getenv(envStore), store.Limits{Lease: taskLease})
	if err != nil {
		return err
	}
	defer shared.Close()
	s := server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{
		Store: shared, Logger: slog.New(slog.DiscardHandler), MaxTasks: 2 * openTasks, // half of them for each user
	})
	server.AddTool(s, server.Tool{Name: "job", Task: server.TaskRequired, TTL: time.Hour, MaxRestarts: maxKills}, job)
	server.AddTool(s, server.Tool{Name: "poison", Task: server.TaskRequired, TTL: time.Hour, MaxRestarts: poisonRestarts}, poison)
	return streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
		Drain:    drain,
		OnListen: func(address net.Addr) { fmt.Println(address) },
		Wrap: func(endpoint http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get(userHeader))))
			})
		},
	})
}

// job returns the name of the job, the caller, a value of its first run, and a value of its last run.
func job(ctx context.Context, r *server.Request, in jobIn) (string, error) {
	first, err := server.Once(r, "first", func() (string, error) { return rand.Text(), nil })
	if err != nil {
		return "", err
	}
	if in.Ask {
		answer, err := server.Elicit[confirmation](r, "sure", "Run "+in.Job+"?")
		if err != nil {
			return "", err
		}
		if !answer.Sure {
			return "", errors.New("the answer was lost")
		}
	}
	if err := r.Progress(ctx, 1, 2, "half of "+in.Job); err != nil {
		return "", err
	}
	select {
	case <-time.After(jobTime):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return fmt.Sprintf("%s of %s: %s %s", in.Job, r.Caller().Principal, first, rand.Text()), nil
}

// A taskUser starts tasks, and asks for their results.
type taskUser struct {
	*ledger
	url, name string
	session   *client.Session
}

// call makes one request. It repeats requests that can be repeated until they are answered.
func (u *taskUser) call(ctx context.Context, method, params string) (json.RawMessage, error) {
	for {
		err := u.connect(ctx)
		if err == nil {
			var result json.RawMessage
			attempt, cancel := context.WithTimeout(ctx, patience)
			result, err = u.session.Call(attempt, method, json.RawMessage(params), nil)
			cancel()
			if err == nil {
				return result, nil
			}
		}
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code != jsonrpc.Busy && refused.Code != jsonrpc.InternalError {
			return nil, err
		}
		failed, ok := errors.AsType[*jsonrpc.CallError](err)
		if ctx.Err() != nil || method == mcp.MethodToolsCall && ok && failed.Delivery == jsonrpc.MaybeExecuted {
			return nil, err
		}
		if u.session != nil {
			u.session.Close()
			u.session = nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (u *taskUser) connect(ctx context.Context) (err error) {
	if u.session != nil {
		return nil
	}
	dialer := streamable.Dial(u.url, &streamable.DialOptions{Header: func(_ context.Context, header http.Header) error {
		header.Set(userHeader, u.name)
		return nil
	}})
	u.session, err = client.Connect(ctx, dialer, &client.Options{Era: client.Modern, Capabilities: &mcp.ClientCapabilities{
		Elicitation: &mcp.ElicitationCapability{},
		Extensions:  map[string]json.RawMessage{mcp.ExtensionTasks: json.RawMessage("{}")},
	}})
	return err
}

// start starts a task. It returns "" if a replica was killed before its id arrived.
func (u *taskUser) start(ctx context.Context, name string, ask bool) string {
	began := time.Now()
	raw, err := u.call(ctx, mcp.MethodToolsCall, fmt.Sprintf(`{"name":"job","arguments":{"job":%q,"ask":%t}}`, name, ask))
	var created mcp.Task
	if err == nil {
		err = created.UnmarshalJSON(raw)
	}
	if err != nil && ctx.Err() == nil {
		u.fail(name, began, err)
	}
	return created.TaskID
}

// state returns the state of a task. A task that cannot be found is lost.
func (u *taskUser) state(ctx context.Context, id string) *mcp.Task {
	raw, err := u.call(ctx, mcp.MethodTasksGet, fmt.Sprintf(`{"taskId":%q}`, id))
	got := new(mcp.Task)
	if err == nil {
		err = got.UnmarshalJSON(raw)
	}
	if err != nil {
		u.lose("the task %s of %s: %v", id, u.name, err)
		return nil
	}
	return got
}

// answer answers the question of a task.
func (u *taskUser) answer(ctx context.Context, id string) {
	u.count(&u.questions)
	if _, err := u.call(ctx, mcp.MethodTasksUpdate, fmt.Sprintf(`{"taskId":%q,"inputResponses":{"sure":{"action":"accept","content":{"sure":true}}}}`, id)); err != nil {
		u.lose("the answer to the task %s: %v", id, err)
	}
}

// finish checks the outcome of a task, now and again, and that another user does not get it.
func (u *taskUser) finish(ctx context.Context, name, id string, got *mcp.Task, other *taskUser) {
	text := func(task *mcp.Task) string {
		var result mcp.CallToolResult
		if task == nil || task.Status != mcp.TaskCompleted || result.UnmarshalJSON(task.Result) != nil {
			return fmt.Sprintf("%+v", task)
		}
		return result.Text()
	}
	outcome := text(got)
	if !strings.HasPrefix(outcome, name+" of "+u.name+": ") {
		u.lose("the outcome of %s: %s", name, outcome)
	}
	if again := text(u.state(ctx, id)); again != outcome {
		u.checkOnce("%s has two outcomes: %s, %s", name, outcome, again)
	}
	if raw, err := other.call(ctx, mcp.MethodTasksGet, fmt.Sprintf(`{"taskId":%q}`, id)); err == nil {
		u.lose("%s gets the task of %s: %s", other.name, u.name, raw)
	}
	u.count(&u.answers)
}

func (l *ledger) checkOnce(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checkDoubled(true, format, arguments...)
}

// run keeps tasks open until stopping is closed, and then waits for their outcomes. It calls filled when
// all are open.
func (u *taskUser) run(ctx context.Context, worker, tasks int, other *taskUser, filled func(), stopping <-chan struct{}) {
	type openTask struct{ name, id string }
	var open []openTask
	filled = sync.OnceFunc(filled)
	defer filled()
	for n := 0; ctx.Err() == nil; {
		select {
		case <-stopping:
			if len(open) == 0 {
				return
			}
		default:
			for len(open) < tasks && ctx.Err() == nil {
				name := fmt.Sprintf("%s-%d-%d", u.name, worker, n)
				if id := u.start(ctx, name, n%5 == 0); id != "" {
					open = append(open, openTask{name, id})
				}
				n++
			}
			filled()
		}
		var still []openTask
		for _, task := range open {
			got := u.state(ctx, task.id)
			switch {
			case got == nil:
			case got.Status.Ended():
				u.finish(ctx, task.name, task.id, got, other)
			default:
				if got.Status == mcp.TaskInputRequired {
					u.answer(ctx, task.id)
				}
				still = append(still, task)
			}
		}
		open = still
		time.Sleep(100 * time.Millisecond)
	}
	for _, task := range open {
		u.lose("%s has no outcome", task.name)
	}
}

// TestTasksWhileReplicasAreKilled kills replicas while a thousand tasks of two users run. None is lost, has
// two outcomes, or is shown to the other user.
func TestTasksWhileReplicasAreKilled(t *testing.T) {
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			kills := killsOf(t)
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience+time.Duration(kills)*2*time.Second)
			defer cancel()
			url, token := storeOf(t, engine)
			counts := newLedger()
			balancer := newBalancer(3)
			front := httptest.NewServer(balancer)
			defer front.Close()
			fleet := &fleet{balancer: balancer, counts: counts, env: append(os.Environ(), envStore+"="+url, envToken+"="+token, envTasks+"=1")}
			defer fleet.stop()
			if err := fleet.start(ctx); err != nil {
				t.Fatal(err)
			}
			const workersOfUser = 8
			stopping := make(chan struct{})
			var running, filling sync.WaitGroup
			for _, names := range [][2]string{{"ann", "bob"}, {"bob", "ann"}} {
				for worker := range workersOfUser {
					user := &taskUser{ledger: counts, url: front.URL + "/mcp", name: names[0]}
					other := &taskUser{ledger: counts, url: front.URL + "/mcp", name: names[1]}
					filling.Add(1)
					running.Go(func() {
						user.run(ctx, worker, (openTasks/2+workersOfUser-1)/workersOfUser, other, filling.Done, stopping)
						for _, u := range []*taskUser{user, other} {
							if u.session != nil {
								u.session.Close()
							}
						}
					})
				}
			}
			filling.Wait()
			err := fleet.killSome(ctx, kills, 400*time.Millisecond)
			close(stopping)
			running.Wait()
			if err := errors.Join(err, counts.report()); err != nil {
				t.Error(err)
			}
			if counts.answers < openTasks {
				t.Errorf("only %d tasks have ended", counts.answers)
			}
		})
	}
}
