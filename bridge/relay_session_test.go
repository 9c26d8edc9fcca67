package bridge_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/test/sessiontest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A forgetfulDialer connects to a server that loses its sessions. It records what the server gets.
type forgetfulDialer struct {
	answer func(req *jsonrpc.Request) (string, error)

	mu       sync.Mutex
	sessions int // the sessions before this one are lost
	delivery jsonrpc.Delivery
	got      []string
	conns    []transport.Conn
	fails    int // how often Dial fails
}

func (d *forgetfulDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := transport.Pipe(&forgetfulServer{d}).Dial(ctx, handler)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails > 0 {
		d.fails--
		conn.Close()
		return nil, transport.ErrNotReached
	}
	d.conns = append(d.conns, conn)
	return &forgetfulConn{conn, d, d.sessions}, err
}

// end ends the latest connection.
func (d *forgetfulDialer) end() {
	d.mu.Lock()
	conn := d.conns[len(d.conns)-1]
	d.mu.Unlock()
	conn.Close()
}

// lose makes the server forget all sessions. How it refuses the next call says whether that may have been executed.
func (d *forgetfulDialer) lose(delivery jsonrpc.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions++
	d.delivery = delivery
}

func (d *forgetfulDialer) record(req *jsonrpc.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, strings.TrimSpace(req.Method+" "+string(req.Member("uri"))+string(req.Member("level"))))
}

func (d *forgetfulDialer) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	got := d.got
	d.got = nil
	return got
}

type forgetfulServer struct{ *forgetfulDialer }

func (s *forgetfulServer) Bind(transport.Link) jsonrpc.Handler                      { return s }
func (s *forgetfulServer) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) { s.record(note) }
func (s *forgetfulServer) Handle(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	s.record(req)
	text, err := s.answer(req)
	reply.Buf = append(reply.Buf, text...)
	return err
}

type forgetfulConn struct {
	transport.Conn
	dialer  *forgetfulDialer
	session int
}

func (c *forgetfulConn) err(method string) error {
	c.dialer.mu.Lock()
	defer c.dialer.mu.Unlock()
	if c.session == c.dialer.sessions {
		return nil
	}
	return &jsonrpc.CallError{Method: method, Delivery: c.dialer.delivery, Err: transport.ErrSessionLost}
}

func (c *forgetfulConn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	if err := c.err(method); err != nil {
		return nil, err
	}
	return c.Conn.Call(ctx, method, params)
}

func (c *forgetfulConn) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if err := c.err(method); err != nil {
		return err
	}
	return c.Conn.Notify(ctx, method, params)
}

