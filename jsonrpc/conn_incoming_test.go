package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Each call gets one response, with the bytes of its id.
func TestConnReplies(t *testing.T) {
	h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
		switch req.Method {
		case "echo":
			return reply.Write(jsonrpc.Raw(req.Params))
		case "refuse":
			return &jsonrpc.Error{Code: 7, Message: "no <b>", Data: []byte(`{"a":1.0}`)}
		case "wrap":
			return fmt.Errorf("context: %w", &jsonrpc.Error{Code: 8, Message: "wrapped"})
		case "fail":
			return errors.New("password=hunter2")
		case "half":
			reply.Buf = append(reply.Buf, `{"half":`...)
			return &jsonrpc.Error{Code: 9, Message: "changed my mind"}
		case "panic":
			reply.Buf = append(reply.Buf, `{"half":`...)
			panic("password=hunter2")
		case "nil":
			reply.Buf = nil
			return nil
		}
		return nil // without a result
	}}
	long := `"` + strings.Repeat("x", 256-2) + `"`
	tests := map[string]struct{ send, want string }{
		"result":           {call(1, "echo", `{"a":1}`), result(1, `{"a":1}`)},
		"array":            {call(1, "echo", `[1,2]`), result(1, `[1,2]`)},
		"beyond float64":   {call("9007199254740993", "echo", `[]`), result("9007199254740993", `[]`)},
		"beyond int64":     {call("-123456789012345678901234567890", "echo", `[]`), result("-123456789012345678901234567890", `[]`)},
		"minus zero":       {call("-0", "echo", `[]`), result("-0", `[]`)},
		"string":           {call(`"a"`, "echo", `[]`), result(`"a"`, `[]`)},
		"empty string":     {call(`""`, "echo", `[]`), result(`""`, `[]`)},
		"escapes":          {call(`"\u0041\/\n\ud83d\ude00"`, "echo", `[]`), result(`"\u0041\/\n\ud83d\ude00"`, `[]`)},
		"longest":          {call(long, "echo", `[]`), result(long, `[]`)},
		"float":            {call("2.0", "echo", `[]`), result("2.0", `[]`)},
		"exponent":         {call("2e0", "echo", `[]`), result("2e0", `[]`)},
		"fraction":         {call("1.5", "echo", ""), refusal(jsonrpc.InvalidRequest, `id must be a string or an integer, not 1.5`)},
		"error":            {call(1, "refuse", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"no <b>","data":{"a":1.0}}}`},
		"wrapped error":    {call(1, "wrap", ""), failure(1, 8, "wrapped")},
		"internal error":   {call(1, "fail", ""), failure(1, jsonrpc.InternalError, "internal error")},
		"error after data": {call(1, "half", ""), failure(1, 9, "changed my mind")},
		"panic":            {call(1, "panic", ""), failure(1, jsonrpc.InternalError, "internal error")},
		"nothing":          {call(1, "nothing", ""), failure(1, jsonrpc.InternalError, "internal error")},
		"buffer dropped":   {call(1, "nil", ""), failure(1, jsonrpc.InternalError, "internal error")},
		"no version":       {`{"id":4,"method":"echo"}`, failure(4, jsonrpc.InvalidRequest, `jsonrpc must be "2.0", not missing`)},
		"id after a fault": {`{"jsonrpc":"1.0","method":"echo","id":"x"}`, failure(`"x"`, jsonrpc.InvalidRequest, `jsonrpc must be "2.0", not "1.0"`)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				r := newRig(t, h, nil)
				r.send(test.send)
				r.expect(test.want)
				r.send(call(2, "echo", `{}`)) // the connection still works
				r.expect(result(2, `{}`))
				r.finish()
			})
		})
	}
}

// A malformed message is reported, and answered if the peer may wait for a response. It does
// not end the connection.
func TestConnMalformed(t *testing.T) {
	tests := map[string]struct {
		send     string
		answered bool
	}{
		"no JSON":               {`hello`, true},
		"half an object":        {`{"jsonrpc":"2.0","id":1,"meth`, true},
		"two messages":          {note("n", "") + note("n", ""), true},
		"a string":              {`"hello"`, true},
		"invalid UTF-8":         {call(1, "echo", "{\"a\":\"\xff\"}"), true},
		"duplicate method":      {`{"jsonrpc":"2.0","id":1,"method":"echo","method":"echo"}`, true},
		"duplicate param":       {call(1, "echo", `{"a":1,"a":2}`), true},
		"null id":               {call("null", "echo", ""), true},
		"result and error":      {`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, false},
		"result without id":     {`{"jsonrpc":"2.0","result":{}}`, false},
		"unknown id":            {result(77, `{}`), false},
		"error without id":      {refusal(1, "no"), false},
		"unknown string id":     {result(`"1"`, `{}`), false},
		"response, old version": {`{"jsonrpc":"1.0","id":1,"result":{}}`, false},
	}
	for name, test := range tests {
		for _, skip := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/skip=%t", name, skip), func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					var reports reports
					r := newRig(t, handler{handle: echo}, &jsonrpc.Options{SkipMalformed: skip, Malformed: reports.add})
					r.send(test.send)
					if test.answered && !skip {
						answer, err := r.peer.Read()
						if err != nil || !strings.Contains(string(answer), `"error":`) {
							t.Errorf("answered with %s (%v), want an error", answer, err)
						}
					}
					r.send(call(2, "echo", `{}`))
					r.expect(result(2, `{}`))
					r.finish()
					reports.want(t, "")
				})
			})
		}
	}
}

func TestConnReportsMalformed(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var reports reports
		h := handler{notified: func(jsonrpc.Peer, *jsonrpc.Request) { panic("boom") }}
		r := newRig(t, h, &jsonrpc.Options{
			SkipMalformed: true,
			Malformed:     reports.add,
		})
		r.send(`hello`, note("n", ""), `{}`, result(7, `{}`), refusal(1, "no"))
		r.finish()
		reports.want(t, "malformed message: invalid JSON", `panic on "n": boom`, `malformed message: jsonrpc must be "2.0"`,
			"a response without a pending call, with the id 7: no call had this id",
			"a response without a pending call, with the id null: the peer could not read a message; jsonrpc: 1")
	})
}

func TestConnTrace(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var lines atomic.Value
		lines.Store("")
		conns := make(map[string]bool)
		r := newRig(t, handler{handle: echo}, &jsonrpc.Options{Trace: func(conn string, sent bool, frame []byte) {
			conns[conn] = true
			lines.Store(lines.Load().(string) + fmt.Sprintf("%t %s\n", sent, frame))
		}})
		r.send(call(1, "echo", `{}`))
		r.expect(result(1, `{}`))
		r.finish()
		want := "false " + call(1, "echo", `{}`) + "\ntrue " + result(1, `{}`) + "\n"
		if got := lines.Load(); got != want {
			t.Errorf("traced\n%swant\n%s", got, want)
		}
		if len(conns) != 1 || conns[""] {
			t.Errorf("the identifiers of the connection are %q, want one", slices.Collect(maps.Keys(conns)))
		}
	})
}

// A call with an id that is in use is refused. The running call with that id is not affected,
// and the id can be used again afterwards.
func TestConnDuplicateID(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			if req.Method == "slow" {
				<-release
			}
			return echo(ctx, from, req, reply)
		}}
		r := newRig(t, h, nil)
		r.send(call(1, "slow", `{"first":true}`))
		synctest.Wait()
		r.send(call(1, "echo", `{"second":true}`))
		r.expect(failure(1, jsonrpc.InvalidRequest, "id 1 is in use by a call that still runs"))
		r.send(call(`"1"`, "echo", `{"other":true}`)) // a string is another id
		r.expect(result(`"1"`, `{"other":true}`))
		close(release)
		r.expect(result(1, `{"first":true}`))
		r.send(call(1, "echo", `{"third":true}`))
		r.expect(result(1, `{"third":true}`))
		r.finish()
	})
}

// Calls above the limit are refused, except for calls that preempt.
func TestConnBusy(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		var most, now atomic.Int64
		h := session{preempts: []string{"ping"}}
		h.handle = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			if req.Method == "ping" {
				return reply.Write(jsonrpc.Raw(`{}`))
			}
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-release
			return echo(ctx, from, req, reply)
		}
		r := newRig(t, h, &jsonrpc.Options{MaxInFlight: 2})
		r.send(call(1, "slow", `[1]`), call(2, "slow", `[2]`))
		synctest.Wait()
		r.send(call(3, "slow", `[3]`))
		r.expect(failure(3, jsonrpc.Busy, "busy: at most 2 calls run at once"))
		r.send(call(4, "ping", ""))
		r.expect(result(4, `{}`))
		r.send(call(1, "ping", ""))
		r.expect(failure(1, jsonrpc.InvalidRequest, "id 1 is in use by a call that still runs"))
		close(release)
		synctest.Wait()
		for range 2 {
			if _, err := r.peer.Read(); err != nil {
				t.Fatal(err)
			}
		}
		r.send(call(5, "slow", `[5]`))
		r.expect(result(5, `[5]`))
		if most.Load() != 2 {
			t.Errorf("%d calls ran at the same time, want 2", most.Load())
		}
		r.finish()
	})
}

// A call does not count as running while its reply is written, but the number of replies that
// are being written is limited.
func TestConnPendingReplies(t *testing.T) {
	virtual(t, func(t *testing.T) {
		near, far := transport.NewPipe()
		release := make(chan struct{})
		var ran atomic.Int64
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			ran.Add(1)
			return echo(ctx, from, req, reply)
		}}
		conn := newConn(slowWriter{near, release}, h, &jsonrpc.Options{MaxInFlight: 1})
		ended := make(chan error)
		go func() { ended <- conn.Run(context.Background()) }()
		r := &rig{t: t, peer: far}
		for id := 1; id <= 65; id++ {
			r.send(call(id, "echo", `{}`))
			r.expect(result(id, `{}`))
			synctest.Wait()
		}
		r.send(call(66, "echo", `{}`))
		r.expect(failure(66, jsonrpc.Busy, "busy: at most 1 calls run at once"))
		if ran.Load() != 65 {
			t.Errorf("%d calls ran", ran.Load())
		}
		close(release)
		synctest.Wait()
		r.send(call(67, "echo", `{}`))
		r.expect(result(67, `{}`))
		conn.Close()
		<-ended
	})
}

// A slowWriter is a stream on which Write sends the message and returns when release is closed.
type slowWriter struct {
	jsonrpc.Stream
	release <-chan struct{}
}

func (s slowWriter) Write(ctx context.Context, msg []byte) error {
	err := s.Stream.Write(ctx, msg)
	<-s.release
	return err
}

// Cancelled calls count as running until their handlers return.
func TestConnCancelledCallsCount(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			<-release
			return echo(ctx, from, req, reply)
		}}
		r := newRig(t, h, &jsonrpc.Options{MaxInFlight: 1})
		r.send(call(1, "slow", ""))
		synctest.Wait()
		r.conn.Cancel(jsonrpc.IntID(1))
		r.send(call(2, "slow", ""))
		r.expect(failure(2, jsonrpc.Busy, "busy: at most 1 calls run at once"))
		close(release)
		synctest.Wait()
		r.send(call(3, "echo", `{}`))
		r.expect(result(3, `{}`))
		r.finish()
	})
}

// Calls that preempt are complete before the next message is handled.
func TestConnPreempt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		state := 0 // without a lock, since all handlers run on the read loop
		h := session{preempts: []string{"set", "refuse", "panic"}}
		h.notified = func(_ jsonrpc.Peer, n *jsonrpc.Request) { state *= 10 }
		h.handle = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			switch req.Method {
			case "set":
				state++
				return reply.Write(jsonrpc.Raw(strconv.Itoa(state)))
			case "refuse":
				return &jsonrpc.Error{Code: 5, Message: "refused"}
			case "panic":
				panic("boom")
			}
			return waiting(ctx, from, req, reply)
		}
		r := newRig(t, h, nil)
		r.send(call(1, "wait", ""), call(2, "set", ""), note("n", ""), call(3, "set", ""), call(4, "refuse", ""), call(5, "panic", ""))
		r.expect(result(2, `1`), result(3, `11`), failure(4, 5, "refused"), failure(5, jsonrpc.InternalError, "internal error"))
		r.finish()
	})
}

// Cancel cancels only the call with that id, and drops its reply.
func TestConnCancel(t *testing.T) {
	virtual(t, func(t *testing.T) {
		causes := make(chan error, 2)
		h := handler{
			handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
				if req.Method == "wait" {
					<-ctx.Done()
					causes <- context.Cause(ctx)
				}
				return echo(ctx, from, req, reply)
			},
			notified: func(from jsonrpc.Peer, n *jsonrpc.Request) {
				id, err := jsonrpc.ParseID(n.Member("id"))
				if err != nil {
					t.Error(err)
				}
				from.Cancel(id)
			},
		}
		r := newRig(t, h, nil)
		r.send(call(1, "wait", `{}`), call(`"1"`, "wait", `{}`))
		synctest.Wait()
		r.send(note("cancel", `{"id":2}`), note("cancel", `{"id":1}`), note("cancel", `{"id":1}`))
		if err := <-causes; !errors.Is(err, jsonrpc.ErrCancelled) {
			t.Errorf("the cause is %v, want ErrCancelled", err)
		}
		r.send(call(1, "echo", `{"id":"free"}`))
		r.expect(result(1, `{"id":"free"}`))
		synctest.Wait()
		if len(causes) != 0 {
			t.Error("cancelling 1 ended the call with id \"1\"")
		}
		r.conn.Cancel(stringID("1"))
		<-causes
		r.finish() // there is no reply to a cancelled call
	})
}

// The id of a cancelled call can be used again before the handler of that call returns. The
// result of that handler is not sent as the reply to the new call.
func TestConnReuseCancelledID(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := map[string]chan struct{}{"old": make(chan struct{}), "new": make(chan struct{})}
		h := handler{handle: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			<-release[req.Method]
			return reply.Write(jsonrpc.Raw(strconv.Quote(req.Method)))
		}}
		r := newRig(t, h, nil)
		r.send(call(1, "old", ""))
		synctest.Wait()
		r.conn.Cancel(jsonrpc.IntID(1))
		r.send(call(1, "new", ""))
		synctest.Wait()
		close(release["old"])
		synctest.Wait()
		close(release["new"])
		r.expect(result(1, `"new"`))
		r.finish()
	})
}

// Notifications are handled in order and before later messages.
func TestConnOrder(t *testing.T) {
	virtual(t, func(t *testing.T) {
		const n = 1000
		var seen []string
		h := handler{
			notified: func(_ jsonrpc.Peer, n *jsonrpc.Request) { seen = append(seen, string(n.Params)) },
			handle: func(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
				return reply.Write(jsonrpc.Raw("[" + strings.Join(seen, ",") + "]")) // ordered after the notifications
			},
		}
		r := newRig(t, h, nil)
		var want []string
		for i := range n {
			want = append(want, fmt.Sprintf("[%d]", i))
			r.send(note("n", want[i]))
		}
		r.send(call(1, "seen", ""))
		r.expect(result(1, "["+strings.Join(want, ",")+"]"))
		r.finish()
	})
}

type visitorKey struct{}

// The contexts of calls have the values of the context of Run, and not its deadline.
func TestConnContextValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := transport.NewPipe()
		defer far.Close()
		h := handler{handle: func(ctx context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
			if _, has := ctx.Deadline(); has {
				t.Error("the call has the connection's deadline")
			}
			name, _ := ctx.Value(visitorKey{}).(string)
			return reply.Write(jsonrpc.Raw(`["` + name + `"]`))
		}}
		conn := newConn(near, h, nil)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), visitorKey{}, "ada"), time.Hour)
		defer cancel()
		go conn.Run(ctx)
		defer conn.Close()
		if err := far.Write(t.Context(), []byte(call(1, "who", ""))); err != nil {
			t.Fatal(err)
		}
		got, err := far.Read()
		if want := result(1, `["ada"]`); err != nil || string(got) != want {
			t.Errorf("the call is answered with %s, %v, want %s", got, err, want)
		}
	})
}

// The handler does not get a call that Authorize refuses. Notifications need no authorization.
func TestConnAuthorizes(t *testing.T) {
	var handled, notified atomic.Int32
	h := handler{
		handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			handled.Add(1)
			return echo(ctx, from, req, reply)
		},
		notified: func(jsonrpc.Peer, *jsonrpc.Request) { notified.Add(1) },
	}
	authorize := func(_ context.Context, req *jsonrpc.Request) error {
		switch req.Method {
		case "refuse":
			return &jsonrpc.Error{Code: 7, Message: "not authorized"}
		case "panic":
			panic("secret")
		}
		return nil
	}
	virtual(t, func(t *testing.T) {
		r := newRig(t, h, &jsonrpc.Options{Authorize: authorize})
		r.send(call(1, "refuse", ""))
		r.expect(failure(1, 7, "not authorized"))
		r.send(call(2, "panic", ""))
		r.expect(failure(2, jsonrpc.InternalError, "internal error"))
		r.send(note("refuse", ""))
		r.send(call(3, "echo", `{}`))
		r.expect(result(3, `{}`))
		r.finish()
		if handled.Load() != 1 || notified.Load() != 1 {
			t.Errorf("%d calls were handled, and %d notifications", handled.Load(), notified.Load())
		}
	})
}
