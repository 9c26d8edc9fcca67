package era_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/era/eratest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// newResourceServer returns a server with an entry of each kind.
func newResourceServer() *server.Server { return newLibraryServer(mcp.CacheHint{}) }

func addTool(s *server.Server, name string) {
	server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return name, nil })
}

func addResource(s *server.Server, uri string) {
	server.AddResource(s, server.Resource{URI: uri}, func(context.Context, *server.Request) (string, error) { return uri, nil })
}

// testListChanges checks that only legacy clients get list changes without a subscription.
func testListChanges(t *testing.T, version mcp.Version) {
	s := newResourceServer()
	p := eratest.Open(t, s, version, "{}")
	p.ExpectSilence()
	addTool(s, "new")
	if version.Modern() {
		p.ExpectSilence()
		return
	}
	if got, want := p.Next(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`; got != want {
		t.Errorf("the notification is %s, want %s", got, want)
	}
	s.Remove(mcp.KindPrompt, "review")
	eratest.Want(t, p.Next(), `"notifications/prompts/list_changed"`, "method")
	addResource(s, "book:3")
	eratest.Want(t, p.Next(), `"notifications/resources/list_changed"`, "method")
	s.Remove(mcp.KindResourceTemplate, "page:{n}")
	eratest.Want(t, p.Next(), `"notifications/resources/list_changed"`, "method")
	s.Remove(mcp.KindTool, "unknown")
	p.ExpectSilence()
}

// TestChangeAfterHandshake checks that a change right after the handshake is sent.
func TestChangeAfterHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newResourceServer()
		session := newSyncSession(s)
		session.initialize(t)
		addTool(s, "new")
		session.run()
		if len(session.received) != 1 || session.received[0] != mcp.NotificationToolsListChanged {
			t.Errorf("the session gets %q", session.received)
		}
	})
}

// testUpdates checks resources/subscribe, which only legacy versions have.
func testUpdates(t *testing.T, version mcp.Version) {
	s := newResourceServer()
	p := eratest.Open(t, s, version, "{}")
	if version.Modern() {
		eratest.WantError(t, p.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`), jsonrpc.MethodNotFound)
		return
	}
	s.ResourceUpdated("book:1")
	p.ExpectSilence()
	for range 2 { // the second request has no effect
		eratest.Want(t, p.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`), "{}", "result")
	}
	s.ResourceUpdated("book:2")
	s.ResourceUpdated("book:1")
	if got, want := p.Next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"book:1"}}`; got != want {
		t.Errorf("the notification is %s, want %s", got, want)
	}
	eratest.Want(t, p.Call(mcp.MethodResourcesUnsubscribe, `{"uri":"book:1"}`), "{}", "result")
	eratest.Want(t, p.Call(mcp.MethodResourcesUnsubscribe, `{"uri":"book:7"}`), "{}", "result")
	s.ResourceUpdated("book:1")
	p.ExpectSilence()
	eratest.Want(t, p.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`), "{}", "result")
	eratest.Want(t, p.Call(mcp.MethodResourcesUnsubscribe, `{"uri":"BOOK:%31"}`), "{}", "result")
	s.ResourceUpdated("book:1")
	p.ExpectSilence()
	for _, params := range []string{`{}`, `{"uri":""}`, `{"uri":7}`, `{"uri":"book:` + strings.Repeat("1", era.MaxWatchedURI) + `"}`} {
		eratest.WantError(t, p.Call(mcp.MethodResourcesSubscribe, params), jsonrpc.InvalidParams)
		eratest.WantError(t, p.Call(mcp.MethodResourcesUnsubscribe, params), jsonrpc.InvalidParams)
	}
	eratest.WantError(t, p.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:7"}`), mcp.CodeResourceNotFound)
	for i := range era.MaxSubscribed {
		eratest.Want(t, p.Call(mcp.MethodResourcesSubscribe, fmt.Sprintf(`{"uri":"page:%d"}`, i)), "{}", "result")
	}
	eratest.WantError(t, p.Call(mcp.MethodResourcesSubscribe, `{"uri":"page:more"}`), jsonrpc.InvalidParams)
}

