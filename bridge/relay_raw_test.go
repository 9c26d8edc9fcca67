package bridge_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// An end is one end of a connection that takes down what comes and answers as a test
// says.
type end struct {
	answer func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error)
	notes  chan string // method and params
}

func newEnd(answer func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error)) *end {
	return &end{answer: answer, notes: make(chan string, 1000)}
}

func (e *end) Bind(transport.Link) jsonrpc.Handler { return e }

func (e *end) Notified(_ jsonrpc.Peer, note *jsonrpc.Request) {
	e.notes <- note.Method + " " + string(note.Params)
}

func (e *end) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
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

// peculiar are values that do not survive being decoded.
const peculiar = `{"Name":1,"name":2, "NAME" : 3,"n":9007199254740993,"f":1.0e+2,"s":"\u00e9\/é","_meta":{"x/y":[ ],"X/Y":null},"z":{"a":1,"A":2}}`

func TestRelayChangesNothing(t *testing.T) {
	behind := newEnd(func(_ context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
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
	front := newEnd(func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		return string(req.Params), nil
	})
	conn := dial(t, transport.Pipe(relayed(t, transport.Pipe(behind))), front)

	resp, err := conn.Call(t.Context(), "x/unheard", jsonrpc.Raw(peculiar))
	if err != nil {
		t.Fatal(err)
	}
	if want := `[` + peculiar + `,` + peculiar + `]`; string(resp.Result) != want {
		t.Errorf("the result is\n%s, want\n%s", resp.Result, want)
	}
	if got := <-front.notes; got != "x/beside "+peculiar {
		t.Errorf("the client was told %s", got)
	}
	if err := conn.Notify(t.Context(), "x/note", jsonrpc.Raw(peculiar)); err != nil {
		t.Fatal(err)
	}
	if got := <-behind.notes; got != "x/note "+peculiar {
		t.Errorf("the server was told %s", got)
	}
	if err := conn.Notify(t.Context(), "x/bare", nil); err != nil {
		t.Fatal(err)
	}
	if got := <-behind.notes; got != "x/bare " {
		t.Errorf("the server was told %s", got)
	}
	_, err = conn.Call(t.Context(), "x/fail", nil)
	wantError(t, err, -7, peculiar)
}

func TestRelayKeepsOrder(t *testing.T) {
	const many = 200
	var behind *end
	behind = newEnd(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		for i := range many {
			if err := from.Notify(ctx, fmt.Sprint("down", i), nil); err != nil {
				return "", err
			}
		}
		asked, err := from.Call(ctx, "ask", nil)
		if err != nil || string(asked.Result) != fmt.Sprint(many) {
			t.Errorf("the question overtook what was told before: %v %v", asked, err)
		}
		return fmt.Sprint(len(behind.notes)), nil
	})
	var front *end
	front = newEnd(func(context.Context, jsonrpc.Peer, *jsonrpc.Request) (string, error) {
		return fmt.Sprint(len(front.notes)), nil
	})
	conn := dial(t, transport.Pipe(relayed(t, transport.Pipe(behind))), front)
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
			t.Fatalf("round %d: the call overtook what was told before: %s of %d were there, and %d before its answer", round, resp.Result, many, len(front.notes))
		}
		for i := range many {
			if got, want := <-behind.notes, fmt.Sprintf("up%d ", i); got != want {
				t.Fatalf("the server was told %q, want %q", got, want)
			}
			if got, want := <-front.notes, fmt.Sprintf("down%d ", i); got != want {
				t.Fatalf("the client was told %q, want %q", got, want)
			}
		}
	}
}

// modernParams are those of a call that describes itself.
func modernParams(meta, rest string) jsonrpc.Raw {
	return jsonrpc.Raw(`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}` + meta + `}` + rest + `}`)
}

