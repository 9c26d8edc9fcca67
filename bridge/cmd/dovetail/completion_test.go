package main

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestCompletion: a shell passes the line before the cursor, and gets the words that the last word may become.
func TestCompletion(t *testing.T) {
	useFolders(t)
	path := configuration(t)
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
		"dovetail call -config " + path + " child__gr":           nil, // the servers of a file together are not started
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
	for line, want := range map[string][]string{
		"":                   {""},
		"a  b":               {"a", "b"},
		"a ":                 {"a", ""},
		`'a b'c "d'e" f\ g'`: {"a bc", "d'e", "f g"},
		`a "b c`:             {"a", "b c"},
		`'' x`:               {"", "x"},
	} {
		if got := shellWords(line); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