func listen(p *eratest.Peer, id, filter string) {
	p.T.Helper()
	p.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":` + p.WithMeta(`{"notifications":`+filter+`}`) + `}`)
}

// tag returns the _meta of the messages of a subscription.
func tag(id string) string { return `{"io.modelcontextprotocol/subscriptionId":` + id + `}` }

// notification returns the frame of a notification.
func notification(method, params string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
}

// TestListen checks modern subscriptions. MCP 2026-07-28, basic/patterns/subscriptions.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newResourceServer()
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		for i, id := range []string{"7", `"7"`, `"a b"`, "9007199254740993"} {
			listen(p, id, `{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["book:1"]}`)
			if got, want := p.Next(), notification(mcp.NotificationAcknowledged, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["book:1"]},"_meta":`+tag(id)+`}`); got != want {
				t.Errorf("the subscription begins with %s, want %s", got, want)
			}
			addResource(s, fmt.Sprint("other:", i))
			s.ResourceUpdated("book:2")
			p.ExpectSilence()
			s.ResourceUpdated("book:1")
			if got, want := p.Next(), notification(mcp.NotificationResourceUpdated, `{"uri":"book:1","_meta":`+tag(id)+`}`); got != want {
				t.Errorf("the notification is %s, want %s", got, want)
			}
			addTool(s, fmt.Sprint("new", i))
			if got, want := p.Next(), notification(mcp.NotificationToolsListChanged, `{"_meta":`+tag(id)+`}`); got != want {
				t.Errorf("the notification is %s, want %s", got, want)
			}
			p.Send(notification(mcp.NotificationCancelled, `{"requestId":`+id+`}`))
			p.ExpectSilence() // a cancelled subscription gets no response
			s.ResourceUpdated("book:1")
			p.ExpectSilence()
		}
	})
}

// TestListenToUnknownResources checks that the server does not accept resources that do not exist.
func TestListenToUnknownResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newResourceServer()
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		listen(p, "1", `{"resourceSubscriptions":["book:7","book:1","page:3","else:1"]}`)
		eratest.Want(t, p.Next(), `{"resourceSubscriptions":["book:1","page:3"]}`, "params", "notifications")
		s.ResourceUpdated("book:7")
		p.ExpectSilence()
		s.ResourceUpdated("page:3")
		eratest.Want(t, p.Next(), `"page:3"`, "params", "uri")
	})
}

func TestConcurrentListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newResourceServer()
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		listen(p, "1", `{"toolsListChanged":true}`)
		p.Next()
		listen(p, `"1"`, `{"toolsListChanged":true,"resourcesListChanged":true}`)
		p.Next()
		both := func() map[string]bool {
			return map[string]bool{p.Next(): true, p.Next(): true}
		}
		addTool(s, "a")
		got := both()
		for _, id := range []string{"1", `"1"`} {
			if !got[notification(mcp.NotificationToolsListChanged, `{"_meta":`+tag(id)+`}`)] {
				t.Errorf("the subscription %s gets no notification: %v", id, got)
			}
		}
		// The other subscription continues.
		p.Send(notification(mcp.NotificationCancelled, `{"requestId":1}`))
		p.ExpectSilence()
		addTool(s, "b")
		eratest.Want(t, p.Next(), `"1"`, "params", "_meta", mcp.MetaSubscriptionID)
		p.ExpectSilence()
	})
}

func TestListenUntilShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newResourceServer()
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		listen(p, `"x"`, `{}`)
		if got, want := p.Next(), notification(mcp.NotificationAcknowledged, `{"notifications":{},"_meta":`+tag(`"x"`)+`}`); got != want {
			t.Errorf("the subscription begins with %s, want %s", got, want)
		}
		eratest.Pass(24 * time.Hour) // a subscription has no timeout
		p.ExpectSilence()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		end := p.Next()
		eratest.Want(t, end, `"x"`, "id")
		eratest.Want(t, end, `"complete"`, "result", "resultType")
		eratest.Want(t, end, `"x"`, "result", "_meta", mcp.MetaSubscriptionID)
		eratest.WantError(t, p.Call(mcp.MethodToolsList, ""), jsonrpc.Busy)
		eratest.Want(t, p.Call(mcp.MethodDiscover, ""), `"complete"`, "result", "resultType")
	})
}

func TestListenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.New(mcp.Implementation{Name: "bare", Version: "1"}, nil)
		addTool(s, "only")
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		// The server does not accept changes that it does not support.
		listen(p, "1", `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:b"]}`)
		eratest.Want(t, p.Next(), `{"toolsListChanged":true}`, "params", "notifications")
		p.LastID = 1

		many := strings.Repeat(`"a:b",`, era.MaxSubscribed) + `"a:b"`
		for _, params := range []string{`{}`, `{"notifications":null}`, `{"notifications":[]}`, `{"notifications":{"toolsListChanged":"yes"}}`, `{"notifications":{"resourceSubscriptions":[` + many + `]}}`, `{"notifications":{"resourceSubscriptions":["a:` + strings.Repeat("b", era.MaxListenParams) + `"]}}`} {
			eratest.WantError(t, p.Call(mcp.MethodSubscriptionsListen, params), jsonrpc.InvalidParams)
		}
		for i := range era.MaxListens - 1 {
			listen(p, fmt.Sprintf(`"l%d"`, i), `{}`)
			eratest.Want(t, p.Next(), `"notifications/subscriptions/acknowledged"`, "method")
		}
		listen(p, `"more"`, `{}`)
		eratest.WantError(t, p.Next(), jsonrpc.InternalError)
		// When one has ended, another one can begin.
		p.Send(notification(mcp.NotificationCancelled, `{"requestId":1}`))
		p.ExpectSilence()
		listen(p, `"again"`, `{}`)
		eratest.Want(t, p.Next(), `"notifications/subscriptions/acknowledged"`, "method")
	})
}

