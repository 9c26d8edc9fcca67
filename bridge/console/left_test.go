package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// TestCallersWhoLeave: a call that nobody waits for any more is canceled and not failed, whatever it was doing. A modern client
// that was asked may answer on another connection, so its call goes on until it expires.
func TestCallersWhoLeave(t *testing.T) {
	doing := map[string]struct{ outcome, open string }{
		"write": {"waiting", "person"},
		"ask":   {"asking", "person"},
		"hang":  {"running", "served"},
	}
	for _, how := range []string{"its client cancels it", "its connection ends", "its session is deleted", "an operator cancels it"} {
		for tool, state := range doing {
			for _, front := range []client.Era{client.Modern, client.Legacy} {
				for _, upstream := range []client.Era{client.Modern, client.Legacy} {
					t.Run(fmt.Sprintf("%s while %s/%v-%v", how, state.outcome, front, upstream), func(t *testing.T) {
						t.Parallel()
						c := newLeaver(t, how == "its session is deleted", front, upstream)
						ctx, cancel := context.WithCancel(t.Context())
						done := make(chan struct{})
						go func() {
							defer close(done)
							_, _ = c.session.CallTool(ctx, "files__"+tool, json.RawMessage(never), nil) // the row is compared
						}()
						defer func() {
							cancel()
							<-done
						}()
						waittest.Until(t, "a call that is "+state.outcome, func() bool {
							rows := c.recorder.Rows()
							return len(rows) == 1 && rows[0].Outcome == state.outcome && rows[0].Open == state.open
						})
						switch how {
						case "its client cancels it":
							cancel()
						case "an operator cancels it":
							if err := c.console.Cancel(t.Context(), 1); err != nil {
								t.Fatal(err)
							}
						default:
							c.session.Close()
						}
						if front == client.Modern && tool == "ask" && how != "an operator cancels it" {
							if row := c.recorder.Rows()[0]; row.Outcome != "asking" {
								t.Errorf("the row is %+v", row)
							}
							return
						}
						waittest.Until(t, "the end of the call", func() bool { return c.recorder.Rows()[0].Ended })
						got := c.recorder.Call(t, 1)
						if got.Row.Outcome == "tool error" && tool == "ask" && upstream == client.Legacy && how == "its connection ends" {
							return // the server was told that its question was not answered, before the end of the connection was known
						}
						if got.Row.Outcome != "canceled" {
							t.Errorf("the call is %s: %+v", got.Row.Outcome, got.Failure)
						}
					})
				}
			}
		}
	}
}

// A leaver is a client, and the server that it leaves.
type leaver struct {
	*rig
	console *console.Console
	session *client.Session
}

// newLeaver connects a client whose calls do not continue as tasks, and who answers no question.
func newLeaver(t *testing.T, overHTTP bool, front, upstream client.Era) *leaver {
	t.Helper()
	l := &leaver{rig: newRig(t, upstream, &console.RecorderOptions{Bodies: true})}
	var err error
	if l.console, err = console.New(l.server, l.bridge, &console.Options{Recorder: l.recorder, Logger: quiet()}); err != nil {
		t.Fatal(err)
	}
	dialer := transport.Pipe(l.server)
	if overHTTP {
		endpoint := streamable.Handler(l.server, &streamable.Options{Logger: quiet()})
		web := httptest.NewServer(endpoint)
		t.Cleanup(web.Close)
		t.Cleanup(func() { _ = endpoint.Close() })
		dialer = streamable.Dial(web.URL, nil)
	}
	l.session, err = client.Connect(t.Context(), dialer, &client.Options{
		Era: front, Logger: quiet(), NoTasks: true, Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.session.Close() })
	return l
}
