package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// odd is an object that decoding and encoding would change: numbers beyond float64, unnecessary
// escapes, half a surrogate pair, unsorted and unknown members.
const odd = `{"z":1,"a":[9007199254740993,1e400,-0,0.10,1E+2,"\u0041\/\ud83d\ude00 é","\ud83d"],"":null,"Name":true,"vendor":{"$ref":"#/x"}}`

// An exchange is a call and its result.
type exchange struct{ method, params, result string }

var exchanges = []exchange{
	{mcp.MethodToolsCall, `{"unknown":` + odd + `,"arguments":` + odd + `,"name":"NAME","_meta":{"vendor/x":` + odd + `,"y":1},"last":0}`,
		`{"content":[{"type":"text","text":"a","_meta":{"vendor/x":1},"unknown":` + odd + `},{"type":"hologram","data":` + odd + `},` +
			`{"resource":{"uri":"x://","text":"t","extra":` + odd + `},"type":"resource"}],` +
			`"structuredContent":` + odd + `,"isError":false,"unknown":` + odd + `,"_meta":{"vendor/a":` + odd + `,"b":1}}`},
	{mcp.MethodToolsCall, `{"name":"NAME"}`, `{"isError":true,"content":[]}`},
	{mcp.MethodToolsCall, `{"name":"NAME","arguments":{}}`, `{ "content" : [ { "type" : "text" , "text" : "" } ] }`},
	{mcp.MethodPromptsGet, `{"arguments":{"b":"\u0041","a":""},"x":` + odd + `,"name":"NAME"}`,
		`{"messages":[{"role":"user","content":{"type":"text","text":"\u0041","x":` + odd + `},"y":` + odd + `}],"description":"d","z":` + odd + `}`},
	{mcp.MethodResourcesRead, `{"x":` + odd + `,"uri":"x:\/\/one"}`,
		`{"contents":[{"uri":"x://one","text":"\u0041","x":` + odd + `},{"uri":"x://two","blob":"AA==","mimeType":"a/b"}],"z":` + odd + `}`},
	{mcp.MethodComplete, `{"argument":{"value":"\u0041","name":"a","x":` + odd + `},"ref":{"x":` + odd + `,"name":"NAME","type":"ref/prompt"},"context":{"arguments":{"z":"1","a":"2"},"y":0}}`,
		`{"completion":{"total":3,"values":["b","a"],"x":` + odd + `},"z":` + odd + `}`},
	{mcp.MethodComplete, `{"ref":{"uri":"x://{one}","type":"ref/resource"},"argument":{"name":"one","value":""}}`,
		`{"completion":{"values":[],"hasMore":false}}`},
}

// entries are list entries, with the name at the beginning, at the end or escaped.
var entries = map[string][]string{
	"tools": {
		`{"name":"t","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"n":{"type":"integer","maximum":9007199254740993}},` +
			`"properties":{"z":{"$ref":"#/$defs/n"},"a":{"if":{"const":1},"then":{"minimum":1e2},"x-vendor":` + odd + `}},"required":["z"],"allOf":[true]},` +
			`"outputSchema":{"type":"object","unknownKeyword":` + odd + `},"annotations":{"readOnlyHint":true,"x":` + odd + `},"execution":{"taskSupport":"optional"},"vendor":` + odd + `}`,
		`{"description":"\u0041 \/ é","_meta":{"vendor/x":` + odd + `,"io.modelcontextprotocol/x":1},"icons":[{"src":"x:","theme":"dark","x":1}],"inputSchema":{"type":"object"},"title":"T","name":"\u0075"}`,
	},
	"prompts":           {`{"arguments":[{"required":true,"name":"a","x":` + odd + `}],"name":"p","x":` + odd + `}`},
	"resources":         {`{"size":9007199254740993,"uri":"x://one","name":"one","x":` + odd + `}`},
	"resourceTemplates": {`{"uriTemplate":"x://{one}","name":"one","x":` + odd + `}`},
}

