package transporttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Params and results arrive byte for byte.
func testCalls(f *fixture) {
	conn := f.dial(newClient())
	for _, params := range []string{
		`{}`, `[]`, `{"a":1}`,
		`{"z":1,"a":2,"Z":3}`,                                             // order and case of names
		`{"n":[9007199254740993,1.0,1e400,-0,0.1000]}`,                    // numbers as they were written
		`{"s":"\u0041\/\n\u2028<&>` + "\u2028\u00e9\U0001f600\x7f" + `"}`, // escapes as they were written
		`{"deep":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
		`{"null":null,"false":false,"":{"":""}}`,
	} {
		f.call(conn, "echo", params, params)
	}
}

// An error of the server arrives with its code, message and data.
func testErrors(f *fixture) {
	conn := f.dial(newClient())
	data := `{"big":9007199254740993,"text":"<>"}`
	_, err := conn.Call(f.ctx, "fail", jsonrpc.Raw(data))
	if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != failCode || refused.Message != failMessage || string(refused.Data) != data {
		f.Errorf("the error is %v, want code %d, %q and data %s", err, failCode, failMessage, data)
	}
	_, err = conn.Call(f.ctx, "nonsense", nil)
	if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.MethodNotFound {
		f.Errorf("the error is %v, want code %d", err, jsonrpc.MethodNotFound)
	}
	f.call(conn, "echo", `[1]`, `[1]`)
}

// Messages may be longer than any buffer.
func testBigMessages(f *fixture) {
	conn := f.dial(newClient())
	for _, size := range []int{4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 3 << 20} {
		params := `["` + strings.Repeat("x", size-len(`[""]`)) + `"]`
		f.call(conn, "echo", params, params)
		f.call(conn, "ask", params, params)
	}
}

const notifications = 500

// Notifications are handled in order, and before later calls.
func testNotificationsToServer(f *fixture) {
	conn := f.dial(newClient())
	for i := range notifications {
		if err := conn.Notify(f.ctx, "note", jsonrpc.Raw(fmt.Appendf(nil, "[%d]", i))); err != nil {
			f.Fatalf("Notify: %v", err)
		}
	}
	f.call(conn, "seen", `{}`, numbered(notifications))
}

// What the server sends before an answer is handled before the call returns.
func testNotificationsToClient(f *fixture) {
	c := newClient()
	conn := f.dial(c)
	f.call(conn, "notify", fmt.Sprintf(`{"count":%d}`, notifications), `true`)
	if got, want := c.notifications(), numbered(notifications); got != want {
		f.Errorf("handled before the answer:\n%s, want\n%s", got, want)
	}
}

// numbered returns [[0],[1],…].
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",[%d]", i)
	}
	return "[" + b.String()[1:] + "]"
}

// Each side calls the other while it handles a call, with ids that may be equal.
func testCallsBack(f *fixture) {
	conn := f.dial(newClient())
	for i := range 20 {
		params := fmt.Sprintf(`{"round":%d}`, i)
		f.call(conn, "ask", params, params)
	}
}

// The server may send messages without a call.
func testLinkGo(f *fixture) {
	c := newClient()
	conn := f.dial(c)
	f.call(conn, "later", `["later"]`, `true`)
	f.awaitNotifications(c, 1)
	if got := c.notifications(); got != `[["later"]]` {
		f.Errorf("notified of %s", got)
	}
}

// Ending the caller's context ends the call here and at the server. The connection stays
// open.
func testCancellation(f *fixture) {
	const n = 10
	c := newClient()
	conn := f.dial(c)
	cause := errors.New("lost interest")
	ctx, cancel := context.WithCancelCause(f.ctx)
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			_, err := conn.Call(ctx, "wait", jsonrpc.Raw(`{}`))
			f.checkError(err, jsonrpc.MaybeExecuted, cause)
		})
	}
	f.awaitNotifications(c, n)
	cancel(cause)
	calls.Wait()
	f.call(conn, "cancelled", fmt.Sprintf(`{"count":%d}`, n), `true`)
	f.call(conn, "echo", `[1]`, `[1]`)
}

func testContextEndedBefore(f *fixture) {
	conn := f.dial(newClient())
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := conn.Call(ctx, "note", nil)
	f.checkError(err, jsonrpc.NotSent, context.Canceled)
	f.call(conn, "seen", `{}`, `[]`)
}

// Concurrent callers at both ends get their own answers.
func testConcurrency(f *fixture) {
	f.callConcurrently(f.dial(newClient()), "one", 8)
}

// Connections of one dialer may use equal ids.
func testConnections(f *fixture) {
	var users sync.WaitGroup
	for i := range 4 {
		conn := f.dial(newClient())
		users.Go(func() { f.callConcurrently(conn, fmt.Sprint("connection ", i), 2) })
	}
	users.Wait()
}

func (f *fixture) callConcurrently(conn transport.Conn, name string, callers int) {
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range 20 {
				params := fmt.Sprintf(`{"nonce":"%s, caller %d, call %d","pad":"%0*d"}`, name, i, j, 1+j*250, 0)
				f.call(conn, "echo", params, params)
				f.call(conn, "ask", params, params)
			}
		})
	}
	all.Wait()
}

// Close fails pending and later calls. It may be called again.
func testClose(f *fixture) {
	c := newClient()
	conn := f.dial(c)
	select {
	case <-conn.Done():
		f.Error("Done is closed while the connection is open")
	default:
	}
	const n = 5
	failures := make(chan error, n)
	for range n {
		go func() {
			_, err := conn.Call(f.ctx, "wait", jsonrpc.Raw(`{}`))
			failures <- err
		}()
	}
	f.awaitNotifications(c, n)
	f.close(conn)
	for range n {
		select {
		case err := <-failures:
			if answer, ok := err.(*jsonrpc.Error); ok && answer.Code == jsonrpc.InternalError {
				continue // the answer of a server that has ended the session was faster
			}
			f.checkError(err, jsonrpc.MaybeExecuted, jsonrpc.ErrClosed)
		case <-f.ctx.Done():
			f.Fatal("a call did not fail though its connection was closed")
		}
	}
	f.close(conn)
	_, err := conn.Call(f.ctx, "echo", jsonrpc.Raw(`[2]`))
	f.checkError(err, jsonrpc.NotSent, jsonrpc.ErrClosed)
	f.checkError(conn.Notify(f.ctx, "note", nil), jsonrpc.NotSent, jsonrpc.ErrClosed)
	conn.Cancel(jsonrpc.IntID(1)) // unknown
}

// Close ends the contexts of the client's handlers and waits for them.
func testCloseEndsHandlers(f *fixture) {
	c := newClient()
	conn := f.dial(c)
	go func() { _, _ = conn.Call(f.ctx, "ask", jsonrpc.Raw(`{"hold":true}`)) }() // fails when the connection is closed
	f.awaitNotifications(c, 1)
	f.close(conn)
	select {
	case err := <-c.held:
		if err == nil {
			f.Error("the handler's context has no cause")
		}
	default:
		f.Error("Close returned before the handler had")
	}
}

// Close may be called at any time from several goroutines. Every call returns.
func testCloseConcurrently(f *fixture) {
	conn := f.dial(newClient())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for {
				_, err := conn.Call(f.ctx, "echo", jsonrpc.Raw(`{}`))
				if err == nil {
					continue
				}
				if !errors.Is(err, jsonrpc.ErrClosed) {
					f.Errorf("a call failed with %v, want ErrClosed", err)
				}
				return
			}
		})
	}
	f.call(conn, "echo", `[1]`, `[1]`)
	for range 4 {
		all.Go(func() { f.close(conn) })
	}
	all.Wait()
}

// A dialer can be used again after a connection has ended. The new connection has a new
// state.
func testDialAgain(f *fixture) {
	for range 3 {
		conn := f.dial(newClient())
		f.call(conn, "seen", `{}`, `[]`)
		if err := conn.Notify(f.ctx, "note", jsonrpc.Raw(`[1]`)); err != nil {
			f.Errorf("Notify: %v", err)
		}
		f.call(conn, "seen", `{}`, `[[1]]`)
		f.close(conn)
	}
}

func testDialAfterEnd(f *fixture) {
	cause := errors.New("too late")
	ctx, cancel := context.WithCancelCause(f.ctx)
	cancel(cause)
	conn, err := f.dialer.Dial(ctx, newClient())
	if !errors.Is(err, cause) {
		f.Errorf("Dial with a context that has ended: %v, want its cause", err)
	}
	if err == nil {
		f.close(conn)
	}
}
