package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A testProvider is a provider whose offer changes.
type testProvider struct {
	catalog atomic.Pointer[server.Catalog]
	changed atomic.Pointer[func(mcp.Change)]
	handle  mcp.Handler
	start   func(ctx context.Context) error // before it is ready
	run     func(ctx context.Context) error // afterwards
	steps   trace
	refuse  error // of subscriptions
}

func newTestProvider(tools ...string) *testProvider {
	m := &testProvider{}
	m.setTools(tools...)
	return m
}

// toolEntries returns entries of tools.
func (m *testProvider) toolEntries(tools ...string) (entries []*server.Entry) {
	for _, name := range tools {
		entries = append(entries, m.entry(mcp.KindTool, name, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"},"x":1.0}`, name)))
	}
	return entries
}

func (m *testProvider) entry(kind mcp.Kind, name, definition string) *server.Entry {
	handle := func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if m.handle != nil {
			return m.handle(ctx, call)
		}
		return mcp.Raw(fmt.Sprintf(`{"content":[{"type":"text","text":%q}],"x":1.0}`, call.Params())), nil
	}
	e := &server.Entry{Target: mcp.Target{Kind: kind, Name: name, Definition: mcp.NewDefinition(jsonRaw(definition))}, Handle: handle}
	if kind == mcp.KindResource || kind == mcp.KindResourceTemplate {
		e.Subscribe = func(_ context.Context, call *mcp.Call) (func(), error) {
			uri := call.URI()
			m.steps.step("watch " + uri)
			return func() { m.steps.step("unwatch " + uri) }, m.refuse
		}
	}
	if kind == mcp.KindPrompt || kind == mcp.KindResourceTemplate {
		e.Complete = handle
	}
	if kind == mcp.KindResourceTemplate {
		prefix, _, _ := strings.Cut(name, "{")
		e.Match = func(uri string) bool { return strings.HasPrefix(uri, prefix) }
	}
	return e
}

func (m *testProvider) Catalog() *server.Catalog { return m.catalog.Load() }

func (m *testProvider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	m.changed.Store(&changed)
	m.steps.step("run")
	defer m.steps.step("end")
	if m.start != nil {
		if err := m.start(ctx); err != nil {
			return err
		}
	}
	ready()
	if m.run != nil {
		return m.run(ctx)
	}
	<-ctx.Done()
	return ctx.Err()
}

// setTools replaces the entries with tools.
func (m *testProvider) setTools(tools ...string) { m.setEntries(m.toolEntries(tools...)...) }

func (m *testProvider) setEntries(entries ...*server.Entry) {
	m.catalog.Store(server.NewCatalog(entries, nil))
}

// change reports a change.
func (m *testProvider) change(change mcp.Change) { (*m.changed.Load())(change) }

// shutDownAtEnd shuts a server down at the end of the test.
func shutDownAtEnd(t testing.TB, s *server.Server) {
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
}

// mountProvider mounts a provider, and shuts the server down at the end of the test.
func mountProvider(t testing.TB, s *server.Server, p server.Provider, prefix string) {
	t.Helper()
	shutDownAtEnd(t, s)
	if err := s.Mount(p, &server.MountOptions{Prefix: prefix}); err != nil {
		t.Fatal(err)
	}
}

// TestProvider checks that entries are listed and called with the prefix, and are otherwise
// unchanged.
func TestProvider(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, prefix := range []string{"", "p_"} {
			m := newTestProvider()
			m.setEntries(append(m.toolEntries("a", "b"), m.entry(mcp.KindPrompt, "p", `{"title":"p","name":"p"}`), m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`),
				m.entry(mcp.KindResourceTemplate, "app:{x}", `{"uriTemplate":"app:{x}","name":"t"}`))...)
			var seen string
			m.handle = func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				seen = call.Method() + " " + string(call.Params())
				return mcp.Raw(`{"content":[],"contents":[],"messages":[],"completion":{"values":[]},"x":1.50}`), nil
			}
			s := newServer(nil)
			mountProvider(t, s, m, prefix)
			session := connect(t, s, era)
			want := []string{prefix + "a", prefix + "b", "app:r", "app:{x}", prefix + "p"}
			if got := listed(t, session); !slices.Equal(got, want) {
				t.Errorf("listed are %q, want %q", got, want)
			}
			tools, err := raw(t, session, mcp.MethodToolsList, `{}`)
			if want := `{"name":"` + prefix + `a","inputSchema":{"type":"object"},"x":1.0}`; err != nil || !strings.Contains(tools, want) {
				t.Errorf("the list is %s, %v, want %s in it", tools, err, want)
			}
			for _, test := range []struct{ method, params, seen string }{
				{mcp.MethodToolsCall, `{"name":"` + prefix + `a","arguments":{"x":1.50}`, `{"name":"a","arguments":{"x":1.50}`},
				{mcp.MethodPromptsGet, `{"z":[ ],"name":"` + prefix + `p"`, `{"z":[ ],"name":"p"`},
				{mcp.MethodResourcesRead, `{"uri":"app:r"`, `{"uri":"app:r"`},
				{mcp.MethodResourcesRead, `{"uri":"app:7"`, `{"uri":"app:7"`},
				{mcp.MethodComplete, `{"ref":{"name":"` + prefix + `p","type":"ref/prompt"},"argument":{"name":"x","value":""}`, `{"ref":{"name":"p","type":"ref/prompt"},"argument":{"name":"x","value":""}`},
				{mcp.MethodComplete, `{"ref":{"uri":"app:{x}","type":"ref/resource"},"argument":{"name":"x","value":""}`, `{"ref":{"uri":"app:{x}","type":"ref/resource"},"argument":{"name":"x","value":""}`},
			} {
				seen = ""
				result, err := raw(t, session, test.method, test.params+"}")
				if err != nil || !strings.Contains(result, `"x":1.50`) || !strings.HasPrefix(seen, test.method+" "+test.seen) {
					t.Errorf("%s: the provider sees %s, want %s; the result is %s, %v", test.params, seen, test.seen, result, err)
				}
			}
			_, err = session.CallTool(t.Context(), "c", nil, nil)
			wantCode(t, err, jsonrpc.InvalidParams)
		}
	})
}

// TestProviderErrors checks that protocol errors arrive unchanged, and others as a reference.
// Middleware gets all of them.
func TestProviderErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		secret := errors.New("the secret is 42")
		m := newTestProvider("protocol", "own", "nothing", "panic", "question")
		m.handle = func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			switch string(call.Member("name")) {
			case `"protocol"`:
				return nil, fmt.Errorf("%w: %w", secret, &jsonrpc.Error{Code: -409, Message: "sold out", Data: jsonRaw(`{"x":1.0}`)})
			case `"own"`:
				return nil, fmt.Errorf("dialling: %w", secret)
			case `"nothing"`:
				return nil, nil
			case `"question"`:
				answer, err := call.Input("sure", mcp.InputRequest{Method: mcp.MethodElicit, Params: jsonRaw(`{"message":"Sure?","requestedSchema":{"type":"object","properties":{}}}`)})
				return mcp.Raw(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, answer)), err
			}
			panic(secret)
		}
		seen := 0
		count := options{CallMiddleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := next(ctx, call)
				if errors.Is(err, secret) {
					seen++
				}
				return result, err
			}
		}}}
		for _, around := range []options{{}, withGuard(mcp.Guard{Check: allow}), count} {
			opts := around.options()
			opts.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			s := newServer(opts)
			mountProvider(t, s, m, "m_")
			session := connectWith(t, s, accepting(era))
			_, err := session.CallTool(t.Context(), "m_protocol", nil, nil)
			if e := protocolError(t, err); e.Code != -409 || e.Message != "sold out" || string(e.Data) != `{"x":1.0}` {
				t.Errorf("the protocol's error becomes %+v", e)
			}
			for _, tool := range []string{"m_own", "m_nothing", "m_panic"} {
				log.Reset()
				_, err := session.CallTool(t.Context(), tool, nil, nil)
				if wantCode(t, err, jsonrpc.InternalError); !reference.MatchString(message(err)) {
					t.Errorf("%s: the caller is told %v", tool, err)
				}
				if tool != "m_nothing" && !strings.Contains(log.String(), secret.Error()) {
					t.Errorf("%s: the operator is told %s", tool, &log)
				}
			}
			if got := textOf(call(t, session, "m_question", `{}`)); !strings.Contains(got, `"sure":true`) {
				t.Errorf("the answer is %q", got)
			}
		}
		if seen != 2 {
			t.Errorf("the middleware sees %d errors, want 2", seen)
		}
	})
}

// TestProviderChanges checks that a changed catalog is effective immediately, and that clients are
// notified.
func TestProviderChanges(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		m := newTestProvider("a")
		middle, s := newServer(nil), newServer(nil)
		mountProvider(t, middle, m, "m_")
		mount(t, s, middle, "p_")
		told := 0
		session := connectInMemory(t, s, &client.Options{Era: era, OnChange: func(context.Context, mcp.Change) { told++ }})
		if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		m.setTools("b", "c")
		m.change(mcp.Change{Kind: mcp.KindTool})
		synctest.Wait()
		if names := toolNames(t, session); told != 1 || !slices.Equal(names, []string{"p_m_b", "p_m_c"}) {
			t.Errorf("told %d times, and listed are %q", told, names)
		}
		call(t, session, "p_m_b", `{}`)
		_, err := session.CallTool(t.Context(), "p_m_a", nil, nil)
		wantCode(t, err, jsonrpc.InvalidParams)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		wantSteps(t, &m.steps, "run", "end")
	})
}

// TestProviderCollisions checks that collisions are errors of Mount, and later logged.
func TestProviderCollisions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var log bytes.Buffer
		s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		first, second := newTestProvider("a"), newTestProvider("b")
		first.handle = func(context.Context, *mcp.Call) (mcp.Result, error) {
			return mcp.Raw(`{"content":[{"type":"text","text":"first"}]}`), nil
		}
		second.handle = func(context.Context, *mcp.Call) (mcp.Result, error) {
			return mcp.Raw(`{"content":[{"type":"text","text":"second"}]}`), nil
		}
		returns(s, "own", "own")
		mountProvider(t, s, first, "")
		mountProvider(t, s, second, "")
		wantCollision(t, s.Mount(newTestProvider("b"), nil), "tool", "b")
		session := connect(t, s, era)
		wantTools := func(want ...string) {
			t.Helper()
			var got []string
			for _, name := range toolNames(t, session) {
				got = append(got, name+" "+textOf(call(t, session, name, `{}`)))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("offered are %q, want %q", got, want)
			}
		}
		wantTools("a first", "b second", "own own")
		log.Reset()
		first.setTools("a", "b", "own", "c")
		wantTools("a first", "b second", "c first", "own own")
		for name, other := range map[string]string{"b": `mount 2 (prefix \"\")`, "own": "the server itself"} {
			if want := fmt.Sprintf(`the tool \"%s\" of mount 1 (prefix \"\") is not offered: %s has one`, name, other); !strings.Contains(log.String(), want) {
				t.Errorf("the operator is told %s, want %s", &log, want)
			}
		}
		// What collides already does not keep others from being mounted.
		mountProvider(t, s, newTestProvider(), "n_")
		wantCollision(t, s.Replace(newTool(t, "c", "")), "tool", "c")
		replace(t, s, newTool(t, "own", "own")) // it was there first
		second.setTools("a")
		wantTools("a first", "b first", "c first", "own own")
		first.setTools()
		wantTools("a second", "own own")
		first.setTools("a")
		wantTools("a second", "own own")
	})
}

// TestInvalidProviderEntries checks that an invalid entry is rejected without affecting others.
func TestInvalidProviderEntries(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		long := strings.Repeat("x", 127)
		m := newTestProvider()
		nonsense := []*server.Entry{
			m.toolEntries(long)[0], m.toolEntries("a b")[0], m.entry(mcp.KindTool, "a", `{"name":`), m.entry(mcp.KindTool, "a", `[]`),
			{Target: mcp.Target{Kind: mcp.KindTool, Name: "bare"}},
		}
		for _, prefix := range []string{"", "p_"} {
			for i, entry := range nonsense {
				m := newTestProvider()
				m.setEntries(entry)
				err := newServer(&server.Options{Logger: discardLogger()}).Mount(m, &server.MountOptions{Prefix: prefix})
				if fine := prefix == "" && i < 2; (err == nil) != fine { // a name without a prefix is the provider's
					t.Errorf("with the prefix %q, %.40q is mounted: %v", prefix, entry.Name, err)
				}
			}
		}
		s := newServer(&server.Options{Logger: discardLogger()})
		m = newTestProvider("a")
		mountProvider(t, s, m, "p_")
		session := connect(t, s, era)
		for _, entry := range nonsense {
			m.setEntries(m.toolEntries("fine")[0], entry, m.toolEntries("good")[0])
			if names := toolNames(t, session); !slices.Equal(names, []string{"p_fine", "p_good"}) {
				t.Errorf("listed are %q", names)
			}
			if _, err := raw(t, session, mcp.MethodToolsCall, fmt.Sprintf(`{"name":%q}`, "p_"+entry.Name)); err == nil {
				t.Errorf("%.40q is called", entry.Name)
			}
		}
	})
}

// TestProviderRun checks that Run lasts as long as the server, and that its error is logged and
// returned by Shutdown.
func TestProviderRun(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(ctx context.Context) error
		want string
		logs bool
	}{
		"waits":              {nil, "", false},
		"has nothing to do":  {func(context.Context) error { return nil }, "", false},
		"fails":              {func(context.Context) error { return errors.New("no connection") }, `mount 1 (prefix "p_"): no connection`, true},
		"panics":             {func(context.Context) error { panic("no connection") }, `mount 1 (prefix "p_"): panic: no connection`, true},
		"is cancelled early": {func(context.Context) error { return context.Canceled }, `mount 1 (prefix "p_"): context canceled`, true},
		"fails at the end":   {func(ctx context.Context) error { <-ctx.Done(); return errors.New("no connection") }, `mount 1 (prefix "p_"): no connection`, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
				m := newTestProvider("a")
				m.run = test.run
				mountProvider(t, s, m, "p_")
				synctest.Wait()
				wantSteps(t, &m.steps)
				if err := s.Start(t.Context()); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				err := s.Shutdown(t.Context())
				if first, _, _ := strings.Cut(fmt.Sprint(err), "\n"); err == nil && test.want != "" || err != nil && first != test.want {
					t.Errorf("shutting down gives %v, want %s", err, test.want)
				}
				if strings.Contains(log.String(), "a mounted provider has failed") != test.logs {
					t.Errorf("the operator is told %q", log.String())
				}
				wantSteps(t, &m.steps, "run", "end")
			})
		})
	}
}

// TestRootsChangedPanics checks that a panic while roots change is logged, and does not keep the
// change from other providers.
func TestRootsChangedPanics(t *testing.T) {
	for _, panicking := range []int{1, 2} {
		t.Run(fmt.Sprint(panicking), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				s := newServer(&server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				var passed atomic.Int32
				mountChanged := func(name string, changed func(context.Context, *mcp.Caller)) {
					m := newTestProvider()
					m.catalog.Store(server.NewCatalog(m.toolEntries(name), &server.CatalogOptions{RootsChanged: changed}))
					mountProvider(t, s, m, "")
				}
				for i := range panicking {
					name := fmt.Sprint("broken", i)
					mountChanged(name, func(context.Context, *mcp.Caller) { panic(name) })
				}
				if panicking > 1 {
					mountChanged("sound", func(context.Context, *mcp.Caller) { passed.Add(1) })
				}
				roots := func(context.Context) ([]mcp.Root, error) { return nil, nil }
				session := connectInMemory(t, s, &client.Options{Era: client.Legacy, Roots: roots})
				if err := session.RootsChanged(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for i := range panicking {
					if !strings.Contains(log.String(), fmt.Sprint("panic: broken", i)) {
						t.Errorf("the log has no panic of broken%d: %s", i, log.String())
					}
				}
				if want := int32(panicking - 1); passed.Load() != want {
					t.Errorf("%d other providers got the change, want %d", passed.Load(), want)
				}
			})
		})
	}
}

// TestProviderRunForever checks that Shutdown returns at its deadline if Run does not end.
func TestProviderRunForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(&server.Options{Logger: discardLogger()})
		m := newTestProvider("a")
		end := make(chan struct{})
		m.run = func(context.Context) error { <-end; return nil }
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		mountProvider(t, s, m, "late_")
		synctest.Wait()
		wantSteps(t, &m.steps, "run")
		soon, cancel := context.WithTimeoutCause(t.Context(), 1, errors.New("no time"))
		defer cancel()
		if err := s.Shutdown(soon); err == nil || err.Error() != "no time" {
			t.Errorf("shutting down gives %v", err)
		}
		close(end)
	})
}

// TestProviderSubscribers checks that Entry.Subscribe is called for each subscription, and stop at
// its end.
func TestProviderSubscribers(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		m, other := newTestProvider(), newTestProvider()
		m.setEntries(m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`), m.entry(mcp.KindResourceTemplate, "app:t/{x}", `{"uriTemplate":"app:t/{x}","name":"t"}`))
		s, middle := newServer(&server.Options{Logger: discardLogger()}), newServer(nil)
		mountProvider(t, middle, m, "m_")
		mountProvider(t, s, other, "o_")
		mount(t, s, middle, "p_")
		reads(s, server.Resource{URI: "app:own"}, "")
		var told []mcp.Change
		session := connectInMemory(t, s, &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) { told = append(told, change) }})
		synctest.Wait()
		wantSteps(t, &m.steps, "run")
		sub, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"app:r", "app:t/1", "app:own"}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantSteps(t, &m.steps, "watch app:r", "watch app:t/1")
		m.change(mcp.Change{Kind: mcp.KindResource, URI: "app:t/1"})
		m.change(mcp.Change{Kind: mcp.KindResource, URI: "app:t/2"})
		synctest.Wait()
		if !slices.Equal(told, []mcp.Change{{Kind: mcp.KindResource, URI: "app:t/1"}}) {
			t.Errorf("the client is told %v", told)
		}
		sub.Close()
		synctest.Wait()
		wantSteps(t, &m.steps, "unwatch app:r", "unwatch app:t/1")
		wantSteps(t, &other.steps, "run")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestProviderRefusesSubscription checks that the client gets the error, and that earlier
// subscriptions of the request end.
func TestProviderRefusesSubscription(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		m := newTestProvider()
		m.setEntries(m.entry(mcp.KindResource, "app:r", `{"uri":"app:r","name":"r"}`))
		m.refuse = &jsonrpc.Error{Code: -429, Message: "too many"}
		s := newServer(&server.Options{Logger: discardLogger()})
		good := newTestProvider()
		good.setEntries(good.entry(mcp.KindResource, "app:a", `{"uri":"app:a","name":"a"}`))
		mountProvider(t, s, m, "m_")
		mountProvider(t, s, good, "g_")
		session := connectInMemory(t, s, &client.Options{Era: era})
		synctest.Wait()
		wantSteps(t, &good.steps, "run")
		_, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"app:a", "app:r"}})
		wantCode(t, err, -429)
		synctest.Wait()
		wantSteps(t, &good.steps, "watch app:a", "unwatch app:a")
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestProviderGuarded checks that the server's guards and middleware apply to provided entries.
func TestProviderGuarded(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		m := newTestProvider("a")
		m.handle = func(context.Context, *mcp.Call) (mcp.Result, error) {
			t.Error("the provider is called")
			return nil, nil
		}
		s := newServer(withGuard(denyGuard("shut")).options())
		mountProvider(t, s, m, "p_")
		_, err := connect(t, s, era).CallTool(t.Context(), "p_a", nil, nil)
		if message(err) != "Guard 'shut' denied the tool call for 'p_a'" {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestProviderChangesWhileCalled is for the race detector.
func TestProviderChangesWhileCalled(t *testing.T) {
	s := newServer(&server.Options{Logger: discardLogger()})
	first, second := newTestProvider("steady"), newTestProvider("a")
	mountProvider(t, s, first, "")
	mountProvider(t, s, second, "")
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for i := range 200 {
			second.setTools("a", fmt.Sprint("b", i), "steady")
		}
	})
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session := connectInMemory(t, s, &client.Options{Era: era})
		work.Go(func() {
			for range 100 {
				if names := toolNames(t, session); names[0] != "steady" || names[1] != "a" {
					t.Errorf("listed are %q", names)
				}
				call(t, session, "steady", `{}`)
			}
		})
	}
	work.Wait()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestPartialCatalogDeclaresAllKinds checks the capabilities of a server with a partial catalog.
func TestPartialCatalogDeclaresAllKinds(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		m := newTestProvider()
		s := newServer(nil)
		mountProvider(t, s, m, "")
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if has := connect(t, s, era).Capabilities(); has.Tools != nil || has.Prompts != nil || has.Resources != nil || has.Completions != nil {
			t.Errorf("nothing is offered, and declared is %+v", has)
		}
		m.catalog.Store(server.NewCatalog(nil, &server.CatalogOptions{Partial: true}))
		wantAllKinds(t, connect(t, s, era).Capabilities())
	})
}

func wantAllKinds(t testing.TB, has mcp.ServerCapabilities) {
	t.Helper()
	if has.Tools == nil || !has.Tools.ListChanged || has.Prompts == nil || !has.Prompts.ListChanged ||
		has.Resources == nil || !has.Resources.ListChanged || !has.Resources.Subscribe || has.Completions == nil {
		t.Errorf("more is to come, and declared is %+v", has)
	}
}

// TestServerWaitsForProviders checks that a server waits until providers are ready, and fails with
// them.
func TestServerWaitsForProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestProvider()
		s := newServer(nil)
		m.start = func(context.Context) error {
			<-time.After(5 * time.Second)
			m.setTools("a")
			m.change(mcp.Change{Kind: mcp.KindTool})
			return nil
		}
		mountProvider(t, s, m, "p_")
		if got := listed(t, connectInMemory(t, s, nil)); !slices.Equal(got, []string{"p_a"}) {
			t.Errorf("listed are %q", got)
		}

		broken := newTestProvider()
		broken.start = func(context.Context) error { return errors.New("no stalls") }
		s = newServer(&server.Options{Logger: discardLogger()})
		mountProvider(t, s, broken, "p_")
		if err := s.Start(t.Context()); err == nil || err.Error() != `starting mount 1 (prefix "p_"): no stalls` {
			t.Errorf("the server starts with %v", err)
		}
		if got := broken.steps.take(); !slices.Equal(got, []string{"run", "end"}) {
			t.Errorf("the provider has seen %q", got)
		}
	})
}

// TestChangesOfTheStartAreNotReported checks that clients get no notifications of changes during
// the start.
func TestChangesOfTheStartAreNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestProvider()
		m.start = func(context.Context) error {
			<-time.After(5 * time.Second)
			m.setTools("a")
			m.change(mcp.Change{Kind: mcp.KindTool})
			return nil
		}
		s := newServer(nil)
		mountProvider(t, s, m, "")
		var changes atomic.Int32
		session := connectInMemory(t, s, &client.Options{Era: client.Legacy, OnChange: func(context.Context, mcp.Change) { changes.Add(1) }})
		if got := listed(t, session); !slices.Equal(got, []string{"a"}) {
			t.Errorf("listed are %q", got)
		}
		synctest.Wait()
		if n := changes.Load(); n != 0 {
			t.Errorf("%d changes are reported", n)
		}
		m.change(mcp.Change{Kind: mcp.KindTool})
		synctest.Wait()
		if n := changes.Load(); n != 1 {
			t.Errorf("%d changes are reported, want 1", n)
		}
	})
}

// TestMiddlewareOfResolvedEntries checks that middleware is called once for each resolved entry.
func TestMiddlewareOfResolvedEntries(t *testing.T) {
	made := make(map[string]int)
	count := func(name string) []mcp.Middleware {
		return []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			made[name]++
			return next
		}}
	}
	m := newTestProvider()
	hidden := m.toolEntries("hidden")[0].Wrap(nil, count("entry"))
	m.catalog.Store(server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(context.Context, mcp.Kind, string) (*server.Entry, error) {
		return hidden, nil
	}}).Map(func(e *server.Entry) *server.Entry { return e.Wrap(nil, count("map")) }))
	s := newServer(&server.Options{CallMiddleware: count("server")})
	mountProvider(t, s, m, "p_")
	session := connectInMemory(t, s, nil)
	for range 3 {
		call(t, session, "p_hidden", `{}`)
	}
	if made["entry"] != 1 || made["map"] != 1 || made["server"] != 1 {
		t.Errorf("called are %v, want each once", made)
	}
}

// TestResolver checks calls of entries that are in no list.
func TestResolver(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		m, starting := newTestProvider(), newTestProvider()
		hidden := m.toolEntries("hidden")[0]
		m.catalog.Store(server.NewCatalog(m.toolEntries("shown"), &server.CatalogOptions{Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
			tr.step("resolve " + name)
			switch name {
			case "hidden":
				return hidden, nil
			case "broken":
				return nil, &jsonrpc.Error{Code: -500, Message: "no power"}
			}
			return nil, nil
		}}))
		starting.catalog.Store(server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
			tr.step("start for " + name)
			starting.setTools("late")
			return starting.Catalog().Lookup(kind, name), nil
		}}))
		made := 0
		count := func(next mcp.Handler) mcp.Handler {
			made++
			return next
		}
		check := mcp.Guard{Name: "g", Check: func(_ context.Context, call *mcp.Call) error { tr.step("check " + call.Target().Name); return nil }}
		s := newServer(&server.Options{Guards: []mcp.Guard{check}, CallMiddleware: []mcp.Middleware{count}})
		mountProvider(t, s, m, "p_")
		mountProvider(t, s, starting, "q_")
		session := connect(t, s, era)
		for range 3 {
			call(t, session, "p_hidden", `{}`)
			wantSteps(t, &tr, "resolve hidden", "check p_hidden")
		}
		if made != 2 {
			t.Errorf("the middleware was called %d times for two entries", made)
		}
		if names := toolNames(t, session); !slices.Equal(names, []string{"p_shown"}) {
			t.Errorf("listed are %q", names)
		}
		_, err := session.CallTool(t.Context(), "p_broken", nil, nil)
		if wantCode(t, err, -500); !slices.Equal(tr.take(), []string{"resolve broken"}) {
			t.Errorf("the error is %v", err)
		}
		for _, want := range [][]string{{"start for late", "check q_late"}, {"check q_late"}} {
			call(t, session, "q_late", `{}`)
			wantSteps(t, &tr, want...)
		}
		_, err = session.CallTool(t.Context(), "none", nil, nil)
		if wantCode(t, err, jsonrpc.InvalidParams); message(err) != `unknown tool: "none"` {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestProviderThatWasNotStarted checks that the error of a call says so, if the server needs a start.
func TestProviderThatWasNotStarted(t *testing.T) {
	number := server.Provide(func(context.Context) (int, func(context.Context) error, error) { return 7, nil, nil })
	for _, dependencies := range [][]server.Dependency{nil, {number}} {
		s := newServer(&server.Options{Dependencies: dependencies, Logger: discardLogger()})
		server.AddTool(s, server.Tool{Name: "t"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			if len(dependencies) == 0 {
				return "done", nil
			}
			return fmt.Sprint(server.Value[int](r)), nil
		})
		provider := s.Provider()
		handle := func() error {
			request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, jsonRaw(`{"name":"t"}`))
			if err != nil {
				t.Fatal(err)
			}
			made := mcp.NewCall(request, &mcp.Caller{}, nil)
			_, err = provider.Catalog().Lookup(mcp.KindTool, "t").Handle(t.Context(), &made)
			return err
		}
		err := handle()
		if says := err != nil && strings.Contains(err.Error(), `the server "test" was not started`); says != (len(dependencies) > 0) {
			t.Errorf("the error is %v", err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := handle(); err != nil {
			t.Error(err)
		}
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
