package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
)

// A changed entry is printed member by member, if the accepted definition is known.
func TestPendingEntryIsPrintedAsDifference(t *testing.T) {
	before := json.RawMessage(`{"name":"a","description":"reads","inputSchema":{"type":"object"}}`)
	after := json.RawMessage(`{"name":"a","description":"reads` + "\u202e" + `","inputSchema":{"type":"object"}}`)
	for name, test := range map[string]struct {
		pending pin.Pending
		want    string
	}{
		"changed":         {pin.Pending{Reason: "changed", Before: before, After: after}, "changed  a\n         description\n         - \"reads\"\n         + \"reads\\u202e\"\n"},
		"new":             {pin.Pending{Reason: "new", After: before}, "new      a\n         " + string(before) + "\n"},
		"no accepted one": {pin.Pending{Reason: "changed", After: before}, "changed  a\n         " + string(before) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			test.pending.Entry = pin.Entry{Kind: pin.Tool, Name: "a"}
			printPending(&out, &test.pending)
			if out.String() != test.want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), test.want)
			}
		})
	}
}
