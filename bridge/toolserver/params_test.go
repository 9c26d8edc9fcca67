package toolserver_test

import (
	"strings"
	"testing"
)

// TestServerParamsAreChecked: invalid params are refused, and the error contains no values.
func TestServerParamsAreChecked(t *testing.T) {
	rig := newRig(t, noGuards())
	const canary = "canary"
	for params, want := range map[string]string{
		`{"args":["canary"]}`:                                               `"command" or "url"`,
		`{"command":"canary","url":"http://x/mcp"}`:                         "found both",
		`{"command":""}`:                                                    `"command" or "url"`,
		`{"command":7}`:                                                     "command: expected",
		`{"command":"x","args":"canary"}`:                                   "args: expected",
		`{"command":"x","args":[1]}`:                                        "args: expected",
		`{"command":"x","args":["a\u0000b"]}`:                               "without NUL",
		`{"command":"x","env":{"A":1}}`:                                     "env: expected strings",
		`{"command":"x","env":{"A=B":"canary"}}`:                            "env: expected",
		`{"command":"x","env":{"A":"1","A":"canary"}}`:                      "env: expected",
		`{"command":"x","headers":{"A":"canary"}}`:                          `"headers" with "url" only`,
		`{"command":"x","type":"sse"}`:                                      "not stdio",
		`{"command":"x","shell":true}`:                                      `found "shell"`,
		`{"command":"x","Env":{}}`:                                          `found "Env"`,
		`{"command":"x","encoding":"latin1"}`:                               "utf-8",
		`{"url":"http://canary/x"}`:                                         `expected "type"`,
		`{"url":"http://canary/x?y=/mcp"}`:                                  `expected "type"`,
		`{"url":"http://canary/mcp/x"}`:                                     `expected "type"`,
		`{"url":"file:///mcp"}`:                                             "a scheme and a host",
		`{"url":"gopher://canary/mcp"}`:                                     "http:// or https://",
		`{"url":"ws://canary/mcp"}`:                                         "http:// or https://",
		`{"url":"http://canary/mcp","type":"quic"}`:                         "type: expected",
		`{"url":"http://canary/mcp","args":["x"]}`:                          `"command" only`,
		`{"url":"http://canary/mcp","timeout":"5"}`:                         "timeout: expected a number",
		`{"url":"http://canary/mcp","headers":{"a b":"canary"}}`:            "headers: expected",
		`{"url":"http://canary/mcp","headers":{"A":"1","a":"canary"}}`:      "headers: expected",
		`{"url":"http://canary/mcp","headers":{"A":"canary\r\nB: canary"}}`: "headers: expected",
		`{"command":"` + strings.Repeat("x", 64<<10) + `"}`:                 "at most 65536 bytes",
	} {
		status, answer, err := rig.send(t.Context(), "POST", "/run", `{"server_name":"a","server_params":`+params+`,"tool_name":"t","tool_args":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.ReplaceAll(answer, `\"`, `"`); status != 200 || !strings.HasSuffix(said, `"type":"start_failed"}`) || !strings.Contains(said, want) || strings.Contains(said, canary) {
			t.Errorf("%.80s: %d %s, want %s", params, status, answer, want)
		}
	}
}

func TestTypeOutranksTheURL(t *testing.T) {
	rig := newRig(t, noGuards())
	url := newRemote(t)
	for params, ok := range map[string]bool{
		`{"url":"` + url + `"}`:                                                        true,
		`{"url":"` + url + `","type":"streamable-http"}`:                               true,
		`{"url":"` + url + `","type":"http","timeout":5.5}`:                            true,
		`{"url":"` + strings.TrimSuffix(url, "mcp") + `sse","type":"streamable_http"}`: true,
	} {
		_, answer, err := rig.send(t.Context(), "POST", "/run", `{"server_name":"a","server_params":`+params+`,"tool_name":"tool-1","tool_args":{}}`)
		if err != nil || strings.HasPrefix(answer, `{"result"`) != ok {
			t.Errorf("%s: %s, %v", params, answer, err)
		}
		if err := rig.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNamesOfServersAreChecked(t *testing.T) {
	rig := newRig(t, noGuards())
	for name, ok := range map[string]bool{
		"a": true, "my-server.v1_x": true, "": false, "a__b": true, "a_": true, "a b": true, "ä": true, "@scope/server": true,
		`\u0007`: true, strings.Repeat("x", 256): true, strings.Repeat("x", 257): false,
	} {
		status, answer, err := rig.send(t.Context(), "POST", "/run", `{"server_name":"`+name+`","server_params":{"command":"/no/such/program"},"tool_name":"t","tool_args":{}}`)
		if err != nil || (status == 200) != ok {
			t.Errorf("%q: %d %s, %v", name, status, answer, err)
		}
	}
}
