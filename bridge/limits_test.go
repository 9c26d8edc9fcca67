package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// evilLists are pages of lists that a bridge must refuse. Each value is the server's result for one page.
var evilLists = map[string]func(page int) string{
	"pages of one large tool": func(page int) string {
		return fmt.Sprintf(`{"name":"t%d","description":"%s"}`, page, strings.Repeat("x", 12<<20))
	},
	"pages of many small tools": func(page int) string {
		var out []string
		for i := range 100 {
			out = append(out, fmt.Sprintf(`{"name":"t%d_%d","description":"%s","inputSchema":{"type":"object"}}`, page, i, strings.Repeat("x", 4000)))
		}
		return strings.Join(out, ",")
	},
	"pages of names only": func(page int) string {
		return strings.TrimSuffix(strings.Repeat(`{"name":"t"},`, 50_000), ",")
	},
}

const evilPages = 62

// newEvil returns a server that lists evilPages pages.
func newEvil(pageOf func(page int) string) *fakeServer {
	return &fakeServer{era: client.Modern, capabilities: `{"tools":{"listChanged":true},"prompts":{},"resources":{}}`,
		answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			if !strings.HasSuffix(req.Method, "/list") {
				return "", nil
			}
			page := 0
			_, _ = fmt.Sscanf(strings.Trim(string(req.Member("cursor")), `"`), "%d", &page)
			next := ""
			if page < evilPages-1 {
				next = fmt.Sprintf(`,"nextCursor":"%d"`, page+1)
			}
			member := map[string]string{
				mcp.MethodToolsList: "tools", mcp.MethodPromptsList: "prompts",
				mcp.MethodResourcesList: "resources", mcp.MethodResourceTemplatesList: "resourceTemplates",
			}[req.Method]
			if member != "tools" {
				return `{"` + member + `":[]}`, nil
			}
			return `{"tools":[` + pageOf(page) + `]` + next + `}`, nil
		}}
}

// evilList names the list of the evil server that this test binary is, if it is set.
const evilList = "DOVETAIL_TEST_EVIL_LIST"

// serveEvil serves the evil server on standard streams.
func serveEvil(name string) int {
	if err := stdio.Serve(context.Background(), newEvil(evilLists[name]), nil); err != nil {
		return 1
	}
	return 0
}

// peakHeap returns a function that returns by how many bytes the heap has grown at most.
func peakHeap(t *testing.T) (grown func() int64) {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	base, peak := int64(m.HeapInuse), atomic.Int64{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), int64(m.HeapInuse)))
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-stopped
		return peak.Load() - base
	}
}

// One server whose list is too large is left out and reported. The clients of the bridge get the lists of the other
// servers, and the memory of the bridge is bounded.
func TestAnEvilListHurtsNobodyElse(t *testing.T) {
	racetest.Skip(t)
	for name, pageOf := range evilLists {
		for _, over := range []string{"http", "stdio"} {
			t.Run(name+" over "+over, func(t *testing.T) {
				var dialer transport.Dialer
				if over == "stdio" {
					dialer = stdio.Command(os.Args[0], nil, &stdio.CommandOptions{Env: []string{evilList + "=" + name}})
				} else {
					handler := streamable.Handler(newEvil(pageOf), nil)
					web := httptest.NewServer(handler)
					t.Cleanup(func() { web.Close(); handler.Close() })
					dialer = streamable.Dial(web.URL, nil)
				}
				grown := peakHeap(t)
				patient := bridge.ProxyOptions{ListTimeout: time.Minute} // with the race detector it takes long
				b, err := bridge.New(&bridge.Options{Logger: quiet(), StartTimeout: time.Minute},
					bridge.Config{Alias: "evil", Dialer: dialer, ProxyOptions: patient}, bridge.Config{Alias: "honest", Dialer: pipeTo(echo(nil))})
				if err != nil {
					t.Fatal(err)
				}
				handler := streamable.Handler(mount(t, b), nil)
				web := httptest.NewServer(handler)
				t.Cleanup(func() { web.Close(); handler.Close() })
				session := connect(t, streamable.Dial(web.URL, nil), client.Options{})
				var tools []string
				for tool, err := range session.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					tools = append(tools, tool.Name)
				}
				if got := strings.Join(tools, " "); got != "honest__echo" {
					t.Errorf("the tools are %.200q, want the tools of the honest server", got)
				}
				if got, err := client.CallAs[string](t.Context(), session, "honest__echo", map[string]string{"Text": "x"}, nil); err != nil || got != "x" {
					t.Errorf("the honest server returns %q, %v", got, err)
				}
				state := b.States()[0]
				if _, ok := errors.AsType[*mcp.LimitError](state.Err); !ok {
					t.Errorf("the state of the evil server is %+v, want a *LimitError", state)
				}
				// Over HTTP the evil server uses memory of this process too.
				if peak := grown() >> 20; over == "stdio" && peak > 100 {
					t.Errorf("the heap grew by %d MiB", peak)
				} else {
					t.Logf("the heap grew by %d MiB", peak)
				}
			})
		}
	}
}

