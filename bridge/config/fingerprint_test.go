package config_test

import (
	"regexp"
	"testing"
)

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
		t.Error("the alias does not count")
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

// Lock files hold fingerprints: another one for the same server is a broken promise.
func TestFingerprintIsStable(t *testing.T) {
	got := resolve(t, `{"command":"npx","args":["-y","x"],"env":{"A":"1"},"cwd":"/"}`, nil).Fingerprint()
	if want := "4bb5ce911edadbd2552e249e2b2f4ebb420fb19b3fcddec841e29a2a24101444"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A server of a bridge is left alone when a file says the same of it, in whatever words:
// what runs, and how it is used.
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
