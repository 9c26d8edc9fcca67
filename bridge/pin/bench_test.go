package pin_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// large returns a provider of many tools, of which one has changed since it was accepted.
func large(tools int) (*fakeProvider, *pin.Provider) {
	all := make([]string, tools)
	for i := range all {
		all[i] = tool(fmt.Sprint("tool_", i), "Does what it does.")
	}
	p := newFake(all...)
	g := pin.Wrap(p, "s", new(pin.Lock), &pin.Options{TrustNew: true, Logger: quiet()})
	g.Catalog()
	all[0] = tool("tool_0", "Does something else.")
	p.show(all...)
	return p, g
}

// TestCallBudget: a call of an accepted tool, and reading the catalog, do not allocate in this
// package.
func TestCallBudget(t *testing.T) {
	racetest.Skip(t)
	p, g := large(100)
	plain, guarded := serverOf(t, p), serverOf(t, g)
	call := newCall(t, mcp.MethodToolsCall, `{"name":"tool_7","arguments":{}}`)
	serve := func(s *server.Server) func() {
		return func() {
			if _, err := s.Serve(t.Context(), call); err != nil {
				t.Error(err)
			}
		}
	}
	direct := serve(plain)
	limit := testing.AllocsPerRun(100, direct)
	for what, f := range map[string]func(){
		"a call":      serve(guarded),
		"the catalog": func() { g.Catalog(); direct() },
	} {
		if n := testing.AllocsPerRun(100, f); n > limit {
			t.Errorf("%s costs %v allocations, and the provider's own call %v", what, n, limit)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	_, g := large(1000)
	frontend := serverOf(b, g)
	call := newCall(b, mcp.MethodToolsCall, `{"name":"tool_7","arguments":{}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := frontend.Serve(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	definition := json.RawMessage(full)
	b.SetBytes(int64(len(full)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pin.Digest(pin.Tool, definition); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEvaluate evaluates a catalog of 1,000 tools of which one has changed.
func BenchmarkEvaluate(b *testing.B) {
	p, g := large(1000)
	one := p.Catalog()
	other := one.Map(func(e *server.Entry) *server.Entry { return e })
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			p.catalog.Store(other)
		} else {
			p.catalog.Store(one)
		}
		g.Catalog()
	}
}
