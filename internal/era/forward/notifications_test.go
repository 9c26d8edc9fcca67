package forward_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestRelayedProgress checks that the caller gets all progress with its own token before the
// result, and none after it.
func TestRelayedProgress(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		const steps = 200
		h := upstream(t, func(frame string) []string {
			token := eratest.At(frame, "params", "_meta", "progressToken")
			var frames []string
			for i := range steps {
				frames = append(frames, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":1e400,"progressToken":%s,"progress":%d,"message":"\u00e9"}}`, token, i+1))
			}
			return append(frames, eratest.Reply(frame, eratest.Finished), frames[0])
		})
		for _, can := range []string{eratest.Askable, "{}"} {
			p := eratest.Open(t, newProxy(forwarding(t, h, nil), nil), caller, can)
			id := p.Start(mcp.MethodToolsCall, `{"name":"t","_meta":{"progressToken":"ours"}}`)
			for i := range steps {
				eratest.Want(t, p.Next(), fmt.Sprintf(`{"x":1e400,"progressToken":"ours","progress":%d,"message":"\u00e9"}`, i+1), "params")
			}
			eratest.Want(t, p.Next(), id, "id")
			p.ExpectSilence()

			p.Start(mcp.MethodToolsCall, `{"name":"t"}`) // a caller without a token gets no progress
			eratest.Want(t, p.Next(), strconv.Itoa(p.LastID), "id")
			calls := h.Calls()
			eratest.Want(t, calls[len(calls)-1], "", "params", "_meta", "progressToken")
			p.ExpectSilence()
		}
	})
}

// TestRelayedProgress20241105 checks that progress has no message in the first version.
func TestRelayedProgress20241105(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.LegacyHost(t, func(frame string) []string {
			return []string{
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + eratest.At(frame, "params", "_meta", "progressToken") + `,"message":"m","progress":1}}`,
				eratest.Reply(frame, eratest.Finished),
			}
		})
		p := eratest.Open(t, newProxy(forwarding(t, h, nil), nil), mcp.Version20241105, "{}")
		p.Start(mcp.MethodToolsCall, `{"name":"t","_meta":{"progressToken":7}}`)
		eratest.Want(t, p.Next(), `{"progressToken":7,"progress":1}`, "params")
		p.Next()
	})
}

// TestRelayedProgressOfSeveral checks that callers with equal ids and tokens get their own
// progress.
func TestRelayedProgressOfSeveral(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		var calls []string
		h := upstream(t, func(frame string) (frames []string) {
			if calls = append(calls, frame); len(calls) < 8 {
				return nil
			}
			for i := range calls { // in reverse order
				frame := calls[len(calls)-1-i]
				who := eratest.Text(frame, "params", "name")
				frames = append(frames,
					fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, eratest.At(frame, "params", "_meta", "progressToken"), who),
					eratest.Reply(frame, `{"content":[{"type":"text","text":"`+who+`"}]}`))
			}
			return frames
		})
		proxy := newProxy(forwarding(t, h, nil), nil)
		var peers []*eratest.Peer
		for i := range 8 {
			p := eratest.Open(t, proxy, caller, eratest.Askable)
			p.Start(mcp.MethodToolsCall, fmt.Sprintf(`{"name":"caller %d","_meta":{"progressToken":1}}`, i))
			peers = append(peers, p)
			synctest.Wait()
		}
		for i, p := range peers {
			progress, answer := p.Next(), p.Next()
			who := fmt.Sprintf("caller %d", i)
			eratest.Want(t, progress, "1", "params", "progressToken")
			if eratest.Text(progress, "params", "message") != who || eratest.ResultText(answer) != who {
				t.Errorf("%s gets %s and %s", who, progress, answer)
			}
			p.ExpectSilence()
		}
	})
}

