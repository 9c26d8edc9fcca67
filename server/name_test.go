package server_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server"
)

// TestNames: what may name a tool or a prompt. MCP 2025-11-25, server/tools, "Tool
// Names".
func TestNames(t *testing.T) {
	for _, test := range []struct {
		name, says string // "" when it is a name
	}{
		{"a", ""}, {strings.Repeat("x", 128), ""}, {"A.b-C_9", ""}, {".hidden", ""}, {"last-", ""}, {"7", ""},
		{"", "1 to 128"}, {strings.Repeat("x", 129), "1 to 128"}, {"a b", "not of ' '"}, {"a,b", "not of ','"},
		{"a/b", "not of '/'"}, {"naïve", "not of"}, {"a\x00b", "not of"}, {"a\n", "not of"},
	} {
		_, tool := server.NewTool(server.Tool{Name: test.name}, nothing[struct{}])
		_, raw := server.NewRawTool(server.Tool{Name: test.name, InputSchema: jsonRaw(`{"type":"object"}`)}, nil)
		_, prompt := server.NewPrompt(server.Prompt{Name: test.name}, nothing[struct{}])
		for _, err := range []error{tool, raw, prompt} {
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%.20q: the error is %v, want %q", test.name, err, test.says)
			}
		}
	}
}
