package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type addIn struct{ A, B int }

// newBridge returns a bridge that runs, with the tools calc__add, calc__fail and calc__none, which has no parameters.
func newBridge() (b *bridge.Bridge, stop func(), err error) {
	quiet := slog.New(slog.DiscardHandler)
	s := server.New(mcp.Implementation{Name: "calculator", Version: "1"}, &server.Options{Logger: quiet})
	server.AddTool(s, server.Tool{Name: "add"}, func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
	server.AddTool(s, server.Tool{Name: "fail"}, func(context.Context, *server.Request, struct{}) (int, error) { return 0, errors.New("no way") })
	server.AddTool(s, server.Tool{Name: "none"}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
	b, err = bridge.New(&bridge.Options{Logger: quiet}, bridge.Config{Alias: "calc", Dialer: transport.Pipe(s), Required: true})
	if err != nil {
		return nil, nil, err
	}
	stop, err = b.Start(context.Background())
	return b, stop, err
}

func ExampleFirstMatch() {
	clock := func(_ context.Context, name string, _ json.RawMessage) (string, error) {
		if name != "now" {
			return "", bridge.ErrUnknownTool
		}
		return "12:00", nil
	}
	b, stop, err := newBridge()
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	call := llm.FirstMatch(clock, llm.NewHandler(b))
	fmt.Println(call(context.Background(), "now", nil))
	fmt.Println(call(context.Background(), "calc__add", json.RawMessage(`{"A":1,"B":2}`)))
	fmt.Println(call(context.Background(), "fly", nil))
	// Output:
	// 12:00 <nil>
	// 3 <nil>
	//  unknown tool: "fly"
}

func TestHandler(t *testing.T) {
	b, stop, err := newBridge()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	call := llm.NewHandler(b)
	if got, err := call(t.Context(), "calc__fail", nil); err != nil || got != `{"error":"no way"}` {
		t.Errorf("a failure is %q, %v", got, err)
	}
	if _, err := call(t.Context(), "none", nil); !errors.Is(err, bridge.ErrUnknownTool) {
		t.Error(err)
	}
}

func TestFunctions(t *testing.T) {
	var tools []mcp.Tool
	for _, definition := range []string{
		`{"name":"text","description":"Says \u0061.","inputSchema":{"type":"object","properties":{"b":{"const":1e2}}}}`,
		`{"name":"value","title":"V"}`, `{"name":"odd","inputSchema":{}}`,
	} {
		var tool mcp.Tool
		if err := tool.UnmarshalJSON([]byte(definition)); err != nil {
			t.Fatal(err)
		}
		tools = append(tools, tool)
	}
	for name, test := range map[string]struct {
		encode func([]mcp.Tool) []json.RawMessage
		want   string
	}{
		"openai": {llm.OpenAITools, `[{"type":"function","function":{"name":"text","description":"Says a.","parameters":{"type":"object","properties":{"b":{"const":1e2}}}}},` +
			`{"type":"function","function":{"name":"value","parameters":{"type":"object","properties":{}}}},` +
			`{"type":"function","function":{"name":"odd","parameters":{"type":"object","properties":{}}}}]`},
		"anthropic": {llm.AnthropicTools, `[{"name":"text","description":"Says a.","input_schema":{"type":"object","properties":{"b":{"const":1e2}}}},` +
			`{"name":"value","input_schema":{"type":"object","properties":{}}},` +
			`{"name":"odd","input_schema":{"type":"object","properties":{}}}]`},
		"gemini": {llm.GeminiTools, `[{"name":"text","description":"Says a.","parametersJsonSchema":{"type":"object","properties":{"b":{"const":1e2}}}},` +
			`{"name":"value","parametersJsonSchema":{"type":"object","properties":{}}},` +
			`{"name":"odd","parametersJsonSchema":{"type":"object","properties":{}}}]`},
	} {
		if got := list(t, test.encode(tools)); got != test.want {
			t.Errorf("%s: the functions are\n%s\nwant\n%s", name, got, test.want)
		}
		if got := list(t, test.encode(nil)); got != "[]" {
			t.Errorf("%s: no functions are %s", name, got)
		}
	}
}

func TestFirstMatch(t *testing.T) {
	broken := errors.New("broken")
	var called []string
	has := func(own, says string, fails error) llm.Handler {
		return func(_ context.Context, name string, _ json.RawMessage) (string, error) {
			called = append(called, own)
			if name != own {
				return own + " does not know it", bridge.ErrUnknownTool
			}
			return says, fails
		}
	}
	handle := llm.FirstMatch(has("a", `{"error":"Unknown tool: a"}`, nil), has("b", "", broken), has("c", "of c", nil))
	for _, test := range []struct {
		name, says string
		err        error
		called     string
	}{
		{"a", `{"error":"Unknown tool: a"}`, nil, "a"}, // the tool itself says so
		{"b", "", broken, "a b"},
		{"c", "of c", nil, "a b c"},
		{"d", "c does not know it", bridge.ErrUnknownTool, "a b c"},
	} {
		called = nil
		if says, err := handle(t.Context(), test.name, nil); says != test.says || !errors.Is(err, test.err) || strings.Join(called, " ") != test.called {
			t.Errorf("%s: %q, %v, called %q", test.name, says, err, called)
		}
	}
}

func TestResults(t *testing.T) {
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
		value, err := llm.Value(result)
		if failed, ok := errors.AsType[*llm.ToolError](err); ok {
			if failed.Error() != test.value || failed.Result != result || !result.IsError {
				t.Errorf("%s: the error is %q", test.result, failed)
			}
		} else if err != nil || string(value) != test.value {
			t.Errorf("%s: the value is %s, %v, want %s", test.result, value, err, test.value)
		}
		if text, err := llm.Text(result); err != nil || text != test.text {
			t.Errorf("%s: the text is %s, %v, want %s", test.result, text, err, test.text)
		}
	}
}