// TestRelayedFlood checks that endless progress after the response does not delay the result.
func TestRelayedFlood(t *testing.T) {
	h := eratest.LegacyHost(t, nil)
	stop := make(chan struct{})
	ended := make(chan struct{})
	answer := h.Answer
	h.Answer = func(frame string) []string {
		if eratest.Text(frame, "method") != mcp.MethodToolsCall {
			return answer(frame)
		}
		h.Push(eratest.Reply(frame, eratest.Finished))
		go func() {
			defer close(ended)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					h.Push(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}`, i))
				}
			}
		}()
		return nil
	}
	s := forwarding(t, h, nil)
	c := newTestCall("ann", `{"name":"t","_meta":{"progressToken":1}}`)
	if _, err := c.run(t.Context(), s, nil); err != nil {
		t.Error(err)
	}
	close(stop)
	waittest.Receive(t, "the end of the notifications", ended)
}

// TestRelayedSlowly checks that the queue for a slow caller is limited and keeps the newest
// notifications.
func TestRelayedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const steps = 5000
		h := eratest.LegacyHost(t, func(frame string) (frames []string) {
			for i := range steps {
				frames = append(frames, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`,
					eratest.At(frame, "params", "_meta", "progressToken"), i+1))
			}
			return append(frames, eratest.Reply(frame, eratest.Finished))
		})
		s := forwarding(t, h, nil)
		c := newTestCall("ann", `{"name":"t","_meta":{"progressToken":1}}`)
		c.delay = time.Second
		if _, err := c.run(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
		last := c.notifications[len(c.notifications)-1]
		if n := len(c.notifications); n > 2*1024+100 || !strings.Contains(last, `"progress":5000}`) {
			t.Errorf("the caller gets %d notifications, the last is %s", n, last)
		}
	})
}

// TestRelayedWhenSuspended checks that notifications during a question reach the caller when it
// continues the call.
func TestRelayedWhenSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		s := forwarding(t, a.Host, nil)
		c := newTestCall("ann", `{"name":"t","arguments":{"asks":1},"_meta":{"progressToken":"x"}}`)
		c.caller.LogLevel = mcp.LevelInfo
		c.mustAsk(t, s, nil)
		a.Push(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		a.Push(logLine("info", "waiting"))
		synctest.Wait()
		if got := c.received(); got != "" {
			t.Errorf("the caller gets %s before it continues the call", got)
		}
		if _, err := c.answer(accepted).run(t.Context(), s, nil); err != nil {
			t.Error(err)
		}
		if got, want := c.received(), `{"progressToken":"x","progress":1} {"level":"info","data":"waiting"}`; got != want {
			t.Errorf("the caller gets %s, want %s", got, want)
		}
	})
}

func logLine(level, data string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":%q}}`, level, data)
}

// TestRelayedLog checks that each caller receives its log level, and that a legacy server gets
// the most verbose level of all callers.
func TestRelayedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.LegacyHost(t, func(frame string) []string {
			return []string{logLine("debug", "d"), logLine("warning", "w"), logLine("loud", "l"), eratest.Reply(frame, eratest.Finished)}
		})
		s := forwarding(t, h, nil)
		for level, want := range map[mcp.LoggingLevel]string{
			"":               "",
			mcp.LevelError:   "",
			mcp.LevelWarning: `{"level":"warning","data":"w"}`,
			mcp.LevelDebug:   `{"level":"debug","data":"d"} {"level":"warning","data":"w"}`,
		} {
			c := newTestCall("ann", `{"name":"t"}`)
			c.caller.LogLevel = level
			if _, err := c.run(t.Context(), s, nil); err != nil {
				t.Error(err)
			}
			if got := c.received(); got != want {
				t.Errorf("a caller with level %q gets %s, want %s", level, got, want)
			}
		}
		wantRaised(t, h)
	})
}

// levelsOf returns the log levels that a client has set.
func levelsOf(h *eratest.Host) []mcp.LoggingLevel {
	var levels []mcp.LoggingLevel
	for _, frame := range h.Received() {
		if eratest.Text(frame, "method") == mcp.MethodSetLevel {
			levels = append(levels, mcp.LoggingLevel(eratest.Text(frame, "params", "level")))
		}
	}
	return levels
}

// wantRaised checks that each level of the server is more verbose than the one before, and that
// the last one is debug.
func wantRaised(t *testing.T, h *eratest.Host) {
	t.Helper()
	levels := levelsOf(h)
	for i, level := range levels[1:] {
		if level.Severity() >= levels[i].Severity() {
			t.Errorf("the server gets level %s after %s", level, levels[i])
		}
	}
	if last := levels[len(levels)-1]; last != mcp.LevelDebug {
		t.Errorf("the last level is %s, want debug", last)
	}
}

