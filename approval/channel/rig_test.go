package channel_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/memnet"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/store"
)

const address = "ws://localhost/approval"

// quiet discards expected log lines.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func pass(d time.Duration) { <-time.After(d) }

// A rig is a channel on a network in memory, in virtual time.
type rig struct {
	*channel.Channel
	network *memnet.Network
	stop    func() // closes the channel
}

// start serves a channel on a network of its own.
func start(t *testing.T, opts *channel.Options) *rig {
	t.Helper()
	opts.Logger = quiet()
	c, err := channel.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Channel: c, network: memnet.New()}
	server := &http.Server{Handler: c, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	served := make(chan error)
	go func() { served <- server.Serve(r.network) }()
	r.stop = func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
		<-served
		r.network.Cut()
	}
	return r
}

// virtual runs a test with a channel on each store, and checks for leaks.
func virtual(t *testing.T, opts *channel.Options, test func(t *testing.T, r *rig)) {
	t.Helper()
	for name, open := range stores {
		if name != ownStore && opts != nil && opts.FailOnDisconnect { // New refuses both
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				own := *cmp.Or(opts, &channel.Options{})
				if own.Authenticate != nil {
					own.Authenticate = numberedApprovers() // they begin with 0 for each store
				}
				shared, closeStore := open(t)
				defer closeStore()
				own.Store = shared
				r := start(t, &own)
				defer r.stop()
				test(t, r)
			})
		})
	}
}

// ownStore names the store of a channel without Options.Store.
const ownStore = "own"

// stores are the stores on which channels are tested.
var stores = map[string]func(t *testing.T) (shared store.Store, closeStore func()){
	ownStore: func(*testing.T) (store.Store, func()) { return nil, func() {} },
	"shared": func(t *testing.T) (store.Store, func()) {
		memory, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		return memory, func() { memory.Close() }
	},
}

// An approver is a raw WebSocket client.
type approver struct {
	*websocket.Conn
	frames chan string
	ended  error       // why frames is closed
	mute   atomic.Bool // pings are not answered any more
}

// connect opens a WebSocket without an automatic reader.
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
	d := websocket.Dialer{NetDialContext: r.network.DialContext, Subprotocols: protocols}
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

// say sends a text frame and waits until it is handled.
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

// wantSilence checks that no frame has come.
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
		Decision   string          `json:"decision"`
		By         string          `json:"by"`
		Why        string          `json:"decision_reason"`
		Remember   int             `json:"remember"`
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

// request returns a request with this id.
func request(id string) *approval.Request {
	now := time.Now().UTC()
	return &approval.Request{
		ID: id, Target: approval.Target{Server: "files", Tool: "write"}, Arguments: json.RawMessage(`{"n":1}`),
		Created: now, Deadline: now.Add(5 * time.Minute),
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
		t.Fatalf("the request ended with %+v", v)
	default:
	}
}

func wantApproved(t *testing.T, done <-chan verdict, approved bool) {
	t.Helper()
	if v := <-done; v.err != nil || v.answer.Approved != approved {
		t.Errorf("the request ended with %+v, want %t", v, approved)
	}
}

func wantError(t *testing.T, done <-chan verdict, kind approval.Code, text string) {
	t.Helper()
	v := <-done
	if !errors.Is(v.err, kind) || v.answer.Approved || text != "" && v.err.Error() != text {
		t.Errorf("the request ended with %+v, want %s %q", v, string(kind), text)
	}
}

func TestMain(m *testing.M) { leaktest.Main(m) }
