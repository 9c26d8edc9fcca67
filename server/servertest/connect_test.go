package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/transport"
)

// Each mode carries calls, questions, progress and the principal, in virtual time.
func TestEachMode(t *testing.T) {
	var modes []string
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		modes = append(modes, mode.String())
		synctest.Test(t, func(t *testing.T) {
			session := servertest.Connect(t, newServer(nil), &servertest.Options{
				Mode:      mode,
				Principal: "ann",
				Answers: map[string]any{
					"How many guests?": 4,
					"Which name?":      map[string]string{"first": "Ada", "last": "Lovelace"},
					"Hello in French?": "Bonjour",
				},
			})
			for tool, want := range map[string]string{
				"book":      "4 for Ada Lovelace",
				"translate": "Bonjour",
				"whoami":    "ann",
				"steps":     "done",
			} {
				if got, err := client.CallAs[string](t.Context(), session, tool, nil, nil); err != nil || got != want {
					t.Errorf("%s: got %q, %v, want %q", tool, got, err, want)
				}
			}
			progress := 0
			if _, err := session.CallTool(t.Context(), "steps", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { progress++ }}); err != nil || progress != 1 {
				t.Errorf("%d progress notifications, %v", progress, err)
			}
		})
	})
	want := []string{"pipe/modern", "pipe/legacy", "stdio/modern", "stdio/legacy", "streamable/modern", "streamable/legacy", "sse/legacy", "ws/modern", "ws/legacy"}
	if !slices.Equal(modes, want) {
		t.Errorf("the modes are %q, want %q", modes, want)
	}
}

// A timeout of an hour passes without waiting, in each mode.
func TestVirtualTime(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		synctest.Test(t, func(t *testing.T) {
			session := servertest.Connect(t, newServer(nil), &servertest.Options{Mode: mode})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
			defer cancel()
			began := time.Now()
			result, err := session.CallTool(ctx, "export", nil, nil)
			if err != nil || !result.IsError {
				t.Fatalf("got %+v, %v", result, err)
			}
			if waited := time.Since(began); waited != time.Hour {
				t.Errorf("the call took %v", waited)
			}
		})
	})
}

func TestScopes(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		for name, test := range map[string]struct {
			scopes []string
			want   bool
		}{
			"unchecked": {nil, true},
			"none":      {[]string{}, false},
			"other":     {[]string{"mail"}, false},
			"right":     {[]string{"mail", "profile"}, true},
		} {
			session := servertest.Connect(t, newServer(nil), &servertest.Options{Mode: mode, Principal: "ann", Scopes: test.scopes})
			_, called := client.CallAs[string](t.Context(), session, "whoami", nil, nil)
			_, read := session.ReadResource(t.Context(), "mem://profile", nil)
			_, subscribed := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"mem://profile"}})
			for _, err := range []error{called, read, subscribed} {
				if test.want && err != nil || !test.want && (err == nil || !strings.Contains(err.Error(), "the token lacks a scope: the call needs profile")) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := session.CallTool(t.Context(), "steps", nil, nil); err != nil {
				t.Errorf("%s: a tool without scopes: %v", name, err)
			}
		}
	})
}

// Principals of sessions with one server differ.
func TestSharedServer(t *testing.T) {
	s := newServer(nil)
	for _, name := range []string{"ann", "bob"} {
		session := servertest.Connect(t, s, &servertest.Options{Principal: name})
		if got, err := client.CallAs[string](t.Context(), session, "whoami", nil, nil); err != nil || got != name {
			t.Errorf("got %q, %v, want %q", got, err, name)
		}
	}
}

// A broken server cannot be shut down.
type broken struct{ *server.Server }

func (b broken) Shutdown(ctx context.Context) error {
	return errors.Join(b.Server.Shutdown(ctx), errors.New("the database is locked"))
}

