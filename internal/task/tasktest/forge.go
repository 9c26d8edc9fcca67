package tasktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Forge changes what tasks have in the store, as another program with access to the engine could. A task then has its own
// result, an earlier state or an error, and never the result of another one; its principal remains the only one that gets
// it; no function runs again; and the other tasks go on.
func Forge(t *testing.T, open func(t *testing.T, limits store.Limits) store.Store) {
	f := newForger(t, open(t, store.Limits{}))
	defer f.stop()
	for _, principal := range []string{"ann", "bob"} {
		for _, size := range []int{10, 20, 600 << 10} { // the last one is in chunks
			f.create(principal, size)
		}
	}
	executed := f.executed.Load()
	attempts := 0
	for _, victim := range f.tasks {
		if victim.principal != "ann" {
			continue
		}
		for _, key := range f.history.keys("task/" + victim.id) {
			for name, value := range f.forgeries(key) {
				attempts++
				f.try(fmt.Sprintf("%s of %d bytes: %s", kindOf(key), victim.size, name), victim, key, value)
			}
		}
	}
	// The jobs that are done, once more and in other places, and jobs that nobody has made.
	jobs := f.history.jobs()
	for i, j := range jobs {
		for n, data := range [][]byte{j.data, jobs[(i+1)%len(jobs)].data, j.data[:len(j.data)/2], nil, []byte(`{}`), bytes.Repeat([]byte("x"), store.MaxValue)} {
			attempts++
			if err := f.engine.Push(t.Context(), j.queue, fmt.Sprintf("forged-%d-%d", i, n), data); err != nil {
				t.Error(err)
			}
		}
	}
	created := f.create("bob", 30)
	if got := f.executed.Load(); got != executed+1 {
		t.Errorf("functions ran %d times, want %d", got, executed+1)
	}
	f.intact(created)
	t.Logf("%d forgeries", attempts)
}

// A forger is an engine of tasks, and the store under it.
type forger struct {
	*testing.T
	engine   store.Store // without the history
	history  *history
	tasks    []*forgedTask
	task     *task.Engine
	ring     *token.Ring
	executed atomic.Int64
}

// A forgedTask is a task that has ended.
type forgedTask struct {
	id, principal string
	size          int
	result        string
}

func newForger(t *testing.T, engine store.Store) *forger {
	t.Helper()
	ring, err := token.NewRing()
	if err != nil {
		t.Fatal(err)
	}
	f := &forger{T: t, engine: engine, ring: ring, history: &history{Store: engine, values: map[string][][]byte{}}}
	f.task = task.New(task.Config{
		Store: f.history, Key: state.FixedKey(ring), Shared: true, Max: 100, Logger: slog.New(slog.DiscardHandler),
		Run: func(_ context.Context, run *task.Run) task.Outcome {
			f.executed.Add(1)
			return task.Outcome{Result: run.Call}
		},
	})
	return f
}

func (f *forger) stop() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = f.task.Stop(ended) // nothing runs
}

// create creates a task, and waits until it has ended.
func (f *forger) create(principal string, size int) *forgedTask {
	f.Helper()
	call := fmt.Sprintf("%q", fmt.Sprint(principal, " ", size, " ", strings.Repeat("x", size)))
	created, err := f.task.Create(f.Context(), task.Spec{
		Principal: principal, Call: json.RawMessage(call), State: json.RawMessage(`{}`), TaskRequest: mcp.TaskRequest{TTL: time.Hour},
	})
	if err != nil {
		f.Fatal(err)
	}
	made := &forgedTask{created.TaskID, principal, size, call}
	waittest.Until(f.T, "the end of the task", func() bool {
		got, err := f.task.Get(f.Context(), made.id, principal)
		if err != nil {
			f.Fatal(err)
		}
		return got.Status == mcp.TaskCompleted
	})
	f.tasks = append(f.tasks, made)
	return made
}

// forgeries returns values to put in place of the value of a key. nil deletes the key.
func (f *forger) forgeries(key string) map[string][]byte {
	all := f.history.all(key)
	last := all[len(all)-1]
	forged := map[string][]byte{
		"deleted": nil, "empty": {}, "one byte": {1}, "text": []byte(`{"version":1,"value":{"status":"completed","result":{"inline":"forged"}}}`),
		"huge": bytes.Repeat([]byte{'x'}, store.MaxValue), "half": last[:len(last)/2], "cut": last[:len(last)-1], "longer": append(bytes.Clone(last), 0),
	}
	for i := range 16 {
		changed := bytes.Clone(last)
		changed[i*(len(changed)-1)/15] ^= 1 << (i % 8)
		forged[fmt.Sprint("flipped ", i)] = changed
	}
	for i, earlier := range all[:len(all)-1] {
		forged[fmt.Sprint("earlier ", i)] = earlier
	}
	for _, other := range f.history.keys("task/") {
		if other != key {
			values := f.history.all(other)
			forged["moved from "+other] = values[len(values)-1]
		}
	}
	for name, plain := range map[string]string{
		"a later version": `{"version":99,"value":{"principal":"ann","status":"completed","result":{"inline":"forged"}}}`,
		"no version":      `{"value":{"principal":"ann","status":"completed"}}`, "an array": `[]`,
	} {
		forged[name] = f.ring.SealBytes([]byte(plain), token.Binding("record", key))
	}
	return forged
}

