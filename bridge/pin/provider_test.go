package pin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// TestChangedTool: a tool is hidden and refused after any change until it is accepted.
func TestChangedTool(t *testing.T) {
	for what, changed := range map[string]string{
		"name":         strings.Replace(full, `"name":"pay"`, `"name":"pay","title":"Send"`, 1),
		"description":  strings.Replace(full, `an invoice.`, `all invoices.`, 1),
		"input":        strings.Replace(full, `9007199254740993`, `9007199254740992`, 1),
		"$defs":        strings.Replace(full, `"$defs":{"amount":{"type":"integer"`, `"$defs":{"amount":{"type":"number"`, 1),
		"output":       strings.Replace(full, `"outputSchema":{"type":"object"},`, ``, 1),
		"annotations":  strings.Replace(full, `"readOnlyHint":false`, `"readOnlyHint":true`, 1),
		"_meta":        strings.Replace(full, `"com.example/a":1`, `"com.example/a":{}`, 1),
		"a wrong case": strings.Replace(full, `"name"`, `"Description":"x","name"`, 1),
	} {
		if what == "name" {
			changed = strings.Replace(changed, `,"title":"Pay"`, ``, 1)
		}
		t.Run(what, func(t *testing.T) {
			lock := pin.NewLock("")
			pinAll(t, lock, "s", full, tool("other", ""))
			p := newFake(full, tool("other", ""))
			g := pin.Wrap(p, "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
			wantTools(t, g, lock, "pay other")
			p.show(changed, tool("other", ""))
			if what == "a wrong case" {
				wantTools(t, g, lock, "other", "s pay invalid")
				return
			}
			wantTools(t, g, lock, "other", "s pay changed")
			if err := lock.Accept("s", toolNamed("pay")); err != nil {
				t.Fatal(err)
			}
			wantTools(t, g, lock, "pay other")
			p.show(full, tool("other", "")) // which was accepted before
			wantTools(t, g, lock, "other", "s pay changed")
		})
	}
}

// TestSameTool: the encoding of a definition does not matter and is preserved.
func TestSameTool(t *testing.T) {
	lock := pin.NewLock("")
	pinAll(t, lock, "s", full)
	reordered := `{"icons":[ ],` + strings.Replace(full[1:len(full)-1], `"name":"pay","title":"Pay",`, "", 1) + `, "title":"P\u0061y","name":"pay"}`
	p := newFake(reordered)
	g := pin.Wrap(p, "s", lock, nil)
	wantTools(t, g, lock, "pay")
	if got := string(g.Catalog().Lookup(mcp.KindTool, "pay").Definition.JSON()); got != reordered {
		t.Errorf("the tool is listed as\n%s\nwant\n%s", got, reordered)
	}
}

// TestNewTool: TrustNew decides about new tools.
func TestNewTool(t *testing.T) {
	t.Run("quarantined", func(t *testing.T) {
		lock := pin.NewLock("")
		p := newFake(tool("a", ""))
		g := pin.Wrap(p, "s", lock, &pin.Options{OfferChanged: true, Logger: quiet()})
		wantTools(t, g, lock, "", "s a new")
		p.show() // it is withdrawn
		wantTools(t, g, lock, "")
	})
	t.Run("trusted", func(t *testing.T) {
		lock := pin.NewLock("")
		p := newFake(tool("a", ""))
		g := pin.Wrap(p, "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
		wantTools(t, g, lock, "a")
		p.show(tool("a", ""), tool("b", ""))
		wantTools(t, g, lock, "a b")
		p.show(tool("b", ""))
		wantTools(t, g, lock, "b")
		p.show(tool("a", "another"), tool("b", "")) // it comes back
		wantTools(t, g, lock, "b", "s a changed")

		// A new process, with the same lock.
		again := pin.Wrap(p, "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
		wantTools(t, again, lock, "b", "s a changed")
	})
}

// TestLogOfPendingEntries: a change of a server is logged once for each reason, with how many entries differ and the names of 20.
func TestLogOfPendingEntries(t *testing.T) {
	lock := pin.NewLock("")
	pinAll(t, lock, "s", tool("a", ""))
	tools := []string{tool("a", "another")}
	for i := range 30 {
		tools = append(tools, tool(fmt.Sprintf("t%02d", i), ""))
	}
	p := newFake(tools...)
	var log strings.Builder
	g := pin.Wrap(p, "s", lock, &pin.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	g.Catalog()
	p.show(tools...)
	g.Catalog() // nothing has changed
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	for i, want := range []string{"reason=changed quarantined=true entries=1 names=a", "reason=new quarantined=true entries=30 names=\"" + strings.Join(names, ", ") + ", …\""} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], `level=WARN msg="entries are not as they were accepted" server=s `+want) {
			t.Errorf("record %d is not %s", i, want)
		}
	}
	if len(lines) != 2 {
		t.Errorf("the log is\n%s", log.String())
	}
}

func TestOfferChanged(t *testing.T) {
	lock := pin.NewLock("")
	pinAll(t, lock, "s", tool("a", ""))
	p := newFake(tool("a", "another"))
	g := pin.Wrap(p, "s", lock, &pin.Options{OfferChanged: true, Logger: quiet()})
	wantTools(t, g, lock, "a", "s a changed")
	if err := lock.Accept("s", toolNamed("a")); err != nil {
		t.Fatal(err)
	}
	wantTools(t, g, lock, "a")
}

// TestToolListedTwice: the first one counts.
func TestToolListedTwice(t *testing.T) {
	lock, accepted := new(pin.Lock), tool("a", "2")
	pinAll(t, lock, "s", accepted)
	offered := newFake(tool("a", "1"), accepted)
	p := pin.Wrap(offered, "s", lock, &pin.Options{Logger: quiet()})
	wantTools(t, p, lock, "", "s a changed")
	offered.show(accepted, tool("a", "1"))
	wantTools(t, p, lock, "a")
	if got := string(p.Catalog().Lookup(mcp.KindTool, "a").Definition.JSON()); got != accepted {
		t.Errorf("the tool is listed as %s, want %s", got, accepted)
	}
	offered.show(accepted)
	wantTools(t, p, lock, "a")
}

// TestInvalidTool: an invalid tool is always quarantined and does not affect others.
func TestInvalidTool(t *testing.T) {
	for what, invalid := range map[string]string{
		"duplicate member": `{"name":"x","inputSchema":{"a":1,"a":2}}`,
		"a wrong case":     `{"name":"x","Title":""}`,
	} {
		lock := pin.NewLock("")
		p := newFake(invalid, tool("a", ""))
		g := pin.Wrap(p, "s", lock, &pin.Options{TrustNew: true, OfferChanged: true, Logger: quiet()})
		wantTools(t, g, lock, "a", "s x invalid")
		if t.Failed() {
			t.Fatal(what)
		}
	}
	long := strings.Repeat("x", maxName+1)
	lock := pin.NewLock("")
	g := pin.Wrap(newFake(tool(long, ""), tool("a", "")), "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
	wantTools(t, g, lock, "a", "s "+long+" invalid")

	twice := pin.Wrap(newFake(tool("a", ""), tool("a", "")), "twice", new(pin.Lock), &pin.Options{TrustNew: true, Logger: quiet()})
	wantTools(t, twice, new(pin.Lock), "a")
}

// TestTwoServers: two servers may have tools of one name.
func TestTwoServers(t *testing.T) {
	lock := pin.NewLock("")
	a, b := newFake(tool("x", "a")), newFake(tool("x", "b"))
	pinAll(t, lock, "a", tool("x", "a"))
	ga, gb := pin.Wrap(a, "a", lock, &pin.Options{Logger: quiet()}), pin.Wrap(b, "b", lock, &pin.Options{Logger: quiet()})
	before := ga.Catalog()
	wantTools(t, gb, lock, "", "b x new")
	if err := lock.Accept("b", toolNamed("x")); err != nil {
		t.Fatal(err)
	}
	wantTools(t, gb, lock, "x")
	if ga.Catalog() != before {
		t.Error("accepting a tool of one server changes the catalog of another")
	}
	b.show(tool("x", "a")) // which is accepted for a
	wantTools(t, gb, lock, "", "b x changed")
	wantTools(t, ga, lock, "x", "b x changed")
}

func TestRefusal(t *testing.T) {
	lock := pin.NewLock("")
	pinAll(t, lock, "s", tool("a", "one"))
	p := newFake(tool("a", "two"), tool("n", ""), `{"name":"i","_meta":{"a":1,"a":2}}`)
	g := pin.Wrap(p, "s", lock, &pin.Options{Logger: quiet()})
	frontend := serverOf(t, g)
	for name, want := range map[string]struct {
		refused *pin.QuarantinedError
		wire    jsonrpc.Error
		text    string
	}{
		"a": {
			&pin.QuarantinedError{Server: "s", Entry: toolNamed("a"), Reason: "changed", OldDigest: digest(t, tool("a", "one")), NewDigest: digest(t, tool("a", "two"))},
			jsonrpc.Error{Message: `the tool "a" of "s" is quarantined: it has changed since it was accepted`, Data: json.RawMessage(`{"type":"QUARANTINED","server":"s","kind":"tool","name":"a","reason":"changed"}`)},
			" (it was " + digest(t, tool("a", "one")) + " and is " + digest(t, tool("a", "two")) + ")",
		},
		"n": {
			&pin.QuarantinedError{Server: "s", Entry: toolNamed("n"), Reason: "new", NewDigest: digest(t, tool("n", ""))},
			jsonrpc.Error{Message: `the tool "n" of "s" is quarantined: it is new and has not been accepted`, Data: json.RawMessage(`{"type":"QUARANTINED","server":"s","kind":"tool","name":"n","reason":"new"}`)},
			" (it is " + digest(t, tool("n", "")) + ")",
		},
		"i": {
			&pin.QuarantinedError{Server: "s", Entry: toolNamed("i"), Reason: "invalid"},
			jsonrpc.Error{Message: `the tool "i" of "s" is quarantined: it is invalid`, Data: json.RawMessage(`{"type":"QUARANTINED","server":"s","kind":"tool","name":"i","reason":"invalid"}`)},
			`: _meta: duplicate member "a"`,
		},
	} {
		for _, err := range []error{callTool(t, frontend, `"`+name+`"`), callTool(t, frontend, `"\u00`+map[string]string{"a": "61", "n": "6e", "i": "69"}[name]+`"`)} {
			refused, ok := errors.AsType[*pin.QuarantinedError](err)
			if !ok {
				t.Fatalf("%s: the error is %v", name, err)
			}
			if text := want.wire.Message + want.text; err.Error() != text {
				t.Errorf("%s: the error is\n%s, want\n%s", name, err, text)
			}
			bare := *refused
			bare.Err = nil
			if diff := cmp.Diff(want.refused, &bare); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			want.wire.Code = jsonrpc.InvalidParams
			wire, _ := errors.AsType[*jsonrpc.Error](err)
			if diff := cmp.Diff(&want.wire, wire); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	for name, want := range map[string]string{`"x"`: `unknown tool: "x"`, `7`: "name must be a string", `"A"`: `unknown tool: "A"`} {
		wire, ok := errors.AsType[*jsonrpc.Error](callTool(t, frontend, name))
		if !ok || wire.Code != jsonrpc.InvalidParams || wire.Message != want {
			t.Errorf("%s: the error is %v, want %s", name, wire, want)
		}
	}
	if _, err := frontend.Serve(t.Context(), newCall(t, mcp.MethodToolsCall, `{}`)); err == nil {
		t.Error("a call without a name is accepted")
	}
	if n := p.calls.Load(); n != 0 {
		t.Errorf("the server was called %d times", n)
	}
}

func TestReadyWhenTheProviderIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &lateProvider{begin: make(chan struct{})}
		p.show(tool("a", ""))
		g := pin.Wrap(p, "s", pin.NewLock(""), &pin.Options{Logger: quiet()})
		ctx, cancel := context.WithCancel(t.Context())
		var ready atomic.Bool
		ended := make(chan error)
		go func() { ended <- g.Run(ctx, func() { ready.Store(true) }, func(mcp.Change) {}) }()
		synctest.Wait()
		if ready.Load() {
			t.Error("it is ready before the provider is")
		}
		close(p.begin)
		synctest.Wait()
		if !ready.Load() {
			t.Error("it is not ready although the provider is")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	})
}

// A lateProvider is not ready before begin is closed.
type lateProvider struct {
	fakeProvider
	begin chan struct{}
}

func (l *lateProvider) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	<-l.begin
	return l.fakeProvider.Run(ctx, ready, changed)
}

func TestScopesPassThrough(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "s"}, nil)
	server.AddTool(s, server.Tool{Name: "a", Scopes: []string{"write"}}, func(context.Context, *server.Request, struct{}) (string, error) { return "", nil })
	for want, p := range map[string]server.Provider{"write": s.Provider(), "": newFake(tool("a", ""))} {
		g := pin.Wrap(p, "s", pin.NewLock(""), &pin.Options{TrustNew: true, Logger: quiet()})
		if got := strings.Join(serverOf(t, g).Scopes(mcp.MethodToolsCall, "a"), " "); got != want {
			t.Errorf("a call needs %q, want %q", got, want)
		}
	}
}

