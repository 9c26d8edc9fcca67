package interop

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// changes are checks of notifications about changes.
var changes = []check{
	{name: "a tool comes and goes", run: checkToggle},
	{name: "a resource changes", run: checkTurn},
}

func checkToggle(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	s.watch(ctx, t)
	for _, present := range []bool{true, false} {
		if err := s.server.toggle(); err != nil {
			t.Fatal(err)
		}
		s.awaitChange(ctx, t, "tools")
		tools, err := s.client.list(ctx, "tools")
		if err != nil || slices.Contains(tools, "extra") != present {
			t.Errorf("the tools are %q, %v; want extra: %v", tools, err, present)
		}
	}
}

func checkTurn(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	s.watch(ctx, t)
	if err := s.server.turn(); err != nil {
		t.Fatal(err)
	}
	s.awaitChange(ctx, t, clockURI)
	got, err := s.client.read(ctx, clockURI)
	if want := []string{"test://clock text/plain turn 1"}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// watch subscribes the client and waits until it listens.
func (s *fixture) watch(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := s.client.watch(ctx, clockURI); err != nil {
		t.Fatalf("watch: %v", err)
	}
	if s.transport == "streamable" && s.version < modern {
		receive(ctx, t, s.proxy.listening, "the client to listen")
	}
}

// awaitChange waits for the next change that the client receives.
func (s *fixture) awaitChange(ctx context.Context, t *testing.T, change string) {
	t.Helper()
	var again <-chan time.Time
	if s.server.again != nil {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		again = ticker.C
	}
	for {
		changes, grown := s.journal.look("changed")
		if len(changes) > s.changes {
			s.changes = len(changes)
			if got := changes[len(changes)-1]; got != change {
				t.Fatalf("got a change of %q, want %q", got, change)
			}
			return
		}
		select {
		case <-grown:
		case <-again:
			s.server.again(change)
		case <-ctx.Done():
			t.Fatalf("got no change of %q: %q", change, s.journal.all())
		}
	}
}

// breaks are checks of broken connections.
var breaks = []check{
	{name: "a call outlives its stream", from: "2025-11-25", until: modern, run: checkDetach},
	{name: "the server restarts", run: checkRestart},
}

// checkDetach: the server disconnects the client during a call, and the client resumes the
// stream.
func checkDetach(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	said := make(chan string, 1)
	go func() {
		answer, err := s.client.call(ctx, "nap", nil)
		if err != nil {
			said <- err.Error()
			return
		}
		said <- answer.content[0]
	}()
	receive(ctx, t, s.proxy.resumed, "the client to resume")
	select {
	case s.server.events.awake <- struct{}{}:
	case <-ctx.Done():
		t.Fatal("the tool nap does not wait")
	}
	if got := receive(ctx, t, said, "the result"); got != "rested" {
		t.Errorf("got %q", got)
	}
}

// checkRestart: without sessions, clients do not notice a restart. With sessions, our client
// opens a new one, and the clients of other SDKs fail.
func checkRestart(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	s.callText(ctx, t, "echo", map[string]any{"text": "before"})
	if p.transport != "streamable" {
		receive(ctx, t, s.proxy.listening, "the client to listen")
	}
	s.restart(t)
	if p.version < modern && p.client != "dovetail" {
		if answer, err := s.client.call(ctx, "echo", map[string]any{"text": "after"}); err == nil {
			t.Errorf("got %q in a lost session", answer.content)
		}
		return
	}
	if p.transport != "streamable" { // messages may be lost until the stream is open
		receive(ctx, t, s.proxy.listening, "the client to listen again")
	}
	if got := s.callText(ctx, t, "echo", map[string]any{"text": "after"}); got != "after" {
		t.Errorf("got %q", got)
	}
}
