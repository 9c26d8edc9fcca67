package era_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newTalker has tools that tell their caller something before their result.
func newTalker() *server.Server {
	s := server.New(mcp.Implementation{Name: "talker", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "log"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		log := r.Logger("mill")
		for _, level := range []slog.Level{-4, 0, 2, 4, 8, 12, 16, 20} {
			log.Log(ctx, level, "turning", "speed", 3)
		}
		return "done", nil
	})
	server.AddTool(s, server.Tool{Name: "progress"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		for _, done := range []float64{1, 1, 0.5, 2.5, -1, 2.5, 3} {
			if err := r.Progress(ctx, done, 3, "turning"); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	return s
}

// levels are those of the log messages before an answer.
func levels(p *eratest.Peer, method, params string) (levels []string, answer string) {
	p.T.Helper()
	p.Start(method, params)
	for {
		frame := p.Next()
		if eratest.Text(frame, "method") != mcp.NotificationMessage {
			return levels, frame
		}
		levels = append(levels, eratest.Text(frame, "params", "level"))
	}
}

func testLogLevel(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newTalker(), version, "{}")
	logged := func() string {
		levels, answer := levels(p, mcp.MethodToolsCall, `{"name":"log"}`)
		if eratest.Said(answer) != "done" {
			t.Errorf("the call ends with %s", answer)
		}
		return strings.Join(levels, " ")
	}
	const all = "debug info notice warning error critical alert emergency"
	if version.Modern() {
		for level, want := range map[string]string{
			"": "", "debug": all, "notice": "notice warning error critical alert emergency", "emergency": "emergency",
		} {
			if p.Level = level; logged() != want {
				t.Errorf("a request of level %q is told %q, want %q", level, logged(), want)
			}
		}
		p.Level = ""
		eratest.WantError(t, p.Call(mcp.MethodSetLevel, `{"level":"debug"}`), jsonrpc.MethodNotFound)
		return
	}
	if got, want := logged(), "info notice warning error critical alert emergency"; got != want {
		t.Errorf("a new session is told %q, want %q", got, want)
	}
	for level, want := range map[string]string{"debug": all, "warning": "warning error critical alert emergency"} {
		if answer := p.Call(mcp.MethodSetLevel, `{"level":"`+level+`"}`); eratest.At(answer, "result") != "{}" {
			t.Errorf("setting a level is answered with %s", answer)
		}
		if got := logged(); got != want {
			t.Errorf("at level %s the session is told %q, want %q", level, got, want)
		}
	}
	for _, params := range []string{`{}`, `{"level":"loud"}`, `{"level":""}`, `{"level":3}`, `{"level":null}`} {
		eratest.WantError(t, p.Call(mcp.MethodSetLevel, params), jsonrpc.InvalidParams)
	}
}

func testLogMessage(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newTalker(), version, "{}")
	p.Level = "emergency"
	if !version.Modern() {
		p.Call(mcp.MethodSetLevel, `{"level":"emergency"}`)
	}
	p.Start(mcp.MethodToolsCall, `{"name":"log"}`)
	if got, want := p.Next(), told(mcp.NotificationMessage, `{"level":"emergency","logger":"mill","data":{"message":"turning","speed":3}}`); got != want {
		t.Errorf("the message is told as %s, want %s", got, want)
	}
	p.Next()
	p.ExpectSilence()
}

func testProgress(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newTalker(), version, "{}")
	eratest.Want(t, p.Call(mcp.MethodToolsCall, `{"name":"progress"}`), `"done"`, "result", "content", "0", "text") // nobody asked
	message := `,"message":"turning"`
	if version < mcp.Version20250326 {
		message = ""
	}
	for _, token := range []string{"1", `"a"`, "9007199254740993", `"\u00e9"`} {
		id := p.Start(mcp.MethodToolsCall, `{"name":"progress","_meta":{"progressToken":`+token+`}}`)
		for _, done := range []string{"1", "2.5", "3"} {
			want := told(mcp.NotificationProgress, `{"progressToken":`+token+`,"progress":`+done+`,"total":3`+message+`}`)
			if got := p.Next(); got != want {
				t.Errorf("the progress is told as %s, want %s", got, want)
			}
		}
		eratest.Want(t, p.Next(), id, "id") // the result comes last
	}
}

