package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// ofNetwork returns a task of a client without a principal, with arguments of some bytes.
func ofNetwork(network string, arguments int) task.Spec {
	return task.Spec{
		Network: network, TaskRequest: mcp.TaskRequest{TTL: time.Hour},
		Call: json.RawMessage(`"` + strings.Repeat("x", arguments) + `"`), State: json.RawMessage(`{}`),
	}
}

// createAll creates tasks until one is refused, and returns how many were created.
func createAll(t *testing.T, e *replica, spec task.Spec) (created int) {
	t.Helper()
	for ; created < 1000; created++ {
		_, err := e.Create(t.Context(), spec)
		if err == nil {
			synctest.Wait()
			continue
		}
		if busy, ok := errors.AsType[*jsonrpc.Error](err); !ok || busy.Code != jsonrpc.Busy {
			t.Errorf("the error is %v, want Busy", err)
		}
		break
	}
	return created
}

// The tasks of a client that are kept have a limit, and leave room for those of others. When they expire, there is room again.
func TestKeptTasksLeaveRoomForOthers(t *testing.T) {
	for name, test := range map[string]struct {
		spec func(network string) task.Spec
		run  task.Outcome
	}{
		"small":     {func(network string) task.Spec { return ofNetwork(network, 10) }, result("done")},
		"arguments": {func(network string) task.Spec { return ofNetwork(network, 20<<10) }, task.Outcome{Questions: question("a"), State: json.RawMessage(`{}`)}},
		"results":   {func(network string) task.Spec { return ofNetwork(network, 10) }, result(strings.Repeat("x", 20<<10))},
		"state":     {func(network string) task.Spec { return ofNetwork(network, 10) }, task.Outcome{Questions: question("a"), State: json.RawMessage(`"` + strings.Repeat("x", 20<<10) + `"`)}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const room = 1 << 20
				r := newRig(t)
				r.retained = quota.NewRetained(room)
				e := r.replica(func(_ context.Context, _ *task.Run) task.Outcome { return test.run })
				if first := createAll(t, e, test.spec("192.0.2.1")); first == 0 || first == 1000 {
					t.Fatalf("%d tasks were created", first)
				}
				if held := r.retained.Held(); held < room/3 || held > room*5/8 {
					t.Errorf("one client keeps %d of %d bytes", held, room)
				}
				if second := createAll(t, e, test.spec("192.0.2.2")); second < 3 {
					t.Errorf("another client could create %d tasks", second)
				}
				<-time.After(time.Hour + 3*time.Minute)
				if held := r.retained.Held(); held != 0 {
					t.Errorf("%d bytes are counted after the tasks have expired", held)
				}
				if createAll(t, e, test.spec("192.0.2.1")) == 0 {
					t.Error("there is no room after the tasks have expired")
				}
			})
		})
	}
}

// The arguments and the state of a task do not count after its end.
func TestEndedTaskCountsItsOutcomeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.retained = quota.NewRetained(1 << 20)
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			run.Save(ctx, json.RawMessage(`"`+strings.Repeat("x", 50<<10)+`"`))
			if held := r.retained.Held(); held < 150<<10 {
				t.Errorf("a task with arguments and state of 150 KiB keeps %d bytes", held)
			}
			return result(strings.Repeat("x", 30<<10))
		})
		if _, err := e.Create(t.Context(), ofNetwork("192.0.2.1", 100<<10)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if held := r.retained.Held(); held < 30<<10 || held > 40<<10 {
			t.Errorf("a task with a result of 30 KiB keeps %d bytes", held)
		}
	})
}

// A result for which there is no room ends its task. The error says that the call was executed, and not to try it again.
func TestResultWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.retained = quota.NewRetained(100 << 10)
		var runs atomic.Int32
		e := r.replica(func(ctx context.Context, run *task.Run) task.Outcome {
			if err := run.Begin(ctx, 0); err != nil {
				t.Error(err)
			}
			runs.Add(1)
			return result(strings.Repeat("x", 300<<10))
		})
		id := r.create(e, task.Spec{})
		got := r.expect(e, id, mcp.TaskFailed)
		if text := string(got.Error); !strings.Contains(text, "the call was executed") || !strings.Contains(text, "3072") || strings.Contains(text, "again") {
			t.Errorf("the error is %s", text)
		}
		if held := r.retained.Held(); runs.Load() != 1 || held > 10<<10 {
			t.Errorf("the function ran %d times, and the task keeps %d bytes", runs.Load(), held)
		}
	})
}

