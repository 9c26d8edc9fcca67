package code_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// TestScriptReturnsItsValue: in each mode, scripts get the results of tools as values, and return what they compute.
func TestScriptReturnsItsValue(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		session := connect(t, newTools(&ledger{}).Provider(), nil, &servertest.Options{Mode: mode, Answers: map[string]any{"one?": "1", "two?": "2"}})
		for script, want := range map[string]string{
			`return 1 + 1`:                          `2`,
			``:                                      `null`,
			`return await tools.echo({text: "hi"})`: `"hi"`,
			`return tools.echo({text: "hi"})`:       `"hi"`,
			`return await tools.add({A: 1, B: 2})`:  `3`,
			`return (await tools.echo({text: "é\u0000😀\u2028"})).length`:                                                                         `5`,
			`let n = 0; for (const i of [1, 2, 3]) n = await tools.add({A: n, B: i}); return n`:                                                  `6`,
			`return (await Promise.all([1, 2, 3].map(i => tools.add({A: i, B: i})))).join()`:                                                     `"2,4,6"`,
			`return (await Promise.all([tools.ask({text: "one?"}), tools.ask({text: "two?"}), tools.write({text: "w"})])).join()`:                `"1,2,written w"`,
			`const one = await tools.ask({text: "one?"}); return one + await tools.ask({text: "two?"})`:                                          `"12"`,
			`try { await tools.fail({text: "x"}) } catch (e) { return [e.name, e.message, e.tool, e instanceof ToolError, e instanceof Error] }`: `["ToolError","no such file: x","tools.fail",true,true]`,
			`return {big: 2n ** 70n, map: new Map([["a", 1]]), set: new Set([1]), none: undefined, date: new Date(0)}`:                           `{"big":"1180591620717411303424","map":{"a":1},"set":[1],"date":"1970-01-01T00:00:00.000Z"}`,
			`return [typeof setTimeout, typeof fetch, typeof require, typeof process, typeof WebAssembly, typeof WeakRef].join()`:                `"undefined,undefined,undefined,undefined,undefined,undefined"`,
			`return (await tools.large({Size: 3000000})).length`:                                                                                 `3000000`,
		} {
			if r := run(t, session, script); string(r.Value) != want || r.IsError {
				t.Errorf("%s: %s %s, want %s", script, r.Value, r.Error, want)
			}
		}
	})
}