// Two clients with the same ids and tokens share a connection to a server that answers
// when all calls are there.
func TestRelayDoesNotMixClients(t *testing.T) {
	for name, toServer := range ways {
		if name == "sse" {
			continue // it has no versions without sessions
		}
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			here, all := 0, make(chan struct{})
			var logged sync.WaitGroup
			logged.Add(2)
			tokens := map[string]bool{}
			behind := newEnd(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
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
				logged.Wait() // as long as both run, nobody knows whose a log line is
				err := from.Notify(ctx, mcp.NotificationProgress, jsonrpc.Raw(`{"progressToken":`+token+`,"progress":1,"whose":`+whose+`}`))
				return `{"whose":` + whose + `}`, err
			})
			front := ways["streamable"](t, relayed(t, toServer(t, behind)))
			var clients sync.WaitGroup
			for _, whose := range []string{`"ann"`, `"bob"`} {
				said := newEnd(nil)
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
					if name == "streamable" { // elsewhere nobody knows whose it is
						want = append(want, mcp.NotificationMessage+` {"level":"info","data":`+whose+`}`)
					}
					got := make([]string, len(said.notes))
					for i := range got {
						got[i] = <-said.notes
					}
					slices.Sort(got)
					slices.Sort(want)
					if !slices.Equal(got, want) {
						t.Errorf("%s was told\n%s\nwant\n%s", whose, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				})
			}
			clients.Wait()
		})
	}
}

// identified are params that tell their id.
type identified struct {
	jsonrpc.Raw
	id chan string
}

func (p *identified) Identify(id jsonrpc.ID) { p.id <- id.String() }

func TestRelayPassesCancellationOn(t *testing.T) {
	began := make(chan string, 1)
	behind := newEnd(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		began <- req.ID.String()
		<-ctx.Done()
		return "", ctx.Err()
	})
	ids := make(chan string, 1)
	conn := dial(t, transport.Pipe(relayed(t, transport.Pipe(behind))), newEnd(nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var call sync.WaitGroup
	defer call.Wait()
	defer cancel()
	call.Go(func() { _, _ = conn.Call(ctx, "hang", &identified{jsonrpc.Raw("{}"), ids}) })
	id := <-began
	if err := conn.Notify(t.Context(), mcp.NotificationCancelled, jsonrpc.Raw(`{"why":1.0,"requestId":`+<-ids+`,"reason":"tired"}`)); err != nil {
		t.Fatal(err)
	}
	want := mcp.NotificationCancelled + ` {"why":1.0,"requestId":` + id + `,"reason":"tired"}`
	if got := <-behind.notes; got != want {
		t.Errorf("the server was told %s, want %s", got, want)
	}
}

// abandoning is an end whose questions can be given up.
type abandoning struct{ *end }

func (a abandoning) Bind(transport.Link) jsonrpc.Handler { return a }

func (a abandoning) Abandoned(from jsonrpc.Peer, id jsonrpc.ID, _ error) {
	_ = from.Notify(context.Background(), mcp.NotificationCancelled, jsonrpc.Raw(`{"requestId":`+id.String()+`}`))
}

func TestRelayPassesOnThatAQuestionIsGivenUp(t *testing.T) {
	began, id := make(chan struct{}), make(chan string, 1)
	behind := abandoning{newEnd(func(ctx context.Context, from jsonrpc.Peer, _ *jsonrpc.Request) (string, error) {
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
	front := newEnd(func(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		id <- req.ID.String()
		close(began)
		<-t.Context().Done()
		return "", ctx.Err()
	})
	conn := dial(t, transport.Pipe(relayed(t, transport.Pipe(behind))), front)
	if _, err := conn.Call(t.Context(), "call", nil); err != nil {
		t.Fatal(err)
	}
	got := <-front.notes
	if want := `"requestId":` + <-id; !strings.HasPrefix(got, mcp.NotificationCancelled) || !strings.Contains(got, want) {
		t.Errorf("the client was told %s, want that %s is cancelled", got, want)
	}
	if err := conn.Notify(t.Context(), "bye", nil); err != nil {
		t.Fatal(err)
	}
}