// try puts a value in place of another one, looks at all tasks, and puts the other one back.
func (f *forger) try(name string, victim *forgedTask, key string, value []byte) {
	f.Helper()
	before, err := f.engine.Get(f.Context(), key)
	if err != nil {
		f.Fatalf("%s: %v", name, err)
	}
	revision := before.Revision
	if value == nil {
		err = f.engine.Delete(f.Context(), key, revision)
	} else {
		revision, err = f.engine.Update(f.Context(), key, value, revision, time.Hour)
	}
	if err != nil {
		f.Fatalf("%s: %v", name, err)
	}
	switch got, err := f.task.Get(f.Context(), victim.id, victim.principal); {
	case err != nil:
	case got.Status == mcp.TaskWorking && got.Result == nil: // an earlier state
	case got.Status != mcp.TaskCompleted || string(got.Result) != victim.result:
		f.Errorf("%s: the task is %s with %.100s", name, got.Status, got.Result)
	}
	if _, err := f.task.Get(f.Context(), victim.id, "bob"); err == nil {
		f.Errorf("%s: another principal gets the task", name)
	}
	if err := f.task.Cancel(f.Context(), victim.id, "bob"); err == nil {
		f.Errorf("%s: another principal may cancel the task", name)
	}
	for _, other := range f.tasks {
		if other != victim && other.size < 1000 {
			f.intact(other)
		}
	}
	if value == nil {
		_, err = f.engine.Create(f.Context(), key, before.Value, time.Hour)
	} else {
		_, err = f.engine.Update(f.Context(), key, before.Value, revision, time.Hour)
	}
	if err != nil {
		f.Fatalf("%s: %v", name, err)
	}
	f.intact(victim)
}

// intact checks that a task has its result, for its principal only.
func (f *forger) intact(of *forgedTask) {
	f.Helper()
	if got, err := f.task.Get(f.Context(), of.id, of.principal); err != nil || string(got.Result) != of.result {
		f.Errorf("the task of %d bytes of %s: %v", of.size, of.principal, err)
	}
	stranger := map[string]string{"ann": "bob", "bob": "ann"}[of.principal]
	if _, err := f.task.Get(f.Context(), of.id, stranger); !errors.Is(err, task.ErrUnknown) {
		f.Errorf("the task of %s for %s: %v", of.principal, stranger, err)
	}
}

// kindOf names a key without the parts that differ in each run.
func kindOf(key string) string {
	if parts := strings.Split(key, "/"); len(parts) == 4 {
		return "chunk " + parts[3]
	}
	return "record"
}

// A history is a store that remembers what it has contained.
type history struct {
	store.Store
	mu     sync.Mutex
	values map[string][][]byte
	pushed []pushedJob
}

type pushedJob struct {
	queue string
	data  []byte
}

func (h *history) add(key string, value []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.values[key] = append(h.values[key], bytes.Clone(value))
}

// keys returns the keys with a prefix that exist now.
func (h *history) keys(prefix string) (keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// all returns the values that a key has had.
func (h *history) all(key string) [][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.values[key])
}

func (h *history) jobs() []pushedJob {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.pushed)
}

func (h *history) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	revision, err := h.Store.Create(ctx, key, value, ttl)
	if err == nil {
		h.add(key, value)
	}
	return revision, err
}

func (h *history) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	next, err := h.Store.Update(ctx, key, value, revision, ttl)
	if err == nil {
		h.add(key, value)
	}
	return next, err
}

func (h *history) Delete(ctx context.Context, key string, revision uint64) error {
	err := h.Store.Delete(ctx, key, revision)
	if err == nil {
		h.mu.Lock()
		delete(h.values, key)
		h.mu.Unlock()
	}
	return err
}

func (h *history) Push(ctx context.Context, queue, id string, data []byte) error {
	h.mu.Lock()
	h.pushed = append(h.pushed, pushedJob{queue, bytes.Clone(data)})
	h.mu.Unlock()
	return h.Store.Push(ctx, queue, id, data)
}
