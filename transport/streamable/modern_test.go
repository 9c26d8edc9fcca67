package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":7}`

type sumIn struct {
	A int `json:"a"`
	B int `json:"b"`
}

// newServer offers what the tests call.
func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "sum"}, func(_ context.Context, _ *server.Request, in sumIn) (string, error) {
		return fmt.Sprint(in.A + in.B), nil
	})
	server.AddTool(s, server.Tool{Name: "steps"}, func(ctx context.Context, r *server.Request, in sumIn) (string, error) {
		for i := range in.A {
			if err := r.Progress(ctx, float64(i+1), float64(in.A), ""); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	return s
}

func sum(id, a, b int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"sum","arguments":{"a":%d,"b":%d},%s}}`, id, a, b, modernMeta)
}

func (r *rig) modern(method, name string) *rig {
	return r.with("MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name)
}

func TestModernCallIsJSON(t *testing.T) {
	r := serve(t, newServer(), nil).modern("tools/call", "sum")
	got := r.post(sum(1, 2, 3)).is(http.StatusOK, `"id":1`, `"text":"5"`, `"resultType":"complete"`)
	if got := got.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %s", got)
	}
}

func TestModernProgressPrecedesTheResult(t *testing.T) {
	r := serve(t, newServer(), nil).modern("tools/call", "steps")
	got := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"steps","arguments":{"a":20,"b":0},` + modernMeta + `}}`)
	for i := range 20 {
		got.message(`"notifications/progress"`, fmt.Sprintf(`"progress":%d,`, i+1))
	}
	got.message(`"id":1`, `"text":"done"`)
	got.ends()
}
