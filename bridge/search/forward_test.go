package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// TestForwardedCallIsTheSame: params and result have the bytes of a direct call.
func TestForwardedCallIsTheSame(t *testing.T) {
	const arguments = `{"b":12345678901234567890.10,"a":"\u00e9é\/","b ":{ "x":1e2,"X":-0 },"name":"y"}`
	eachEra(t, func(t *testing.T, era client.Era) {
		from := newSource("tool")
		var seen string
		from.answer = func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			seen = string(call.Params())
			return mcp.Raw(`{"structuredContent":{"n":9007199254740993, "o":1.0},"content":[{"type":"odd","x":"\u00e9"}],"zz":1.50}`), nil
		}
		through := connect(t, newServer(t, from), &client.Options{Era: era})
		direct := connect(t, mounted(t, from, "", nil), &client.Options{Era: era})
		for outer, inner := range map[string]string{
			`{ "zz" : [1.0] ,"na\u006de":"call_tool", "arguments":{"arguments":%s ,"name":"tool"} ,"other":null}`:                `{ "zz" : [1.0] ,"na\u006de":"tool", "arguments":%s ,"other":null}`,
			`{"arguments":{"name":"\u0074ool","argument\u0073": %s},"_meta":{"vendor/x":1.50},"name":"\u0063all_tool","zz":1.0}`: `{"arguments":%s,"_meta":{"vendor/x":1.50},"name":"\u0074ool","zz":1.0}`,
			`{"name":"call_tool","arguments":{"name":"tool"},"x":%s}`:                                                            `{"name":"tool","x":%s}`,
			`{"name":"call_tool","arguments":{"name":"tool","arguments":null},"x":%s}`:                                           `{"name":"tool","arguments":null,"x":%s}`,
		} {
			got, err := through.Call(t.Context(), mcp.MethodToolsCall, fmt.Appendf(nil, outer, arguments), nil)
			if err != nil {
				t.Fatal(err)
			}
			gotSeen := seen
			want, err := direct.Call(t.Context(), mcp.MethodToolsCall, fmt.Appendf(nil, inner, arguments), nil)
			if err != nil {
				t.Fatal(err)
			}
			if gotSeen != seen || string(got) != string(want) {
				t.Errorf("%s\nis the call %s\nwant        %s\nand gives %s\nwant      %s", outer, gotSeen, seen, got, want)
			}
		}
	})
}

// TestForwardedErrorIsTheSame: errors keep code, message and data.
func TestForwardedErrorIsTheSame(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		from := newSource("tool")
		session := connect(t, newServer(t, from), &client.Options{Era: era})
		want := jsonrpc.Error{Code: -77, Message: "no", Data: json.RawMessage(`{"n":1.50}`)}
		from.answer = func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, fmt.Errorf("wrapped: %w", &want) }
		_, err := callInner(t, session, "tool", "{}")
		if got := protocolError(t, err); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("the error is %+v", got)
		}
		from.answer = func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, errors.New("the secret is 42") }
		if _, err := callInner(t, session, "tool", "{}"); strings.Contains(err.Error(), "secret") {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestUnknownInnerTool: the error is the same as a server's.
func TestUnknownInnerTool(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newServer(t, newSource("tool")), &client.Options{Era: era})
		for _, name := range []string{"other", "", "Tool", "search_tools", "call_tool", strings.Repeat("x", 10_000)} {
			_, err := callInner(t, session, name, "{}")
			if e := protocolError(t, err); e.Code != jsonrpc.InvalidParams || e.Message != fmt.Sprintf("unknown tool: %.256q", name) {
				t.Errorf("the error is %+v", e)
			}
		}
	})
}

// TestToolsOfTheSameNames as the two are reached through them.
func TestToolsOfTheSameNames(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newServer(t, newSource("search_tools", "call_tool")), &client.Options{Era: era})
		if got := foundNames(t, session, "call_tool"); got != "call_tool search_tools" {
			t.Errorf("found is %q", got)
		}
		for _, name := range []string{"search_tools", "call_tool"} {
			result, err := callInner(t, session, name, `{"name":"x"}`)
			if err != nil || !strings.HasPrefix(texts(result), `{"name":"`+name+`","arguments":{"name":"x"}`) {
				t.Errorf("%s gives %+v, %v", name, result, err)
			}
		}
		inner := newProvider(t, newSource("deep"))
		session = connect(t, newServer(t, inner), &client.Options{Era: era})
		result, err := callInner(t, session, search.CallTool, `{"name":"deep","arguments":{"x":1.0}}`)
		if err != nil || !strings.HasPrefix(texts(result), `{"name":"deep","arguments":{"x":1.0}`) {
			t.Errorf("two providers give %+v, %v", result, err)
		}
	})
}

