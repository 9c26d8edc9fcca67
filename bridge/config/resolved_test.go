package config_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// canary is a secret value that must not be printed.
const canary = "C4NARY-s3cret"

// leaks reports whether a text contains the canary, in any form in which fmt prints it.
func leaks(text string) bool {
	bytes := []byte(canary)
	numbers := strings.Trim(fmt.Sprintf("%v", bytes), "[]")
	for _, form := range []string{
		canary, hex.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte(canary))[:12], numbers,
		strings.ReplaceAll(numbers, " ", ","), fmt.Sprintf("%#v", []byte(canary))[8:20],
	} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
			return true
		}
	}
	return false
}

// printHidden prints a value, and structs with the value in an unexported field.
func printHidden(t *testing.T, value any) string {
	t.Helper()
	hidden := struct{ inner any }{value}
	return prints(value, hidden, &hidden)
}

// prints prints a value with all verbs, encoders and log handlers.
func prints(value any, holders ...any) string {
	var b bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%T", "%t", "%10.3v"} {
		for _, v := range append(holders, value, &value, []any{value}, map[string]any{"k": value}) {
			fmt.Fprintf(&b, verb+"\n", v)
		}
	}
	text, err := json.Marshal(value)
	fmt.Fprintln(&b, string(text), err)
	text, err = xml.Marshal(value)
	fmt.Fprintln(&b, string(text), err)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(handler).Info("m", "value", value, "list", []any{value}, slog.Group("g", "value", value))
	}
	return b.String()
}

