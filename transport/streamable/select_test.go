package streamable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// tenantKey is the context key of the tenant of a request.
type tenantKey struct{}

func forTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

// A tenancy is an endpoint of Select whose servers have the tools of [newServer] and the tool whoami.
type tenancy struct {
	*memoryEndpoint
	mu      sync.Mutex
	opened  map[string]int
	servers map[string]*server.Server // the last of each tenant
	log     bytes.Buffer
}

func newTenancy(t *testing.T, opts streamable.SelectOptions, options func(tenant string) *server.Options) *tenancy {
	x := &tenancy{opened: make(map[string]int), servers: make(map[string]*server.Server)}
	opts.Logger = slog.New(slog.NewTextHandler(&x.log, nil))
	key := func(r *http.Request) string {
		tenant, _ := r.Context().Value(tenantKey{}).(string)
		return tenant
	}
	open := func(_ context.Context, tenant string) (transport.Server, error) {
		var o *server.Options
		if options != nil {
			o = options(tenant)
		}
		s := newTenant(tenant, o)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.opened[tenant]++
		x.servers[tenant] = s
		return s, nil
	}
	x.memoryEndpoint = &memoryEndpoint{t, streamable.Select(key, open, &opts)}
	t.Cleanup(func() { x.endpoint.Close() })
	return x
}

func newTenant(tenant string, opts *server.Options) *server.Server {
	s := server.New(mcp.Implementation{Name: tenant, Version: "1"}, opts)
	server.AddTool(s, server.Tool{Name: "whoami"}, func(context.Context, *server.Request, struct{}) (string, error) { return tenant, nil })
	server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		<-time.After(5 * time.Hour)
		return "done", nil
	})
	return s
}

// opens returns how often the servers of tenants were opened.
func (x *tenancy) opens(tenant string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.opened[tenant]
}

// isOpen reports whether the last server of a tenant was not shut down.
func (x *tenancy) isOpen(tenant string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.servers[tenant]
	if s == nil {
		return false
	}
	select {
	case <-s.Stopping():
		return false
	default:
		return true
	}
}

// modern calls a tool of a tenant without a session.
func (x *tenancy) modern(ctx context.Context, tenant, tool string) *httptest.ResponseRecorder {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},` + modernMeta + `}}`
	r := httptest.NewRequestWithContext(forTenant(ctx, tenant), http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	for name, value := range map[string]string{"Content-Type": "application/json", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	x.endpoint.ServeHTTP(w, r)
	return w
}

func (x *tenancy) wantCall(tenant string) {
	x.Helper()
	if w := x.modern(x.Context(), tenant, "whoami"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"`+tenant+`"`) {
		x.Errorf("a call of %s: %d %s", tenant, w.Code, w.Body)
	}
}

// wantOpen checks which of the tenants have a server that is open.
func (x *tenancy) wantOpen(want ...string) {
	x.Helper()
	x.mu.Lock()
	tenants := make([]string, 0, len(x.servers))
	for tenant := range x.servers {
		tenants = append(tenants, tenant)
	}
	x.mu.Unlock()
	for _, tenant := range tenants {
		wanted := false
		for _, w := range want {
			wanted = wanted || w == tenant
		}
		if x.isOpen(tenant) != wanted {
			x.Errorf("the server of %s is open: %t", tenant, !wanted)
		}
	}
}

// Each client gets the server of its key, in each era, and there is one server for each key.
func TestSelect(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(fmt.Sprint(era), func(t *testing.T) {
			x := newTenancy(t, streamable.SelectOptions{}, nil)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				x.endpoint.ServeHTTP(w, r.WithContext(forTenant(r.Context(), strings.TrimPrefix(r.URL.Path, "/"))))
			}))
			defer web.Close()
			defer x.endpoint.Close()
			for range 2 {
				for _, tenant := range []string{"a", "b"} {
					session, err := client.Connect(t.Context(), streamable.Dial(web.URL+"/"+tenant, nil), &client.Options{Era: era})
					if err != nil {
						t.Fatal(err)
					}
					defer session.Close()
					if got := session.Server().Name; got != tenant {
						t.Errorf("%s is connected to %s", tenant, got)
					}
					if got, err := client.CallAs[string](t.Context(), session, "whoami", nil, nil); got != tenant || err != nil {
						t.Errorf("%s gets %q, %v", tenant, got, err)
					}
				}
			}
			if x.opens("a") != 1 || x.opens("b") != 1 {
				t.Errorf("the servers were opened %v times", x.opened)
			}
			if _, err := client.Connect(t.Context(), streamable.Dial(web.URL+"/", nil), &client.Options{Era: era}); err == nil {
				t.Error("there is a server without a key")
			}
		})
	}
}