// TestRelayedLevelConcurrently checks that concurrent calls do not lower the level.
func TestRelayedLevelConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.LegacyHost(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.Finished)} })
		answer := h.Answer
		h.Answer = func(frame string) []string {
			if eratest.Text(frame, "method") == mcp.MethodSetLevel {
				time.AfterFunc(time.Second/2, func() { h.Push(eratest.Reply(frame, "{}")) })
				return nil
			}
			return answer(frame)
		}
		s := forwarding(t, h, nil)
		levels := []mcp.LoggingLevel{mcp.LevelError, mcp.LevelDebug, mcp.LevelInfo, mcp.LevelWarning}
		for i := range 40 {
			go func() {
				c := newTestCall("ann", `{"name":"t"}`)
				c.caller.LogLevel = levels[i%len(levels)]
				if _, err := c.run(t.Context(), s, nil); err != nil {
					t.Error(err)
				}
			}()
		}
		eratest.Pass(10 * time.Second)
		wantRaised(t, h)
	})
}

// TestRelayedLogOnce checks that the caller gets each log message of several rounds once.
func TestRelayedLogOnce(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		var call string
		h := upstream(t, func(frame string) []string {
			switch {
			case eratest.Text(frame, "method") != mcp.MethodToolsCall:
				return []string{logLine("info", "after"), eratest.Reply(call, eratest.Finished)}
			case eratest.At(frame, "params", "inputResponses") != "":
				return []string{logLine("info", "after"), eratest.Reply(frame, eratest.Finished)}
			case eratest.At(frame, "params", "_meta", mcp.MetaProtocolVersion) == "":
				call = frame
				return []string{logLine("info", "before"), question("1")}
			}
			return []string{logLine("info", "before"), eratest.Reply(frame, eratest.RootsRound)}
		})
		p := eratest.Open(t, newProxy(forwarding(t, h, nil), nil), caller, eratest.Askable)
		p.Level = "info"
		p.Start(mcp.MethodToolsCall, `{"name":"t"}`)
		eratest.Want(t, p.Next(), `"before"`, "params", "data")
		frame := p.Next()
		if caller.Modern() {
			key := "r"
			if !h.IsModern() {
				key = "question 1"
			}
			p.Start(mcp.MethodToolsCall, `{"name":"t","requestState":`+eratest.At(frame, "result", "requestState")+`,"inputResponses":{"`+key+`":`+accepted+`}}`)
		} else {
			p.Send(eratest.Reply(frame, accepted))
		}
		eratest.Want(t, p.Next(), `"after"`, "params", "data")
		if got := eratest.ResultText(p.Next()); got != "done" {
			t.Errorf("the call ends in %s", got)
		}
	})
}

// TestAttribution checks that a question without a call belongs to the oldest call with an
// attached run.
func TestAttribution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		a.noResult = true
		s := forwarding(t, a.Host, nil)
		asked := make(chan string, 9)
		begin := func(name string) {
			c := newTestCall("ann", fmt.Sprintf(`{"name":%q}`, name))
			go func() {
				_, err := c.run(t.Context(), s, nil)
				if _, ok := mcp.AsInputRequired(err); ok {
					asked <- name
				}
			}()
			synctest.Wait()
		}
		begin("first")
		begin("second")
		a.Push(question("x"))
		synctest.Wait()
		a.Push(question("y")) // the first call has no attached run now
		if first, second := <-asked, <-asked; first != "first" || second != "second" {
			t.Errorf("asked are %s and %s", first, second)
		}
		s.Close()
		synctest.Wait()
	})
}

// TestAttributionRefused checks that a question is refused if calls of several users are in
// flight.
func TestAttributionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		a.noResult = true
		s := forwarding(t, a.Host, nil)
		for _, who := range []string{"ann", "bob"} {
			go newTestCall(who, `{"name":"t"}`).run(t.Context(), s, nil)
		}
		synctest.Wait()
		a.Push(question("x"))
		a.Push(logLine("info", "unknown user"))
		synctest.Wait()
		frames := a.Received()
		eratest.Want(t, frames[len(frames)-1], `"ask x"`, "id")
		eratest.WantError(t, frames[len(frames)-1], jsonrpc.InvalidRequest)
		s.Close()
		synctest.Wait()
	})
}

