package pin_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// large returns a provider of as many tools, all of them accepted but one.
func large(tools int) (*shop, *pin.Provider) {
	all := make([]string, tools)
	for i := range all {
		all[i] = tool(fmt.Sprint("tool_", i), "Does what it does.")
	}
	p := newShop(all...)
	g := pin.Guarded(p, "s", new(pin.Lock), &pin.Options{TrustNew: true, Logger: quiet()})
	g.Catalog()
	all[0] = tool("tool_0", "Does something else.")
	p.show(all...)
	return p, g
}

// TestCallBudget: a call of what is accepted, and looking at the catalogue, allocate
// nothing here.
func TestCallBudget(t *testing.T) {
	if raced {
		t.Skip("the race detector allocates")
	}
	p, g := large(100)
	plain, guarded := faceOf(t, p), faceOf(t, g)
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
		"a call":           serve(guarded),
		"the catalogue":    func() { g.Catalog(); direct() },
		"a look at a tool": func() { _ = g.Check("tool_7"); direct() },
	} {
		if n := testing.AllocsPerRun(100, f); n > limit {
			t.Errorf("%s costs %v allocations, and the provider's own call %v", what, n, limit)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	_, g := large(1000)
	face := faceOf(b, g)
	call := newCall(b, mcp.MethodToolsCall, `{"name":"tool_7","arguments":{}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := face.Serve(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	definition := json.RawMessage(full)
	b.SetBytes(int64(len(full)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pin.Digest(definition); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJudge is a catalogue of 1,000 tools of which one has changed.
func BenchmarkJudge(b *testing.B) {
	p, g := large(1000)
	one := p.Catalog()
	other := one.Map(func(e *server.Entry) *server.Entry { return e })
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			p.offer.Store(other)
		} else {
			p.offer.Store(one)
		}
		g.Catalog()
	}
}
