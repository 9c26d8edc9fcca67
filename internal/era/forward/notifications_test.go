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
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestRelayedProgress: progress comes to its caller under the caller's token, all of it
// before the result, and nothing after.
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
			p := eratest.Open(t, faceOf(forwarding(t, h, nil), nil), caller, can)
			id := p.Start(mcp.MethodToolsCall, `{"name":"t","_meta":{"progressToken":"ours"}}`)
			for i := range steps {
				eratest.Want(t, p.Next(), fmt.Sprintf(`{"x":1e400,"progressToken":"ours","progress":%d,"message":"\u00e9"}`, i+1), "params")
			}
			eratest.Want(t, p.Next(), id, "id")
			p.ExpectSilence()

			p.Start(mcp.MethodToolsCall, `{"name":"t"}`) // who wants no progress is told none
			eratest.Want(t, p.Next(), strconv.Itoa(p.LastID), "id")
			calls := h.Calls()
			eratest.Want(t, calls[len(calls)-1], "", "params", "_meta", "progressToken")
			p.ExpectSilence()
		}
	})
}

// TestRelayedProgressToTheOldest: the first version has no messages with progress.
func TestRelayedProgressToTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.LegacyHost(t, func(frame string) []string {
			return []string{
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + eratest.At(frame, "params", "_meta", "progressToken") + `,"message":"m","progress":1}}`,
				eratest.Reply(frame, eratest.Finished),
			}
		})
		p := eratest.Open(t, faceOf(forwarding(t, h, nil), nil), mcp.Version20241105, "{}")
		p.Start(mcp.MethodToolsCall, `{"name":"t","_meta":{"progressToken":7}}`)
		eratest.Want(t, p.Next(), `{"progressToken":7,"progress":1}`, "params")
		p.Next()
	})
}

// TestRelayedApart: callers who use the same ids and tokens are told what is theirs.
func TestRelayedApart(t *testing.T) {
	eachPair(t, func(t *testing.T, caller mcp.Version, upstream func(testing.TB, func(string) []string) *eratest.Host) {
		var calls []string
		h := upstream(t, func(frame string) (frames []string) {
			if calls = append(calls, frame); len(calls) < 8 {
				return nil
			}
			for i := range calls { // the other way round
				frame := calls[len(calls)-1-i]
				who := eratest.Text(frame, "params", "name")
				frames = append(frames,
					fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%q}}`, eratest.At(frame, "params", "_meta", "progressToken"), who),
					eratest.Reply(frame, `{"content":[{"type":"text","text":"`+who+`"}]}`))
			}
			return frames
		})
		face := faceOf(forwarding(t, h, nil), nil)
		var peers []*eratest.Peer
		for i := range 8 {
			p := eratest.Open(t, face, caller, eratest.Askable)
			p.Start(mcp.MethodToolsCall, fmt.Sprintf(`{"name":"caller %d","_meta":{"progressToken":1}}`, i))
			peers = append(peers, p)
			synctest.Wait()
		}
		for i, p := range peers {
			progress, answer := p.Next(), p.Next()
			who := fmt.Sprintf("caller %d", i)
			eratest.Want(t, progress, "1", "params", "progressToken")
			if eratest.Text(progress, "params", "message") != who || eratest.Said(answer) != who {
				t.Errorf("%s gets %s and %s", who, progress, answer)
			}
			p.ExpectSilence()
		}
	})
}

// TestRelayedFlood: a server that keeps telling of a call that it has answered does not
// keep the answer from its caller.
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
	v := newVisit("ann", `{"name":"t","_meta":{"progressToken":1}}`)
	if _, err := v.run(t.Context(), s, nil); err != nil {
		t.Error(err)
	}
	close(stop)
	<-ended
}

// TestRelayedSlowly: who takes progress slowly holds up nobody else, and what is kept for
// it has a bound; the newest stays.
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
		v := newVisit("ann", `{"name":"t","_meta":{"progressToken":1}}`)
		v.slow = time.Second
		if _, err := v.run(t.Context(), s, nil); err != nil {
			t.Fatal(err)
		}
		last := v.notes[len(v.notes)-1]
		if n := len(v.notes); n > 2*1024+100 || !strings.Contains(last, `"progress":5000}`) {
			t.Errorf("%d notes are told, the last is %s", n, last)
		}
	})
}

// TestRelayedWhenParked: what the server tells while the caller is asked is told when it
// comes back.
func TestRelayedWhenParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		v := newVisit("ann", `{"name":"t","arguments":{"asks":1},"_meta":{"progressToken":"x"}}`)
		v.caller.LogLevel = mcp.LevelInfo
		v.ask(t, s, nil)
		a.Push(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`)
		a.Push(logLine("info", "waiting"))
		synctest.Wait()
		if got := v.told(); got != "" {
			t.Errorf("told is %s before the caller comes back", got)
		}
		if _, err := v.say(accepted).run(t.Context(), s, nil); err != nil {
			t.Error(err)
		}
		if got, want := v.told(), `{"progressToken":"x","progress":1} {"level":"info","data":"waiting"}`; got != want {
			t.Errorf("told is %s, want %s", got, want)
		}
	})
}

