package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// A charged stream charges its large messages.
type charged struct {
	jsonrpc.Stream
	budget *bufpool.Budget
	charge *bufpool.Charge
}

func (c *charged) Read() ([]byte, error) {
	frame, err := c.Stream.Read()
	if err == nil {
		c.charge, err = c.budget.Grow(context.Background(), nil, len(frame))
		if err != nil {
			return nil, jsonrpc.BusyError(frame, nil, err)
		}
	}
	return frame, err
}

func (c *charged) TakeCharge() *bufpool.Charge {
	charge := c.charge
	c.charge = nil
	return charge
}

// A message of any kind is charged until its calls have been answered, and no longer.
func TestChargesAreReleased(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 300<<10) + `"}`
	for name, messages := range map[string][]string{
		"calls":                   {call(1, "echo", long), call(2, "echo", long), call(3, "echo", long), call(4, "echo", long)},
		"a call of no method":     {call(1, "missing", long)},
		"a panic":                 {call(1, "panic", long)},
		"a call that preempts":    {call(1, "now", long)},
		"a call that is refused":  {call(1, "limited", long)},
		"an id in use":            {call(1, "wait", "{}"), call(1, "wait", long)},
		"a notification":          {note("note", long)},
		"an answer":               {result(7, long)},
		"malformed":               {`{"jsonrpc":"2.0","id":7,"method":7,"params":` + long + `}`, long, long[:300<<10]},
		"a batch":                 {"[" + call(1, "echo", long) + "," + call(2, "echo", "{}") + "," + note("note", long) + "]"},
		"a batch that is refused": {"[" + call(1, "refused", long) + "]"},
		"running at the end":      {call(1, "wait", long), call(2, "wait", long)},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				near, far := transport.NewPipe()
				stream := &charged{Stream: near, budget: bufpool.NewBudget(1 << 20)}
				h := session{
					handler: handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
						switch req.Method {
						case "panic":
							panic("on purpose")
						case "missing":
							return errors.New("missing")
						}
						return waiting(ctx, from, req, reply)
					}},
					preempts: []string{"now"},
					accept: func(batch []jsonrpc.Message) error {
						if batch[0].(*jsonrpc.Request).Method == "refused" {
							return &jsonrpc.Error{Code: jsonrpc.InvalidRequest, Message: "refused"}
						}
						return nil
					},
				}
				conn := newConn(stream, h, &jsonrpc.Options{Limiter: new(limiter)})
				ran := make(chan error, 1)
				go func() { ran <- conn.Run(context.Background()) }()
				go func() {
					for {
						if _, err := far.Read(); err != nil {
							return
						}
					}
				}()
				for _, message := range messages {
					_ = far.Write(context.Background(), []byte(message))
				}
				synctest.Wait()
				if strings.HasPrefix(name, "running") {
					if _, err := stream.budget.Grow(t.Context(), nil, 600<<10); !errors.Is(err, bufpool.ErrFull) {
						t.Errorf("the messages of running calls are not charged: %v", err)
					}
				}
				_ = far.Close()
				_ = conn.Close()
				<-ran
				if _, err := stream.budget.Grow(t.Context(), nil, 1<<20); err != nil {
					t.Errorf("bytes are charged after the end: %v", err)
				}
			})
		})
	}
}

// A large answer to a question is charged until the call that has asked has been answered, since the
// call may keep it.
func TestAnswersAreCharged(t *testing.T) {
	virtual(t, func(t *testing.T) {
		near, far := transport.NewPipe()
		stream := &charged{Stream: near, budget: bufpool.NewBudget(1 << 20)}
		conn := newConn(stream, handler{handle: func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			if _, err := from.Call(ctx, "question", nil); err != nil {
				return err
			}
			return waiting(ctx, from, req, reply)
		}}, nil)
		ran := make(chan error, 1)
		go func() { ran <- conn.Run(context.Background()) }()
		fits := func(size int) bool {
			c, err := stream.budget.Grow(t.Context(), nil, size)
			c.Release()
			return err == nil
		}
		for id := range 2 {
			_ = far.Write(t.Context(), []byte(call(id+1, "wait", "{}")))
			question, err := far.Read()
			if want := call(id+1, "question", ""); err != nil || string(question) != want {
				t.Errorf("the question is %s, %v; want %s", question, err, want)
			}
			_ = far.Write(t.Context(), []byte(result(id+1, `"`+strings.Repeat("x", 500<<10)+`"`)))
			synctest.Wait()
		}
		if fits(200 << 10) {
			t.Error("the answers are not charged while the calls run")
		}
		first, _ := jsonrpc.ParseID([]byte("1"))
		conn.Cancel(first)
		synctest.Wait()
		if !fits(400<<10) || fits(800<<10) {
			t.Error("the answer of the call that has ended is charged, or the other is not")
		}
		_ = far.Close()
		_ = conn.Close()
		<-ran
		if !fits(1 << 20) {
			t.Error("bytes are charged after the end")
		}
	})
}

// A limiter refuses calls of "limited", and counts others.
type limiter struct {
	mu      sync.Mutex
	running []string
}

func (l *limiter) Begin(method string) error {
	if method == "limited" {
		return errors.New("busy: not now")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = append(l.running, method)
	return nil
}

func (l *limiter) End(method string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.running, method)
	l.running = slices.Delete(l.running, i, i+1)
}

