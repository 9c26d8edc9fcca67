package era_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newNotifyingServer returns a server with tools that send notifications.
func newNotifyingServer() *server.Server {
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

// levels makes a call. It returns the levels of its log messages and the response.
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
	p := eratest.Open(t, newNotifyingServer(), version, "{}")
	logged := func() string {
		levels, answer := levels(p, mcp.MethodToolsCall, `{"name":"log"}`)
		if eratest.ResultText(answer) != "done" {
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
				t.Errorf("a request with level %q gets %q, want %q", level, logged(), want)
			}
		}
		p.Level = ""
		eratest.WantError(t, p.Call(mcp.MethodSetLevel, `{"level":"debug"}`), jsonrpc.MethodNotFound)
		return
	}
	if got, want := logged(), "info notice warning error critical alert emergency"; got != want {
		t.Errorf("a new session gets %q, want %q", got, want)
	}
	for level, want := range map[string]string{"debug": all, "warning": "warning error critical alert emergency"} {
		if answer := p.Call(mcp.MethodSetLevel, `{"level":"`+level+`"}`); eratest.At(answer, "result") != "{}" {
			t.Errorf("the response to setting a level is %s", answer)
		}
		if got := logged(); got != want {
			t.Errorf("at level %s the session gets %q, want %q", level, got, want)
		}
	}
	for _, params := range []string{`{}`, `{"level":"loud"}`, `{"level":""}`, `{"level":3}`, `{"level":null}`} {
		eratest.WantError(t, p.Call(mcp.MethodSetLevel, params), jsonrpc.InvalidParams)
	}
}

func testLogMessage(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newNotifyingServer(), version, "{}")
	p.Level = "emergency"
	if !version.Modern() {
		p.Call(mcp.MethodSetLevel, `{"level":"emergency"}`)
	}
	p.Start(mcp.MethodToolsCall, `{"name":"log"}`)
	if got, want := p.Next(), notification(mcp.NotificationMessage, `{"level":"emergency","logger":"mill","data":{"message":"turning","speed":3}}`); got != want {
		t.Errorf("the message is %s, want %s", got, want)
	}
	p.Next()
	p.ExpectSilence()
}

func testProgress(t *testing.T, version mcp.Version) {
	p := eratest.Open(t, newNotifyingServer(), version, "{}")
	eratest.Want(t, p.Call(mcp.MethodToolsCall, `{"name":"progress"}`), `"done"`, "result", "content", "0", "text") // without a token
	message := `,"message":"turning"`
	if version < mcp.Version20250326 {
		message = ""
	}
	for _, token := range []string{"1", `"a"`, "9007199254740993", `"\u00e9"`} {
		id := p.Start(mcp.MethodToolsCall, `{"name":"progress","_meta":{"progressToken":`+token+`}}`)
		for _, done := range []string{"1", "2.5", "3"} {
			want := notification(mcp.NotificationProgress, `{"progressToken":`+token+`,"progress":`+done+`,"total":3`+message+`}`)
			if got := p.Next(); got != want {
				t.Errorf("the progress is %s, want %s", got, want)
			}
		}
		eratest.Want(t, p.Next(), id, "id") // the result comes last
	}
}

// TestProgressOfRounds checks that a repeated run sends no progress or log messages again.
func TestProgressOfRounds(t *testing.T) {
	eachVersion(t, func(t *testing.T, version mcp.Version) {
		s := newNotifyingServer()
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
		var received []string
		for range 10 {
			frame := p.Next()
			switch eratest.Text(frame, "method") {
			case mcp.NotificationProgress:
				received = append(received, eratest.At(frame, "params", "progress"))
			case mcp.NotificationMessage:
				received = append(received, eratest.Text(frame, "params", "data", "message"))
			case mcp.MethodRootsList:
				p.Send(`{"jsonrpc":"2.0","id":` + eratest.At(frame, "id") + `,"result":` + answers(mcp.MethodRootsList, "") + `}`)
			default:
				if eratest.At(frame, "result", "resultType") == `"input_required"` {
					p.Start(mcp.MethodToolsCall, retried(params, frame, answers))
					continue
				}
				// Each modern request has its own progress.
				want := "[before 1 after 2]"
				if version.Modern() {
					want = "[before 1 1 after 2]"
				}
				if fmt.Sprint(received) != want {
					t.Errorf("the caller gets %v, want %s", received, want)
				}
				return
			}
		}
		t.Error("the call does not end")
	})
}

