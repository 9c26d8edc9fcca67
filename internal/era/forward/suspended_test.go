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
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	asksOnce  = `{"name":"t","arguments":{"asks":1}}`
	asksTwice = `{"name":"t","arguments":{"asks":2}}`
	accepted  = `{"action":"accept","content":{}}`
	refusal   = `{"action":"decline"}`
)

// wantData checks the type in the data of a *jsonrpc.Error.
func wantData(t testing.TB, err error, kind string) {
	t.Helper()
	sent, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || string(sent.Data) != `{"type":"`+kind+`"}` {
		t.Errorf("the error is %v, want one of the type %s", err, kind)
	}
}

func wantResult(t testing.TB, got string, err error, want string) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("the result is %s, %v, want %s", got, err, want)
	}
}

// suspended runs a test with a call that is suspended after its first run.
func suspended(t *testing.T, arguments string, test func(t *testing.T, a *askingServer, s *client.Session, c *testCall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		s := forwarding(t, a.Host, nil)
		c := newTestCall("ann", arguments)
		c.mustAsk(t, s, nil)
		test(t, a, s, c)
	})
}

// TestSuspended checks that a server that asks is called once and gets each answer.
func TestSuspended(t *testing.T) {
	suspended(t, asksTwice, func(t *testing.T, a *askingServer, s *client.Session, c *testCall) {
		first := c.keys
		c.answer(accepted).mustAsk(t, s, nil)
		if slices.Equal(first, c.keys) {
			t.Errorf("both questions are asked as %q", first)
		}
		got, err := c.answer(refusal).run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":[`+accepted+`,`+refusal+`]}`)
		if n := len(a.Host.Calls()); n != 1 {
			t.Errorf("the server was called %d times", n)
		}
		c.end()
		if ids := a.Cancelled(); len(ids) > 0 {
			t.Errorf("the cancelled calls are %v", ids)
		}
	})
}

// TestSuspendedTwice checks that a round that is sent twice continues once.
func TestSuspendedTwice(t *testing.T) {
	suspended(t, asksOnce, func(t *testing.T, a *askingServer, s *client.Session, c *testCall) {
		c.answer(accepted)
		copied := c.clone()
		got, err := c.run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":[`+accepted+`]}`)
		_, err = copied.run(t.Context(), s, nil)
		wantData(t, err, "CALL_NOT_WAITING")
		if n := len(a.Host.Calls()); n != 1 {
			t.Errorf("the server was called %d times", n)
		}
	})
}

// TestSuspendedTwiceConcurrently is TestSuspendedTwice with concurrent rounds.
func TestSuspendedTwiceConcurrently(t *testing.T) {
	suspended(t, asksTwice, func(t *testing.T, a *askingServer, s *client.Session, c *testCall) {
		c.answer(accepted)
		results := make(chan error)
		for range 8 {
			copied := c.clone()
			go func() {
				_, err := copied.run(t.Context(), s, nil)
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
			t.Errorf("asked %d times, called %d times, answers %q", asked, len(a.Host.Calls()), a.said)
		}
	})
}

// TestSuspendedElsewhere checks that a call continues only with its own SuspendedCalls.
func TestSuspendedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		shared := client.NewSuspendedCalls()
		here, near := forwarding(t, a.Host, &client.Options{SuspendedCalls: shared}), forwarding(t, a.Host, &client.Options{SuspendedCalls: shared})
		there := forwarding(t, a.Host, nil)
		c := newTestCall("ann", asksOnce)
		c.mustAsk(t, here, nil)
		_, err := c.answer(accepted).clone().run(t.Context(), there, nil)
		wantData(t, err, "CALL_ELSEWHERE")
		got, err := c.run(t.Context(), near, nil)
		wantResult(t, got, err, `{"content":[],"said":[`+accepted+`]}`)
		if n := len(a.Host.Calls()); n != 1 {
			t.Errorf("the server was called %d times", n)
		}
	})
}

