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

func TestWhatIsAppendedIsDecoded(t *testing.T) {
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

// The zero value of a type must be JSON too, if it can be sent at all.
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

// A value behaves the same under encoding/json, as a value, a pointer or a part
// of something else.
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

func TestRawMembersGoOutVerbatim(t *testing.T) {
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

func TestWhatIsNotJSONIsNotSent(t *testing.T) {
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

// plainJSON decodes JSON for comparison: numbers by their text.
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
