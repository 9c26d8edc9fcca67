package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/mcp"
)

// The documented limits of the package.
const (
	maxFile     = 1 << 20
	maxServers  = 256
	maxValue    = 128 << 10
	maxExpanded = 1 << 20
)

func parse(t *testing.T, text string) *config.File {
	t.Helper()
	file, err := config.Parse([]byte(text), "mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// one parses a file with one server, a.
func one(t *testing.T, server string) *config.Server {
	t.Helper()
	return parse(t, `{"mcpServers":{"a":`+server+`}}`).Servers[0]
}

func TestErrorsNamePlaceAndExpectation(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, `mcp.json:1:1: invalid JSON: expected a value, found the end of the text`},
		{"{\n  \"a\": tru", `mcp.json:2:8: invalid JSON: expected true`},
		{`{} x`, `mcp.json:1:4: invalid JSON: `},
		{`[,]`, `mcp.json:1:2: invalid JSON: `},
		{`[1,,]`, `mcp.json:1:4: invalid JSON: `},
		{`{"a":,}`, `mcp.json:1:6: invalid JSON: `},
		{`{"a":1,]`, `invalid JSON: `},
		{`{} /* open`, `mcp.json:1:4: invalid JSON: `},
		{`"x"`, `mcp.json:1:1: expected an object with the servers, found a string`},
		{`{"globalShortcut":""}`, `mcp.json:1:1: expected an object with "mcpServers", "servers", "mcp" or "context_servers", or one of servers`},
		{`{"MCPServers":{}}`, `mcp.json:1:2: MCPServers: expected the spelling "mcpServers"`},
		{`{"mcpServers":{},"Inputs":[]}`, `mcp.json:1:18: Inputs: expected the spelling "inputs"`},
		{`{"mcpServers":{},"servers":{}}`, `expected "mcpServers" or "servers", found both`},
		{`{"mcpServers":{},"mcpServers":{}}`, `mcp.json:1:18: mcpServers: duplicate member "mcpServers"`},
		{`{"mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}`, `duplicate member "a"`},
		{`{"mcpServers":3}`, `mcp.json:1:15: mcpServers: expected an object or an array of servers, found a number`},
		{`{"servers":{"a":3}}`, `mcp.json:1:17: server a: expected an object with a server, found a number`},
		{`[{"command":"x"}]`, `mcp.json:1:2: [0]: expected a member "name"`},
		{`[{"name":"a","command":"x"},{"name":"a","command":"x"}]`, `mcp.json:1:29: [1]: a second server with the alias "a"`},
		{`{"mcpServers":{"":{}}}`, `the alias "": expected`},
	} {
		expectError(t, test.text, test.want)
	}
}

