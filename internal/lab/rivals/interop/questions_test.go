package interop

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// elicitation is the first version with elicitation.
const elicitation = "2025-06-18"

// questions are checks of questions during a call.
var questions = []check{
	{name: "a person accepts", from: elicitation, run: checkAccept},
	{name: "a person declines", from: elicitation, run: checkDecline},
	{name: "one question after the other", from: elicitation, run: checkSurvey},
	{name: "many are asked at once", from: elicitation, run: checkManyAsked},
	{name: "a model is asked", run: checkModel},
	{name: "roots are asked for", run: checkRoots},
}

// customer fills in both forms.
func customer(message string) (string, map[string]any) {
	if message == "How many loaves?" {
		return "accept", map[string]any{"loaves": 4}
	}
	return "accept", map[string]any{"color": "green"}
}

func checkAccept(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, func(s *setup) { s.person = customer })
	if got := s.callText(ctx, t, "order", nil); got != "4 loaves" {
		t.Errorf("got %q", got)
	}
	s.wantAsked(t, "person How many loaves?")
}

func checkDecline(ctx context.Context, t *testing.T, p pair) {
	for _, action := range []string{"decline", "cancel"} {
		s := open(ctx, t, p, func(s *setup) {
			s.person = func(string) (string, map[string]any) { return action, nil }
		})
		if got := s.callText(ctx, t, "order", nil); got != action {
			t.Errorf("got %q, want %q", got, action)
		}
		s.wantAsked(t, "person How many loaves?")
	}
}

func checkSurvey(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, func(s *setup) { s.person = customer })
	if got := s.callText(ctx, t, "survey", nil); got != "4 green" {
		t.Errorf("got %q", got)
	}
	s.wantAsked(t, "person How many loaves?", "person Which colour?")
}

func checkManyAsked(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, func(s *setup) { s.person = customer })
	const calls = 20
	said := make(chan string, calls)
	for range calls {
		go func() {
			answer, err := s.client.call(ctx, "order", nil)
			if err != nil {
				said <- err.Error()
				return
			}
			said <- answer.content[0]
		}()
	}
	for range calls {
		if got := receive(ctx, t, said, "an order"); got != "4 loaves" {
			t.Errorf("got %q", got)
		}
	}
}

func checkModel(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	if got := s.callText(ctx, t, "ask", nil); got != model {
		t.Errorf("got %q, want %q", got, model)
	}
	s.wantAsked(t, "model What is six by nine?")
}

func checkRoots(ctx context.Context, t *testing.T, p pair) {
	s := open(ctx, t, p, nil)
	if got := s.callText(ctx, t, "roots", nil); got != root {
		t.Errorf("got %q, want %q", got, root)
	}
}

// wantAsked checks the questions that the client received.
func (s *fixture) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.journal.with("asked")); diff != "" {
		t.Errorf("asked, -want +got:\n%s", diff)
	}
}
