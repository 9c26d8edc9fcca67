package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/transporttests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A bankServer is a server of one era that asks twice in each call. It counts the calls that began in the legacy era,
// and the calls that were completed in the modern era.
type bankServer struct {
	era      client.Era
	question mcp.InputRequest
	booked   atomic.Int32
}

// Bind is the bank's end of a link.
func (b *bankServer) Bind(transport.Link) jsonrpc.Handler { return b }

// HandleNotification takes cancellations.
func (*bankServer) HandleNotification(from jsonrpc.Peer, note *jsonrpc.Request) {
	if id, err := jsonrpc.ParseID(note.Member("requestId")); err == nil && note.Method == mcp.NotificationCancelled {
		from.Cancel(id)
	}
}

// Handle answers a call.
func (b *bankServer) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	switch {
	case req.Method == mcp.MethodDiscover && b.era == client.Modern:
		return reply.Write(mcp.Raw(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`))
	case req.Method == mcp.MethodInitialize && b.era == client.Legacy:
		return reply.Write(mcp.Raw(`{"protocolVersion":"2025-11-25","serverInfo":{"name":"bank","version":"1"},"capabilities":{"tools":{}}}`))
	case req.Method != mcp.MethodToolsCall:
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "not here"}
	case b.era == client.Legacy:
		return b.ask(ctx, from, reply)
	}
	return b.round(req, reply)
}

// ask asks in the middle of the call.
func (b *bankServer) ask(ctx context.Context, from jsonrpc.Peer, reply *jsonrpc.Reply) error {
	b.booked.Add(1)
	var said []string
	for range 2 {
		resp, err := from.Call(ctx, b.question.Method, jsonrpc.Raw(b.question.Params))
		if err != nil {
			return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
		}
		said = append(said, string(resp.Result))
	}
	return reply.Write(bookedFor(said))
}

// round asks in its result, with the same key in each round; its state contains the answers.
func (b *bankServer) round(req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	var state string
	if raw := req.Member("requestState"); raw != nil {
		state = jsonscan.Unquote(raw)
	}
	said := strings.Split(state, "\n")[1:]
	if raw := req.Member("inputResponses", "q"); raw != nil {
		said = append(said, string(raw))
	}
	if len(said) == 2 {
		b.booked.Add(1)
		return reply.Write(bookedFor(said))
	}
	return reply.Write(&mcp.InputRequiredResult{
		InputRequests: map[string]mcp.InputRequest{"q": b.question},
		RequestState:  strings.Join(append([]string{"told"}, said...), "\n"),
	})
}

func bookedFor(said []string) mcp.Raw {
	return mcp.Raw(`{"content":[],"structuredContent":{"said":[` + strings.Join(said, ",") + `]}}`)
}

// forwarder is a server that forwards all calls.
func forwarder(session *client.Session, opts *client.ForwardOptions) *server.Server {
	return newServer(&server.Options{
		Capabilities: &offersAll,
		Middleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) { return session.Forward(ctx, call, opts) }
		}},
	})
}

var askable = mcp.ClientCapabilities{
	Elicitation: &mcp.ElicitationCapability{Form: &mcp.EmptyObject{}, URL: &mcp.EmptyObject{}},
	Sampling:    &mcp.SamplingCapability{},
	Roots:       &mcp.RootsCapability{},
}

// A person answers each question differently.
type person struct{ asked atomic.Int32 }

func (p *person) options(era client.Era) client.Options {
	return client.Options{
		Era: era, ElicitURLs: true,
		Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			n := p.asked.Add(1)
			if params.Mode == mcp.ElicitURL || n == 2 {
				return &mcp.ElicitResult{Action: []mcp.ElicitAction{mcp.ElicitAccept, mcp.ElicitDecline}[n-1]}, nil
			}
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}, nil
		},
		Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: fmt.Sprint("m", p.asked.Add(1)), Content: mcp.SamplingContent{&mcp.TextContent{Text: "yes"}}}, nil
		},
		Roots: func(context.Context) ([]mcp.Root, error) {
			return []mcp.Root{{URI: fmt.Sprint("file:///", p.asked.Add(1))}}, nil
		},
	}
}

// TestForward forwards calls with two questions of each kind through each pair of eras, and checks
// that the server executes the call once.
func TestForward(t *testing.T) {
	questions := map[string]struct {
		question mcp.InputRequest
		answers  []string // something of each
	}{
		"form":     {mcp.InputRequest{Method: mcp.MethodElicit, Params: json.RawMessage(`{"message":"n?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}`)}, []string{`{"n":1}`, `"decline"`}},
		"URL":      {mcp.InputRequest{Method: mcp.MethodElicit, Params: json.RawMessage(`{"mode":"url","message":"go","url":"https://example.com","elicitationId":"1"}`)}, []string{`"accept"`, `"decline"`}},
		"sampling": {mcp.InputRequest{Method: mcp.MethodCreateMessage, Params: json.RawMessage(`{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":9}`)}, []string{`"m1"`, `"m2"`}},
		"roots":    {mcp.InputRequest{Method: mcp.MethodRootsList, Params: json.RawMessage(`{}`)}, []string{`file:///1`, `file:///2`}},
	}
	eachEra(t, func(t *testing.T, callerEra client.Era) {
		eachEra(t, func(t *testing.T, bankEra client.Era) {
			for name, want := range questions {
				t.Run(name, func(t *testing.T) {
					b := &bankServer{era: bankEra, question: want.question}
					upstream := connect(t, transporttests.Dialer(t, b), client.Options{Era: bankEra, Capabilities: &askable})
					var p person
					caller := connect(t, transporttests.Dialer(t, forwarder(upstream, nil)), p.options(callerEra))
					result, err := caller.Call(t.Context(), mcp.MethodToolsCall, json.RawMessage(`{"name":"book"}`), nil)
					if err != nil {
						t.Fatal(err)
					}
					rest := string(result)
					for _, answer := range want.answers {
						_, after, found := strings.Cut(rest, answer)
						if !found {
							t.Errorf("the server was told %s, without %s", result, answer)
						}
						rest = after
					}
					if p.asked.Load() != 2 || b.booked.Load() != 1 {
						t.Errorf("asked %d times, executed %d times", p.asked.Load(), b.booked.Load())
					}
				})
			}
		})
	})
}

// A guest is the responder of a call that ends with its question.
type guest struct {
	name  string
	asked chan string // messages of questions
}

func (g *guest) Notify(context.Context, string, jsonrpc.Appender) error { return nil }
func (g *guest) Input(key string, question mcp.InputRequest) (json.RawMessage, error) {
	g.asked <- string(question.Params)
	return nil, &mcp.InputRequired{Requests: map[string]mcp.InputRequest{key: question}}
}
func (g *guest) Load(string) (json.RawMessage, bool) { return nil, false }
func (g *guest) Store(string, json.RawMessage)       {}
func (g *guest) ID() string                          { return g.name }
func (g *guest) OnDone(func())                       {}
func (g *guest) Detach(time.Duration)                {}
func (g *guest) TaskID() string                      { return "" }

// An echo asks each caller for its own text, once all callers are waiting.
type echo struct {
	bankServer
	mu    sync.Mutex
	ready chan struct{}
	left  int
}

func (e *echo) Bind(transport.Link) jsonrpc.Handler { return e }

func (e *echo) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method != mcp.MethodToolsCall {
		return e.bankServer.Handle(ctx, from, req, reply)
	}
	e.mu.Lock()
	if e.left--; e.left == 0 {
		close(e.ready)
	}
	e.mu.Unlock()
	<-e.ready
	_, err := from.Call(ctx, mcp.MethodElicit, jsonrpc.Raw(`{"message":`+string(req.Member("name"))+`}`))
	return err
}

// TestForwardAttribution checks calls of two users on one session. Over HTTP each question reaches
// its user. Elsewhere questions are refused, except for the last remaining user.
func TestForwardAttribution(t *testing.T) {
	const users = 6
	e := &echo{bankServer: bankServer{era: client.Legacy}, ready: make(chan struct{}), left: users}
	upstream := connect(t, transporttests.Dialer(t, e), client.Options{Era: client.Legacy, Capabilities: &askable})
	var guests []*guest
	var calls sync.WaitGroup
	var asked atomic.Int32
	for i := range users {
		g := &guest{name: fmt.Sprintf("user %d", i), asked: make(chan string, 1)}
		guests = append(guests, g)
		req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, json.RawMessage(fmt.Sprintf(`{"name":%q}`, g.name)))
		if err != nil {
			t.Fatal(err)
		}
		call := mcp.NewCall(req, &mcp.Caller{Version: mcp.LatestVersion, Capabilities: askable, Principal: g.name}, g)
		calls.Go(func() {
			_, err := upstream.Forward(t.Context(), &call, nil)
			if _, ok := mcp.AsInputRequired(err); ok {
				asked.Add(1)
			}
		})
	}
	calls.Wait()
	for _, g := range guests {
		close(g.asked)
		for message := range g.asked {
			if want := fmt.Sprintf(`{"message":%q}`, g.name); message != want {
				t.Errorf("%s is asked %s", g.name, message)
			}
		}
	}
	least, most := int32(0), int32(1)
	if strings.HasPrefix(os.Getenv("DOVETAIL_TEST_TRANSPORT"), "streamable") {
		least, most = users, users
	}
	if n := asked.Load(); n < least || n > most {
		t.Errorf("%d users are asked, want %d to %d", n, least, most)
	}
}