// TestPending checks the pending tools that an operator sees.
func TestPending(t *testing.T) {
	lock := pin.NewLock("")
	one, two, three := tool("a", "one"), tool("a", "two"), tool("a", "three")
	pinAll(t, lock, "s", one)
	p := newFake(one)
	g := pin.Wrap(p, "s", lock, &pin.Options{Logger: quiet()})
	g.Catalog()
	p.show(two)
	g.Catalog()
	p.show(three)
	wantTools(t, g, lock, "", "s a changed")
	want := pin.Pending{
		Server: "s", Entry: toolNamed("a"), Reason: "changed", OldDigest: digest(t, one), NewDigest: digest(t, three),
		Before: json.RawMessage(one), After: json.RawMessage(three),
	}
	pending := lock.Pending()[0]
	if diff := cmp.Diff(want, pending); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	found, err := pending.Diff()
	if diff := cmp.Diff([]pin.Difference{{Member: "description", Before: json.RawMessage(`"one"`), After: json.RawMessage(`"three"`)}}, found); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}

	// A new process has not seen the accepted definition.
	again := pin.Wrap(p, "s", lock, &pin.Options{Logger: quiet()})
	wantTools(t, again, lock, "", "s a changed")
	pending = lock.Pending()[0]
	if found, err := pending.Diff(); err != nil || len(found) != 3 || pending.Before != nil {
		t.Errorf("the difference is %v, %v", found, err)
	}

	invalid := pin.Pending{Entry: toolNamed("a"), Err: errors.New("broken")}
	if _, err := invalid.Diff(); err == nil {
		t.Error("an invalid tool can be compared")
	}
}