func logLine(level, data string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":%q}}`, level, data)
}

// TestRelayedLog: each caller hears what it wants to; a legacy server is told the most
// verbose level that anybody has asked for.
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
			v := newVisit("ann", `{"name":"t"}`)
			v.caller.LogLevel = level
			if _, err := v.run(t.Context(), s, nil); err != nil {
				t.Error(err)
			}
			if got := v.told(); got != want {
				t.Errorf("who wants %q is told %s, want %s", level, got, want)
			}
		}
		last := mcp.LevelEmergency
		for _, frame := range h.Heard() {
			if eratest.Text(frame, "method") != mcp.MethodSetLevel {
				continue
			}
			level := mcp.LoggingLevel(eratest.Text(frame, "params", "level"))
			if level.Severity() >= last.Severity() {
				t.Errorf("the server is told %s after %s", level, last)
			}
			last = level
		}
		if last != mcp.LevelDebug {
			t.Errorf("the server was told %s last", last)
		}
	})
}

// TestRelayedLevelAtOnce: callers who come together do not undo each other's level.
func TestRelayedLevelAtOnce(t *testing.T) {
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
				v := newVisit("ann", `{"name":"t"}`)
				v.caller.LogLevel = levels[i%len(levels)]
				if _, err := v.run(t.Context(), s, nil); err != nil {
					t.Error(err)
				}
			}()
		}
		eratest.Pass(10 * time.Second)
		last := mcp.LevelEmergency
		for _, frame := range h.Heard() {
			if eratest.Text(frame, "method") == mcp.MethodSetLevel {
				level := mcp.LoggingLevel(eratest.Text(frame, "params", "level"))
				if level.Severity() >= last.Severity() {
					t.Errorf("the server is told %s after %s", level, last)
				}
				last = level
			}
		}
		if last != mcp.LevelDebug {
			t.Errorf("the server is told %s last", last)
		}
	})
}

// TestRelayedLogOnce: the lines of a call that goes on are all told, once each.
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
		p := eratest.Open(t, faceOf(forwarding(t, h, nil), nil), caller, eratest.Askable)
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
		if got := eratest.Said(p.Next()); got != "done" {
			t.Errorf("the call ends in %s", got)
		}
	})
}

// Where nothing tells which call a question belongs to, it is the oldest that listens,
// if all are of one principal.

// TestAttribution: the oldest call that listens is asked.
func TestAttribution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		a.silent = true
		s := forwarding(t, a.Host, nil)
		asked := make(chan string, 9)
		begin := func(name string) {
			v := newVisit("ann", fmt.Sprintf(`{"name":%q}`, name))
			go func() {
				_, err := v.run(t.Context(), s, nil)
				if _, ok := mcp.AsInputRequired(err); ok {
					asked <- name
				}
			}()
			synctest.Wait()
		}
		begin("old")
		begin("young")
		a.Push(question("x"))
		synctest.Wait()
		a.Push(question("y")) // the old one is being asked, and does not listen
		if first, second := <-asked, <-asked; first != "old" || second != "young" {
			t.Errorf("asked are %s and %s", first, second)
		}
		s.Close()
		synctest.Wait()
	})
}

