package jsonrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// streams are pairs of connected streams of each kind.
var streams = map[string]func(t testing.TB) (a, b jsonrpc.Stream){
	"memory": func(testing.TB) (a, b jsonrpc.Stream) { return transport.NewPipe() },
	"lines on io.Pipe": func(testing.TB) (a, b jsonrpc.Stream) {
		ar, bw := io.Pipe()
		br, aw := io.Pipe()
		return jsonrpc.NewLines(ar, aw, both{ar, aw}, 0), jsonrpc.NewLines(br, bw, both{br, bw}, 0)
	},
	"lines on os.Pipe": osPipes,
}

func osPipes(t testing.TB) (a, b jsonrpc.Stream) {
	t.Helper()
	ar, bw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	br, aw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return jsonrpc.NewLines(ar, aw, both{ar, aw}, 0), jsonrpc.NewLines(br, bw, both{br, bw}, 0)
}

// both closes the two pipes of one end.
type both [2]io.Closer

func (b both) Close() error { return errors.Join(b[0].Close(), b[1].Close()) }

// A releaser is a server with calls of "wait" that return when a call of "release" with the same
// ticket comes.
type releaser struct {
	mu      sync.Mutex
	tickets map[string]chan string
	log     []string
}

func (r *releaser) ticket(name string) chan string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tickets == nil {
		r.tickets = map[string]chan string{}
	}
	if r.tickets[name] == nil {
		r.tickets[name] = make(chan string, 1)
	}
	return r.tickets[name]
}

func (r *releaser) HandleNotification(from jsonrpc.Peer, n *jsonrpc.Request) {
	switch n.Method {
	case "append":
		r.mu.Lock()
		defer r.mu.Unlock()
		r.log = append(r.log, string(n.Params))
	case "cancel":
		if id, err := jsonrpc.ParseID(n.Member("id")); err == nil {
			from.Cancel(id)
		}
	}
}

func (r *releaser) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	switch req.Method {
	case "echo":
		return echo(ctx, from, req, reply)
	case "log":
		r.mu.Lock()
		defer r.mu.Unlock()
		return reply.Write(jsonrpc.Raw(fmt.Sprint(len(r.log))))
	case "wait": // until released with a result
		select {
		case text := <-r.ticket(string(req.Member("ticket"))):
			return reply.Write(jsonrpc.Raw(text))
		case <-ctx.Done():
			r.ticket(`"cancelled"`) <- "true"
			return context.Cause(ctx)
		}
	case "release":
		r.ticket(string(req.Member("ticket"))) <- string(req.Member("with"))
		return reply.Write(jsonrpc.Raw(`true`))
	}
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: req.Method}
}

// A step of a sequence.
type step func(s *sequence)

// A sequence is a client of a releaser with its pending calls.
type sequence struct {
	t       *testing.T
	client  *jsonrpc.Conn
	pending map[string]*pendingCall
}

type pendingCall struct {
	cancel context.CancelFunc
	done   chan struct{}
	resp   *jsonrpc.Response
	err    error
}

func doCall(method, params, want string) step {
	return func(s *sequence) {
		s.t.Helper()
		resp, err := s.client.Call(s.t.Context(), method, jsonrpc.Raw(params))
		if err != nil {
			s.t.Errorf("%s: %v", method, err)
		} else if string(resp.Result) != want {
			s.t.Errorf("%s: the response is %s, want %s", method, resp.Result, want)
		}
	}
}

func doNotify(method, params string) step {
	return func(s *sequence) {
		s.t.Helper()
		if err := s.client.Notify(s.t.Context(), method, jsonrpc.Raw(params)); err != nil {
			s.t.Errorf("%s: %v", method, err)
		}
	}
}

func doAsync(name, method, params string) step {
	return func(s *sequence) {
		ctx, cancel := context.WithCancel(s.t.Context())
		b := &pendingCall{cancel: cancel, done: make(chan struct{})}
		s.pending[name] = b
		sent := make(chan struct{})
		go func() {
			defer close(b.done)
			b.resp, b.err = s.client.Call(ctx, method, &sentParams{Raw: jsonrpc.Raw(params), sent: sent})
		}()
		<-sent
	}
}