// TestForwardMany checks that answers reach their callers, which all use the same ids.
func TestForwardMany(t *testing.T) {
	eachEra(t, func(t *testing.T, callerEra client.Era) {
		eachEra(t, func(t *testing.T, serverEra client.Era) {
			s := newServer(nil)
			server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in struct {
				Say string `json:"say"`
			}) (string, error) {
				return in.Say, nil
			})
			upstream := connect(t, transporttests.Dialer(t, s), client.Options{Era: serverEra, Capabilities: &mcp.ClientCapabilities{}})
			face := transporttests.Dialer(t, forwarder(upstream, nil))
			var running sync.WaitGroup
			for i := range 8 {
				caller := connect(t, face, client.Options{Era: callerEra})
				running.Go(func() {
					for n := range 20 {
						say := fmt.Sprintf("%d of %d", n, i)
						got, err := client.CallAs[string](t.Context(), caller, "echo", map[string]string{"say": say}, nil)
						if err != nil || got != say {
							t.Errorf("%q is answered with %q, %v", say, got, err)
						}
					}
				})
			}
			running.Wait()
		})
	})
}

// repeater is a server that returns the arguments at almost no cost.
func repeater() *server.Server {
	return newServer(&server.Options{
		Capabilities: &offersAll,
		Middleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
			return func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				return mcp.Raw(call.Member("arguments")), nil
			}
		}},
	})
}

