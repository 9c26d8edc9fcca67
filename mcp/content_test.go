package mcp_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
)

func TestContentKinds(t *testing.T) {
	size := int64(3)
	tests := []struct {
		json string
		want mcp.Content
	}{
		{`{"type":"text","text":"a"}`, mcp.Text("a")},
		{`{"text":"a","type":"text"}`, mcp.Text("a")},
		{`{"type":"t\u0065xt","text":"a"}`, mcp.Text("a")},
		{`{"type":"image","data":"AP8=","mimeType":"image/png"}`, mcp.Image([]byte{0, 255}, "image/png")},
		{`{"type":"audio","data":"AP8=","mimeType":"audio/wav"}`, mcp.Audio([]byte{0, 255}, "audio/wav")},
		{`{"type":"resource_link","uri":"a:b","name":"n","size":3}`, (&mcp.Resource{URI: "a:b", Name: "n", Size: &size}).Link()},
		{`{"type":"resource","resource":{"uri":"a:b","text":""}}`, mcp.Embed(&mcp.TextResourceContents{URI: "a:b"})},
		{`{"type":"resource","resource":{"uri":"a:b","blob":"AP8="}}`, mcp.Embed(&mcp.BlobResourceContents{URI: "a:b", Blob: []byte{0, 255}})},
		{`{"type":"tool_use","id":"1","name":"n","input":{}}`, &mcp.ToolUseContent{ID: "1", Name: "n", Input: json.RawMessage("{}")}},
		{`{"type":"tool_result","toolUseId":"1","content":[]}`, &mcp.ToolResultContent{ToolUseID: "1", Content: mcp.ContentList{}}},
		{`{"type":"Text", "text":1}`, &mcp.UnknownContent{Raw: json.RawMessage(`{"type":"Text", "text":1}`)}},
		{`{"type":"","x":1}`, &mcp.UnknownContent{Raw: json.RawMessage(`{"type":"","x":1}`)}},
	}
	for _, test := range tests {
		got, err := mcp.DecodeContent([]byte(test.json))
		if err != nil {
			t.Errorf("%s: %v", test.json, err)
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.json, diff)
		}
		if !equalJSON(t, appended(t, got), []byte(test.json)) {
			t.Errorf("%s goes out as %s", test.json, appended(t, got))
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		into codec
		json string
		want string
	}{
		{new(mcp.CallToolResult), `[]`, `mcp: expected an object, got an array`},
		{new(mcp.CallToolResult), `{"content":{}}`, `mcp: at /content: expected an array of content, got an object`},
		{new(mcp.CallToolResult), `{"content":[{"type":"text","text":7}]}`, `mcp: at /content/0/text: expected a string, got a number`},
		{new(mcp.CallToolResult), `{"content":[{"text":"a"}]}`, `mcp: at /content/0/type: expected a string that names the type of content, got nothing`},
		{new(mcp.CallToolResult), `{"content":[{"type":"text","text":"a"},null]}`, `mcp: at /content/1: expected an object, got null`},
		{new(mcp.CallToolResult), `{"content":[],"isError":"yes"}`, `mcp: at /isError: expected a boolean, got a string`},
		{new(mcp.CallToolResult), `{"_meta":[]}`, `mcp: at /_meta: expected an object, got an array`},
		{new(mcp.ReadResourceResult), `{"contents":[{"uri":"a:b"}]}`, `mcp: at /contents/0: expected a member text or a member blob, got neither`},
		{new(mcp.ReadResourceResult), `{"contents":[{"uri":"a:b","text":"","blob":""}]}`, `mcp: at /contents/0: expected a member text or a member blob, got both`},
		{new(mcp.SamplingMessage), `{"role":"user","content":"text"}`, `mcp: at /content: expected an array of content, got a string`},
		{new(mcp.ProgressParams), `{"progressToken":null}`, `mcp: at /progressToken: expected a string or an integer, got null`},
		{new(mcp.CreateMessageParams), `{"messages":[],"maxTokens":"1"}`, `mcp: at /maxTokens: expected an integer, got a string`},
	}
	for _, test := range tests {
		err := test.into.UnmarshalJSON([]byte(test.json))
		if _, ok := errors.AsType[*mcp.DecodeError](err); !ok {
			t.Errorf("%s: %v is no *DecodeError", test.json, err)
			continue
		}
		if err.Error() != test.want {
			t.Errorf("%s:\n got %s\nwant %s", test.json, err, test.want)
		}
	}
}