// TestAttributionRefused: a question may not reach another user.
func TestAttributionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		a.silent = true
		s := forwarding(t, a.Host, nil)
		for _, who := range []string{"ann", "bob"} {
			go newVisit(who, `{"name":"t"}`).run(t.Context(), s, nil)
		}
		synctest.Wait()
		a.Push(question("x"))
		a.Push(logLine("info", "whose?"))
		synctest.Wait()
		frames := a.Heard()
		eratest.Want(t, frames[len(frames)-1], `"ask x"`, "id")
		eratest.WantError(t, frames[len(frames)-1], jsonrpc.InvalidRequest)
		s.Close()
		synctest.Wait()
	})
}

// TestAttributionWaits: a server may ask as soon as it is connected; the first call's
// caller is asked.
func TestAttributionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		a.silent = true
		s := forwarding(t, a.Host, nil)
		a.Push(question("x"))
		eratest.Pass(4 * time.Second)
		v := newVisit("ann", `{"name":"t"}`)
		v.ask(t, s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := v.say(accepted).run(ctx, s, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		eratest.Want(t, strings.Join(a.said["x"], ","), accepted)

		a.Push(question("y"))
		eratest.Pass(6 * time.Second)
		frames := a.Heard()
		eratest.Want(t, frames[len(frames)-1], `"ask y"`, "id")
		eratest.WantError(t, frames[len(frames)-1], jsonrpc.InvalidRequest)
	})
}

// TestAttributionToAskers: calls that may not ask are not taken for the one that does.
func TestAttributionToAskers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := forwarding(t, a.Host, nil)
		completion := newVisit("ann", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"v"}}`)
		completion.method = mcp.MethodComplete
		ctx, cancel := context.WithCancel(t.Context())
		go completion.run(ctx, s, nil)
		synctest.Wait()
		newVisit("ann", asksOnce).ask(t, s, nil)
		cancel()
		synctest.Wait()
	})
}

// TestQuestionWithoutCapability: a server is answered that it may not ask.
func TestQuestionWithoutCapability(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newNotary(t)
		s := session(t, a.Host, &client.Options{Capabilities: &mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}})
		v := newVisit("ann", asksOnce)
		v.caller = &mcp.Caller{Version: mcp.LatestVersion, Capabilities: mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}}
		got, err := v.run(t.Context(), s, nil)
		wantResult(t, got, err, `{"content":[],"said":[-32602]}`)
		for can, serves := range map[*mcp.ClientCapabilities]bool{&v.caller.Capabilities: true, &anything: false, {}: false} {
			if s.CanForward(can) != serves {
				t.Errorf("CanForward(%v) is %t", can, !serves)
			}
		}
	})
}

// TestLevelOfTheSession: a forwarded call does not make the server less verbose than the
// session itself wants it.
func TestLevelOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := eratest.LegacyHost(t, func(frame string) []string { return []string{eratest.Reply(frame, eratest.Finished)} })
		s := session(t, h, &client.Options{Capabilities: &anything, LogLevel: mcp.LevelInfo})
		var levels []string
		for _, level := range []mcp.LoggingLevel{mcp.LevelError, mcp.LevelInfo, mcp.LevelDebug, mcp.LevelError} {
			v := newVisit("ann", `{"name":"t"}`)
			v.caller.LogLevel = level
			if _, err := v.run(t.Context(), s, nil); err != nil {
				t.Error(err)
			}
		}
		for _, frame := range h.Heard() {
			if eratest.Text(frame, "method") == mcp.MethodSetLevel {
				levels = append(levels, eratest.Text(frame, "params", "level"))
			}
		}
		if got := strings.Join(levels, " "); got != "info debug" {
			t.Errorf("the server is told the levels %s, want info debug", got)
		}
	})
}