func TestSecretsAreNotPrinted(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"file": canary, "vars": "V=" + canary} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, err := config.Parse([]byte(`{
		"child": {"command": "${T}", "args": ["--key=${T}", "${file:file}", "${NO:-`+canary+`}"], "env": {"A": "${T}", "B": "`+canary+`"},
			"envFile": "vars", "cwd": "/${T}", "apiKey": "`+canary+`", "dovetail": {"passEnv": ["T"]}},
		"remote": {"url": "https://u${T}:`+canary+`@h/${T}?key=`+canary+`", "headers": {"Authorization": "Bearer ${T}", "X": "`+canary+`"}}
	}`), filepath.Join(dir, "mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	env := &config.Expander{LookupEnv: lookup(map[string]string{"T": canary})}
	list, err := file.Expand(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		secrets := append([]config.Secret{r.Command, r.Dir, r.URL}, r.Args...)
		for _, s := range r.Env {
			secrets = append(secrets, s)
		}
		for _, s := range r.Headers {
			secrets = append(secrets, s)
		}
		found := 0
		for _, s := range secrets {
			if strings.Contains(s.Reveal(), canary) {
				found++
			}
		}
		if want := map[string]int{"child": 9, "remote": 3}[r.Alias]; found != want {
			t.Errorf("%s: the canary is in %d texts, want %d: the test proves nothing", r.Alias, found, want)
		}
		for _, v := range []any{r, *r, &r, r.Command, r.Args, r.Env, r.Headers, r.URL, &r.Command, struct{ url config.Secret }{r.URL}, struct{ r config.Resolved }{*r}} {
			if text := printHidden(t, v); leaks(text) {
				t.Errorf("%T prints the secret:\n%s", v, text)
			}
		}
		if _, err := r.Dialer(nil); err != nil && leaks(err.Error()) {
			t.Error(err)
		}
		if leaks(r.Fingerprint()) {
			t.Error("the fingerprint contains the secret")
		}
	}
	for _, v := range []any{file, *file, file.Servers, file.Servers[0], *file.Servers[1]} {
		if text := prints(v); leaks(text) {
			t.Errorf("%T prints the secret: %s", v, text)
		}
	}
	if !leaks(fmt.Sprintf("%x", canary)) || !leaks(fmt.Sprintf("%v", []byte(canary))) || !leaks(fmt.Sprintf("%#v", []byte(canary))) {
		t.Error("leaks does not find the canary")
	}
}

func TestErrorsContainNoSecrets(t *testing.T) {
	bad := canary + "\n\x00"
	env := &config.Expander{LookupEnv: lookup(map[string]string{"T": bad, "L": canary + strings.Repeat("x", maxValue)})}
	for _, server := range []string{
		`{"command":"${T}","args":["${T}","${L}"],"env":{"A":"${T}"},"envFile":"${T}","cwd":"${T}"}`,
		`{"command":"x","envFile":"/${L}"}`,
		`{"command":"x","args":["${file:${L}}"]}`,
		`{"url":"${T}","headers":{"A":"${T}"}}`,
		`{"url":"http://${T}","type":"ws"}`,
	} {
		_, err := one(t, server).Expand(t.Context(), env)
		if err == nil || leaks(err.Error()) || leaks(fmt.Sprintf("%+v %#v", err, err)) {
			t.Errorf("%s: %v", server, err)
		}
	}
	for _, text := range []string{
		`{"a":{"command":"x","env":{"A":"` + canary + `\x"}}}`,
		`{"a":{"command":"x","env":{"A":"` + canary + "\n" + `"}}}`,
		`{"a":{"command":"x","env":{"A":` + canary + `}}}`,
		`{"a":{"command":"x","env":{"A":["` + canary + `"]}}}`,
		`{"a":{"command":"x","args":"` + canary + `"}}`,
		`{"a":{"command":"x","timeout":"` + canary + `"}}`,
		`{"a":{"command":["x",{"` + canary + `":"` + canary + `"}]}}`,
		`{"a":{"url":"http://h","bearer_token_env_var":"` + canary + `-"}}`,
		`{"a":{"command":"x","dovetail":{"passEnv":["=` + canary + `"]}}}`,
	} {
		_, err := config.Parse([]byte(text), "f")
		if _, ok := errors.AsType[*config.Error](err); !ok || leaks(err.Error()) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// User, password, query and fragment of a URL are not printed, wherever variables are.
func TestURLsAreShownWithoutSecrets(t *testing.T) {
	env := map[string]string{"SCHEME": "https://", "QUERY": "https://h/?x=1", "AT": "u@", "SLASH": "/"}
	for _, address := range []string{
		"https://${file:a/b:-x}:" + canary + "@h/",
		"https://u:" + canary + "@h/${file:a@b:-x}",
		"https://u:${file:a@b:-x}" + canary + "@h/",
		"${SCHEME}u:" + canary + "@h/",
		"https:${SLASH}/u:" + canary + "@h/",
		"${QUERY}&key=" + canary,
		"${QUERY}&key=" + canary + "?",
		"https://h/${NO:-x?y}&key=" + canary,
		"https://h/#" + canary,
		"https://h/?#" + canary,
		"https://${AT}" + canary + "@h",
	} {
		s, err := one(t, fmt.Sprintf(`{"url":%q}`, address)).Expand(t.Context(), &config.Expander{LookupEnv: lookup(env)})
		if err != nil && strings.Contains(err.Error(), canary) || err == nil && leaks(fmt.Sprint(s)) {
			t.Errorf("%s: shown is %v, %v", address, s, err)
		}
	}
}

// Errors of the operating system contain the expanded command. It is replaced by the one in
// the file.
func TestDialErrorsContainNoSecrets(t *testing.T) {
	env := map[string]string{"K": canary}
	for server, want := range map[string]string{
		`{"command":"/no/${K}"}`:                                      "/no/${K}",
		`{"command":"${K}"}`:                                          "${K}",
		`{"command":"cat","cwd":"/no/${K}"}`:                          "cat",
		`{"url":"http://127.0.0.1:1/x?key=${K}"}`:                     "",
		`{"url":"http://u:${K}@127.0.0.1:1/x?key=${K}","type":"sse"}`: "",
		`{"url":"ws://127.0.0.1:1/x?key=${K}"}`:                       "",
	} {
		dialer, err := resolve(t, server, env).Dialer(nil)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := dialer.Dial(t.Context(), refuseAll{})
		if err == nil {
			_, err = conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`))
			conn.Close()
		}
		if err == nil || leaks(err.Error()) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", server, err)
		}
		if want == "/no/${K}" && !errors.Is(err, fs.ErrNotExist) {
			t.Error("the cause is lost:", err)
		}
	}
}

func TestResolvedShowsItsVariables(t *testing.T) {
	env := &config.Expander{LookupEnv: lookup(map[string]string{"T": canary})}
	for server, want := range map[string]string{
		`{"command":"x${T}","args":["-v","--key=${env:T}","${NO:-d}","$${T}"],"env":{"A":"1"},"cwd":"/${T}","dovetail":{"lazy":true}}`: `{"alias":"a","type":"stdio","command":"x${T}","args":["-v","--key=${env:T}","${NO}","${T}"],"env":{"A":"[redacted]"},"cwd":"/${T}",` +
			`"options":{"Required":false,"Lazy":true,"Sessions":0,"Auth":"","StartTimeout":0,"IdleTimeout":0,"CallTimeout":0,"MaxCalls":0,"InheritEnv":false,` +
			`"PassEnv":null,"Tools":{"Allow":null,"Deny":null,"Override":null}}}`,
		`{"url":"https://u:p@${T}/mcp/${T}?x=1","headers":{"A":"Bearer ${T}"}}`: `{"alias":"a","type":"http","url":"https://[redacted]@${T}/mcp/${T}?[redacted]","headers":{"A":"[redacted]"}}`,
	} {
		s := one(t, strings.ReplaceAll(server, "@${T}", "@h${EMPTY:-}"))
		r, err := s.Expand(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(r); got != strings.ReplaceAll(want, "@${T}", "@h${EMPTY}") {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestSecret(t *testing.T) {
	var zero config.Secret
	if zero.Reveal() != "" || zero.String() != "" {
		t.Error("the zero secret is not empty")
	}
	s := config.NewSecret("text", "shown")
	if s.Reveal() != "text" || s.String() != "shown" || s.LogValue().String() != "shown" {
		t.Error("a secret has other texts")
	}
}

func TestFingerprintsDifferWithWhatRuns(t *testing.T) {
	seen := map[string]string{}
	for _, server := range []string{
		`{"command":"x"}`,
		`{"command":"x","args":[""]}`,
		`{"command":"x","args":["a","b"]}`,
		`{"command":"x","args":["b","a"]}`,
		`{"command":"x","args":["ab"]}`,
		`{"command":"xa","args":["b"]}`,
		`{"command":"x","args":["a"],"env":{"b":""}}`,
		`{"command":"x","env":{"a":"b"}}`,
		`{"command":"x","env":{"ab":""}}`,
		`{"command":"x","env":{"A":"${V}"}}`,
		`{"command":"x","env":{"A":"b"}}`,
		`{"command":"x","env":{"A":"b","C":""}}`,
		`{"command":"x","cwd":"/a"}`,
		`{"command":"x","cwd":"/b"}`,
		`{"command":"x","dovetail":{"inheritEnv":true}}`,
		`{"command":"x","dovetail":{"passEnv":["V"]}}`,
		`{"url":"http://h/x"}`,
		`{"url":"http://h/y"}`,
		`{"url":"http://h/x","type":"sse"}`,
		`{"url":"http://h/x","type":"ws"}`,
		`{"url":"http://h/x","headers":{"A":"b"}}`,
		`{"url":"http://h/x","headers":{"A":"c"}}`,
		`{"url":"http://h/x","headers":{"B":"b"}}`,
	} {
		print := resolve(t, server, map[string]string{"V": "v"}).Fingerprint()
		if other, twice := seen[print]; twice {
			t.Errorf("%s and %s have the same fingerprint", server, other)
		}
		seen[print] = server
		if !regexp.MustCompile("^[0-9a-f]{64}$").MatchString(print) {
			t.Errorf("%q is no digest", print)
		}
	}
	r := resolve(t, `{"command":"x"}`, nil)
	before := r.Fingerprint()
	if r.Alias = "b"; r.Fingerprint() == before {
		t.Error("the alias does not affect the fingerprint")
	}
}

func TestFingerprintsAgree(t *testing.T) {
	for _, same := range [][]string{
		{`{"command":"x","args":["${V}"],"env":{"A":"1","B":"2"}}`, `{"env":{"B":"2","A":"${W:-1}"},"type":"stdio","args":["v"],"command":"x","lazy":1}`,
			`{"command":"x","args":["v"],"env":{"A":"1","B":"2"},"timeout":5000,"dovetail":{"lazy":true,"tools":{"deny":["x"]}}}`},
		{`{"url":"http://h/x","headers":{"A":"${V}","B":""}}`, `{"httpUrl":"http://h/x","headers":{"b":"","a":"v"}}`},
	} {
		want := resolve(t, same[0], map[string]string{"V": "v"}).Fingerprint()
		for _, server := range same[1:] {
			if got := resolve(t, server, map[string]string{"V": "v"}).Fingerprint(); got != want {
				t.Errorf("%s\n%s\ndiffer", same[0], server)
			}
		}
	}
}

// Fingerprints are stored, so they must not change between versions.
func TestFingerprintIsStable(t *testing.T) {
	got := resolve(t, `{"command":"npx","args":["-y","x"],"env":{"A":"1"},"cwd":"/"}`, nil).Fingerprint()
	if want := "4bb5ce911edadbd2552e249e2b2f4ebb420fb19b3fcddec841e29a2a24101444"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The fingerprint for a bridge covers the launch and the options.
func TestBridgeFingerprints(t *testing.T) {
	read := func(text string) map[string]string {
		list, err := parse(t, text).Bridge(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		fingerprints := make(map[string]string)
		for _, c := range list {
			fingerprints[c.Alias] = c.Fingerprint
		}
		return fingerprints
	}
	before := read(`{"same":{"command":"x"},"args":{"command":"x"},"options":{"command":"x"},"off":{"command":"x"}}`)
	after := read(`{"options":{"command":"x","timeout":5000},"args":{"command":"x","args":["y"]},
	  "same":{"type":"stdio","command":"${NO_SUCH_VARIABLE:-x}"},"off":{"command":"x","disabled":true}}`)
	for alias, same := range map[string]bool{"same": true, "args": false, "options": false, "off": false} {
		if (before[alias] == after[alias]) != same {
			t.Errorf("%s: %q is %q now", alias, before[alias], after[alias])
		}
	}
}

// TestLaunch: the text is one line without secrets, and changes with every value.
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
			t.Errorf("%s shows a secret: %q", alias, got)
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