// Concurrent first requests open one server.
func TestSelectOpensOnce(t *testing.T) {
	const n = 100
	x := newTenancy(t, streamable.SelectOptions{}, nil)
	racetest.Together(n, func(i int) { x.wantCall(fmt.Sprint(i)) }, func(i int) { x.wantCall(fmt.Sprint(i)) }, func(i int) { x.wantCall(fmt.Sprint(i)) })
	for i := range n {
		if got := x.opens(fmt.Sprint(i)); got != 1 {
			t.Errorf("the server of %d was opened %d times", i, got)
		}
	}
}

// A server that is not in use is closed after the idle timeout, and opened again by the next request. Sessions, streams and
// running calls are uses.
func TestSelectClosesIdleServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTenancy(t, streamable.SelectOptions{IdleTimeout: 20 * time.Minute}, nil)
		ctx, disconnect := context.WithCancel(t.Context())
		session := x.open(forTenant(ctx, "session"))
		listening := x.open(forTenant(ctx, "stream"))
		stream := x.async(forTenant(ctx, "stream"), http.MethodGet, listening, "")
		var calling sync.WaitGroup
		calling.Go(func() { x.modern(ctx, "call", "wait") })
		x.wantCall("unused")
		x.wantCall("used")
		if w := x.send(forTenant(ctx, "session"), http.MethodPost, session, ping); w.Code != http.StatusOK {
			t.Errorf("the session: %d", w.Code)
		}
		<-time.After(15 * time.Minute)
		x.wantCall("used")
		<-time.After(10 * time.Minute)
		synctest.Wait()
		x.wantOpen("session", "stream", "call", "used") // the session ends after 30 minutes
		<-time.After(time.Hour)
		synctest.Wait()
		x.wantOpen("stream", "call")
		disconnect()
		<-stream
		calling.Wait()
		<-time.After(2 * time.Hour)
		synctest.Wait()
		x.wantOpen()
		x.wantCall("used")
		if got := x.opens("used"); got != 2 {
			t.Errorf("the server was opened %d times", got)
		}
	})
}

// One server too many closes the one that was not used for the longest time: first one that is not in use, then one without
// a request. If all have requests, the request is refused.
func TestSelectLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTenancy(t, streamable.SelectOptions{MaxServers: 3}, nil)
		later := func() { <-time.After(time.Second) }
		x.open(forTenant(t.Context(), "session")) // it is used least recently
		later()
		x.wantCall("a")
		later()
		x.wantCall("b")
		later()
		x.wantCall("a")
		x.wantCall("c")
		x.wantOpen("session", "a", "c")
		ctx, disconnect := context.WithCancel(t.Context())
		var calling sync.WaitGroup
		for _, tenant := range []string{"a", "c"} {
			calling.Go(func() { x.modern(ctx, tenant, "wait") })
		}
		synctest.Wait()
		x.wantCall("d") // in place of the session
		x.wantOpen("a", "c", "d")
		calling.Go(func() { x.modern(ctx, "d", "wait") })
		synctest.Wait()
		w := x.modern(t.Context(), "e", "whoami")
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || x.opens("e") != 0 {
			t.Errorf("one too many: %d %s, opened %d times", w.Code, w.Body, x.opens("e"))
		}
		disconnect()
		calling.Wait()
		x.wantCall("e")
	})
}

