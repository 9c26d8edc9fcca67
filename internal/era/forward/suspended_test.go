package forward_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	asksOnce  = `{"name":"t","arguments":{"asks":1}}`
	asksTwice = `{"name":"t","arguments":{"asks":2}}`
	accepted  = `{"action":"accept","content":{}}`
	refusal   = `{"action":"decline"}`
)

// wantData checks that an error is the peer's to see, of a kind.
func wantData(t testing.TB, err error, kind string) {
	t.Helper()
	spoken, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || string(spoken.Data) != `{"type":"`+kind+`"}` {
		t.Errorf("the error is %v, want one of the type %s", err, kind)
	}
}

func wantResult(t testing.TB, got string, err error, want string) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("the result is %s, %v, want %s", got, err, want)
	}
}

// TestParked: a server that asks in mid-call is called once, and told each answer.
func TestParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		v := newVisit("ann", asksTwice)
		v.ask(t, s, nil)
		first := v.asked
		v.say(accepted).ask(t, s, nil)
		if slices.Equal(first, v.asked) {
			t.Errorf("both questions are asked as %q", first)
		}
		got, err := v.say(refusal).run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":[`+accepted+`,`+refusal+`]}`)
		if n := len(a.Host.Calls()); n != 1 {
			t.Errorf("the server was called %d times", n)
		}
		v.leave()
		if ids := a.Cancelled(); len(ids) > 0 {
			t.Errorf("cancelled are %v", ids)
		}
	})
}

// TestParkedTwice: a round that is sent twice goes on once.
func TestParkedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		v := newVisit("ann", asksOnce)
		v.ask(t, s, nil)
		v.say(accepted)
		twin := v.again()
		got, err := v.run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":[`+accepted+`]}`)
		_, err = twin.run(t.Context(), s, nil)
		wantData(t, err, "CALL_NOT_WAITING")
		if n := len(a.Host.Calls()); n != 1 {
			t.Errorf("the server was called %d times", n)
		}
	})
}

// TestParkedTwiceAtOnce likewise, for the race detector.
func TestParkedTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		v := newVisit("ann", asksTwice)
		v.ask(t, s, nil)
		v.say(accepted)
		results := make(chan error)
		for range 8 {
			twin := v.again()
			go func() {
				_, err := twin.run(t.Context(), s, nil)
				results <- err
			}()
		}
		asked := 0
		for range 8 {
			if err := <-results; errors.As(err, new(*mcp.InputRequired)) {
				asked++
			} else {
				wantData(t, err, "CALL_NOT_WAITING")
			}
		}
		if asked == 0 || len(a.Host.Calls()) != 1 || len(a.said["2"]) > 1 {
			t.Errorf("asked %d times, called %d times, told %q", asked, len(a.Host.Calls()), a.said)
		}
	})
}

// TestParkedElsewhere: a call goes on where its server waits, and nowhere else.
func TestParkedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		shared := client.NewSuspendedCalls()
		here, near := forwarding(t, a.Host, &client.Options{SuspendedCalls: shared}), forwarding(t, a.Host, &client.Options{SuspendedCalls: shared})
		there := forwarding(t, a.Host, nil)
		v := newVisit("ann", asksOnce)
		v.ask(t, here, nil)
		_, err := v.say(accepted).again().run(t.Context(), there, nil)
		wantData(t, err, "CALL_ELSEWHERE")
		got, err := v.run(t.Context(), near, nil)
		wantResult(t, got, err, `{"content":[],"said":[`+accepted+`]}`)
		if n := len(a.Host.Calls()); n != 1 {
			t.Errorf("the server was called %d times", n)
		}
	})
}

// TestParkedTooLong: the server learns that nobody will answer.
func TestParkedTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		v := newVisit("ann", asksOnce)
		v.ask(t, s, nil)
		eratest.Pass(5*time.Minute - time.Second)
		if ids := a.Cancelled(); len(ids) > 0 {
			t.Errorf("cancelled too early: %v", ids)
		}
		eratest.Pass(time.Second)
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("cancelled are %v, want the call", ids)
		}
		_, err := v.say(accepted).run(t.Context(), s, nil)
		wantData(t, err, "CALL_NOT_WAITING")
	})
}

// TestParkedTooMany: at most 64 of one principal, 1,024 of all. Who is one too many is
// told, and so is the server.
func TestParkedTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		suspended := client.NewSuspendedCalls()
		var sessions []*client.Session // of one principal each
		var all []*visit
		for principal := range 17 {
			sessions = append(sessions, forwarding(t, a.Host, &client.Options{SuspendedCalls: suspended}))
			for n := range 65 {
				v := newVisit(fmt.Sprint("p", principal), asksOnce)
				v.id = fmt.Sprint(principal, "/", n)
				all = append(all, v)
			}
		}
		for i, v := range all {
			by := sessions[i/65]
			if i%65 < 64 && i/65 < 16 {
				v.ask(t, by, nil)
				continue
			}
			_, err := v.run(t.Context(), by, nil)
			wantData(t, err, "TOO_MANY_QUESTIONS")
		}
		synctest.Wait()
		if n := len(a.Cancelled()); n != 17*65-1024 {
			t.Errorf("%d calls are cancelled, want %d", n, 17*65-1024)
		}
		// One that goes makes room for one.
		if _, err := all[0].say(accepted).run(t.Context(), sessions[0], nil); err != nil {
			t.Error(err)
		}
		late := newVisit("p0", asksOnce)
		late.id = "late"
		late.ask(t, sessions[0], nil)
	})
}