// TestProgressOfRounds: a function that runs again does not go back.
func TestProgressOfRounds(t *testing.T) {
	eachVersion(t, func(t *testing.T, version mcp.Version) {
		s := newTalker()
		server.AddTool(s, server.Tool{Name: "ask"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			r.Logger("").Info("before")
			_ = r.Progress(ctx, 1, 0, "")
			if _, err := server.Roots(r, "roots"); err != nil {
				return "", err
			}
			r.Logger("").Info("after")
			return "done", r.Progress(ctx, 2, 0, "")
		})
		p := eratest.Open(t, s, version, eratest.Askable)
		p.Level = "info"
		params := `{"name":"ask","_meta":{"progressToken":1}}`
		p.Start(mcp.MethodToolsCall, params)
		var told []string
		for range 10 {
			frame := p.Next()
			switch eratest.Text(frame, "method") {
			case mcp.NotificationProgress:
				told = append(told, eratest.At(frame, "params", "progress"))
			case mcp.NotificationMessage:
				told = append(told, eratest.Text(frame, "params", "data", "message"))
			case mcp.MethodRootsList:
				p.Send(`{"jsonrpc":"2.0","id":` + eratest.At(frame, "id") + `,"result":` + answers(mcp.MethodRootsList, "") + `}`)
			default:
				if eratest.At(frame, "result", "resultType") == `"input_required"` {
					p.Start(mcp.MethodToolsCall, retried(params, frame, answers))
					continue
				}
				// A request of its own begins its progress anew.
				want := "[before 1 after 2]"
				if version.Modern() {
					want = "[before 1 1 after 2]"
				}
				if fmt.Sprint(told) != want {
					t.Errorf("the caller is told %v, want %s", told, want)
				}
				return
			}
		}
		t.Error("the call does not end")
	})
}

// TestNothingFollowsResult: a function's goroutine that goes on tells nobody.
func TestNothingFollowsResult(t *testing.T) {
	eachVersion(t, func(t *testing.T, version mcp.Version) {
		s := newTalker()
		goOn := make(chan struct{})
		server.AddTool(s, server.Tool{Name: "leave"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			go func() {
				<-goOn
				_ = r.Progress(context.Background(), 1, 0, "")
				r.Logger("").Error("late")
			}()
			return "left", nil
		})
		p := eratest.Open(t, s, version, "{}")
		p.Level = "debug"
		eratest.Want(t, p.Call(mcp.MethodToolsCall, `{"name":"leave","_meta":{"progressToken":1}}`), `"left"`, "result", "content", "0", "text")
		close(goOn)
		p.ExpectSilence()
	})
}

// TestNothingFollowsHandler: nor on a transport whose contexts last longer.
func TestNothingFollowsHandler(t *testing.T) {
	s := newTalker()
	var kept *server.Request
	server.AddTool(s, server.Tool{Name: "keep"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		kept = r
		return "", r.Progress(t.Context(), 1, 0, "")
	})
	d := transportless(s)
	d.initialize(t)
	d.call(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keep","_meta":{"progressToken":1}}}`)
	if err := kept.Progress(t.Context(), 2, 0, ""); err != nil || len(d.told) != 1 {
		t.Errorf("the caller is told %q, %v", d.told, err)
	}
}

// TestManyAtOnce: what belongs to one call is before its own result, whatever
// else runs.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := eratest.Open(t, newTalker(), mcp.LatestVersion, "{}")
		const calls = 50
		for i := range calls {
			p.Start(mcp.MethodToolsCall, fmt.Sprintf(`{"name":"progress","_meta":{"progressToken":%d}}`, i+1))
		}
		seen := make(map[string]int)
		for range calls * 4 {
			frame := p.Next()
			if id := eratest.At(frame, "id"); id != "" {
				if seen[id] != 3 {
					t.Errorf("the result of %s comes after %d notifications", id, seen[id])
				}
				continue
			}
			seen[eratest.At(frame, "params", "progressToken")]++
		}
	})
}