// TestSuspendedTooLong checks that a call without an answer is cancelled after its lifetime.
func TestSuspendedTooLong(t *testing.T) {
	suspended(t, asksOnce, func(t *testing.T, a *askingServer, s *client.Session, c *testCall) {
		eratest.Pass(5*time.Minute - time.Second)
		if ids := a.Cancelled(); len(ids) > 0 {
			t.Errorf("cancelled too early: %v", ids)
		}
		eratest.Pass(time.Second)
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("the cancelled calls are %v, want one", ids)
		}
		_, err := c.answer(accepted).run(t.Context(), s, nil)
		wantData(t, err, "CALL_NOT_WAITING")
	})
}

// TestSuspendedTooMany checks the limits: 64 suspended calls of one principal, 1,024 of all. The
// caller and the server of another call get an error.
func TestSuspendedTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		suspended := client.NewSuspendedCalls()
		var sessions []*client.Session // of one principal each
		var all []*testCall
		for principal := range 17 {
			sessions = append(sessions, forwarding(t, a.Host, &client.Options{SuspendedCalls: suspended, Limits: client.Limits{QuestionBurst: -1}}))
			for n := range 65 {
				c := newTestCall(fmt.Sprint("p", principal), asksOnce)
				c.id = fmt.Sprint(principal, "/", n)
				all = append(all, c)
			}
		}
		for i, c := range all {
			by := sessions[i/65]
			if i%65 < 64 && i/65 < 16 {
				c.mustAsk(t, by, nil)
				continue
			}
			_, err := c.run(t.Context(), by, nil)
			wantData(t, err, "TOO_MANY_QUESTIONS")
		}
		synctest.Wait()
		if n := len(a.Cancelled()); n != 17*65-1024 {
			t.Errorf("%d calls are cancelled, want %d", n, 17*65-1024)
		}
		// A call that ends makes room for another one.
		if _, err := all[0].answer(accepted).run(t.Context(), sessions[0], nil); err != nil {
			t.Error(err)
		}
		late := newTestCall("p0", asksOnce)
		late.id = "late"
		late.mustAsk(t, sessions[0], nil)
	})
}

// TestSuspendedCancelled checks that cancelling the caller's call cancels the call to the server.
func TestSuspendedCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		p := eratest.Open(t, newProxy(forwarding(t, a.Host, nil), nil), mcp.LatestLegacyVersion, eratest.Askable)
		id := p.Start(mcp.MethodToolsCall, asksOnce)
		if got := eratest.Text(p.Next(), "method"); got != mcp.MethodElicit {
			t.Fatalf("the caller gets %s", got)
		}
		p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		synctest.Wait()
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("the cancelled calls are %v, want one", ids)
		}
	})
}

// TestSuspendedRefusedRun checks that the call to the server is cancelled if the next run of the
// caller's call is refused.
func TestSuspendedRefusedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		s := forwarding(t, a.Host, nil)
		runs := 0
		proxy := proxyFunc(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			if runs++; runs == 2 {
				return nil, &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "refused"}
			}
			return s.Forward(ctx, call, nil)
		})
		p := eratest.Open(t, proxy, mcp.LatestLegacyVersion, eratest.Askable)
		p.Start(mcp.MethodToolsCall, asksOnce)
		p.Send(eratest.Reply(p.Next(), accepted))
		eratest.WantError(t, p.Next(), jsonrpc.InvalidRequest)
		synctest.Wait()
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("the cancelled calls are %v, want one", ids)
		}
	})
}

