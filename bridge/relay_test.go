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
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
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
	// relayChild makes the test binary a process that serves over stdio: a "shop", or a
	// "relay" to what relayTo names, the URL of a server.
	relayChild = "BRIDGE_TEST_CHILD"
	relayTo    = "BRIDGE_TEST_URL"
)

// TestRelayChild is not a test but such a process.
func TestRelayChild(*testing.T) {
	var served transport.Binder
	switch url := os.Getenv(relayTo); os.Getenv(relayChild) {
	default:
		return
	case "shop":
		served = newRelayedShop()
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

// child runs this binary as a process of a kind.
func child(kind, url string) transport.Dialer {
	return stdio.Command(os.Args[0], []string{"-test.run=^TestRelayChild$"}, &stdio.CommandOptions{
		Env: []string{relayChild + "=" + kind, relayTo + "=" + url},
	})
}

// newRelayedShop is a shop with tools that tell what their own process sees.
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

// ways are the transports that lead to a server in this process.
var ways = map[string]func(t *testing.T, to transport.Binder) transport.Dialer{
	"pipe": func(_ *testing.T, to transport.Binder) transport.Dialer { return transport.Pipe(to) },
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

// visit does what a client does with a server.
func visit(t *testing.T, to transport.Dialer, era client.Era) {
	t.Helper()
	ctx := t.Context()
	changes := make(chan mcp.Change, 100)
	logged := make(chan string, 100)
	session := connect(t, to, client.Options{
		Era:      era,
		LogLevel: "debug",
		Changed:  func(_ context.Context, change mcp.Change) { changes <- change },
		Logged:   func(_ context.Context, message *mcp.LoggingMessageParams) { logged <- message.Logger },
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
	for front, toRelay := range ways {
		for back, toServer := range ways {
			for name, era := range eras {
				if era == client.Modern && (front == "sse" || back == "sse") {
					continue // HTTP+SSE is older
				}
				t.Run(front+" to "+back+" "+name, func(t *testing.T) {
					t.Parallel()
					visit(t, toRelay(t, relayed(t, toServer(t, newRelayedShop()))), era)
				})
			}
		}
	}
}

func TestRelayOfProcesses(t *testing.T) {
	for name, era := range eras {
		t.Run("stdio to stdio "+name, func(t *testing.T) { visit(t, child("relay", ""), era) })
		t.Run("stdio to streamable "+name, func(t *testing.T) {
			visit(t, child("relay", serveHTTP(t, streamable.Handler(newRelayedShop(), nil))), era)
		})
		t.Run("streamable to stdio "+name, func(t *testing.T) {
			visit(t, ways["streamable"](t, relayed(t, child("shop", ""))), era)
		})
	}
}

func ExampleRelay() {
	// Any other transports do: stdio.Serve(ctx, relay, nil) in front of streamable.Dial.
	relay := bridge.Relay(calculator(), nil)
	defer relay.Close()

	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(relay), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	sum, err := client.CallAs[int](ctx, session, "add", addIn{1, 2})
	fmt.Println(session.Server().Name, sum, err)
	// Output: calculator 3 <nil>
}
