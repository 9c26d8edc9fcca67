package mcp_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

var compareIDs = cmp.Comparer(func(a, b jsonrpc.ID) bool { return a == b })

// everySample calls fn with a value of each type that has all fields set.
func everySample(t *testing.T, fn func(t *testing.T, name string, value codec)) {
	for _, name := range slices.Sorted(maps.Keys(newCodec)) {
		t.Run(name, func(t *testing.T) { fn(t, name, sample(name)) })
	}
}

func TestRoundTrip(t *testing.T) {
	everySample(t, func(t *testing.T, name string, value codec) {
		encoded := appended(t, value)
		decoded := newCodec[name]()
		if err := decoded.UnmarshalJSON(encoded); err != nil {
			t.Fatalf("%v\n%s", err, encoded)
		}
		if diff := cmp.Diff(value, decoded, compareIDs); diff != "" {
			t.Errorf("a value changes on its way (-sent +received):\n%s\n%s", diff, encoded)
		}
		if again := appended(t, decoded); !bytes.Equal(encoded, again) {
			t.Errorf("the bytes change on their way:\n%s\n%s", encoded, again)
		}
	})
}

// TestZeroValues checks that the zero value of each type is JSON, if it can be sent.
func TestZeroValues(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(newCodec)) {
		t.Run(name, func(t *testing.T) {
			encoded, err := appendTo([]byte("before"), newCodec[name]())
			if err != nil {
				if string(encoded) != "before" {
					t.Errorf("after an error the buffer is %q", encoded)
				}
				return
			}
			if err := newCodec[name]().UnmarshalJSON(encoded[len("before"):]); err != nil {
				t.Errorf("%v\n%s", err, encoded)
			}
		})
	}
}

func TestUnknownMembersSurvive(t *testing.T) {
	everySample(t, func(t *testing.T, name string, value codec) {
		encoded := appended(t, value)
		const unknown = `"x-second":  {"b" : 1.0,"a":"\u0041"},"x-first":[ ]}`
		planted := append(append(bytes.Clone(encoded[:len(encoded)-1]), ','), unknown...)
		decoded := newCodec[name]()
		if err := decoded.UnmarshalJSON(planted); err != nil {
			t.Fatal(err)
		}
		again := appended(t, decoded)
		if !equalJSON(t, planted, again) {
			t.Errorf("sent on differently:\n%s\n%s", planted, again)
		}
		if second, first := bytes.Index(again, []byte("x-second")), bytes.Index(again, []byte("x-first")); second > first {
			t.Errorf("unknown members change their order: %s", again)
		}
	})
}

// TestEncodingJSON checks that encoding/json gives the same result for values, pointers and
// members.
func TestEncodingJSON(t *testing.T) {
	everySample(t, func(t *testing.T, name string, value codec) {
		encoded := appended(t, value)
		for _, form := range []any{value, reflect.ValueOf(value).Elem().Interface()} {
			other, err := json.Marshal(map[string]any{"k": form})
			if err != nil {
				t.Fatal(err)
			}
			if !equalJSON(t, other, []byte(`{"k":`+string(encoded)+`}`)) {
				t.Errorf("encoding/json writes %T differently:\n%s\n%s", form, other, encoded)
			}
		}
		decoded := newCodec[name]()
		if err := json.Unmarshal(encoded, decoded); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(value, decoded, compareIDs); diff != "" {
			t.Errorf("encoding/json reads it differently:\n%s", diff)
		}
	})
}

func TestStrictness(t *testing.T) {
	everySample(t, func(t *testing.T, name string, value codec) {
		encoded := appended(t, value)
		object, err := jsonscan.ReadObject(encoded)
		if err != nil {
			t.Fatal(err)
		}
		for member := range object.All() {
			twice := append(bytes.Clone(encoded[:len(encoded)-1]), ',')
			twice = append(append(append(append(twice, member.Key...), ':'), member.Value...), '}')
			if err := newCodec[name]().UnmarshalJSON(twice); err == nil {
				t.Errorf("a member given twice is taken: %s", twice)
			}
			decoded := newCodec[name]()
			upper := bytes.Replace(encoded, append(bytes.Clone(member.Key), ':'), append(bytes.ToUpper(member.Key), ':'), 1)
			if decoded.UnmarshalJSON(upper) == nil && cmp.Equal(value, decoded, compareIDs) {
				t.Errorf("%s is taken in another case", member.Key)
			}
		}
		for cut := range encoded {
			if err := newCodec[name]().UnmarshalJSON(encoded[:cut]); err == nil {
				t.Fatalf("taken though cut off: %s", encoded[:cut])
			}
		}
	})
}

