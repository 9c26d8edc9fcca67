package mcp_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// Half an escaped surrogate pair is U+FFFD in a Go string, and keeps its bytes in a raw value.
func TestHalfSurrogatePairs(t *testing.T) {
	const structured = `{"t":"\uD83D"}`
	var result mcp.CallToolResult
	if err := result.UnmarshalJSON([]byte(`{"content":[{"type":"text","text":"a\uD83D"}],"structuredContent":` + structured + `,"x":"\uDE00"}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := result.Text(), "a\uFFFD"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got := string(result.StructuredContent); got != structured {
		t.Errorf("structured content %s, want %s", got, structured)
	}
	if got := string(result.Extra); got != `{"x":"\uDE00"}` {
		t.Errorf("unknown members %s", got)
	}
	encoded, err := result.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var again mcp.CallToolResult
	if err := again.UnmarshalJSON(encoded); err != nil || string(again.StructuredContent) != structured {
		t.Errorf("encoded as %s, decoded with %v", encoded, err)
	}
}
