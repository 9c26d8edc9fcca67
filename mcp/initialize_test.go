package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// A nil value in a map of raw values is sent as null.
func TestNilCapability(t *testing.T) {
	values := map[string]json.RawMessage{"a/b": nil, "c/d": json.RawMessage(`{}`)}
	for _, has := range []any{
		&mcp.ServerCapabilities{Extensions: values}, &mcp.ServerCapabilities{Experimental: values},
		&mcp.ClientCapabilities{Extensions: values}, &mcp.ClientCapabilities{Experimental: values},
	} {
		got, err := json.Marshal(has)
		if err != nil || !strings.Contains(string(got), `{"a/b":null,"c/d":{}}`) {
			t.Errorf("%T is sent as %s, %v", has, got, err)
		}
	}
}

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
