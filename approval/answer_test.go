package approval_test

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
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestAnswers: only a clear yes makes the call.
func TestAnswers(t *testing.T) {
	boom := errors.New("secret of the operator")
	for name, test := range map[string]struct {
		approver approval.Approver
		code     approval.Code // "" if the call is made
		text     string
		end      string
	}{
		"yes":          {says(yes, nil), "", "", "executed"},
		"no":           {says(no, nil), approval.Rejected, "Approval request for files.write rejected: not today", "rejected"},
		"no reason":    {says(approval.Answer{}, nil), approval.Rejected, "Approval request for files.write rejected", "rejected"},
		"an error":     {says(yes, boom), approval.Failed, "Approval request for files.write failed: the request failed", "withdrawn"},
		"no approver":  {nil, approval.NoApprover, "Approval request for files.write failed: no approver is available", "withdrawn"},
		"a kind":       {says(yes, fmt.Errorf("x: %w", approval.Lost)), approval.Lost, "Approval request for files.write failed: the approver disconnected", "withdrawn"},
		"words":        {says(yes, approval.Errorf(approval.Lost, "Approval channel disconnected")), approval.Lost, "Approval request for files.write failed: Approval channel disconnected", "withdrawn"},
		"expired":      {says(yes, approval.Expired), approval.Expired, "Approval request for files.write expired", "expired"},
		"cancelled":    {says(yes, context.Canceled), approval.Failed, "Approval request for files.write failed: the request failed", "withdrawn"},
		"hostile text": {says(approval.Answer{Reason: "\x1b[2J\u202e"}, nil), approval.Rejected, `Approval request for files.write rejected: \u001b[2J\u202e`, "rejected"},
		"a panic": {approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) { panic("secret") }),
			approval.Failed, "Approval request for files.write failed: the request failed", "withdrawn"},
	} {
		t.Run(name, func(t *testing.T) {
			var f tool
			var d memoryJournal
			_, err := gated(&f, test.approver, options(&d))(t.Context(), newCall(t, "anna", "write", `{"a":1}`, newExchange("c")))
			if test.code == "" {
				if err != nil || !slices.Equal(f.ran(), []string{`{"a":1}`}) {
					t.Errorf("the tool got %q, error %v", f.ran(), err)
				}
				wantEvents(t, &d, "asked", "approved", "executing", "executed")
				return
			}
			wantCode(t, err, test.code)
			wantCalled(t, err, false)
			var wire *jsonrpc.Error
			if errors.As(err, &wire) && wire.Message != test.text {
				t.Errorf("the caller gets %q, want %q", wire.Message, test.text)
			}
			if ran := f.ran(); len(ran) != 0 {
				t.Errorf("the tool got %q", ran)
			}
			wantEvents(t, &d, "asked", test.end)
		})
	}
}

// TestLateYes: a yes after the deadline, or after the caller disconnected, executes nothing.
func TestLateYes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
			<-ctx.Done()
			return yes, nil
		})
		var f tool
		var d memoryJournal
		start := time.Now()
		_, err := gated(&f, slow, options(&d))(t.Context(), newCall(t, "", "write", `{}`, nil))
		wantCode(t, err, approval.Expired)
		if took := time.Since(start); took != 5*time.Minute {
			t.Errorf("it expired after %v", took)
		}
		wantEvents(t, &d, "asked", "expired")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		d = memoryJournal{}
		if _, err := gated(&f, slow, options(&d))(ctx, newCall(t, "", "write", `{}`, nil)); err == nil {
			t.Error("the call was made although the caller disconnected")
		}
		wantEvents(t, &d, "asked", "withdrawn")
		if ran := f.ran(); len(ran) != 0 {
			t.Errorf("the tool got %q", ran)
		}
		o := options(nil)
		o.Expiry = time.Nanosecond
		_, err = gated(&f, says(yes, nil), o)(t.Context(), newCall(t, "", "write", `{}`, nil))
		wantCode(t, err, approval.Expired)
	})
}

// TestCallback: the prompt can be answered once, at any time before the deadline.
func TestCallback(t *testing.T) {
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
			var f tool
			done := make(chan error)
			go func() {
				_, err := gated(&f, later, options(nil))(t.Context(), newCall(t, "", "write", `{}`, nil))
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
				if err != nil || len(f.ran()) != 1 {
					t.Errorf("after %v: error %v, %d executions", answer.after, err, len(f.ran()))
				}
				continue
			}
			wantCode(t, err, answer.code)
			if len(f.ran()) != 0 {
				t.Errorf("after %v: it was executed", answer.after)
			}
		}
	})
}

// TestMissingCallers checks that a request ends, and no longer counts, if its caller does not
// answer in time.
func TestMissingCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := askingTool(1)
		var d memoryJournal
		o := options(&d)
		o.MaxPerCaller = 1
		invoke := gated(f, says(yes, nil), o)
		late := newExchange("late")
		if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, late)); err == nil {
			t.Fatal("the tool did not ask")
		}
		_, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, newExchange("b")))
		wantCode(t, err, approval.TooMany)
		<-time.After(5 * time.Minute)
		late.answers["q0"] = json.RawMessage(`{}`)
		_, err = invoke(t.Context(), newCall(t, "anna", "write", `{}`, late))
		wantCode(t, err, approval.Expired)
		wantEvents(t, &d, "asked", "approved", "executing", "paused")

		gone := newExchange("gone") // its call ends between two runs
		if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, gone)); err == nil {
			t.Fatal("the tool did not ask")
		}
		for _, fn := range gone.onDone {
			fn()
		}
		if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, newExchange("d"))); errors.Is(err, approval.TooMany) {
			t.Error("a call that has ended still counts")
		}
	})
}

