package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pages decode one text as each of the lists, and by their tags alone.
var pages = map[string]func(data []byte) (read, plain any, readErr, plainErr error){
	"tools": func(data []byte) (any, any, error, error) {
		type fields ListToolsResult
		read, plain := new(ListToolsResult), new(ListToolsResult)
		return read, plain, read.UnmarshalJSON(data), decode(data, (*fields)(plain))
	},
	"prompts": func(data []byte) (any, any, error, error) {
		type fields ListPromptsResult
		read, plain := new(ListPromptsResult), new(ListPromptsResult)
		return read, plain, read.UnmarshalJSON(data), decode(data, (*fields)(plain))
	},
	"resources": func(data []byte) (any, any, error, error) {
		type fields ListResourcesResult
		read, plain := new(ListResourcesResult), new(ListResourcesResult)
		return read, plain, read.UnmarshalJSON(data), decode(data, (*fields)(plain))
	},
	"resourceTemplates": func(data []byte) (any, any, error, error) {
		type fields ListResourceTemplatesResult
		read, plain := new(ListResourceTemplatesResult), new(ListResourceTemplatesResult)
		return read, plain, read.UnmarshalJSON(data), decode(data, (*fields)(plain))
	},
}

// checkLists compares what is read by hand with what is decoded by the tags.
func checkLists(t *testing.T, data []byte) {
	t.Helper()
	for member, decodeBoth := range pages {
		read, plain, readErr, plainErr := decodeBoth(data)
		if fmt.Sprint(readErr) != fmt.Sprint(plainErr) {
			t.Errorf("%s: error %v, want %v\n%s", member, readErr, plainErr, data)
		}
		if diff := cmp.Diff(plain, read); plainErr == nil && diff != "" {
			t.Errorf("%s: read differently (-by its tags +by hand):\n%s\n%s", member, diff, data)
		}
	}
}

// listTexts are %s in the lists of all kinds.
var listTexts = []string{
	`[]`, `null`, `{}`, `[null]`, `[1]`, `[{}]`, `[{},{}]`, ` [ { } , { } ] `, `[{}`, `[{}]]`,
	`[{"name":"a","title":"b\u0020\ud83d\ude00","description":"c\n"}]`,
	`[{"name":null,"title":null,"description":null,"uri":null,"mimeType":null}]`,
	`[{"name":1}]`, `[{"name":{}}]`, `[{"name":"a"},{"name":[]}]`, `[{"Name":"a"}]`,
	`[{"n\u0061me":"a"}]`, `[{"name":"a","n\u0061me":"b"}]`, `[{"name":"a","name":"b"}]`,
	`[{"inputSchema": {"type" : "object"} ,"outputSchema":[ ]}]`, `[{"inputSchema":null,"outputSchema":null}]`,
	`[{"inputSchema":{"a":1,"a":2}}]`, `[{"inputSchema":{"a":[{"b":{"c":1,"c":2}}]}}]`, `[{"inputSchema":{"a\u0000":1}}]`,
	`[{"x":1}]`, `[{"x-b": {"b" : 1.0},"name":"a","x-a":[ ]}]`, `[{"x":1,"x":2}]`, `[{"x":{"y":1,"y":2}}]`, `[{"x\u002d":1}]`,
	`[{"annotations":{"title":"t","readOnlyHint":true,"audience":["user"],"priority":0.5}}]`,
	`[{"annotations":null,"execution":null,"icons":null,"_meta":null,"arguments":null,"size":null}]`,
	`[{"annotations":1}]`, `[{"annotations":{"title":1}}]`, `[{"execution":{"taskSupport":"optional","x":1}}]`,
	`[{"icons":[{"src":"a"}]}]`, `[{"icons":[{"src":1}]}]`, `[{"_meta":{ "a":1 }}]`, `[{"_meta":1}]`, `[{"_meta":{"a":1,"a":2}}]`,
	`[{"uri":"a","uriTemplate":"b","mimeType":"c","size":12}]`, `[{"size":1.5}]`, `[{"size":"1"}]`, `[{"size":1e400}]`,
	`[{"arguments":[{"name":"a","required":true,"x":null}]}]`, `[{"arguments":[{"name":1}]}]`,
	"[{\"name\":\"\xff\"}]", `[{"name":"\ud800"}]`, `[{"inputSchema":"\ud800"}]`, `[{"inputSchema":01}]`,
	`[{"inputSchema":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}]`,
	`[` + strings.Repeat(`{},`, 20) + `{"name":"` + strings.Repeat("long ", 100) + `"}]`,
}

func TestListsAreReadAsTheirTagsSay(t *testing.T) {
	for _, text := range listTexts {
		for member := range pages {
			for _, page := range []string{
				`{"%s":%s}`, ` { "x":{"y":1}, "%s" : %s , "nextCursor":"c","ttlMs":5,"cacheScope":"public","resultType":"complete","_meta":{"a":1},"z":2} `,
				`{"nextCursor":1,"%s":%s}`, `{"%s":%s,"ttlMs":1.5}`, `{"%[1]s":%[2]s,"%[1]s":[]}`, `{"%s":%s}x`, `{"%s":%s,}`, `{"X%s":%s}`, `["%s",%s]`,
			} {
				checkLists(t, fmt.Appendf(nil, page, member, text))
			}
		}
	}
	checkLists(t, []byte(`{"t\u006fols":[{"name":"a"}],"pr\u006fmpts":[]}`))
	checkLists(t, []byte(`{"tools":[`+strings.Repeat(`{"name":"a"},`, 5*maxAhead)+`{}]}`)) // room is made more than once
}

// What servers say in earnest must not fall back to the slow way.
func TestUsualListsAreReadByHand(t *testing.T) {
	data := []byte(`{"tools": [
		{"name": "a", "title": null, "description": "d\n", "inputSchema": {"type": "object"}, "outputSchema": null,
		 "annotations": {"readOnlyHint": true}, "execution": {"taskSupport": "optional"}, "icons": [{"src": "https://a"}],
		 "_meta": {"x/tags": []}, "x": {"y": 1}},
		{"inputSchema": {"type": "object"}, "name": "b"}
	], "nextCursor": "c"}`)
	tools, rest, ok := readList[Tool](data, "tools")
	if !ok || len(tools) != 2 || string(rest) != `{"tools":[], "nextCursor": "c"}` {
		t.Errorf("%v: %d tools and %s", ok, len(tools), rest)
	}
}

func FuzzLists(f *testing.F) {
	for _, text := range listTexts {
		if len(text) < 1000 {
			f.Add(fmt.Appendf(nil, `{"tools":%s,"prompts":%[1]s,"resources":%[1]s,"resourceTemplates":%[1]s}`, text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkLists(t, data) })
}

// What is kept of one tool must not be part of the text of all.
func TestListsAreCopied(t *testing.T) {
	data := []byte(`{"tools":[{"name":"a","title":"t","inputSchema":{"b":1},"_meta":{"c":1},"x":1}]}`)
	var page ListToolsResult
	if err := page.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	clear(data)
	want := Tool{Name: "a", Title: "t", InputSchema: json.RawMessage(`{"b":1}`), Meta: Meta(`{"c":1}`), Extra: Extra(`{"x":1}`)}
	if diff := cmp.Diff(want, page.Tools[0]); diff != "" {
		t.Error(diff)
	}
}
