package config_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
)

// Of what somebody else has named, nothing is replaced, and it gets nothing of this machine.
func TestVerbatim(t *testing.T) {
	t.Setenv("TOKEN", "hunter2")
	for text, wrong := range map[string]string{
		`{"command": "${TOKEN}", "args": ["${TOKEN:-x}", "$${", "${file:/etc/passwd}", "${input:x}"], "env": {"A": "${TOKEN}"}}`: "",
		`{"command": "x", "envFile": "/etc/environment"}`:                                                                        "nothing is taken",
		`{"command": "x", "dovetail": {"passEnv": ["TOKEN"]}}`:                                                                   "nothing is taken",
		`{"command": "x", "dovetail": {"inheritEnv": true}}`:                                                                     "nothing is taken",
		`{"url": "http://localhost/${TOKEN}", "headers": {"A": "${TOKEN}"}}`:                                                     "",
		`{"url": "${TOKEN}"}`: "expected a URL",
	} {
		file, err := config.Parse([]byte(`{"mcpServers": {"a": `+text+`}}`), "mcp.json")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		list, err := file.Expand(t.Context(), &config.Expander{Verbatim: true})
		if wrong != "" {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		r := list[0]
		texts := []string{r.Command.Reveal(), r.URL.Reveal(), r.Env["A"].Reveal(), r.Headers["A"].Reveal()}
		for _, arg := range r.Args {
			texts = append(texts, arg.Reveal())
		}
		all := strings.Join(texts, " ")
		if strings.Contains(all, "hunter2") || !strings.Contains(all, "${TOKEN}") || r.Args != nil && r.Args[1].Reveal() != "$${" {
			t.Errorf("%s: becomes %q", text, texts)
		}
	}
}
