package interop

import (
	"context"
	"testing"
)

// breaks are checks of what becomes of a connection that breaks.
var breaks = []check{
	{name: "a call outlives its stream", from: "2025-11-25", until: modern, run: checkNap},
	{name: "the host restarts", run: checkRestart},
}

// checkNap: the host hangs up in the middle of a call, and the guest comes back for
// the result.
func checkNap(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	said := make(chan string, 1)
	go func() {
		answer, err := s.guest.call(ctx, "nap", nil)
		if err != nil {
			said <- err.Error()
			return
		}
		said <- answer.content[0]
	}()
	receive(ctx, t, s.door.resumed, "the guest to come back")
	select {
	case s.host.bell.awake <- struct{}{}:
	case <-ctx.Done():
		t.Fatal("nobody naps")
	}
	if got := receive(ctx, t, said, "the result"); got != "rested" {
		t.Errorf("it says %q", got)
	}
}

// checkRestart: there are no sessions in the modern era, so that guests do not
// notice. In the legacy one ours opens a new session; the other SDKs leave that to
// their users.
func checkRestart(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	s.said(ctx, t, "echo", map[string]any{"text": "before"})
	if p.transport != "streamable" {
		receive(ctx, t, s.door.listening, "the guest to listen")
	}
	s.restart(t)
	if p.version < modern && p.guest != "dovetail" {
		if answer, err := s.guest.call(ctx, "echo", map[string]any{"text": "after"}); err == nil {
			t.Errorf("it says %q in a session that is gone", answer.content)
		}
		return
	}
	if p.transport != "streamable" { // what is sent before may be lost with the stream
		receive(ctx, t, s.door.listening, "the guest to listen again")
	}
	if got := s.said(ctx, t, "echo", map[string]any{"text": "after"}); got != "after" {
		t.Errorf("it says %q", got)
	}
}
