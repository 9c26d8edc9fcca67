package era_test

import (
	"context"
	"fmt"
	"strings"
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

// newShelf has one of each kind, so that it may tell of changes of all.
func newShelf() *server.Server { return newLibrary(mcp.CacheHint{}) }

func addTool(s *server.Server, name string) {
	server.AddTool(s, server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return name, nil })
}

func addResource(s *server.Server, uri string) {
	server.AddResource(s, server.Resource{URI: uri}, func(context.Context, *server.Request) (string, error) { return uri, nil })
}

// testListChanges: legacy clients are told unasked, modern ones are not.
func testListChanges(t *testing.T, version mcp.Version) {
	s := newShelf()
	p := eratest.Open(t, s, version, "{}")
	p.ExpectSilence()
	addTool(s, "new")
	if version.Modern() {
		p.ExpectSilence()
		return
	}
	if got, want := p.Next(), `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`; got != want {
		t.Errorf("the change is told as %s, want %s", got, want)
	}
	s.Remove(mcp.KindPrompt, "review")
	eratest.Want(t, p.Next(), `"notifications/prompts/list_changed"`, "method")
	addResource(s, "book:3")
	eratest.Want(t, p.Next(), `"notifications/resources/list_changed"`, "method")
	s.Remove(mcp.KindResourceTemplate, "page:{n}")
	eratest.Want(t, p.Next(), `"notifications/resources/list_changed"`, "method")
	s.Remove(mcp.KindTool, "nothing of that name")
	p.ExpectSilence()
}

// TestChangeAfterHandshake: what changes right after the answer is told.
func TestChangeAfterHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		late := transportless(s)
		late.initialize(t)
		addTool(s, "new")
		late.run()
		if len(late.told) != 1 || late.told[0] != mcp.NotificationToolsListChanged {
			t.Errorf("the session is told %q", late.told)
		}
	})
}

// testUpdates: legacy clients subscribe with a request of its own.
func testUpdates(t *testing.T, version mcp.Version) {
	s := newShelf()
	p := eratest.Open(t, s, version, "{}")
	if version.Modern() {
		eratest.WantError(t, p.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`), jsonrpc.MethodNotFound)
		return
	}
	s.ResourceUpdated("book:1")
	p.ExpectSilence()
	for range 2 { // twice is once
		eratest.Want(t, p.Call(mcp.MethodResourcesSubscribe, `{"uri":"book:1"}`), "{}", "result")
	}
	s.ResourceUpdated("book:2")
	s.ResourceUpdated("book:1")
	if got, want := p.Next(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"book:1"}}`; got != want {
		t.Errorf("the update is told as %s, want %s", got, want)
	}
	eratest.Want(t, p.Call(mcp.MethodResourcesUnsubscribe, `{"uri":"book:1"}`), "{}", "result")
	eratest.Want(t, p.Call(mcp.MethodResourcesUnsubscribe, `{"uri":"book:7"}`), "{}", "result")
	s.ResourceUpdated("book:1")
	p.ExpectSilence()
	for _, params := range []string{`{}`, `{"uri":""}`, `{"uri":7}`} {
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
	p.Send(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":` + p.Stamped(`{"notifications":`+filter+`}`) + `}`)
}

// tag is the _meta of what belongs to a subscription.
func tag(id string) string { return `{"io.modelcontextprotocol/subscriptionId":` + id + `}` }

func told(method, params string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`
}

// Modern subscriptions: MCP 2026-07-28, basic/patterns/subscriptions.

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		for i, id := range []string{"7", `"7"`, `"a b"`, "9007199254740993"} {
			listen(p, id, `{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["book:1"]}`)
			if got, want := p.Next(), told(mcp.NotificationAcknowledged, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["book:1"]},"_meta":`+tag(id)+`}`); got != want {
				t.Errorf("the subscription begins with %s, want %s", got, want)
			}
			addResource(s, fmt.Sprint("unasked:", i))
			s.ResourceUpdated("book:2")
			p.ExpectSilence()
			s.ResourceUpdated("book:1")
			if got, want := p.Next(), told(mcp.NotificationResourceUpdated, `{"uri":"book:1","_meta":`+tag(id)+`}`); got != want {
				t.Errorf("the update is told as %s, want %s", got, want)
			}
			addTool(s, fmt.Sprint("new", i))
			if got, want := p.Next(), told(mcp.NotificationToolsListChanged, `{"_meta":`+tag(id)+`}`); got != want {
				t.Errorf("the change is told as %s, want %s", got, want)
			}
			p.Send(told(mcp.NotificationCancelled, `{"requestId":`+id+`}`))
			p.ExpectSilence() // a subscription that is cancelled has no answer
			s.ResourceUpdated("book:1")
			p.ExpectSilence()
		}
	})
}

// TestListenToUnknownResources: what does not exist is not agreed to.
func TestListenToUnknownResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
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
		s := newShelf()
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
			if !got[told(mcp.NotificationToolsListChanged, `{"_meta":`+tag(id)+`}`)] {
				t.Errorf("the subscription %s is not told: %v", id, got)
			}
		}
		// The end of one is not the end of the other.
		p.Send(told(mcp.NotificationCancelled, `{"requestId":1}`))
		p.ExpectSilence()
		addTool(s, "b")
		eratest.Want(t, p.Next(), `"1"`, "params", "_meta", mcp.MetaSubscriptionID)
		p.ExpectSilence()
	})
}

func TestListenUntilShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		listen(p, `"x"`, `{}`)
		if got, want := p.Next(), told(mcp.NotificationAcknowledged, `{"notifications":{},"_meta":`+tag(`"x"`)+`}`); got != want {
			t.Errorf("the subscription begins with %s, want %s", got, want)
		}
		eratest.Pass(24 * time.Hour) // it has no end of its own
		p.ExpectSilence()
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		end := p.Next()
		eratest.Want(t, end, `"x"`, "id")
		eratest.Want(t, end, `"complete"`, "result", "resultType")
		eratest.Want(t, end, `"x"`, "result", "_meta", mcp.MetaSubscriptionID)
		eratest.WantError(t, p.Call(mcp.MethodToolsList, ""), jsonrpc.InternalError)
		eratest.Want(t, p.Call(mcp.MethodDiscover, ""), `"complete"`, "result", "resultType")
	})
}

func TestListenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server.New(mcp.Implementation{Name: "bare", Version: "1"}, nil)
		addTool(s, "only")
		p := eratest.Open(t, s, mcp.LatestVersion, "{}")
		// What the server cannot tell is left out.
		listen(p, "1", `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["a:b"]}`)
		eratest.Want(t, p.Next(), `{"toolsListChanged":true}`, "params", "notifications")
		p.LastID = 1

		many := strings.Repeat(`"a:b",`, era.MaxSubscribed) + `"a:b"`
		for _, params := range []string{`{}`, `{"notifications":null}`, `{"notifications":[]}`, `{"notifications":{"toolsListChanged":"yes"}}`, `{"notifications":{"resourceSubscriptions":[` + many + `]}}`} {
			eratest.WantError(t, p.Call(mcp.MethodSubscriptionsListen, params), jsonrpc.InvalidParams)
		}
		for i := range era.MaxListens - 1 {
			listen(p, fmt.Sprintf(`"l%d"`, i), `{}`)
			eratest.Want(t, p.Next(), `"notifications/subscriptions/acknowledged"`, "method")
		}
		listen(p, `"more"`, `{}`)
		eratest.WantError(t, p.Next(), jsonrpc.InternalError)
		// There is room again when one has ended.
		p.Send(told(mcp.NotificationCancelled, `{"requestId":1}`))
		p.ExpectSilence()
		listen(p, `"again"`, `{}`)
		eratest.Want(t, p.Next(), `"notifications/subscriptions/acknowledged"`, "method")
	})
}

// TestChangesAreCoalesced: a peer that does not read costs no more than what it
// listens to, and holds up nobody.
func TestChangesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		quick := eratest.Open(t, s, mcp.LatestVersion, "{}")
		listen(quick, "1", `{"toolsListChanged":true}`)
		quick.Next()
		slow := transportless(s)
		slow.initialize(t)
		for i := range 1000 {
			addTool(s, fmt.Sprint("tool", i))
		}
		quick.Next()
		slow.run()
		if len(slow.told) != 1 {
			t.Errorf("a thousand changes are told %d times to a peer that reads later", len(slow.told))
		}
	})
}

// TestUpdatesForOneAndForAllAreOne: whom else an update is for is nothing to a peer, who
// is told once.
func TestUpdatesForOneAndForAllAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShelf()
		ada, eve := transportlessAs(s, "ada"), transportlessAs(s, "eve")
		for _, d := range []*deferred{ada, eve} {
			d.initialize(t)
			d.call(t, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"book:1"}}`)
		}
		s.ResourceUpdatedFor("ada", "book:1")
		if len(eve.start) > 0 {
			t.Error("eve is told of what is for ada")
		}
		s.ResourceUpdated("book:1")
		for _, d := range []*deferred{ada, eve} {
			if d.run(); len(d.told) != 1 {
				t.Errorf("a peer is told %q", d.told)
			}
		}
	})
}

// A deferred link runs its goroutine when the test wants it to.
type deferred struct {
	handler jsonrpc.Handler
	start   []func(context.Context)
	told    []string
}

func transportless(s *server.Server) *deferred { return transportlessAs(s, "") }

func transportlessAs(s *server.Server, principal string) *deferred {
	d := &deferred{}
	d.handler = s.Bind(transport.Link{
		Peer: d, Input: context.Background(), Principal: principal,
		Go: func(fn func(context.Context)) { d.start = append(d.start, fn) },
	})
	return d
}

func (d *deferred) initialize(t *testing.T) {
	t.Helper()
	d.call(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":`+eratest.InitializeParams(mcp.LatestLegacyVersion, "{}")+`}`)
}

func (d *deferred) call(t *testing.T, frame string) {
	t.Helper()
	msg, err := jsonrpc.Decode([]byte(frame))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.handler.Handle(t.Context(), d, msg.(*jsonrpc.Request), &jsonrpc.Reply{}); err != nil {
		t.Fatal(err)
	}
}

// run runs what the session has to do, until nothing is left.
func (d *deferred) run() {
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

func (d *deferred) Notify(_ context.Context, method string, _ jsonrpc.Appender) error {
	d.told = append(d.told, method)
	return nil
}

func (d *deferred) Call(context.Context, string, jsonrpc.Appender) (*jsonrpc.Response, error) {
	return nil, jsonrpc.ErrClosed
}
func (d *deferred) Cancel(jsonrpc.ID) {}