// official returns the examples of the specification.
func official(t *testing.T) ([]exchange, map[string][]string) {
	t.Helper()
	dir, ok := testsuites.Dir(t, "mcp/schema/2026-07-28/examples")
	if !ok {
		return nil, nil
	}
	read := func(kind string) (texts []string) {
		files, err := filepath.Glob(filepath.Join(dir, kind, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no examples of %s", kind)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			line := new(bytes.Buffer)
			if err := json.Compact(line, data); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, line.String())
		}
		return texts
	}
	var calls []exchange
	for _, params := range read("CallToolRequestParams") {
		object, err := jsonscan.Splice(nil, []byte(params), jsonscan.Edit{Name: "name", Value: jsonRaw(`"NAME"`)})
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, exchange{mcp.MethodToolsCall, string(object), `{"content":[]}`})
	}
	for kind, call := range map[string]exchange{
		"CallToolResult":     {mcp.MethodToolsCall, `{"name":"NAME"}`, ""},
		"GetPromptResult":    {mcp.MethodPromptsGet, `{"name":"NAME"}`, ""},
		"ReadResourceResult": {mcp.MethodResourcesRead, `{"uri":"x://one"}`, ""},
		"CompleteResult":     {mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"NAME"},"argument":{"name":"a","value":""}}`, ""},
	} {
		for _, result := range read(kind) {
			call.result = result
			calls = append(calls, call)
		}
	}
	lists := map[string][]string{}
	for i, tool := range read("Tool") {
		object, err := jsonscan.Splice(nil, []byte(tool), jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, "tool"+string(rune('a'+i)))})
		if err != nil {
			t.Fatal(err)
		}
		lists["tools"] = append(lists["tools"], string(object))
	}
	lists["resources"] = read("Resource")
	return calls, lists
}

// ofHop has the members that belong to one hop.
var ofHop = map[string]bool{
	"resultType": true, "ttlMs": true, "cacheScope": true, "requestState": true, "inputResponses": true,
}

// rest returns the members that must arrive unchanged, with name in place of a name.
func rest(t testing.TB, object []byte, name string) string {
	t.Helper()
	members, err := jsonscan.ReadObject(object)
	if err != nil {
		t.Fatalf("%v: %s", err, object)
	}
	var out []string
	for m := range members.All() {
		key, value := jsonscan.Unquote(m.Key), string(m.Value)
		switch {
		case ofHop[key]:
			continue
		case key == "_meta":
			if value = meta(t, m.Value); value == "" {
				continue
			}
		case key == "name" && name != "":
			value = name
		case key == "ref" && name != "":
			value = rest(t, m.Value, name)
		}
		out = append(out, string(m.Key)+":"+value)
	}
	return strings.Join(out, "\n")
}

// meta returns the members of a _meta that must arrive unchanged.
func meta(t testing.TB, object []byte) string {
	t.Helper()
	members, err := jsonscan.ReadObject(object)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for m := range members.All() {
		key := jsonscan.Unquote(m.Key)
		if key != "progressToken" && !strings.HasPrefix(key, "io.modelcontextprotocol/") {
			out = append(out, string(m.Key)+":"+string(m.Value))
		}
	}
	return strings.Join(out, ",")
}

// A corpus is a server that replies with given lists and results.
type corpus struct {
	fakeServer
	lists map[string][]string

	mu     sync.Mutex
	params []byte
	result string
	err    *jsonrpc.Error
}

func newCorpus(era client.Era, lists map[string][]string) *corpus {
	c := &corpus{lists: lists}
	c.era, c.capabilities = era, `{"tools":{},"prompts":{},"resources":{},"completions":{}}`
	c.answer = func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		for member, method := range map[string]string{
			"tools": mcp.MethodToolsList, "prompts": mcp.MethodPromptsList, "resources": mcp.MethodResourcesList, "resourceTemplates": mcp.MethodResourceTemplatesList,
		} {
			if req.Method == method {
				return `{"` + member + `":[` + strings.Join(c.lists[member], ",") + `]}`, nil
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.params = bytes.Clone(req.Params)
		if c.err != nil {
			return "", c.err
		}
		return c.result, nil
	}
	return c
}

// chain returns a client of a server with a bridge to a server with a proxy to c.
func chain(t *testing.T, c *corpus, caller client.Era) *client.Session {
	t.Helper()
	middle := mount(t, bridge.Proxy(pipeTo(c), &bridge.ProxyOptions{Logger: quiet()}))
	b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "up", Dialer: pipeTo(middle), ProxyOptions: bridge.ProxyOptions{Era: c.era}})
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, pipeTo(mount(t, b)), client.Options{Era: caller})
}

func TestNothingIsLost(t *testing.T) {
	calls, lists := official(t)
	calls = append(calls, exchanges...)
	for member, listed := range entries {
		if lists == nil {
			lists = make(map[string][]string)
		}
		lists[member] = append(lists[member], listed...)
	}
	eachPair(t, func(t *testing.T, caller, behind client.Era) {
		calls, lists := calls, lists
		if caller == client.Legacy || behind == client.Legacy {
			calls, lists = inLegacy(calls, lists)
		}
		c := newCorpus(behind, lists)
		session := chain(t, c, caller)
		for _, call := range calls {
			name := map[string]string{mcp.MethodToolsCall: "t", mcp.MethodPromptsGet: "p", mcp.MethodComplete: "p"}[call.method]
			sent := strings.Replace(call.params, "NAME", "up__"+name, 1)
			c.result = call.result
			result, err := session.Call(t.Context(), call.method, jsonRaw(sent), nil)
			if err != nil {
				t.Errorf("%s %s: %v", call.method, sent, err)
				continue
			}
			if got, want := rest(t, c.params, ""), rest(t, []byte(strings.Replace(call.params, "NAME", name, 1)), ""); got != want {
				t.Errorf("%s: sent was\n%s\nand arrived\n%s", call.method, want, got)
			}
			if got, want := rest(t, result, ""), rest(t, []byte(call.result), ""); got != want {
				t.Errorf("%s: the result was\n%s\nand arrived\n%s", call.method, want, got)
			}
		}
		checkLists(t, session, lists)
		for _, data := range []string{odd, `[1e400]`, `"\u0041"`, `9007199254740993`, `null`, ``} {
			c.err = &jsonrpc.Error{Code: -31000, Message: "m\u2028"}
			if data != "" {
				c.err.Data = jsonRaw(data)
			}
			_, err := session.Call(t.Context(), mcp.MethodToolsCall, jsonRaw(`{"name":"up__t"}`), nil)
			got, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok || got.Code != c.err.Code || got.Message != c.err.Message || string(got.Data) != data {
				t.Errorf("the error was %+v, arrived is %+v", c.err, err)
			}
		}
	})
}

// inLegacy removes structured content that is not an object, which the legacy era does not have.
func inLegacy(calls []exchange, lists map[string][]string) ([]exchange, map[string][]string) {
	calls = slices.DeleteFunc(slices.Clone(calls), func(call exchange) bool {
		return strings.Contains(call.result, `"structuredContent":[`)
	})
	lists = maps.Clone(lists)
	lists["tools"] = slices.DeleteFunc(slices.Clone(lists["tools"]), func(tool string) bool {
		return strings.Contains(tool, `"outputSchema":{"type":"array"`)
	})
	return calls, lists
}

// checkLists checks that entries are unchanged except for the name.
func checkLists(t *testing.T, session *client.Session, lists map[string][]string) {
	t.Helper()
	for member, method := range map[string]string{
		"tools": mcp.MethodToolsList, "prompts": mcp.MethodPromptsList, "resources": mcp.MethodResourcesList, "resourceTemplates": mcp.MethodResourceTemplatesList,
	} {
		result, err := session.Call(t.Context(), method, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var list map[string]json.RawMessage
		var got []json.RawMessage
		if err := errors.Join(json.Unmarshal(result, &list), json.Unmarshal(list[member], &got)); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(lists[member]) {
			t.Fatalf("%d %s, want %d: %s", len(got), member, len(lists[member]), result)
		}
		for i, want := range lists[member] {
			name := ""
			if member == "tools" || member == "prompts" {
				name = "NAME"
			}
			if got, want := withName(t, got[i], name), withName(t, []byte(want), name); got != want {
				t.Errorf("an entry of %s was\n%s\nand arrived\n%s", member, want, got)
			}
		}
	}
}

// withName returns an entry with another name, unless name is "".
func withName(t testing.TB, entry []byte, name string) string {
	t.Helper()
	if name == "" {
		return string(entry)
	}
	out, err := jsonscan.Splice(nil, entry, jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, name)})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