// payload returns params of a call with arguments of about this size.
func payload(size int) json.RawMessage {
	return json.RawMessage(`{"name":"t","arguments":{"content":[{"type":"text","text":"` + strings.Repeat("a", max(size-50, 0)) + `"}]}}`)
}

// hops returns callers of the repeater: directly, and through a forwarder.
func hops(tb testing.TB, callerEra, serverEra client.Era, can *mcp.ClientCapabilities) (direct, forwarded *client.Session) {
	direct = connect(tb, transport.Pipe(repeater()), client.Options{Era: callerEra})
	upstream := connect(tb, transport.Pipe(repeater()), client.Options{Era: serverEra, Capabilities: can})
	opts := client.Options{Era: callerEra}
	if can.Roots != nil {
		opts.Roots = func(context.Context) ([]mcp.Root, error) { return nil, nil }
	}
	return direct, connect(tb, transport.Pipe(forwarder(upstream, nil)), opts)
}

func benchmarkCall(b *testing.B, s *client.Session, params json.RawMessage) {
	b.ReportAllocs()
	b.SetBytes(int64(len(params)))
	for b.Loop() {
		if _, err := s.Call(b.Context(), mcp.MethodToolsCall, params, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkForward(b *testing.B) {
	eachEra(b, func(b *testing.B, era client.Era) {
		for _, size := range []int{100, 100 << 10, 1 << 20} {
			direct, forwarded := hops(b, era, era, &mcp.ClientCapabilities{})
			b.Run(fmt.Sprint(size, " direct"), func(b *testing.B) { benchmarkCall(b, direct, payload(size)) })
			b.Run(fmt.Sprint(size, " forwarded"), func(b *testing.B) { benchmarkCall(b, forwarded, payload(size)) })
		}
	})
}

// TestForwardBudget checks that forwarding adds at most 20 allocations to the allocations of two calls.
func TestForwardBudget(t *testing.T) {
	racetest.Skip(t)
	const budget = 20
	params := payload(100)
	for _, can := range []mcp.ClientCapabilities{{}, {Roots: &mcp.RootsCapability{}}} {
		eachEra(t, func(t *testing.T, callerEra client.Era) {
			eachEra(t, func(t *testing.T, serverEra client.Era) {
				direct, forwarded := hops(t, callerEra, serverEra, &can)
				ownHop, _ := hops(t, serverEra, serverEra, &can)
				cost := func(s *client.Session) float64 {
					return testing.AllocsPerRun(200, func() {
						if _, err := s.Call(t.Context(), mcp.MethodToolsCall, params, nil); err != nil {
							t.Fatal(err)
						}
					})
				}
				first, second, both := cost(direct), cost(ownHop), cost(forwarded)
				t.Logf("%.0f and %.0f directly, %.0f forwarded, %.0f beyond; can be asked: %t", first, second, both, both-first-second, can.Roots != nil)
				if both-first-second > budget {
					t.Errorf("forwarding costs %.0f allocations beyond the hops' own, want at most %d", both-first-second, budget)
				}
			})
		})
	}
}

// TestForbidden checks that IsForbidden recognizes refusals only, and that the session continues.
func TestForbidden(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		add := func(name string, guards ...mcp.Guard) {
			server.AddTool(s, server.Tool{Name: name, Guards: guards}, func(context.Context, *server.Request, noServer) (string, error) {
				return "", nil
			})
			server.AddPrompt(s, server.Prompt{Name: name, Guards: guards}, func(context.Context, *server.Request, noServer) (string, error) {
				return "", nil
			})
		}
		refuse := func(context.Context, *mcp.Call) error { return errors.New("the reason stays here") }
		add("open")
		add("shut", mcp.Guard{Name: `the "door"`, Check: refuse})
		add("hidden", mcp.Guard{Name: "curtain", Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }})
		session := connect(t, transport.Pipe(s), client.Options{Era: era})
		for name, want := range map[string]bool{"open": false, "shut": true, "hidden": false, "absent": false} {
			_, err := session.CallTool(t.Context(), name, nil, nil)
			if got := client.IsForbidden(err); got != want || (err == nil) != (name == "open") {
				t.Errorf("the tool %s is forbidden: %t, by %v", name, got, err)
			}
			_, err = session.GetPrompt(t.Context(), name, nil, nil)
			if got := client.IsForbidden(err); got != want || (err == nil) != (name == "open") {
				t.Errorf("the prompt %s is forbidden: %t, by %v", name, got, err)
			}
		}
	})
}

