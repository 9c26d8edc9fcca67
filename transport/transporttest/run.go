package transporttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// timeout bounds a step of a test.
const timeout = time.Minute

// Run tests a transport, each property in a subtest. connect returns a dialer whose
// connections lead to server, which is [Server]. It is called once for each subtest and may
// use t.Cleanup.
func Run(t *testing.T, connect func(t *testing.T, server transport.Binder) transport.Dialer) {
	for _, property := range []struct {
		name string
		test func(f *fixture)
	}{
		{"Calls", testCalls},
		{"Errors", testErrors},
		{"BigMessages", testBigMessages},
		{"NotificationsToServer", testNotificationsToServer},
		{"NotificationsToClient", testNotificationsToClient},
		{"CallsBack", testCallsBack},
		{"LinkGo", testLinkGo},
		{"Cancellation", testCancellation},
		{"ContextEndedBefore", testContextEndedBefore},
		{"Concurrency", testConcurrency},
		{"Connections", testConnections},
		{"Close", testClose},
		{"CloseEndsHandlers", testCloseEndsHandlers},
		{"CloseConcurrently", testCloseConcurrently},
		{"DialAgain", testDialAgain},
		{"DialAfterEnd", testDialAfterEnd},
	} {
		t.Run(property.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), timeout, errTimeout)
			defer cancel()
			property.test(&fixture{T: t, ctx: ctx, dialer: connect(t, Server())})
		})
	}
}

var errTimeout = errors.New("the test has not finished within " + timeout.String())

// A fixture is one subtest.
type fixture struct {
	*testing.T
	ctx    context.Context // of this subtest
	dialer transport.Dialer
}

// dial opens a connection that ends with the subtest.
func (f *fixture) dial(handler jsonrpc.Handler) transport.Conn {
	f.Helper()
	conn, err := f.dialer.Dial(f.ctx, handler)
	if err != nil {
		f.Fatalf("Dial: %v", err)
	}
	f.Cleanup(func() { f.close(conn) })
	return conn
}

// close closes a connection and waits for its end.
func (f *fixture) close(conn transport.Conn) {
	f.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if err := conn.Close(); err != nil {
			f.Errorf("Close: %v", err)
		}
	}()
	f.await(closed, "Close did not return")
	f.await(conn.Done(), "Done was not closed by Close")
}

func (f *fixture) await(event <-chan struct{}, complaint string) {
	f.Helper()
	select {
	case <-event:
	case <-time.After(timeout):
		f.Error(complaint)
	}
}

// awaitNotifications waits until the client has received n messages.
func (f *fixture) awaitNotifications(c *client, n int) {
	f.Helper()
	for c.count() < n {
		select {
		case <-c.recorded:
		case <-f.ctx.Done():
			f.Fatalf("%d of %d notifications or calls of the server came", c.count(), n)
		}
	}
}

// call sends a call and compares the result.
func (f *fixture) call(conn jsonrpc.Peer, method, params, want string) {
	f.Helper()
	resp, err := conn.Call(f.ctx, method, jsonrpc.Raw(params))
	if err != nil {
		f.Errorf("%s: %v", method, err)
		return
	}
	if string(resp.Result) != want {
		f.Errorf("%s: answered with\n%.300s, want\n%.300s", method, resp.Result, want)
	}
}

// checkError checks that an error is a CallError with this delivery and reason.
func (f *fixture) checkError(err error, delivery jsonrpc.Delivery, reason error) {
	f.Helper()
	failed, ok := errors.AsType[*jsonrpc.CallError](err)
	switch {
	case !ok:
		f.Errorf("the error is %v (%T), want a *jsonrpc.CallError", err, err)
	case failed.Delivery != delivery || !errors.Is(err, reason):
		f.Errorf("the error is %v, want %v and %q", err, reason, delivery)
	}
}
