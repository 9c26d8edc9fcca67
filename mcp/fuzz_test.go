package mcp_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// What was decoded can be sent, and what was sent can be decoded to the same.
func checkStable(t *testing.T, fresh func() codec, data []byte) {
	t.Helper()
	value := fresh()
	if value.UnmarshalJSON(data) != nil {
		return
	}
	if jsonscan.Valid(data) != nil {
		t.Fatalf("%T is decoded from what is not JSON: %q", value, data)
	}
	once, err := value.MarshalJSON()
	if err != nil {
		return // a required member was missing or null
	}
	again := fresh()
	if err := again.UnmarshalJSON(once); err != nil {
		t.Fatalf("%T: what was sent is not decoded: %v\n%s\n%s", value, err, data, once)
	}
	twice, err := again.MarshalJSON()
	if err != nil || !bytes.Equal(once, twice) {
		t.Fatalf("%T: not stable: %v\n%s\n%s\n%s", value, err, data, once, twice)
	}
}

func FuzzContent(f *testing.F) {
	for _, name := range []string{"TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource", "ToolUseContent", "ToolResultContent"} {
		f.Add(appended(f, sample(name)))
	}
	f.Add([]byte(`{"type":"new","x":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		content, err := mcp.DecodeContent(data)
		if err != nil {
			return
		}
		once, err := content.AppendJSON(nil)
		if err != nil {
			return
		}
		again, err := mcp.DecodeContent(once)
		if err != nil {
			t.Fatalf("what was sent is not decoded: %v\n%s\n%s", err, data, once)
		}
		if twice, err := again.AppendJSON(nil); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not stable: %v\n%s\n%s", err, once, twice)
		}
	})
}

// FuzzObjects decodes one text as each of the types: parameters, results and
// what they hold.
func FuzzObjects(f *testing.F) {
	names := slices.Sorted(maps.Keys(newCodec))
	for i, name := range names {
		f.Add(uint8(i), appended(f, sample(name)))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		checkStable(t, newCodec[names[int(which)%len(names)]], data)
	})
}

func FuzzElicit(f *testing.F) {
	f.Add([]byte(form), []byte(`{"name":"Ada","size":"M"}`))
	f.Fuzz(func(t *testing.T, schema, content []byte) {
		filled, err := mcp.ApplyElicitDefaults(schema, content)
		if err == nil && jsonscan.Valid(filled) != nil {
			t.Fatalf("defaults make %s", filled)
		}
		parsed, err := mcp.ParseElicitSchema(schema)
		if err != nil {
			return
		}
		checkStable(t, func() codec { return new(mcp.ElicitSchema) }, schema)
		_ = parsed.Check(content) // must not panic
	})
}

func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"a":1}`), "a", []byte(`2`))
	f.Add([]byte(``), "\xee", []byte(`0`))
	f.Add([]byte(`{}`), "a\x00", []byte(`0`))
	f.Fuzz(func(t *testing.T, data []byte, key string, value []byte) {
		meta := mcp.Meta(bytes.Clone(data))
		if meta.Set(key, value) != nil || meta.IsZero() {
			return
		}
		if jsonscan.Valid(meta) != nil || !bytes.Equal(bytes.TrimSpace(value), meta.Get(key)) && value != nil {
			t.Fatalf("%q set to %q in %q gives %q", key, value, data, meta)
		}
	})
}
