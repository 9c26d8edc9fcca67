package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

const (
	// relayChild makes the test binary a server over stdio: a "shop", one that can "crash", a
	// "relay" to the URL in relayTo, or one that runs "once" with the lock file in relayTo.
	relayChild = "BRIDGE_TEST_CHILD"
	relayTo    = "BRIDGE_TEST_URL"
)

// TestRelayChild serves if relayChild is set. Otherwise it does nothing.
func TestRelayChild(*testing.T) {
	var served transport.Binder
	switch url := os.Getenv(relayTo); os.Getenv(relayChild) {
	default:
		return
	case "shop":
		served = newRelayedShop()
	case "once":
		lock, err := os.OpenFile(url, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = lock.WriteString("started\n")
		}
		if err == nil {
			err = sharedfile.TryLock(lock)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "another server is running:", err)
			os.Exit(4)
		}
		served = newShop()
	case "crash":
		crashing := newServer("crash")
		server.AddTool(crashing, server.Tool{Name: "crash"}, func(context.Context, *server.Request, struct{}) (string, error) {
			fmt.Fprintln(os.Stderr, "Error: the disk is full")
			os.Exit(3)
			return "", nil
		})
		served = crashing
	case "relay":
		behind := child("shop", "")
		if url != "" {
			behind = streamable.Dial(url, nil)
		}
		served = bridge.Relay(behind, nil)
	}
	if err := stdio.Serve(context.Background(), served, nil); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// child returns a dialer that runs this binary as a server.
func child(kind, url string) transport.Dialer {
	return stdio.Command(os.Args[0], []string{"-test.run=^TestRelayChild$"}, &stdio.CommandOptions{
		Env: []string{relayChild + "=" + kind, relayTo + "=" + url},
	})
}

