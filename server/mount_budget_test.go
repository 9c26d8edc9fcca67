package server_test

import (
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newMountedEcho is newEcho behind as many prefixes.
func newMountedEcho(t testing.TB, prefixes ...string) *server.Server {
	t.Helper()
	s := newEcho()
	for _, prefix := range prefixes {
		outer := newServer(nil)
		mount(t, outer, s, prefix)
		s = outer
	}
	return s
}

// TestMountBudget: a mounted tool costs no more than a new name in the request, which
// is the params and the call, over one that is not mounted.
func TestMountBudget(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		direct := newDispatcher(t, newEcho(), era, mcp.MethodToolsCall, echoParams)
		allocations, bytes := cost(func() { direct.dispatch(t) })
		for _, prefixes := range [][]string{{""}, {"a_"}, {"a_", ""}, {"a_", "b_"}} {
			name, renamings := "echo", 0.0
			for _, prefix := range prefixes {
				if name = prefix + name; prefix != "" {
					renamings++
				}
			}
			mounted := newDispatcher(t, newMountedEcho(t, prefixes...), era, mcp.MethodToolsCall,
				fmt.Sprintf(`"name":%q,"arguments":{"message":%q,"n":%d}`, name, hundredBytes.Message, hundredBytes.N))
			wantCost(t, "a call of "+name, func() { mounted.dispatch(t) }, allocations+2*renamings+0.5, bytes+1000*renamings+64)
		}
	})
}

func BenchmarkDispatchMounted(b *testing.B) {
	eachEra(b, func(b *testing.B, era client.Era) {
		for _, prefixes := range [][]string{nil, {""}, {"a_"}, {"a_", "b_"}} {
			b.Run(fmt.Sprint(len(prefixes), "-deep", prefixes), func(b *testing.B) {
				name := "echo"
				for _, prefix := range prefixes {
					name = prefix + name
				}
				d := newDispatcher(b, newMountedEcho(b, prefixes...), era, mcp.MethodToolsCall,
					fmt.Sprintf(`"name":%q,"arguments":{"message":%q,"n":%d}`, name, hundredBytes.Message, hundredBytes.N))
				b.ReportAllocs()
				for b.Loop() {
					d.dispatch(b)
				}
			})
		}
	})
}
