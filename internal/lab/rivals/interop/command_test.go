package interop

import (
	"context"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The program bridge/cmd/dovetail works with the servers of other SDKs over HTTP.
func TestCommand(t *testing.T) {
	dovetail := filepath.Join(t.TempDir(), "dovetail")
	build := exec.Command("go", "build", "-o", dovetail, ".")
	build.Dir = filepath.Join("..", "..", "..", "..", "bridge", "cmd", "dovetail")
	build.Env = append(build.Environ(), "GOWORK=") // its module requires a release that is not published yet
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"go-sdk", "go-sdk stateless", "mcp-go"} {
		for _, transport := range []string{"streamable", "sse"} {
			if transport == "sse" && name == "go-sdk stateless" {
				continue // it does not support sse without sessions
			}
			t.Run(name+"/"+transport, func(t *testing.T) {
				h := servers[name](t, &setup{transport: transport, journal: newJournal()})
				web := httptest.NewServer(h.handler)
				defer web.Close()
				defer h.leave()
				for _, look := range []struct {
					args []string
					says string
				}{
					{[]string{"info"}, `"server"`},
					{[]string{"tools"}, `"add"`},
					{[]string{"call", "add", `{"a":2,"b":3}`}, `5`},
					{[]string{"read", "test://text"}, `test://text`},
					{[]string{"ping"}, ``},
				} {
					ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
					defer cancel()
					out, err := exec.CommandContext(ctx, dovetail, slices.Insert(slices.Clone(look.args), 1, web.URL)...).CombinedOutput()
					if err != nil || !strings.Contains(string(out), look.says) {
						t.Errorf("dovetail %q: %v\n%s", look.args, err, out)
					}
				}
			})
		}
	}
}
