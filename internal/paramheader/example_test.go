package paramheader_test

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/paramheader"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

func ExampleEncode() {
	for _, value := range []string{"us-west1", "Hello, 世界", " padded "} {
		header := paramheader.Encode(value)
		fmt.Println(header)
	}
	value, err := paramheader.Decode("=?base64?SGVsbG8sIOS4lueVjA==?=")
	fmt.Println(value, err)
	// Output:
	// us-west1
	// =?base64?SGVsbG8sIOS4lueVjA==?=
	// =?base64?IHBhZGRlZCA=?=
	// Hello, 世界 <nil>
}

// A client turns arguments into headers, a server compares the two.
func ExampleCompile() {
	params, err := paramheader.Compile(json.RawMessage(`{
		"type": "object",
		"properties": {
			"region": {"type": "string", "x-mcp-header": "Region"},
			"limit": {"type": "integer", "x-mcp-header": "Limit"},
			"query": {"type": "string"}
		}
	}`))
	if err != nil {
		panic(err)
	}
	header := http.Header{}
	arguments := json.RawMessage(`{"region": "us-west1", "limit": 1e2, "query": "SELECT 1"}`)
	for name, value := range params.All(arguments) {
		fmt.Println(name, value)
		header[name] = []string{value}
	}
	fmt.Println(params.Check(header.Values, arguments))
	fmt.Println(params.Check(header.Values, json.RawMessage(`{"region": "eu-north1", "limit": 100}`)))
	// Output:
	// Mcp-Param-Region us-west1
	// Mcp-Param-Limit 100
	// <nil>
	// header Mcp-Param-Region is "us-west1", but the body has "eu-north1"
}

func ExampleCompile_refused() {
	_, err := paramheader.Compile(json.RawMessage(`{"properties": {"price": {"type": "number", "x-mcp-header": "Price"}}}`))
	fmt.Println(err)
	// Output: x-mcp-header at "/properties/price": a property with a header needs "type":"string", "integer" or "boolean"
}

func ExampleCheckStandard() {
	req, err := jsonrpc.NewRequest(jsonrpc.IntID(1), "tools/call", json.RawMessage(`{"name":"delete_all"}`))
	if err != nil {
		panic(err)
	}
	name, required := paramheader.Name(req)
	fmt.Println(name, required)
	header := http.Header{}
	header.Set(paramheader.HeaderMethod, "tools/call")
	header.Set(paramheader.HeaderName, "get_weather")
	fmt.Println(paramheader.CheckStandard(header.Values, req))
	// Output:
	// delete_all true
	// header Mcp-Name is "get_weather", but the body has "delete_all"
}
