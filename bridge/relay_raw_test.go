package bridge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A rawPeer is one end of a connection. It records notifications and answers with a function.
type rawPeer struct {
	answer func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error)
	notes  chan string // method and params
}

func newRawPeer(answer func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error)) *rawPeer {
	return &rawPeer{answer: answer, notes: make(chan string, 1000)}
}

func (e *rawPeer) Bind(transport.Link) jsonrpc.Handler { return e }

func (e *rawPeer) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) {
	e.notes <- note.Method + " " + string(note.Params)
}

func (e *rawPeer) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	text, err := e.answer(ctx, from, req)
	reply.Buf = append(reply.Buf, text...)
	return err
}

func dial(t testing.TB, to transport.Dialer, handler jsonrpc.Handler) transport.Conn {
	t.Helper()
	conn, err := to.Dial(t.Context(), handler)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// peculiar is an object that decoding and encoding would change.
const peculiar = `{"Name":1,"name":2, "NAME" : 3,"n":9007199254740993,"f":1.0e+2,"s":"\u00e9\/é","_meta":{"x/y":[ ],"X/Y":null},"z":{"a":1,"A":2}}`

func TestRelayChangesNothing(t *testing.T) {
	behind := newRawPeer(func(_ context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		if req.Method == "x/fail" {
			return "", &jsonrpc.Error{Code: -7, Message: "é", Data: jsonRaw(peculiar)}
		}
		if err := from.Notify(t.Context(), "x/beside", jsonrpc.Raw(peculiar)); err != nil {
			return "", err
		}
		asked, err := from.Call(t.Context(), "x/ask", jsonrpc.Raw(peculiar))
		if err != nil {
			return "", err
		}
		return `[` + string(req.Params) + `,` + string(asked.Result) + `]`, nil
	})
	front := newRawPeer(func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		return string(req.Params), nil
	})
	conn := dial(t, pipeTo(relayed(t, pipeTo(behind))), front)

	resp, err := conn.Call(t.Context(), "x/unheard", jsonrpc.Raw(peculiar))
	if err != nil {
		t.Fatal(err)
	}
	if want := `[` + peculiar + `,` + peculiar + `]`; string(resp.Result) != want {
		t.Errorf("the result is\n%s, want\n%s", resp.Result, want)
	}
	if got := waittest.Receive(t, "a notification at the client", front.notes); got != "x/beside "+peculiar {
		t.Errorf("the client received %s", got)
	}
	if err := conn.Notify(t.Context(), "x/note", jsonrpc.Raw(peculiar)); err != nil {
		t.Fatal(err)
	}
	if got := waittest.Receive(t, "a notification at the server", behind.notes); got != "x/note "+peculiar {
		t.Errorf("the server received %s", got)
	}
	if err := conn.Notify(t.Context(), "x/bare", nil); err != nil {
		t.Fatal(err)
	}
	if got := waittest.Receive(t, "a notification at the server", behind.notes); got != "x/bare " {
		t.Errorf("the server received %s", got)
	}
	_, err = conn.Call(t.Context(), "x/fail", nil)
	wantError(t, err, -7, peculiar)
}

