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
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// far are the servers behind the bridge. One that all share gets the requests of all in
// one sequence of ids.
var far = []struct {
	alias         string
	era           client.Era
	stdio, shared bool
	asks          bool // over a pipe of the legacy era nothing tells who is asked
}{
	{alias: "web", era: client.Modern, asks: true},
	{alias: "old", era: client.Legacy, asks: true},
	{alias: "oldshared", era: client.Legacy, shared: true, asks: true},
	{alias: "pipe", era: client.Modern, stdio: true, shared: true, asks: true},
	{alias: "oldpipe", era: client.Legacy, stdio: true, shared: true},
}

// Many clients, all of which count their requests and progress tokens from the same
// number, get their own answers, progress and questions through a bridge.
func TestAnswersThroughABridgeReachTheirCallers(t *testing.T) {
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
			face := newFace(t, web.URL)
			overStreamable := streamable.Handler(face, &streamable.Options{Logger: quiet})
			overWS := ws.Handler(face, &ws.Options{Logger: quiet})
			mux := http.NewServeMux()
			mux.Handle("/mcp", overStreamable)
			mux.Handle("/ws", overWS)
			near := httptest.NewServer(authenticated(mux))
			defer near.Close()
			defer overStreamable.Close()
			defer overWS.Close()

			each := (scaled(t, 1_280, mode.full) + crowd*lanes - 1) / (crowd * lanes)
			guests := make([]*guest, crowd)
			began := time.Now()
			var all sync.WaitGroup
			for i := range guests {
				guests[i] = &guest{TB: t, name: fmt.Sprintf("guest %d", i), first: 10 * i}
				all.Go(func() { guests[i].visit(mode.transport, near.URL, mode.era, each) })
			}
			all.Wait()
			took := time.Since(began)
			var answers, told, asked, foreign int64
			for _, g := range guests {
				answers, told, asked, foreign = answers+g.answers.Load(), told+g.told.Load(), asked+g.questions.Load(), foreign+g.foreign.Load()
			}
			t.Logf("%d answers, %d tellings of progress, %d questions, %d of them foreign, in %v: %.0f answers a second",
				answers, told, asked, foreign, took.Round(time.Millisecond), float64(answers)/took.Seconds())
			if want := int64(crowd * lanes * each); answers != want || foreign > 0 || told == 0 || asked == 0 {
				t.Errorf("%d answers, %d foreign, want %d and none", answers, foreign, want)
			}
		})
	}
}

// newFace returns a server with the far servers behind it.
func newFace(t *testing.T, url string) *server.Server {
	t.Helper()
	logger := newTarget().quiet
	configs := make([]bridge.Config, len(far))
	for i, f := range far {
		dialer := dialerOf("streamable", url)
		if f.stdio {
			dialer = dialerOf("stdio", "stdio server")
		}
		configs[i] = bridge.Config{Alias: f.alias, Dialer: dialer, Required: true, ProxyOptions: bridge.ProxyOptions{
			Era: f.era, Shared: f.shared, MaxSessions: 4 * crowd,
		}}
	}
	b, err := bridge.New(&bridge.Options{Logger: logger}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	face := server.New(mcp.Implementation{Name: "bridge", Version: "1"}, &server.Options{Logger: logger})
	if err := face.Mount(b, nil); err != nil {
		t.Fatal(err)
	}
	if err := face.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := face.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return face
}

// lanes is how many calls each guest makes at once.
const lanes = 2

// A guest is a user who calls tools behind a bridge. All it hears holds its name.
type guest struct {
	testing.TB
	name                              string
	first                             int      // number of its calls: they begin with different servers
	open                              sync.Map // nonces of calls that may ask
	answers, told, questions, foreign atomic.Int64
}

func (g *guest) visit(over, url string, era client.Era, calls int) {
	ctx, cancel := context.WithTimeout(g.Context(), 20*patience)
	defer cancel()
	session, err := client.Connect(ctx, g.dialer(over, url), &client.Options{Era: era, Elicit: g.elicit})
	if err != nil {
		g.Errorf("%s: %v", g.name, err)
		return
	}
	defer session.Close()
	var all sync.WaitGroup
	for lane := range lanes {
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

func (g *guest) dialer(over, url string) transport.Dialer {
	introduce := func(_ context.Context, header http.Header) error {
		header.Set(principalHeader, g.name)
		return nil
	}
	if over == "ws" {
		return ws.Dial(url+"/ws", &ws.DialOptions{Header: introduce})
	}
	return streamable.Dial(url+"/mcp", &streamable.DialOptions{Header: introduce})
}

// call calls the tools of all servers in turn: of ten calls one asks, and three tell of
// their progress.
func (g *guest) call(ctx context.Context, session *client.Session, i int, nonce string) error {
	to, tool, want := far[(i+i/10)%len(far)], "echo", nonce
	switch {
	case i%10 == 0 && to.asks:
		tool, want = "ask", answerTo(nonce)
		g.open.Store(nonce, true)
		defer g.open.Delete(nonce)
	case i%10 < 4:
		tool = "step"
	}
	var told int
	opts := &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
		told++
		if p.Message != nonce || p.Progress != float64(told) {
			g.isForeign("%s: progress %v, %q", nonce, p.Progress, p.Message)
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
	g.told.Add(int64(told))
	if got := textOf(result); got != want {
		g.isForeign("%s of %s for %s was answered with %q", tool, to.alias, nonce, got)
	}
	if tool == "step" && told != steps {
		return fmt.Errorf("%s told of its progress %d times, want %d", to.alias, told, steps)
	}
	return nil
}

func (g *guest) isForeign(format string, args ...any) {
	g.foreign.Add(1)
	g.Errorf(format, args...)
}

// elicit answers a question, which must be one of a call that this guest is making.
func (g *guest) elicit(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	g.questions.Add(1)
	_, nonce, _ := strings.Cut(params.Message, ": ") // the bridge says who asks
	if _, ok := g.open.Load(nonce); !ok {
		g.isForeign("%s was asked %q", g.name, params.Message)
	}
	content, err := json.Marshal(echoIn{answerTo(nonce)})
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, err
}

func answerTo(nonce string) string { return "the answer to " + nonce }
