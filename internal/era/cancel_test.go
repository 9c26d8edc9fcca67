package era_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

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
	p, other := open(t, s, version, askable), open(t, s, version, askable)
	p.level = "debug"
	for _, open := range []*peer{p, other} {
		open.lastID = 100
	}
	id := p.start(mcp.MethodToolsCall, `{"name":"sleep","_meta":{"progressToken":1}}`)
	otherID := other.start(mcp.MethodToolsCall, `{"name":"sleep"}`)

	// These are nobody's.
	for _, params := range []string{`{"requestId":"` + id + `"}`, `{"requestId":7}`, `{"requestId":null}`, `{}`, `{"requestId":{}}`, `[]`} {
		p.send(told(mcp.NotificationCancelled, params))
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	synctest.Wait()
	if len(ended) != 0 {
		t.Fatal("the call ends though another was cancelled")
	}
	for len(p.frames) > 0 {
		want(t, p.next(), "-32600", "error", "code") // params that are an array are no message
	}

	p.send(told(mcp.NotificationCancelled, `{"requestId":`+id+`,"reason":"changed my mind"}`))
	p.expectSilence()
	if cause := <-ended; !errors.Is(cause, jsonrpc.ErrCancelled) {
		t.Errorf("the function learns of %v, want %v", cause, jsonrpc.ErrCancelled)
	}
	if len(ended) != 0 {
		t.Errorf("another client's call %s of the same id ends too", otherID)
	}
	want(t, p.call(mcp.MethodToolsList, ""), "", "error") // the connection lives
	p.send(told(mcp.NotificationCancelled, `{"requestId":`+id+`}`))
	p.expectSilence()
}

// testCancelWhileAsking: a legacy question ends with the call it belongs to.
func testCancelWhileAsking(t *testing.T, version mcp.Version) {
	if version.Modern() {
		return // nothing waits between the rounds
	}
	s, _ := newSleeper()
	p := open(t, s, version, askable)
	id := p.start(mcp.MethodToolsCall, `{"name":"twin"}`)
	question := p.next()
	p.send(told(mcp.NotificationCancelled, `{"requestId":`+id+`}`))
	cancelled := p.next()
	want(t, cancelled, `"notifications/cancelled"`, "method")
	want(t, cancelled, at(question, "id"), "params", "requestId")
	p.expectSilence()
	// An answer that comes too late is dropped.
	p.send(`{"jsonrpc":"2.0","id":` + at(question, "id") + `,"result":{"roots":[]}}`)
	p.expectSilence()
}

// testDisconnect: the end of a connection ends its calls.
func testDisconnect(t *testing.T, version mcp.Version) {
	s, ended := newSleeper()
	p := open(t, s, version, askable)
	p.start(mcp.MethodToolsCall, `{"name":"sleep"}`)
	synctest.Wait()
	p.stream.Close()
	if cause := <-ended; cause == nil {
		t.Error("the function learns of no reason")
	}
}
