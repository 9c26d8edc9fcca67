package bridge_test

import (
	"context"
	"fmt"
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

// An office is where each connection is a session of its own, with a number and whose it
// is. Its tool "who" says so; "wait" waits until it may go on.
type office struct {
	era   client.Era
	goOn  chan struct{}
	dials atomic.Int32

	mu   sync.Mutex
	open map[string]int // sessions by whose they are
	last map[string]int
	told []string // what each session was told can be asked
}

func newOffice(era client.Era) *office {
	return &office{era: era, goOn: make(chan struct{}), open: make(map[string]int), last: make(map[string]int)}
}

// dialAs makes sessions of a principal.
func (o *office) dialAs(_ context.Context, principal string) (transport.Dialer, error) {
	return desk{o, principal}, nil
}

type desk struct {
	*office
	principal string
}

func (d desk) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	number := d.dials.Add(1)
	up := toolsOnly(d.era, "who", "wait")
	answer := up.answer
	up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		if req.Method != mcp.MethodToolsCall {
			return answer(ctx, from, req)
		}
		if string(req.Member("name")) == `"wait"` {
			select {
			case <-d.goOn:
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		return fmt.Sprintf(`{"content":[{"type":"text","text":"%s %d"}]}`, d.principal, number), nil
	}
	conn, err := transport.Pipe(declared{up, d.office}).Dial(ctx, handler)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[d.principal]++
	go func() {
		<-conn.Done()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open[d.principal]--
	}()
	return conn, nil
}

// declared takes down what each legacy session was told can be asked.
type declared struct {
	*played
	office *office
}

func (d declared) Bind(transport.Link) jsonrpc.Handler { return d }

func (d declared) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == mcp.MethodInitialize {
		d.office.mu.Lock()
		d.office.told = append(d.office.told, string(req.Member("capabilities")))
		d.office.mu.Unlock()
	}
	return d.played.Handle(ctx, from, req, reply)
}

// who asks for whose session a caller gets.
func who(t testing.TB, session *client.Session) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), "who", nil, nil)
	return texts(t, result, err)
}

func TestSessionsOfPrincipals(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		for _, shared := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(behind)
				face := mount(t, bridge.Proxy(nil, &bridge.ProxyOptions{DialAs: o.dialAs, Shared: shared, Logger: quiet()}))
				seen := make(map[string]string)
				for range 3 {
					for _, principal := range []string{"ann", "bob", "", "cy"} {
						session := connect(t, transport.Pipe(as{face, principal}), client.Options{Era: caller})
						got := who(t, session)
						session.Close()
						want := principal
						if shared {
							want = ""
						}
						if name, _, _ := strings.Cut(got, " "); name != want {
							t.Errorf("%q got the session of %q", principal, got)
						}
						if first, ok := seen[principal]; ok && first != got {
							t.Errorf("%q got session %q, then %q", principal, first, got)
						}
						seen[principal] = got
					}
				}
			})
		}
	})
}

// A legacy server is told once what can be asked: callers that can be asked something
// else have another session.
func TestSessionsByWhatCanBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(client.Legacy)
		face := mount(t, bridge.Proxy(nil, &bridge.ProxyOptions{DialAs: o.dialAs, Logger: quiet()}))
		elicit := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil }
		roots := func(context.Context) ([]mcp.Root, error) { return nil, nil }
		got := make(map[string]bool)
		for _, era := range eras {
			for _, opts := range []client.Options{{}, {Elicit: elicit}, {Elicit: elicit, ElicitURLs: true}, {Roots: roots}} {
				opts.Era = era
				got[who(t, connect(t, transport.Pipe(as{face, "ann"}), opts))] = true
			}
		}
		if len(got) != 4 {
			t.Errorf("%d sessions for 4 kinds of callers: %v", len(got), got)
		}
		want := []string{`{}`, `{"elicitation":{}}`, `{"elicitation":{"form":{},"url":{}}}`, `{"roots":{}}`}
		for _, can := range want {
			found := false
			for _, told := range o.told[1:] {
				found = found || strings.ReplaceAll(told, `"form":{}`, "") == strings.ReplaceAll(can, `"form":{}`, "")
			}
			if !found {
				t.Errorf("no session was told %s, but %q", can, o.told)
			}
		}
	})
}