// All replicas, and a process that starts later, count the same bytes.
func TestReplicasCountWhatTasksKeep(t *testing.T) {
	const kib = 1 << 10
	for name, test := range map[string]struct {
		arguments  int
		run        func(runs int32) task.Outcome
		answer     string
		least, max int64 // of what is counted
	}{
		"arguments": {100 * kib, func(int32) task.Outcome { return task.Outcome{Questions: question("a")} }, "", 100 * kib, 110 * kib},
		"a result":  {10, func(int32) task.Outcome { return result(strings.Repeat("x", 300*kib)) }, "", 300 * kib, 310 * kib},
		"an end":    {100 * kib, func(int32) task.Outcome { return result("done") }, "", 0, 10 * kib},
		"an error": {100 * kib, func(int32) task.Outcome {
			return task.Outcome{Error: &jsonrpc.Error{Message: strings.Repeat("x", 50*kib)}}
		}, "", 50 * kib, 60 * kib},
		"an answer": {10, func(int32) task.Outcome { q := question("a"); q["b"] = q["a"]; return task.Outcome{Questions: q} }, strings.Repeat("x", 200*kib), 200 * kib, 210 * kib},
		"state": {10, func(int32) task.Outcome {
			return task.Outcome{Questions: question("a"), State: json.RawMessage(`"` + strings.Repeat("x", 70*kib) + `"`)}
		}, "", 70 * kib, 80 * kib},
		"a later end": {10, func(runs int32) task.Outcome {
			if runs == 1 {
				return task.Outcome{Questions: question("a"), State: json.RawMessage(`"` + strings.Repeat("x", 70*kib) + `"`)}
			}
			return result(strings.Repeat("x", 20*kib))
		}, "yes", 20 * kib, 30 * kib},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				var runs atomic.Int32
				var counted []*quota.Retained
				start := func(max int) *replica {
					r.retained, r.max = quota.NewRetained(10<<20), max
					counted = append(counted, r.retained)
					e := r.replica(func(context.Context, *task.Run) task.Outcome { return test.run(runs.Add(1)) })
					e.Start()
					return e
				}
				first, second := start(10), start(10)
				created, err := first.Create(t.Context(), ofNetwork("192.0.2.1", test.arguments))
				if err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Minute)
				if test.answer != "" {
					if err := second.Answer(t.Context(), created.TaskID, "", map[string]json.RawMessage{"a": json.RawMessage(`"` + test.answer + `"`)}); err != nil {
						t.Fatal(err)
					}
				}
				start(10)
				<-time.After(time.Minute)
				for i, retained := range counted {
					if held := retained.Held(); held < test.least || held > test.max {
						t.Errorf("replica %d counts %d bytes, want %d to %d", i, held, test.least, test.max)
					}
				}
				<-time.After(time.Hour + 3*time.Minute)
				for i, retained := range counted {
					if held := retained.Held(); held != 0 {
						t.Errorf("replica %d counts %d bytes after the task has expired", i, held)
					}
				}
			})
		})
	}
}

