package config_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
)

// A form is how a host writes a variable. It is used by itself, and as a part of a text.
type form struct {
	host, file string // the file has %s in place of the server
	text       string
	whole      string // "" for an error
	part       string // of "a "+text+" b" in a header; "" for an error
	says       string // is in the error
}

// Each form of a variable, in a variable and a header of each host that documents it, is replaced, or refused by an error that names
// file, server and member. It is never sent as it is written.
func TestFormsOfVariables(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(folder, "key"), filepath.Join(home, "key")} {
		if err := os.WriteFile(path, []byte("from the file\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const mcpServers, servers, openCode, zed, codex = `{"mcpServers":{"s":%s}}`, `{"servers":{"s":%s},"inputs":[{"id":"X","default":"value"}]}`,
		`{"mcp":{"s":%s}}`, `{"context_servers":{"s":%s}}`, `{"mcp_servers":{"s":%s}}`
	env := map[string]string{"X": "value", "MY-VAR": "value"}
	for _, f := range []form{
		{host: "Claude Code", file: mcpServers, text: "${X}", whole: "value", part: "a value b"},
		{host: "Claude Code", file: mcpServers, text: "${NO:-d}", whole: "d", part: "a d b"},
		{host: "Claude Code", file: mcpServers, text: "${NO}", says: "${NO} has no value"},
		{host: "VS Code", file: servers, text: "${env:X}", whole: "value", part: "a value b"},
		{host: "VS Code", file: servers, text: "${input:X}", whole: "value", part: "a value b"},
		{host: "VS Code", file: servers, text: "${input:no}", says: `"inputs" of the file does not have it`},
		{host: "VS Code", file: servers, text: "${env:NO}", says: "${env:NO} has no value"},
		{host: "VS Code", file: servers, text: "${config:a.b}", says: "expected one of the schemes"},
		{host: "VS Code", file: servers, text: "${command:a.b}", says: "expected one of the schemes"},
		{host: "VS Code", file: servers, text: "${workspaceFolder:api}", says: "after ${, expected the name of a variable"},
		{host: "VS Code", file: servers, text: "${env:MY-VAR}", says: "after ${, expected the name of a variable"},
		{host: "VS Code", file: servers, text: "${file}", says: "${file} has no value"},
		{host: "VS Code", file: servers, text: "${/}", whole: "/", part: "a / b"},
		{host: "Cursor", file: mcpServers, text: "${env:X}", whole: "value", part: "a value b"},
		{host: "Cursor", file: mcpServers, text: "${userHome}", whole: home, part: "a " + home + " b"},
		{host: "Cursor", file: mcpServers, text: "${pathSeparator}", whole: "/", part: "a / b"},
		{host: "Windsurf", file: mcpServers, text: "${env:X}", whole: "value", part: "a value b"},
		{host: "Windsurf", file: mcpServers, text: "${file:key}", whole: "from the file", part: "a from the file b"},
		{host: "Windsurf", file: mcpServers, text: "${file:~/key}", whole: "from the file", part: "a from the file b"},
		{host: "Windsurf", file: mcpServers, text: "${file:gone}", says: "${file:gone} has no value"},
		{host: "Copilot CLI", file: mcpServers, text: "$X", whole: "value", part: "a value b"},
		{host: "Copilot CLI", file: mcpServers, text: "$NO", says: "${NO} has no value"},
		{host: "Gemini CLI", file: `{"mcpServers":{"s":%s,"other":{"httpUrl":"https://e.example"}}}`, text: "$X", whole: "value", part: "a value b"},
		{host: "Gemini CLI", file: `{"mcpServers":{"s":%s,"other":{"httpUrl":"https://e.example"}}}`, text: "x=$X;", whole: "x=value;", part: "a x=value; b"},
		{host: "Gemini CLI", file: `{"mcpServers":{"s":%s,"other":{"httpUrl":"https://e.example"}}}`, text: "${X}", whole: "value", part: "a value b"},
		{host: "Gemini CLI", file: `{"mcpServers":{"s":%s,"other":{"httpUrl":"https://e.example"}}}`, text: "$NO", says: "${NO} has no value"},
		{host: "OpenCode", file: openCode, text: "{env:X}", whole: "value", part: "a value b"},
		{host: "OpenCode", file: openCode, text: "Bearer {env:X}", whole: "Bearer value", part: "a Bearer value b"},
		{host: "OpenCode", file: openCode, text: "{env:MY-VAR}", whole: "value", part: "a value b"},
		{host: "OpenCode", file: openCode, text: "{file:./key}", whole: "from the file", part: "a from the file b"},
		{host: "OpenCode", file: openCode, text: "{file:~/key}", whole: "from the file", part: "a from the file b"},
		{host: "OpenCode", file: openCode, text: "{env:NO}", says: "${env:NO} has no value"},
		{host: "OpenCode", file: openCode, text: "{file:gone}", says: "${file:gone} has no value"},
		{host: "OpenCode", file: openCode, text: "{other:X}", whole: "{other:X}", part: "a {other:X} b"},
		{host: "Crush", file: openCode, text: "$X", whole: "value", part: "a value b"},
		{host: "Crush", file: openCode, text: "$(cat key)", says: "commands are not run"},
		{host: "Continue", file: mcpServers, text: "${{ secrets.X }}", says: "after ${, expected the name of a variable"},
		{host: "Zed", file: zed, text: "${X}", whole: "value", part: "a value b"},
		{host: "Codex", file: codex, text: "${X}", whole: "value", part: "a value b"},
		{host: "any", file: mcpServers, text: "$${X}", whole: "${X}", part: "a ${X} b"},
		{host: "any", file: mcpServers, text: "{env:X}", whole: "{env:X}", part: "a {env:X} b"},
		{host: "any", file: mcpServers, text: "pa$X", whole: "pa$X", part: "a pa$X b"},
		{host: "any", file: mcpServers, text: "$5", whole: "$5", part: "a $5 b"},
	} {
		for _, server := range []struct{ member, entry, want string }{
			{"env.K", `{"command":"x","env":{"K":%q}}`, f.whole},
			{"headers.K", `{"url":"https://e.example","headers":{"K":%q}}`, f.whole},
			{"headers.K", `{"url":"https://e.example","headers":{"K":%q}}`, f.part},
		} {
			text := f.text
			if server.want == f.part && f.part != f.whole {
				text = "a " + f.text + " b"
			}
			path := filepath.Join(folder, "mcp.json")
			file, err := config.Parse(fmt.Appendf(nil, f.file, fmt.Sprintf(server.entry, text)), path)
			if err != nil {
				t.Errorf("%s: %v", f.host, err)
				continue
			}
			r, err := file.Server("s").Expand(t.Context(), &config.Expander{LookupEnv: lookup(env)})
			if server.want == "" {
				for _, part := range []string{path, "server s", server.member, f.says} {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("%s: %s in %s: error %v, want %q", f.host, text, server.member, err, part)
					}
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %s in %s: %v", f.host, text, server.member, err)
				continue
			}
			got := r.Env["K"].Reveal() + r.Headers["K"].Reveal()
			if got != server.want {
				t.Errorf("%s: %s in %s became %q, want %q", f.host, text, server.member, got, server.want)
			}
		}
	}
}

// A variable is replaced in each member of a server that has texts, whatever the host, and is printed unexpanded or not at all.
func TestVariablesInEachMember(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "secretvalue"), []byte("K=from the file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		`{"mcp":{"s":%s}}`:        "{env:X}",
		`{"mcpServers":{"s":%s}}`: "${X}",
		`{"servers":{"s":%s}}`:    "${env:X}",
	} {
		for _, test := range []struct {
			entry string // V is the variable
			got   func(r *config.Resolved) string
			want  string
		}{
			{`{"command":"V"}`, func(r *config.Resolved) string { return r.Command.Reveal() }, "secretvalue"},
			{`{"command":["V"]}`, func(r *config.Resolved) string { return r.Command.Reveal() }, "secretvalue"},
			{`{"command":["x","a=V"]}`, func(r *config.Resolved) string { return r.Args[0].Reveal() }, "a=secretvalue"},
			{`{"command":"x","args":["a=V"]}`, func(r *config.Resolved) string { return r.Args[0].Reveal() }, "a=secretvalue"},
			{`{"command":{"path":"V"}}`, func(r *config.Resolved) string { return r.Command.Reveal() }, "secretvalue"},
			{`{"command":"x","env":{"K":"V"}}`, func(r *config.Resolved) string { return r.Env["K"].Reveal() }, "secretvalue"},
			{`{"command":"x","environment":{"K":"V"}}`, func(r *config.Resolved) string { return r.Env["K"].Reveal() }, "secretvalue"},
			{`{"command":"x","envFile":"V"}`, func(r *config.Resolved) string { return r.Env["K"].Reveal() }, "from the file"},
			{`{"command":"x","cwd":"/V"}`, func(r *config.Resolved) string { return r.Dir.Reveal() }, "/secretvalue"},
			{`{"url":"https://e.example/V"}`, func(r *config.Resolved) string { return r.URL.Reveal() }, "https://e.example/secretvalue"},
			{`{"url":"https://e.example","headers":{"K":"V"}}`, func(r *config.Resolved) string { return r.Headers["K"].Reveal() }, "secretvalue"},
			{`{"url":"https://e.example","oauth":{"clientId":"V"}}`, func(r *config.Resolved) string { return r.ClientID.Reveal() }, "secretvalue"},
			{`{"url":"https://e.example","oauth":{"clientSecret":"V"}}`, func(r *config.Resolved) string { return r.ClientSecret.Reveal() }, "secretvalue"},
			{`{"url":"https://e.example","oauth":{"scopes":["a","V"]}}`, scopesOf, "a|secretvalue"},
			{`{"url":"https://e.example","oauth":{"scope":"a V"}}`, scopesOf, "a|secretvalue"},
			{`{"url":"https://e.example","oauth":{"scope":"V:read  b"}}`, scopesOf, "secretvalue:read|b"},
		} {
			entry := strings.ReplaceAll(test.entry, "V", text)
			parsed, err := config.Parse(fmt.Appendf(nil, file, entry), filepath.Join(folder, "mcp.json"))
			if err != nil || len(parsed.Warnings) > 0 {
				t.Errorf("%s: %v, %v", entry, err, parsed.Warnings)
				continue
			}
			r, err := parsed.Server("s").Expand(t.Context(), &config.Expander{LookupEnv: lookup(map[string]string{"X": "secretvalue"})})
			if err != nil {
				t.Errorf("%s: %v", entry, err)
				continue
			}
			if got := test.got(r); got != test.want {
				t.Errorf("%s becomes %q, want %q", entry, got, test.want)
			}
			if printed := fmt.Sprint(r) + r.Launch(); strings.Contains(printed, "secretvalue") {
				t.Errorf("%s is printed as %s", entry, printed)
			}
		}
	}
	// The parts of a value of several words are printed as the whole text.
	r := resolve(t, `{"url":"https://e.example","oauth":{"scope":"${NO:-a b} c"}}`, nil)
	if got := scopesOf(r); got != "a|b|c" || fmt.Sprint(r.Scopes[0]) != "${NO} c" {
		t.Errorf("the scopes are %s, printed as %v", got, r.Scopes)
	}
}

func scopesOf(r *config.Resolved) string {
	var scopes []string
	for _, scope := range r.Scopes {
		scopes = append(scopes, scope.Reveal())
	}
	return strings.Join(scopes, "|")
}

// The values of a Codex server come from environment variables, beside those that are written.
func TestCodexServers(t *testing.T) {
	env := map[string]string{"TOKEN": "t", "TEAM": "red", "PASSED": "p"}
	for _, test := range []struct{ server, want string }{
		{`{"url":"https://e.example","bearer_token_env_var":"TOKEN","http_headers":{"A":"1"},"env_http_headers":{"X-Team":"TEAM"}}`, "A=1 Authorization=Bearer t X-Team=red"},
		{`{"url":"https://e.example","bearer_token_env_var":"TOKEN"}`, "Authorization=Bearer t"},
		{`{"url":"https://e.example","env_http_headers":{"Authorization":"TOKEN"}}`, "Authorization=t"},
		{`{"url":"https://e.example","bearer_token_env_var":null,"env_http_headers":null}`, ""},
		{`{"command":"x","env":{"A":"1"},"env_vars":["PASSED","UNSET",{"name":"TEAM"}]}`, "A=1 PASSED=p TEAM=red"},

		{`{"url":"https://e.example","bearer_token_env_var":"NO"}`, "error: server s: bearer_token_env_var: ${NO} has no value"},
		{`{"url":"https://e.example","env_http_headers":{"X-Team":"NO"}}`, "error: server s: env_http_headers.X-Team: ${NO} has no value"},
		{`{"url":"https://e.example","bearer_token_env_var":"TOKEN","http_headers":{"authorization":"x"}}`, "error: server s: bearer_token_env_var: a second header of the name Authorization"},
		{`{"url":"https://e.example","bearer_token_env_var":"TOKEN","env_http_headers":{"AUTHORIZATION":"TEAM"}}`, "error: server s: env_http_headers.AUTHORIZATION: a second header"},
		{`{"url":"https://e.example","bearer_token_env_var":"sk-1"}`, "error: server s: bearer_token_env_var: expected the name of an environment variable"},
		{`{"url":"https://e.example","bearer_token_env_var":7}`, "error: server s: bearer_token_env_var: expected a string"},
		{`{"url":"https://e.example","env_http_headers":["X"]}`, "error: server s: env_http_headers: expected an object"},
		{`{"url":"https://e.example","env_http_headers":{"X Y":"TEAM"}}`, `error: server s: env_http_headers["X Y"]: expected the name of a header`},
		{`{"command":"x","env_vars":"PASSED"}`, "error: server s: env_vars: expected an array"},
		{`{"command":"x","env_vars":["A=b"]}`, "error: server s: env_vars[0]: expected the name of a variable"},
		{`{"command":"x","env_vars":[{"name":"A","source":"remote"}]}`, "error: server s: env_vars[0]: expected the source local"},
	} {
		got := ""
		file, err := config.Parse([]byte(`{"mcp_servers":{"s":`+test.server+`}}`), "config.toml")
		if err == nil {
			var r *config.Resolved
			if r, err = file.Server("s").Expand(t.Context(), &config.Expander{LookupEnv: lookup(env)}); err == nil {
				all := maps.Clone(r.Env)
				if r.Type != "stdio" {
					all = r.Headers
				}
				var terms []string
				for _, name := range slices.Sorted(maps.Keys(all)) {
					terms = append(terms, name+"="+all[name].Reveal())
				}
				got = strings.Join(terms, " ")
			}
		}
		if err != nil {
			got = "error: " + err.Error()
			got = strings.Replace(got, err.Error(), err.Error()[strings.Index(err.Error(), "server s"):], 1)
		}
		if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%s: %s\nwant %s", test.server, got, test.want)
		}
	}
}

