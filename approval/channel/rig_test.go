package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

const address = "ws://localhost/approval"

// quiet is a logger for what a test provokes.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func pass(d time.Duration) { <-time.After(d) }

// A wire is a network in memory, for virtual time.
type wire struct {
	accepts chan net.Conn
	once    sync.Once
	closed  chan struct{}

	mu     sync.Mutex
	dialed []net.Conn
}

func newWire() *wire { return &wire{accepts: make(chan net.Conn), closed: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.accepts:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) Addr() net.Addr { return &net.UnixAddr{} }

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.accepts <- there:
		w.mu.Lock()
		w.dialed = append(w.dialed, here)
		w.mu.Unlock()
		return here, nil
	case <-w.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// cut ends the connections that were dialed.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.dialed {
		c.Close()
	}
	w.dialed = nil
}

// A rig is a channel that can be connected to, in virtual time.
type rig struct {
	*channel.Channel
	wire *wire
}

// virtual runs a test with a channel, and checks that nothing of it is left.
func virtual(t *testing.T, opts *channel.Options, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if opts == nil {
			opts = &channel.Options{}
		}
		opts.Logger = quiet()
		c, err := channel.New(opts)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{c, newWire()}
		server := &http.Server{Handler: c, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
		served := make(chan error)
		go func() { served <- server.Serve(r.wire) }()
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			server.Close()
			<-served
			r.wire.cut()
		}()
		test(t, r)
	})
}

// An approver is a raw client, such as the original one.
type approver struct {
	*websocket.Conn
	frames chan string
	ended  error       // why frames is closed
	mute   atomic.Bool // pings are not answered any more
}

// connect opens a socket by which frames come as they are.
func (r *rig) connect(t *testing.T, protocols ...string) *approver {
	t.Helper()
	a, err := r.open(protocols...)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if len(protocols) > 0 {
		if frame := a.next(t); frame != `{"jsonrpc":"2.0","method":"registered","params":{}}` {
			t.Errorf("the first frame is %s", frame)
		}
	}
	return a
}

func (r *rig) open(protocols ...string) (*approver, error) {
	d := websocket.Dialer{NetDialContext: r.wire.dial, Subprotocols: protocols}
	header := http.Header{"Authorization": {"Bearer " + r.Token()}}
	conn, resp, err := d.Dial(address, header)
	if err != nil {
		if resp != nil {
			err = errors.New(resp.Status)
		}
		return nil, err
	}
	a := &approver{Conn: conn, frames: make(chan string, 2000)}
	pong := conn.PingHandler()
	conn.SetPingHandler(func(payload string) error {
		if a.mute.Load() {
			return nil
		}
		return pong(payload)
	})
	go func() {
		defer close(a.frames)
		for {
			_, frame, err := conn.ReadMessage()
			if err != nil {
				a.ended = err
				conn.Close()
				return
			}
			a.frames <- string(frame)
		}
	}()
	return a, nil
}

// say sends a text frame, and lets it arrive.
func (a *approver) say(t *testing.T, frame string) {
	t.Helper()
	if err := a.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// next is the next frame.
func (a *approver) next(t *testing.T) string {
	t.Helper()
	select {
	case frame, ok := <-a.frames:
		if !ok {
			t.Fatalf("the connection has ended: %v", a.ended)
		}
		return frame
	case <-time.After(time.Minute):
		t.Fatal("no frame has come")
		return ""
	}
}

// wantSilence checks that nothing has come.
func (a *approver) wantSilence(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case frame, ok := <-a.frames:
		t.Errorf("%q has come (%t)", frame, ok)
	default:
	}
}

// wantClose checks how the connection was closed.
func (a *approver) wantClose(t *testing.T, code int, reason string) {
	t.Helper()
	for frame := range a.frames {
		t.Errorf("%q has come", frame)
	}
	var closed *websocket.CloseError
	if !errors.As(a.ended, &closed) || closed.Code != code || closed.Text != reason {
		t.Errorf("the connection ended with %v, want %d %q", a.ended, code, reason)
	}
}

// shown is what a frame asks about.
type shown struct {
	JSONRPC string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  struct {
		Server     string          `json:"server_name"`
		Tool       string          `json:"tool_name"`
		Args       json.RawMessage `json:"tool_args"`
		CallID     string          `json:"call_id"`
		ArgsDigest string          `json:"args_digest"`
		Deadline   time.Time       `json:"deadline"`
		ID         string          `json:"id"`
		Reason     string          `json:"reason"`
	} `json:"params"`
	ID string `json:"id"`
}

func (a *approver) asked(t *testing.T) shown {
	t.Helper()
	var s shown
	if err := json.Unmarshal([]byte(a.next(t)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// A verdict is what Approve has returned.
type verdict struct {
	answer approval.Answer
	err    error
}

// request is one with this id.
func request(id string) *approval.Request {
	now := time.Now().UTC()
	return &approval.Request{
		ID: id, Target: approval.Target{Server: "files", Tool: "write"}, Arguments: json.RawMessage(`{"n":1}`),
		Created: now, Deadline: now.Add(approval.DefaultExpiry),
	}
}

// ask asks the channel as a gate does.
func (r *rig) ask(t *testing.T, id string) <-chan verdict { return r.askWith(t.Context(), request(id)) }

func (r *rig) askWith(ctx context.Context, q *approval.Request) <-chan verdict {
	done := make(chan verdict, 1)
	go func() {
		ctx, cancel := context.WithDeadlineCause(ctx, q.Deadline, approval.Expired)
		defer cancel()
		a, err := r.Approve(ctx, q)
		done <- verdict{a, err}
	}()
	synctest.Wait()
	return done
}

func wantPending(t *testing.T, done <-chan verdict) {
	t.Helper()
	synctest.Wait()
	select {
	case v := <-done:
		t.Errorf("the request ended with %+v", v)
	default:
	}
}

func wantApproved(t *testing.T, done <-chan verdict, approved bool) {
	t.Helper()
	if v := <-done; v.err != nil || v.answer.Approved != approved {
		t.Errorf("the request ended with %+v, want %t", v, approved)
	}
}

func wantError(t *testing.T, done <-chan verdict, kind approval.Kind, text string) {
	t.Helper()
	v := <-done
	if !errors.Is(v.err, kind) || v.answer.Approved || text != "" && v.err.Error() != text {
		t.Errorf("the request ended with %+v, want %s %q", v, string(kind), text)
	}
}
