package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

func TestMetaSetDoesNotChangeSharedBytes(t *testing.T) {
	const before = `{ "a" : 1, "b":"\u0041"}`
	original := mcp.Meta(before)
	changed := original
	if err := changed.Set("a", json.RawMessage("2")); err != nil {
		t.Fatal(err)
	}
	if err := changed.Set("c", json.RawMessage(`{"d":3}`)); err != nil {
		t.Fatal(err)
	}
	if string(original) != before {
		t.Errorf("the original is now %s", original)
	}
	for key, want := range map[string]string{"a": "2", "b": `"\u0041"`, "c": `{"d":3}`, "d": ""} {
		if got := changed.Get(key); string(got) != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	if err := changed.Set("a", nil); err != nil || changed.Get("a") != nil {
		t.Errorf("a is not removed: %s, %v", changed, err)
	}
}

func TestMetaSet(t *testing.T) {
	var meta mcp.Meta
	if err := meta.Set("a", nil); err != nil || !meta.IsZero() {
		t.Errorf("removing from none: %s, %v", meta, err)
	}
	if err := meta.Set(mcp.MetaProgressToken, json.RawMessage("1")); err != nil || string(meta) != `{"progressToken":1}` {
		t.Errorf("got %s, %v", meta, err)
	}
	if err := meta.Set("a", json.RawMessage("{")); err == nil || string(meta) != `{"progressToken":1}` {
		t.Errorf("a value that is not JSON is taken: %s, %v", meta, err)
	}
	for _, key := range []string{"\xff", "a\x00"} {
		if err := meta.Set(key, json.RawMessage("1")); err == nil {
			t.Errorf("%q is taken as a key", key)
		}
	}
	broken := mcp.Meta("[]")
	if err := broken.Set("a", json.RawMessage("1")); err == nil || broken.Get("a") != nil {
		t.Errorf("an array is taken for _meta: %s", broken)
	}
}

// TestMetaSetValue checks that a Go value is set as its JSON.
func TestMetaSetValue(t *testing.T) {
	for name, test := range map[string]struct {
		value any
		want  string // "" means an error
	}{
		"struct": {struct {
			A int `json:"a"`
		}{1}, `{"a":1}`},
		"map":            {map[string]any{"b": []string{"x"}}, `{"b":["x"]}`},
		"raw":            {json.RawMessage(`{ "a":1 }`), `{"a":1}`},
		"nil":            {nil, "null"},
		"not encodable":  {make(chan int), ""},
		"malformed JSON": {json.RawMessage("{"), ""},
	} {
		meta := mcp.Meta(`{"first":1}`)
		err := meta.SetValue("k", test.value)
		if got := string(meta.Get("k")); got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s: the value is %s, %v; want %s", name, got, err, test.want)
		}
		if string(meta.Get("first")) != "1" {
			t.Errorf("%s: the other member is lost: %s", name, meta)
		}
	}
}

func TestMetaNull(t *testing.T) {
	result := mcp.EmptyResult{Meta: mcp.Meta("{}")}
	if err := result.UnmarshalJSON([]byte(`{"_meta":null}`)); err != nil || !result.Meta.IsZero() {
		t.Errorf("null is not taken as none: %s, %v", result.Meta, err)
	}
}