// TestParkedLeave: when the caller gives up, the server is told at once.
func TestParkedLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		p := eratest.Open(t, faceOf(forwarding(t, a.Host, nil), nil), mcp.LatestLegacyVersion, eratest.Askable)
		id := p.Start(mcp.MethodToolsCall, asksOnce)
		if got := eratest.Text(p.Next(), "method"); got != mcp.MethodElicit {
			t.Fatalf("the caller gets %s", got)
		}
		p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		synctest.Wait()
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("cancelled are %v, want the call", ids)
		}
	})
}

// TestParkedRefusedLater: a call whose next run is refused on its way is over for its
// server too.
func TestParkedRefusedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		runs := 0
		face := faceOfFunc(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			if runs++; runs == 2 {
				return nil, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "not you"}
			}
			return s.Forward(ctx, call, nil)
		})
		p := eratest.Open(t, face, mcp.LatestLegacyVersion, eratest.Askable)
		p.Start(mcp.MethodToolsCall, asksOnce)
		p.Send(eratest.Reply(p.Next(), accepted))
		eratest.WantError(t, p.Next(), jsonrpc.InvalidRequest)
		synctest.Wait()
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("cancelled are %v, want the call", ids)
		}
	})
}

// TestParkedInVain: a caller that cannot be asked after all, since too much is kept
// between the rounds, does not leave the server waiting.
func TestParkedInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		face := faceOfFunc(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			call.Store("much", json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`))
			return s.Forward(ctx, call, nil)
		})
		eratest.WantError(t, eratest.Open(t, face, mcp.LatestVersion, eratest.Askable).Call(mcp.MethodToolsCall, asksOnce), jsonrpc.InternalError)
		synctest.Wait()
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("cancelled are %v, want the call", ids)
		}
	})
}

// TestParkedClock: the clock of a call stands still while its caller is asked.
func TestParkedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		a.silent = true
		s := forwarding(t, a.Host, nil)
		opts := &client.ForwardOptions{Timeout: 5 * time.Second}
		v := newVisit("ann", asksOnce)
		v.ask(t, s, opts)
		eratest.Pass(4 * time.Minute)
		time.AfterFunc(2*time.Second, func() { a.Push(question("again")) })
		v.say(accepted).ask(t, s, opts)
		eratest.Pass(4 * time.Minute)
		began := time.Now()
		_, err := v.say(accepted).run(t.Context(), s, opts)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want that of the deadline", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v, want 3s", took)
		}
		synctest.Wait()
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("cancelled are %v, want the call", ids)
		}
	})
}

// TestParkedClose: a session that is closed waits for its parked calls to end, and they
// are known to have begun.
func TestParkedClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		v := newVisit("ann", asksOnce)
		v.ask(t, s, nil)
		s.Close()
		_, err := v.say(accepted).run(t.Context(), s, nil)
		failed, ok := errors.AsType[*jsonrpc.CallError](err)
		if !ok || !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the error is %v (%v), want that the session is closed", err, failed)
		}
	})
}

// TestParkedAnswered: what the server answers while the caller is still asked is kept
// for it, and it is not asked again.
func TestParkedAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		v := newVisit("ann", asksOnce)
		v.ask(t, s, nil)
		a.Push(eratest.Reply(a.Host.Calls()[0], `{"content":[],"said":"too late"}`))
		synctest.Wait()
		got, err := v.run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":"too late"}`)
	})
}

// TestParkedApart: the parts of two servers in one call do not meet.
func TestParkedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		suspended := client.NewSuspendedCalls()
		a, b := newNotary(t), newNotary(t)
		ofA, ofB := &client.ForwardOptions{ServerLabel: "a"}, &client.ForwardOptions{ServerLabel: "b"}
		sa, sb := forwarding(t, a.Host, &client.Options{SuspendedCalls: suspended}), forwarding(t, b.Host, &client.Options{SuspendedCalls: suspended})
		v := newVisit("ann", asksOnce)
		v.ask(t, sa, ofA)
		atA := v.asked
		v.ask(t, sb, ofB)
		v.asked = append(v.asked, atA...)
		v.say(accepted)
		for _, part := range []struct {
			s    *client.Session
			opts *client.ForwardOptions
		}{{sa, ofA}, {sb, ofB}} {
			got, err := v.run(t.Context(), part.s, part.opts)
			wantResult(t, got, err, `{"content":[],"said":[`+accepted+`]}`)
		}
	})
}

// TestQuestionsAtOnce: questions that a server asks together are all answered, however
// long the first takes.
func TestQuestionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var call string
		var said []string
		h := eratest.LegacyHost(t, func(frame string) []string {
			if eratest.Text(frame, "method") == mcp.MethodToolsCall {
				call = frame
				return []string{question("1"), question("2")}
			}
			if said = append(said, eratest.At(frame, "result")); len(said) == 2 {
				return []string{eratest.Reply(call, `{"content":[],"said":[`+strings.Join(said, ",")+`]}`)}
			}
			return nil
		})
		s := forwarding(t, h, nil)
		v := newVisit("ann", `{"name":"t"}`)
		v.ask(t, s, nil)
		eratest.Pass(time.Minute)
		v.say(accepted).ask(t, s, nil)
		eratest.Pass(time.Minute)
		got, err := v.say(refusal).run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":[`+accepted+`,`+refusal+`]}`)
	})
}