// entriesByList returns a server that lists these entries, as JSON, by the member of the list.
func entriesByList(era client.Era, entries map[string][]string) *fakeServer {
	return lister(era, func(method, _ string) (string, error) {
		member := map[string]string{
			mcp.MethodToolsList: "tools", mcp.MethodPromptsList: "prompts",
			mcp.MethodResourcesList: "resources", mcp.MethodResourceTemplatesList: "resourceTemplates",
		}[method]
		if member == "" {
			return "", nil
		}
		return `{"` + member + `":[` + strings.Join(entries[member], ",") + `]}`, nil
	})
}

// Entries that are too large are left out and reported. The other entries of the server are offered.
func TestLargeEntriesAreLeftOut(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	synctest.Test(t, func(t *testing.T) {
		up := entriesByList(client.Legacy, map[string][]string{
			"tools": {
				`{"name":"a"}`, `{"name":"b","description":"` + long(64<<10+1) + `"}`, `{"name":"c","inputSchema":{"title":"` + long(256<<10) + `"}}`,
				`{"name":"` + long(257) + `"}`, `{"name":"d","icons":[{"src":"data:image/png;base64,` + long(1<<20) + `"}]}`, `{"name":"e"}`,
			},
			"prompts":           {`{"name":"a"}`, `{"name":"b","arguments":[{"name":"` + long(1<<20) + `"}]}`, `{"name":"c","title":"` + long(64<<10+1) + `"}`},
			"resources":         {`{"name":"a","uri":"a:a"}`, `{"name":"b","uri":"b:` + long(64<<10) + `"}`, `{"name":"` + long(64<<10+1) + `","uri":"c:c"}`},
			"resourceTemplates": {`{"name":"a","uriTemplate":"t:{a}"}`, `{"name":"b","uriTemplate":"u:{b}` + long(8<<10) + `"}`},
		})
		p, _ := started(t, dialerTo(up), bridge.ProxyOptions{})
		offered := p.Catalog()
		for kind, want := range map[mcp.Kind]string{mcp.KindTool: "a e", mcp.KindPrompt: "a", mcp.KindResource: "a:a", mcp.KindResourceTemplate: "t:{a}"} {
			if got := names(offered, kind); got != want {
				t.Errorf("the entries of the kind %v are %.100q, want %q", kind, got, want)
			}
		}
		limits := make(map[string]int)
		for _, err := range p.State().NotOffered {
			if limit, ok := errors.AsType[*mcp.LimitError](err); ok && len(err.Error()) < 600 {
				limits[limit.Limit]++
			} else {
				t.Errorf("it reports %.100v", err)
			}
		}
		want := map[string]int{"TextBytes": 3, "SchemaBytes": 1, "NameBytes": 1, "EntryBytes": 2, "URIBytes": 1, "TemplateBytes": 1}
		if !maps.Equal(limits, want) {
			t.Errorf("it reports %v, want %v", limits, want)
		}
		if p.State().Err != nil {
			t.Error(p.State().Err)
		}
	})
}

// Two thousand wrong entries are reported by number.
func TestReportsOfEntriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tools []string
		for i := range 1_999 {
			tools = append(tools, fmt.Sprintf(`{"name":"%0257d"}`, i))
		}
		p, _ := started(t, dialerTo(entriesByList(client.Legacy, map[string][]string{"tools": append(tools, `{"name":"a"}`)})), bridge.ProxyOptions{})
		if got := p.State().NotOffered; len(got) != 101 || !strings.Contains(got[100].Error(), "1899 more") {
			t.Errorf("%d errors, the last is %v", len(got), got[len(got)-1])
		}
		if got := names(p.Catalog(), mcp.KindTool); got != "a" {
			t.Errorf("the tools are %.100q", got)
		}
	})
}