func TestRelayKeepsOrder(t *testing.T) {
	const many = 200
	var behind *rawPeer
	behind = newRawPeer(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		for i := range many {
			if err := from.Notify(ctx, fmt.Sprint("down", i), nil); err != nil {
				return "", err
			}
		}
		asked, err := from.Call(ctx, "ask", nil)
		if err != nil || string(asked.Result) != fmt.Sprint(many) {
			t.Errorf("the question overtook earlier notifications: %v %v", asked, err)
		}
		return fmt.Sprint(len(behind.notes)), nil
	})
	var front *rawPeer
	front = newRawPeer(func(context.Context, jsonrpc.Peer, *jsonrpc.Request) (string, error) {
		return fmt.Sprint(len(front.notes)), nil
	})
	conn := dial(t, pipeTo(relayed(t, pipeTo(behind))), front)
	for round := range 20 {
		for i := range many {
			if err := conn.Notify(t.Context(), fmt.Sprint("up", i), nil); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := conn.Call(t.Context(), "count", nil)
		if err != nil {
			t.Fatal(err)
		}
		if string(resp.Result) != fmt.Sprint(many) || len(front.notes) != many {
			t.Fatalf("round %d: the call overtook earlier notifications: %s of %d were there, and %d before its answer", round, resp.Result, many, len(front.notes))
		}
		for i := range many {
			if got, want := waittest.Receive(t, "a notification at the server", behind.notes), fmt.Sprintf("up%d ", i); got != want {
				t.Fatalf("the server received %q, want %q", got, want)
			}
			if got, want := waittest.Receive(t, "a notification at the client", front.notes), fmt.Sprintf("down%d ", i); got != want {
				t.Fatalf("the client received %q, want %q", got, want)
			}
		}
	}
}