func TestConnectFails(t *testing.T) {
	for name, test := range map[string]struct {
		server transport.Server
		opts   servertest.Options
		want   string
	}{
		"unknown transport":         {newServer(nil), servertest.Options{Mode: servertest.Mode{Transport: "carrier pigeon"}}, `unknown transport "carrier pigeon"`},
		"shutdown":                  {broken{newServer(nil)}, servertest.Options{}, "the database is locked"},
		"answers without questions": {newServer(nil), servertest.Options{NoQuestions: true, Answers: map[string]any{"a": 1}}, "NoQuestions excludes Answers"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failing(t, func(tb *fakeTB) { servertest.Connect(tb, test.server, &test.opts) })
			wantFailure(t, got, test.want)
		})
	}
}

// A tool that does not end fails the test, which ends nevertheless.
func TestStuckTool(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			s := newServer(nil)
			server.AddTool(s, server.Tool{Name: "stuck"}, func(context.Context, *server.Request, none) (string, error) {
				<-release
				return "", nil
			})
			got := failing(t, func(tb *fakeTB) {
				session := servertest.Connect(tb, s, &servertest.Options{Mode: mode})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := session.CallTool(ctx, "stuck", nil, nil); err == nil {
					t.Error("the call has ended")
				}
			})
			wantFailure(t, got, "servertest: shut down the server: context deadline exceeded")
			close(release)
		})
	})
}

// A question without an answer fails the test and names the question.
func TestUnansweredQuestions(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		for tool, test := range map[string]struct {
			answers map[string]any
			want    string
		}{
			"book":      {map[string]any{"How many guests?": 2}, `no answer to "Which name?"`},
			"translate": {nil, `no answer of the model to "Hello in French?"`},
		} {
			var err error
			got := failing(t, func(tb *fakeTB) {
				session := servertest.Connect(tb, newServer(nil), &servertest.Options{Mode: mode, Answers: test.answers})
				_, err = client.CallAs[string](t.Context(), session, tool, nil, nil)
			})
			wantFailure(t, got, test.want)
			if err == nil {
				t.Errorf("%s succeeded without an answer", tool)
			}
		}
	})
}

func TestUnfitAnswers(t *testing.T) {
	for tool, test := range map[string]struct {
		answers map[string]any
		want    string
	}{
		"book":      {map[string]any{"How many guests?": 2, "Which name?": "Ada"}, "the form has 2 fields"},
		"translate": {map[string]any{"Hello in French?": 7}, "is a int, expected a string"},
	} {
		got := failing(t, func(tb *fakeTB) {
			session := servertest.Connect(tb, newServer(nil), &servertest.Options{Answers: test.answers})
			_, _ = client.CallAs[string](t.Context(), session, tool, nil, nil)
		})
		wantFailure(t, got, test.want)
	}
}

func TestAnswersAreDecided(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		session := servertest.Connect(t, newServer(nil), &servertest.Options{
			Mode:    mode,
			Answers: map[string]any{"How many guests?": mcp.ElicitDecline},
			Client: client.Options{Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: mcp.SamplingContent{&mcp.TextContent{Text: "Salut"}}}, nil
			}},
		})
		if result, err := session.CallTool(t.Context(), "book", nil, nil); err != nil || !result.IsError {
			t.Errorf("a declined question: %+v, %v", result, err)
		}
		if got, err := client.CallAs[string](t.Context(), session, "translate", nil, nil); err != nil || got != "Salut" {
			t.Errorf("the handler of the client: %q, %v", got, err)
		}
	})
}

