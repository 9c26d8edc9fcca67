package approvaltests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestAnswers: only a clear yes makes the call.
func (s Suite) TestAnswers(t *testing.T) {
	boom := errors.New("secret of the operator")
	for name, test := range map[string]struct {
		approver approval.Approver
		code     approval.Code // "" if the call is made
		text     string
		end      string
	}{
		"yes":          {Says(yes, nil), "", "", "executed"},
		"no":           {Says(no, nil), approval.Rejected, "Approval request for files.write rejected: not today", "rejected"},
		"no reason":    {Says(approval.Answer{}, nil), approval.Rejected, "Approval request for files.write rejected", "rejected"},
		"an error":     {Says(yes, boom), approval.Failed, "Approval request for files.write failed: the request failed", "withdrawn"},
		"no approver":  {nil, approval.NoApprover, "Approval request for files.write failed: no approver is available", "withdrawn"},
		"a kind":       {Says(yes, fmt.Errorf("x: %w", approval.Lost)), approval.Lost, "Approval request for files.write failed: the approver disconnected", "withdrawn"},
		"words":        {Says(yes, approval.Errorf(approval.Lost, "Approval channel disconnected")), approval.Lost, "Approval request for files.write failed: Approval channel disconnected", "withdrawn"},
		"expired":      {Says(yes, approval.Expired), approval.Expired, "Approval request for files.write expired", "expired"},
		"cancelled":    {Says(yes, context.Canceled), approval.Failed, "Approval request for files.write failed: the request failed", "withdrawn"},
		"hostile text": {Says(approval.Answer{Reason: "\x1b[2J\u202e"}, nil), approval.Rejected, `Approval request for files.write rejected: \u001b[2J\u202e`, "rejected"},
		"a panic": {approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) { panic("secret") }),
			approval.Failed, "Approval request for files.write failed: the request failed", "withdrawn"},
	} {
		t.Run(name, func(t *testing.T) {
			var f Tool
			var d MemoryJournal
			_, err := s.gated(&f, test.approver, Options(&d))(t.Context(), NewCall(t, "anna", "write", `{"a":1}`, NewExchange("c")))
			if test.code == "" {
				if err != nil || !slices.Equal(f.Ran(), []string{`{"a":1}`}) {
					t.Errorf("the tool got %q, error %v", f.Ran(), err)
				}
				WantEvents(t, &d, "asked", "approved", "executing", "executed")
				return
			}
			WantCode(t, err, test.code)
			WantCalled(t, err, false)
			var wire *jsonrpc.Error
			if errors.As(err, &wire) && wire.Message != test.text {
				t.Errorf("the caller gets %q, want %q", wire.Message, test.text)
			}
			if ran := f.Ran(); len(ran) != 0 {
				t.Errorf("the tool got %q", ran)
			}
			WantEvents(t, &d, "asked", test.end)
		})
	}
}

// TestLateYes: a yes after the deadline, or after the caller disconnected, executes nothing.
func (s Suite) TestLateYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
			<-ctx.Done()
			return yes, nil
		})
		var f Tool
		var d MemoryJournal
		start := time.Now()
		_, err := s.gated(&f, slow, Options(&d))(t.Context(), NewCall(t, "", "write", `{}`, nil))
		WantCode(t, err, approval.Expired)
		if took := time.Since(start); took != 5*time.Minute {
			t.Errorf("it expired after %v", took)
		}
		WantEvents(t, &d, "asked", "expired")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d = MemoryJournal{}
		if _, err := s.gated(&f, slow, Options(&d))(ctx, NewCall(t, "", "write", `{}`, nil)); err == nil {
			t.Error("the call was made although the caller disconnected")
		}
		WantEvents(t, &d, "asked", "withdrawn")
		if ran := f.Ran(); len(ran) != 0 {
			t.Errorf("the tool got %q", ran)
		}
		o := Options(nil)
		o.Expiry = time.Nanosecond
		_, err = s.gated(&f, Says(yes, nil), o)(t.Context(), NewCall(t, "", "write", `{}`, nil))
		WantCode(t, err, approval.Expired)
	})
}

// TestCallback: the prompt can be answered once, at any time before the deadline.
func (s Suite) TestCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		prompts := make(chan *approval.Prompt, 1)
		later := approval.Callback(func(_ context.Context, p *approval.Prompt) { prompts <- p })
		for _, answer := range []struct {
			after time.Duration
			give  func(p *approval.Prompt) error
			err   error // of giving it
			code  approval.Code
		}{
			{time.Minute, func(p *approval.Prompt) error { return p.Accept(t.Context()) }, nil, ""},
			{time.Minute, func(p *approval.Prompt) error { return p.Reject(t.Context(), "no") }, nil, approval.Rejected},
			{5*time.Minute - time.Nanosecond, func(p *approval.Prompt) error { return p.Accept(t.Context()) }, nil, ""},
			{5*time.Minute + time.Nanosecond, func(p *approval.Prompt) error { return p.Accept(t.Context()) }, approval.ErrWithdrawn, approval.Expired},
		} {
			var f Tool
			done := make(chan error)
			go func() {
				_, err := s.gated(&f, later, Options(nil))(t.Context(), NewCall(t, "", "write", `{}`, nil))
				done <- err
			}()
			p := <-prompts
			timer := time.AfterFunc(answer.after, func() {
				if err := answer.give(p); !errors.Is(err, answer.err) {
					t.Errorf("after %v: the answer's error is %v, want %v", answer.after, err, answer.err)
				}
				again := approval.ErrDecided
				if answer.err != nil {
					again = answer.err
				}
				if err := p.Accept(t.Context()); !errors.Is(err, again) {
					t.Errorf("after %v: the second answer's error is %v, want %v", answer.after, err, again)
				}
			})
			err := <-done
			<-time.After(time.Hour)
			timer.Stop()
			if answer.code == "" {
				if err != nil || len(f.Ran()) != 1 {
					t.Errorf("after %v: error %v, %d executions", answer.after, err, len(f.Ran()))
				}
				continue
			}
			WantCode(t, err, answer.code)
			if len(f.Ran()) != 0 {
				t.Errorf("after %v: it was executed", answer.after)
			}
		}
	})
}

