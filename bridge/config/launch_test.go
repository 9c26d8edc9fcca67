package config_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
)

// TestLaunch: it shows what runs and no secret, is one line, and differs as soon as anything
// that runs does.
func TestLaunch(t *testing.T) {
	file, err := config.Parse([]byte(`{"mcpServers":{
		"local": {"command":"npx","args":["-y","some server","${HOME_OF_DATA}","a\"b\u001b[2J","${TOKEN}"],"env":{"API_KEY":"canary-1","B":"${TOKEN}"},"cwd":"/srv"},
		"plain": {"command":"server"},
		"far":   {"url":"https://user:canary-2@mcp.example.com/mcp?key=canary-3#canary-4","headers":{"X-Key":"canary-5"}}}}`), "mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	value := "/data"
	resolve := func() map[string]string {
		lookup := func(name string) (string, bool) {
			return map[string]string{"HOME_OF_DATA": value, "TOKEN": "canary-6"}[name], true
		}
		servers, err := file.Expand(t.Context(), &config.Expander{LookupEnv: lookup})
		if err != nil {
			t.Fatal(err)
		}
		launches := make(map[string]string)
		for _, r := range servers {
			launches[r.Alias] = r.Launch()
		}
		return launches
	}
	launches := resolve()
	for alias, want := range map[string]string{
		"local": `npx -y "some server" ${HOME_OF_DATA} "a\"b\u001b[2J" ${TOKEN} (cwd /srv; env API_KEY, B) sha256:`,
		"plain": `server sha256:`,
		"far":   `http https://`,
	} {
		got := launches[alias]
		if !strings.HasPrefix(got, want) || len(got[strings.Index(got, "sha256:"):]) != 71 {
			t.Errorf("%s is launched as %s", alias, got)
		}
		if strings.Contains(got, "canary") || strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("%s tells too much: %q", alias, got)
		}
	}
	if far := launches["far"]; !strings.Contains(far, "mcp.example.com/mcp") || !strings.Contains(far, "(headers X-Key)") {
		t.Errorf("far is launched as %s", far)
	}
	value = "/other"
	if again := resolve(); again["local"] == launches["local"] || again["plain"] != launches["plain"] {
		t.Errorf("another value: %s", again["local"])
	}
}
