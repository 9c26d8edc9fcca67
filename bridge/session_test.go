package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// A sessionCounter is a server that numbers its sessions. Its tool "who" returns principal and
// number of the session; "wait" waits for goOn.
type sessionCounter struct {
	era   client.Era
	goOn  chan struct{}
	dials atomic.Int32

	mu       sync.Mutex
	open     map[string]int // open sessions by principal
	last     map[string]int
	received []string // the client capabilities that each session received
}

func newSessionCounter(era client.Era) *sessionCounter {
	return &sessionCounter{era: era, goOn: make(chan struct{}), open: make(map[string]int), last: make(map[string]int)}
}

// dialAs is for ProxyOptions.
func (o *sessionCounter) dialAs(_ context.Context, principal string) (transport.Dialer, error) {
	return countedDialer{o, principal}, nil
}

type countedDialer struct {
	*sessionCounter
	principal string
}

func (d countedDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
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
	conn, err := pipeTo(recordingServer{up, d.sessionCounter}).Dial(ctx, handler)
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

// A recordingServer records the capabilities that clients declare in legacy sessions.
type recordingServer struct {
	*fakeServer
	sessionCounter *sessionCounter
}

func (d recordingServer) Bind(transport.Link) jsonrpc.Handler { return d }

func (d recordingServer) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == mcp.MethodInitialize {
		d.sessionCounter.mu.Lock()
		d.sessionCounter.received = append(d.sessionCounter.received, string(req.Member("capabilities")))
		d.sessionCounter.mu.Unlock()
	}
	return d.fakeServer.Handle(ctx, from, req, reply)
}

// sessionOf returns principal and number of the session that a client uses.
func sessionOf(t testing.TB, session *client.Session) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), "who", nil, nil)
	return texts(t, result, err)
}

func TestSessionsOfPrincipals(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		for _, shared := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				o := newSessionCounter(behind)
				opts := &bridge.ProxyOptions{DialAs: o.dialAs, Logger: quiet()}
				if shared {
					opts.Sessions = 1
				}
				frontend := mount(t, bridge.Proxy(nil, opts))
				seen := make(map[string]string)
				for range 3 {
					for _, principal := range []string{"ann", "bob", "", "cy"} {
						session := connect(t, pipeTo(as{frontend, principal}), client.Options{Era: caller})
						got := sessionOf(t, session)
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

// Clients of one principal share a session, whatever they can be asked: the server learns that everything may be asked.
func TestSessionOfAllCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSessionCounter(client.Legacy)
		frontend := mount(t, bridge.Proxy(nil, &bridge.ProxyOptions{DialAs: o.dialAs, Logger: quiet()}))
		elicit := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil }
		roots := func(context.Context) ([]mcp.Root, error) { return nil, nil }
		for _, era := range eras {
			for _, opts := range []client.Options{{}, {Elicit: elicit}, {Elicit: elicit, ElicitURLs: true}, {Roots: roots}} {
				opts.Era = era
				if got := sessionOf(t, connect(t, pipeTo(as{frontend, "ann"}), opts)); got != "ann 2" {
					t.Errorf("a client has session %q", got)
				}
			}
		}
		for _, received := range o.received {
			for _, capability := range []string{`"roots":{"listChanged":true}`, `"elicitation":{"form":{},"url":{}}`, `"sampling":{"tools":{}}`} {
				if !strings.Contains(received, capability) {
					t.Errorf("the server learned %s, without %s", received, capability)
				}
			}
		}
	})
}

// A legacy server is notified of changed roots on the sessions that carry calls of the client that has changed them,
// and on no other sessions.
func TestRootsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var notified []string
		dialAs := func(_ context.Context, principal string) (transport.Dialer, error) {
			up := toolsOnly(client.Legacy, "who")
			up.received = func(note *jsonrpc.Request) {
				if note.Method == mcp.NotificationRootsListChanged {
					mu.Lock()
					defer mu.Unlock()
					notified = append(notified, principal)
				}
			}
			return pipeTo(up), nil
		}
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "up", ProxyOptions: bridge.ProxyOptions{DialAs: dialAs}})
		if err != nil {
			t.Fatal(err)
		}
		frontend := mount(t, b)
		roots := func(context.Context) ([]mcp.Root, error) { return nil, nil }
		elicit := func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil }
		for _, c := range []struct {
			principal string
			opts      client.Options
			calls     bool
			want      string
		}{
			{"ann", client.Options{Roots: roots, Era: client.Legacy}, false, ""}, // no session carries her calls
			{"ann", client.Options{Roots: roots, Era: client.Legacy}, true, "ann"},
			{"ben", client.Options{Roots: roots, Elicit: elicit, Era: client.Legacy}, true, "ben"},
			{"", client.Options{Roots: roots, Era: client.Legacy}, true, ""},
			{"ann", client.Options{Roots: roots, Era: client.Modern}, true, ""}, // sends no notification
		} {
			session := connect(t, pipeTo(as{frontend, c.principal}), c.opts)
			if c.calls {
				if _, err := session.CallTool(t.Context(), "up__who", nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			mu.Lock()
			notified = nil
			mu.Unlock()
			if err := session.RootsChanged(t.Context()); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			mu.Lock()
			want := 0
			if c.calls && c.opts.Era == client.Legacy {
				want = 1
			}
			if len(notified) != want || want > 0 && notified[0] != c.want {
				t.Errorf("%q: sessions of %q were notified", c.principal, notified)
			}
			mu.Unlock()
		}
	})
}