// TestErrorsSayWhatToDo: what a model reads about a script that has failed.
func TestErrorsSayWhatToDo(t *testing.T) {
	session := connect(t, newTools(&ledger{}).Provider(), &code.Options{Limits: code.Limits{Computing: time.Minute}}, nil)
	for script, want := range map[string]string{
		"\n\nawait tools.fail({text: 'x'})":                      "ToolError: no such file: x\n    at <anonymous> (script.js:3:13)",
		"const f = () => {\n throw new TypeError('no') }\nf()":   "TypeError: no\n    at f (script.js:2:12)\n    at <anonymous> (script.js:3:1)",
		`return tools.echoo({text: 1})`:                          "ReferenceError: tools has no tool echoo. It has add, ask, echo, empty, fail, large, nothing, picture, steps, write",
		`return github.list()`:                                   "github is not defined (the names of servers and functions are in the results of search_tools)",
		`require("fs")`:                                          "require is not defined (there are no modules; call the functions of the servers)",
		`await fetch("https://example.com")`:                     "fetch is not defined (there is no network; call the functions of the servers)",
		`setTimeout(() => {}, 1)`:                                "setTimeout is not defined (there are no timers; await a call instead)",
		`return process.env`:                                     "process is not defined (there is no process and no environment; call the functions of the servers)",
		`import x from "y"`:                                      "SyntaxError: Unexpected identifier 'x' (a script cannot import or export: the servers are global objects, and the value is what the script returns)",
		`export default 1`:                                       "(a script cannot import or export",
		"curl https://example.com | sh":                          "(this is a command for a shell: write JavaScript, and call the functions of the servers)",
		"#!/bin/sh\nls -l":                                       "(this is a command for a shell",
		"def f(x):\n    return x\nprint(f(1))":                   "(this is Python: write JavaScript, and call the functions of the servers)",
		`return 1 +`:                                             "SyntaxError: unexpected token in expression: '}' (a script is the body of an async function in JavaScript)",
		`await tools.add({A: "x", B: 2})`:                        `ToolError: at "/A": expected an integer, got the string "x"`,
		`await tools.add(1, 2)`:                                  "ToolError: tools.add: the arguments must be one object, such as tools.add({name: value})",
		`await tools.echo({text: tools.echo({text: "x"})})`:      "ToolError: tools.echo: arguments.text is a promise: await it first",
		`const a = {}; a.a = a; await tools.echo(a)`:             "ToolError: tools.echo: the arguments are no JSON: circular reference",
		`await tools.echo({toJSON() {}})`:                        "ToolError: tools.echo: the arguments are no JSON",
		`await tools.empty()`:                                    "ToolError: the tool has failed, and does not say why",
		`await tools.nothing()`:                                  "ToolError: ",
		`await new Promise(() => {})`:                            "the script waits for a promise that nothing resolves",
		`return "x".repeat(100000)`:                              "the value of the script has more than 65536 bytes of JSON: return only what is needed",
		`throw {a: 1}`:                                           `the script has thrown {"a":1}`,
		`throw "x"`:                                              `the script has thrown x`,
		`throw undefined`:                                        `the script has thrown undefined`,
		`await tools.large({Size: 5000000})`:                     "ToolError: the call was made, and its result has 5000039 bytes, more than 4194304",
		`for (let i = 0; ; i++) await tools.echo({text: "x"})`:   "ToolError: tools.echo: a script can make 50 calls",
		`const o = {}; o.o = o; return o`:                        "TypeError: circular reference",
		`return Array(2 ** 20).fill("x".repeat(64))`:             "InternalError: out of memory",
		`const a = []; for (;;) a.push(new Uint8Array(1 << 20))`: "InternalError: out of memory",
	} {
		r := run(t, session, script)
		if !r.IsError || !strings.Contains(r.Error, want) {
			t.Errorf("%s: %q, want %q", script, r.Error, want)
		}
		if strings.Contains(r.Error, "prelude") {
			t.Errorf("%s: %q has lines that the model has not written", script, r.Error)
		}
	}
	for arguments, want := range map[string]string{
		`{}`: "the argument script must be a string", `{"script":1}`: "the argument script must be a string",
		`{"script":"","x":1}`: `unknown argument "x", expected only script`, `{"script":"` + strings.Repeat("x", 65537) + `"}`: "the script has 65537 bytes, more than 65536",
	} {
		r, err := session.CallTool(t.Context(), code.ScriptTool, json.RawMessage(arguments), nil)
		if err != nil || !r.IsError || !strings.Contains(r.Text(), strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%.50s: %v %v, want %s", arguments, r, err, want)
		}
	}
}

// TestComputingIsLimited: the time in which a script waits for tools does not count.
func TestComputingIsLimited(t *testing.T) {
	tools := server.New(mcp.Implementation{Name: "tools"}, nil)
	server.AddTool(tools, server.Tool{Name: "wait", TextOnly: true}, func(context.Context, *server.Request, struct{}) (string, error) {
		time.Sleep(1200 * time.Millisecond) // longer than the script may compute
		return "done", nil
	})
	session := connect(t, tools.Provider(), &code.Options{Limits: code.Limits{Computing: time.Second}}, nil)
	if r := run(t, session, `return await tools.wait()`); string(r.Value) != `"done"` {
		t.Errorf("a script that waits returns %s %s", r.Value, r.Error)
	}
	if r, want := run(t, session, `for (;;);`), "the script has computed for too long: 1s. Let the tools do the work, or do less"; r.Error != want {
		t.Errorf("the error is %q, want %q", r.Error, want)
	}
}

// TestNotesNameWhatWasNotAwaited: a promise in the value, and calls whose results the script has not waited for, are named.
func TestNotesNameWhatWasNotAwaited(t *testing.T) {
	session := connect(t, newTools(&ledger{}).Provider(), nil, nil)
	for script, want := range map[string]string{
		`return {files: [await tools.echo({text: "a"}), tools.echo({text: "b"})]}`:             "value.files[1] is a promise that was not awaited\nthe call 2, tools.echo, was not awaited: the script ended before it, and it may have been executed",
		`tools.write({text: "late"}); return 1`:                                                "the call 1, tools.write, was not awaited: the script ended before it, and it may have been executed",
		`return Array.from({length: 200}, (_, i) => ({name: "n" + i})).map(async x => x.name)`: strings.TrimSuffix(promises(20), "\n"),
		`return async () => 1`: "the value is a function: call it, or return its result",
		`for (let i = 0; i < 1000; i++) console.log("x".repeat(100))`: "the console has more than 16384 bytes; the rest is left out",
	} {
		if r := run(t, session, script); r.IsError || strings.Join(r.Notes, "\n") != want {
			t.Errorf("%s: %q %s, want %q", script, r.Notes, r.Error, want)
		}
	}
}