// TestAttributionWaits checks that a question before the first call waits for that call.
func TestAttributionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		a.noResult = true
		s := forwarding(t, a.Host, nil)
		a.Push(question("x"))
		eratest.Pass(4 * time.Second)
		c := newTestCall("ann", `{"name":"t"}`)
		c.mustAsk(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := c.answer(accepted).run(ctx, s, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		eratest.Want(t, strings.Join(a.said["x"], ","), accepted)

		a.Push(question("y"))
		eratest.Pass(6 * time.Second)
		frames := a.Received()
		eratest.Want(t, frames[len(frames)-1], `"ask y"`, "id")
		eratest.WantError(t, frames[len(frames)-1], jsonrpc.InvalidRequest)
	})
}

// TestAttributionByMethod checks that a question does not belong to a call of a method without
// questions.
func TestAttributionByMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		s := forwarding(t, a.Host, nil)
		completion := newTestCall("ann", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}`)
		completion.method = mcp.MethodComplete
		ctx, cancel := context.WithCancel(t.Context())
		go completion.run(ctx, s, nil)
		synctest.Wait()
		newTestCall("ann", asksOnce).mustAsk(t, s, nil)
		cancel()
		synctest.Wait()
	})
}

// TestQuestionWithoutCapability checks that an undeclared question is refused.
func TestQuestionWithoutCapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		s := session(t, a.Host, &client.Options{Capabilities: &mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}})
		c := newTestCall("ann", asksOnce)
		c.caller = &mcp.Caller{Version: mcp.LatestVersion, Capabilities: mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}}
		got, err := c.run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":[-32602]}`)
	})
}

// TestQuestionCallerCannotAnswer checks that a question is refused as the caller of the call would refuse it, and that no
// other caller of the session is asked, whether that one can answer or not.
func TestQuestionCallerCannotAnswer(t *testing.T) {
	elicit, sample := `"elicitation/create","params":{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`, `"sampling/createMessage","params":{"messages":[],"maxTokens":1}`
	openURL, roots := `"elicitation/create","params":{"mode":"url","message":"Go","url":"https://a.example","elicitationId":"1"}`, `"roots/list"`
	form, link := &mcp.ElicitationCapability{Form: &mcp.EmptyObject{}}, &mcp.ElicitationCapability{URL: &mcp.EmptyObject{}}
	for name, c := range map[string]struct {
		question string
		can      mcp.ClientCapabilities
		want     string // error code; "" if the caller is asked
	}{
		"form, nothing":  {elicit, mcp.ClientCapabilities{}, "-32602"},
		"form, URLs":     {elicit, mcp.ClientCapabilities{Elicitation: link}, "-32602"},
		"form, forms":    {elicit, mcp.ClientCapabilities{Elicitation: form}, ""},
		"URL, forms":     {openURL, mcp.ClientCapabilities{Elicitation: form}, "-32602"},
		"URL, URLs":      {openURL, mcp.ClientCapabilities{Elicitation: link}, ""},
		"sampling, form": {sample, mcp.ClientCapabilities{Elicitation: form}, "-32601"},
		"sampling":       {sample, mcp.ClientCapabilities{Sampling: &mcp.SamplingCapability{}}, ""},
		"roots, nothing": {roots, mcp.ClientCapabilities{}, "-32601"},
		"roots":          {roots, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}, ""},
	} {
		for _, beside := range []string{"alone", "beside a call that can be asked"} {
			t.Run(name+" "+beside, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var asking, waiting string
					h := eratest.LegacyHost(t, func(frame string) []string {
						switch {
						case eratest.Text(frame, "params", "name") == "wait":
							waiting = frame
						case eratest.Text(frame, "params", "name") == "ask":
							asking = frame
							return []string{`{"jsonrpc":"2.0","id":"q","method":` + c.question + `}`}
						case eratest.Text(frame, "id") == "q":
							return []string{eratest.Reply(asking, `{"code":`+cmp.Or(eratest.At(frame, "error", "code"), "0")+`}`)}
						}
						return nil
					})
					s := forwarding(t, h, nil)
					other, ended := newTestCall("ann", `{"name":"wait"}`), make(chan error, 1)
					if beside != "alone" {
						go func() {
							_, err := other.run(t.Context(), s, nil)
							ended <- err
						}()
						synctest.Wait()
					}
					call := newTestCall("ann", `{"name":"ask"}`)
					call.caller.Capabilities = c.can
					if c.want == "" && beside == "alone" {
						call.mustAsk(t, s, nil)
						return
					}
					if c.want != "" {
						got, err := call.run(t.Context(), s, nil)
						wantResult(t, got, err, `{"code":`+c.want+`}`)
					}
					if waiting != "" {
						h.Push(eratest.Reply(waiting, eratest.Finished))
						if err := <-ended; err != nil {
							t.Errorf("the other call ends with %v", err)
						}
					}
				})
			})
		}
	}
}

