package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A command for the servers of a file fails if none of them can be used.
func TestServersThatAllFailExitWithFour(t *testing.T) {
	const gone = `{"command":"/nothing/here"}`
	for _, test := range []struct {
		text, line string
		want       exitStatus
	}{
		{`{"mcpServers":{"a":` + gone + `}}`, "tools", unreachable},
		{`{"mcp":{"a":{"type":"local","command":["/nothing/here"]}}}`, "tools", unreachable},
		{`{"context_servers":{"a":` + gone + `}}`, "prompts", unreachable},
		{`{"mcpServers":{"a":` + gone + `,"b":` + gone + `}}`, "resources", unreachable},
		{`{"mcpServers":{"a":` + gone + `}}`, "info", unreachable},
		{`{"mcpServers":{"a":` + gone + `}}`, "call a__greet {}", unreachable},
		{`{"mcpServers":{"a":{"command":"x","env":{"A":"${INSPECT_TEST_UNSET}"}}}}`, "tools", unreachable},
		{`{"mcpServers":{"a":{"command":"x","timeout":-1}}}`, "tools", unreachable},
		{`{"mcpServers":{"a":` + gone + `,"b":{"url":"WEB/mcp","headers":{"Greeting":"hello: world"}}}}`, "tools", succeeded},
		{`{"mcp":{"a":{"type":"remote","url":"WEB/mcp","headers":{"Greeting":"{env:INSPECT_TEST_GREETING}"}}},"theme":"x"}`, "tools", succeeded},
		{`{"context_servers":{"a":{"url":"WEB/mcp","headers":{"Greeting":"hello: world"}}},"theme":"x"}`, "tools", succeeded},
		{`{"mcpServers":{}}`, "tools", succeeded},
	} {
		t.Setenv("INSPECT_TEST_GREETING", "hello: world")
		path := filepath.Join(t.TempDir(), "mcp.json")
		text := test.text
		if strings.Contains(text, "WEB") {
			text = strings.ReplaceAll(text, "WEB", web(t))
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, said, err := inspectAll(t, path, test.line)
		if got := statusOf(err); got != test.want || test.want == unreachable && said == "" && errors.As(err, new(exitStatus)) {
			t.Errorf("%s of %s: status %d (%v), want %d; it prints %s%s", test.line, test.text, got, err, test.want, out, said)
		}
		if test.want == succeeded && strings.Contains(text, "url") && !strings.Contains(out, `a__greet"`) && !strings.Contains(out, `b__greet"`) {
			t.Errorf("%s of %s prints %s%s", test.line, test.text, out, said)
		}
	}
}
