package interop

import (
	"context"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program examples/inspect looks at the others' servers, over HTTP, whatever they
// speak.
func TestInspectLooksAtHosts(t *testing.T) {
	inspect := filepath.Join(t.TempDir(), "inspect")
	build := exec.Command("go", "build", "-o", inspect, "./examples/inspect")
	build.Dir = filepath.Join("..", "..") // it is of another module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, host := range []string{"go-sdk", "go-sdk stateless", "mcp-go"} {
		for _, transport := range []string{"streamable", "sse"} {
			if transport == "sse" && host == "go-sdk stateless" {
				continue // it has no streams without sessions
			}
			t.Run(host+"/"+transport, func(t *testing.T) {
				h := hosts[host](t, &stay{transport: transport, journal: newJournal()})
				web := httptest.NewServer(h.handler)
				defer web.Close()
				defer h.leave()
				for _, look := range []struct {
					args []string
					says string
				}{
					{[]string{"info"}, `"host"`},
					{[]string{"tools"}, `"add"`},
					{[]string{"call", "add", `{"a":2,"b":3}`}, `5`},
					{[]string{"read", "test://text"}, `test://text`},
					{[]string{"ping"}, ``},
				} {
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					defer cancel()
					out, err := exec.CommandContext(ctx, inspect, append(look.args, web.URL)...).CombinedOutput()
					if err != nil || !strings.Contains(string(out), look.says) {
						t.Errorf("inspect %q: %v\n%s", look.args, err, out)
					}
				}
			})
		}
	}
}
