package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/pin"
)

// childConfig is the configuration of a server that runs.
func childConfig(t *testing.T) map[string]any {
	return map[string]any{"command": child(t)[1], "env": map[string]string{asServer: "1", "GORACE": "atexit_sleep_ms=0"}}
}

func writeConfig(t *testing.T, path string, servers map[string]any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve serves the valid servers of a configuration, logs the errors of the others, and applies changes.
func TestServeOverHTTP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	bad := map[string]any{"command": "x", "timeout": 60}
	writeConfig(t, path, map[string]any{"First One": childConfig(t), "bad": bad, "unset": map[string]any{"command": "${DOVETAIL_TEST_UNSET}"}})
	ctx, cancel := context.WithCancel(t.Context())
	said := &output{}
	ended := make(chan error, 1)
	const token = "0123456789abcdef"
	go func() {
		ended <- run(ctx, []string{"serve", "-config", path, "-http", "127.0.0.1:0", "-token", token, "-approve", "page"}, strings.NewReader(""), io.Discard, said)
	}()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	url := said.await(t, `serving  (http://[\d.:]+)/mcp`)[1]
	for _, part := range []string{`server bad: timeout: a number is milliseconds`, `DOVETAIL_TEST_UNSET`, `the alias is First-One`, `approve  http://`, `the server is ready. server=First-One`} {
		said.await(t, part)
	}
	try := func(args ...string) (string, error) {
		return inspectAt(t, append([]string{"-header", "Authorization: Bearer " + token}, args...)...)
	}
	if _, err := inspectAt(t, "tools", url+"/mcp"); statusOf(err) != needsLogin {
		t.Errorf("without a token: %v", err)
	}
	if out, err := try("tools", url+"/mcp"); err != nil || !strings.Contains(out, "First-One__greet") {
		t.Errorf("error %v:\n%s", err, out)
	}
	writeConfig(t, path, map[string]any{"First One": childConfig(t), "second": childConfig(t), "bad": bad})
	said.await(t, "the new configuration was applied")
	said.await(t, `the server is ready. server=second`)
	for deadline := time.Now().Add(30 * time.Second); ; { // its lists are read after it is ready
		out, err := try("tools", url+"/mcp")
		if err == nil && strings.Contains(out, "second__greet") {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("error %v:\n%s", err, out)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// silent is the value of asServer that makes the test binary a server that never answers.
const silent = "silent"

// A server that never answers does not delay the addresses, the states and the changes of the file.
func TestServeBeforeServersAreReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	mute := childConfig(t)
	mute["dovetail"] = map[string]any{"required": true}
	mute["env"] = map[string]string{asServer: silent, "GORACE": "atexit_sleep_ms=0"}
	writeConfig(t, path, map[string]any{"mute": mute})
	ctx, cancel := context.WithCancel(t.Context())
	said := &output{}
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"serve", "-config", path, "-http", "127.0.0.1:0", "-open", "-approve", "page"}, strings.NewReader(""), io.Discard, said)
		said.close()
		ended <- err
	}()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	url := said.await(t, `serving  (http://[\d.:]+)/mcp`)[1]
	get := func(path string) string {
		t.Helper()
		res, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, error %v", path, res.Status, err)
		}
		return string(body)
	}
	if states := get("/states"); !strings.Contains(states, `"mute"`) || strings.Contains(states, `"ready"`) {
		t.Errorf("states: %s", states)
	}
	if live := get("/livez"); live != "ok\n" {
		t.Errorf("livez: %s", live)
	}
	if res, err := http.Get(url + "/readyz"); err != nil {
		t.Error(err)
	} else if res.Body.Close(); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readyz before the server has started: %s", res.Status)
	}
	get("/approvals/")
	writeConfig(t, path, map[string]any{"other": childConfig(t)})
	said.await(t, "the new configuration was applied")
	said.await(t, "the server is ready. server=other")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// A required server that does not start ends the program.
func TestServeWithoutRequiredServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	writeConfig(t, path, map[string]any{"gone": map[string]any{"command": filepath.Join(t.TempDir(), "nothing"), "dovetail": map[string]any{"required": true}}})
	if out, err := inspectAt(t, "serve", "-config", path, "-http", "127.0.0.1:0"); statusOf(err) != failed || !strings.Contains(err.Error(), "gone") {
		t.Errorf("error %v:\n%s", err, out)
	}
}

// Entries are offered after they were accepted.
func TestPins(t *testing.T) {
	path, lock := filepath.Join(t.TempDir(), "mcp.json"), filepath.Join(t.TempDir(), "mcp.lock")
	writeConfig(t, path, map[string]any{"a": childConfig(t)})
	flags := []string{"-config", path, "-lock", lock}
	out, err := inspectAt(t, append([]string{"pins", "list"}, flags...)...)
	if err != checkFailed || !strings.Contains(out, "a__greet") {
		t.Fatalf("error %v:\n%s", err, out)
	}
	for name, hint := range map[string]string{"a__gret": `did you mean "a__greet"?`, "nothing like it": "dovetail pins list prints those that are"} {
		if _, err = inspectAt(t, append([]string{"pins", "accept", name}, flags...)...); !errors.Is(err, pin.ErrNotPending) || !strings.HasSuffix(err.Error(), hint) {
			t.Errorf("accept %s: error %v, want one that ends with %s", name, err, hint)
		}
	}
	if out, err = inspectAt(t, append([]string{"pins", "accept", "a__greet"}, flags...)...); err != nil || out != "accepted a__greet\n" {
		t.Fatalf("error %v:\n%s", err, out)
	}
	if out, err = inspectAt(t, append([]string{"pins", "list"}, flags...)...); err != checkFailed || strings.Contains(out, "new      a__greet\n") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err = inspectAt(t, append([]string{"pins", "accept", "-all"}, flags...)...); err != nil || !strings.Contains(out, "accepted a__ask\n") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err = inspectAt(t, append([]string{"pins", "list"}, flags...)...); err != nil || out != "" {
		t.Errorf("error %v:\n%s", err, out)
	}
}