// TestMissingCallers checks that a request ends, and no longer counts, if its caller does not
// answer in time.
func (s Suite) TestMissingCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := askingTool(1)
		var d MemoryJournal
		o := Options(&d)
		o.MaxPerCaller = 1
		invoke := s.gated(f, Says(yes, nil), o)
		late := NewExchange("late")
		if _, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, late)); err == nil {
			t.Fatal("the tool did not ask")
		}
		_, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, NewExchange("b")))
		WantCode(t, err, approval.TooMany)
		<-time.After(5 * time.Minute)
		late.Answers["q0"] = json.RawMessage(`{}`)
		_, err = invoke(t.Context(), NewCall(t, "anna", "write", `{}`, late))
		WantCode(t, err, approval.Expired)
		WantEvents(t, &d, "asked", "approved", "executing", "paused")

		gone := NewExchange("gone") // its call ends between two runs
		if _, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, gone)); err == nil {
			t.Fatal("the tool did not ask")
		}
		for _, fn := range gone.Done {
			fn()
		}
		if _, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, NewExchange("d"))); errors.Is(err, approval.TooMany) {
			t.Error("a call that has ended still counts")
		}
	})
}

// TestOpenLimits: the open requests of one caller and of all callers are limited; one that
// blocks does not delay others.
func (s Suite) TestOpenLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		o, maxOpen, maxPerCaller := Options(nil), maxOpen, maxPerCaller
		if s.Fewer > 0 {
			maxOpen, maxPerCaller = 20, 5
			o.MaxOpen, o.MaxPerCaller = maxOpen, maxPerCaller
		}
		var f Tool
		invoke := s.gated(&f, approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
			if strings.Contains(string(r.Arguments), "stuck") {
				<-release
			}
			return yes, nil
		}), o)
		var all sync.WaitGroup
		call := func(who, arguments string) error {
			_, err := invoke(t.Context(), NewCall(t, who, "write", arguments, nil))
			return err
		}
		for i := range maxOpen {
			who := fmt.Sprint("caller", i/maxPerCaller)
			all.Go(func() {
				if err := call(who, `{"stuck":1}`); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if i == maxPerCaller-1 {
				WantCode(t, call("caller0", `{}`), approval.TooMany)
				for range 100 {
					if err := call("another", `{}`); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		WantCode(t, call("another", `{}`), approval.TooMany)
		close(release)
		all.Wait()
		if err := call("another", `{}`); err != nil {
			t.Error(err)
		}
	})
}

// TestFromContext: a tool can read the approved request.
func (s Suite) TestFromContext(t *testing.T) {
	var seen *approval.Request
	f := &Tool{Then: func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
		seen = approval.FromContext(ctx)
		return mcp.Raw(`{}`), nil
	}}
	if _, err := s.gated(f, Says(yes, nil), Options(nil))(t.Context(), NewCall(t, "anna", "write", `{"a":1}`, nil)); err != nil {
		t.Fatal(err)
	}
	if seen == nil || seen.Caller != "anna" || approval.FromContext(t.Context()) != nil {
		t.Errorf("the tool saw %v", seen)
	}
}

// TestNoExpiry: with a negative Expiry, a request waits for a year, and a call that has asked its
// caller for an hour.
func (s Suite) TestNoExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		o := Options(nil)
		o.Expiry = -1
		var f Tool
		slow := s.gated(&f, approval.Callback(func(ctx context.Context, p *approval.Prompt) {
			if left := time.Until(p.Deadline); left != 10*365*24*time.Hour {
				t.Errorf("the deadline is %v away", left)
			}
			sleep(year)
			if err := p.Accept(ctx); err != nil {
				t.Error(err)
			}
		}), o)
		if _, err := slow(t.Context(), NewCall(t, "", "write", `{}`, nil)); err != nil || len(f.Ran()) != 1 {
			t.Errorf("error %v, %d executions", err, len(f.Ran()))
		}

		asks := s.gated(&f, approval.Elicitation(), o)
		for wait, code := range map[time.Duration]approval.Code{time.Hour - time.Second: approval.Rejected, time.Hour: approval.Expired} {
			e := NewExchange(wait.String())
			_, err := asks(t.Context(), NewCall(t, "", "write", `{}`, e))
			question, ok := mcp.AsInputRequired(err)
			if !ok {
				t.Fatal(err)
			}
			for key := range question.Requests {
				e.Answers[key] = json.RawMessage(`{"action":"decline"}`)
			}
			sleep(wait)
			_, err = asks(t.Context(), NewCall(t, "", "write", `{}`, e))
			WantCode(t, err, code)
		}
	})
}
