package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
		"no list": `{"tools":{}}`,
		"nothing": `{}`,
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

// However many entries are refused, the state has the reasons of the first, and the number of the others.
func TestRefusedEntriesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := lister(client.Modern, func(method, _ string) (string, error) {
			member := map[string]string{mcp.MethodToolsList: "tools", mcp.MethodPromptsList: "prompts"}[method]
			if member == "" {
				return "", nil
			}
			return `{"` + member + `":[` + strings.Repeat("7,", 149) + `7]}`, nil
		})
		p := bridge.Proxy(dialerTo(up), &bridge.ProxyOptions{Logger: quiet()})
		mount(t, p)
		refused := p.State().NotOffered
		if len(refused) != 101 || refused[100].Error() != "200 more entries are not offered" {
			t.Errorf("%d errors, the last is %v", len(refused), refused[len(refused)-1])
		}
	})
}

// The cursor "" is a cursor like any other, as it is for package client.
func TestEmptyCursor(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := &fakeServer{era: era, answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
					switch {
					case req.Method != mcp.MethodToolsList:
						return "", nil
					case req.Member("cursor") == nil:
						return `{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":""}`, nil
					}
					return `{"tools":[{"name":"b","inputSchema":{"type":"object"}}]}`, nil
				}}
				p := bridge.Proxy(dialerTo(up), &bridge.ProxyOptions{Logger: quiet()})
				tools := mount(t, p).Catalog()
				if tools.Lookup(mcp.KindTool, "a") == nil || tools.Lookup(mcp.KindTool, "b") == nil || p.State().Err != nil {
					t.Errorf("%d tools, the error is %v", tools.Len(mcp.KindTool), p.State().Err)
				}
			})
		})
	}
}

// A malformed list is read as far as possible, and the other lists are still offered.
func TestListsOfServersWithFaults(t *testing.T) {
	broken := &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "database error"}
	for name, test := range map[string]struct {
		lists      map[string]string // by method and cursor; an error if there is none
		want       string            // tools, prompts and resources
		err        string            // in State.Err, "" if it is nil
		notOffered int
		warning    string // in the log
	}{
		"one list fails": {
			lists: map[string]string{"tools/list ": `{"tools":[{"name":"query"}]}`, "prompts/list ": `{"prompts":[]}`},
			want:  "query", err: "resources/list: jsonrpc: -32603", warning: "lists of a server could not be read",
		},
		"null is an empty list": {
			lists: map[string]string{"tools/list ": `{"tools":[{"name":"query"}]}`, "prompts/list ": `{"prompts":null}`, "resources/list ": `{"resources":null}`, "resources/templates/list ": `{"resourceTemplates":null}`},
			want:  "query",
		},
		"entries that are not valid": {
			lists: map[string]string{"tools/list ": `{"tools":[7,null,{"title":"nameless"},{"name":"query"},{"name":7},{"name":"a","name":"b"}]}`, "prompts/list ": `{"prompts":[{"name":""}]}`, "resources/list ": `{"resources":[]}`, "resources/templates/list ": `{"resourceTemplates":[]}`},
			want:  "query", notOffered: 6, warning: "an entry of a server is not offered",
		},
		"the second page fails": {
			lists: map[string]string{"tools/list ": `{"tools":[{"name":"query"}]}`, "prompts/list ": `{"prompts":[{"name":"greet"}],"nextCursor":"2"}`, "resources/list ": `{"resources":[]}`, "resources/templates/list ": `{"resourceTemplates":[]}`},
			want:  "query greet", err: "prompts/list: jsonrpc: -32603", warning: "lists of a server could not be read",
		},
		"a cursor is repeated": {
			lists: map[string]string{"tools/list ": `{"tools":[{"name":"query"}],"nextCursor":"again"}`, "tools/list again": `{"tools":[{"name":"query"}],"nextCursor":"again"}`, "prompts/list ": `{"prompts":[]}`, "resources/list ": `{"resources":[]}`, "resources/templates/list ": `{"resourceTemplates":[]}`},
			want:  "query", warning: "the server repeats a cursor",
		},
		"the cursor is always empty": {
			lists: map[string]string{"tools/list ": `{"tools":[{"name":"query"}],"nextCursor":""}`, "prompts/list ": `{"prompts":[]}`, "resources/list ": `{"resources":[]}`, "resources/templates/list ": `{"resourceTemplates":[]}`},
			want:  "query", warning: "the server repeats a page",
		},
	} {
		for eraName, era := range eras {
			t.Run(name+", "+eraName, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					up := lister(era, func(method, cursor string) (string, error) {
						if text, ok := test.lists[method+" "+cursor]; ok {
							return text, nil
						}
						return "", broken
					})
					var log bytes.Buffer
					p := bridge.Proxy(dialerTo(up), &bridge.ProxyOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
					frontend := mount(t, p)
					var got []string
					for _, kind := range []mcp.Kind{mcp.KindTool, mcp.KindPrompt, mcp.KindResource} {
						for e := range frontend.Catalog().All(kind) {
							got = append(got, e.Name)
						}
					}
					if strings.Join(got, " ") != test.want {
						t.Errorf("it offers %q, want %q", got, test.want)
					}
					state := p.State()
					if state.Err == nil && test.err != "" || state.Err != nil && (test.err == "" || !strings.Contains(state.Err.Error(), test.err)) {
						t.Errorf("the error is %v, want %q", state.Err, test.err)
					}
					if len(state.NotOffered) != test.notOffered {
						t.Errorf("not offered: %v, want %d", state.NotOffered, test.notOffered)
					}
					advance(time.Hour)
					if n := strings.Count(log.String(), test.warning); n != max(1, test.notOffered) && test.warning != "" {
						t.Errorf("the log has %d times %q:\n%s", n, test.warning, log.String())
					}
				})
			})
		}
	}
}