// A session of one key is unknown under another, also at a replica whose servers have the same store.
func TestSelectSeparatesSessions(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("one store: ", shared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := newStore(t)
				options := func(tenant string) *server.Options {
					if !shared || tenant == "c" {
						return nil
					}
					return &server.Options{Store: memory}
				}
				one, other, third := newTenancy(t, streamable.SelectOptions{}, options), newTenancy(t, streamable.SelectOptions{}, options), newTenancy(t, streamable.SelectOptions{}, options)
				alice := func(tenant string) context.Context {
					return transport.WithPrincipal(forTenant(t.Context(), tenant), "alice")
				}
				session := one.open(alice("a"))
				if w := one.send(alice("a"), http.MethodPost, session, ping); w.Code != http.StatusOK {
					t.Fatalf("the session: %d %s", w.Code, w.Body)
				}
				for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
					for where, w := range map[string]*httptest.ResponseRecorder{
						"here": one.send(alice("c"), method, session, ping), "at another replica": other.send(alice("b"), method, session, ping),
					} {
						if w.Code != http.StatusNotFound {
							t.Errorf("%s %s under another key: %d %s", method, where, w.Code, w.Body)
						}
					}
				}
				want := http.StatusNotFound
				if shared {
					want = http.StatusOK
				}
				if w := third.send(alice("a"), http.MethodPost, session, ping); w.Code != want {
					t.Errorf("the session at another replica under its key: %d, want %d", w.Code, want)
				}
			})
		})
	}
}

// Two servers with one store are not open at the same time, since one would run the tasks of the other. Sealed stores over
// one store are two stores.
func TestSelectRefusesSharedStore(t *testing.T) {
	memory := newStore(t)
	same := newTenancy(t, streamable.SelectOptions{}, func(string) *server.Options { return &server.Options{Store: memory} })
	same.wantCall("a")
	if w := same.modern(t.Context(), "b", "whoami"); w.Code != http.StatusInternalServerError || !strings.Contains(same.log.String(), "store.Sealed") {
		t.Errorf("the second server: %d %s; the log is %s", w.Code, w.Body, &same.log)
	}
	same.wantCall("a")
	same.wantOpen("a")
	apart := newTenancy(t, streamable.SelectOptions{}, func(tenant string) *server.Options {
		sealed, err := store.Sealed(memory, bytes.Repeat([]byte(tenant), 32))
		if err != nil {
			t.Error(err)
		}
		return &server.Options{Store: sealed}
	})
	apart.wantCall("a")
	apart.wantCall("b")
}