// A server of the legacy era that asks for roots outside of calls gets those of the only client whose calls its session
// carries. With several clients, it gets none.
func TestRootsOutsideOfCalls(t *testing.T) {
	roots := func(uri string) func(context.Context) ([]mcp.Root, error) {
		return func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: uri}}, nil }
	}
	type user struct {
		principal string
		era       client.Era
		roots     string
		calls     bool // before the server asks
	}
	for name, c := range map[string]struct {
		users  []user
		want   string
		mounts int // of the server that mounts the proxy
	}{
		"no client":                             {nil, "[]", 0},
		"one client":                            {[]user{{"ann", client.Legacy, "file:///a", false}}, `[{"uri":"file:///a"}]`, 0},
		"one client that calls":                 {[]user{{"ann", client.Legacy, "file:///a", true}}, `[{"uri":"file:///a"}]`, 0},
		"one client without roots":              {[]user{{"ann", client.Legacy, "", true}}, "[]", 0},
		"a client of the modern era":            {[]user{{"ann", client.Modern, "file:///a", true}}, "[]", 0},
		"two clients of one user":               {[]user{{"ann", client.Legacy, "file:///a", true}, {"ann", client.Legacy, "file:///b", true}}, "[]", 0},
		"two users that do not call":            {[]user{{"ann", client.Legacy, "file:///a", false}, {"bob", client.Legacy, "file:///b", false}}, "[]", 0},
		"two users, the session is ann's":       {[]user{{"ann", client.Legacy, "file:///a", true}, {"bob", client.Legacy, "file:///b", true}}, `[{"uri":"file:///a"}]`, 0},
		"one client of a server that mounts it": {[]user{{"ann", client.Legacy, "file:///a", false}}, `[{"uri":"file:///a"}]`, 1},
		"one client through two mounts":         {[]user{{"ann", client.Legacy, "file:///a", false}}, `[{"uri":"file:///a"}]`, 2},
		"two clients through two mounts":        {[]user{{"ann", client.Legacy, "file:///a", true}, {"ann", client.Legacy, "file:///b", true}}, "[]", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := make(chan jsonrpc.Peer, 100)
				up := toolsOnly(client.Legacy, "who")
				answer := up.answer
				up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
					first <- from
					return answer(ctx, from, req)
				}
				frontend := mount(t, bridge.Proxy(pipeTo(up), &bridge.ProxyOptions{Logger: quiet()}))
				for range c.mounts {
					frontend = mount(t, frontend.Provider())
				}
				for _, u := range c.users {
					opts := client.Options{Era: u.era}
					if u.roots != "" {
						opts.Roots = roots(u.roots)
					}
					session := connect(t, pipeTo(as{frontend, u.principal}), opts)
					if u.calls {
						if _, err := session.CallTool(t.Context(), "who", nil, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
				synctest.Wait()
				resp, err := (<-first).Call(t.Context(), mcp.MethodRootsList, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(resp.Member("roots")); got != c.want {
					t.Errorf("the server gets %s, want %s", got, c.want)
				}
			})
		})
	}
}

