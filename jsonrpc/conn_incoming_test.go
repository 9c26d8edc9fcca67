package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// What comes in is answered, once, with the bytes of its own id.
func TestConnAnswers(t *testing.T) {
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
		return nil // says nothing
	}}
	long := `"` + strings.Repeat("x", jsonrpc.MaxIDLength-2) + `"`
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
		"fraction":         {call("1.5", "echo", ""), refusal(jsonrpc.InvalidRequest, `id must be a string or an integer, not 1.5`)},
		"error":            {call(1, "refuse", ""), `{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"no <b>","data":{"a":1.0}}}`},
		"wrapped error":    {call(1, "wrap", ""), failure(1, 8, "wrapped")},
		"masked error":     {call(1, "fail", ""), failure(1, jsonrpc.InternalError, "internal error")},
		"error after all":  {call(1, "half", ""), failure(1, 9, "changed my mind")},
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
				r.send(call(2, "echo", `{}`)) // the session lives
				r.expect(result(2, `{}`))
				r.finish()
			})
		})
	}
}

// What is no message is answered where somebody may wait for it, counted and
// reported; it never ends the session.
func TestConnMalformed(t *testing.T) {
	tests := map[string]struct {
		send     string
		answered bool
	}{
		"no JSON":               {`hello`, true},
		"half an object":        {`{"jsonrpc":"2.0","id":1,"meth`, true},
		"two messages":          {note("n", "") + note("n", ""), true},
		"a string":              {`"hello"`, true},
		"byte order mark":       {"\ufeff" + call(1, "echo", ""), true},
		"invalid UTF-8":         {call(1, "echo", "{\"a\":\"\xff\"}"), true},
		"duplicate method":      {`{"jsonrpc":"2.0","id":1,"method":"echo","method":"echo"}`, true},
		"duplicate param":       {call(1, "echo", `{"a":1,"a":2}`), true},
		"null id":               {call("null", "echo", ""), true},
		"result and error":      {`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}`, false},
		"result without id":     {`{"jsonrpc":"2.0","result":{}}`, false},
		"answer to nobody":      {result(77, `{}`), false},
		"error answers nobody":  {refusal(1, "for nobody"), false},
		"id of the other kind":  {result(`"1"`, `{}`), false},
		"response, old version": {`{"jsonrpc":"1.0","id":1,"result":{}}`, false},
	}
	for name, test := range tests {
		for _, skip := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/skip=%t", name, skip), func(t *testing.T) {
				virtual(t, func(t *testing.T) {
					r := newRig(t, handler{handle: echo}, &jsonrpc.Options{SkipMalformed: skip})
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
					if n := r.conn.Malformed(); n != 1 {
						t.Errorf("Malformed is %d, want 1", n)
					}
				})
			})
		}
	}
}

func TestConnReportsMalformed(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var reports []string
		h := handler{notified: func(jsonrpc.Peer, *jsonrpc.Request) { panic("boom") }}
		r := newRig(t, h, &jsonrpc.Options{
			SkipMalformed: true,
			Malformed:     func(err error) { reports = append(reports, err.Error()) },
		})
		r.send(`hello`, note("n", ""), `{}`)
		r.finish()
		for i, part := range []string{"parse error", "panic on n: boom", "invalid request"} {
			if len(reports) <= i || !strings.Contains(reports[i], part) {
				t.Errorf("report %d of %q lacks %q", i, reports, part)
			}
		}
	})
}

func TestConnTrace(t *testing.T) {
	virtual(t, func(t *testing.T) {
		var lines atomic.Value
		lines.Store("")
		r := newRig(t, handler{handle: echo}, &jsonrpc.Options{Trace: func(sent bool, frame []byte) {
			lines.Store(lines.Load().(string) + fmt.Sprintf("%t %s\n", sent, frame))
		}})
		r.send(call(1, "echo", `{}`))
		r.expect(result(1, `{}`))
		r.finish()
		want := "false " + call(1, "echo", `{}`) + "\ntrue " + result(1, `{}`) + "\n"
		if got := lines.Load(); got != want {
			t.Errorf("traced\n%swant\n%s", got, want)
		}
	})
}

// An id that is in use is refused without harm to the call that uses it, and
// free again afterwards.
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

// Calls beyond the limit are refused at once; calls that are answered on the read
// loop never are.
func TestConnBusy(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		var most, now atomic.Int64
		h := preempter{methods: []string{"ping"}}
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
			t.Errorf("%d calls ran at once, want 2", most.Load())
		}
		r.finish()
	})
}

// Whoever has an answer may call again, though the write that brought it has not
// returned; but not for ever.
func TestConnAnswersOnTheirWay(t *testing.T) {
	virtual(t, func(t *testing.T) {
		near, far := transport.Streams()
		taken := make(chan struct{})
		var ran atomic.Int64
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			ran.Add(1)
			return echo(ctx, from, req, reply)
		}}
		conn := jsonrpc.NewConn(slowToReturn{near, taken}, func(*jsonrpc.Conn) jsonrpc.Handler { return h }, &jsonrpc.Options{MaxInFlight: 1})
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
		close(taken)
		synctest.Wait()
		r.send(call(67, "echo", `{}`))
		r.expect(result(67, `{}`))
		conn.Close()
		<-ended
	})
}

// slowToReturn brings a message, and does not return until taken is closed.
type slowToReturn struct {
	jsonrpc.Stream
	taken <-chan struct{}
}

func (s slowToReturn) Write(ctx context.Context, msg []byte) error {
	err := s.Stream.Write(ctx, msg)
	<-s.taken
	return err
}

// A peer that cancels its calls cannot run more of them than the limit allows
// with handlers that take their time to notice.
func TestConnCancelledCallsCount(t *testing.T) {
	virtual(t, func(t *testing.T) {
		release := make(chan struct{})
		h := handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			<-release
			return echo(ctx, from, req, reply)
		}}
		r := newRig(t, h, &jsonrpc.Options{MaxInFlight: 1})
		r.send(call(1, "deaf", ""))
		synctest.Wait()
		r.conn.Cancel(jsonrpc.IntID(1))
		r.send(call(2, "deaf", ""))
		r.expect(failure(2, jsonrpc.Busy, "busy: at most 1 calls run at once"))
		close(release)
		synctest.Wait()
		r.send(call(3, "echo", `{}`))
		r.expect(result(3, `{}`))
		r.finish()
	})
}

// Some calls take effect before anything later is looked at.
func TestConnPreempt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		state := 0 // without a lock: everything here runs on the read loop
		h := preempter{methods: []string{"set", "refuse", "panic"}}
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

// Cancelling ends the call with that id and no other, and drops its reply.
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
		r.conn.Cancel(jsonrpc.StringID("1"))
		<-causes
		r.finish() // and neither cancelled call was answered
	})
}

// The id of a cancelled call is free although its handler has not noticed; when
// that returns at last, it cannot take the answer of the call that has the id now.
func TestConnCancelFreesTheID(t *testing.T) {
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

// Notifications are handed over in order, before anything later is looked at.
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

// The contexts of calls have the values of the connection's, but a life of their own.
func TestConnCallsHaveTheValuesOfRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := transport.Streams()
		defer far.Close()
		h := handler{handle: func(ctx context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
			if _, has := ctx.Deadline(); has {
				t.Error("the call has the connection's deadline")
			}
			name, _ := ctx.Value(visitorKey{}).(string)
			return reply.Write(jsonrpc.Raw(`["` + name + `"]`))
		}}
		conn := jsonrpc.NewConn(near, func(*jsonrpc.Conn) jsonrpc.Handler { return h }, nil)
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