// Results are sent as they are, and a function is called for each question.
func TestAnswersOfFunctions(t *testing.T) {
	guests := 1
	said := &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: mcp.SamplingContent{&mcp.TextContent{Text: "Salut"}}}
	session := servertest.Connect(t, newServer(nil), &servertest.Options{Answers: map[string]any{
		"How many guests?": func() any { guests++; return guests },
		"Which name?":      &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"first":"A","last":"B"}`)},
		"Hello in French?": func() any { return said },
	}})
	for _, want := range []string{"2 for A B", "3 for A B"} {
		if got, err := client.CallAs[string](t.Context(), session, "book", nil, nil); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if got, err := client.CallAs[string](t.Context(), session, "translate", nil, nil); err != nil || got != "Salut" {
		t.Errorf("got %q, %v", got, err)
	}
}

// A client that cannot be asked is refused, which is no failure of the test.
func TestNoQuestions(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		session := servertest.Connect(t, newServer(nil), &servertest.Options{Mode: mode, NoQuestions: true})
		if result, err := session.CallTool(t.Context(), "book", nil, nil); err == nil && !result.IsError {
			t.Errorf("the tool asked a client that cannot be asked: %+v", result)
		}
	})
}

// A warning fails the test, with the attributes in its log. A message does not, and neither does a
// record after the end of the test.
func TestLoggerLevels(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelWarn: "failed", slog.LevelError: "failed"} {
		var logger *slog.Logger
		var test *fakeTB
		got := failing(t, func(tb *fakeTB) {
			test, logger = tb, servertest.Logger(tb)
			logger.With("tool", "book").Log(t.Context(), level, "a question was not asked")
		})
		logger.Log(t.Context(), level, "too late")
		if got != want || len(test.failures) > 1 {
			t.Errorf("%v: the failures are %q, want %q", level, test.failures, want)
		}
		if want := fmt.Sprintf("level=%v msg=\"a question was not asked\" tool=book\n", level); !slices.Equal(test.logged, []string{want}) {
			t.Errorf("%v: logged %q, want %q", level, test.logged, want)
		}
	}
}

// A tool that does not return the error of its question fails the test, whatever the server's logger.
func TestUnaskedQuestion(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		var logged string
		got := failing(t, func(tb *fakeTB) {
			s := newServer(nil)
			server.AddTool(s, server.Tool{Name: "careless"}, func(_ context.Context, r *server.Request, _ none) (string, error) {
				if sure, err := server.Elicit[bool](r, "sure", "Sure?"); err != nil || !sure {
					return "not sure", nil
				}
				return "sure", nil
			})
			session := servertest.Connect(tb, s, &servertest.Options{Mode: mode, Answers: map[string]any{"Sure?": true}})
			_, _ = session.CallTool(t.Context(), "careless", nil, nil)
			logged = strings.Join(tb.logged, "")
		})
		if got != "failed" || !strings.Contains(logged, "a question was not asked") {
			t.Errorf("the failures are %q, logged %q", got, logged)
		}
		if !strings.Contains(logged, `tool "careless": `) || !strings.Contains(logged, `["sure"]`) {
			t.Errorf("the log does not name the tool and the question: %q", logged)
		}
	})
}

// A transcript is checked for such questions too.
func TestUnaskedQuestionOfTranscript(t *testing.T) {
	got := failing(t, func(tb *fakeTB) {
		s := newServer(nil)
		careless, err := server.NewTool(server.Tool{Name: "upper"}, func(_ context.Context, r *server.Request, in struct {
			Text string `json:"text"`
		}) (string, error) {
			_, _ = server.Elicit[bool](r, "sure", "Sure?")
			return strings.ToUpper(in.Text), nil
		})
		if err == nil {
			err = s.Replace(careless)
		}
		if err != nil {
			t.Error(err)
			return
		}
		servertest.CheckTranscript(tb, s, "testdata/upper.jsonl", nil)
	})
	wantFailure(t, got, "failed")
}

// Errors of the server fail the test; refusals do not.
func TestLogger(t *testing.T) {
	for name, test := range map[string]struct {
		tool string
		want string
	}{
		"panic":  {"panic", "failed"},
		"normal": {"steps", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var logged string
			got := failing(t, func(tb *fakeTB) {
				s := newServer(&server.Options{Logger: servertest.Logger(tb).With("server", "a").WithGroup("g")})
				session := servertest.Connect(tb, s, nil)
				_, _ = session.CallTool(t.Context(), test.tool, nil, nil)
				logged = strings.Join(tb.logged, "")
			})
			if got != test.want {
				t.Errorf("the failures are %q, want %q", got, test.want)
			}
			if test.want != "" && (!strings.Contains(logged, "out of ink") || strings.Contains(logged, "time=")) {
				t.Errorf("logged %q", logged)
			}
		})
	}
}