func TestIsForbidden(t *testing.T) {
	refusal := func(code jsonrpc.Code, data string) error {
		return fmt.Errorf("calling: %w", &jsonrpc.Error{Code: code, Message: "Guard 'g' denied the tool call for 't'", Data: []byte(data)})
	}
	refused := func(meta string) error {
		return fmt.Errorf("calling: %w", &client.ToolError{Tool: "t", Result: &mcp.CallToolResult{IsError: true, Meta: mcp.Meta(meta)}})
	}
	for _, test := range []struct {
		err  error
		want bool
	}{
		{refusal(jsonrpc.InternalError, `{"type":"FORBIDDEN","guard":"g"}`), true},
		{refusal(jsonrpc.InternalError, ` { "type" : "FORBIDDE\u004e" }`), true},
		{refused(`{"io.github.dovetail-go/refusal":{"type":"FORBIDDEN","guard":"policy"}}`), true},
		{refused(`{"io.github.dovetail-go/refusal":{"type":"REJECTED"}}`), false},
		{refused(`{"type":"FORBIDDEN"}`), false},
		{refused(``), false},
		{nil, false},
		{errors.New("FORBIDDEN"), false},
		{refusal(jsonrpc.InvalidParams, `{"type":"FORBIDDEN","guard":"g"}`), false},
		{refusal(jsonrpc.InternalError, ``), false},
		{refusal(jsonrpc.InternalError, `null`), false},
		{refusal(jsonrpc.InternalError, `"FORBIDDEN"`), false},
		{refusal(jsonrpc.InternalError, `{"type":`), false},
		{refusal(jsonrpc.InternalError, `{"type":7}`), false},
		{refusal(jsonrpc.InternalError, `{"type":"forbidden"}`), false},
		{refusal(jsonrpc.InternalError, `{"Type":"FORBIDDEN"}`), false},
	} {
		if got := client.IsForbidden(test.err); got != test.want {
			t.Errorf("%v: %t", test.err, got)
		}
	}
}
