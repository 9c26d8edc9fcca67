package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// eras are the two families of versions.
var eras = map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy}

// eachPair runs a test for both eras of the caller and of the server behind.
func eachPair(t *testing.T, run func(t *testing.T, caller, upstream client.Era)) {
	for name, caller := range eras {
		for behind, upstream := range eras {
			t.Run(name+" to "+behind, func(t *testing.T) { run(t, caller, upstream) })
		}
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newServer(name string) *server.Server {
	return server.New(mcp.Implementation{Name: name, Version: "1"}, &server.Options{Logger: quiet()})
}

// mount returns the face of a provider, which has been started.
func mount(t testing.TB, p server.Provider) *server.Server {
	t.Helper()
	face := newServer("face")
	if err := face.Mount(p, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := face.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := face.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return face
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

// A line is a way to a server that the test can cut, or close.
type line struct {
	server transport.Binder
	era    client.Era // that the server speaks, Auto for both
	refuse atomic.Bool
	mute   atomic.Bool // who dials waits for ever
	dials  atomic.Int32

	mu   sync.Mutex
	open []*jsonrpc.Conn
}

func lineTo(server transport.Binder) *line { return &line{server: server} }

var errRefused = errors.New("nobody listens")

func (l *line) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	l.dials.Add(1)
	if l.mute.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if l.refuse.Load() {
		return nil, errRefused
	}
	return transport.Pipe(l).Dial(ctx, handler)
}

func (l *line) Bind(link transport.Link) jsonrpc.Handler {
	l.mu.Lock()
	l.open = append(l.open, link.Peer.(*jsonrpc.Conn))
	l.mu.Unlock()
	handler := l.server.Bind(link)
	if l.era == client.Auto {
		return handler
	}
	return oneEra{handler, l.era}
}

// cut ends all connections, as a server that crashes does.
func (l *line) cut() {
	l.mu.Lock()
	open := l.open
	l.open = nil
	l.mu.Unlock()
	for _, conn := range open {
		conn.Close()
	}
}

// oneEra has a server of both eras know one of them.
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

// of says that a server speaks one era only.
func (l *line) of(era client.Era) *line {
	l.era = era
	return l
}

// as is a binder whose links are those of a principal.
type as struct {
	server    transport.Binder
	principal string
}

func (a as) Bind(link transport.Link) jsonrpc.Handler {
	link.Principal = a.principal
	return a.server.Bind(link)
}

// A played server answers as a test says.
type played struct {
	era          client.Era
	capabilities string // as JSON
	answer       func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error)
	told         func(note *jsonrpc.Request)
}

func (p *played) Bind(transport.Link) jsonrpc.Handler { return p }

func (p *played) Notified(_ jsonrpc.Peer, note *jsonrpc.Request) {
	if p.told != nil {
		p.told(note)
	}
}

func (p *played) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	text, err := p.say(ctx, from, req)
	if err == nil {
		reply.Buf = append(reply.Buf, text...)
	}
	return err
}

func (p *played) say(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
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
		return `{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"serverInfo":{"name":"played","version":"1"}}`, nil
	case req.Method == mcp.MethodDiscover && p.era == client.Modern:
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"played","version":"1"}}}`, nil
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

// toolsOnly is a played server with tools of these names, which answer with their name.
func toolsOnly(era client.Era, names ...string) *played {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = `{"name":"` + name + `","inputSchema":{"type":"object"}}`
	}
	return &played{era: era, answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		switch req.Method {
		case mcp.MethodToolsList:
			return `{"tools":[` + strings.Join(list, ",") + `]}`, nil
		case mcp.MethodToolsCall:
			return `{"content":[{"type":"text","text":` + string(req.Member("name")) + `}]}`, nil
		}
		return "", nil
	}}
}

// echo is a server with a tool that says what it is told, and counts.
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

// hangs adds a tool that waits until its caller does not.
func hangs(s *server.Server, started chan<- struct{}) {
	server.AddTool(s, server.Tool{Name: "hang"}, func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
		if started != nil {
			started <- struct{}{}
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
}

// say calls echo.
func say(ctx context.Context, b *bridge.Bridge, tool, text string) (string, error) {
	arguments, err := json.Marshal(map[string]string{"Text": text})
	if err != nil {
		return "", err
	}
	result, err := b.CallTool(ctx, tool, arguments)
	if err != nil {
		return "", err
	}
	return bridge.ReduceText(result)
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

// within checks how much virtual time something takes.
func within(t testing.TB, least, most time.Duration, what func()) {
	t.Helper()
	began := time.Now()
	what()
	if took := time.Since(began); took < least || took > most {
		t.Errorf("it took %v, want %v to %v", took, least, most)
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) {
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

// cached is the catalog of an earlier run, with one tool.
func cached(name, definition string) *server.Catalog {
	return server.NewCatalog([]*server.Entry{{Target: mcp.Target{
		Kind: mcp.KindTool, Name: name, Definition: mcp.NewDefinition(jsonRaw(definition)),
	}}}, nil)
}

// subscribe watches a resource of a provider, without a server that it is mounted on.
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

// locations is a server with resources and a template that they match.
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