// TestNothingFollowsResult checks that a goroutine that outlives its call sends nothing.
func TestNothingFollowsResult(t *testing.T) {
	eachVersion(t, func(t *testing.T, version mcp.Version) {
		s := newNotifyingServer()
		release := make(chan struct{})
		server.AddTool(s, server.Tool{Name: "leave"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			go func() {
				<-release
				_ = r.Progress(context.Background(), 1, 0, "")
				r.Logger("").Error("late")
			}()
			return "left", nil
		})
		p := eratest.Open(t, s, version, "{}")
		p.Level = "debug"
		eratest.Want(t, p.Call(mcp.MethodToolsCall, `{"name":"leave","_meta":{"progressToken":1}}`), `"left"`, "result", "content", "0", "text")
		close(release)
		p.ExpectSilence()
	})
}

// TestNothingFollowsHandler checks the same with a context that outlives the call.
func TestNothingFollowsHandler(t *testing.T) {
	s := newNotifyingServer()
	var kept *server.Request
	server.AddTool(s, server.Tool{Name: "keep"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		kept = r
		return "", r.Progress(t.Context(), 1, 0, "")
	})
	d := newSyncSession(s)
	d.initialize(t)
	d.call(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keep","_meta":{"progressToken":1}}}`)
	if err := kept.Progress(t.Context(), 2, 0, ""); err != nil || len(d.received) != 1 {
		t.Errorf("the caller gets %q, %v", d.received, err)
	}
}

// TestEndOfStream checks that what a stream of events has registered runs when the stream ends.
func TestEndOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int32
		s := server.New(mcp.Implementation{Name: "streams", Version: "1"}, &server.Options{Middleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
			return func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				call.OnDone(func() { ended.Add(1) })
				return mcp.Raw("{}"), nil
			}
		}}})
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		if answer := p.Call(mcp.MethodEventsStream, `{"name":"changed"}`); eratest.At(answer, "result") == "" || ended.Load() != 1 {
			t.Errorf("%d times ended with %s", ended.Load(), answer)
		}
	})
}

// TestConcurrentProgress checks that the progress of each concurrent call comes before its result.
func TestConcurrentProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := eratest.Open(t, newNotifyingServer(), mcp.LatestVersion, "{}")
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

// newBlockingServer returns a server with a tool that runs until it is cancelled.
func newBlockingServer() (s *server.Server, ended chan error) {
	s = newAskingServer(nil)
	ended = make(chan error, 10)
	server.AddTool(s, server.Tool{Name: "sleep"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		<-ctx.Done()
		_ = r.Progress(context.Background(), 1, 0, "still here")
		r.Logger("").ErrorContext(context.Background(), "still here")
		ended <- context.Cause(ctx)
		return "slept", nil
	})
	return s, ended
}

