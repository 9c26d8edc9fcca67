package pin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A shop is a provider whose tools change.
type shop struct {
	offer   atomic.Pointer[server.Catalogue]
	changed atomic.Pointer[func(mcp.Change)]
	result  mcp.Result // made once: what a call allocates is counted
	calls   atomic.Int64
}

func newShop(tools ...string) *shop {
	s := &shop{result: mcp.Raw(`{"content":[]}`)}
	s.show(tools...)
	return s
}

// catalogue has tools, each a definition with a name.
func catalogue(tools ...string) *server.Catalogue {
	c := &server.Catalogue{
		Prompts:   []server.Listed{{Name: "p", JSON: json.RawMessage(`{"name":"p"}`)}},
		Completes: true,
	}
	for _, tool := range tools {
		var named struct{ Name string }
		if err := json.Unmarshal([]byte(tool), &named); err != nil {
			panic(err)
		}
		c.Tools = append(c.Tools, server.Listed{Name: named.Name, JSON: json.RawMessage(tool)})
	}
	return c
}

// show offers other tools from now on.
func (s *shop) show(tools ...string) {
	s.offer.Store(catalogue(tools...))
	if changed := s.changed.Load(); changed != nil {
		(*changed)(mcp.Change{Kind: mcp.KindTool})
	}
}

func (s *shop) Catalogue() *server.Catalogue { return s.offer.Load() }

func (s *shop) Call(context.Context, *mcp.Call) (mcp.Result, error) {
	s.calls.Add(1)
	return s.result, nil
}

func (s *shop) Run(ctx context.Context, changed func(mcp.Change)) error {
	s.changed.Store(&changed)
	<-ctx.Done()
	return ctx.Err()
}

// tool is a definition.
func tool(name, description string) string {
	return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newCall(t testing.TB, method, params string) *mcp.Call {
	t.Helper()
	request := &jsonrpc.Request{}
	if err := request.Init(jsonrpc.IntID(1), method, json.RawMessage(params)); err != nil {
		t.Fatal(err)
	}
	call := mcp.NewCall(request, nil, nil)
	return &call
}

// callTool calls a tool, whose name stands here as in JSON.
func callTool(t testing.TB, p server.Provider, quoted string) error {
	t.Helper()
	_, err := p.Call(t.Context(), newCall(t, mcp.MethodToolsCall, `{"name":`+quoted+`,"arguments":{}}`))
	return err
}

// wantTools checks what is listed, that just this can be called, and what is pending.
func wantTools(t testing.TB, p *pin.Provider, lock *pin.Lock, listed string, pending ...string) {
	t.Helper()
	var names []string
	for _, l := range p.Catalogue().Tools {
		names = append(names, l.Name)
		if err := callTool(t, p, fmt.Sprintf("%q", l.Name)); err != nil {
			t.Errorf("%s is listed, and calling it fails: %v", l.Name, err)
		}
	}
	if got := strings.Join(names, " "); got != listed {
		t.Errorf("listed are %q, want %q", got, listed)
	}
	var waiting []string
	for _, w := range lock.Pending() {
		waiting = append(waiting, w.Server+" "+w.Tool+" "+w.Reason.String())
		if err := p.Check(w.Tool); err == nil && !slices.Contains(names, w.Tool) {
			t.Errorf("%s is not listed, but can be called", w.Tool)
		}
	}
	if !slices.Equal(waiting, pending) {
		t.Errorf("pending are %q, want %q", waiting, pending)
	}
}

func digest(t testing.TB, tool string) string {
	t.Helper()
	d, err := pin.Digest(json.RawMessage(tool))
	if err != nil {
		t.Fatalf("%.200s: %v", tool, err)
	}
	return d
}

// pinAll pins tools as they are.
func pinAll(t testing.TB, lock *pin.Lock, alias string, tools ...string) {
	t.Helper()
	for _, l := range catalogue(tools...).Tools {
		if err := lock.Pin(alias, l.Name, digest(t, string(l.JSON))); err != nil {
			t.Fatal(err)
		}
	}
}
