package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestPolicyOfTheCommandIsThatOfServe: dovetail policy decides as dovetail serve does, rule by rule, with and without the definitions
// of tools, for callers with roles.
func TestPolicyOfTheCommandIsThatOfServe(t *testing.T) {
	folder := t.TempDir()
	p := &program{folder: folder, said: &output{}}
	config := p.write(t, "mcp.json", encoded(t, map[string]any{"mcpServers": map[string]any{"shelf": shelfConfig()}}))
	rules := p.write(t, "policy.json", `{"deny": ["*__drop"], "rules": [
		{"name": "reads", "effect": "allow", "annotations": {"readOnlyHint": true}},
		{"name": "notes", "effect": "allow", "names": ["put"], "arguments": [{"path": "/path", "prefix": ["/notes/"]}]},
		{"name": "ops", "effect": "allow", "roles": ["ops"]}, {"name": "rest", "effect": "ask", "unless": [{"roles": ["ops"]}, {"names": ["look"]}]}]}`)
	for _, test := range []struct {
		flags, calls, want string // the effects
		failed             bool
	}{
		{"", `shelf__look shelf__put shelf__drop`, "deny ask deny", false}, // without definitions, no tool is known to be read-only
		{"-config " + config, `shelf__look shelf__put shelf__drop`, "deny ask deny", false},
		{"-trust shelf -config " + config, `shelf__look shelf__put shelf__drop`, "allow ask deny", false},
		{"-role ops", `shelf__put shelf__drop`, "allow deny", false},
		{"-role guest -role ops", `shelf__put {"path":"/etc/x"}`, "allow", false},
		{"", `shelf__put {"path":"/notes/x"}`, "ask", false}, // ask wins
		{"-expect deny", `shelf__drop`, "deny", false},
		{"-expect allow -role ops", `shelf__put shelf__drop`, "allow deny", true},
	} {
		var stdout, stderr bytes.Buffer
		line := append([]string{"policy", "-json", "test", rules}, strings.Fields(test.flags+" "+test.calls)...)
		err := run(t.Context(), line, strings.NewReader(""), &stdout, &stderr)
		if failed := errors.Is(err, checkFailed); failed != test.failed || err != nil && !failed {
			t.Errorf("%s %s: the error is %v", test.flags, test.calls, err)
		}
		var decided []decidedCall
		if err := json.Unmarshal(stdout.Bytes(), &decided); err != nil {
			t.Fatalf("%s: %v %s", stdout.Bytes(), err, stderr.Bytes())
		}
		var got []string
		for _, call := range decided {
			got = append(got, call.Effect.String())
			if len(call.Steps) < 6 || call.Reason == "" {
				t.Errorf("%s %s: decided is %+v", test.flags, test.calls, call)
			}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s %s: decided is %q, want %q", test.flags, test.calls, got, test.want)
		}
	}
	var stdout bytes.Buffer
	if err := run(t.Context(), []string{"policy", "test", rules, "shelf__drop"}, strings.NewReader(""), &stdout, new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
	if want := "deny   shelf__drop {}\n       the deny list has the pattern \"*__drop\"\n       + deny deny: "; !strings.HasPrefix(stdout.String(), want) {
		t.Errorf("for people it prints\n%s\nwant\n%s", &stdout, want)
	}
}

// TestPolicyIsTriedOnTheJournal: dovetail policy explain says what a new policy would decide about the calls that a person was asked
// about.
func TestPolicyIsTriedOnTheJournal(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal")
	p := start(t, "-journal", journal, "-approve", "none")
	for _, tool := range []string{"put", "put", "look", "drop", "put_and_stay"} {
		if _, _, err := p.do(t.Context(), p.token, http.MethodPost, "/api/v1/rest/tools/shelf__"+tool, `{}`); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	rules := p.write(t, "new.json", `{"rules": [{"name": "puts", "effect": "allow", "names": ["put"]}, {"effect": "ask", "unless": [{"names": ["put"]}]}]}`)
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), []string{"policy", "-journal", journal, "explain", rules}, strings.NewReader(""), &stdout, &stderr); err != nil {
		t.Fatalf("%v %s", err, &stderr)
	}
	if got, want := stderr.String(), "ask    1 call\nallow  2 calls\n"; got != want {
		t.Errorf("counted is %q, want %q", got, want)
	}
	if got := stdout.String(); !strings.HasPrefix(got, "allow  shelf__put") || strings.Count(got, "shelf__put") != 1 || !strings.Contains(got, `the rule "puts" matches`) {
		t.Errorf("printed is %s", got)
	}
}

// TestPolicyRefuses: mistakes have their place or say what to write.
func TestPolicyRefuses(t *testing.T) {
	folder := &program{folder: t.TempDir()}
	rules := folder.write(t, "policy.json", "{}\n")
	broken := folder.write(t, "broken.json", "{\n  \"rule\": []}")
	for _, test := range []struct{ line, want string }{
		{"test " + broken + " a__b", "broken.json:2:"},
		{"test " + folder.path("none.json") + " a__b", "none.json"},
		{"test " + rules + " b", "ALIAS__TOOL"},
		{"test " + rules + " a__b {a}", "not JSON"},
		{"-expect maybe test " + rules + " a__b", "expected allow, ask or deny"},
		{"-journal " + rules + " explain " + rules, "journal"},
	} {
		err := run(t.Context(), append([]string{"policy"}, strings.Fields(test.line)...), strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: the error is %v, want %s", test.line, err, test.want)
		}
	}
}