// TestRelayOpensNextSession checks that a relay repeats what the client has said in a session that the server has lost, once,
// and sends the call that the server refused.
func TestRelayOpensNextSession(t *testing.T) {
	const (
		initialize  = `initialize {"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"},"x":1.0}`
		initialized = `notifications/initialized {}`
	)
	for name, test := range map[string]struct {
		before   []string // the client's messages before the server loses the session
		delivery jsonrpc.Delivery
		version  string   // of the server later, if it is another one
		then     string   // the next message
		want     []string // what the server gets then
		fails    string
		changes  []string // of which the client is notified
	}{
		"handshake": {
			before: []string{initialize, initialized},
			want:   []string{"initialize", "notifications/initialized", "x/work"}, changes: []string{"notifications/tools/list_changed "},
		},
		"settings": {
			before: []string{
				initialize, initialized, `logging/setLevel {"level":"error"}`, `logging/setLevel {"level":"debug"}`,
				`resources/subscribe {"uri":"b:"}`, `resources/subscribe {"uri":"a:"}`, `resources/subscribe {"uri":"a:"}`, `resources/subscribe {"uri":"gone:"}`,
				`resources/subscribe {"uri":"c:"}`, `resources/unsubscribe {"uri":"c:"}`, "x/work {}",
			},
			want:    []string{"initialize", "notifications/initialized", `logging/setLevel "debug"`, `resources/subscribe "a:"`, `resources/subscribe "b:"`, "x/work"},
			changes: []string{"notifications/tools/list_changed ", `notifications/resources/updated {"uri":"a:"}`, `notifications/resources/updated {"uri":"b:"}`},
		},
		"other spellings": {
			before: []string{
				initialize, initialized, `resources/subscribe {"uri":"file:///a%7Eb"}`, `resources/unsubscribe {"uri":"file:///a~b"}`,
				`resources/subscribe {"uri":"file:\/\/\/c"}`, `resources/unsubscribe {"uri":"file:///c"}`, `resources/subscribe {"uri":"file:\/\/\/%7Ed"}`,
			},
			want:    []string{"initialize", "notifications/initialized", `resources/subscribe "file:\/\/\/%7Ed"`, "x/work"},
			changes: []string{"notifications/tools/list_changed ", `notifications/resources/updated {"uri":"file:\/\/\/%7Ed"}`},
		},
		"no handshake": {before: []string{"x/work {}"}, want: []string{"x/work"}},
		"notification": {
			before: []string{initialize, initialized}, then: `notifications/roots/list_changed {}`,
			want: []string{"initialize", "notifications/initialized", "notifications/roots/list_changed"}, changes: []string{"notifications/tools/list_changed "},
		},
		"perhaps executed": {before: []string{initialize, initialized}, delivery: jsonrpc.MaybeExecuted, fails: `{"type":"UPSTREAM_LOST","executed":"maybe"}`},
		"other version":    {before: []string{initialize, initialized}, version: "2025-06-18", want: []string{"initialize"}, fails: `{"type":"UPSTREAM_UNAVAILABLE","executed":"no"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				version := "2025-11-25"
				up := &forgetfulDialer{answer: func(req *jsonrpc.Request) (string, error) {
					switch {
					case req.Method == mcp.MethodInitialize:
						return `{"protocolVersion":"` + version + `","capabilities":{"tools":{"listChanged":true},"prompts":{}},"serverInfo":{"name":"s","version":"1"}}`, nil
					case string(req.Member("uri")) == `"gone:"`:
						return "", mcp.ResourceNotFound("gone:")
					}
					return `{"method":"` + req.Method + `"}`, nil
				}}
				relay := bridge.Relay(up, &bridge.RelayOptions{Logger: quiet()})
				defer relay.Close()
				peer := newRawPeer(nil)
				conn := dial(t, pipeTo(relay), peer)
				send := func(line string) (*jsonrpc.Response, error) {
					method, params, _ := strings.Cut(line, " ")
					if strings.HasPrefix(method, "notifications/") {
						return nil, conn.Notify(t.Context(), method, jsonrpc.Raw(params))
					}
					return conn.Call(t.Context(), method, jsonrpc.Raw(params))
				}
				for _, line := range test.before {
					_, _ = send(line) // "gone:" is refused
				}
				synctest.Wait()
				if got := up.take(); len(got) != len(test.before) {
					t.Fatalf("the server got %q", got)
				}
				up.lose(test.delivery)
				if test.version != "" {
					version = test.version
				}
				then := test.then
				if then == "" {
					then = "x/work {}"
				}
				resp, err := send(then)
				synctest.Wait()
				switch {
				case test.fails != "":
					wantError(t, err, jsonrpc.InternalError, test.fails)
				case err != nil || resp != nil && string(resp.Result) != `{"method":"x/work"}`:
					t.Errorf("the call gives %v, %v", resp, err)
				}
				got := up.take()
				slices.Sort(got[min(len(got), 2):]) // subscriptions are repeated concurrently, also with the next message
				if !slices.Equal(got, test.want) {
					t.Errorf("the server got %q, want %q", got, test.want)
				}
				var changes []string
				for len(peer.notes) > 0 {
					changes = append(changes, <-peer.notes)
				}
				slices.Sort(changes[min(len(changes), 1):])
				if !slices.Equal(changes, test.changes) {
					t.Errorf("the client is notified of %q, want %q", changes, test.changes)
				}
				version = "2025-11-25"
				if _, err := send("x/work {}"); err != nil {
					t.Errorf("a later call fails with %v", err)
				}
				if n := len(slices.DeleteFunc(up.take(), func(line string) bool { return line != "x/work" })); n != 1 {
					t.Errorf("a later call was sent %d times", n)
				}
			})
		})
	}
}

// TestRelayOfServerThatLosesEachSession checks that a call is sent a limited number of times.
func TestRelayOfServerThatLosesEachSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &forgetfulDialer{}
		up.answer = func(*jsonrpc.Request) (string, error) {
			up.lose(jsonrpc.NotSent)
			return `{"protocolVersion":"2025-11-25","capabilities":{}}`, nil
		}
		relay := bridge.Relay(up, &bridge.RelayOptions{Logger: quiet()})
		defer relay.Close()
		conn := dial(t, pipeTo(relay), newRawPeer(nil))
		if _, err := conn.Call(t.Context(), mcp.MethodInitialize, jsonrpc.Raw("{}")); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			up.take()
			_, err := conn.Call(t.Context(), "x/work", jsonrpc.Raw("{}"))
			wantError(t, err, jsonrpc.InternalError, `{"type":"UPSTREAM_UNAVAILABLE","executed":"no"}`)
			if n := len(up.take()); n > 4 {
				t.Errorf("the server gets %d messages", n)
			}
		}
	})
}

// TestRelayOfClientThatWaits checks that a client that sends nothing gets notifications of its subscriptions again after the
// server has lost the session, but not after another end of the connection.
func TestRelayOfClientThatWaits(t *testing.T) {
	for name, test := range map[string]struct {
		lost  bool
		fails int
		want  []string
	}{
		"lost":           {lost: true, want: []string{"initialize", `resources/subscribe "a:"`}},
		"lost, and away": {lost: true, fails: 20, want: []string{"initialize", `resources/subscribe "a:"`}},
		"ended":          {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &forgetfulDialer{answer: func(*jsonrpc.Request) (string, error) {
					return `{"protocolVersion":"2025-11-25","capabilities":{}}`, nil
				}}
				relay := bridge.Relay(up, &bridge.RelayOptions{Logger: quiet()})
				defer relay.Close()
				peer := newRawPeer(nil)
				conn := dial(t, pipeTo(relay), peer)
				for _, call := range [][2]string{{mcp.MethodInitialize, `{}`}, {mcp.MethodResourcesSubscribe, `{"uri":"a:"}`}} {
					if _, err := conn.Call(t.Context(), call[0], jsonrpc.Raw(call[1])); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					up.take()
					up.mu.Lock()
					up.fails = test.fails
					up.mu.Unlock()
					if test.lost {
						up.lose(jsonrpc.NotSent)
					}
					up.end()
					<-time.After(20 * time.Minute) // for the pauses
					synctest.Wait()
					got := slices.DeleteFunc(up.take(), func(line string) bool { return line == mcp.NotificationInitialized })
					if !slices.Equal(got, test.want) {
						t.Fatalf("the server got %q, want %q", got, test.want)
					}
					if len(test.want) > 0 {
						if note := waittest.Receive(t, "a notification", peer.notes); note != `notifications/resources/updated {"uri":"a:"}` {
							t.Errorf("the client got %q", note)
						}
					}
				}
			})
		})
	}
}

// TestRelayFindsLossByStream checks that a client that sends nothing gets the next session over Streamable HTTP too, where the end
// of the stream shows that the server has lost the session.
func TestRelayFindsLossByStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := make(chan struct{})
		s := sessiontest.New(t, func(w http.ResponseWriter, _ *sessiontest.Request) { w.WriteHeader(http.StatusNotFound) })
		s.Stream = func(w http.ResponseWriter, r *sessiontest.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			select {
			case <-cut:
			case <-r.Context().Done():
			}
		}
		relay := bridge.Relay(dialLossy(s), &bridge.RelayOptions{Logger: quiet()})
		defer relay.Close()
		peer := newRawPeer(nil)
		conn := dial(t, pipeTo(relay), peer)
		const initialize = `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`
		for _, call := range [][2]string{{mcp.MethodInitialize, initialize}, {mcp.MethodResourcesSubscribe, `{"uri":"a:"}`}} {
			if _, err := conn.Call(t.Context(), call[0], jsonrpc.Raw(call[1])); err != nil {
				t.Fatal(err)
			}
		}
		if err := conn.Notify(t.Context(), mcp.NotificationInitialized, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.Lose()
		cut <- struct{}{}
		if note := waittest.Receive(t, "a notification", peer.notes); note != `notifications/resources/updated {"uri":"a:"}` {
			t.Errorf("the client got %q", note)
		}
	})
}

// TestRelayOfIdleServerThatLosesEachSession checks that a relay opens few sessions at a server that loses each session.
func TestRelayOfIdleServerThatLosesEachSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := &forgetfulDialer{}
		up.answer = func(*jsonrpc.Request) (string, error) {
			time.AfterFunc(time.Millisecond, func() {
				up.lose(jsonrpc.NotSent)
				up.end()
			})
			return `{"protocolVersion":"2025-11-25","capabilities":{}}`, nil
		}
		relay := bridge.Relay(up, &bridge.RelayOptions{Logger: quiet()})
		conn := dial(t, pipeTo(relay), newRawPeer(nil))
		if _, err := conn.Call(t.Context(), mcp.MethodInitialize, jsonrpc.Raw("{}")); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Minute) // for the pauses
		relay.Close()
		synctest.Wait()
		up.mu.Lock()
		defer up.mu.Unlock()
		if n := len(up.conns); n < 20 || n > 60 {
			t.Errorf("the relay has connected %d times in 10 minutes", n)
		}
	})
}

// An updatedPeer is a client that records of which resources it is notified.
type updatedPeer struct {
	subscribed *sync.Map // at the server

	mu       sync.Mutex
	notified map[string]bool
	early    int // notifications before the subscription
}

func (p *updatedPeer) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) {
	uri := string(note.Member("uri"))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notified[uri] = true
	if _, ok := p.subscribed.Load(uri); !ok {
		p.early++
	}
}

func (p *updatedPeer) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound}
}

// TestRelayRepeatsManySubscriptions checks that a relay repeats all subscriptions at a slow server, also if it needs another
// session for that, and notifies the client of a resource only after its subscription was repeated.
func TestRelayRepeatsManySubscriptions(t *testing.T) {
	const n = 1000
	for name, test := range map[string]struct {
		delay time.Duration
		fail  func(up *forgetfulDialer, number int64) error // of a subscription in a later session
		twice bool
	}{
		"slow": {delay: 200 * time.Millisecond},
		"busy": {fail: func(_ *forgetfulDialer, i int64) error {
			if i%3 == 0 {
				return &jsonrpc.Error{Code: jsonrpc.Busy, Message: "busy"}
			}
			return nil
		}},
		"lost then": {twice: true, fail: func(up *forgetfulDialer, i int64) error {
			if i == n/2 {
				up.lose(jsonrpc.NotSent)
			}
			return nil
		}},
		"hangs once": {twice: true, fail: func(_ *forgetfulDialer, i int64) error {
			if i == n/2 {
				<-time.After(time.Minute) // longer than ConnectTimeout
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var later atomic.Bool
				var number, running, most atomic.Int64
				var subscribed sync.Map
				up := &forgetfulDialer{}
				up.answer = func(req *jsonrpc.Request) (string, error) {
					switch {
					case req.Method == mcp.MethodInitialize:
						subscribed.Clear()
					case req.Method == mcp.MethodResourcesUnsubscribe:
						subscribed.Store(string(req.Member("uri")), false)
					case req.Method == mcp.MethodResourcesSubscribe && later.Load():
						most.Store(max(most.Load(), running.Add(1)))
						defer running.Add(-1)
						if i := number.Add(1); test.fail != nil {
							if err := test.fail(up, i); err != nil {
								return "", err
							}
						}
						<-time.After(time.Millisecond + test.delay) // the work of the server
						fallthrough
					case req.Method == mcp.MethodResourcesSubscribe:
						subscribed.Store(string(req.Member("uri")), true)
					}
					return `{"protocolVersion":"2025-11-25","capabilities":{}}`, nil
				}
				relay := bridge.Relay(up, &bridge.RelayOptions{Logger: quiet()})
				defer relay.Close()
				peer := &updatedPeer{subscribed: &subscribed, notified: make(map[string]bool)}
				conn := dial(t, pipeTo(relay), peer)
				if _, err := conn.Call(t.Context(), mcp.MethodInitialize, jsonrpc.Raw("{}")); err != nil {
					t.Fatal(err)
				}
				for i := range n {
					if _, err := conn.Call(t.Context(), mcp.MethodResourcesSubscribe, jsonrpc.Raw(fmt.Sprintf(`{"uri":"a:%d"}`, i))); err != nil {
						t.Fatal(err)
					}
				}
				later.Store(true)
				up.lose(jsonrpc.NotSent)
				if _, err := conn.Call(t.Context(), "x/work", jsonrpc.Raw("{}")); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Call(t.Context(), mcp.MethodResourcesUnsubscribe, jsonrpc.Raw(`{"uri":"a:0"}`)); err != nil {
					t.Fatal(err)
				}
				<-time.After(10 * time.Minute) // for the pauses
				synctest.Wait()
				got := 0
				for i := range n {
					if is, _ := subscribed.Load(fmt.Sprintf(`"a:%d"`, i)); is == true {
						got++
					}
				}
				peer.mu.Lock()
				defer peer.mu.Unlock()
				if got != n-1 || len(peer.notified) != n || peer.early > 0 && !test.twice || most.Load() > 8 {
					t.Errorf("%d subscriptions were repeated, %d at the same time; the client is notified of %d, of %d too early",
						got, most.Load(), len(peer.notified), peer.early)
				}
			})
		})
	}
}