// A list that hangs is given up by itself, and does not delay the tools.
func TestAListThatHangs(t *testing.T) {
	for name, era := range eras {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := lister(era, nil)
				up.answer = func(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
					switch req.Method {
					case mcp.MethodToolsList:
						return `{"tools":[{"name":"query"}]}`, nil
					case mcp.MethodResourcesList:
						<-ctx.Done()
						return "", ctx.Err()
					}
					return "", nil
				}
				var p *bridge.Upstream
				wantDuration(t, 0, 3*time.Second, func() { p, _ = started(t, dialerTo(up), bridge.ProxyOptions{}) })
				for range 3 {
					if got := names(p.Catalog(), mcp.KindTool); got != "query" {
						t.Errorf("the tools are %q", got)
					}
					advance(12 * time.Second)
					if err := p.State().Err; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "resources/list") {
						t.Errorf("the error is %v", err)
					}
				}
			})
		})
	}
}

// A server whose tools cannot be read does not start, and its other lists are offered nevertheless.
func TestNoTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := lister(client.Legacy, func(method, _ string) (string, error) {
			if method == mcp.MethodPromptsList {
				return `{"prompts":[{"name":"greet"}]}`, nil
			}
			return "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "database error"}
		})
		b := newBridge(t, nil, bridge.Config{Alias: "db", Dialer: dialerTo(up)})
		if got := names(b.Catalog(), mcp.KindPrompt); got != "db__greet" {
			t.Errorf("the prompts are %q", got)
		}
		_, err := b.CallTool(t.Context(), "db__query", nil)
		wantFailure(t, err, bridge.Malformed, jsonrpc.NotSent)
		if !strings.Contains(err.Error(), "database error") {
			t.Errorf("the error is %v", err)
		}
	})
}

// The pauses before lists that cannot be read are read again grow to RefreshInterval.
func TestListsThatFailAreReadLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read atomic.Int64
		up := lister(client.Legacy, func(method, _ string) (string, error) {
			if method == mcp.MethodToolsList {
				read.Add(1)
				return `{"tools":[]}`, nil
			}
			return "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "not now"}
		})
		started(t, dialerTo(up), bridge.ProxyOptions{})
		advance(time.Hour)
		if n := read.Load(); n < 12 || n > 20 {
			t.Errorf("the lists were read %d times in an hour, want about 16", n)
		}
	})
}

// The entries of a list that cannot be read again are kept, while other lists change.
func TestOneListIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var second atomic.Bool
		up := lister(client.Legacy, func(method, cursor string) (string, error) {
			switch {
			case method == mcp.MethodToolsList && second.Load():
				return `{"tools":[{"name":"b"}]}`, nil
			case method == mcp.MethodToolsList:
				return `{"tools":[{"name":"a"}]}`, nil
			case method != mcp.MethodPromptsList:
				return "", nil
			case cursor == "":
				return `{"prompts":[{"name":"p"}],"nextCursor":"2"}`, nil
			case second.Load():
				return "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "not now"}
			}
			return `{"prompts":[{"name":"q"}]}`, nil
		})
		p, _ := started(t, dialerTo(up), bridge.ProxyOptions{})
		second.Store(true)
		advance(6 * time.Minute)
		if tools, prompts := names(p.Catalog(), mcp.KindTool), names(p.Catalog(), mcp.KindPrompt); tools != "b" || prompts != "p q" {
			t.Errorf("the tools are %q and the prompts %q", tools, prompts)
		}
		second.Store(false)
		advance(time.Minute)
		if p.State().Err != nil || names(p.Catalog(), mcp.KindTool) != "a" {
			t.Errorf("the error is %v, the tools are %q", p.State().Err, names(p.Catalog(), mcp.KindTool))
		}
	})
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