// A request gets a status that says why it has no server.
func TestSelectFailures(t *testing.T) {
	var attempts int
	failing := func(context.Context) (any, func(context.Context) error, error) {
		return nil, nil, errors.New("no database")
	}
	key := func(r *http.Request) string { return r.Header.Get("Tenant") }
	open := func(ctx context.Context, key string) (transport.Server, error) {
		switch key {
		case "unknown":
			return nil, nil
		case "panics":
			panic("secret")
		case "does not start":
			return newTenant(key, &server.Options{Logger: quiet, Dependencies: []server.Dependency{server.Provide(failing)}}), nil
		case "fails once":
			if attempts++; attempts == 1 {
				return nil, errors.New("secret")
			}
		}
		return newTenant(key, nil), nil
	}
	var log bytes.Buffer
	endpoint := streamable.Select(key, open, &streamable.SelectOptions{Options: streamable.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	defer endpoint.Close()
	for _, test := range []struct {
		key    string
		status int
		body   string
		logged string
	}{
		{"", http.StatusNotFound, "no server", ""},
		{"unknown", http.StatusNotFound, "no server", ""},
		{"panics", http.StatusInternalServerError, "reference", "secret"},
		{"does not start", http.StatusInternalServerError, "reference", "no database"},
		{"fails once", http.StatusInternalServerError, "reference", "secret"},
		{"fails once", http.StatusOK, "", ""},
	} {
		log.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(initialize(mcp.Version20251125)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Tenant", test.key)
		w := httptest.NewRecorder()
		endpoint.ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.body) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%q: %d %s", test.key, w.Code, w.Body)
		}
		if (test.logged == "") != (log.Len() == 0) || !strings.Contains(log.String(), test.logged) {
			t.Errorf("%q: the log is %s", test.key, &log)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://evil.example.com/mcp", strings.NewReader(ping))
	r.Header.Set("Tenant", "panics")
	w := httptest.NewRecorder()
	if endpoint.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("a request of another host: %d %s", w.Code, w.Body)
	}
}

// A client that disconnects while a server opens does not keep the others from getting it.
func TestSelectOpensForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(*http.Request) string { return "a" }
		open := func(ctx context.Context, key string) (transport.Server, error) {
			select {
			case <-time.After(10 * time.Second):
				return newTenant(key, nil), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		d := &memoryEndpoint{t, streamable.Select(key, open, nil)}
		defer d.endpoint.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := d.async(ctx, http.MethodPost, "", initialize(mcp.Version20251125))
		synctest.Wait()
		d.open(t.Context())
		<-first
	})
}

// A server that the program shuts down is opened again.
func TestSelectAfterShutdown(t *testing.T) {
	x := newTenancy(t, streamable.SelectOptions{}, nil)
	x.wantCall("a")
	if err := x.servers["a"].Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.wantCall("a")
	if got := x.opens("a"); got != 2 {
		t.Errorf("the server was opened %d times", got)
	}
}

// Close shuts all servers down, those that are being opened too, and refuses new requests.
func TestSelectClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opening := make(chan struct{})
		var servers []*server.Server
		key := func(r *http.Request) string { return r.Context().Value(tenantKey{}).(string) }
		endpoint := streamable.Select(key, func(ctx context.Context, key string) (transport.Server, error) {
			if key == "slow" {
				close(opening)
				<-ctx.Done() // and succeeds
			}
			s := newTenant(key, nil)
			servers = append(servers, s)
			return s, nil
		}, &streamable.SelectOptions{Options: streamable.Options{Logger: quiet}})
		d := &memoryEndpoint{t, endpoint}
		d.open(forTenant(t.Context(), "a"))
		d.open(forTenant(t.Context(), "b"))
		slow := d.async(forTenant(t.Context(), "slow"), http.MethodPost, "", initialize(mcp.Version20251125))
		<-opening
		for range 2 {
			if err := endpoint.Close(); err != nil {
				t.Error(err)
			}
		}
		if w := <-slow; w.Code != http.StatusServiceUnavailable {
			t.Errorf("the request that has opened a server: %d %s", w.Code, w.Body)
		}
		for i, s := range servers {
			select {
			case <-s.Stopping():
			default:
				t.Errorf("server %d was not shut down", i)
			}
		}
		for _, tenant := range []string{"a", "new"} {
			if w := d.send(forTenant(t.Context(), tenant), http.MethodPost, "", ping); w.Code != http.StatusServiceUnavailable {
				t.Errorf("after Close: %d %s", w.Code, w.Body)
			}
		}
	})
}

// Limits count the clients of all servers together.
func TestSelectSharesLimits(t *testing.T) {
	x := newTenancy(t, streamable.SelectOptions{Options: streamable.Options{Limits: transport.Limits{Sessions: 2}}}, nil)
	x.open(forTenant(t.Context(), "a"))
	x.open(forTenant(t.Context(), "b"))
	w := x.send(forTenant(t.Context(), "c"), http.MethodPost, "", initialize(mcp.Version20251125))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), fmt.Sprint(int(jsonrpc.Busy))) {
		t.Errorf("one session too many: %d %s", w.Code, w.Body)
	}
}

// maxTenantBytes bounds the memory of a server with one tool, its endpoint included. About 17 KiB are measured.
const maxTenantBytes = 32 << 10

// The memory of a tenant is small.
func TestSelectMemory(t *testing.T) {
	racetest.Skip(t)
	const n = 500
	x := newTenancy(t, streamable.SelectOptions{}, nil)
	x.wantCall("warm")
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before := heap()
	for i := range n {
		x.wantCall(fmt.Sprint(i))
	}
	each := (heap() - before) / n
	t.Logf("a tenant with a server of two tools has %d bytes", each)
	if each > maxTenantBytes {
		t.Errorf("a tenant has %d bytes, at most %d are expected", each, maxTenantBytes)
	}
}