// The first session belongs to the first user who calls, until it is opened again while no call waits for it.
func TestOwnerOfFirstSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer := dialerTo(newShop()).speaks(client.Legacy)
		p := bridge.Proxy(dialer, &bridge.ProxyOptions{IdleTimeout: time.Minute, Logger: quiet()})
		frontend := mount(t, p)
		sessions := func(principal string) int {
			session := connect(t, pipeTo(as{frontend, principal}), client.Options{})
			defer session.Close()
			if _, err := session.CallTool(t.Context(), "add", map[string]int{"A": 1, "B": 1}, nil); err != nil {
				t.Errorf("a call of %s: %v", principal, err)
			}
			return p.State().Sessions
		}
		if ann, bob := sessions("ann"), sessions("bob"); ann != 0 || bob != 1 {
			t.Errorf("%d and %d further sessions, want 0 and 1", ann, bob)
		}
		dialer.cut()
		advance(time.Hour)
		if bob, ann := sessions("bob"), sessions("ann"); bob != 0 || ann != 1 {
			t.Errorf("after a restart there are %d and %d further sessions, want 0 and 1", bob, ann)
		}
	})
}

func TestMaxSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSessionCounter(client.Modern)
		p := bridge.Proxy(nil, &bridge.ProxyOptions{DialAs: o.dialAs, Sessions: 3, Logger: quiet()})
		frontend := mount(t, p)
		users := make(map[string]*client.Session)
		for _, name := range []string{"ann", "bob", "cy", "dee"} {
			users[name] = connect(t, pipeTo(as{frontend, name}), client.Options{})
		}
		for _, name := range []string{"ann", "bob", "ann", "cy"} {
			sessionOf(t, users[name])
			advance(time.Second)
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
		if got := sessionOf(t, users["dee"]); !strings.HasPrefix(got, "dee") {
			t.Errorf("then dee got the session of %q", got)
		}
	})
}

// Sessions end after their users have gone.
func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newSessionCounter(client.Legacy)
		p := bridge.Proxy(nil, &bridge.ProxyOptions{DialAs: o.dialAs, IdleTimeout: time.Minute, Logger: quiet()})
		frontend := mount(t, p)
		var calls sync.WaitGroup
		for i := range 50 {
			calls.Go(func() {
				session, err := client.Connect(t.Context(), pipeTo(as{frontend, fmt.Sprint("user", i)}), nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer session.Close()
				for range 20 {
					sessionOf(t, session)
					<-time.After(61 * time.Second)
				}
			})
		}
		calls.Wait()
		advance(10 * time.Minute)
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

// Clients are not affected when a server restarts in another era.
func TestServerChangesEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialer := dialerTo(newShop()).speaks(client.Modern)
		p := bridge.Proxy(dialer, &bridge.ProxyOptions{Logger: quiet()})
		g := newClient(t, mount(t, p), client.Modern)
		for range 3 {
			for _, era := range []client.Era{client.Modern, client.Legacy} {
				dialer.speaks(era)
				dialer.cut()
				advance(time.Hour)
				result, err := g.CallTool(t.Context(), "ask", nil, nil)
				if got := texts(t, result, err); got != "Bonn" {
					t.Errorf("it gave %q", got)
				}
				if n := p.State().Sessions; n != 0 {
					t.Errorf("%d sessions beside the first", n)
				}
			}
		}
	})
}