// TestResolvedTool: a tool that is in no list cannot be called, although the provider would
// resolve it.
func TestResolvedTool(t *testing.T) {
	p := newFake(tool("a", ""))
	hidden := p.entry(mcp.KindTool, "hidden", tool("hidden", ""))
	p.catalog.Store(server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(context.Context, mcp.Kind, string) (*server.Entry, error) {
		return hidden, nil
	}}))
	g := pin.Wrap(p, "s", pin.NewLock(""), &pin.Options{TrustNew: true, Logger: quiet()})
	if e, err := g.Catalog().Resolve(t.Context(), mcp.KindTool, "hidden"); e != nil || err != nil {
		t.Errorf("the tool resolves to %v, %v", e, err)
	}
}

// TestCatalogStaysTheSame: the catalog is the same pointer until something changes.
func TestCatalogStaysTheSame(t *testing.T) {
	lock := pin.NewLock("")
	p := newFake(tool("a", ""))
	g := pin.Wrap(p, "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
	first := g.Catalog()
	p.Catalog()
	pinAll(t, lock, "s", tool("a", "")) // as it is
	pinAll(t, lock, "other", tool("b", ""))
	if g.Catalog() != first {
		t.Error("the catalog has changed")
	}
	p.show(tool("a", ""))
	if g.Catalog() == first {
		t.Error("the catalog has not changed")
	}
}

// TestLogged: each tool is logged once when it becomes pending.
func TestLogged(t *testing.T) {
	var log bytes.Buffer
	lock := pin.NewLock("")
	pinAll(t, lock, "s", tool("a", "one"))
	p := newFake(tool("a", "two"), tool("b", ""))
	g := pin.Wrap(p, "s", lock, &pin.Options{OfferChanged: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	g.Catalog()
	p.show(tool("b", ""), tool("a", "two"))
	g.Catalog()
	for _, want := range []string{"reason=changed quarantined=false entries=1 names=a\n", "reason=new quarantined=true entries=1 names=b\n"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("the log does not have %q once:\n%s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "two") {
		t.Errorf("text of the server is in the log:\n%s", log.String())
	}
}

// TestCallRacesChange: after a change no call of the changed tool succeeds.
func TestCallRacesChange(t *testing.T) {
	lock := pin.NewLock("")
	pinAll(t, lock, "s", tool("a", "good"))
	p := newFake()
	good, bad := p.catalogOf(tool("a", "good")), p.catalogOf(tool("a", "bad"))
	g := pin.Wrap(p, "s", lock, &pin.Options{Logger: quiet()})
	frontend := serverOf(t, g)
	var callers sync.WaitGroup
	for range 20 {
		var isBad atomic.Bool
		p.catalog.Store(good)
		for range 4 {
			callers.Go(func() {
				for range 500 {
					before := isBad.Load() // the change was over before the call began
					err := callTool(t, frontend, `"a"`)
					_, refused := errors.AsType[*pin.QuarantinedError](err)
					if before && !refused || err != nil && !refused {
						t.Errorf("after the change: %t, the error is %v", before, err)
						return
					}
					for e := range g.Catalog().All(mcp.KindTool) {
						if got := string(e.Definition.JSON()); got != tool("a", "good") {
							t.Errorf("listed is %s", got)
						}
					}
				}
			})
		}
		p.catalog.Store(bad)
		isBad.Store(true)
		callers.Wait()
	}
}

// TestConcurrentUse uses everything concurrently, for the race detector.
func TestConcurrentUse(t *testing.T) {
	lock := pin.NewLock(writeFile(t, "") + ".new")
	p := newFake(tool("a", "0"))
	g := pin.Wrap(p, "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
	frontend := serverOf(t, g)
	var users sync.WaitGroup
	for _, use := range []func(n int){
		func(n int) { p.show(tool("a", string(rune('0'+n%3))), tool("b", "")) },
		func(int) { g.Catalog() },
		func(int) { _ = callTool(t, frontend, `"a"`) },
		func(int) { _ = lock.Accept("s", toolNamed("a")) },
		func(int) { lock.Pending() },
		func(n int) { pinOne(t, lock, "t", "a", n) },
		func(n int) {
			if n%50 == 0 {
				save(t, lock)
			}
		},
		func(n int) {
			if n%70 == 0 {
				_ = lock.Reload()
			}
		},
	} {
		users.Go(func() {
			for n := range 200 {
				use(n)
			}
		})
	}
	users.Wait()
	p.show(tool("a", "last"))
	g.Catalog()
	if err := lock.Accept("s", toolNamed("a")); err != nil {
		t.Error(err)
	}
	wantTools(t, g, lock, "a")
}

// TestClientSeesAcceptedTools: clients of both eras are notified.
func TestClientSeesAcceptedTools(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		synctest.Test(t, func(t *testing.T) {
			lock := pin.NewLock("")
			pinAll(t, lock, "shop", tool("a", ""))
			p := newFake(tool("a", ""), tool("b", ""))
			s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
			g := pin.Wrap(p, "shop", lock, &pin.Options{Logger: quiet()})
			if err := s.Mount(g, &server.MountOptions{Prefix: "shop_"}); err != nil {
				t.Fatal(err)
			}
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := s.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait() // until Run of the provider has started
			changes := make(chan mcp.Change, 9)
			session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) { changes <- change }})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			subscription, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
			if err != nil {
				t.Fatal(err)
			}
			defer subscription.Close()
			list := func() string {
				result, err := session.Call(t.Context(), mcp.MethodToolsList, json.RawMessage(`{}`), nil)
				if err != nil {
					t.Fatal(err)
				}
				return string(result)
			}
			if got := list(); !strings.Contains(got, `"shop_a"`) || strings.Contains(got, `"shop_b"`) {
				t.Errorf("the list is %s", got)
			}
			if err := lock.Accept("shop", toolNamed("b")); err != nil {
				t.Fatal(err)
			}
			if change := <-changes; change.Kind != mcp.KindTool {
				t.Errorf("the change is %v", change)
			}
			if got := list(); !strings.Contains(got, `"shop_b"`) {
				t.Errorf("the list is %s", got)
			}
			if _, err := session.CallTool(t.Context(), "shop_b", nil, nil); err != nil {
				t.Error(err)
			}
			p.show(tool("a", "another"), tool("b", ""))
			<-changes
			if got := list(); strings.Contains(got, `"shop_a"`) {
				t.Errorf("the list is %s", got)
			}
			if _, err := session.CallTool(t.Context(), "shop_a", nil, nil); err == nil {
				t.Error("a changed tool can be called")
			}
		})
	}
}