// newRelayedShop returns a shop with more tools, for exercise.
func newRelayedShop() *server.Server {
	s := newShop()
	touch := func(_ context.Context, _ *server.Request, _ struct{}) (string, error) {
		s.ResourceUpdated("note://1")
		return "touched", nil
	}
	server.AddTool(s, server.Tool{Name: "touch"}, touch)
	server.AddTool(s, server.Tool{Name: "grow"}, func(context.Context, *server.Request, struct{}) (string, error) {
		server.AddTool(s, server.Tool{Name: "more"}, touch)
		return "grown", nil
	})
	began, ended := make(chan struct{}), make(chan struct{})
	server.AddTool(s, server.Tool{Name: "hang"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return "", ctx.Err()
	})
	wait := func(what <-chan struct{}) func(context.Context, *server.Request, struct{}) (string, error) {
		return func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			select {
			case <-what:
				return "yes", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}
	server.AddTool(s, server.Tool{Name: "began"}, wait(began))
	server.AddTool(s, server.Tool{Name: "ended"}, wait(ended))
	return s
}

func serveHTTP(t *testing.T, endpoint interface {
	http.Handler
	io.Closer
}) (url string) {
	t.Helper()
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		if err := endpoint.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return web.URL
}

// dialers connect to a server in this process over each transport.
var dialers = map[string]func(t *testing.T, to transport.Binder) transport.Dialer{
	"pipe": func(_ *testing.T, to transport.Binder) transport.Dialer { return pipeTo(to) },
	"streamable": func(t *testing.T, to transport.Binder) transport.Dialer {
		return streamable.Dial(serveHTTP(t, streamable.Handler(to, nil)), nil)
	},
	"ws": func(t *testing.T, to transport.Binder) transport.Dialer {
		return ws.Dial(serveHTTP(t, ws.Handler(to, nil)), nil)
	},
	"sse": func(t *testing.T, to transport.Binder) transport.Dialer {
		return sse.Dial(serveHTTP(t, sse.Handler(to, nil)), nil)
	},
}

// relayed returns a relay that is closed when the test ends.
func relayed(t *testing.T, behind transport.Dialer) *bridge.Relayer {
	t.Helper()
	relay := bridge.Relay(behind, nil)
	t.Cleanup(func() {
		if err := relay.Close(); err != nil {
			t.Error(err)
		}
	})
	return relay
}

// exercise uses all features of a server.
func exercise(t *testing.T, to transport.Dialer, era client.Era) {
	t.Helper()
	ctx := t.Context()
	changes := make(chan mcp.Change, 100)
	logged := make(chan string, 100)
	session := connect(t, to, client.Options{
		Era:      era,
		LogLevel: "debug",
		OnChange: func(_ context.Context, change mcp.Change) { changes <- change },
		OnLog:    func(_ context.Context, message *mcp.LoggingMessageParams) { logged <- message.Logger },
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"City":"Bonn"}`)}, nil
		},
	})
	call := func(tool, arguments, want string, opts *client.CallOptions) {
		t.Helper()
		result, err := session.CallTool(ctx, tool, json.RawMessage(arguments), opts)
		if got := texts(t, result, err); got != want {
			t.Errorf("%s gave %q, want %q", tool, got, want)
		}
	}
	wantChange := func(want mcp.Change) {
		t.Helper()
		for got := range changes {
			if got == want {
				return
			}
		}
	}

	call("add", `{"A":1,"B":2}`, "3", nil)
	call("ask", `{}`, "Bonn", nil)
	var steps []float64
	call("work", `{}`, "done", &client.CallOptions{Progress: func(p *mcp.ProgressParams) { steps = append(steps, p.Progress) }})
	if !slices.Equal(steps, []float64{1, 2, 3}) {
		t.Errorf("the progress was %v", steps)
	}
	if got := <-logged; got != "work" {
		t.Errorf("a log line came from %q", got)
	}
	_, err := session.CallTool(ctx, "fail", nil, nil)
	wantError(t, err, -32042, `{"n":9007199254740993}`)

	sub, err := session.Subscribe(ctx, mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{"note://1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	call("touch", `{}`, "touched", nil)
	wantChange(mcp.Change{Kind: mcp.KindResource, URI: "note://1"})
	call("grow", `{}`, "grown", nil)
	wantChange(mcp.Change{Kind: mcp.KindTool})

	hanging, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := session.CallTool(hanging, "hang", nil, nil)
		failed <- err
	}()
	call("began", `{}`, "yes", nil)
	cancel()
	if err := <-failed; err == nil {
		t.Error("a call that was cancelled did not fail")
	}
	call("ended", `{}`, "yes", nil)
}

func wantError(t testing.TB, err error, code jsonrpc.Code, data string) {
	t.Helper()
	said, ok := err.(*jsonrpc.Error)
	if !ok {
		t.Fatalf("the error is %T %v, want an *jsonrpc.Error", err, err)
	}
	if said.Code != code || string(said.Data) != data {
		t.Errorf("the error is %v with %s, want code %v with %s", said, said.Data, code, data)
	}
}

func TestRelayCarriesEverything(t *testing.T) {
	for front, toRelay := range dialers {
		for back, toServer := range dialers {
			for name, era := range eras {
				if era == client.Modern && (front == "sse" || back == "sse") {
					continue // HTTP+SSE is older
				}
				t.Run(front+" to "+back+" "+name, func(t *testing.T) {
					t.Parallel()
					exercise(t, toRelay(t, relayed(t, toServer(t, newRelayedShop()))), era)
				})
			}
		}
	}
}

func TestRelayOfProcesses(t *testing.T) {
	for name, era := range eras {
		t.Run("stdio to stdio "+name, func(t *testing.T) { exercise(t, child("relay", ""), era) })
		t.Run("stdio to streamable "+name, func(t *testing.T) {
			exercise(t, child("relay", serveHTTP(t, streamable.Handler(newRelayedShop(), nil))), era)
		})
		t.Run("streamable to stdio "+name, func(t *testing.T) {
			exercise(t, dialers["streamable"](t, relayed(t, child("shop", ""))), era)
		})
	}
}

func ExampleRelay() {
	// Other transports work the same: stdio.Serve(ctx, relay, nil) in front of streamable.Dial.
	relay := bridge.Relay(calculator(), nil)
	defer relay.Close()

	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(relay), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	sum, err := client.CallAs[int](ctx, session, "add", addIn{1, 2}, nil)
	fmt.Println(session.Server().Name, sum, err)
	// Output: calculator 3 <nil>
}

func TestRelayWhenItsServerDies(t *testing.T) {
	for _, front := range []string{"pipe", "streamable"} {
		t.Run(front, func(t *testing.T) {
			hanging := make(chan struct{}, 1)
			behind := dialerTo(newRawPeer(func(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
				if req.Method == "hang" {
					hanging <- struct{}{}
					<-ctx.Done()
				}
				return "{}", nil
			}))
			conn := dial(t, dialers[front](t, relayed(t, behind)), newRawPeer(nil))
			failed := make(chan error, 1)
			go func() {
				_, err := conn.Call(t.Context(), "hang", modernParams("", ""))
				failed <- err
			}()
			waittest.Receive(t, "the call that hangs", hanging)
			behind.cut()
			wantError(t, waittest.Receive(t, "the end of the call", failed), jsonrpc.InternalError, `{"type":"UPSTREAM_LOST","executed":"maybe"}`)

			_, err := conn.Call(t.Context(), "again", modernParams("", ""))
			if front == "streamable" { // where nothing was said that would be lost
				if err != nil || behind.dials.Load() != 2 {
					t.Errorf("a later call failed after %d connections: %v", behind.dials.Load(), err)
				}
				return
			}
			wantError(t, err, jsonrpc.InternalError, `{"type":"UPSTREAM_UNAVAILABLE","executed":"no"}`)
		})
	}
}

func TestRelayWhenItsServerIsNotThere(t *testing.T) {
	behind := dialerTo(newRawPeer(func(context.Context, jsonrpc.Peer, *jsonrpc.Request) (string, error) { return "{}", nil }))
	behind.refuse.Store(true)
	conn := dial(t, pipeTo(relayed(t, behind)), newRawPeer(nil))
	if n := behind.dials.Load(); n != 0 {
		t.Errorf("there were %d connections before the first message", n)
	}
	_, err := conn.Call(t.Context(), "call", nil)
	wantError(t, err, jsonrpc.InternalError, `{"type":"UPSTREAM_UNAVAILABLE","executed":"no"}`)
	behind.refuse.Store(false)
	if _, err := conn.Call(t.Context(), "call", nil); err != nil {
		t.Errorf("a call failed when the server was there: %v", err)
	}
}

func TestRelayConnectsOnceAndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := dialerTo(newRawPeer(nil))
		behind.hang.Store(true)
		conn := dial(t, pipeTo(relayed(t, behind)), newRawPeer(nil))
		wantDuration(t, 30*time.Second, 31*time.Second, func() {
			var calls sync.WaitGroup
			for range 3 {
				calls.Go(func() {
					_, err := conn.Call(t.Context(), "call", nil)
					wantErrorSoft(t, err)
				})
			}
			calls.Wait()
		})
		if n := behind.dials.Load(); n != 1 {
			t.Errorf("there were %d connections", n)
		}
	})
}

func wantErrorSoft(t testing.TB, err error) {
	t.Helper()
	if _, ok := err.(*jsonrpc.Error); !ok {
		t.Errorf("the error is %T %v, want an *jsonrpc.Error", err, err)
	}
}

// A recordingDialer sends its connections to a channel.
type recordingDialer struct {
	transport.Dialer
	conns chan transport.Conn
}

func (k recordingDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	conn, err := k.Dialer.Dial(ctx, handler)
	if err == nil {
		k.conns <- conn
	}
	return conn, err
}

func TestRelayEndsItsServerWithTheLink(t *testing.T) {
	for _, how := range []string{"link", "relay"} {
		t.Run(how, func(t *testing.T) {
			behind := recordingDialer{child("shop", ""), make(chan transport.Conn, 1)}
			relay := relayed(t, behind)
			session := connect(t, pipeTo(relay), client.Options{})
			process := waittest.Receive(t, "the connection to the server", behind.conns)
			if how == "link" {
				session.Close()
			} else {
				if err := relay.Close(); err != nil {
					t.Error(err)
				}
				select {
				case <-process.Done():
				default:
					t.Error("Close did not wait for the process")
				}
			}
			select {
			case <-process.Done():
			case <-time.After(10 * time.Second):
				t.Error("the process goes on")
			}
			if how == "relay" {
				conn := dial(t, pipeTo(relay), newRawPeer(nil))
				_, err := conn.Call(t.Context(), "call", nil)
				wantError(t, err, jsonrpc.InternalError, `{"type":"UPSTREAM_UNAVAILABLE","executed":"no"}`)
			}
		})
	}
}

func TestRelayAnswersWhatCameBeforeTheEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := newRawPeer(func(context.Context, jsonrpc.Peer, *jsonrpc.Request) (string, error) {
			<-time.After(time.Second)
			return `{"late":true}`, nil
		})
		var out strings.Builder
		in := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":"a","method":"slow"}` + "\n"))
		if err := stdio.Serve(t.Context(), bridge.Relay(pipeTo(behind), nil), &stdio.ServeOptions{In: in, Out: &out}); err != nil {
			t.Fatal(err)
		}
		if want := `{"jsonrpc":"2.0","id":"a","result":{"late":true}}` + "\n"; out.String() != want {
			t.Errorf("the client got %s, want %s", out.String(), want)
		}
	})
}