// Two replicas store answers to different questions of a task at the same time, and no replica loses one of them.
func TestAnswersAtSeveralReplicasCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kib = 1 << 10
		r := newRig(t)
		questions := question("a")
		questions["b"], questions["c"] = questions["a"], questions["a"]
		var counted []*quota.Retained
		var replicas []*replica
		for range 3 {
			r.retained = quota.NewRetained(10 << 20)
			counted = append(counted, r.retained)
			e := r.replica(func(context.Context, *task.Run) task.Outcome { return task.Outcome{Questions: questions} })
			e.Start()
			replicas = append(replicas, e)
		}
		created, err := replicas[0].Create(t.Context(), ofNetwork("192.0.2.1", 10))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		for i, key := range []string{"a", "b"} {
			go func() {
				answer := map[string]json.RawMessage{key: json.RawMessage(`"` + strings.Repeat("x", 200*kib) + `"`)}
				if err := replicas[i+1].Answer(t.Context(), created.TaskID, "", answer); err != nil {
					t.Error(err)
				}
			}()
		}
		<-time.After(time.Minute)
		for i, retained := range counted {
			if held := retained.Held(); held < 400*kib || held > 410*kib {
				t.Errorf("replica %d counts %d bytes, want 400 to 410 KiB", i, held)
			}
		}
	})
}

// Clients cannot keep more by calling several replicas, or by waiting for a restart.
func TestReplicasShareTheRoomOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 1 << 20
		r := newRig(t)
		r.retained = quota.NewRetained(room)
		created := createAll(t, r.replica(done), ofNetwork("192.0.2.1", 10))
		for i := range 3 {
			r.retained = quota.NewRetained(room)
			e := r.replica(done)
			e.Start()
			synctest.Wait()
			if more := createAll(t, e, ofNetwork("192.0.2.1", 10)); created == 0 || more > created/50 {
				t.Errorf("one replica has created %d tasks, and another one %d more", created, more)
			}
			if createAll(t, e, ofNetwork(fmt.Sprintf("192.0.3.%d", i), 10)) == 0 {
				t.Error("another client cannot create a task")
			}
		}
	})
}

// The format of the record is what other versions read.
func TestFormatOfKeptRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		plain := make(chan string, 1)
		e := r.hooked(&hooked{create: func(key string, value []byte, do func() (uint64, error)) (uint64, error) {
			if strings.HasPrefix(key, "taskkept/") {
				opened, err := state.FixedKey(r.ring).OpenBytes(t.Context(), value, token.Binding("record", key))
				if err != nil {
					t.Error(err)
				}
				plain <- string(opened)
			}
			return do()
		}}, done)
		if _, err := e.Create(t.Context(), ofNetwork("192.0.2.1", 10)); err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile(`"replica":"[A-Z2-7]{26}"`).ReplaceAllString(<-plain, `"replica":"R"`)
		const want = `{"version":1,"until":946688400000,"value":{"replica":"R","network":"192.0.2.1","parts":{"":2048,"call":12,"room":4096,"state":2}}}`
		if got != want {
			t.Errorf("the record is\n%s, want\n%s", got, want)
		}
	})
}

// A task that is refused leaves nothing in the store.
func TestRefusedTaskLeavesNothing(t *testing.T) {
	for name, fails := range map[string]func(key string) bool{
		"its size":   func(key string) bool { return strings.HasPrefix(key, "taskkept/") },
		"the record": func(key string) bool { return strings.HasPrefix(key, "task/") && strings.Count(key, "/") == 1 },
		"a chunk":    func(key string) bool { return strings.HasSuffix(key, "/1") },
		"the job":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.retained = quota.NewRetained(10 << 20)
				stored := make(map[string]bool)
				h := &hooked{
					create: func(key string, _ []byte, do func() (uint64, error)) (uint64, error) {
						if fails != nil && fails(key) {
							return 0, store.ErrFull
						}
						stored[key] = true
						return do()
					},
					del: func(key string, do func() error) error {
						delete(stored, key)
						return do()
					},
				}
				if fails == nil {
					h.push = func(func() error) error { return store.ErrFull }
				}
				e := r.hooked(h, done)
				if _, err := e.Create(t.Context(), ofNetwork("192.0.2.1", 600<<10)); !errors.Is(err, task.ErrNotCreated) {
					t.Errorf("the error is %v, want ErrNotCreated", err)
				}
				synctest.Wait() // the engine also hears of its own records from the store
				if len(stored) > 0 || r.retained.Held() > 0 {
					t.Errorf("%v are stored, and %d bytes are counted", stored, r.retained.Held())
				}
			})
		})
	}
}
