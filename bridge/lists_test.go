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

// lister returns a server whose lists are returned by a function.
func lister(era client.Era, list func(method, cursor string) (string, error)) *fakeServer {
	return &fakeServer{
		era: era, capabilities: `{"tools":{"listChanged":true},"prompts":{},"resources":{}}`,
		answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			return list(req.Method, strings.Trim(string(req.Member("cursor")), `"`))
		},
	}
}

func TestListsAreReadPageByPage(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := lister(era, func(method, cursor string) (string, error) {
					if method != mcp.MethodToolsList {
						return "", nil // it has no such list, whatever it says
					}
					var page int
					fmt.Sscan(cursor, &page)
					next := ""
					if page < 4 {
						next = fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
					}
					return fmt.Sprintf(`{"tools":[{"name":"t%d"},{"title":"nameless"},{"name":""},{"name":7}]%s}`, page, next), nil
				})
				p, _ := started(t, dialerTo(up), bridge.ProxyOptions{})
				if got := names(p.Catalog(), mcp.KindTool); got != "t0 t1 t2 t3 t4" {
					t.Errorf("the tools are %q", got)
				}
				if c := p.Catalog(); c.Len(mcp.KindPrompt)+c.Len(mcp.KindResource)+c.Len(mcp.KindResourceTemplate) != 0 {
					t.Error("lists that there are not are not empty")
				}
			})
		})
	}
}

func TestUnreadableLists(t *testing.T) {
	for name, list := range map[string]string{
		"endless":        `{"tools":[],"nextCursor":"again"}`,
		"no list":        `{"tools":{}}`,
		"nothing":        `{}`,
		"an odd entry":   `{"tools":[7]}`,
		"a double entry": `{"tools":[{"name":"a","name":"b"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				up := lister(client.Legacy, func(method, _ string) (string, error) {
					if method != mcp.MethodToolsList {
						return "", nil
					}
					asked.Add(1)
					return list, nil
				})
				p := bridge.Proxy(dialerTo(up), &bridge.ProxyOptions{Logger: quiet()})
				frontend := newServer("frontend")
				if err := frontend.Mount(p, nil); err != nil {
					t.Fatal(err)
				}
				defer frontend.Shutdown(context.Background())
				err := frontend.Start(t.Context())
				wantFailure(t, err, bridge.Malformed, jsonrpc.NotSent)
				if n := asked.Load(); n > 2 {
					t.Errorf("it was asked %d times", n)
				}
			})
		})
	}
}

// After an error the lists are kept, and read again.
func TestListsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		tools := atomic.Pointer[string]{}
		set := func(text string) { tools.Store(&text) }
		set(`{"tools":[{"name":"a"}]}`)
		up := lister(client.Legacy, func(method, _ string) (string, error) {
			switch {
			case method != mcp.MethodToolsList:
				return "", nil
			case broken.Load():
				return "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "not now"}
			}
			return *tools.Load(), nil
		})
		p, _ := started(t, dialerTo(up), bridge.ProxyOptions{})
		broken.Store(true)
		advance(5*time.Minute + time.Second)
		if got := names(p.Catalog(), mcp.KindTool); got != "a" || p.State().Err == nil {
			t.Errorf("the tools are %q, the state's error %v", got, p.State().Err)
		}
		broken.Store(false)
		set(`{"tools":[{"name":"a"},{"name":"b"}]}`)
		advance(11 * time.Second)
		if got := names(p.Catalog(), mcp.KindTool); got != "a b" || p.State().Err != nil {
			t.Errorf("the tools are %q, the state's error %v", got, p.State().Err)
		}
		before := p.Catalog()
		advance(time.Hour)
		if p.Catalog() != before {
			t.Error("the catalog is another, and nothing has changed")
		}
	})
}

// A server's ttlMs shortens the time until its lists are read again.
func TestTimeToLive(t *testing.T) {
	for ttl, want := range map[string]int64{`10000`: 6, `1`: 60, `0`: 1, `-1`: 1, `99999999999`: 1, `"1"`: 1, `1e3`: 1} {
		t.Run(ttl, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lists atomic.Int64
				up := lister(client.Modern, func(method, _ string) (string, error) {
					if method != mcp.MethodToolsList {
						return "", nil
					}
					lists.Add(1)
					return `{"resultType":"complete","cacheScope":"private","tools":[{"name":"a"}],"ttlMs":` + ttl + `}`, nil
				})
				started(t, dialerTo(up), bridge.ProxyOptions{})
				before := lists.Load()
				advance(time.Minute - time.Millisecond)
				got := lists.Load() - before + 1
				if got < want-1 || got > want+1 {
					t.Errorf("read %d times in a minute, want %d", got, want)
				}
			})
		})
	}
}

// A burst of notifications causes a few readings.
func TestBurstOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int64
		var peer jsonrpc.Peer
		var met sync.Once
		up := toolsOnly(client.Legacy, "a")
		answer := up.answer
		up.answer = func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			met.Do(func() { peer = from })
			if req.Method == mcp.MethodToolsList {
				lists.Add(1)
			}
			return answer(ctx, from, req)
		}
		started(t, dialerTo(up), bridge.ProxyOptions{})
		for range 1000 {
			if err := peer.Notify(t.Context(), mcp.NotificationToolsListChanged, nil); err != nil {
				t.Fatal(err)
			}
			<-time.After(100 * time.Microsecond)
		}
		advance(time.Second)
		if got := lists.Load(); got > 4 {
			t.Errorf("the lists were read %d times", got)
		}
	})
}

// A change between reading the lists and the subscription is not missed.
func TestNoChangeIsLostAtTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := newServer("up")
		tool := server.Tool{Name: "a"}
		server.AddTool(up, tool, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		late := &slowSubscriber{up}
		p, _ := started(t, dialerTo(late).speaks(client.Modern), bridge.ProxyOptions{})
		server.AddTool(up, server.Tool{Name: "b"}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
		advance(10 * time.Second)
		if got := names(p.Catalog(), mcp.KindTool); got != "a b" {
			t.Errorf("the tools are %q", got)
		}
	})
}

// A slowSubscriber is a server that takes five seconds to accept a subscription.
type slowSubscriber struct{ *server.Server }

func (l *slowSubscriber) Bind(link transport.Link) jsonrpc.Handler {
	return slowHandler{l.Server.Bind(link)}
}

type slowHandler struct{ jsonrpc.Handler }

func (s slowHandler) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	if req.Method == mcp.MethodSubscriptionsListen {
		<-time.After(5 * time.Second)
	}
	return s.Handler.Handle(ctx, from, req, reply)
}
