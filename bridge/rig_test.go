package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// eras are the two eras of the protocol.
var eras = map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy}

// eachPair runs a test for both eras of the client and of the server.
func eachPair(t *testing.T, run func(t *testing.T, caller, upstream client.Era)) {
	for name, caller := range eras {
		for behind, upstream := range eras {
			t.Run(name+" to "+behind, func(t *testing.T) { run(t, caller, upstream) })
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newServer(name string) *server.Server {
	return server.New(mcp.Implementation{Name: name, Version: "1"}, &server.Options{RegistrationOrder: true, Logger: quiet()})
}

// mount returns a started server with a provider mounted.
func mount(t testing.TB, p server.Provider) *server.Server {
	t.Helper()
	frontend := newServer("frontend")
	if err := frontend.Mount(p, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := frontend.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := frontend.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return frontend
}

func connect(t testing.TB, to transport.Dialer, opts client.Options) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), to, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// newBridge returns a bridge that runs until the test ends.
func newBridge(t testing.TB, opts *bridge.Options, configs ...bridge.Config) *bridge.Bridge {
	t.Helper()
	if opts == nil {
		opts = &bridge.Options{}
	}
	opts.Logger = quiet()
	b, err := bridge.New(opts, configs...)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := b.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return b
}

// A faultyDialer connects to a server. It can refuse, hang, and cut its connections.
type faultyDialer struct {
	server transport.Binder
	era    client.Era // that the server speaks, Auto for both
	refuse atomic.Bool
	hang   atomic.Bool // Dial blocks
	dials  atomic.Int32

	mu   sync.Mutex
	open []*jsonrpc.Conn
}

func dialerTo(server transport.Binder) *faultyDialer { return &faultyDialer{server: server} }

var errRefused = errors.New("connection refused")

func (l *faultyDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	l.dials.Add(1)
	if l.hang.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if l.refuse.Load() {
		return nil, errRefused
	}
	return transport.Pipe(l).Dial(ctx, handler)
}

func (l *faultyDialer) Bind(link transport.Link) jsonrpc.Handler {
	l.mu.Lock()
	l.open = append(l.open, link.Peer.(*jsonrpc.Conn))
	l.mu.Unlock()
	handler := l.server.Bind(link)
	if l.era == client.Auto {
		return handler
	}
	return oneEra{handler, l.era}
}

// cut closes all connections, like a server that crashes.
func (l *faultyDialer) cut() {
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for _, conn := range open {
		conn.Close()
	}
}

// oneEra makes a server refuse one era.
type oneEra struct {
	jsonrpc.Handler
	era client.Era
}

func (h oneEra) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	foreign := mcp.MethodInitialize
	if h.era == client.Legacy {
		foreign = mcp.MethodDiscover
	}
	if req.Method == foreign {
		return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "method not found"}
	}
	return h.Handler.Handle(ctx, from, req, reply)
}

// speaks restricts the server to one era.
func (l *faultyDialer) speaks(era client.Era) *faultyDialer {
	l.era = era
	return l
}

// as binds links with a principal.
type as struct {
	server    transport.Binder
	principal string
}

func (a as) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = a.principal
	return a.server.Bind(link)
}

// A fakeServer replies with the result of a function.
type fakeServer struct {
	era          client.Era
	capabilities string // as JSON
	answer       func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error)
	received     func(note *jsonrpc.Request)
}

func (p *fakeServer) Bind(transport.Link) jsonrpc.Handler { return p }

func (p *fakeServer) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) {
	if p.received != nil {
		p.received(note)
	}
}

func (p *fakeServer) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	text, err := p.reply(ctx, from, req)
	if err == nil {
		reply.Buf = append(reply.Buf, text...)
	}
	return err
}

func (p *fakeServer) reply(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
	capabilities := p.capabilities
	if capabilities == "" {
		capabilities = `{"tools":{"listChanged":true},"logging":{}}`
	}
	switch {
	case req.Method == mcp.MethodPing:
		if p.answer != nil {
			if text, err := p.answer(ctx, from, req); text != "" || err != nil {
				return text, err
			}
		}
		return "{}", nil
	case req.Method == mcp.MethodInitialize && p.era == client.Legacy:
		return `{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"serverInfo":{"name":"fakeServer","version":"1"}}`, nil
	case req.Method == mcp.MethodDiscover && p.era == client.Modern:
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fakeServer","version":"1"}}}`, nil
	case req.Method == mcp.MethodInitialize, req.Method == mcp.MethodDiscover:
		return "", &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "method not found"}
	}
	text, err := p.answer(ctx, from, req)
	if err != nil {
		return "", err
	}
	if text == "" {
		return "", &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "method not found"}
	}
	if p.era == client.Modern && !strings.Contains(text, `"resultType"`) {
		stamp := `{"resultType":"complete"`
		if strings.HasSuffix(req.Method, "/list") || req.Method == mcp.MethodResourcesRead {
			stamp += `,"ttlMs":0,"cacheScope":"private"`
		}
		if text != "{}" {
			stamp += ","
		}
		text = stamp + text[1:]
	}
	return text, nil
}