// The lists that were read last are kept while all lists together are too large.
func TestLimitCatalogBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var entries atomic.Int64
		entries.Store(9)
		up := lister(client.Legacy, func(method, _ string) (string, error) {
			entry := `{"name":"x","description":"` + strings.Repeat("x", 10_000) + `"}`
			switch method {
			case mcp.MethodToolsList:
				return `{"tools":[` + strings.Replace(entry, `"x"`, `"tool"`, 1) + `]}`, nil
			case mcp.MethodResourcesList:
				var all []string
				for i := range entries.Load() {
					all = append(all, strings.Replace(entry, `{`, fmt.Sprintf(`{"uri":"r:%d",`, i), 1))
				}
				return `{"resources":[` + strings.Join(all, ",") + `]}`, nil
			}
			return "", nil
		})
		p, _ := started(t, dialerTo(up), bridge.ProxyOptions{Limits: client.Limits{CatalogBytes: 110_000}})
		count := func() int { return p.Catalog().Len(mcp.KindTool) + p.Catalog().Len(mcp.KindResource) }
		if n := count(); n != 10 {
			t.Errorf("there are %d entries, want 10 (%v)", n, p.State().Err)
		}
		entries.Store(10)
		advance(6 * time.Minute)
		limit, ok := errors.AsType[*mcp.LimitError](p.State().Err)
		if !ok || limit.Limit != "CatalogBytes" || count() != 10 {
			t.Errorf("the error is %v, want a *LimitError for CatalogBytes; there are %d entries", p.State().Err, count())
		}
		entries.Store(5)
		advance(6 * time.Minute)
		if p.State().Err != nil || count() != 6 {
			t.Errorf("the error is %v, and there are %d entries, want 6", p.State().Err, count())
		}
	})
}

// A server that starts with a list that is too large fails with an error that says so.
func TestAServerOverALimitFailsAtItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := entriesByList(client.Legacy, map[string][]string{"tools": {`{"name":"a"}`, `{"name":"b"}`}})
		p := bridge.Proxy(dialerTo(up), &bridge.ProxyOptions{Logger: quiet(), Limits: client.Limits{ListEntries: 1}})
		frontend := newServer("frontend")
		if err := frontend.Mount(p, nil); err != nil {
			t.Fatal(err)
		}
		defer frontend.Shutdown(context.Background())
		wantFailure(t, frontend.Start(t.Context()), bridge.LimitExceeded, jsonrpc.NotSent)
	})
}

// A server reports changes of its lists without end, and changes them each time. Its lists are read ten times in quick
// succession and then every five seconds. Clients are notified no more often. A change after a pause is seen
// immediately.
func TestEndlessChangesAreReadEveryFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read, notified atomic.Int64
		var peer atomic.Pointer[jsonrpc.Peer]
		up := toolsOnly(client.Legacy, "a")
		up.answer = func(_ context.Context, from jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			peer.Store(&from)
			if req.Method != mcp.MethodToolsList {
				return "", nil
			}
			return fmt.Sprintf(`{"tools":[{"name":"t%d"}]}`, read.Add(1)), nil
		}
		p := bridge.Proxy(dialerTo(up), &bridge.ProxyOptions{Logger: quiet()})
		connect(t, pipeTo(mount(t, p)), client.Options{Era: client.Legacy, OnChange: func(context.Context, mcp.Change) { notified.Add(1) }})
		flood := func(d, every time.Duration) {
			for until := time.Now().Add(d); time.Now().Before(until); {
				if err := (*peer.Load()).Notify(t.Context(), mcp.NotificationToolsListChanged, nil); err != nil {
					t.Fatal(err)
				}
				<-time.After(every)
			}
		}
		for _, every := range []time.Duration{20 * time.Millisecond, 101 * time.Millisecond, time.Second} {
			before := read.Load()
			flood(time.Minute, every)
			if n := read.Load() - before; n < 10 || n > 24 {
				t.Errorf("a change every %v: the lists were read %d times in a minute, want about 18", every, n)
			}
			if n := notified.Load(); n > read.Load() {
				t.Errorf("clients were notified %d times", n)
			}
			advance(time.Minute)
		}
		before := read.Load()
		flood(time.Millisecond, 20*time.Millisecond)
		advance(150 * time.Millisecond)
		if n := read.Load(); n == before {
			t.Error("a change after a pause was not read")
		}
	})
}

