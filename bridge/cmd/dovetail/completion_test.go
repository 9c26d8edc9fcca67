package main

import (
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCompletion: a shell passes the line before the cursor, and gets the words that the last word may become.
func TestCompletion(t *testing.T) {
	useFolders(t)
	path := configuration(t)
	if text, err := os.ReadFile(path); err != nil {
		t.Fatal(err)
	} else {
		write(t, filepath.Join(os.Getenv("HOME"), "mcp.json"), string(text))
	}
	for line, want := range map[string][]string{
		"dovetail":                                               nil,
		"dovetail pin":                                           {"ping", "pins"},
		"dovetail help complet":                                  {"complete", "completion"},
		"dovetail nothing ":                                      nil,
		"dovetail completion ":                                   {"bash", "fish", "zsh"},
		"dovetail call ":                                         {"files"},
		"dovetail remove ":                                       {"files"},
		"dovetail record x ":                                     {"files"},
		"dovetail add ":                                          nil,
		"dovetail read files -- x":                               nil,
		"dovetail complete files ":                               {"prompt", "resource"},
		"dovetail call -era ":                                    {"auto", "legacy", "modern"},
		"dovetail serve -approve ":                               {"caller", "channel", "none", "page", "terminal"},
		"dovetail serve -http 127.0.0.1:0 -approve ca":           {"caller"},
		"dovetail serve -se":                                     {"-search"},
		"dovetail call -login -header-e":                         {"-header-env"},
		"dovetail call --verbos":                                 nil,
		"dovetail call -config " + path + " ":                    {"child", "gone", "unset", "web"},
		"dovetail call -config=" + path + " ch":                  {"child"},
		"dovetail call -config " + path + " child gre":           {"greet"},
		"dovetail call -config '" + path + "' chi\\ld \"gre":     {"greet"},
		"dovetail call -config " + path + " child greet ":        {"name="},
		"dovetail call -config " + path + " child greet name=x ": nil,
		"dovetail call -config " + path + " child number ":       {"count:="},
		"dovetail prompt -config " + path + " child ":            {"greet"},
		"dovetail call -config " + path + " child__gr":           {"child__greet"}, // without the other servers
		"dovetail call -config " + path + " child__greet ":       {"name="},
		"dovetail call -config " + path + " gone__":              nil,
		"dovetail call -config ~/mcp.json ":                      {"child", "gone", "unset", "web"},
		"dovetail call -config $HOME/mcp.json ch":                {"child"},
		`dovetail call -config "${HOME}/mcp.json" ch`:            {"child"},
		"dovetail -verbose -config " + path + " call child gre":  {"greet"},
		"dovetail -verbose -header-e":                            {"-header-env"},
		"dovetail -verbose -era ":                                {"auto", "legacy", "modern"},
		"dovetail call -verbose -header-e":                       {"-header-env"},
		"dovetail call -project child ":                          nil,
		"dovetail call gone ":                                    nil,
	} {
		child(t) // sets the variable of the server
		var out strings.Builder
		if err := run(t.Context(), []string{"completion", "words", line}, strings.NewReader(""), &out, io.Discard); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		var got []string
		for candidate := range strings.Lines(out.String()) {
			word, _, _ := strings.Cut(candidate, "\t")
			got = append(got, word)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		var out strings.Builder
		if err := run(t.Context(), []string{"completion", shell}, strings.NewReader(""), &out, io.Discard); err != nil || !strings.Contains(out.String(), "dovetail completion words") && !strings.Contains(out.String(), "completion words") {
			t.Errorf("%s: %v\n%s", shell, err, &out)
		}
	}
	if err := run(t.Context(), []string{"completion", "tcsh"}, strings.NewReader(""), io.Discard, io.Discard); statusOf(err) != misused {
		t.Errorf("an unknown shell: %v", err)
	}
}

// TestFlagsAreCompleted: the help has all flags, with and without values.
func TestFlagsAreCompleted(t *testing.T) {
	defined := flag.NewFlagSet("", flag.ContinueOnError)
	new(invocation).targetFlags(defined, 0)
	found := helpFlags(commands()["relay"])
	defined.VisitAll(func(f *flag.Flag) {
		boolean, _ := f.Value.(interface{ IsBoolFlag() bool })
		if found[f.Name] == nil || found[f.Name].takesValue == (boolean != nil && boolean.IsBoolFlag()) || found[f.Name].about == "" {
			t.Errorf("-%s is %+v", f.Name, found[f.Name])
		}
	})
}

func TestShellWords(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	t.Setenv("A", "x y")
	for line, want := range map[string][]string{
		"":                           {""},
		"a  b":                       {"a", "b"},
		"a ":                         {"a", ""},
		`'a b'c "d'e" f\ g'`:         {"a bc", "d'e", "f g"},
		`a "b c`:                     {"a", "b c"},
		`'' x`:                       {"", "x"},
		`~/a $A/b "${A}c" '$A' x~ $`: {"/home/me/a", "x y/b", "x yc", "$A", "x~", "$"},
	} {
		if got := shellWords(line); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestCompletionKeepsNames: the next completion of the same command starts no server, and the file has names only.
func TestCompletionKeepsNames(t *testing.T) {
	useFolders(t)
	starts := filepath.Join(t.TempDir(), "starts")
	server := []string{"sh", "-c", "echo start >>" + starts + "; exec " + child(t)[1]}
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"child": map[string]any{"command": server[0], "args": server[1:], "env": map[string]string{asServer: "1", "GORACE": "atexit_sleep_ms=0"}}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, "mcp.json", string(text))
	started := 0
	for n, line := range []string{"dovetail call -config mcp.json child gre", "dovetail call -config mcp.json child greet na", "dovetail call -config mcp.json child num"} {
		var out strings.Builder
		if err := run(t.Context(), []string{"completion", "words", line}, strings.NewReader(""), &out, io.Discard); err != nil || out.Len() == 0 {
			t.Errorf("%s: %q, error %v", line, &out, err)
		}
		log, err := os.ReadFile(starts)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(string(log), "start"); n == 0 {
			started = got
		} else if got != started {
			t.Errorf("%s: the server was started %d times more", line, got-started)
		}
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("HOME"), ".cache", "dovetail", "completion", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, error %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, error %v", info, err)
	}
}
