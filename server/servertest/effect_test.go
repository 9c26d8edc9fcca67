package servertest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// An effect before a question fails the test, unless it happens once.
func TestEffect(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		const twice = "failed\nfailed" // once in each call
		for name, test := range map[string]struct {
			blocking bool
			pay      func(ctx context.Context, r *server.Request, ask func() error) error
			want     string
		}{
			"before the question": {false, func(ctx context.Context, _ *server.Request, ask func() error) error {
				servertest.Effect(ctx, "pay")
				return ask()
			}, twice},
			"between two questions": {false, func(ctx context.Context, r *server.Request, ask func() error) error {
				if _, err := server.Elicit[bool](r, "first", "Sure?"); err != nil {
					return err
				}
				servertest.Effect(ctx, "pay")
				return ask()
			}, twice},
			"after the question": {false, func(ctx context.Context, _ *server.Request, ask func() error) error {
				if err := ask(); err != nil {
					return err
				}
				servertest.Effect(ctx, "pay")
				servertest.Effect(ctx, "pay")
				return nil
			}, ""},
			"once": {false, func(ctx context.Context, r *server.Request, ask func() error) error {
				_, err := server.Once(r, "pay", func() (int, error) {
					servertest.Effect(ctx, "pay")
					return 1, nil
				})
				if err != nil {
					return err
				}
				return ask()
			}, ""},
			"blocking": {true, func(ctx context.Context, _ *server.Request, ask func() error) error {
				servertest.Effect(ctx, "pay")
				return ask()
			}, ""},
			"other names": {false, func(ctx context.Context, _ *server.Request, ask func() error) error {
				if err := ask(); err != nil {
					servertest.Effect(ctx, "reserve")
					return err
				}
				servertest.Effect(ctx, "pay")
				return nil
			}, ""},
		} {
			var logged string
			got := failing(t, func(tb *fakeTB) {
				s := newServer(nil)
				server.AddTool(s, server.Tool{Name: "buy", Blocking: test.blocking}, func(ctx context.Context, r *server.Request, _ none) (string, error) {
					return "bought", test.pay(ctx, r, func() error {
						_, err := server.Elicit[bool](r, "sure", "Sure?")
						return err
					})
				})
				session := servertest.Connect(tb, s, &servertest.Options{Mode: mode, Answers: map[string]any{"Sure?": true}})
				for range 2 { // calls, each with the effect
					if result, err := session.CallTool(t.Context(), "buy", nil, nil); err != nil || result.IsError {
						t.Errorf("%s: %v, %v", name, result, err)
					}
				}
				logged = strings.Join(tb.logged, "")
			})
			if got != test.want || (got != "") != strings.Contains(logged, `servertest: the tool "buy" has repeated the effect "pay"`) {
				t.Errorf("%s: the failures are %q, want %q, logged %q", name, got, test.want, logged)
			}
		}
	})
}

// Outside of a test with Connect, an effect is nothing.
func TestEffectElsewhere(t *testing.T) {
	servertest.Effect(t.Context(), "pay")
}