// A peer's text does not make an error message long.
func TestDecodeErrorIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<16)
	for _, text := range []string{
		`{"` + long + `":1,"` + long + `":2}`,
		`{"capabilities":{"experimental":{"` + long + `":`,
		`{"capabilities":{"` + long + `":1,"` + long + `":1}}`,
	} {
		err := new(mcp.InitializeParams).UnmarshalJSON([]byte(text))
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("the message has %d bytes", len(err.Error()))
		}
	}
}

// Tool results inside of tool results would let a small text take long: what is
// inside is decoded at each level again.
func TestToolResultsDoNotNest(t *testing.T) {
	const depth = 400
	text := strings.Repeat(`{"type":"tool_result","toolUseId":"1","content":[`, depth) + strings.Repeat(`]}`, depth)
	content, err := mcp.DecodeContent([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	inner := content.(*mcp.ToolResultContent).Content[0]
	unknown, ok := inner.(*mcp.UnknownContent)
	if !ok || unknown.Type() != "tool_result" {
		t.Errorf("inside is a %T", inner)
	}
	if string(appended(t, content)) != text {
		t.Error("the text has changed on its way")
	}
}

func TestSamplingContentForms(t *testing.T) {
	for in, out := range map[string]string{
		`{"type":"text","text":"a"}`:                              `{"type":"text","text":"a"}`,
		`[{"type":"text","text":"a"}]`:                            `{"type":"text","text":"a"}`,
		`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`: `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`,
		`[]`: `[]`,
	} {
		var content mcp.SamplingContent
		if err := json.Unmarshal([]byte(in), &content); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got, err := json.Marshal(content); err != nil || string(got) != out {
			t.Errorf("%s goes out as %s, %v; want %s", in, got, err, out)
		}
	}
}

func TestContentListAlone(t *testing.T) {
	var list mcp.ContentList
	if err := json.Unmarshal([]byte(`[{"type":"text","text":"a"},{"type":"x"}]`), &list); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(list)
	if err != nil || string(got) != `[{"type":"text","text":"a"},{"type":"x"}]` {
		t.Errorf("%s, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`[{}]`), &list); err == nil {
		t.Error("a block without a type is taken")
	}
}

// Text that is not UTF-8 in a Go string does not make a message invalid.
func TestInvalidUTF8IsReplaced(t *testing.T) {
	for _, value := range []any{mcp.Text("a\xffb"), &mcp.Implementation{Name: "a\xffb"}} {
		if encoded := appended(t, value); !strings.Contains(string(encoded), "a\uFFFDb") {
			t.Errorf("%T goes out as %s", value, encoded)
		}
	}
}

func TestNumbersOfProgress(t *testing.T) {
	for number, want := range map[float64]string{0: "0", 1: "1", 0.5: "0.5", 1e6: "1000000", 1e21: "1e+21", 1e-7: "1e-07"} {
		encoded := appended(t, &mcp.ProgressParams{ProgressToken: mcp.ProgressToken("1"), Progress: number})
		if want := `{"progressToken":1,"progress":` + want + `}`; string(encoded) != want {
			t.Errorf("%v goes out as %s", number, encoded)
		}
	}
}

func TestLoggingLevels(t *testing.T) {
	last := -1
	for _, level := range mcp.LoggingLevels() {
		if !level.Valid() || level.Severity() <= last {
			t.Errorf("%s has severity %d after %d", level, level.Severity(), last)
		}
		last = level.Severity()
	}
	for _, level := range []mcp.LoggingLevel{"", "Info", "warn"} {
		if level.Valid() || level.Severity() != -1 {
			t.Errorf("%q is a level", level)
		}
	}
}
