package toolserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// newReplica serves a tool server with a channel on a store.
func newReplica(t *testing.T, shared store.Store) (*rig, *channel.Channel) {
	t.Helper()
	approvers, err := channel.New(&channel.Options{InsecureNoToken: true, Store: shared, ReconnectTimeout: time.Minute, Logger: frontendtest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { approvers.Close() })
	guard := approval.Guard(frontendtest.Compile(t, askAlways), approvers, &approval.Options{Logger: frontendtest.Quiet()})
	return newRig(t, toolserver.Options{Guards: []mcp.Guard{guard}, Approval: approvers}), approvers
}

// An approval that is pending at one replica is decided at another, also after the restart of both.
func TestReplicas(t *testing.T) {
	shared, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	params := toolserver.ServerParams{URL: newRemote(t)}
	run := func(r *rig) <-chan error {
		return runLater(context.Background(), r.runner(t, "a", params), "echo", map[string]int{"n": 1})
	}
	asking, first := newReplica(t, shared)
	deciding, second := newReplica(t, shared)
	person := deciding.approve(t)
	for range 10 {
		done := run(asking)
		person.decide(t, person.next(t), "true")
		if err := waittest.Receive(t, "the end of the call", done); err != nil {
			t.Fatal(err)
		}
		done = run(asking)
		person.decide(t, person.next(t), "false")
		wantCode(t, waittest.Receive(t, "the end of the call", done), "rejected")
	}

	left := run(asking)
	pending := person.next(t)
	for _, c := range []*channel.Channel{first, second} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := waittest.Receive(t, "the end of the call", left); err == nil {
		t.Fatal("the call has not ended with its channel")
	}
	for _, r := range []*rig{asking, deciding} {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	asking, _ = newReplica(t, shared)
	deciding, _ = newReplica(t, shared)
	person = deciding.approve(t)
	again := person.next(t)
	if again.ID != pending.ID {
		t.Errorf("the person is asked %+v, want %+v", again, pending)
	}
	done := run(asking)
	person.decide(t, again, "true")
	if err := waittest.Receive(t, "the end of the call", done); err != nil {
		t.Errorf("after the restart: %v", err)
	}
	done = run(asking) // the approval was for one call
	person.decide(t, person.next(t), "false")
	wantCode(t, waittest.Receive(t, "the end of the call", done), "rejected")
}
