package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// concurrency is the number of concurrent clients.
const concurrency = 64

// calls returns how many calls the clients make together without the build tag soak.
func calls() int {
	if racetest.Enabled {
		return 320
	}
	return 1_280
}

// Concurrent clients with the same request IDs get their own responses and questions.
func TestConcurrentClients(t *testing.T) {
	for _, mode := range []struct {
		transport string
		era       client.Era
	}{
		{"streamable", client.Modern}, {"streamable", client.Legacy}, {"sse", client.Legacy}, {"ws", client.Modern}, {"ws", client.Legacy},
	} {
		name := mode.transport + " modern"
		if mode.era == client.Legacy {
			name = mode.transport + " legacy"
		}
		t.Run(name, func(t *testing.T) {
			each := scaled(t, calls(), 200_000) / concurrency
			target := newTarget()
			mux, closeAll := target.mux()
			httpServer := httptest.NewServer(mux)
			defer httpServer.Close()
			defer closeAll()

			var answers, foreign atomic.Int64
			began := time.Now()
			var all sync.WaitGroup
			for i := range concurrency {
				all.Go(func() {
					v := &echoClient{TB: t, name: fmt.Sprintf("%s %d", name, i)}
					v.run(dialerOptions{mode.transport, httpServer.URL, mode.era}, each)
					answers.Add(v.answers)
					foreign.Add(v.foreign)
				})
			}
			all.Wait()
			took := time.Since(began)
			t.Logf("%d answers, %d of them foreign, in %v: %.0f a second", answers.Load(), foreign.Load(), took.Round(time.Millisecond), float64(answers.Load())/took.Seconds())
			if want := int64(concurrency * each); answers.Load() != want || foreign.Load() > 0 {
				t.Errorf("%d answers, %d foreign, want %d and none", answers.Load(), foreign.Load(), want)
			}
		})
	}
}

type dialerOptions struct {
	transport, url string
	era            client.Era
}

// An echoClient makes calls and answers questions. All that it sends and receives
// contains its name.
type echoClient struct {
	testing.TB
	name             string
	mu               sync.Mutex
	asked            string // the expected question
	answers, foreign int64
}

// One of askEvery calls asks a question, so that the limit of a client's questions would end the test.
const askEvery = 10

var noQuestionLimit = client.Limits{QuestionsPerMinute: -1}

func (v *echoClient) run(to dialerOptions, calls int) {
	ctx, cancel := context.WithTimeout(v.Context(), 10*timeout)
	defer cancel()
	session, err := client.Connect(ctx, dialerOf(to.transport, to.url), &client.Options{Era: to.era, Elicit: v.elicit, Limits: noQuestionLimit})
	if err != nil {
		v.Errorf("%s: %v", v.name, err)
		return
	}
	defer session.Close()
	for i := range calls {
		nonce := fmt.Sprintf("%s, call %d", v.name, i)
		tool, want := "echo", nonce
		if i%askEvery == 0 {
			tool, want = "ask", "the answer to "+nonce
			v.expect(nonce)
		}
		got, err := echoed(ctx, session, tool, nonce)
		if err != nil {
			v.Errorf("%s: %v", nonce, err)
			return
		}
		v.answers++
		if got != want {
			v.foreign++
			v.Errorf("%s was answered with %q", nonce, got)
		}
	}
}

func (v *echoClient) expect(nonce string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = nonce
}

// elicit answers a question, which must be for the client's current call.
func (v *echoClient) elicit(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if params.Message != v.asked {
		v.Errorf("%s was asked %q, want %q", v.name, params.Message, v.asked)
	}
	content, err := json.Marshal(echoIn{"the answer to " + params.Message})
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, err
}

// upstreams are the servers behind the bridge. A shared one receives the requests of all
// clients on one connection.
var upstreams = []struct {
	alias         string
	era           client.Era
	stdio, shared bool
	asks          bool // a legacy question over a shared pipe does not name the client
}{
	{alias: "web", era: client.Modern, asks: true},
	{alias: "old", era: client.Legacy, asks: true},
	{alias: "oldshared", era: client.Legacy, shared: true, asks: true},
	{alias: "pipe", era: client.Modern, stdio: true, shared: true, asks: true},
	{alias: "oldpipe", era: client.Legacy, stdio: true, shared: true},
}

// Concurrent clients with the same request IDs and progress tokens get their own
// responses, progress and questions through a bridge.
func TestConcurrentClientsThroughBridge(t *testing.T) {
	quiet := newTarget().quiet
	targets, closeTargets := newTarget().mux()
	web := httptest.NewServer(targets)
	defer web.Close()
	defer closeTargets()

	for _, mode := range []struct {
		name, transport string
		era             client.Era
		full            int
	}{
		{"streamable modern", "streamable", client.Modern, 400_000},
		{"streamable legacy", "streamable", client.Legacy, 400_000},
		{"ws modern", "ws", client.Modern, 100_000},
		{"ws legacy", "ws", client.Legacy, 100_000},
	} {
		t.Run(mode.name, func(t *testing.T) {
			front := newBridgeServer(t, web.URL)
			overStreamable := streamable.Handler(front, &streamable.Options{Logger: quiet})
			overWS := ws.Handler(front, &ws.Options{Logger: quiet})
			mux := http.NewServeMux()
			mux.Handle("/mcp", overStreamable)
			mux.Handle("/ws", overWS)
			near := httptest.NewServer(authenticated(mux))
			defer near.Close()
			defer overStreamable.Close()
			defer overWS.Close()

			each := (scaled(t, calls(), mode.full) + concurrency*callsPerClient - 1) / (concurrency * callsPerClient)
			clients := make([]*bridgeClient, concurrency)
			began := time.Now()
			var all sync.WaitGroup
			for i := range clients {
				clients[i] = &bridgeClient{TB: t, name: fmt.Sprintf("client %d", i), first: 10 * i}
				all.Go(func() { clients[i].run(mode.transport, near.URL, mode.era, each) })
			}
			all.Wait()
			took := time.Since(began)
			var answers, progressed, asked, foreign int64
			for _, g := range clients {
				answers, progressed, asked, foreign = answers+g.answers.Load(), progressed+g.progressed.Load(), asked+g.questions.Load(), foreign+g.foreign.Load()
			}
			t.Logf("%d answers, %d progress notifications, %d questions, %d of them foreign, in %v: %.0f answers a second",
				answers, progressed, asked, foreign, took.Round(time.Millisecond), float64(answers)/took.Seconds())
			if want := int64(concurrency * callsPerClient * each); answers != want || foreign > 0 || progressed == 0 || asked == 0 {
				t.Errorf("%d answers, %d foreign, want %d and none", answers, foreign, want)
			}
		})
	}
}

