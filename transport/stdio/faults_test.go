//go:build unix

package stdio_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/faults"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// faultTimeout is the limit of calls that are not answered.
const faultTimeout = 500 * time.Millisecond

// A call of a tool of a misbehaving server has one outcome: the first answer with its id, or an
// error that says that it may have been executed. The session goes on, with another process if
// necessary.
func TestMisbehavingServers(t *testing.T) {
	for mode, want := range map[faults.Mode]struct {
		text  string // of the result
		cause error  // of the failure
	}{
		faults.Banner:         {"done", nil},
		faults.Repeats:        {"done", nil},
		faults.AnswersTwice:   {"first", nil},
		faults.AnswersOthers:  {"own", nil},
		faults.Garbage:        {"own", nil},
		faults.Notifies:       {"flooded", nil},
		faults.FloodsStderr:   {"flooded", nil},
		faults.ClosesStdin:    {"closed", nil},
		faults.KeepsChild:     {"kept", nil},
		faults.Ignores:        {"", context.DeadlineExceeded},
		faults.ExitsWithError: {"", jsonrpc.ErrClosed},
		faults.Exits:          {"", jsonrpc.ErrClosed},
		faults.Crashes:        {"", jsonrpc.ErrClosed},
		faults.HalfLine:       {"", jsonrpc.ErrClosed},
		faults.ClosesStdout:   {"", jsonrpc.ErrClosed},
		faults.LeavesChild:    {"", jsonrpc.ErrClosed},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel() // each mostly waits
			answered := make(chan struct{})
			var once sync.Once
			session, err := client.Connect(t.Context(), command(string(mode), &stdio.CommandOptions{
				MaxLine: 50_000, Stderr: new(counter), Conn: jsonrpc.Options{CallTimeout: 30 * time.Second},
			}), &client.Options{
				Era: client.Legacy, LogLevel: mcp.LevelInfo,
				OnChange: func(context.Context, mcp.Change) { // a slow one must not delay the answer
					once.Do(func() { <-answered })
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			defer once.Do(func() {})
			if session.Version() != mcp.Version20251125 {
				t.Errorf("the version is %s", session.Version())
			}
			ctx := t.Context()
			if mode == faults.Ignores {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, faultTimeout)
				defer cancel()
			}
			result, err := session.CallTool(ctx, "go", nil, nil)
			close(answered)
			if want.cause == nil {
				if err != nil || len(result.Content) != 1 || result.Content[0].(*mcp.TextContent).Text != want.text {
					t.Errorf("answered with %+v, %v, want %q", result, err, want.text)
				}
			} else {
				failed, ok := errors.AsType[*jsonrpc.CallError](err)
				if !ok || failed.Delivery != jsonrpc.MaybeExecuted || !errors.Is(err, want.cause) {
					t.Errorf("the error is %v, want %v, and that it may have been executed", err, want.cause)
				}
			}
			if mode == faults.ClosesStdin { // that the pipe is broken shows when it is used
				if err := session.Ping(t.Context()); !errors.Is(err, jsonrpc.ErrClosed) {
					t.Errorf("writing to the closed pipe: %v", err)
				}
			}
			if err := session.Ping(t.Context()); err != nil {
				t.Errorf("the session does not go on: %v", err)
			}
		})
	}
}

// A server that does not answer the handshake cannot hold up its client.
func TestSpeechlessServer(t *testing.T) {
	for _, mode := range []faults.Mode{faults.Speechless, faults.Sleeps, faults.Stopped} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel() // each mostly waits
			waittest.Within(t, "the timeout of the connection", func(ctx context.Context) {
				_, err := client.Connect(ctx, command(string(mode), nil), &client.Options{ConnectTimeout: faultTimeout, ProbeTimeout: faultTimeout / 2})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v, want the deadline", err)
				}
			})
		})
	}
}
