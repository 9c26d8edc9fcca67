package schema_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/schema"
)

// Half an escaped surrogate pair is valid and becomes U+FFFD, in plain structs and in other types.
func TestDecodeHalfSurrogatePairs(t *testing.T) {
	type plain struct {
		Text string `json:"text" jsonschema:"maxLength=2"`
	}
	one, err := schema.Decode[plain](t.Context(), []byte(`{"text":"a\uD83D"}`))
	if err != nil || one.Text != "a\uFFFD" {
		t.Errorf("%q, %v", one.Text, err)
	}
	many, err := schema.Decode[map[string][]string](t.Context(), []byte(`{"\uDE00":["\uD83D","\uD83D\uDE00"]}`))
	if err != nil || len(many["\uFFFD"]) != 2 || many["\uFFFD"][0] != "\uFFFD" || many["\uFFFD"][1] != "😀" {
		t.Errorf("%q, %v", many, err)
	}
}