func TestErrorsOfServersNameServerAndField(t *testing.T) {
	for server, want := range map[string]string{
		`{}`:                                `mcp.json:1:16: server a: expected "command" or "url"`,
		`{"command":""}`:                    `mcp.json:1:16: server a: expected "command" or "url"`,
		`{"command":7}`:                     `mcp.json:1:31: server a: command: expected a string, found a number`,
		`{"Command":"x"}`:                   `mcp.json:1:21: server a: Command: expected the spelling "command"`,
		`{"command":"x","url":"http://h"}`:  `expected "command" or "url", found both: "type" can decide`,
		`{"type":"stdio","url":"http://h"}`: `server a: expected "command": its type is stdio`,
		`{"type":"http","command":"x"}`:     `server a: expected "url": its type is http`,
		`{"type":"gopher","command":"x"}`:   `server a: type: expected stdio, http (or streamable-http), sse or ws, found "gopher"`,
		`{"type":1,"command":"x"}`:          `server a: type: expected a string, found a number`,
		`{"command":"x","type":"stdio","transport":"stdio"}`:                                   `server a: transport: "transport" means the same as "type": expected one of them`,
		`{"command":"x","disabled":true,"enabled":false}`:                                      `"enabled" means the same as "disabled"`,
		`{"command":"x","args":["y",null]}`:                                                    `server a: args[1]: expected a string, found null`,
		`{"command":"x","args":"y"}`:                                                           `server a: args: expected an array of strings, found a string`,
		`{"command":"x","env":{"A":[]}}`:                                                       `server a: env.A: expected a string, found an array`,
		`{"command":"x","env":{"A=B":""}}`:                                                     `server a: env["A=B"]: expected the name of a variable, without =`,
		`{"command":"x","env":{"A":"1","A":"2"}}`:                                              `server a: env.A: duplicate member "A"`,
		`{"url":"http://h","headers":{"A B":""}}`:                                              `server a: headers["A B"]: expected the name of a header`,
		`{"url":"http://h","headers":{"X":"","x":""}}`:                                         `server a: headers.x: a second header of this name: names are not case-sensitive`,
		`{"command":"x","disabled":"yes"}`:                                                     `server a: disabled: expected true or false, found a string`,
		`{"command":"x","timeout":-1}`:                                                         `server a: timeout: expected a positive duration such as "30s", or a number of milliseconds`,
		`{"command":"x","timeout":"soon"}`:                                                     `server a: timeout: expected a positive duration`,
		`{"command":"x","timeout":60}`:                                                         `server a: timeout: a number is milliseconds, and 60 is 60ms: expected at least 1000, or a unit such as "60s"`,
		`{"command":"x","timeout":true}`:                                                       `found a boolean`,
		`{"command":"x","dovetail":{"lasy":true}}`:                                             `server a: dovetail.lasy: expected one of required, lazy, sessions`,
		`{"url":"http://h","dovetail":{"auth":"own"}}`:                                         `server a: dovetail.auth: expected none, shared, user, exchange or enterprise`,
		`{"url":"http://h","dovetail":{"auth":true}}`:                                          `server a: dovetail.auth: expected a string, found a boolean`,
		`{"command":"x","dovetail":{"auth":"user"}}`:                                           `server a: dovetail: auth user is for a server at a URL`,
		`{"url":"http://h","headers":{"authorization":"Bearer x"},"dovetail":{"auth":"user"}}`: `server a: dovetail: auth user replaces the header Authorization`,
		`{"url":"http://h","oauth":{"clientId":"x"},"dovetail":{"auth":"exchange"}}`:           `server a: dovetail: auth exchange needs oauth with clientId and issuer`,
		`{"url":"http://h","oauth":{"issuer":"http://i"},"dovetail":{"auth":"enterprise"}}`:    `server a: dovetail: auth enterprise needs oauth with clientId and issuer`,
		`{"url":"http://h","dovetail":{"auth":"user","sessions":1}}`:                           `server a: dovetail: auth user gives each user a session`,
		`{"url":"http://h","dovetail":{"auth":"shared","sessions":2}}`:                         `server a: dovetail: with auth shared all users share one session`,
		`{"command":"x","dovetail":{"maxCalls":0}}`:                                            `server a: dovetail.maxCalls: expected an integer from 1 to 2147483647`,
		`{"command":"x","dovetail":{"maxCalls":1.5}}`:                                          `server a: dovetail.maxCalls: expected an integer from 1 to 2147483647`,
		`{"command":"x","dovetail":{"passEnv":["A="]}}`:                                        `server a: dovetail.passEnv[0]: expected the name of a variable, without =`,
		`{"command":"x","dovetail":{"tools":{"alow":[]}}}`:                                     `server a: dovetail.tools.alow: expected one of allow, deny, override`,
		`{"command":"x","dovetail":{"tools":{"allow":[]}}}`:                                    `server a: dovetail.tools.allow: expected at least one name: to offer no tools, deny "*"`,
		`{"command":"x","dovetail":{"tools":{"deny":[""]}}}`:                                   `server a: dovetail.tools.deny[0]: expected the name of a tool`,
		`{"command":"x","dovetail":{"tools":{"override":{"t":{"tittle":""}}}}}`:                `server a: dovetail.tools.override.t.tittle: expected one of name, title, description`,
	} {
		expectError(t, `{"mcpServers":{"a":`+server+`}}`, want)
	}
}