// A session is kept while the user answers a question.
func TestQuestionKeepsItsSession(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		synctest.Test(t, func(t *testing.T) {
			up := newServer("up")
			server.AddTool(up, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
				answer, err := server.Elicit[struct{ City string }](r, "city", "Where?")
				return answer.City, err
			})
			p := bridge.Proxy(dialerTo(up).speaks(behind), &bridge.ProxyOptions{Lazy: true, IdleTimeout: time.Second, Logger: quiet()})
			frontend := mount(t, p)
			session := connect(t, pipeTo(as{frontend, "ann"}), client.Options{Era: caller, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
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

// slow returns a server with a tool that takes long and reports progress every 5 s if the client
// wants it. During a call the server answers no pings.
func slow(era client.Era, takes time.Duration) *fakeServer {
	up := toolsOnly(era, "work")
	busy := make(chan struct{}, 1)
	up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		switch req.Method {
		case mcp.MethodToolsList:
			return `{"tools":[{"name":"work","inputSchema":{"type":"object"}}]}`, nil
		case mcp.MethodPing:
			select {
			case busy <- struct{}{}:
				<-busy
				return "{}", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		case mcp.MethodToolsCall:
		default:
			return "", nil
		}
		busy <- struct{}{}
		defer func() { <-busy }()
		done := time.After(takes)
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for i := 1; ; i++ {
			select {
			case <-done:
				return `{"content":[{"type":"text","text":"done"}]}`, nil
			case <-ctx.Done():
				return "", ctx.Err()
			case <-ticker.C:
				if token := req.Member("_meta", mcp.MetaProgressToken); token != nil {
					_ = from.Notify(ctx, mcp.NotificationProgress, jsonrpc.Raw(fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, token, i)))
				}
			}
		}
	}
	return up
}

// throughProxyAndBridge returns dialers to a server through a proxy and through a bridge.
func throughProxyAndBridge(t testing.TB, up func() *fakeServer, opts bridge.ProxyOptions) map[string]transport.Dialer {
	opts.Logger = quiet()
	b, err := bridge.New(&bridge.Options{Logger: quiet(), Name: func(_, name string) string { return name }},
		bridge.Config{Alias: "a", Dialer: pipeTo(up()), ProxyOptions: opts})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]transport.Dialer{
		"proxy":  pipeTo(mount(t, bridge.Proxy(pipeTo(up()), &opts))),
		"bridge": pipeTo(mount(t, b)),
	}
}

// Progress extends the timeout of a call. Without progress the call ends at the timeout.
func TestProgressExtendsTheTimeout(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		for timeout, bound := range map[time.Duration]time.Duration{0: time.Minute, 20 * time.Second: 20 * time.Second} {
			for _, asked := range []client.Options{{}, {Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) { return nil, nil }}} {
				synctest.Test(t, func(t *testing.T) {
					for name, dialer := range throughProxyAndBridge(t, func() *fakeServer { return slow(behind, 9*time.Minute) }, bridge.ProxyOptions{CallTimeout: timeout}) {
						asked.Era = caller
						session := connect(t, dialer, asked)
						ctx, cancel := context.WithTimeout(t.Context(), 11*time.Minute)
						defer cancel()
						received := 0
						wantDuration(t, 9*time.Minute, 9*time.Minute, func() {
							result, err := session.CallTool(ctx, "work", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { received++ }})
							if got := texts(t, result, err); got != "done" || received < 100 {
								t.Errorf("%s: the call gave %q after %d reports", name, got, received)
							}
						})
						wantDuration(t, bound, bound, func() {
							_, err := session.CallTool(ctx, "work", nil, nil)
							if failed, ok := errors.AsType[*jsonrpc.Error](err); !ok || !strings.Contains(string(failed.Data), "UPSTREAM_TIMEOUT") {
								t.Errorf("%s: a silent call ends with %v", name, err)
							}
						})
					}
				})
			}
		}
	})
}

// The deadline of a context replaces the timeout, also at a server that is silent.
func TestDeadlineIsInherited(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBridge(t, nil, bridge.Config{Alias: "a", Dialer: pipeTo(slow(era, 9*time.Minute))})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				result, err := b.CallTool(ctx, "a__work", nil)
				if got := texts(t, result, err); got != "done" {
					t.Errorf("the call gave %q", got)
				}
				wantDuration(t, time.Minute, time.Minute, func() {
					_, err := b.CallTool(t.Context(), "a__work", nil)
					wantFailure(t, err, bridge.TimedOut, jsonrpc.MaybeExecuted)
				})
			})
		})
	}
}

// TestClientOptions checks that sessions with a server have the middleware and OnSession of the options. The target of
// a forwarded call has the name on the server.
func TestClientOptions(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		var mu sync.Mutex
		var called []string
		begun, ended := 0, 0
		middleware := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				mu.Lock()
				name := call.Method()
				if t := call.Target(); t != nil {
					name += " " + t.Origin.Server + " " + t.Origin.Name
				}
				called = append(called, name)
				mu.Unlock()
				return next(ctx, call)
			}
		}
		opts := bridge.ProxyOptions{Era: upstream, Middleware: []mcp.Middleware{middleware}, OnSession: func(context.Context, *mcp.Caller) func(error) {
			mu.Lock()
			defer mu.Unlock()
			begun++
			return func(error) {
				mu.Lock()
				defer mu.Unlock()
				ended++
			}
		}}
		b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "a", Dialer: pipeTo(echo(nil)), Required: true, ProxyOptions: opts})
		if err != nil {
			t.Fatal(err)
		}
		frontend := mount(t, b)
		session := connect(t, transport.Pipe(frontend), client.Options{Era: caller})
		if _, err := session.CallTool(t.Context(), "a__echo", map[string]string{"Text": "x"}, nil); err != nil {
			t.Fatal(err)
		}
		session.Close()
		if err := frontend.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(called, "tools/call a echo") || !slices.Contains(called, "tools/list") {
			t.Errorf("the middleware has seen %q", called)
		}
		if begun == 0 || begun != ended {
			t.Errorf("%d sessions have begun and %d have ended", begun, ended)
		}
	})
}
