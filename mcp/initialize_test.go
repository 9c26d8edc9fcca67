package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// TestCapabilityTrue checks that true is accepted in place of an object.
func TestCapabilityTrue(t *testing.T) {
	for text, want := range map[string]string{
		`{"sampling":{"tools":true}}`:              `{"sampling":{"tools":{}}}`,
		`{"sampling":{"tools":true,"context":{}}}`: `{"sampling":{"context":{},"tools":{}}}`,
		`{"elicitation":{"form":true,"url":true}}`: `{"elicitation":{"form":{},"url":{}}}`,
		`{"sampling":{"tools":{}}}`:                `{"sampling":{"tools":{}}}`,
		`{"sampling":{"tools":{"parallel":true}}}`: `{"sampling":{"tools":{"parallel":true}}}`,
		`{"sampling":{}}`:                          `{"sampling":{}}`,
	} {
		var can mcp.ClientCapabilities
		if err := json.Unmarshal([]byte(text), &can); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := json.Marshal(&can); err != nil || string(got) != want {
			t.Errorf("%s is read as %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{`{"sampling":{"tools":1}}`, `{"sampling":{"tools":"true"}}`, `{"sampling":{"tools":[]}}`} {
		if err := json.Unmarshal([]byte(text), new(mcp.ClientCapabilities)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
