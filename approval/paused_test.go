package approval_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A call that another replica has continued makes room for a caller that has a paused call of its own.
func TestRoomOfOtherCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := questioningTool(1)
		replicas := newReplicas(t, 2, f, says(yes, nil))
		replicas[0].options.MaxOpen = 2
		replicas[0].invoke = gated(f, says(yes, nil), replicas[0].options)

		own := newExchange("own") // of anna, and stays paused
		wantAsks(t, own, replicas[0].call(t, own), `{"action":"accept"}`)

		other := newExchange("other") // of ben: asked here, ended at the other replica
		_, err := replicas[0].invoke(t.Context(), newCall(t, "ben", "write", `{"path":"/tmp/a"}`, other))
		wantAsks(t, other, err, `{"action":"accept"}`)
		if _, err := replicas[1].invoke(t.Context(), newCall(t, "ben", "write", `{"path":"/tmp/a"}`, other)); err != nil {
			t.Fatal(err)
		}
		next := newExchange("next") // one of two places is free
		wantAsks(t, next, replicas[0].call(t, next), `{"action":"accept"}`)
	})
}

// A call expires while its pause is written to the journal, which then fails. It is counted once, so that the limit of its
// caller stays as it is.
func TestPausedCallIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var invoke func(e *exchange) error
		second := newExchange("second")
		d := &hookJournal{}
		d.hook = func(e approval.Entry) error {
			if e.Event != "paused" {
				return nil
			}
			d.hook = nil
			sleep(5 * time.Minute) // the disk is slow, and then fails
			wantAsks(t, second, invoke(second), `{"action":"accept"}`)
			return errors.New("the disk is full")
		}
		o := options(nil)
		o.Journal, o.MaxPerCaller = d, 1
		run := gated(questioningTool(1), says(yes, nil), o)
		invoke = func(e *exchange) error {
			_, err := run(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
			return err
		}
		wantCode(t, invoke(newExchange("first")), approval.Failed)
		wantCode(t, invoke(newExchange("third")), approval.TooMany) // the second is open
	})
}

// A call that waits for its caller does not keep its arguments, which the next run brings along.
func TestPausedCallKeepsNoArguments(t *testing.T) {
	if racetest.Enabled {
		t.Skip("the race detector allocates")
	}
	run := guarded(approval.Guard(asking(), says(yes, nil), options(nil)), func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
		_, err := call.Input("question", mcp.InputRequest{Method: mcp.MethodElicit})
		return nil, err
	})
	arguments := `{"text":"` + strings.Repeat("x", 100<<10) + `"}`
	inUse := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := inUse()
	for i := range maxPerCaller {
		e := newExchange(fmt.Sprint("call-", i))
		_, err := run(t.Context(), newCall(t, "anna", "write", arguments, e))
		wantAsks(t, e, err, `{"action":"accept"}`)
	}
	if kept := (inUse() - before) / maxPerCaller; kept > 16<<10 {
		t.Errorf("a call that waits keeps %d bytes", kept)
	}
	_, err := run(t.Context(), newCall(t, "anna", "write", arguments, newExchange("next"))) // the calls still wait
	wantCode(t, err, approval.TooMany)
}

// Callers without a principal have a limit for each network.
func TestOpenLimitOfNetworks(t *testing.T) {
	run := gated(questioningTool(1), says(yes, nil), options(nil))
	call := func(network, id string) error {
		call := newCall(t, "", "write", `{}`, newExchange(id))
		call.Caller.Network = network
		_, err := run(t.Context(), call)
		return err
	}
	for i := range maxPerCaller {
		if _, asks := mcp.AsInputRequired(call("192.0.2.1", fmt.Sprint("call-", i))); !asks {
			t.Fatalf("call %d was refused", i)
		}
	}
	wantCode(t, call("192.0.2.1", "next"), approval.TooMany)
	if err := call("192.0.2.2", "other"); err == nil {
		t.Error("the call was made without an answer")
	} else if _, asks := mcp.AsInputRequired(err); !asks {
		t.Errorf("a call of another network: %v", err)
	}
}

// A hookJournal calls hook before each entry, without a lock.
type hookJournal struct{ hook func(approval.Entry) error }

func (d *hookJournal) Append(e approval.Entry) error {
	if d.hook != nil {
		return d.hook(e)
	}
	return nil
}

// A slowStore answers Get after some time, with an error while it is down.
type slowStore struct {
	store.Store
	delay time.Duration
	down  bool
}

func (s *slowStore) Get(ctx context.Context, key string) (store.Item, error) {
	sleep(s.delay)
	if s.down {
		return store.Item{}, errDown
	}
	return s.Store.Get(ctx, key)
}

// A call that finds no room is refused within the time limit of one operation if the store cannot be reached.
func TestNoRoomWhileStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		slow := &slowStore{Store: shared}
		o := options(nil)
		o.Store, o.Expiry = slow, time.Hour
		run := gated(questioningTool(1), says(yes, nil), o)
		for i := range maxPerCaller {
			e := newExchange(fmt.Sprint("call-", i))
			_, err := run(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
			wantAsks(t, e, err, `{"action":"accept"}`)
		}
		slow.delay, slow.down = 5*time.Second, true // as redis.Options.Timeout
		begun := time.Now()
		_, err = run(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/a"}`, newExchange("next")))
		wantCode(t, err, approval.TooMany)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the call is refused after %v", took)
		}
	})
}

// A caller that answers when the request expires gets Expired, also if the store is slow then.
func TestExpiresWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		slow := &slowStore{Store: shared}
		o := options(nil)
		o.Store = slow
		run := gated(questioningTool(1), says(yes, nil), o)
		e := newExchange("call")
		_, err = run(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
		wantAsks(t, e, err, `{"action":"accept"}`)
		sleep(5*time.Minute - time.Second)
		slow.delay = 2 * time.Second
		_, err = run(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
		wantCode(t, err, approval.Expired)
	})
}
