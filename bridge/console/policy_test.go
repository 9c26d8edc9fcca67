package console_test

import (
	"encoding/json"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/client"
)

// TestWhatIfIsWhatWouldHaveBeenDecided makes the same calls under each policy, and compares what is said about each other policy
// with what that decides when it is in force.
func TestWhatIfIsWhatWouldHaveBeenDecided(t *testing.T) {
	policies := map[string]string{
		"nothing":     `{}`,
		"lists":       `{"allow": ["files__[er]*", "*write"], "deny": ["*report"]}`,
		"rules":       rules,
		"arguments":   `{"rules": [{"effect": "deny", "arguments": [{"path": "/n", "min": 9007199254740993}]}, {"effect": "ask", "arguments": [{"path": "/text", "prefix": ["/etc/"]}]}, {"effect": "allow"}]}`,
		"exceptions":  `{"rules": [{"effect": "ask", "unless": [{"names": ["echo"]}, {"arguments": [{"path": "/text", "equals": "a"}]}]}, {"effect": "allow", "names": ["echo", "write"]}]}`,
		"annotations": `{"rules": [{"effect": "ask", "annotations": {"readOnlyHint": false}}, {"effect": "allow", "principals": ["ada"]}]}`,
		"roles":       `{"strict": true, "exempt": [{"server": "files", "tool": "echo"}]}`,
	}
	calls := []struct{ tool, arguments string }{
		{"echo", `{"n":9007199254740992}`}, {"echo", `{"n":9007199254740993}`}, {"echo", `{"n":"1"}`}, {"echo", `{}`}, {"echo", `{"text":"/etc/passwd"}`},
		{"write", `{"text":"a"}`}, {"write", `{"text":"bad"}`}, {"ask", `{}`}, {"report", `{}`}, {"fail", `{"text":"/etc/x"}`},
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		recorders, decided := map[string]*console.Recorder{}, map[string][]string{}
		for name, text := range policies {
			synctest.Test(t, func(t *testing.T) {
				r := rigWith(t, text, client.Modern, console.NewRecorder(&console.RecorderOptions{Bodies: true}))
				session := r.connect(t, era)
				for _, c := range calls {
					_, _ = session.CallTool(t.Context(), "files__"+c.tool, json.RawMessage(c.arguments), nil) // the row has the outcome
				}
				effects := make([]string, len(calls))
				for _, row := range r.recorder.Rows() {
					effects[row.ID-1] = row.Effect
				}
				recorders[name], decided[name] = r.recorder, effects
			})
		}
		for before := range policies {
			for after, text := range policies {
				want, got := map[string]int{}, map[string]int{}
				for i := range calls {
					if from, to := decided[before][i], decided[after][i]; from != to {
						want[from+" → "+to]++
					}
				}
				verdict := recorders[before].WhatIf(text)
				for _, c := range verdict.Changed {
					got[c.From+" → "+c.To] = c.Count
				}
				if !maps.Equal(got, want) || verdict.Calls != len(calls) || verdict.Unknown != 0 {
					t.Errorf("%v, from %s to %s: %v of %d, want %v", era, before, after, got, verdict.Calls, want)
				}
			}
		}
	}
}