// TestOpenLimits: the open requests of one caller and of all callers are limited; one that
// blocks does not delay others.
func TestOpenLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var f tool
		invoke := gated(&f, approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
			if strings.Contains(string(r.Arguments), "stuck") {
				<-release
			}
			return yes, nil
		}), options(nil))
		var all sync.WaitGroup
		call := func(who, arguments string) error {
			_, err := invoke(t.Context(), newCall(t, who, "write", arguments, nil))
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
				wantCode(t, call("caller0", `{}`), approval.TooMany)
				for range 100 {
					if err := call("another", `{}`); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		wantCode(t, call("another", `{}`), approval.TooMany)
		close(release)
		all.Wait()
		if err := call("another", `{}`); err != nil {
			t.Error(err)
		}
	})
}

// TestArguments: ambiguous arguments are refused without asking.
func TestArguments(t *testing.T) {
	for arguments, asked := range map[string]bool{
		``: true, `{}`: true, `{"a":{"b":[{"c":1}]}}`: true, `{"n":12345678901234567890.000000001}`: true,
		`[]`: false, `"x"`: false, `null`: false,
		`{"a":{"b":1,"b":2}}`: false, `{"a":[[{"b":1,"\u0062":2}]]}`: false,
		`{"a":"` + strings.Repeat("x", 128<<10) + `"}`: false,
	} {
		var f tool
		prompts := 0
		_, err := gated(&f, approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
			prompts++
			want := arguments
			if want == "" {
				want = "{}"
			}
			if string(r.Arguments) != want {
				t.Errorf("%.40s: the arguments are shown as %s", arguments, r.Arguments)
			}
			return yes, nil
		}), options(nil))(t.Context(), newCall(t, "", "write", arguments, nil))
		if (prompts == 1) != asked || (err == nil) != asked {
			t.Errorf("%.40s: %d prompts, error %v", arguments, prompts, err)
		}
		if asked && f.ran()[0] != arguments {
			t.Errorf("%.40s: the tool got %s", arguments, f.ran())
		}
	}
}

// TestFromContext: a tool can read the approved request.
func TestFromContext(t *testing.T) {
	var seen *approval.Request
	f := &tool{then: func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
		seen = approval.FromContext(ctx)
		return mcp.Raw(`{}`), nil
	}}
	if _, err := gated(f, says(yes, nil), options(nil))(t.Context(), newCall(t, "anna", "write", `{"a":1}`, nil)); err != nil {
		t.Fatal(err)
	}
	if seen == nil || seen.Caller != "anna" || approval.FromContext(t.Context()) != nil {
		t.Errorf("the tool saw %v", seen)
	}
}

// TestGuardAllocations: a call without a request allocates only for its decision.
func TestGuardAllocations(t *testing.T) {
	if racetest.Enabled {
		t.Skip("the race detector allocates")
	}
	var result mcp.Result = mcp.Raw(`{}`)
	guard := approval.Guard(parsed(t, `{"rules":[{"effect":"ask","names":["delete_*"]},{"effect":"allow"}]}`), says(yes, nil), options(nil))
	invoke := guarded(guard, func(context.Context, *mcp.Call) (mcp.Result, error) { return result, nil })
	fresh := newCall(t, "anna", "read", `{"a":1}`, nil)
	n := testing.AllocsPerRun(100, func() {
		call := *fresh
		if _, err := invoke(t.Context(), &call); err != nil {
			t.Fatal(err)
		}
	})
	if n > 3 { // one is the copy of the call
		t.Errorf("the guard allocates %v times, want at most 2", n-1)
	}
}

func BenchmarkGuardThatDoesNotAsk(b *testing.B) {
	guard := approval.Guard(parsed(b, `{}`), nil, options(nil))
	invoke := guarded(guard, func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, nil })
	fresh := newCall(b, "anna", "read", `{"a":1}`, nil)
	b.ReportAllocs()
	for b.Loop() {
		call := *fresh
		_, _ = invoke(b.Context(), &call)
	}
}

// TestNoExpiry: with a negative Expiry, a request waits for a year, and a call that has asked its
// caller for an hour.
func TestNoExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		o := options(nil)
		o.Expiry = -1
		var f tool
		slow := gated(&f, approval.Callback(func(ctx context.Context, p *approval.Prompt) {
			if left := time.Until(p.Deadline); left != 10*365*24*time.Hour {
				t.Errorf("the deadline is %v away", left)
			}
			sleep(year)
			if err := p.Accept(ctx); err != nil {
				t.Error(err)
			}
		}), o)
		if _, err := slow(t.Context(), newCall(t, "", "write", `{}`, nil)); err != nil || len(f.ran()) != 1 {
			t.Errorf("error %v, %d executions", err, len(f.ran()))
		}

		asks := gated(&f, approval.Elicitation(), o)
		for wait, code := range map[time.Duration]approval.Code{time.Hour - time.Second: approval.Rejected, time.Hour: approval.Expired} {
			e := newExchange(wait.String())
			_, err := asks(t.Context(), newCall(t, "", "write", `{}`, e))
			question, ok := mcp.AsInputRequired(err)
			if !ok {
				t.Fatal(err)
			}
			for key := range question.Requests {
				e.answers[key] = json.RawMessage(`{"action":"decline"}`)
			}
			sleep(wait)
			_, err = asks(t.Context(), newCall(t, "", "write", `{}`, e))
			wantCode(t, err, code)
		}
	})
}
