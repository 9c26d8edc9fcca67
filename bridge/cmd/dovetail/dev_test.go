package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestGoRunIsBuilt(t *testing.T) {
	for line, want := range map[string]string{
		"go run ./cmd/server -a b":               "go, flags [], packages [./cmd/server], args [-a b], dir ",
		"go run -C ../y -race -tags x . c":       "go, flags [-C ../y -race -tags x], packages [.], args [c], dir ../y",
		"go run -C=y .":                          "go, flags [-C=y], packages [.], args [], dir y",
		"/usr/bin/go run -tags=x a.go b.go c -d": "/usr/bin/go, flags [-tags=x], packages [a.go b.go], args [c -d], dir ",
		"go run -exec env ./x":                   "",
		"go run -exec=env ./x":                   "",
		"go run example.com/x@latest":            "",
		"go run -race":                           "",
		"go build ./x":                           "",
		"node server.js":                         "",
		"go run":                                 "",
	} {
		got := ""
		if b := parseGoRun(strings.Fields(line), "x"); b != nil {
			got = fmt.Sprintf("%s, flags %v, packages %v, args %v, dir %s", b.program, b.flags, b.packages, b.args, b.dir)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestDevRefuses(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "a.go")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, flags := range map[string][]string{
		"needs a loopback address":         {"-http", "0.0.0.0:0"},
		"such as 127.0.0.1:8900, found :0": {"-http", ":0"},
		"missing port":                     {"-http", "127.0.0.1"},
		"-console needs a loopback":        {"-console", "0.0.0.0:0"},
		"-console is for standard":         {"-console", "127.0.0.1:0", "-http", "127.0.0.1:0"},
		"nothing is none":                  {"-watch", filepath.Join(folder, "nothing")},
		"a.go is none":                     {"-watch", file},
	} {
		line := slices.Concat([]string{"dev"}, flags, []string{"--", "true"})
		if err := run(t.Context(), line, strings.NewReader(""), io.Discard, io.Discard); statusOf(err) != misused || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", flags, err, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	added, removed, changed := differences(map[string]string{"a": "1", "b": "1", "c": "1", "d": "1"}, map[string]string{"f": "1", "e": "1", "b": "2", "c": "1", "a": "2"})
	if got := fmt.Sprint(added, removed, changed); got != "[e f] [d] [a b]" {
		t.Error(got)
	}
}

func TestDevSaysThatNothingIsWatched(t *testing.T) {
	var said strings.Builder
	if err := run(t.Context(), append([]string{"dev", "-quiet", "-watch", t.TempDir(), "-ext", "x,y"}, child(t)...), strings.NewReader(""), io.Discard, &said); err != nil {
		t.Error(err)
	}
	if want := "ends with .x, .y: expected another -watch or -ext"; !strings.Contains(said.String(), want) {
		t.Errorf("%q is not in:\n%s", want, &said)
	}
}

// A change is reported when the files have been still for an interval. Other files do not matter.
func TestSourceWatcher(t *testing.T) {
	folder := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("a.go", "1")
	w := newSourceWatcher(folder, []string{"go"})
	synctest.Test(t, func(t *testing.T) {
		before := w.snapshot()
		changed := make(chan string, 1)
		go func() {
			_, name, _ := w.wait(t.Context(), time.Second, before)
			changed <- filepath.Base(name)
		}()
		for _, other := range []string{"a.txt", ".hidden/b.go", "node_modules/c.go", "testdata/d.go", ".e.go"} {
			put(other, "x")
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		select {
		case name := <-changed:
			t.Fatalf("%s is reported", name)
		default:
		}
		put("sub/f.go", "1")
		time.Sleep(1500 * time.Millisecond)
		put("sub/f.go", "12") // not still yet
		if name := <-changed; name != "f.go" {
			t.Errorf("%s is reported", name)
		}
	})
}

func TestHelp(t *testing.T) {
	names := commandNames()
	for _, name := range names {
		var out strings.Builder
		if err := run(t.Context(), []string{"help", name}, strings.NewReader(""), &out, io.Discard); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range []string{"usage: dovetail " + name + " ", "\nFlags:\n"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("the help of %s is without %q:\n%s", name, part, &out)
			}
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"help"}, strings.NewReader(""), &out, io.Discard); err != nil || slices.ContainsFunc(names, func(name string) bool { return !strings.Contains(out.String(), "\n  "+name) }) {
		t.Errorf("error %v:\n%s", err, &out)
	}
}

func TestExitStatuses(t *testing.T) {
	for line, want := range map[string]exitStatus{
		"": misused, "frobnicate": misused, "tools": misused, "tools -frobnicate x": misused, "serve x": misused, "help": succeeded, "version": succeeded,
		"tools http://127.0.0.1:1/mcp": unreachable, "tools -- /no/such/program": unreachable, "journal verify /no/such/file": failed,
		"serve -open": misused, "pins": misused, "pins accept": misused, "gen -check -- x": misused, "pack": misused, "pack -name a.b/c -build . -systems linux,macos": misused, "pack -name a.b/c -build . -systems linux,": misused, "replay": misused, "record": misused, "dev": misused,
		"add x": misused, "add x -client frobnicate -- y": misused, "remove": misused, "doctor": misused, "list x": misused,
		"tools -timeout 0 http://127.0.0.1:1/mcp": misused, "doctor -timeout -5s http://127.0.0.1:1/mcp": misused,
	} {
		if got := statusOf(run(t.Context(), strings.Fields(line), strings.NewReader(""), io.Discard, io.Discard)); got != want {
			t.Errorf("%q ends with %d, want %d", line, got, want)
		}
	}
}
