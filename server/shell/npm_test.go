//go:build unix

package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeNPM puts a program named npm first in PATH. It prints its directory and its arguments.
func fakeNPM(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"in $(basename \"$PWD\"): $*\"\ncase \"$*\" in *fail*) echo no >&2; exit 3;; *hang*) sleep 60;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// The tools run npm in a directory of the workspace, with the limits of commands, if the operator allows it.
func TestNPM(t *testing.T) {
	fakeNPM(t)
	u := newUser(t, &Options{NPM: true})
	if err := os.Mkdir(filepath.Join(u.files.Dir(), "app"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(u.files.Dir(), "root")); err != nil {
		t.Fatal(err)
	}
	const flags = "--no-update-notifier --no-fund --no-audit --no-color "
	in := func(dir string) string {
		return "in " + filepath.Base(dir) + ": --prefix=" + dir + " "
	}
	root := in(u.files.Dir())
	for _, test := range []struct{ tool, arguments, want string }{
		{"npm_install", `{}`, `"stdout":"` + root + flags + `install --ignore-scripts --\n"`},
		{"npm_install", `{"packages":["express","@types/node@22","left-pad@^1.0.0","a@>=1 <2"],"dev":true}`, flags + `install --save-dev --ignore-scripts -- express @types/node@22 left-pad@^1.0.0 a@\u003e=1 \u003c2`},
		{"npm_install", `{"scripts":true,"path":"app"}`, in(filepath.Join(u.files.Dir(), "app")) + flags + `install --\n`},
		{"npm_run", `{"script":"build","arguments":["--mode","x y"]}`, flags + `run build -- --mode x y\n`},
		{"npm_test", `{"arguments":["--fail-fast"]}`, `"exit_code":3,`},
		{"npm_test", `{}`, flags + `test --\n`},
		{"npm_run", `{"script":"hang","timeout":0.2}`, `"timed_out":true`},
		{"npm_run", `{"script":"--ignore-scripts"}`, "error: the name"},
		{"npm_run", `{"script":"x","path":".."}`, "is outside of the workspace"},
		{"npm_run", `{"script":"x","path":"root"}`, "is outside of the workspace"},
		{"npm_run", `{"script":"x","path":"none"}`, "error: "},
	} {
		if got := strings.ReplaceAll(strings.ReplaceAll(u.call(test.tool, test.arguments), ">", `\u003e`), "<", `\u003c`); !strings.Contains(got, test.want) {
			t.Errorf("%s %s: %s, want %s", test.tool, test.arguments, got, test.want)
		}
	}
	for _, name := range []string{"", "-g", "--prefix=/", "../evil", "/evil", "file:../evil", "git+ssh://git@evil.example/x", "https://evil.example/x.tgz", "evil/x", "x@npm:y", "x@file:..", "x@..", "x\ny", "."} {
		if got := u.call("npm_install", fmt.Sprintf(`{"packages":[%q]}`, name)); !strings.Contains(got, "is not the name of a package") {
			t.Errorf("%q: %s", name, got)
		}
	}
	if got := newUser(t, nil).call("npm_test", `{}`); !strings.HasPrefix(got, "failure: ") {
		t.Errorf("without the option: %s", got)
	}
	t.Setenv("PATH", t.TempDir())
	if got := u.call("npm_test", `{}`); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, "npm") {
		t.Error(got)
	}
}
