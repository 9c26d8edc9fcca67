package server_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func accepting(era client.Era) *client.Options {
	return &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"sure":true}`)}, nil
	}}
}

// TestOnce: what is kept is kept through the rounds of one call, not longer.
func TestOnce(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var runs, made, failed atomic.Int64
		s := newServer(nil)
		type receipt struct {
			Number int64  `json:"number"`
			Note   string `json:"note"`
		}
		server.AddTool(s, server.Tool{Name: "order"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			runs.Add(1)
			_, err := server.Once(r, "fails", func() (int, error) { return 0, errors.New(fmt.Sprint("try ", failed.Add(1))) })
			if err == nil {
				return "", errors.New("an error was kept")
			}
			first, err := server.Once(r, "make", func() (receipt, error) { return receipt{9007199254740992 + made.Add(1), "<b>"}, nil })
			if err != nil {
				return "", err
			}
			if _, err := server.Elicit[sure](r, "sure", "Sure?"); err != nil {
				return "", err
			}
			if _, err := server.Elicit[sure](r, "really", "Really?"); err != nil {
				return "", err
			}
			again, err := server.Once(r, "make", func() (receipt, error) { return receipt{}, errors.New("made twice") })
			return fmt.Sprint(first == again, " ", first.Number, first.Note), err
		})
		session := connectWith(t, s, accepting(era))
		for i, want := range []string{"true 9007199254740993<b>", "true 9007199254740994<b>"} {
			if got := texts(call(t, session, "order", `{}`)); got != want {
				t.Errorf("the tool says %q, want %q", got, want)
			}
			if n := int64(i + 1); made.Load() != n || runs.Load() != 3*n || failed.Load() != 3*n {
				t.Errorf("after call %d: made %d, run %d and failed %d times", n, made.Load(), runs.Load(), failed.Load())
			}
		}
	})
}

// TestOnceKeys: keys of questions and of what is kept do not meet.
func TestOnceKeys(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTool(s, server.Tool{Name: "both"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			kept, err := server.Once(r, "x", func() (string, error) { return "kept", nil })
			if err != nil {
				return "", err
			}
			answer, err := server.Elicit[sure](r, "x", "Sure?")
			return fmt.Sprint(kept, answer.Sure), err
		})
		if got := texts(call(t, connectWith(t, s, accepting(era)), "both", `{}`)); got != "kepttrue" {
			t.Errorf("the tool says %q", got)
		}
	})
}

// TestDeclined: a person who does not answer is an error of its own.
func TestDeclined(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, action := range []mcp.ElicitAction{mcp.ElicitDecline, mcp.ElicitCancel} {
			s := newServer(nil)
			server.AddTool(s, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				_, err := server.Elicit[sure](r, "sure", "Sure?")
				if declined, ok := errors.AsType[*server.DeclinedError](err); ok {
					return fmt.Sprint(declined.Key, " ", declined.Action), nil
				}
				return "", err
			})
			session := connectWith(t, s, &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: action}, nil
			}})
			if got, want := texts(call(t, session, "ask", `{}`)), fmt.Sprint("sure ", action); got != want {
				t.Errorf("the tool says %q, want %q", got, want)
			}
		}
	})
}