// sentParams close a channel when they are about to be sent.
type sentParams struct {
	jsonrpc.Raw
	sent chan struct{}
}

func (p *sentParams) ReceiveID(jsonrpc.ID) { close(p.sent) }

func doCancel(name string) step {
	return func(s *sequence) { s.pending[name].cancel() }
}

func collect(name, want string) step {
	return func(s *sequence) {
		s.t.Helper()
		b := s.pending[name]
		<-b.done
		b.cancel()
		if b.err != nil || string(b.resp.Result) != want {
			s.t.Errorf("%s: the response is %v (%v), want %s", name, b.resp, b.err, want)
		}
	}
}

func collectCancelled(name string) step {
	return func(s *sequence) {
		s.t.Helper()
		<-s.pending[name].done
		wantFailure(s.t, s.pending[name].err, jsonrpc.MaybeExecuted, context.Canceled)
	}
}

// Sequences of calls, notifications and cancellations work on each kind of stream.
func TestConnSequences(t *testing.T) {
	tests := map[string][]step{
		"call":   {doCall("echo", `[1]`, `[1]`), doCall("echo", `[2]`, `[2]`)},
		"notify": {doNotify("append", `[1]`), doNotify("append", `[2]`), doCall("log", `[]`, `2`)},
		"answers out of order": {
			doAsync("a", "wait", `{"ticket":"a"}`),
			doAsync("b", "wait", `{"ticket":"b"}`),
			doCall("echo", `[1]`, `[1]`),
			doCall("release", `{"ticket":"b","with":"for b"}`, `true`),
			collect("b", `"for b"`),
			doCall("release", `{"ticket":"a","with":"for a"}`, `true`),
			collect("a", `"for a"`),
		},
		"released before the wait": {
			doCall("release", `{"ticket":"a","with":1}`, `true`),
			doAsync("a", "wait", `{"ticket":"a"}`),
			collect("a", `1`),
		},
		"cancel": {
			doAsync("a", "wait", `{"ticket":"a"}`),
			doAsync("b", "wait", `{"ticket":"b"}`),
			doCancel("a"),
			collectCancelled("a"),
			doCall("release", `{"ticket":"b","with":2}`, `true`),
			collect("b", `2`),
			doCall("wait", `{"ticket":"cancelled"}`, `true`), // the handler was cancelled
		},
	}
	for kind, pair := range streams {
		for name, steps := range tests {
			t.Run(kind+"/"+name, func(t *testing.T) {
				a, b := pair(t)
				run(t, b, &releaser{})
				h := notifier{cancelled: func(from jsonrpc.Peer, id jsonrpc.ID, _ error) {
					if err := from.Notify(context.Background(), "cancel", jsonrpc.Raw(`{"id":`+id.String()+`}`)); err != nil {
						t.Error(err)
					}
				}}
				s := &sequence{t: t, client: run(t, a, h), pending: map[string]*pendingCall{}}
				for _, step := range steps {
					step(s)
				}
			})
		}
	}
}

// Concurrent calls in both directions get their own responses, byte for byte.
func TestConnConcurrently(t *testing.T) {
	for kind, pair := range streams {
		t.Run(kind, func(t *testing.T) {
			a, b := pair(t)
			ends := []*jsonrpc.Conn{run(t, a, handler{handle: echo}), run(t, b, handler{handle: echo})}
			var callers sync.WaitGroup
			for i, from := range ends {
				for j := range 8 {
					callers.Go(func() {
						for k := range 100 {
							params := fmt.Sprintf(`{"nonce":"%d %d %d","pad":"%0*d"}`, i, j, k, 1+k*k%5000, 0)
							resp, err := from.Call(t.Context(), "echo", jsonrpc.Raw(params))
							if err != nil || string(resp.Result) != params {
								t.Errorf("the response is %v (%v), want %s", resp, err, params)
								return
							}
						}
					})
				}
			}
			callers.Wait()
		})
	}
}