// A name that is not a valid alias gets the same alias in every order of the servers.
func TestNamesBecomeAliases(t *testing.T) {
	for _, test := range []struct{ names, want string }{
		{"Sequential Thinking", "Sequential-Thinking"},
		{"github.com/upstash/context7-mcp", "github.com-upstash-context7-mcp"},
		{"@scope/pkg", "scope-pkg"},
		{"my__srv", "my_srv"},
		{"a_", "a"},
		{"é", "server-4a9955"},
		{"a\\n", "a"},
		{strings.Repeat("x", 41), strings.Repeat("x", 33) + "-316459"},
		{"a b,a-b", "a-b-c8687a,a-b"},
		{"a-b,a b", "a-b,a-b-c8687a"},
		{"a b,a/b", "a-b,a-b-c14cdd"},
	} {
		var members, aliases, names []string
		for name := range strings.SplitSeq(test.names, ",") {
			members = append(members, `"`+name+`":{"command":"x"}`)
		}
		file := parse(t, `{"mcpServers":{`+strings.Join(members, ",")+`}}`)
		for _, s := range file.Servers {
			aliases = append(aliases, s.Alias)
			names = append(names, strings.ReplaceAll(s.Name, "\n", `\n`))
		}
		if got := strings.Join(aliases, ","); got != test.want || strings.Join(names, ",") != test.names {
			t.Errorf("%s became %s, want %s; the names are %q", test.names, got, test.want, names)
		}
		if len(file.Warnings) == 0 {
			t.Errorf("%s: no warning", test.names)
		}
	}
}

// A mistake in the entry of one server does not affect the other servers.
func TestMistakeDisablesOneServer(t *testing.T) {
	for _, text := range []string{
		`{"mcpServers":{"bad":{"command":1},"good":{"command":"x"}}}`,
		`{"mcpServers":{"good":{"command":"x"},"bad":{"command":"x","timeout":60}}}`,
		`{"mcpServers":{"good":{"command":"x"},"":{"command":"x"}}}`,
		`[{"name":"good","command":"x"},{"name":"good","command":"y"}]`,
		`{"servers":{` + strings.Repeat(`"bad%d":{},`, 200) + `"good":{"command":"x"}}}`,
	} {
		for n := range 200 {
			text = strings.Replace(text, "%d", fmt.Sprint(n), 1)
		}
		file, err := config.Parse([]byte(text), "f")
		if file == nil || err == nil || len(file.Servers) != 1 || file.Servers[0].Command != "x" || file.Servers[0].Name != "good" {
			t.Errorf("%.100s: got %v, error %v", text, file, err)
		}
	}
	for _, text := range []string{`{"mcpServers":{"good":{"command":"x"}},"inputs":1}`, `{"servers":{"a":{},"a":{}}}`} {
		if file, err := config.Parse([]byte(text), "f"); file != nil || err == nil {
			t.Errorf("%s: got %v, error %v", text, file, err)
		}
	}
}

func expectError(t *testing.T, text, want string) {
	t.Helper()
	file, err := config.Parse([]byte(text), "mcp.json")
	if file != nil && len(file.Servers) > 1 || err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
	}
	if _, ok := errors.AsType[*config.Error](err); !ok {
		t.Errorf("%s: %T is no *config.Error", text, err)
	}
}

func TestColumnsAreCharacters(t *testing.T) {
	expectError(t, "{\n/* größer */ \"mcpServers\": 3}", "mcp.json:2:28: mcpServers: ")
	expectError(t, "\uFEFF3", "mcp.json:1:1: ")
}

func TestAllErrorsAreTold(t *testing.T) {
	_, err := config.Parse([]byte(`{"mcpServers":{"a":{"command":1,"args":[2,3]},"b":{}}}`), "f")
	if n := len(strings.Split(err.Error(), "\n")); n != 4 {
		t.Errorf("got %d errors, want 4: %v", n, err)
	}
	_, err = config.Parse([]byte(`{"mcpServers":{"a":{"command":"x","args":[`+strings.Repeat("0,", 1000)+`]}}}`), "f")
	if n := len(strings.Split(err.Error(), "\n")); n != 65 {
		t.Errorf("got %d errors, want 64 and a word that there are more", n)
	}
}

func TestTypeIsInferred(t *testing.T) {
	for server, want := range map[string]string{
		`{"command":"x"}`:                                       "stdio",
		`{"url":"https://h/mcp"}`:                               "http",
		`{"url":"https://h/"}`:                                  "http",
		`{"url":"https://h/a/sse"}`:                             "sse",
		`{"url":"https://h/a/sse/"}`:                            "sse",
		`{"url":"https://h/sse/mcp"}`:                           "http",
		`{"url":"https://sse/mcp?x=/sse#/sse"}`:                 "http",
		`{"url":"https://h/assess"}`:                            "http",
		`{"url":"${BASE}/sse"}`:                                 "sse",
		`{"url":"wss://h/sse"}`:                                 "ws",
		`{"httpUrl":"https://h/sse"}`:                           "http",
		`{"url":"https://h/sse","type":"http"}`:                 "http",
		`{"url":"https://h/mcp","type":"SSE"}`:                  "sse",
		`{"url":"https://h/sse","transport":"streamable-http"}`: "http",
		`{"url":"https://h/sse","protocol":"streamableHttp"}`:   "http",
		`{"url":"https://h/mcp","type":"websocket"}`:            "ws",
		`{"url":"https://h/mcp","command":"x","type":"stdio"}`:  "stdio",
		`{"url":null,"command":"x","env":null}`:                 "stdio",
	} {
		if got := one(t, server).Type; got != want {
			t.Errorf("%s: got %s, want %s", server, got, want)
		}
	}
}

