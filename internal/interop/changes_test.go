package interop

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// changes are checks of what hosts tell unasked.
var changes = []check{
	{name: "a tool comes and goes", run: checkToggle},
	{name: "a resource changes", run: checkTurn},
}

func checkToggle(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	s.watch(ctx, t)
	for _, there := range []bool{true, false} {
		if err := s.host.toggle(); err != nil {
			t.Fatal(err)
		}
		s.told(ctx, t, "tools")
		tools, err := s.guest.list(ctx, "tools")
		if err != nil || slices.Contains(tools, "extra") != there {
			t.Errorf("the tools are %q, %v; want extra: %v", tools, err, there)
		}
	}
}

func checkTurn(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	s.watch(ctx, t)
	if err := s.host.turn(); err != nil {
		t.Fatal(err)
	}
	s.told(ctx, t, clockURI)
	got, err := s.guest.read(ctx, clockURI)
	if want := []string{"test://clock text/plain turn 1"}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// watch makes the guest watch, and waits until it listens.
func (s *scene) watch(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := s.guest.watch(ctx, clockURI); err != nil {
		t.Fatalf("watch: %v", err)
	}
	if s.transport == "streamable" && s.version < modern {
		receive(ctx, t, s.door.listening, "the guest to listen")
	}
}

// told waits until the guest has been told of one more change.
func (s *scene) told(ctx context.Context, t *testing.T, change string) {
	t.Helper()
	var again <-chan time.Time
	if s.host.again != nil {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		again = ticker.C
	}
	for {
		told, grown := s.journal.look("changed")
		if len(told) > s.heard {
			s.heard = len(told)
			if got := told[len(told)-1]; got != change {
				t.Fatalf("told of %q, want %q", got, change)
			}
			return
		}
		select {
		case <-grown:
		case <-again:
			s.host.again(change)
		case <-ctx.Done():
			t.Fatalf("nobody tells of %q: %q", change, s.journal.all())
		}
	}
}