// TestChangesAreCoalesced checks that equal changes are queued once for a peer that does not
// read, and that other peers do not wait for it.
func TestChangesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newResourceServer()
		quick := eratest.Open(t, s, mcp.LatestVersion, "{}")
		listen(quick, "1", `{"toolsListChanged":true}`)
		quick.Next()
		slow := newSyncSession(s)
		slow.initialize(t)
		for i := range 1000 {
			addTool(s, fmt.Sprint("tool", i))
		}
		quick.Next()
		slow.run()
		if len(slow.received) != 1 {
			t.Errorf("a slow peer gets %d notifications for 1000 changes, want 1", len(slow.received))
		}
	})
}

// TestUpdatesForPrincipal checks that a peer receives one notification for an update for its
// principal and one for all.
func TestUpdatesForPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newResourceServer()
		ada, eve := newSyncSessionAs(s, "ada"), newSyncSessionAs(s, "eve")
		for _, d := range []*syncSession{ada, eve} {
			d.initialize(t)
			d.call(t, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"book:1"}}`)
		}
		s.ResourceUpdatedFor("ada", "book:1")
		if len(eve.start) > 0 {
			t.Error("eve gets an update for ada")
		}
		s.ResourceUpdated("book:1")
		for _, d := range []*syncSession{ada, eve} {
			if d.run(); len(d.received) != 1 {
				t.Errorf("a peer gets %q, want one notification", d.received)
			}
		}
	})
}

// A syncSession is a session on a link that starts no goroutines: the test runs its functions.
type syncSession struct {
	handler  jsonrpc.Handler
	start    []func(context.Context)
	received []string // methods of notifications
}

func newSyncSession(s *server.Server) *syncSession { return newSyncSessionAs(s, "") }

func newSyncSessionAs(s *server.Server, principal string) *syncSession {
	d := &syncSession{}
	d.handler = s.Bind(transport.Link{
		Peer: d, Input: context.Background(), Principal: principal,
		Go: func(fn func(context.Context)) { d.start = append(d.start, fn) },
	})
	return d
}

func (d *syncSession) initialize(t *testing.T) {
	t.Helper()
	d.call(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":`+eratest.InitializeParams(mcp.LatestLegacyVersion, "{}")+`}`)
}