// Entries of all kinds are pinned, and so are pages for a browser. serve withholds a page that has changed.
func TestPinsOfAllKinds(t *testing.T) {
	folder := t.TempDir()
	path, lock := filepath.Join(folder, "mcp.json"), filepath.Join(folder, "mcp.lock")
	flags := []string{"-config", path, "-lock", lock}
	all := filepath.Join(folder, "all.json")
	if err := os.WriteFile(all, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	writeConfig(t, path, map[string]any{"shelf": shelfConfig()})
	out, err := inspectAt(t, append([]string{"pins", "list"}, flags...)...)
	for _, want := range []string{"new      shelf__look\n", "new      resource:shelf://top\n", "new      resource:ui://shelf/view\n", "new      content:ui://shelf/view\n"} {
		if err != checkFailed || !strings.Contains(out, want) {
			t.Errorf("error %v, want %s:\n%s", err, want, out)
		}
	}
	if out, err := inspectAt(t, append([]string{"pins", "accept", "content:ui://nowhere"}, flags...)...); err == nil || !strings.Contains(err.Error(), "no such entry") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := inspectAt(t, append([]string{"pins", "accept", "resource:ui://shelf/view", "content:ui://shelf/view"}, flags...)...); err != nil {
		t.Fatalf("error %v:\n%s", err, out)
	}
	read := func(uri string) error {
		t.Helper()
		p := start(t, "-config", path, "-lock", lock, "-policy", all)
		_, err := p.connect(t, nil).ReadResource(t.Context(), uri, nil)
		if err := p.end(); err != nil {
			t.Error(err)
		}
		return err
	}
	if err := read("ui://shelf/view"); err != nil {
		t.Error(err)
	}
	if err := read("shelf://top"); err == nil {
		t.Error("a resource that was not accepted can be read")
	}
	writeConfig(t, path, map[string]any{"shelf": shelfConfig(viewText + "=<script>")})
	if err := read("ui://shelf/view"); err == nil || !strings.Contains(err.Error(), "quarantined: it has changed") {
		t.Errorf("a changed page: %v", err)
	}
	if out, err := inspectAt(t, append([]string{"pins", "list"}, flags...)...); err != checkFailed || !strings.Contains(out, "changed  content:ui://shelf/view\n") {
		t.Errorf("error %v:\n%s", err, out)
	}
}

// The tools of a server that did not start are not known, so the command fails. Those of the others can be accepted.
func TestPinsWithoutAServer(t *testing.T) {
	path, lock := filepath.Join(t.TempDir(), "mcp.json"), filepath.Join(t.TempDir(), "mcp.lock")
	flags := []string{"-config", path, "-lock", lock}
	writeConfig(t, path, map[string]any{"gone": map[string]any{"command": filepath.Join(t.TempDir(), "nothing")}})
	if out, err := inspectAt(t, append([]string{"pins", "list"}, flags...)...); statusOf(err) != unreachable || out != "" {
		t.Errorf("list: error %v:\n%s", err, out)
	}
	out, err := inspectAt(t, append([]string{"pins", "accept", "-all"}, flags...)...)
	if statusOf(err) != unreachable || !strings.Contains(err.Error(), "not reached: gone") || out != "" {
		t.Errorf("accept: error %v:\n%s", err, out)
	}
	writeConfig(t, path, map[string]any{"gone": map[string]any{"command": filepath.Join(t.TempDir(), "nothing")}, "shelf": shelfConfig(viewText)})
	out, err = inspectAt(t, append([]string{"pins", "accept", "-all"}, flags...)...)
	if statusOf(err) != unreachable || !strings.Contains(err.Error(), "not reached: gone") || !strings.Contains(out, "accepted content:ui://shelf/view\n") {
		t.Errorf("accept: error %v:\n%s", err, out)
	}
	writeConfig(t, path, map[string]any{"shelf": shelfConfig(viewText)})
	if out, err := inspectAt(t, append([]string{"pins", "list"}, flags...)...); err != nil || out != "" {
		t.Errorf("list: error %v:\n%s", err, out)
	}
}

func TestDoctor(t *testing.T) {
	for name, target := range targets {
		if name == "ws" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			flags, at := target.open(t)
			out, _ := inspectAt(t, append(append(append([]string{"doctor"}, flags...), "-json"), at...)...)
			var findings []finding
			if err := json.Unmarshal([]byte(out), &findings); err != nil {
				t.Fatal(err)
			}
			checks := make(map[string]level)
			for _, f := range findings {
				checks[f.Check] = f.Level
				if (f.Advice == "") != (f.Level == fine) {
					t.Errorf("%+v", f)
				}
			}
			for _, check := range []string{"connection", "version", "name", "timing", "tools", "unknown methods"} {
				if checks[check] == "" || checks[check] == problem {
					t.Errorf("%s is %q in %s", check, checks[check], out)
				}
			}
		})
	}
}

