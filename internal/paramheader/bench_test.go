package paramheader_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/paramheader"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// callParams are the params of a tools/call. callHeader has the headers of the same call.
const callParams = `{"name":"echo","arguments":{"s":"us-west1","i":42,"b":true,"o":{"p":"a \"quoted\" word"},"more":[1,2,3]},"_meta":{"progressToken":1}}`

var callHeader = lines("Content-Type:application/json", "Accept:application/json, text/event-stream", "Mcp-Method:tools/call", "Mcp-Name:echo",
	"Mcp-Param-S:us-west1", "Mcp-Param-I:42", "Mcp-Param-B:true", `Mcp-Param-P:a "quoted" word`)

// TestAllocations checks that the checks of every call allocate nothing.
func TestAllocations(t *testing.T) {
	racetest.Skip(t)
	req := decode(t, "tools/call", callParams)
	arguments := req.Member("arguments")
	params := compile(t, three)
	var none *paramheader.Params
	plain := json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","description":"\u00e9"}}}`)
	for name, fn := range map[string]func(){
		"CheckStandard":           func() { must(t, paramheader.CheckStandard(callHeader.Values, req)) },
		"Check":                   func() { must(t, params.Check(callHeader.Values, arguments)) },
		"Check without params":    func() { must(t, none.Check(callHeader.Values, arguments)) },
		"Encode of a plain value": func() { paramheader.Encode("us-west1") },
		"Decode of a plain value": func() { _, err := paramheader.Decode(" us-west1 "); must(t, err) },
		"Compile of a plain tool": func() { _, err := paramheader.Compile(plain); must(t, err) },
	} {
		if n := testing.AllocsPerRun(100, fn); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func BenchmarkCheckStandard(b *testing.B) {
	req := decode(b, "tools/call", callParams)
	b.ReportAllocs()
	for b.Loop() {
		must(b, paramheader.CheckStandard(callHeader.Values, req))
	}
}

func BenchmarkCheck(b *testing.B) {
	params := compile(b, three)
	arguments := decode(b, "tools/call", callParams).Member("arguments")
	b.ReportAllocs()
	for b.Loop() {
		must(b, params.Check(callHeader.Values, arguments))
	}
}

func BenchmarkAll(b *testing.B) {
	params := compile(b, three)
	arguments := decode(b, "tools/call", callParams).Member("arguments")
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for range params.All(arguments) {
			n++
		}
		if n != 4 {
			b.Fatal(n)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	plain := withProperties(strings.Repeat(`"a":{"type":"string","description":"Gr\u00fc\u00dfe, what it is for"},`, 20) + `"z":{}`)
	for name, schema := range map[string]json.RawMessage{"annotated": three, "plain": plain} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(schema)))
			for b.Loop() {
				_, err := paramheader.Compile(schema)
				must(b, err)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, value := range []string{"us-west1", "Hello, 世界"} {
		b.Run(value[:5], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				paramheader.Encode(value)
			}
		})
	}
}