// A question that is too large for clients does not reach them, and their connection lasts.
func TestLargeQuestionsDoNotReachClients(t *testing.T) {
	racetest.Skip(t)
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		synctest.Test(t, func(t *testing.T) {
			evil := newServer("evil")
			server.AddTool(evil, server.Tool{Name: "ask"}, func(_ context.Context, r *server.Request, in struct{ Size int }) (string, error) {
				r.Logger("x").Info(strings.Repeat("y", in.Size))
				_, err := server.Elicit[struct{ City string }](r, "city", strings.Repeat("x", in.Size))
				return "", err
			})
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "evil", Dialer: dialerTo(evil).speaks(upstream)})
			if err != nil {
				t.Fatal(err)
			}
			var logged, shown atomic.Int64
			session := connect(t, pipeTo(mount(t, b)), client.Options{
				Era: caller, Limits: client.Limits{QuestionBytes: -1, QueuedBytes: -1},
				OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) {
					logged.Store(max(logged.Load(), int64(len(m.Data))))
				},
				Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					shown.Store(max(shown.Load(), int64(len(p.Message))))
					return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
				},
			})
			for _, size := range []int{500_000, 2 << 20} {
				_, _ = session.CallTool(t.Context(), "evil__ask", map[string]int{"Size": size}, nil) // the failure is the server's
			}
			synctest.Wait()
			if n := shown.Load(); n < 500_000 || n > 1<<20 || logged.Load() > 1<<20 {
				t.Errorf("a question of %d bytes and a log message of %d reach the client, want at most 1 MiB", n, logged.Load())
			}
			if err := session.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}

// A server that asks in a loop cannot ask one user more often than the limits permit, also when it
// ends its connection in between. Other servers and other users are asked meanwhile.
func TestAServerThatAsksInALoop(t *testing.T) {
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		synctest.Test(t, func(t *testing.T) {
			shop := dialerTo(newShop()).speaks(upstream)
			b, err := bridge.New(&bridge.Options{Logger: quiet()},
				bridge.Config{Alias: "evil", Dialer: shop, ProxyOptions: bridge.ProxyOptions{Limits: client.Limits{QuestionsPerMinute: 60, QuestionBurst: 20}}},
				bridge.Config{Alias: "other", Dialer: dialerTo(newShop()).speaks(upstream)})
			if err != nil {
				t.Fatal(err)
			}
			frontend := mount(t, b)
			var asked atomic.Int64
			user := func(name string) *client.Session {
				return connect(t, pipeTo(as{frontend, name}), client.Options{
					Era: caller, Limits: client.Limits{QuestionsPerMinute: -1, QuestionBurst: -1},
					Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
						asked.Add(1)
						return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"City":"Rome"}`)}, nil
					},
				})
			}
			ann, bob := user("ann"), user("bob")
			ask := func(by *client.Session, tool string) bool {
				result, err := by.CallTool(t.Context(), tool, nil, nil)
				return err == nil && !result.IsError
			}
			for i := range 60 {
				if answered := ask(ann, "evil__ask"); answered != (i < 20) {
					t.Fatalf("call %d was answered: %v", i, answered)
				}
			}
			if n := asked.Load(); n != 20 {
				t.Errorf("ann was asked %d times, want 20", n)
			}
			if !ask(ann, "other__ask") || !ask(bob, "evil__ask") {
				t.Error("another server, or another user, is limited too")
			}
			shop.cut()
			<-time.After(2500 * time.Millisecond) // virtual
			before := asked.Load()
			for range 30 {
				ask(ann, "evil__ask")
			}
			if n := asked.Load() - before; n < 1 || n > 5 {
				t.Errorf("after the server has ended its connection, ann was asked %d times within a few seconds", n)
			}
		})
	})
}
