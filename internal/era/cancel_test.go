package era_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newSleeper has a tool that runs until it is cancelled.
func newSleeper() (s *server.Server, ended chan error) {
	s = newAsker(nil)
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

// testCancel: the function learns of it, and nothing is sent afterwards.
func testCancel(t *testing.T, version mcp.Version) {
	s, ended := newSleeper()
	p, other := eratest.Open(t, s, version, eratest.Askable), eratest.Open(t, s, version, eratest.Askable)
	p.Level = "debug"
	for _, open := range []*eratest.Peer{p, other} {
		open.LastID = 100
	}
	id := p.Start(mcp.MethodToolsCall, `{"name":"sleep","_meta":{"progressToken":1}}`)
	otherID := other.Start(mcp.MethodToolsCall, `{"name":"sleep"}`)

	// These are nobody's.
	for _, params := range []string{`{"requestId":"` + id + `"}`, `{"requestId":7}`, `{"requestId":null}`, `{}`, `{"requestId":{}}`, `[]`} {
		p.Send(told(mcp.NotificationCancelled, params))
	}
	p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	synctest.Wait()
	if len(ended) != 0 {
		t.Fatal("the call ends though another was cancelled")
	}
	for len(p.Frames) > 0 {
		eratest.Want(t, p.Next(), "-32600", "error", "code") // params that are an array are no message
	}

	p.Send(told(mcp.NotificationCancelled, `{"requestId":`+id+`,"reason":"changed my mind"}`))
	p.ExpectSilence()
	if cause := <-ended; !errors.Is(cause, jsonrpc.ErrCancelled) {
		t.Errorf("the function learns of %v, want %v", cause, jsonrpc.ErrCancelled)
	}
	if len(ended) != 0 {
		t.Errorf("another client's call %s of the same id ends too", otherID)
	}
	eratest.Want(t, p.Call(mcp.MethodToolsList, ""), "", "error") // the connection lives
	p.Send(told(mcp.NotificationCancelled, `{"requestId":`+id+`}`))
	p.ExpectSilence()
}

// testCancelWhileAsking: a legacy question ends with the call it belongs to.
func testCancelWhileAsking(t *testing.T, version mcp.Version) {
	if version.Modern() {
		return // nothing waits between the rounds
	}
	s, _ := newSleeper()
	p := eratest.Open(t, s, version, eratest.Askable)
	id := p.Start(mcp.MethodToolsCall, `{"name":"twin"}`)
	question := p.Next()
	p.Send(told(mcp.NotificationCancelled, `{"requestId":`+id+`}`))
	cancelled := p.Next()
	eratest.Want(t, cancelled, `"notifications/cancelled"`, "method")
	eratest.Want(t, cancelled, eratest.At(question, "id"), "params", "requestId")
	p.ExpectSilence()
	// An answer that comes too late is dropped.
	p.Send(`{"jsonrpc":"2.0","id":` + eratest.At(question, "id") + `,"result":{"roots":[]}}`)
	p.ExpectSilence()
}

// testDisconnect: the end of a connection ends its calls.
func testDisconnect(t *testing.T, version mcp.Version) {
	s, ended := newSleeper()
	p := eratest.Open(t, s, version, eratest.Askable)
	p.Start(mcp.MethodToolsCall, `{"name":"sleep"}`)
	synctest.Wait()
	p.Stream.Close()
	if cause := <-ended; cause == nil {
		t.Error("the function learns of no reason")
	}
}
