package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
)

// Parse returns valid servers, or errors with a position.
func FuzzParse(f *testing.F) {
	names, _ := filepath.Glob("testdata/*.json")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"mcpServers":{"a":{"command":"x","args":[1],"env":{"A":{}},"dovetail":{"tools":{"override":{"":{}}}}}}} // x`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := config.Parse(text, "f")
		if file == nil && err == nil {
			t.Fatal("neither a file nor an error")
		}
		if err != nil {
			e, ok := errors.AsType[*config.Error](err)
			if !ok || e.Line < 1 || e.Column < 1 || strings.ContainsFunc(e.Error(), func(r rune) bool { return r < ' ' && r != '\n' }) {
				t.Fatalf("%#v", err)
			}
		}
		if file == nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range file.Servers {
			if bridge.CheckAlias(s.Alias) != nil || seen[s.Alias] {
				t.Errorf("alias %q", s.Alias)
			}
			seen[s.Alias] = true
			if (s.Type == "stdio") != (s.Command != "") && s.URL == "" || s.Type == "" {
				t.Errorf("%#v", s)
			}
			if _, err := s.Expand(t.Context(), noFiles(s)); err != nil && strings.Contains(err.Error(), "\x00") {
				t.Error(err)
			}
		}
		for _, w := range file.Warnings {
			if strings.ContainsFunc(fmt.Sprint(w), func(r rune) bool { return r < ' ' }) {
				t.Errorf("%q", w)
			}
		}
	})
}

// noFiles removes everything that reads files from a server.
func noFiles(s *config.Server) *config.Expander {
	s.EnvFile = ""
	for _, text := range append([]string{s.Command, s.Dir, s.URL}, s.Args...) {
		if strings.Contains(text, "${file:") {
			s.Command, s.Dir, s.URL, s.Args = "x", "", "http://h", nil
		}
	}
	for _, table := range []map[string]string{s.Env, s.Headers} {
		for name, text := range table {
			table[name] = strings.ReplaceAll(text, "${file:", "")
		}
	}
	return &config.Expander{LookupEnv: lookup(map[string]string{"A": "1"})}
}

// Text without variables does not change, and values are not expanded again.
func FuzzExpand(f *testing.F) {
	for _, text := range []string{"", "${A}", "x${A:-d}", "$${A}", "${env:A}${x:y}", "${a-b}", "${", "${foo-${A}}", "${A:-${B}}"} {
		f.Add(text, "v")
		f.Add(text, "${A}$${")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		if strings.Contains(text, "${file:") || strings.ContainsRune(text+value, 0) || len(text) > 100 || len(value) > 100 {
			return
		}
		const mark = "\x01" // placeholder for the value
		e := func(value string) *config.Expander {
			return &config.Expander{LookupEnv: func(string) (string, bool) { return value, true }}
		}
		if value == "" || strings.Contains(text, mark) {
			return
		}
		marked, err := expandArg(t, text, e(mark))
		got, err2 := expandArg(t, text, e(value))
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%q: %v, %v", text, err, err2)
		}
		if want := strings.ReplaceAll(marked, mark, value); got != want {
			t.Errorf("%q with %q: got %q, want %q", text, value, got, want)
		}
		if !strings.Contains(text, "${") && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
