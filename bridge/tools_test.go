package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// library is a played server with tools of every kind of answer.
func library() *played {
	answers := map[string]string{
		"text":  `{"content":[{"type":"text","text":"a"}]}`,
		"fail":  `{"content":[{"type":"text","text":"no"},{"type":"text","text":"way"}],"isError":true}`,
		"value": `{"content":[{"type":"text","text":"{}"}],"structuredContent":{"z":9007199254740993,"a":1}}`,
		"odd":   `{"content":"none"}`,
	}
	return &played{era: client.Legacy, answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
		switch req.Method {
		case mcp.MethodToolsList:
			return `{"tools":[{"name":"text","description":"Says \u0061.","inputSchema":{"type":"object","properties":{"b":{"const":1e2}}}},` +
				`{"name":"fail","inputSchema":{"type":"object"}},{"name":"value","title":"V"},{"name":"odd","inputSchema":{}}]}`, nil
		case mcp.MethodToolsCall:
			return answers[strings.Trim(string(req.Member("name")), `"`)], nil
		}
		return "", nil
	}}
}

func TestTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, nil, bridge.Config{Alias: "l", Dialer: pipeTo(library())})
		if got := names(b.Catalog(), mcp.KindTool); got != "l__text l__fail l__value l__odd" {
			t.Errorf("the names are %q", got)
		}
		if tools, err := b.Tools(t.Context()); err != nil || len(tools) != 4 || tools[0].Name != "l__text" || tools[0].Description != "Says a." {
			t.Errorf("the tools are %+v, %v", tools, err)
		}
		for style, want := range map[bridge.Style]string{
			bridge.OpenAI: `[{"type":"function","function":{"name":"l__text","description":"Says \u0061.","parameters":{"type":"object","properties":{"b":{"const":1e2}}}}},` +
				`{"type":"function","function":{"name":"l__fail","parameters":{"type":"object"}}},` +
				`{"type":"function","function":{"name":"l__value","parameters":{"type":"object"}}},` +
				`{"type":"function","function":{"name":"l__odd","parameters":{}}}]`,
			bridge.Anthropic: `[{"name":"l__text","description":"Says \u0061.","input_schema":{"type":"object","properties":{"b":{"const":1e2}}}},` +
				`{"name":"l__fail","input_schema":{"type":"object"}},` +
				`{"name":"l__value","input_schema":{"type":"object"}},` +
				`{"name":"l__odd","input_schema":{}}]`,
		} {
			if got, err := b.Functions(t.Context(), style); err != nil || string(got) != want {
				t.Errorf("the functions are\n%s, %v\nwant\n%s", got, err, want)
			}
		}
	})
}

func TestCallTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, nil, bridge.Config{Alias: "l", Dialer: pipeTo(library())})
		result, err := b.CallTool(t.Context(), "l__value", nil)
		if err != nil || string(result.StructuredContent) != `{"z":9007199254740993,"a":1}` {
			t.Errorf("the result is %+v, %v", result, err)
		}
		result, err = b.CallTool(t.Context(), "l__fail", jsonRaw(`{"a":1}`))
		if err != nil || !result.IsError {
			t.Errorf("a failure is %+v, %v", result, err)
		}
		_, err = b.CallTool(t.Context(), "l__odd", nil)
		wantFailure(t, err, bridge.Malformed, jsonrpc.MaybeExecuted)
		for _, name := range []string{"", "text", "l__none", "l__text "} {
			if _, err := b.CallTool(t.Context(), name, nil); !errors.Is(err, bridge.ErrUnknownTool) {
				t.Errorf("%q: %v", name, err)
			}
		}
		for _, arguments := range []string{"", "[]", "null", "{", `{},"_meta":{"progressToken":1}`, `{}}`, `{"a":1,"a":2`} {
			_, err := b.CallTool(t.Context(), "l__text", jsonRaw(arguments))
			if failed, ok := err.(*jsonrpc.Error); !ok || failed.Code != jsonrpc.InvalidParams {
				t.Errorf("arguments %s: %v", arguments, err)
			}
		}
	})
}

func TestHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBridge(t, nil, bridge.Config{Alias: "l", Dialer: pipeTo(library())})
		handle := b.Handler()
		for tool, want := range map[string]string{"l__text": "a", "l__fail": `{"error":"no way"}`, "l__value": "{}"} {
			if got, err := handle(t.Context(), tool, nil); err != nil || got != want {
				t.Errorf("%s gave %q, %v", tool, got, err)
			}
		}
		if _, err := handle(t.Context(), "none", nil); !errors.Is(err, bridge.ErrUnknownTool) {
			t.Error(err)
		}
	})
}

func TestCompose(t *testing.T) {
	broken := errors.New("broken")
	var asked []string
	has := func(own, says string, fails error) bridge.Handler {
		return func(_ context.Context, name string, _ json.RawMessage) (string, error) {
			asked = append(asked, own)
			if name != own {
				return own + " does not know it", bridge.ErrUnknownTool
			}
			return says, fails
		}
	}
	handle := bridge.Compose(has("a", `{"error":"Unknown tool: a"}`, nil), has("b", "", broken), has("c", "of c", nil))
	for _, test := range []struct {
		name, says string
		err        error
		asked      string
	}{
		{"a", `{"error":"Unknown tool: a"}`, nil, "a"}, // that is what the tool says
		{"b", "", broken, "a b"},
		{"c", "of c", nil, "a b c"},
		{"d", "c does not know it", bridge.ErrUnknownTool, "a b c"},
	} {
		asked = nil
		if says, err := handle(t.Context(), test.name, nil); says != test.says || !errors.Is(err, test.err) || strings.Join(asked, " ") != test.asked {
			t.Errorf("%s: %q, %v, asked %q", test.name, says, err, asked)
		}
	}
}

func TestReduce(t *testing.T) {
	for _, test := range []struct{ result, value, text string }{
		{`{"content":[]}`, `null`, ``},
		{`{"content":[{"type":"text","text":"a\"\n"}]}`, `"a\"\n"`, "a\"\n"},
		{`{"content":[{"type":"text","text":""}]}`, `""`, ``},
		{`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `"a\nb"`, `["a","b"]`},
		{`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}`, `null`, `[{"type":"image","data":"AA==","mimeType":"image/png"}]`},
		{`{"content":[{"type":"text","text":"a"},{"type":"hologram","x":1e400}]}`, `"a"`, `["a",{"type":"hologram","x":1e400}]`},
		{`{"content":[{"type":"text","text":"a"}],"structuredContent":{}}`, `{}`, `a`},
		{`{"content":[],"structuredContent":{"n":9007199254740993}}`, `{"n":9007199254740993}`, ``},
		{`{"content":[{"type":"text","text":"no"},{"type":"text","text":"way"}],"isError":true,"structuredContent":{}}`, "no\nway", `{"error":"no way"}`},
		{`{"content":[],"isError":true}`, "the tool failed without saying why", `{"error":""}`},
	} {
		result := new(mcp.CallToolResult)
		if err := result.UnmarshalJSON([]byte(test.result)); err != nil {
			t.Fatal(err)
		}
		value, err := bridge.ReduceValue(result)
		if failed, ok := errors.AsType[*bridge.ToolError](err); ok {
			if failed.Error() != test.value || failed.Result != result || !result.IsError {
				t.Errorf("%s: the error is %q", test.result, failed)
			}
		} else if err != nil || string(value) != test.value {
			t.Errorf("%s: the value is %s, %v, want %s", test.result, value, err, test.value)
		}
		if text, err := bridge.ReduceText(result); err != nil || text != test.text {
			t.Errorf("%s: the text is %s, %v, want %s", test.result, text, err, test.text)
		}
	}
}

func TestInstructions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := library()
		bound := strings.Repeat("é", 10_000)
		speaks := func(text string) *played {
			p := library()
			p.capabilities = `{"tools":{}},"instructions":` + text
			return p
		}
		down := lineTo(long)
		down.refuse.Store(true)
		b := newBridge(t, nil,
			bridge.Config{Alias: "a", Dialer: pipeTo(speaks(`"Ask first."`))},
			bridge.Config{Alias: "silent", Dialer: pipeTo(library())},
			bridge.Config{Alias: "down", Dialer: down},
			bridge.Config{Alias: "b", Dialer: pipeTo(speaks(`"` + bound + `"`))})
		want := "## a\n\nAsk first.\n\n## b\n\n" + bound[:16<<10] + "…"
		if got := b.Instructions(); got != want {
			t.Errorf("the instructions have %d bytes: %.100q", len(got), got)
		}
	})
}