// What a caller declares beside that opens no sessions: one could have any number.
func TestSessionsOfOneUserAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(client.Legacy)
		p := bridge.Proxy(nil, &bridge.ProxyOptions{DialAs: o.dialAs, Logger: quiet()})
		face := mount(t, p)
		other := connect(t, transport.Pipe(as{face, "bob"}), client.Options{})
		first := who(t, other)
		for i := range 100 {
			can := &mcp.ClientCapabilities{Experimental: map[string]jsonRaw{fmt.Sprint(i): jsonRaw("{}")}}
			if i&1 != 0 {
				can.Roots = &mcp.RootsCapability{}
			}
			if i&2 != 0 {
				can.Sampling = &mcp.SamplingCapability{}
			}
			if i&4 != 0 {
				can.Elicitation = &mcp.ElicitationCapability{}
			}
			session := connect(t, transport.Pipe(as{face, "ann"}), client.Options{Capabilities: can})
			who(t, session)
			session.Close()
		}
		if n := p.State().Sessions; n > 5 {
			t.Errorf("%d sessions of two users", n)
		}
		if again := who(t, other); again != first {
			t.Errorf("another user's session was %q, is %q", first, again)
		}
	})
}

func TestMaxSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(client.Modern)
		p := bridge.Proxy(nil, &bridge.ProxyOptions{DialAs: o.dialAs, MaxSessions: 2, Logger: quiet()})
		face := mount(t, p)
		users := make(map[string]*client.Session)
		for _, name := range []string{"ann", "bob", "cy", "dee"} {
			users[name] = connect(t, transport.Pipe(as{face, name}), client.Options{})
		}
		for _, name := range []string{"ann", "bob", "ann", "cy"} {
			who(t, users[name])
			pass(time.Second)
		}
		if o.open["ann"] != 1 || o.open["bob"] != 0 || o.open["cy"] != 1 {
			t.Errorf("open are %v, and bob was idle longest", o.open)
		}
		var calls sync.WaitGroup
		for _, name := range []string{"ann", "cy"} {
			calls.Go(func() {
				if _, err := users[name].CallTool(t.Context(), "wait", nil, nil); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		synctest.Wait()
		_, err := users["dee"].CallTool(t.Context(), "who", nil, nil)
		if failed, ok := err.(*jsonrpc.Error); !ok || !strings.Contains(string(failed.Data), `"UPSTREAM_BUSY"`) {
			t.Errorf("one too many gets %v", err)
		}
		close(o.goOn)
		calls.Wait()
		if got := who(t, users["dee"]); !strings.HasPrefix(got, "dee") {
			t.Errorf("then dee got the session of %q", got)
		}
	})
}

// Sessions that come and go with their users leave nothing.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(client.Legacy)
		p := bridge.Proxy(nil, &bridge.ProxyOptions{DialAs: o.dialAs, IdleTimeout: time.Minute, Logger: quiet()})
		face := mount(t, p)
		var calls sync.WaitGroup
		for i := range 50 {
			calls.Go(func() {
				session, err := client.Connect(t.Context(), transport.Pipe(as{face, fmt.Sprint("user", i)}), nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer session.Close()
				for range 20 {
					who(t, session)
					<-time.After(61 * time.Second)
				}
			})
		}
		calls.Wait()
		pass(10 * time.Minute)
		if n := p.State().Sessions; n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		for name, n := range o.open {
			if n != 0 && name != "" {
				t.Errorf("%s has %d connections", name, n)
			}
		}
	})
}

// A caller goes on where a server comes back in another era.
func TestServerChangesEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		way := lineTo(newShop()).of(client.Modern)
		p := bridge.Proxy(way, &bridge.ProxyOptions{Logger: quiet()})
		g := newGuest(t, mount(t, p), client.Modern)
		for range 3 {
			for _, era := range []client.Era{client.Modern, client.Legacy} {
				way.of(era)
				way.cut()
				pass(time.Hour)
				result, err := g.CallTool(t.Context(), "ask", nil, nil)
				if got := texts(t, result, err); got != "Bonn" {
					t.Errorf("it gave %q", got)
				}
				own := 0
				if era == client.Legacy {
					own = 1 // that was told what this caller can be asked
				}
				if n := p.State().Sessions; n != own {
					t.Errorf("%d sessions beside that for lists, want %d", n, own)
				}
			}
		}
	})
}

// A question keeps its session, however long the answer takes.
func TestQuestionKeepsItsSession(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			up := newServer("up")
			server.AddTool(up, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				answer, err := server.Elicit[struct{ City string }](r, "city", "Where?")
				return answer.City, err
			})
			p := bridge.Proxy(lineTo(up).of(behind), &bridge.ProxyOptions{Lazy: true, IdleTimeout: time.Second, Logger: quiet()})
			face := mount(t, p)
			session := connect(t, transport.Pipe(as{face, "ann"}), client.Options{Era: caller, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				<-time.After(4 * time.Minute)
				return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"City":"Bonn"}`)}, nil
			}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			result, err := session.CallTool(ctx, "ask", nil, nil)
			if got := texts(t, result, err); got != "Bonn" {
				t.Errorf("it gave %q", got)
			}
		})
	})
}