// A server that is not configured by the user of the machine reads no environment variable, in whatever form.
func TestNoExpandReadsNothing(t *testing.T) {
	e := &config.Expander{NoExpand: true, LookupEnv: lookup(map[string]string{"X": "secret"})}
	for _, text := range []string{
		`{"mcp_servers":{"s":{"url":"https://e.example","bearer_token_env_var":"X"}}}`,
		`{"mcp_servers":{"s":{"url":"https://e.example","env_http_headers":{"A":"X"}}}}`,
		`{"mcp_servers":{"s":{"command":"x","env_vars":["X"]}}}`,
		`{"mcp":{"s":{"type":"local","command":["x","{env:X}"],"environment":{"A":"$X"}}}}`,
		`{"mcpServers":{"s":{"httpUrl":"https://e.example","headers":{"A":"$X"}}}}`,
	} {
		file, err := config.Parse([]byte(text), "f")
		if err != nil {
			t.Fatal(err)
		}
		r, err := file.Servers[0].Expand(t.Context(), e)
		if err == nil && (strings.Contains(r.Env["A"].Reveal()+r.Headers["A"].Reveal(), "secret") || len(r.Args) > 0 && r.Args[0].Reveal() != "{env:X}") {
			t.Errorf("%s reads the variable", text)
		}
	}
}

