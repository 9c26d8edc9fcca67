package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// TestCancel: an operator cancels a call while it runs, waits for a person, asks its caller, or is a task. The row ends at that
// moment. Callers get the error then too, unless they ask by themselves. The server gets the cancellation then.
func TestCancel(t *testing.T) {
	for _, tool := range []string{"hang", "write", "ask", "hang_task"} {
		for _, front := range []client.Era{client.Modern, client.Legacy} {
			for _, upstream := range []client.Era{client.Modern, client.Legacy} {
				t.Run(fmt.Sprintf("%s/%v-%v", tool, front, upstream), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testCancel(t, tool, front, upstream) })
				})
			}
		}
	}
}

func testCancel(t *testing.T, tool string, front, upstream client.Era) {
	r := newRig(t, upstream, &console.RecorderOptions{Bodies: true})
	c, err := console.New(r.server, r.bridge, &console.Options{Recorder: r.recorder, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	session := r.connect(t, front)
	began := time.Now()
	answered := make(chan error, 1)
	go func() {
		result, err := session.CallTool(t.Context(), "files__"+tool, json.RawMessage("{}"), nil)
		if err == nil {
			err = fmt.Errorf("the result is %+v", result)
		}
		answered <- err
	}()
	pass(2 * time.Second)
	synctest.Wait()
	if err := c.Cancel(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	waits := strings.Contains(tool, "hang") || tool == "ask" && upstream == client.Legacy // at the server
	if want := map[bool]int32{true: 1}[waits]; r.canceled.Load() != want {
		t.Errorf("the server was told of %d canceled calls, want %d", r.canceled.Load(), want)
	}
	err = <-answered
	took := time.Since(began)
	synctest.Wait()
	row := r.recorder.Rows()[0]
	if row.Outcome != "canceled" || !row.Ended || row.Took != (2*time.Second).Microseconds() {
		t.Errorf("the row is %+v", row)
	}
	latest := 2 * time.Second
	if front == client.Modern && tool == "ask" {
		latest = 5 * time.Second // the user of the client answers a question that began after a second
	} else if row.Task {
		latest = 5 * time.Second // the client asks for the state of the task
	}
	if took > latest {
		t.Errorf("the caller got the error after %v", took)
	}
	if wire, ok := errors.AsType[*jsonrpc.Error](err); !row.Task && (!ok || string(wire.Data) != `{"type":"CANCELED","executed":"maybe"}`) {
		t.Errorf("the caller got %v", err)
	}
	if strings.Contains(err.Error(), "the result is") || row.Task && !strings.Contains(err.Error(), "cancel") {
		t.Errorf("the caller got %v", err)
	}
	if err := c.Cancel(t.Context(), 1); err == nil {
		t.Error("it is canceled twice")
	}
	if rows := r.recorder.Rows(); len(rows) != 1 {
		t.Errorf("there are %d rows", len(rows))
	}
}

// TestForgottenQuestionExpires: the row of a call whose caller never answers ends with the state of the call.
func TestForgottenQuestionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, client.Modern, nil)
		session := r.connect(t, client.Modern)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			pass(2 * time.Second)
			leave()
		}()
		if _, err := session.CallTool(ctx, "files__ask", json.RawMessage("{}"), nil); err == nil {
			t.Error("the call has a result")
		}
		pass(59 * time.Minute)
		if row := r.recorder.Rows()[0]; row.Outcome != "asking" {
			t.Errorf("the row is %+v", row)
		}
		pass(2 * time.Minute)
		if row := r.recorder.Rows()[0]; row.Outcome != "expired" || !row.Ended {
			t.Errorf("the row is %+v", row)
		}
	})
}

// TestCanceledError: the error is that of a canceled context, and callers get an internal error with a type.
func TestCanceledError(t *testing.T) {
	wire, ok := errors.AsType[*jsonrpc.Error](console.ErrCanceled)
	if !errors.Is(console.ErrCanceled, context.Canceled) || !ok || wire.Code != jsonrpc.InternalError || wire.Message != console.ErrCanceled.Error() {
		t.Errorf("the error is %v, for callers %+v", console.ErrCanceled, wire)
	}
}
