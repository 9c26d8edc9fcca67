package interop

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// elicitation is the first version that has it.
const elicitation = "2025-06-18"

// questions are checks of what hosts ask in the middle of a call.
var questions = []check{
	{name: "a person accepts", from: elicitation, run: checkAccept},
	{name: "a person declines", from: elicitation, run: checkDecline},
	{name: "one question after the other", from: elicitation, run: checkSurvey},
	{name: "many are asked at once", from: elicitation, run: checkManyAsked},
	{name: "a model is asked", run: checkModel},
	{name: "roots are asked for", run: checkRoots},
}

// customer answers both forms.
func customer(message string) (string, map[string]any) {
	if message == "How many loaves?" {
		return "accept", map[string]any{"loaves": 4}
	}
	return "accept", map[string]any{"color": "green"}
}

func checkAccept(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, func(s *stay) { s.person = customer })
	if got := s.said(ctx, t, "order", nil); got != "4 loaves" {
		t.Errorf("it says %q", got)
	}
	s.asked(t, "person How many loaves?")
}

func checkDecline(ctx context.Context, t *testing.T, p pair) {
	for _, action := range []string{"decline", "cancel"} {
		s := open(ctx, t, p, func(s *stay) {
			s.person = func(string) (string, map[string]any) { return action, nil }
		})
		if got := s.said(ctx, t, "order", nil); got != action {
			t.Errorf("it says %q, want %q", got, action)
		}
		s.asked(t, "person How many loaves?")
	}
}

func checkSurvey(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, func(s *stay) { s.person = customer })
	if got := s.said(ctx, t, "survey", nil); got != "4 green" {
		t.Errorf("it says %q", got)
	}
	s.asked(t, "person How many loaves?", "person Which colour?")
}

func checkManyAsked(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, func(s *stay) { s.person = customer })
	const calls = 20
	said := make(chan string, calls)
	for range calls {
		go func() {
			answer, err := s.guest.call(ctx, "order", nil)
			if err != nil {
				said <- err.Error()
				return
			}
			said <- answer.content[0]
		}()
	}
	for range calls {
		if got := receive(ctx, t, said, "an order"); got != "4 loaves" {
			t.Errorf("it says %q", got)
		}
	}
}

func checkModel(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	if got := s.said(ctx, t, "ask", nil); got != model {
		t.Errorf("it says %q, want %q", got, model)
	}
	s.asked(t, "model What is six by nine?")
}

func checkRoots(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	if got := s.said(ctx, t, "roots", nil); got != root {
		t.Errorf("it says %q, want %q", got, root)
	}
}

// asked compares what the guest was asked.
func (s *scene) asked(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.journal.with("asked")); diff != "" {
		t.Errorf("asked, -want +got:\n%s", diff)
	}
}