// Without a type, the expanded URL decides.
func TestTypeFollowsTheExpandedURL(t *testing.T) {
	env := &config.Expander{LookupEnv: func(string) (string, bool) { return "https://h/sse", true }}
	for server, want := range map[string]string{
		`{"url":"${URL}"}`:               "sse",
		`{"url":"${URL}","type":"http"}`: "http",
		`{"httpUrl":"${URL}"}`:           "http",
	} {
		r, err := one(t, server).Expand(t.Context(), env)
		if err != nil || r.Type != want {
			t.Errorf("%s: got %v %v, want %s", server, r, err, want)
		}
	}
}

func TestUnusedMembersAreReported(t *testing.T) {
	file := parse(t, `{"mcpServers":{"a":{"command":"x","headers":{},"icon":"y"},
  "b":{"url":"https://h","cwd":"/","we ird\n":1,"includeTools":[]}},"other":1}`)
	var got []string
	for _, w := range file.Warnings {
		got = append(got, w.String())
	}
	want := []string{
		`1:48: mcpServers.a.icon: is unknown and has no effect`,
		`1:35: mcpServers.a.headers: has no effect: the server's type is stdio`,
		`2:36: mcpServers.b.["we ird\n"]: is unknown and has no effect`,
		`2:64: mcpServers.b.includeTools: is empty and allows all tools`,
		`2:26: mcpServers.b.cwd: has no effect: the server's type is http`,
		`2:69: other: is unknown and has no effect`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if string(file.Servers[0].Extra["icon"]) != `"y"` || string(file.Extra["other"]) != "1" {
		t.Error("what was not understood is not kept")
	}
	many := `{"x":1` // one more than are events
	for i := range 100 {
		many += fmt.Sprintf(`,"x%d":1`, i)
	}
	if n := len(parse(t, many+`,"servers":{}}`).Warnings); n != 64 {
		t.Errorf("%d warnings, want 64", n)
	}
}

// A mistake is reported once.
func TestErrorsAreToldOnce(t *testing.T) {
	for _, text := range []string{`[{"name":"a","command":"x","command":"y"}]`, `{"servers":[{"name":"a","name":"b","command":"x"}]}`, `[3]`} {
		if _, err := config.Parse([]byte(text), "f"); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Editors create such files.
func TestInputsAreEnoughForAFile(t *testing.T) {
	if file := parse(t, `{"inputs":[{"id":"a"}]}`); len(file.Inputs) != 1 || len(file.Servers) != 0 {
		t.Errorf("got %v", file)
	}
}

func TestSizesAreBounded(t *testing.T) {
	expectError(t, strings.Repeat(" ", maxFile+1), "a configuration has at most 1048576 bytes")
	var b strings.Builder
	for i := range maxServers {
		fmt.Fprintf(&b, `"s%d":{"command":"x"},`, i)
	}
	if n := len(parse(t, "{"+b.String()+"}").Servers); n != maxServers {
		t.Error(n, "servers")
	}
	expectError(t, "{"+b.String()+`"z":{"command":"x"}}`, "expected at most 256 servers")
	expectError(t, `{"servers":{},"inputs":[`+strings.Repeat("{},", 100)+"]}", `inputs[0]: expected a member "id"`)
	expectError(t, strings.Repeat("[", maxFile), "invalid JSON: ")
	for _, piece := range []string{"/*", "/* ", `"`, "{", `{"":`, "1,", "\\"} {
		expectError(t, "["+strings.Repeat(piece, maxFile/len(piece)-1), "invalid JSON: ")
	}
}

func TestInputsAreChecked(t *testing.T) {
	expectError(t, `{"servers":{},"inputs":[{"id":"a"},{"id":"a"}]}`, `inputs[1]: a second input with the id "a"`)
	expectError(t, `{"servers":{},"inputs":{}}`, `inputs: expected an array of inputs, found an object`)
	expectError(t, `{"servers":{},"inputs":[{"id":"a","password":1}]}`, `inputs[0].password: expected true or false, found a number`)
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"missing":  "no such file",
		"folder":   "not a regular file",
		"long":     "longer than 1048576 bytes",
		"bad.json": "bad.json:1:1: ",
	} {
		path := filepath.Join(dir, name)
		switch name {
		case "folder":
			os.Mkdir(path, 0o755)
		case "long":
			os.WriteFile(path, make([]byte, maxFile+1), 0o600)
		case "bad.json":
			os.WriteFile(path, nil, 0o600)
		}
		_, err := config.Load(path)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOrderIsTheFiles(t *testing.T) {
	file := parse(t, `{"mcpServers":{"z":{"command":"1"},"a":{"command":"2"},"m":{"command":"3"}}}`)
	if got := fmt.Sprint(file); got != `mcp.json: servers ["z" "a" "m"]` {
		t.Error(got)
	}
	if file.Server("a").Command != "2" || file.Server("b") != nil {
		t.Error("looking up by alias")
	}
}

func TestParseKeepsNothingOfItsInput(t *testing.T) {
	text := []byte("{\n\"a\":{\"command\":\"${X}\"}}")
	file, err := config.Parse(text, "f")
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	_, err = file.Servers[0].Expand(t.Context(), &config.Expander{LookupEnv: func(string) (string, bool) { return "", false }})
	if err == nil || !strings.Contains(err.Error(), "f:2:16: server a: command: ${X} has no value") {
		t.Error(err)
	}
}

func TestToolsPermits(t *testing.T) {
	for _, test := range []struct {
		tools   config.Tools
		yes, no string
	}{
		{config.Tools{}, "a,b,", ""},
		{config.Tools{Allow: []string{"a"}}, "a", "b,aa,"},
		{config.Tools{Deny: []string{"a"}}, "b,aa", "a"},
		{config.Tools{Allow: []string{"read_*", "x"}, Deny: []string{"*secret*"}}, "read_,read_a,x", "read_secret,read_secrets,xread_a"},
		{config.Tools{Allow: []string{"a*b*c"}}, "abc,aXbYc,abbc,abcc", "ab,ac,abcd,bc"},
		{config.Tools{Allow: []string{"a*a"}}, "aa,aba", "a"},
		{config.Tools{Deny: []string{"*"}}, "", "a,"},
		{config.Tools{Allow: []string{"*"}}, "a,", ""},
	} {
		r := &config.Resolved{Alias: "a", Type: "http", Options: config.Options{Tools: test.tools}}
		c, err := r.Bridge(nil)
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.SplitSeq(test.yes, ",") {
			if test.yes != "" && !c.Select(mcp.KindTool, name) {
				t.Errorf("%v refuses %q", test.tools, name)
			}
		}
		for name := range strings.SplitSeq(test.no, ",") {
			if test.no != "" && c.Select(mcp.KindTool, name) {
				t.Errorf("%v permits %q", test.tools, name)
			}
		}
	}
}

var update = flag.Bool("update", false, "write what is read from testdata/*.json into testdata/*.golden")

// Each file is from the documentation of its host.
func TestFilesOfHosts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.json")
	if err != nil || len(names) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			file, err := config.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(t, file)
			golden := strings.TrimSuffix(name, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// describe returns a line for each field that is set, secrets included.
func describe(t *testing.T, file *config.File) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, s := range file.Servers {
		fields(t, &b, s.Alias, reflect.ValueOf(*s))
	}
	for _, input := range file.Inputs {
		fields(t, &b, "input "+input.ID, reflect.ValueOf(*input))
	}
	for _, warning := range file.Warnings {
		b.WriteString(warning.String() + "\n")
	}
	return b.Bytes()
}

func fields(t *testing.T, b *bytes.Buffer, path string, v reflect.Value) {
	t.Helper()
	for field, value := range v.Fields() {
		switch name := path + "." + field.Name; {
		case !field.IsExported(), value.IsZero():
		case value.Kind() == reflect.Struct:
			fields(t, b, name, value)
		default:
			text, err := json.Marshal(value.Interface())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(b, "%s = %s\n", name, text)
		}
	}
}