// TestSuspendedStateTooLarge checks that the call to the server is cancelled if the state of the
// caller's call is too large for asking.
func TestSuspendedStateTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		s := forwarding(t, a.Host, nil)
		proxy := proxyFunc(func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			call.Store("much", json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`))
			return s.Forward(ctx, call, nil)
		})
		eratest.WantError(t, eratest.Open(t, proxy, mcp.LatestVersion, eratest.Askable).Call(mcp.MethodToolsCall, asksOnce), jsonrpc.InternalError)
		synctest.Wait()
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("the cancelled calls are %v, want one", ids)
		}
	})
}

// TestSuspendedTimeout checks that the timeout is paused while the caller is asked.
func TestSuspendedTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		a.noResult = true
		s := forwarding(t, a.Host, nil)
		opts := &client.ForwardOptions{Timeout: 5 * time.Second}
		c := newTestCall("ann", asksOnce)
		c.mustAsk(t, s, opts)
		eratest.Pass(4 * time.Minute)
		time.AfterFunc(2*time.Second, func() { a.Push(question("again")) })
		c.answer(accepted).mustAsk(t, s, opts)
		eratest.Pass(4 * time.Minute)
		began := time.Now()
		_, err := c.answer(accepted).run(t.Context(), s, opts)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want DeadlineExceeded", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the run took %v, want 3s", took)
		}
		synctest.Wait()
		if ids := a.Cancelled(); len(ids) != 1 {
			t.Errorf("the cancelled calls are %v, want one", ids)
		}
	})
}

// TestSuspendedClose checks that closing the session ends its suspended calls.
func TestSuspendedClose(t *testing.T) {
	suspended(t, asksOnce, func(t *testing.T, a *askingServer, s *client.Session, c *testCall) {
		s.Close()
		_, err := c.answer(accepted).run(t.Context(), s, nil)
		failed, ok := errors.AsType[*jsonrpc.CallError](err)
		if !ok || !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the error is %v (%v), want ErrClosed", err, failed)
		}
	})
}

// TestSuspendedResult checks that the caller gets a result that arrives while it is asked.
func TestSuspendedResult(t *testing.T) {
	suspended(t, asksOnce, func(t *testing.T, a *askingServer, s *client.Session, c *testCall) {
		a.Push(eratest.Reply(a.Host.Calls()[0], `{"content":[],"said":"too late"}`))
		synctest.Wait()
		got, err := c.run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":"too late"}`)
	})
}

// TestSuspendedAtTwoServers checks that one call can be suspended at two servers.
func TestSuspendedAtTwoServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		suspended := client.NewSuspendedCalls()
		a, b := newAskingServer(t), newAskingServer(t)
		ofA, ofB := &client.ForwardOptions{ServerLabel: "a"}, &client.ForwardOptions{ServerLabel: "b"}
		sa, sb := forwarding(t, a.Host, &client.Options{SuspendedCalls: suspended}), forwarding(t, b.Host, &client.Options{SuspendedCalls: suspended})
		c := newTestCall("ann", asksOnce)
		c.mustAsk(t, sa, ofA)
		atA := c.keys
		c.mustAsk(t, sb, ofB)
		c.keys = append(c.keys, atA...)
		c.answer(accepted)
		for _, part := range []struct {
			s    *client.Session
			opts *client.ForwardOptions
		}{{sa, ofA}, {sb, ofB}} {
			got, err := c.run(t.Context(), part.s, part.opts)
			wantResult(t, got, err, `{"content":[],"said":[`+accepted+`]}`)
		}
	})
}

// TestConcurrentQuestions checks that all questions of a server are answered, one after another.
func TestConcurrentQuestions(t *testing.T) {
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
		c := newTestCall("ann", `{"name":"t"}`)
		c.mustAsk(t, s, nil)
		eratest.Pass(time.Minute)
		c.answer(accepted).mustAsk(t, s, nil)
		eratest.Pass(time.Minute)
		got, err := c.answer(refusal).run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":[`+accepted+`,`+refusal+`]}`)
	})
}

// session connects a client to a server.
func session(t testing.TB, h *eratest.Host, opts *client.Options) *client.Session {
	t.Helper()
	s, err := client.Connect(t.Context(), h, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestMain(m *testing.M) { leaktest.Main(m) }