// A slowDialer takes a second to connect, and records notifications.
type slowDialer struct {
	transport.Dialer
	received chan string
}

func (l slowDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	<-time.After(time.Second)
	conn, err := l.Dialer.Dial(ctx, handler)
	return slowConn{conn, l.received}, err
}

type slowConn struct {
	transport.Conn
	received chan string
}

func (c slowConn) Notify(_ context.Context, method string, _ jsonrpc.Appender) error {
	c.received <- method
	return nil
}

func TestRelayPassesTheLastWordsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := slowDialer{pipeTo(newRawPeer(nil)), make(chan string, 1)}
		in := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","method":"last"}` + "\n"))
		if err := stdio.Serve(t.Context(), bridge.Relay(behind, nil), &stdio.ServeOptions{In: in, Out: io.Discard}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-behind.received:
		default:
			t.Error("the server received no notification")
		}
	})
}

func TestRelayedSubscriptionEndsWithTheInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := newRawPeer(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			begun := jsonrpc.Raw(`{"_meta":{"io.modelcontextprotocol/subscriptionId":` + req.ID.String() + `}}`)
			if err := from.Notify(ctx, mcp.NotificationAcknowledged, begun); err != nil {
				return "", err
			}
			<-ctx.Done()
			return "", ctx.Err()
		})
		in := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{}}` + "\n"))
		wantDuration(t, 0, time.Second, func() {
			if err := stdio.Serve(t.Context(), bridge.Relay(pipeTo(behind), nil), &stdio.ServeOptions{In: in, Out: io.Discard}); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// A client that does not read does not affect other clients.
func TestRelayDoesNotWaitForASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := newRawPeer(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			for i := range 5000 {
				if err := from.Notify(ctx, mcp.NotificationProgress, jsonrpc.Raw(fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, req.Member("_meta", "progressToken"), i))); err != nil {
					return "", err
				}
			}
			return "{}", nil
		})
		relay := relayed(t, pipeTo(behind))
		slow, stop := context.WithCancel(t.Context())
		shared := relay.Bind(transport.Link{Input: t.Context(), Shared: true, Go: func(fn func(context.Context)) { go fn(t.Context()) }})
		call := func(ctx context.Context, from jsonrpc.Peer) error {
			req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, jsonRaw(`{"_meta":{"progressToken":1}}`))
			if err != nil {
				return err
			}
			return shared.Handle(ctx, from, req, new(jsonrpc.Reply))
		}
		var calls sync.WaitGroup
		calls.Go(func() { _ = call(slow, blockedPeer{}) })
		synctest.Wait()
		if err := call(t.Context(), blockedPeer{ready: true}); err != nil {
			t.Error(err)
		}
		stop()
		calls.Wait()
	})
}

// A blockedPeer is a client that does not read, unless it is ready.
type blockedPeer struct{ ready bool }

func (d blockedPeer) Notify(ctx context.Context, _ string, _ jsonrpc.Appender) error {
	if d.ready {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (blockedPeer) Call(context.Context, string, jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, jsonrpc.ErrClosed
}

func (blockedPeer) Cancel(jsonrpc.ID) {}
