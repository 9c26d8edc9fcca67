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
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// canary is a value that nothing may tell.
const canary = "C4NARY-s3cret"

// tells looks for the canary in the forms that printing gives it.
func tells(text string) bool {
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

// everyPrint prints a value in all ways that come to mind.
func everyPrint(t *testing.T, value any) string {
	t.Helper()
	hidden := struct{ inner any }{value}
	return prints(value, hidden, &hidden)
}

// prints prints a value in all ways, and with each verb what holds it.
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
			if text := everyPrint(t, v); tells(text) {
				t.Errorf("%T tells the secret:\n%s", v, text)
			}
		}
		if _, err := r.Dialer(nil); err != nil && tells(err.Error()) {
			t.Error(err)
		}
		if tells(r.Fingerprint()) {
			t.Error("the fingerprint tells")
		}
	}
	// What stands in the file is not for logs either.
	for _, v := range []any{file, *file, file.Servers, file.Servers[0], *file.Servers[1]} {
		if text := prints(v); tells(text) {
			t.Errorf("%T tells the secret: %s", v, text)
		}
	}
	if !tells(fmt.Sprintf("%x", canary)) || !tells(fmt.Sprintf("%v", []byte(canary))) || !tells(fmt.Sprintf("%#v", []byte(canary))) {
		t.Error("the canary would not be found")
	}
}

func TestErrorsTellNoSecrets(t *testing.T) {
	bad := canary + "\n\x00"
	env := &config.Expander{LookupEnv: lookup(map[string]string{"T": bad, "L": canary + strings.Repeat("x", config.MaxValue)})}
	for _, server := range []string{
		`{"command":"${T}","args":["${T}","${L}"],"env":{"A":"${T}"},"envFile":"${T}","cwd":"${T}"}`,
		`{"command":"x","envFile":"/${L}"}`,
		`{"command":"x","args":["${file:${L}}"]}`,
		`{"url":"${T}","headers":{"A":"${T}"}}`,
		`{"url":"http://${T}","type":"ws"}`,
	} {
		_, err := one(t, server).Expand(t.Context(), env)
		if err == nil || tells(err.Error()) || tells(fmt.Sprintf("%+v %#v", err, err)) {
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
		`{"a":{"command":["` + canary + `"]}}`,
		`{"a":{"command":"x","dovetail":{"passEnv":["=` + canary + `"]}}}`,
	} {
		_, err := config.Parse([]byte(text), "f")
		if _, ok := errors.AsType[*config.Error](err); !ok || tells(err.Error()) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Wherever the user, password, query and fragment of a URL are written, and whatever
// variables bring in or are called, what is shown has none of them.
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
		if err != nil && strings.Contains(err.Error(), canary) || err == nil && tells(fmt.Sprint(s)) {
			t.Errorf("%s: shown is %v, %v", address, s, err)
		}
	}
}

// The errors of the operating system have the whole command, and so are shown as the file
// has it.
func TestDialingTellsNoSecrets(t *testing.T) {
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
		conn, err := dialer.Dial(t.Context(), silent{})
		if err == nil {
			_, err = conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`))
			conn.Close()
		}
		if err == nil || tells(err.Error()) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", server, err)
		}
		if want == "/no/${K}" && !errors.Is(err, fs.ErrNotExist) {
			t.Error("the reason is lost:", err)
		}
	}
}

// What can be shown says where the values came from.
func TestResolvedShowsItsVariables(t *testing.T) {
	env := &config.Expander{LookupEnv: lookup(map[string]string{"T": canary})}
	for server, want := range map[string]string{
		`{"command":"x${T}","args":["-v","--key=${env:T}","${NO:-d}","$${T}"],"env":{"A":"1"},"cwd":"/${T}","dovetail":{"lazy":true}}`: `{"alias":"a","type":"stdio","command":"x${T}","args":["-v","--key=${env:T}","${NO}","${T}"],"env":{"A":"[redacted]"},"cwd":"/${T}",` +
			`"options":{"Required":false,"Lazy":true,"Shared":false,"StartTimeout":0,"IdleTimeout":0,"CallTimeout":0,"MaxCalls":0,"InheritEnv":false,` +
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

func TestSecretIsAText(t *testing.T) {
	var zero config.Secret
	if zero.Reveal() != "" || zero.String() != "" {
		t.Error("the zero secret is not empty")
	}
	s := config.NewSecret("text", "shown")
	if s.Reveal() != "text" || s.String() != "shown" || s.LogValue().String() != "shown" {
		t.Error("a secret is not what it was made of")
	}
}