func TestReadableURLs(t *testing.T) {
	for address, want := range map[string]bool{
		"http://localhost:1/mcp": false, "http://127.0.0.1/": false, "http://[::1]:1/": false, "https://a.example/": false,
		"http://a.example/": true, "http://localhost.a.example/": true, "http://127.0.0.1.a.example/": true, "HTTP://a.example//localhost": true,
	} {
		if got := isReadable(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// Files of clients are changed, kept as FILE.bak, and restored by remove.
func TestAddListRemove(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "APPDATA", "LOCALAPPDATA"} {
		t.Setenv(name, home)
	}
	t.Setenv("CODEX_HOME", "")
	t.Chdir(t.TempDir())
	path := filepath.Join(home, ".cursor", "mcp.json")
	const before = "{ // mine\n  \"mcpServers\": {},\n}\n"
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if out, err := inspectAt(t, "add", "me", "-dry-run", "--", "x"); err != nil || !strings.Contains(out, `+     "me": {`) || read(path) != before {
		t.Errorf("error %v:\n%s", err, out)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 1 {
		t.Errorf("a dry run left %v, error %v", entries, err)
	}
	if out, err := inspectAt(t, append([]string{"add", "me", "-env", asServer + "=1"}, child(t)...)...); err != nil || out != "added me to Cursor: "+path+"\n" || read(path+".bak") != before {
		t.Errorf("error %v:\n%s", err, out)
	}
	for _, path := range []string{path, path + ".bak"} { // it may have secrets
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %v, error %v", info, err)
		}
	}
	for name, text := range map[string]string{
		"a.json": "{\"mcpServers\": {\n \"a\": {\"command\":\"x\"}, /* keep */ \"b\": {\"command\":\"y\"} /* z */\n}}",
		"b.json": `{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}`, "c.json": `{"mcpServers": {"a": 1,`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := inspectAt(t, "add", "a", "-client", "cursor", "-file", name, "--", "evil"); err == nil || read(name) != text {
			t.Errorf("%s: error %v:\n%s", name, err, out)
		}
	}
	if out, err := inspectAt(t, "tools", "me"); err != nil || !strings.Contains(out, `"greet"`) {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := inspectAt(t, "list"); err != nil || !strings.Contains(out, "cursor") || !strings.Contains(out, "me") {
		t.Errorf("error %v:\n%s", err, out)
	}
	// A client that only starts programs relays, with headers in the environment.
	if out, err := inspectAt(t, append([]string{"add", "-client", "claude-desktop", "far", web(t) + "/mcp"}, greeted...)...); err != nil {
		t.Errorf("error %v:\n%s", err, out)
	}
	t.Setenv("DOVETAIL_HEADER_1", greeted[1])
	if out, err := inspectAt(t, "tools", "-header-env", "DOVETAIL_HEADER_1", web(t)+"/mcp"); err != nil || !strings.Contains(out, `"greet"`) {
		t.Errorf("error %v:\n%s", err, out)
	}
	out, err := inspectAt(t, "list", "-json")
	if err != nil || !strings.Contains(out, `"name": "far"`) || strings.Contains(out, "hello") || strings.Contains(out, "relay") {
		t.Errorf("error %v:\n%s", err, out)
	}
	// A project's file is not used without -project.
	if err := os.WriteFile(".mcp.json", []byte(`{"mcpServers":{"me":{"command":"/no/such"},"own":{"command":"/no/such"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		line string
		want exitStatus
	}{{"tools me", succeeded}, {"tools own", misused}, {"tools -project me", unreachable}, {"tools -project own", unreachable}} {
		if out, err := inspectAt(t, strings.Fields(test.line)...); statusOf(err) != test.want {
			t.Errorf("%s: error %v:\n%s", test.line, err, out)
		}
	}
	// A file that cannot be read, and an entry that is not valid, are reported and do not affect other servers.
	broken, vscode := filepath.Join(home, ".claude.json"), filepath.Join(home, "Code", "User", "mcp.json")
	if err := os.Mkdir(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(vscode), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vscode, []byte(`{"servers":{"bad":{"command":3}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := inspectAt(t, "tools", "me"); err != nil || !strings.Contains(out, `"greet"`) {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := inspectAt(t, "list"); err == nil || !strings.Contains(err.Error(), "is a directory") || !strings.Contains(err.Error(), "bad: command") || !strings.Contains(out, "me") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := inspectAt(t, "tools", "bad"); statusOf(err) != misused || !strings.Contains(err.Error(), "is a directory") || !strings.Contains(err.Error(), "bad: command") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if err := errors.Join(os.Remove(broken), os.Remove(vscode)); err != nil {
		t.Fatal(err)
	}
	if out, err := inspectAt(t, "remove", "me"); err != nil || strings.Contains(read(path), "me\"") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := inspectAt(t, "remove", "me"); err == nil {
		t.Error(out)
	}
}

// A mistake in the target does not cost the transcript of an earlier session.
func TestRecordKeepsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"record", path}, {"record", path, "gopher://x"}, {"record", path, "http://127.0.0.1:1/mcp", "more"}, {"tools", "-record", path, "gopher://x"}} {
		if out, err := inspectAt(t, line...); err == nil {
			t.Errorf("%q: no error:\n%s", line, out)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "older" {
			t.Errorf("%q: error %v:\n%s", line, err, text)
		}
	}
}