// newBridgeServer returns a server with a bridge to the upstreams.
func newBridgeServer(t *testing.T, url string) *server.Server {
	t.Helper()
	logger := newTarget().quiet
	configs := make([]bridge.Config, len(upstreams))
	for i, f := range upstreams {
		dialer := dialerOf("streamable", url)
		if f.stdio {
			dialer = dialerOf("stdio", "stdio server")
		}
		sessions := 4 * concurrency
		if f.shared {
			sessions = 1
		}
		configs[i] = bridge.Config{Alias: f.alias, Dialer: dialer, Required: true, ProxyOptions: bridge.ProxyOptions{Era: f.era, Sessions: sessions}}
	}
	b, err := bridge.New(&bridge.Options{Logger: logger}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	front := server.New(mcp.Implementation{Name: "bridge", Version: "1"}, &server.Options{Logger: logger})
	if err := front.Mount(b, nil); err != nil {
		t.Fatal(err)
	}
	if err := front.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := front.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return front
}

// callsPerClient is the number of concurrent calls of each client.
const callsPerClient = 2

// A bridgeClient calls tools behind a bridge. All that it sends and receives contains its
// name.
type bridgeClient struct {
	testing.TB
	name                                    string
	first                                   int      // number of the first call; clients start with different upstreams
	open                                    sync.Map // nonces of calls that may ask
	answers, progressed, questions, foreign atomic.Int64
}

func (g *bridgeClient) run(over, url string, era client.Era, calls int) {
	ctx, cancel := context.WithTimeout(g.Context(), 20*timeout)
	defer cancel()
	session, err := client.Connect(ctx, g.dialer(over, url), &client.Options{Era: era, Elicit: g.elicit, Limits: noQuestionLimit})
	if err != nil {
		g.Errorf("%s: %v", g.name, err)
		return
	}
	defer session.Close()
	var all sync.WaitGroup
	for lane := range callsPerClient {
		all.Go(func() {
			for i := g.first; i < g.first+calls; i++ {
				if err := g.call(ctx, session, i, fmt.Sprintf("%s, lane %d, call %d", g.name, lane, i)); err != nil {
					g.Errorf("%s, lane %d, call %d: %v", g.name, lane, i, err)
					return
				}
			}
		})
	}
	all.Wait()
}

func (g *bridgeClient) dialer(over, url string) transport.Dialer {
	authenticate := func(_ context.Context, header http.Header) error {
		header.Set(principalHeader, g.name)
		return nil
	}
	if over == "ws" {
		return ws.Dial(url+"/ws", &ws.DialOptions{Header: authenticate})
	}
	return streamable.Dial(url+"/mcp", &streamable.DialOptions{Header: authenticate})
}

// call calls the tools of all upstreams in turn. One of ten calls asks a question, and
// three report progress.
func (g *bridgeClient) call(ctx context.Context, session *client.Session, i int, nonce string) error {
	to, tool, want := upstreams[(i+i/10)%len(upstreams)], "echo", nonce
	switch {
	case i%10 == 0 && to.asks:
		tool, want = "ask", answerTo(nonce)
		g.open.Store(nonce, true)
		defer g.open.Delete(nonce)
	case i%10 < 4:
		tool = "step"
	}
	var progressed int
	opts := &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
		progressed++
		if p.Message != nonce || p.Progress != float64(progressed) {
			g.reportForeign("%s: progress %v, %q", nonce, p.Progress, p.Message)
		}
	}}
	if tool != "step" {
		opts = nil
	}
	result, err := session.CallTool(ctx, bridge.Name(to.alias, tool), echoIn{nonce}, opts)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", tool, to.alias, err)
	}
	g.answers.Add(1)
	g.progressed.Add(int64(progressed))
	if got := textOf(result); got != want {
		g.reportForeign("%s of %s for %s was answered with %q", tool, to.alias, nonce, got)
	}
	if tool == "step" && progressed != steps {
		return fmt.Errorf("%s reported progress %d times, want %d", to.alias, progressed, steps)
	}
	return nil
}

func (g *bridgeClient) reportForeign(format string, args ...any) {
	g.foreign.Add(1)
	g.Errorf(format, args...)
}

// elicit answers a question, which must be for a call that this client is making.
func (g *bridgeClient) elicit(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	g.questions.Add(1)
	_, nonce, _ := strings.Cut(params.Message, ": ") // the bridge adds the name of the upstream
	if _, ok := g.open.Load(nonce); !ok {
		g.reportForeign("%s was asked %q", g.name, params.Message)
	}
	content, err := json.Marshal(echoIn{answerTo(nonce)})
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, err
}

func answerTo(nonce string) string { return "the answer to " + nonce }