// TestQuestionAfterOtherCall checks that a question of which it was not certain whose it is reaches the caller that is left, but
// no caller that comes later, and none after another one was asked.
func TestQuestionAfterOtherCall(t *testing.T) {
	for name, c := range map[string]struct {
		other  mcp.ClientCapabilities
		user   string // of the call that remains or comes later
		later  bool
		reject bool
	}{
		"of a client that has no answers":       {mcp.ClientCapabilities{}, "ann", false, false},
		"of a client that has no answers, late": {mcp.ClientCapabilities{}, "ann", true, true},
		"that was asked, and a call of another": {allCapabilities, "bob", true, true},
		"that was asked, and one of the user":   {allCapabilities, "ann", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var waiting string
				h := eratest.LegacyHost(t, func(frame string) []string {
					if eratest.Text(frame, "params", "name") == "other" {
						waiting = frame
					}
					return nil
				})
				s := forwarding(t, h, nil)
				other := newTestCall("ann", `{"name":"other"}`)
				other.caller.Capabilities = c.other
				go other.run(t.Context(), s, nil)
				synctest.Wait()
				asked := make(chan error, 1)
				begin := func() {
					go func() {
						_, err := newTestCall(c.user, `{"name":"t"}`).run(t.Context(), s, nil)
						asked <- err
					}()
					synctest.Wait()
				}
				if !c.later {
					begin()
				}
				h.Push(question("x"))
				eratest.Pass(4 * time.Second)
				if c.later {
					begin()
				}
				h.Push(eratest.Reply(waiting, eratest.Finished))
				synctest.Wait()
				select {
				case err := <-asked:
					if _, ok := mcp.AsInputRequired(err); !ok || c.reject {
						t.Errorf("the call ends with %v", err)
					}
				default:
					if !c.reject {
						t.Error("the caller that is left is not asked")
					}
				}
				s.Close()
				synctest.Wait()
			})
		})
	}
}

// TestQuestionNobodyCanAnswer checks that a question that no client can answer is refused at once.
func TestQuestionNobodyCanAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAskingServer(t)
		a.noResult = true
		s := forwarding(t, a.Host, nil)
		for _, name := range []string{"one", "two"} {
			c := newTestCall("ann", `{"name":"`+name+`"}`)
			c.caller.Capabilities, c.caller.Info = mcp.ClientCapabilities{}, &mcp.Implementation{Name: name}
			go c.run(t.Context(), s, nil)
		}
		synctest.Wait()
		a.Push(question("x"))
		synctest.Wait()
		frames := a.Received()
		eratest.WantError(t, frames[len(frames)-1], jsonrpc.InvalidParams)
		s.Close()
		synctest.Wait()
	})
}

// TestRootsOutsideOfCalls checks that a server without a call gets no roots, and a call that begins within the time answers.
func TestRootsOutsideOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer string
		h := eratest.LegacyHost(t, func(frame string) []string {
			if eratest.Text(frame, "id") == "r" {
				answer = frame
			}
			return nil
		})
		forwarding(t, h, nil)
		h.Push(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
		eratest.Pass(5 * time.Second)
		synctest.Wait()
		eratest.Want(t, answer, `{"roots":[]}`, "result")
	})
}

// TestRelayedLevelOfSession checks that a forwarded call does not lower the level of the session.
func TestRelayedLevelOfSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.LegacyHost(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.Finished)} })
		s := session(t, h, &client.Options{Capabilities: &allCapabilities, LogLevel: mcp.LevelInfo})
		for _, level := range []mcp.LoggingLevel{mcp.LevelError, mcp.LevelInfo, mcp.LevelDebug, mcp.LevelError} {
			c := newTestCall("ann", `{"name":"t"}`)
			c.caller.LogLevel = level
			if _, err := c.run(t.Context(), s, nil); err != nil {
				t.Error(err)
			}
		}
		if got := fmt.Sprint(levelsOf(h)); got != "[info debug]" {
			t.Errorf("the levels are %s, want [info debug]", got)
		}
	})
}
