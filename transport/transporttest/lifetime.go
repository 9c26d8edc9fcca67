package transporttest

import (
	"context"
	"errors"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Close fails calls that wait and calls that come; it may be called again.
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
	f.awaitNotes(c, n)
	f.close(conn)
	for range n {
		select {
		case err := <-failures:
			f.failed(err, jsonrpc.MaybeExecuted, jsonrpc.ErrClosed)
		case <-f.ctx.Done():
			f.Fatal("a call did not fail though its connection was closed")
		}
	}
	f.close(conn)
	_, err := conn.Call(f.ctx, "echo", jsonrpc.Raw(`[2]`))
	f.failed(err, jsonrpc.NotSent, jsonrpc.ErrClosed)
	f.failed(conn.Notify(f.ctx, "note", nil), jsonrpc.NotSent, jsonrpc.ErrClosed)
	conn.Cancel(jsonrpc.IntID(1)) // of nothing
}

// Close ends the context of the client's handlers, and waits for them.
func testCloseEndsHandlers(f *fixture) {
	c := newClient()
	conn := f.dial(c)
	go func() { _, _ = conn.Call(f.ctx, "ask", jsonrpc.Raw(`{"hold":true}`)) }() // fails when the connection is closed
	f.awaitNotes(c, 1)
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

// Anybody may close at any time; every call has an outcome.
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

// A dialer serves again after a connection has ended, with nothing left of that.
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
