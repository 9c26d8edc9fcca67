package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

// clientOptions are for the rig's network.
func (r *rig) clientOptions() *channel.ClientOptions {
	return &channel.ClientOptions{
		Token: r.Token(), Logger: quiet(),
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: r.wire.dial}},
	}
}

// dial connects a client that the test closes.
func (r *rig) dial(t *testing.T, handler approval.Handler, opts *channel.ClientOptions) *channel.Client {
	t.Helper()
	if opts == nil {
		opts = r.clientOptions()
	}
	c, err := channel.Dial(t.Context(), address, handler, opts)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return c
}

// TestClient: what the server asks is what the handler is shown, to the byte.
func TestClient(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		var shown *approval.Request
		c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
			shown = p.Request
			if strings.Contains(string(p.Arguments), "no") {
				_ = p.Reject(ctx, "I would rather \u202e not")
				return
			}
			_ = p.Accept(ctx)
		}, nil)
		defer c.Close()
		q := request("1")
		q.Arguments = json.RawMessage("{ \"n\" : 12345678901234567890.0,\n\"s\":\"\\u0041\u2028<\" }")
		q.Launch, q.ToolDigest, q.Caller = "cafe", "sha256:beef", "anna"
		q.Created, q.Deadline = q.Created.Truncate(time.Millisecond), q.Deadline.Truncate(time.Millisecond)
		wantApproved(t, r.askWith(t.Context(), q), true)
		if shown.Digest() != q.Digest() || string(shown.Arguments) != string(q.Arguments) || shown.Target != q.Target {
			t.Errorf("shown was %+v, want %+v", shown, q)
		}
		q = request("2")
		q.Arguments = json.RawMessage(`{"a":"no"}`)
		if v := <-r.askWith(t.Context(), q); v.answer != (approval.Answer{Reason: "I would rather \u202e not", By: "channel"}) || v.err != nil {
			t.Errorf("the answer is %+v", v)
		}
	})
}

// TestClientConcurrency: a handler that takes its time keeps nobody waiting.
func TestClientConcurrency(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
			if p.ID == "stuck" {
				<-release
			}
			_ = p.Accept(ctx)
		}, nil)
		defer c.Close()
		stuck := r.ask(t, "stuck")
		for i := range 100 {
			wantApproved(t, r.ask(t, fmt.Sprint(i)), true)
		}
		wantPending(t, stuck)
		close(release)
		wantApproved(t, stuck, true)
	})
}

// TestClientDeferred: the answer may come after the handler, once, and while somebody waits.
func TestClientDeferred(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		prompts := make(chan *approval.Prompt, 10)
		contexts := make(chan context.Context, 10)
		c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
			prompts <- p
			contexts <- ctx
		}, nil)
		defer c.Close()
		done := r.ask(t, "1")
		p := <-prompts
		pass(time.Minute)
		if _, ok := p.Answer(); ok {
			t.Error("it has been decided")
		}
		if err := p.Accept(t.Context()); err != nil {
			t.Error(err)
		}
		<-p.Decided()
		if err := p.Reject(t.Context(), ""); !errors.Is(err, approval.ErrDecided) {
			t.Errorf("the second answer's error is %v", err)
		}
		wantApproved(t, done, true)
		<-(<-contexts).Done() // it has been answered

		ctx, cancel := context.WithCancel(t.Context()) // the server withdraws it
		done = r.askWith(ctx, request("2"))
		p = <-prompts
		cancel()
		<-(<-contexts).Done()
		synctest.Wait()
		if err := p.Accept(t.Context()); !errors.Is(err, approval.ErrWithdrawn) {
			t.Errorf("the answer's error is %v", err)
		}
		<-done

		q := request("3") // it expires
		q.Deadline = time.Now().Add(time.Second).Truncate(time.Millisecond)
		done = r.askWith(t.Context(), q)
		p = <-prompts
		wantError(t, done, approval.Expired, "")
		synctest.Wait()
		if err := p.Accept(t.Context()); !errors.Is(err, approval.ErrWithdrawn) {
			t.Errorf("the answer's error is %v", err)
		}
		<-contexts

		done = r.ask(t, "4") // the connection ends, and another brings it again
		p = <-prompts
		<-contexts
		r.wire.cut()
		synctest.Wait()
		if err := p.Accept(t.Context()); !errors.Is(err, approval.ErrWithdrawn) {
			t.Errorf("the answer's error is %v", err)
		}
		if _, decided := p.Answer(); decided {
			t.Error("an answer that was not taken is there")
		}
		again := <-prompts
		if again.ID != "4" || !c.Connected() {
			t.Errorf("the next connection brings %s", again.ID)
		}
		wantPending(t, done)
		if err := again.Accept(t.Context()); err != nil {
			t.Error(err)
		}
		wantApproved(t, done, true)
	})
}

// TestClientPanic: a handler that panics refuses.
func TestClientPanic(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
			if p.ID == "late" {
				_ = p.Accept(ctx)
			}
			panic("handler")
		}, nil)
		defer c.Close()
		wantApproved(t, r.ask(t, "1"), false)
		wantApproved(t, r.ask(t, "late"), true)
	})
}

// TestClientLimit: a request too many fails at once.
func TestClientLimit(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		opts := r.clientOptions()
		opts.MaxHandlers = 1
		var first *approval.Prompt
		c := r.dial(t, func(_ context.Context, p *approval.Prompt) { first = p }, opts)
		defer c.Close()
		done := r.ask(t, "1")
		wantError(t, r.ask(t, "2"), approval.Failed, "the approver failed: too many requests are open")
		if err := first.Accept(t.Context()); err != nil {
			t.Error(err)
		}
		wantApproved(t, done, true)
		done = r.ask(t, "3")
		if err := first.Accept(t.Context()); err != nil {
			t.Error(err)
		}
		wantApproved(t, done, true)
	})
}

