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

// What is sent arrives as the bytes that it was.
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

// An error of the server arrives as an error of the peer.
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

// Messages may be bigger than any buffer on their way.
func testBigMessages(f *fixture) {
	conn := f.dial(newClient())
	for _, size := range []int{4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 3 << 20} {
		params := `["` + strings.Repeat("x", size-len(`[""]`)) + `"]`
		f.call(conn, "echo", params, params)
		f.call(conn, "ask", params, params)
	}
}

const notes = 500

// Notifications are handled in order, and before calls that were sent later.
func testNotificationsToServer(f *fixture) {
	conn := f.dial(newClient())
	for i := range notes {
		if err := conn.Notify(f.ctx, "note", jsonrpc.Raw(fmt.Appendf(nil, "[%d]", i))); err != nil {
			f.Fatalf("Notify: %v", err)
		}
	}
	f.call(conn, "seen", `{}`, numbered(notes))
}

// What the server sends before an answer has been handled when the answer comes.
func testNotificationsToClient(f *fixture) {
	c := newClient()
	conn := f.dial(c)
	f.call(conn, "notify", fmt.Sprintf(`{"count":%d}`, notes), `true`)
	if got, want := c.notes(), numbered(notes); got != want {
		f.Errorf("handled before the answer:\n%s, want\n%s", got, want)
	}
}

// numbered is [[0],[1],…].
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",[%d]", i)
	}
	return "[" + b.String()[1:] + "]"
}

// Either side calls the other while it handles a call; ids of both begin alike.
func testCallsBack(f *fixture) {
	conn := f.dial(newClient())
	for i := range 20 {
		params := fmt.Sprintf(`{"round":%d}`, i)
		f.call(conn, "ask", params, params)
	}
}

// The server may speak when nobody has asked.
func testLinkGo(f *fixture) {
	c := newClient()
	conn := f.dial(c)
	f.call(conn, "later", `["later"]`, `true`)
	f.awaitNotes(c, 1)
	if got := c.notes(); got != `[["later"]]` {
		f.Errorf("notified of %s", got)
	}
}

// The caller's context ends the call here, and by way of its handlers there; the
// connection goes on.
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
			f.failed(err, jsonrpc.MaybeExecuted, cause)
		})
	}
	f.awaitNotes(c, n)
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
	f.failed(err, jsonrpc.NotSent, context.Canceled)
	f.call(conn, "seen", `{}`, `[]`)
}

// Many callers at both ends get the answers that are theirs.
func testConcurrency(f *fixture) {
	f.exercise(f.dial(newClient()), "one", 8)
}

// Connections of one dialer have the same ids under way and never mix.
func testConnections(f *fixture) {
	var users sync.WaitGroup
	for i := range 4 {
		conn := f.dial(newClient())
		users.Go(func() { f.exercise(conn, fmt.Sprint("connection ", i), 2) })
	}
	users.Wait()
}

func (f *fixture) exercise(conn transport.Conn, name string, callers int) {
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for j := range 50 {
				params := fmt.Sprintf(`{"nonce":"%s, caller %d, call %d","pad":"%0*d"}`, name, i, j, 1+j*100, 0)
				f.call(conn, "echo", params, params)
				f.call(conn, "ask", params, params)
			}
		})
	}
	all.Wait()
}