// promises returns the notes about the first promises of a list.
func promises(n int) string {
	var notes strings.Builder
	for i := range n {
		fmt.Fprintf(&notes, "value[%d] is a promise that was not awaited\n", i)
	}
	return notes.String()
}

// TestArgumentsAreLimitedInBytes: also if the text has fewer characters.
func TestArgumentsAreLimitedInBytes(t *testing.T) {
	session := connect(t, newTools(&ledger{}).Provider(), &code.Options{Limits: code.Limits{CallResult: 1000}}, nil)
	for n, want := range map[int]string{300: "", 600: "the arguments have 1211 bytes, more than 1000"} {
		if r := run(t, session, fmt.Sprintf(`await tools.write({text: "é".repeat(%d)})`, n)); !strings.Contains(r.Error, want) || r.IsError != (want != "") {
			t.Errorf("%d: %s, want %s", n, r.Error, want)
		}
	}
}

// TestOptionsAreChecked: impossible limits are errors, and do not change what scripts do.
func TestOptionsAreChecked(t *testing.T) {
	for _, memory := range []int{-1, 1 << 10, 8 << 30} {
		if _, err := code.NewEngine(&code.EngineOptions{Memory: memory}); err == nil {
			t.Errorf("an engine has %d bytes of memory", memory)
		}
	}
	for name, opts := range map[string]*code.Options{"no options": nil, "no engine": {}, "a negative limit": {Engine: engine(), Limits: code.Limits{Parallel: -1}}} {
		if _, err := code.New(newTools(&ledger{}).Provider(), opts); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestConsole: what a script writes is shown.
func TestConsole(t *testing.T) {
	session := connect(t, newTools(&ledger{}).Provider(), nil, nil)
	r := run(t, session, `console.log("a", 1, {b: [1, 2n]}, null, undefined); console.error(new Error("x")); console.warn(Promise.resolve(1)); throw new Error("y")`)
	if want := "a 1 {\"b\":[1,\"2\"]} null undefined\n{\"error\":\"Error: x\"}\n\"[a promise]\""; r.Console != want {
		t.Errorf("the console is %q, want %q", r.Console, want)
	}
}

// TestPicturesPassByHandle: a script sees the kind and the size of an image, and the model gets the images that it returns.
func TestPicturesPassByHandle(t *testing.T) {
	session := connect(t, newTools(&ledger{}).Provider(), nil, nil)
	r := run(t, session, `const p = await tools.picture(); await tools.picture(); return [p, p[1].mimeType, p[1].bytes]`)
	if want := `[["a dot",{"bytes":3,"handle":"c1.2","mimeType":"image/png","type":"image"}],"image/png",3]`; string(r.Value) != want {
		t.Errorf("the value is %s %s, want %s", r.Value, r.Error, want)
	}
	if len(r.Content) != 2 {
		t.Fatalf("the content is %v", r.Content)
	}
	if image, ok := r.Content[1].(*mcp.ImageContent); !ok || string(image.Data) != "PNG" {
		t.Errorf("the content is %v", r.Content)
	}
	if r := run(t, session, `await tools.picture(); return {handle: "c1.2", other: {handle: "c9.9"}}`); len(r.Content) != 2 {
		t.Errorf("the content is %v", r.Content)
	}
}

// TestValuesOfResults: what a script gets of each kind of result.
func TestValuesOfResults(t *testing.T) {
	const image = `{"type":"image","mimeType":"image/png","data":"UE5H"}`
	const handle = `{"bytes":3,"handle":"c1.1","mimeType":"image/png","type":"image"}`
	var result string
	tools := server.New(mcp.Implementation{Name: "tools"}, nil)
	server.AddRawTool(tools, server.Tool{Name: "get", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
		return mcp.Raw(result), nil
	})
	session := connect(t, tools.Provider(), nil, nil)
	for _, test := range []struct{ result, want string }{
		{`{"content":[]}`, `""`},
		{`{"content":[{"type":"text","text":"a"}]}`, `"a"`},
		{`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, `"a\nb"`},
		{`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"isError":true}`, `ToolError: a\nb`},
		{`{"content":[{"type":"text","text":"a"}],"structuredContent":{"b":1}}`, `{"b":1}`},
		{`{"content":[` + image + `],"structuredContent":{"b":1}}`, `{"b":1}`},
		{`{"content":[` + image + `]}`, `[` + handle + `]`},
		{`{"content":[` + image + `,{"type":"text","text":"a"}]}`, `[` + handle + `,"a"]`},
		{`{"content":[` + image + `,{"type":"text","text":"a"}],"isError":true}`, `ToolError: a`},
		{`{"content":[{"type":"resource_link","uri":"app:r","name":"r"}]}`, `[{"type":"resource_link","uri":"app:r","name":"r"}]`},
	} {
		result = test.result
		r := run(t, session, `return tools.get().catch(e => { throw new Error("ToolError: " + e.message) })`)
		got := string(r.Value)
		if r.IsError {
			got = strings.ReplaceAll(strings.TrimPrefix(strings.Split(r.Error, "\n    at")[0], "Error: "), "\n", `\n`)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.result, got, test.want)
		}
	}
}

// TestCallsAreListed: calls of one function in a row are one line.
func TestCallsAreListed(t *testing.T) {
	session := connect(t, newTools(&ledger{}).Provider(), nil, nil)
	r := run(t, session, `for (const text of ["a", "b", "c"]) await tools.echo({text}); await tools.fail({text: "x"}).catch(() => {}); await tools.echo({text: "d"})`)
	got, err := json.Marshal(r.Calls)
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"Tool":"tools.echo","Times":3,"Error":""},{"Tool":"tools.fail","Times":0,"Error":"no such file: x"},{"Tool":"tools.echo","Times":0,"Error":""}]`; string(got) != want {
		t.Errorf("the calls are %s, want %s", got, want)
	}
}

// TestSearchDeclaresFunctions: search_tools returns declarations, short or with descriptions.
func TestSearchDeclaresFunctions(t *testing.T) {
	session := connect(t, newTools(&ledger{}).Provider(), nil, nil)
	for arguments, want := range map[string]string{
		`{"query":"echo","limit":1}`:                 "tools.echo(input: {\n  text: string;\n}): Promise<string>\n",
		`{"query":"add","limit":1,"short":true}`:     "tools.add(input: { A: number; B: number }): Promise<number>\n",
		`{"query":"picture","limit":1,"short":true}`: "tools.picture(): Promise<string>\n",
		`{"query":"large","limit":1,"short":true}`:   "tools.large(input: { Size: number }): Promise<string>\n",
		`{"query":"zzz"}`:                            "No tool was found.",
		`{"query":"a","short":1}`:                    "short must be true or false",
		`{"query":"a","unknown":1}`:                  `unknown argument "unknown", expected only query, limit, prefix, short`,
	} {
		r, err := session.CallTool(t.Context(), code.SearchTool, json.RawMessage(arguments), nil)
		if err != nil || r.Text() != want {
			t.Errorf("%s: %q %v, want %q", arguments, r.Text(), err, want)
		}
	}
}

// TestProgressOfScripts: the progress of all calls is the progress of the script, and increases.
func TestProgressOfScripts(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		var got []string
		last := 0.0
		session := connect(t, newTools(&ledger{}).Provider(), nil, &servertest.Options{Mode: mode})
		_, err := session.CallTool(t.Context(), code.ScriptTool, map[string]string{"script": `await tools.steps(); await tools.steps()`}, &client.CallOptions{
			Progress: func(p *mcp.ProgressParams) {
				if p.Progress <= last {
					t.Errorf("the progress %g comes after %g", p.Progress, last)
				}
				last = p.Progress
				got = append(got, p.Message)
			},
		})
		if want := "tools.steps 1 of 2: first|tools.steps 2 of 2: second|tools.steps 1 of 2: first|tools.steps 2 of 2: second"; err != nil || strings.Join(got, "|") != want {
			t.Errorf("the progress is %q %v", got, err)
		}
	})
}

// TestTranspile: what is not JavaScript is converted, and JavaScript is not.
func TestTranspile(t *testing.T) {
	var got []string
	session := connect(t, newTools(&ledger{}).Provider(), &code.Options{Transpile: func(_ context.Context, source string) (string, error) {
		got = append(got, source)
		if strings.Contains(source, "wrong") {
			return "", errors.New("line 1: wrong")
		}
		return strings.ReplaceAll(source, ": number", ""), nil
	}}, nil)
	for script, want := range map[string]string{`const a: number = 1; return a`: "1", `return 2`: "2", `wrong = : number`: "SyntaxError: line 1: wrong"} {
		if r := run(t, session, script); string(r.Value)+r.Error != want {
			t.Errorf("%s: %s %s, want %s", script, r.Value, r.Error, want)
		}
	}
	if slices.Contains(got, "return 2") || len(got) != 2 {
		t.Errorf("converted was %q", got)
	}
}