// Files of hosts whose servers are not in mcpServers.
func TestWrappers(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{"mcp":{"a":{"type":"local","command":["x","y"]},"b":{"type":"remote","url":"https://e.example/sse"}}}`, "a stdio x [y] b sse"},
		{`{"mcp":{"a":{"type":"local","command":"x","args":["y"]}}}`, "a stdio x [y]"},
		{`{"mcp":{"servers":{"a":{"command":"x"}},"inputs":[]},"editor.fontSize":14}`, "a stdio x []"},
		{`{"mcp":{"servers":{"type":"local","command":["x"]}}}`, "servers stdio x []"},
		{`{"mcp":{"command":"x"}}`, "mcp stdio x []"}, // a server of this name
		{`{"mcp":null}`, ""},
		{`{"context_servers":{"a":{"command":{"path":"x","args":["y"],"env":{}}},"b":{"settings":{}},"c":{"url":"https://e.example"}},"theme":"One"}`, "a stdio x [y] c http"},
		{`{"mcp_servers":{"a":{"command":"x"}},"model":"m"}`, "a stdio x []"},
		{`{"mcpServers":{"a":{"command":"x"}},"mcp":{"excluded":["b"]}}`, "a stdio x []"},
		{`{"mcpServers":{"a":{"command":["x","y"],"args":["z"]}}}`, "a stdio x [y z]"},

		{`{"mcp":{"a":{"type":"local","command":[]}}}`, "error: server a: command: expected a program and its arguments"},
		{`{"mcp":{"a":{"type":"local","command":["x",7]}}}`, "error: server a: command[1]: expected a string"},
		{`{"context_servers":{"a":{"command":{"path":"x"},"args":["y"],"env":{}}}}`, "a stdio x [y]"},
		{`{"context_servers":{"a":{"command":{"path":"x","args":["y"]},"args":["z"]}}}`, `error: server a: command.args: "args" is given twice`},
		{`{"context_servers":{"a":{"command":{"path":"x","cwd":"y"}}}}`, "error: server a: command.cwd: expected path, args or env"},
		{`{"mcp":{"a":{}},"context_servers":{}}`, `error: expected "mcp" or "context_servers", found both`},
		{`{"Context_Servers":{"a":{"command":"x"}}}`, `error: expected the spelling "context_servers"`},
	} {
		file, err := config.Parse([]byte(test.text), "f")
		got := ""
		if err != nil {
			got = "error: " + err.Error()
		}
		if file != nil && err == nil {
			for _, s := range file.Servers {
				got += " " + s.Alias + " " + s.Type
				switch {
				case s.Disabled:
					got += " disabled"
				case s.Type == "stdio":
					got += fmt.Sprint(" ", s.Command, " ", s.Args)
				}
			}
		}
		want, isError := strings.CutPrefix(test.want, "error: ")
		if !isError && strings.TrimSpace(got) != want || isError && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %q, want %q", test.text, got, test.want)
		}
	}
}
