package forward_test

import (
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
		for can, serves := range map[*mcp.ClientCapabilities]bool{&c.caller.Capabilities: true, &allCapabilities: false, {}: false} {
			if s.CanForward(can) != serves {
				t.Errorf("CanForward(%v) is %t", can, !serves)
			}
		}
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