// toolsOnly returns a server with tools that return their name.
func toolsOnly(era client.Era, names ...string) *fakeServer {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = `{"name":"` + name + `","inputSchema":{"type":"object"}}`
	}
	return &fakeServer{era: era, answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		switch req.Method {
		case mcp.MethodToolsList:
			return `{"tools":[` + strings.Join(list, ",") + `]}`, nil
		case mcp.MethodToolsCall:
			return `{"content":[{"type":"text","text":` + string(req.Member("name")) + `}]}`, nil
		}
		return "", nil
	}}
}

// echo returns a server with a tool that returns its argument and counts calls.
func echo(calls *atomic.Int64) *server.Server {
	s := newServer("echo")
	server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in struct{ Text string }) (string, error) {
		if calls != nil {
			calls.Add(1)
		}
		return in.Text, nil
	})
	return s
}

// addHang adds a tool that waits until the call is cancelled.
func addHang(s *server.Server, started chan<- struct{}) {
	server.AddTool(s, server.Tool{Name: "hang"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		if started != nil {
			started <- struct{}{}
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
}

// callEcho calls a tool of echo.
func callEcho(ctx context.Context, b *bridge.Bridge, tool, text string) (string, error) {
	arguments, err := json.Marshal(map[string]string{"Text": text})
	if err != nil {
		return "", err
	}
	result, err := b.CallTool(ctx, tool, arguments)
	if err != nil {
		return "", err
	}
	return llm.Text(result)
}

// wantFailure checks the typed error of a call.
func wantFailure(t testing.TB, err error, failure bridge.Failure, delivery jsonrpc.Delivery) {
	t.Helper()
	failed, ok := errors.AsType[*bridge.UpstreamError](err)
	if !ok {
		t.Fatalf("the error is %T %v, want an *UpstreamError", err, err)
	}
	if failed.Failure != failure || failed.Delivery != delivery {
		t.Fatalf("the error is %s, %v (%v), want %s, %v", failed.Failure, failed.Delivery, err, failure, delivery)
	}
}

// wantDuration checks how much virtual time a function takes.
func wantDuration(t testing.TB, least, most time.Duration, what func()) {
	t.Helper()
	began := time.Now()
	what()
	if took := time.Since(began); took < least || took > most {
		t.Errorf("it took %v, want %v to %v", took, least, most)
	}
}

// advance advances virtual time.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func pipeTo(s transport.Binder) transport.Dialer { return transport.Pipe(s) }

func newCall(t testing.TB, method, params string) *mcp.Call {
	t.Helper()
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{}, nil)
	return &call
}

// cached returns the catalog of an earlier run, with one tool.
func cached(name, definition string) *server.Catalog {
	return server.NewCatalog([]*server.Entry{{Target: mcp.Target{
		Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition(jsonRaw(definition)),
	}}}, nil)
}

// subscribe subscribes to a resource of a provider that is not mounted.
func subscribe(t testing.TB, p server.Provider, uri string) (stop func(), err error) {
	t.Helper()
	entry := p.Catalog().Lookup(mcp.KindResource, uri)
	if entry == nil {
		t.Fatalf("there is no resource %q", uri)
	}
	call := newCall(t, mcp.MethodResourcesSubscribe, `{"uri":"`+uri+`"}`)
	call.Resolve(&entry.Target, uri, nil)
	return entry.Subscribe(t.Context(), call)
}

// locations returns a server with resources and a template that matches them.
func locations() *server.Server {
	s := newServer("locations")
	for _, uri := range []string{"file://open", "file://secret"} {
		server.AddResource(s, server.Resource{URI: uri, Name: uri}, func(context.Context, *server.Request) (string, error) { return uri, nil })
	}
	server.AddTemplate(s, server.Template{URITemplate: "file://{name}", Name: "any"}, func(_ context.Context, _ *server.Request, in struct {
		Name string `json:"name"`
	}) (string, error) {
		return in.Name, nil
	})
	return s
}

type jsonRaw = json.RawMessage

// TestMain also runs this binary as the server of tests that need a process.
func TestMain(m *testing.M) {
	if name := os.Getenv(evilList); name != "" {
		os.Exit(serveEvil(name))
	}
	leaktest.Main(m)
}