// testCancel checks that cancelling ends the function's context, and that no message follows.
func testCancel(t *testing.T, version mcp.Version) {
	s, ended := newBlockingServer()
	p, other := eratest.Open(t, s, version, eratest.Askable), eratest.Open(t, s, version, eratest.Askable)
	p.Level = "debug"
	for _, open := range []*eratest.Peer{p, other} {
		open.LastID = 100
	}
	id := p.Start(mcp.MethodToolsCall, `{"name":"sleep","_meta":{"progressToken":1}}`)
	otherID := other.Start(mcp.MethodToolsCall, `{"name":"sleep"}`)

	// These cancel no call.
	for _, params := range []string{`{"requestId":"` + id + `"}`, `{"requestId":7}`, `{"requestId":null}`, `{}`, `{"requestId":{}}`, `[]`} {
		p.Send(notification(mcp.NotificationCancelled, params))
	}
	p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	synctest.Wait()
	if len(ended) != 0 {
		t.Fatal("the wrong cancellation ended the call")
	}
	for len(p.Frames) > 0 {
		eratest.Want(t, p.Next(), "-32600", "error", "code") // invalid params of a notification
	}

	p.Send(notification(mcp.NotificationCancelled, `{"requestId":`+id+`,"reason":"changed my mind"}`))
	p.ExpectSilence()
	if cause := <-ended; !errors.Is(cause, jsonrpc.ErrCancelled) {
		t.Errorf("the cause of the context is %v, want %v", cause, jsonrpc.ErrCancelled)
	}
	if len(ended) != 0 {
		t.Errorf("another client's call %s of the same id ends too", otherID)
	}
	eratest.Want(t, p.Call(mcp.MethodToolsList, ""), "", "error") // the connection still works
	p.Send(notification(mcp.NotificationCancelled, `{"requestId":`+id+`}`))
	p.ExpectSilence()
}

// TestNewSessionCancels checks that a second handshake cancels the calls of the first session, which
// are answered, and ends its subscriptions.
func TestNewSessionCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ended := newBlockingServer()
		server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		addResource(s, "book:1")
		p := eratest.Open(t, s, mcp.LatestLegacyVersion, eratest.Askable)
		p.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`)
		sleeping := p.Start(mcp.MethodToolsCall, `{"name":"sleep"}`)
		waiting := p.Start(mcp.MethodToolsCall, `{"name":"wait"}`)
		synctest.Wait()
		handshake := p.Start(mcp.MethodInitialize, eratest.InitializeParams(p.Version, "{}"))
		answers := make(map[string]string)
		for range 3 {
			frame := p.Next()
			for eratest.Text(frame, "method") != "" {
				frame = p.Next() // a log message
			}
			answers[eratest.At(frame, "id")] = frame
		}
		eratest.Want(t, answers[handshake], "", "error")
		if got := eratest.ResultText(answers[sleeping]); got != "slept" {
			t.Errorf("the call that ignores its context ends with %s", answers[sleeping])
		}
		eratest.Want(t, answers[waiting], "true", "result", "isError")
		if cause := <-ended; !strings.Contains(cause.Error(), "new session") {
			t.Errorf("the cause of the context is %v", cause)
		}
		s.ResourceUpdated("book:1")
		p.ExpectSilence()
		p.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`)
		s.ResourceUpdated("book:1")
		eratest.Want(t, p.Next(), `"notifications/resources/updated"`, "method")
	})
}

// testCancelWhileAsking checks that cancelling a call cancels its legacy question.
func testCancelWhileAsking(t *testing.T, version mcp.Version) {
	if version.Modern() {
		return // a modern call does not wait for answers
	}
	s, _ := newBlockingServer()
	p := eratest.Open(t, s, version, eratest.Askable)
	id := p.Start(mcp.MethodToolsCall, `{"name":"twin"}`)
	question := p.Next()
	p.Send(notification(mcp.NotificationCancelled, `{"requestId":`+id+`}`))
	cancelled := p.Next()
	eratest.Want(t, cancelled, `"notifications/cancelled"`, "method")
	eratest.Want(t, cancelled, eratest.At(question, "id"), "params", "requestId")
	p.ExpectSilence()
	// A late answer is dropped.
	p.Send(`{"jsonrpc":"2.0","id":` + eratest.At(question, "id") + `,"result":{"roots":[]}}`)
	p.ExpectSilence()
}

// testDisconnect checks that the end of a connection ends its calls.
func testDisconnect(t *testing.T, version mcp.Version) {
	s, ended := newBlockingServer()
	p := eratest.Open(t, s, version, eratest.Askable)
	p.Start(mcp.MethodToolsCall, `{"name":"sleep"}`)
	synctest.Wait()
	p.Stream.Close()
	if cause := <-ended; cause == nil {
		t.Error("the context has no cause")
	}
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