// The limiter counts the running calls, except those that preempt others. A call that it refuses
// is answered with its text.
func TestLimiter(t *testing.T) {
	virtual(t, func(t *testing.T) {
		l := new(limiter)
		r := newRig(t, session{handler: handler{handle: waiting}, preempts: []string{"now"}}, &jsonrpc.Options{Limiter: l, MaxInFlight: 1})
		r.send(call(1, "limited", "{}"))
		r.expect(failure(1, jsonrpc.Busy, "busy: not now"))
		r.send(call(2, "echo", "{}"))
		r.expect(result(2, "{}"))
		r.send(call(3, "now", "{}"))
		r.expect(result(3, "{}"))
		r.send(call(4, "wait", "{}"))
		synctest.Wait()
		if got := fmt.Sprint(l.running); got != "[wait]" {
			t.Errorf("the running calls are %s", got)
		}
		r.send(call(5, "echo", "{}")) // beyond MaxInFlight
		r.expect(failure(5, jsonrpc.Busy, "busy: at most 1 calls run at once"))
		r.send(call(4, "echo", "{}")) // with an id in use
		r.expect(failure(4, jsonrpc.InvalidRequest, "id 4 is in use by a call that still runs"))
		if got := fmt.Sprint(l.running); got != "[wait]" {
			t.Errorf("after refused calls, the running calls are %s", got)
		}
		jid, _ := jsonrpc.ParseID([]byte("4"))
		r.conn.Cancel(jid)
		synctest.Wait()
		if len(l.running) != 0 {
			t.Errorf("after the calls, %q run", l.running)
		}
		r.finish()
	})
}

// Long lines are held only up to a limit. The call beyond it is refused with its id, and the
// answer beyond it fails its call.
func TestLongLinesAreLimited(t *testing.T) {
	racetest.Skip(t)
	virtual(t, func(t *testing.T) {
		in, send := io.Pipe()
		receive, out := io.Pipe()
		conn := newConn(jsonrpc.NewLines(in, out, closers{in, out}, 0), handler{handle: waiting}, nil)
		ran := make(chan error, 1)
		go func() { ran <- conn.Run(context.Background()) }()
		peer := jsonrpc.NewLines(receive, send, closers{receive, send}, 0)
		long := `{"a":"` + strings.Repeat("x", 15<<20) + `"}`
		for id := range 5 {
			_ = peer.Write(context.Background(), []byte(call(id, "wait", long)))
		}
		got, err := peer.Read()
		if want := failure(4, jsonrpc.Busy, bufpool.ErrFull.Error()); err != nil || string(got) != want {
			t.Errorf("the connection sent %.300s, %v; want %s", got, err, want)
		}
		_ = peer.Write(context.Background(), []byte(call(5, "echo", "{}")))
		if got, err = peer.Read(); string(got) != result(5, "{}") {
			t.Errorf("the connection sent %.300s, %v", got, err)
		}
		_ = conn.Close()
		_ = peer.Close()
		<-ran
	})
}

type closers [2]io.Closer

func (c closers) Close() error { return errors.Join(c[0].Close(), c[1].Close()) }

// The error of a refused message has its id, unless the peer could take the error for the answer
// to a call of its own.
func TestBusyError(t *testing.T) {
	for text, want := range map[string]struct { // ‖ separates the beginning from the end
		id       string
		response bool
	}{
		`{"method":"echo","params":{"a":"b‖cd"},"jsonrpc":"2.0","id":7}`: {"7", false},
		`{"method":"echo","params":{"a":"b‖cd"}, "id" : "x y" }` + "\n":  {`"x y"`, false},
		`{"result":{"a":"b‖cd"},"jsonrpc":"2.0","id":7}`:                 {"7", true},
		`{"method":"echo","params":{"a":"b‖cd\",\"id\":7}`:               {"", false},
		`{"method":"echo","params":{"a":"b‖cd","id":7}}`:                 {"", false},
		`{"method":"echo","params":"b‖cd","id":{"id":7}}`:                {"", false},
		`{"id":1,"method":"echo","params":{"a":"b‖cd"},"id":7}`:          {"1", false},
		`{"method":"echo","params":{"a":"b‖cd"},"jsonrpc":"2.0"}`:        {"", false},
		call(7, "echo", `{"a":"b"}`):                                     {"7", false},
		`{"jsonrpc":"2.0","id":7,"method":"echo","params":{"a":"bcd`:     {"7", false},
		`{"jsonrpc":"2.0","method":"echo","params":{"a":"bcd`:            {"", false},
		`{"jsonrpc":"2.0","id":7,"params":{"a":"bcd`:                     {"", false},
		`{"jsonrpc":"2.0","id":7,"result":{"a":"bcd`:                     {"7", true},
		`{"jsonrpc":"2.0","result":{"a":"bcd`:                            {"", true},
		`{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"bcd`:       {"7", true},
		`{"jsonrpc":"2.0","id":7,"id":8,"method":"echo","params":"a`:     {"", false},
		`[{"jsonrpc":"2.0","id":7,"method":"echo","params":"a`:           {"", false},
		``: {"", false},
	} {
		begin, end, _ := strings.Cut(text, "‖")
		e := jsonrpc.BusyError([]byte(begin), []byte(end), errors.New("busy"))
		if e.ID.String() != want.id || e.Response != want.response || e.Err.Code != jsonrpc.Busy {
			t.Errorf("%s: id %s, response %v, %v", text, e.ID, e.Response, e.Err)
		}
	}
}
