package server

import (
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// Each kind of entry is described, so that entries of the kind can be registered and listed.
func TestKindsAreDescribed(t *testing.T) {
	for kind := mcp.KindTool; kind < kindCount; kind++ {
		if kinds[kind].list == "" {
			t.Errorf("kinds does not describe a %v", kind)
		}
	}
	var next mcp.Kind
	if text, err := kindCount.MarshalText(); err != nil || next.UnmarshalText(text) == nil {
		t.Errorf("kinds does not describe a %s, %v", text, err)
	}
}

// No two features have a method of the same name.
func TestMethodsHaveOneFeature(t *testing.T) {
	s := New(mcp.Implementation{Name: "test", Version: "1"}, nil)
	count := 0
	for _, f := range features {
		count += len(f.methods)
	}
	if count != len(s.methods) {
		t.Errorf("%d methods of features have %d names", count, len(s.methods))
	}
}