// modernParams returns params with the members that the modern era requires.
func modernParams(meta, rest string) jsonrpc.Raw {
	return jsonrpc.Raw(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}` + meta + `}` + rest + `}`)
}

// Two clients with the same ids and tokens share a connection to a server that replies after all
// calls have arrived.
func TestRelayDoesNotMixClients(t *testing.T) {
	for name, toServer := range dialers {
		if name == "sse" {
			continue // it has no versions without sessions
		}
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			here, all := 0, make(chan struct{})
			var logged sync.WaitGroup
			logged.Add(2)
			tokens := map[string]bool{}
			behind := newRawPeer(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
				mu.Lock()
				if here++; here == 4 {
					close(all)
				}
				token := string(req.Member("_meta", "progressToken"))
				if name != "streamable" && token != "" && tokens[token] {
					t.Errorf("two calls have the token %s", token)
				}
				tokens[token] = true
				mu.Unlock()
				<-all
				whose := string(req.Member("whose"))
				if req.Method == mcp.MethodSubscriptionsListen {
					tag := `{"_meta":{"io.modelcontextprotocol/subscriptionId":` + req.ID.String() + `},"whose":` + whose + `}`
					err := from.Notify(ctx, mcp.NotificationResourceUpdated, jsonrpc.Raw(tag))
					return tag, err
				}
				if err := from.Notify(ctx, mcp.NotificationMessage, jsonrpc.Raw(`{"level":"info","data":`+whose+`}`)); err != nil {
					return "", err
				}
				logged.Done()
				logged.Wait() // while both calls run, a log message cannot be attributed
				err := from.Notify(ctx, mcp.NotificationProgress, jsonrpc.Raw(`{"progressToken":`+token+`,"progress":1,"whose":`+whose+`}`))
				return `{"whose":` + whose + `}`, err
			})
			front := dialers["streamable"](t, relayed(t, toServer(t, behind)))
			var clients sync.WaitGroup
			for _, whose := range []string{`"ann"`, `"bob"`} {
				said := newRawPeer(nil)
				conn, err := front.Dial(t.Context(), said)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				clients.Go(func() {
					var calls sync.WaitGroup
					defer calls.Wait()
					ids := make(chan string, 1)
					calls.Go(func() {
						params := &identified{Raw: modernParams("", `,"notifications":{},"whose":`+whose), id: ids}
						resp, err := conn.Call(t.Context(), mcp.MethodSubscriptionsListen, params)
						if err != nil {
							t.Error(err)
							return
						}
						id := <-ids
						if want := `{"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"whose":` + whose + `}`; string(resp.Result) != want {
							t.Errorf("the subscription ended with %s, want %s", resp.Result, want)
						}
						ids <- id
					})
					resp, err := conn.Call(t.Context(), mcp.MethodToolsCall, modernParams(`,"progressToken":"same"`, `,"name":"t","whose":`+whose))
					if err != nil {
						t.Error(err)
						return
					}
					if want := `{"whose":` + whose + `}`; string(resp.Result) != want {
						t.Errorf("the result is %s, want %s", resp.Result, want)
					}
					calls.Wait()
					id := <-ids
					want := []string{
						mcp.NotificationProgress + ` {"progressToken":"same","progress":1,"whose":` + whose + `}`,
						mcp.NotificationResourceUpdated + ` {"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `},"whose":` + whose + `}`,
					}
					if name == "streamable" { // other transports cannot attribute it
						want = append(want, mcp.NotificationMessage+` {"level":"info","data":`+whose+`}`)
					}
					got := make([]string, len(said.notes))
					for i := range got {
						got[i] = <-said.notes
					}
					slices.Sort(got)
					slices.Sort(want)
					if !slices.Equal(got, want) {
						t.Errorf("%s received\n%s\nwant\n%s", whose, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				})
			}
			clients.Wait()
		})
	}
}

// A log message that the transport does not attribute belongs to the only running call of a shared connection.
// Subscriptions do not count as calls. While several calls run, the message reaches none of them.
func TestRelayedLogMessagesOfASharedLink(t *testing.T) {
	for _, name := range []string{"pipe", "ws"} {
		t.Run(name, func(t *testing.T) {
			// The server tells the test that a call has arrived, and answers it when the test closes the channel.
			type arrival struct {
				whose  string
				server jsonrpc.Peer
				answer chan struct{}
			}
			arrived := make(chan arrival)
			behind := newRawPeer(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
				a := arrival{string(req.Member("whose")), from, make(chan struct{})}
				if req.Method == mcp.MethodSubscriptionsListen {
					tag := `{"_meta":{"io.modelcontextprotocol/subscriptionId":` + req.ID.String() + `},"notifications":{}}`
					if err := from.Notify(ctx, mcp.NotificationAcknowledged, jsonrpc.Raw(tag)); err != nil {
						return "", err
					}
				}
				arrived <- a
				<-a.answer
				return "{}", nil
			})
			front := dialers["streamable"](t, relayed(t, dialers[name](t, behind)))
			clients, conns := map[string]*rawPeer{}, map[string]transport.Conn{}
			for _, whose := range []string{`"ann"`, `"bob"`} {
				clients[whose] = newRawPeer(nil)
				conns[whose] = dial(t, front, clients[whose])
			}
			// begin begins a call. end ends it, and returns the messages that its client has received before the reply.
			begin := func(whose, method, rest string) (server jsonrpc.Peer, end func() string) {
				t.Helper()
				done := make(chan error, 1)
				go func() {
					_, err := conns[whose].Call(t.Context(), method, modernParams("", rest+`,"whose":`+whose))
					done <- err
				}()
				select {
				case a := <-arrived:
					return a.server, func() string {
						t.Helper()
						close(a.answer)
						if err := <-done; err != nil {
							t.Fatal(err)
						}
						var got []string
						for len(clients[whose].notes) > 0 {
							got = append(got, <-clients[whose].notes)
						}
						return strings.Join(got, "; ")
					}
				case err := <-done:
					t.Fatalf("the call of %s ended early: %v", whose, err)
				}
				return nil, nil
			}
			call := func(whose string) (jsonrpc.Peer, func() string) {
				t.Helper()
				return begin(whose, mcp.MethodToolsCall, `,"name":"t"`)
			}
			const logged = `{"level":"info","data":"x"}`
			send := func(server jsonrpc.Peer, method, params string) {
				t.Helper()
				if err := server.Notify(t.Context(), method, jsonrpc.Raw(params)); err != nil {
					t.Fatal(err)
				}
			}
			want := func(what, got string, messages ...string) {
				t.Helper()
				if want := strings.Join(messages, "; "); got != want {
					t.Errorf("%s: the client received %q, want %q", what, got, want)
				}
			}
			message := mcp.NotificationMessage + " " + logged

			server, endAnn := call(`"ann"`)
			send(server, mcp.NotificationMessage, logged)
			send(server, mcp.NotificationToolsListChanged, `{}`) // belongs to no call
			want("one call", endAnn(), message)

			_, endAnn = call(`"ann"`)
			_, endBob := call(`"bob"`)
			send(server, mcp.NotificationMessage, logged)
			want("the first of two calls", endAnn())
			send(server, mcp.NotificationMessage, logged)
			want("the second, when the first has ended", endBob(), message)

			_, endSubscription := begin(`"ann"`, mcp.MethodSubscriptionsListen, `,"notifications":{}`)
			_, endBob = call(`"bob"`)
			send(server, mcp.NotificationMessage, logged)
			want("a call beside an older subscription", endBob(), message)
			send(server, mcp.NotificationMessage, logged)
			got := endSubscription()
			if strings.Contains(got, mcp.NotificationMessage) || !strings.Contains(got, mcp.NotificationAcknowledged) {
				t.Errorf("the subscription received %q", got)
			}
		})
	}
}

// identified are params that report their id.
type identified struct {
	jsonrpc.Raw
	id chan string
}

func (p *identified) ReceiveID(id jsonrpc.ID) { p.id <- id.String() }

func TestRelayPassesCancellationOn(t *testing.T) {
	began := make(chan string, 1)
	behind := newRawPeer(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		began <- req.ID.String()
		<-ctx.Done()
		return "", ctx.Err()
	})
	ids := make(chan string, 1)
	conn := dial(t, pipeTo(relayed(t, pipeTo(behind))), newRawPeer(nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var call sync.WaitGroup
	defer call.Wait()
	defer cancel()
	call.Go(func() { _, _ = conn.Call(ctx, "hang", &identified{jsonrpc.Raw("{}"), ids}) })
	id := waittest.Receive(t, "the beginning of the call", began)
	if err := conn.Notify(t.Context(), mcp.NotificationCancelled, jsonrpc.Raw(`{"why":1.0,"requestId":`+waittest.Receive(t, "an id", ids)+`,"reason":"tired"}`)); err != nil {
		t.Fatal(err)
	}
	want := mcp.NotificationCancelled + ` {"why":1.0,"requestId":` + id + `,"reason":"tired"}`
	if got := waittest.Receive(t, "a notification at the server", behind.notes); got != want {
		t.Errorf("the server received %s, want %s", got, want)
	}
}

// A cancellingPeer cancels questions that it no longer waits for.
type cancellingPeer struct{ *rawPeer }

func (a cancellingPeer) Bind(transport.Link) jsonrpc.Handler { return a }

func (a cancellingPeer) NotifyCancelled(from jsonrpc.Peer, id jsonrpc.ID, _ error) {
	_ = from.Notify(context.Background(), mcp.NotificationCancelled, jsonrpc.Raw(`{"requestId":`+id.String()+`}`))
}

func TestRelayPassesOnThatAQuestionIsGivenUp(t *testing.T) {
	began, id := make(chan struct{}), make(chan string, 1)
	behind := cancellingPeer{newRawPeer(func(ctx context.Context, from jsonrpc.Peer, _ *jsonrpc.Request) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			<-began
			cancel()
		}()
		_, err := from.Call(ctx, "ask", nil)
		if err == nil {
			return "", fmt.Errorf("the question was answered")
		}
		return "{}", nil
	})}
	front := newRawPeer(func(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		id <- req.ID.String()
		close(began)
		<-t.Context().Done()
		return "", ctx.Err()
	})
	conn := dial(t, pipeTo(relayed(t, pipeTo(behind))), front)
	if _, err := conn.Call(t.Context(), "call", nil); err != nil {
		t.Fatal(err)
	}
	got := waittest.Receive(t, "a notification at the client", front.notes)
	if want := `"requestId":` + waittest.Receive(t, "the id", id); !strings.HasPrefix(got, mcp.NotificationCancelled) || !strings.Contains(got, want) {
		t.Errorf("the client received %s, want that %s is cancelled", got, want)
	}
	if err := conn.Notify(t.Context(), "bye", nil); err != nil {
		t.Fatal(err)
	}
}