func (d *syncSession) call(t *testing.T, frame string) {
	t.Helper()
	msg, err := jsonrpc.Decode([]byte(frame))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.handler.Handle(t.Context(), d, msg.(*jsonrpc.Request), &jsonrpc.Reply{}); err != nil {
		t.Fatal(err)
	}
}

// run runs the functions of the session until they wait.
func (d *syncSession) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, fn := range d.start {
			fn(ctx)
		}
	}()
	synctest.Wait()
	cancel()
	<-done
}

func (d *syncSession) Notify(_ context.Context, method string, _ jsonrpc.Appender) error {
	d.received = append(d.received, method)
	return nil
}

func (d *syncSession) Call(context.Context, string, jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, jsonrpc.ErrClosed
}
func (d *syncSession) Cancel(jsonrpc.ID) {}

// A watchedCore is a core that counts its watches.
type watchedCore struct {
	watches atomic.Int32
	began   func() // runs when a watch begins
}

func (*watchedCore) Describe() (*era.Description, error) {
	return &era.Description{Capabilities: mcp.ServerCapabilities{Resources: &mcp.ResourcesCapability{Subscribe: true, ListChanged: true}}}, nil
}

func (*watchedCore) ServeProtocol(context.Context, *mcp.Call) (mcp.Result, error) {
	return mcp.Raw(`{}`), nil
}
func (*watchedCore) Failed(_ string, err error) error { return err }
func (*watchedCore) Stopping() <-chan struct{}        { return nil }
func (*watchedCore) SessionOpened(context.Context, *mcp.Caller, era.RootsFunc) func(error) {
	return nil
}
func (*watchedCore) RootsChanged(context.Context, *mcp.Caller)                    {}
func (*watchedCore) RefusesVisibleTask(context.Context, *mcp.Caller, string) bool { return true }
func (*watchedCore) Outgoing(_ context.Context, _ *mcp.Caller, _ string, params jsonrpc.Appender) (jsonrpc.Appender, bool) {
	return params, true
}
func (*watchedCore) Task(context.Context, *mcp.Caller, string) (*mcp.Task, error) {
	return nil, errors.New("no tasks")
}
func (*watchedCore) CreateTask(context.Context, *mcp.Call, mcp.TaskRequest, json.RawMessage) (*mcp.Task, error) {
	return nil, errors.New("no tasks")
}

func (c *watchedCore) Watch(_ context.Context, _ *mcp.Call, filter mcp.SubscriptionFilter, _ func(mcp.Change)) (mcp.SubscriptionFilter, func(), error) {
	c.watches.Add(1)
	c.began()
	return filter, func() { c.watches.Add(-1) }, nil
}

// TestSubscribeAtEndOfSession checks that a subscription is stopped if the session ends before or
// during the request.
func TestSubscribeAtEndOfSession(t *testing.T) {
	for _, when := range []string{"before", "during"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				input, cancel := context.WithCancel(t.Context())
				core := &watchedCore{began: func() {}}
				h := era.NewServer(core, nil, nil).Bind(transport.Link{Input: input, Go: func(fn func(context.Context)) { go fn(input) }})
				end := func() {
					cancel()
					h.(jsonrpc.SessionHandler).HandleClose()
				}
				handle := func(method string, params jsonrpc.Raw) error {
					req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, []byte(params))
					if err != nil {
						t.Fatal(err)
					}
					return h.Handle(t.Context(), nil, req, new(jsonrpc.Reply))
				}
				if err := handle(mcp.MethodInitialize, jsonrpc.Raw(eratest.InitializeParams(mcp.Version20251125, "{}"))); err != nil {
					t.Fatal(err)
				}
				if when == "before" {
					end()
					synctest.Wait()
				} else {
					core.began = end
				}
				if err := handle(mcp.MethodResourcesSubscribe, jsonrpc.Raw(`{"uri":"file:///a"}`)); err != nil {
					t.Errorf("subscribing: %v", err)
				}
				synctest.Wait()
				if n := core.watches.Load(); n != 0 {
					t.Errorf("%d watches are not stopped", n)
				}
			})
		})
	}
}