func TestRawMembersAreUnchanged(t *testing.T) {
	const raw = `{ "b" : [1.0, 1e400],  "a":"\u003c\/" }`
	for _, value := range []codec{
		&mcp.CallToolParams{Name: "n", Arguments: json.RawMessage(raw), Meta: mcp.Meta(raw)},
		&mcp.CallToolResult{StructuredContent: json.RawMessage(raw), Meta: mcp.Meta(raw)},
		&mcp.Tool{Name: "n", InputSchema: json.RawMessage(raw)},
		&mcp.Tool{Name: "n", OutputSchema: json.RawMessage(raw)},
		&mcp.ToolUseContent{Input: json.RawMessage(raw)},
		&mcp.ToolResultContent{StructuredContent: json.RawMessage(raw)},
		&mcp.ElicitParams{RequestedSchema: json.RawMessage(raw)},
		&mcp.ElicitResult{Content: json.RawMessage(raw)},
		&mcp.LoggingMessageParams{Data: json.RawMessage(raw)},
		&mcp.InputRequiredResult{InputRequests: map[string]mcp.InputRequest{"k": {Params: json.RawMessage(raw)}}},
		&mcp.ReadResourceParams{InputAnswers: mcp.InputAnswers{InputResponses: map[string]json.RawMessage{"k": json.RawMessage(raw)}}},
	} {
		if encoded := appended(t, value); !bytes.Contains(encoded, []byte(raw)) {
			t.Errorf("%T changes raw JSON: %s", value, encoded)
		}
	}
}

func TestInvalidRawJSON(t *testing.T) {
	const bad = `{"a":`
	for _, value := range []codec{
		&mcp.CallToolParams{Arguments: json.RawMessage(bad)},
		&mcp.CallToolResult{StructuredContent: json.RawMessage(bad)},
		&mcp.CallToolResult{Content: mcp.ContentList{nil}},
		&mcp.CallToolResult{Meta: mcp.Meta(`[]`)},
		&mcp.CallToolResult{Extra: mcp.Extra(`[]`)},
		&mcp.CallToolResult{Extra: mcp.Extra(`{"content":[]}`)},
		&mcp.Root{Extra: mcp.Extra(`{"uri":"a"}`)},
		&mcp.Root{Meta: mcp.Meta(bad)},
		&mcp.EmbeddedResource{},
		&mcp.UnknownContent{Raw: json.RawMessage(bad)},
		&mcp.ProgressParams{},
	} {
		if encoded, err := appendTo([]byte("x"), value); err == nil {
			t.Errorf("%T is sent as %s", value, encoded)
		} else if string(encoded) != "x" {
			t.Errorf("%T: after an error the buffer is %q", value, encoded)
		}
	}
}

func appended(t testing.TB, value any) []byte {
	t.Helper()
	const before = "before"
	encoded, err := appendTo([]byte(before), value)
	if err != nil {
		t.Fatalf("%T: %v", value, err)
	}
	if err := jsonscan.Valid(encoded[len(before):]); err != nil || string(encoded[:len(before)]) != before {
		t.Fatalf("%T: not one JSON text after what was there: %v\n%s", value, err, encoded)
	}
	return encoded[len(before):]
}

func equalJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	return reflect.DeepEqual(plainJSON(t, a), plainJSON(t, b))
}

// plainJSON decodes JSON for comparison, with numbers as text.
func plainJSON(t testing.TB, data []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return value
}

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

// FuzzContent checks that decoded content can be sent, and decoded to the same.
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
		once, err := content.MarshalJSON()
		if err != nil {
			return
		}
		again, err := mcp.DecodeContent(once)
		if err != nil {
			t.Fatalf("what was sent is not decoded: %v\n%s\n%s", err, data, once)
		}
		if twice, err := again.MarshalJSON(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not stable: %v\n%s\n%s", err, once, twice)
		}
	})
}

// FuzzObjects decodes one text as each of the types.
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
