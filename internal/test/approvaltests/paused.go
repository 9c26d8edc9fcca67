package approvaltests

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A call that another replica has continued makes room for a caller that has a paused call of its own.
func (s Suite) TestRoomOfOtherCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := questioningTool(1)
		replicas := s.newReplicas(t, 2, f, Says(yes, nil))
		replicas[0].options.MaxOpen = 2
		replicas[0].invoke = s.gated(f, Says(yes, nil), replicas[0].options)

		own := NewExchange("own") // of anna, and stays paused
		WantAsks(t, own, replicas[0].call(t, own), `{"action":"accept"}`)

		other := NewExchange("other") // of ben: asked here, ended at the other replica
		_, err := replicas[0].invoke(t.Context(), NewCall(t, "ben", "write", `{"path":"/tmp/a"}`, other))
		WantAsks(t, other, err, `{"action":"accept"}`)
		if _, err := replicas[1].invoke(t.Context(), NewCall(t, "ben", "write", `{"path":"/tmp/a"}`, other)); err != nil {
			t.Fatal(err)
		}
		next := NewExchange("next") // one of two places is free
		WantAsks(t, next, replicas[0].call(t, next), `{"action":"accept"}`)
	})
}

// A call expires while its pause is written to the journal, which then fails. It is counted once, so that the limit of its
// caller stays as it is.
func (s Suite) TestPausedCallIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var invoke func(e *Exchange) error
		second := NewExchange("second")
		d := &hookJournal{}
		d.hook = func(e approval.Entry) error {
			if e.Event != "paused" {
				return nil
			}
			d.hook = nil
			sleep(5 * time.Minute) // the disk is slow, and then fails
			WantAsks(t, second, invoke(second), `{"action":"accept"}`)
			return errors.New("the disk is full")
		}
		o := Options(nil)
		o.Journal, o.MaxPerCaller = d, 1
		run := s.gated(questioningTool(1), Says(yes, nil), o)
		invoke = func(e *Exchange) error {
			_, err := run(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
			return err
		}
		WantCode(t, invoke(NewExchange("first")), approval.Failed)
		WantCode(t, invoke(NewExchange("third")), approval.TooMany) // the second is open
	})
}

// Callers without a principal have a limit for each network.
func (s Suite) TestOpenLimitOfNetworks(t *testing.T) {
	run := s.gated(questioningTool(1), Says(yes, nil), Options(nil))
	call := func(network, id string) error {
		call := NewCall(t, "", "write", `{}`, NewExchange(id))
		call.Caller.Network = network
		_, err := run(t.Context(), call)
		return err
	}
	for i := range maxPerCaller {
		if _, asks := mcp.AsInputRequired(call("192.0.2.1", fmt.Sprint("call-", i))); !asks {
			t.Fatalf("call %d was refused", i)
		}
	}
	WantCode(t, call("192.0.2.1", "next"), approval.TooMany)
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
func (s Suite) TestNoRoomWhileStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		slow := &slowStore{Store: shared}
		o := Options(nil)
		o.Store, o.Expiry = slow, time.Hour
		run := s.gated(questioningTool(1), Says(yes, nil), o)
		for i := range maxPerCaller {
			e := NewExchange(fmt.Sprint("call-", i))
			_, err := run(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
			WantAsks(t, e, err, `{"action":"accept"}`)
		}
		slow.delay, slow.down = 5*time.Second, true // as redis.Options.Timeout
		begun := time.Now()
		_, err = run(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, NewExchange("next")))
		WantCode(t, err, approval.TooMany)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the call is refused after %v", took)
		}
	})
}

// A caller that answers when the request expires gets Expired, also if the store is slow then.
func (s Suite) TestExpiresWhileRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		slow := &slowStore{Store: shared}
		o := Options(nil)
		o.Store = slow
		run := s.gated(questioningTool(1), Says(yes, nil), o)
		e := NewExchange("call")
		_, err = run(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
		WantAsks(t, e, err, `{"action":"accept"}`)
		sleep(5*time.Minute - time.Second)
		slow.delay = 2 * time.Second
		_, err = run(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, e))
		WantCode(t, err, approval.Expired)
	})
}