// TestClientReconnects: after a pause, until it is closed.
func TestClientReconnects(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		accept := func(ctx context.Context, p *approval.Prompt) { _ = p.Accept(ctx) }
		c := r.dial(t, accept, nil)
		for i := range 5 {
			wantApproved(t, r.ask(t, fmt.Sprint(i)), true)
			r.wire.cut()
			synctest.Wait()
			if c.Connected() {
				t.Error("it is connected at once")
			}
			pass(time.Minute)
			if !c.Connected() {
				t.Fatalf("it has not connected again: %v", c.Err())
			}
		}
		opts := r.clientOptions()
		opts.Once = true
		if err := errors.Join(c.Close(), c.Close()); err != nil || c.Connected() || c.Err() != nil {
			t.Errorf("closed, it is %t, %v, %v", c.Connected(), c.Err(), err)
		}
		<-c.Done()
		synctest.Wait()
		once := r.dial(t, accept, opts)
		wantApproved(t, r.ask(t, "once"), true)
		r.wire.cut()
		<-once.Done()
		if once.Err() == nil || once.Close() != nil {
			t.Errorf("it ended with %v", once.Err())
		}
	})
}

// TestClientClose: what is open then was not answered.
func TestClientClose(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		ended := false
		c := r.dial(t, func(ctx context.Context, _ *approval.Prompt) {
			<-ctx.Done()
			pass(time.Second)
			ended = true
		}, nil)
		done := r.ask(t, "1")
		if err := c.Close(); err != nil || !ended {
			t.Errorf("Close has not waited: %v", err)
		}
		wantPending(t, done)
		wantError(t, done, approval.Lost, "")
	})
}

// TestDialFails says why.
func TestDialFails(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		for url, want := range map[string]string{
			"ftp://localhost": "scheme", "ws://": "host", "ws://a:b@localhost": "user", "%": "URL", "ws://localhost\x00": "URL",
		} {
			if _, err := channel.Dial(t.Context(), url, nil, r.clientOptions()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", url, err)
			}
		}
		opts := r.clientOptions()
		opts.Token = "wrong"
		if _, err := channel.Dial(t.Context(), address, nil, opts); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("a wrong token: %v", err)
		}
		opts = r.clientOptions()
		opts.HTTPClient = &http.Client{Transport: http.NewFileTransport(http.Dir("."))}
		if _, err := channel.Dial(t.Context(), address, nil, opts); err == nil {
			t.Error("an unknown transport was taken")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("not now"))
		if _, err := channel.Dial(ctx, address, nil, r.clientOptions()); err == nil || !strings.Contains(err.Error(), "not now") {
			t.Errorf("without time: %v", err)
		}
	})
}

// TestOriginalServer is the traffic of a server written before there were digests.
func TestOriginalServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		sockets := make(chan *websocket.Conn, 1)
		upgrader := websocket.Upgrader{}
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
			conn, err := upgrader.Upgrade(rw, q, nil)
			if err != nil {
				t.Error(err)
				return
			}
			sockets <- conn
		})}
		served := make(chan error)
		go func() { served <- server.Serve(w) }()
		var mu sync.Mutex
		var shown []string
		c, err := channel.Dial(t.Context(), address, func(ctx context.Context, p *approval.Prompt) {
			mu.Lock()
			shown = append(shown, p.String())
			mu.Unlock()
			_ = p.Accept(ctx)
		}, &channel.ClientOptions{Logger: quiet(), HTTPClient: &http.Client{Transport: &http.Transport{DialContext: w.dial}}})
		if err != nil {
			t.Fatal(err)
		}
		socket := <-sockets
		for _, step := range []struct{ frame, answer string }{
			{`{"jsonrpc": "2.0", "method": "approve", "params": {"server_name": "server", "tool_name": "tool", "tool_args": {"name": "test"}}, "id": "6f9619ff"}`, `{"jsonrpc":"2.0","result":true,"id":"6f9619ff"}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{}},"id":7}`, `{"jsonrpc":"2.0","result":true,"id":7}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":[]},"id":"a"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"tool_args must be an object, not an array"},"id":"a"}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{},"args_digest":"00"},"id":"b"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"args_digest is not that of tool_args"},"id":"b"}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{},"digest":"00"},"id":"c"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"digest is not that of the request"},"id":"c"}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{},"deadline":"soon"},"id":"d"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"deadline must be a time (RFC 3339)"},"id":"d"}`},
			{`{"jsonrpc":"2.0","method":"execute","params":{},"id":"e"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"there is no method \"execute\""},"id":"e"}`},
			{`nonsense`, ""}, {`{"jsonrpc":"2.0","method":"withdrawn","params":{"id":"nobody"}}`, ""}, {`{"jsonrpc":"2.0","method":"refused","params":{"id":"nobody"}}`, ""},
		} {
			if err := socket.WriteMessage(websocket.TextMessage, []byte(step.frame)); err != nil {
				t.Fatal(err)
			}
			if step.answer == "" {
				continue
			}
			_, answer, err := socket.ReadMessage()
			if err != nil || string(answer) != step.answer {
				t.Errorf("%s\nis answered with %s (%v), want\n%s", step.frame, answer, err, step.answer)
			}
		}
		synctest.Wait()
		if fmt.Sprint(shown) != "[server.tool(name='test') s.t()]" {
			t.Errorf("shown was %q", shown)
		}
		go c.Close()
		_, _, err = socket.ReadMessage()
		if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("the connection ended with %v", err)
		}
		socket.Close()
		<-c.Done()
		server.Close()
		<-served
	})
}