// TestForwardRefuses: wrong arguments are explained to the model.
func TestForwardRefuses(t *testing.T) {
	from := newSource("tool")
	from.answer = func(context.Context, *mcp.Call) (mcp.Result, error) {
		t.Error("the source is called")
		return text(""), nil
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newServer(t, from), &client.Options{Era: era})
		for params, want := range map[string]string{
			`{"name":"call_tool"}`:                                                            "name must be a string",
			`{"name":"call_tool","arguments":{}}`:                                             "name must be a string",
			`{"name":"call_tool","arguments":{"name":7}}`:                                     "name must be a string",
			`{"name":"call_tool","arguments":7}`:                                              "arguments: ",
			`{"name":"call_tool","arguments":{"name":"tool","path":"x"}}`:                     `unknown argument "path", expected only name, arguments`,
			`{"name":"call_tool","arguments":{"name":"tool","arguments":"{}"}}`:               "arguments must be an object",
			`{"name":"call_tool","arguments":{"name":"tool","arguments":[]}}`:                 "arguments must be an object",
			`{"name":"search_tools"}`:                                                         "query must be a string",
			`{"name":"search_tools","arguments":[]}`:                                          "arguments: ",
			`{"name":"search_tools","arguments":{"limit":1}}`:                                 "query must be a string",
			`{"name":"search_tools","arguments":{"query":null}}`:                              "query must be a string",
			`{"name":"search_tools","arguments":{"query":"x","limit":0}}`:                     "limit must be an integer from 1 to 50, not 0",
			`{"name":"search_tools","arguments":{"query":"x","limit":51}}`:                    "limit must be an integer from 1 to 50, not 51",
			`{"name":"search_tools","arguments":{"query":"x","limit":1.5}}`:                   "limit must be an integer",
			`{"name":"search_tools","arguments":{"query":"x","limit":1e999999999}}`:           "limit must be an integer",
			`{"name":"search_tools","arguments":{"query":"x","limit":"1"}}`:                   "limit must be an integer",
			`{"name":"search_tools","arguments":{"query":"x","prefix":1}}`:                    "prefix must be a string",
			`{"name":"search_tools","arguments":{"query":"x","server":"y"}}`:                  `unknown argument "server", expected only`,
			`{"name":"search_tools","arguments":{"query":"` + long(1025) + `"}}`:              "query must have at most 1024 bytes, not 1025",
			`{"name":"search_tools","arguments":{"query":"x","prefix":"` + long(1025) + `"}}`: "prefix must have at most 1024 bytes",
		} {
			raw, err := session.Call(t.Context(), mcp.MethodToolsCall, []byte(params), nil)
			if err != nil {
				t.Errorf("%.100s: %v", params, err)
				continue
			}
			var result mcp.CallToolResult
			if err := json.Unmarshal(raw, &result); err != nil || !result.IsError || !strings.HasPrefix(texts(&result), want) {
				t.Errorf("%.100s gives %s, want %q", params, raw, want)
			}
		}
	})
}

func long(n int) string { return strings.Repeat("x", n) }

// asking returns a handler that reports progress, asks a question, and counts calls once.
func asking(times *atomic.Int64) func(context.Context, *mcp.Call) (mcp.Result, error) {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		number, ok := call.Load("number")
		if !ok {
			number = json.RawMessage(fmt.Sprint(times.Add(1)))
			call.Store("number", number)
		}
		token := mcp.ProgressToken(call.Member("_meta", mcp.MetaProgressToken))
		if err := call.Notify(ctx, mcp.NotificationProgress, &mcp.ProgressParams{ProgressToken: token, Progress: 1, Message: "asking"}); err != nil {
			return nil, err
		}
		answer, err := confirm(call, "Sure?")
		if err != nil {
			return nil, err
		}
		return text(string(number) + string(answer)), nil
	}
}

// confirm asks the caller a question and returns the answer.
func confirm(call *mcp.Call, message string) (json.RawMessage, error) {
	params, err := (&mcp.ElicitParams{Mode: mcp.ElicitForm, Message: message, RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`)}).AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	return call.Input("sure", mcp.InputRequest{Method: mcp.MethodElicit, Params: params})
}

// TestForwardedCallAsks: questions, values kept between rounds and progress work.
func TestForwardedCallAsks(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		from := newSource("order")
		var times atomic.Int64
		from.answer = asking(&times)
		session := connect(t, newServer(t, from), accepting(era))
		for want := range 2 {
			var progress []string
			result, err := session.CallTool(t.Context(), search.CallTool, json.RawMessage(`{"name":"order"}`),
				&client.CallOptions{Progress: func(p *mcp.ProgressParams) { progress = append(progress, p.Message) }})
			if err != nil || !strings.HasPrefix(texts(result), fmt.Sprint(want+1, `{"action":"accept"`)) || !slices.Contains(progress, "asking") {
				t.Errorf("the tool gives %+v, %v, progress %q", result, err, progress)
			}
		}
	})
}

// accepting returns options of a client whose user accepts everything.
func accepting(era client.Era) *client.Options {
	return &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{}`)}, nil
	}}
}

// TestForwardedCallIsCancelled: cancelling the call cancels the forwarded one.
func TestForwardedCallIsCancelled(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		from := newSource("wait")
		begun, ended := make(chan struct{}), make(chan struct{})
		from.answer = func(ctx context.Context, _ *mcp.Call) (mcp.Result, error) {
			close(begun)
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}
		s := newServer(t, from)
		session := connectBy(t, transport.Pipe(s), &client.Options{Era: era})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-begun
			cancel()
		}()
		if _, err := session.CallTool(ctx, search.CallTool, json.RawMessage(`{"name":"wait"}`), nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		<-ended
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}
