package main

import (
	"bytes"
	"context"
	"fmt"
)

const typesHeader = `//go:build manytypes

package main

import (
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	gosdkmcp "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dovetail-go/dovetail/server"
)

`

// buildTypes builds this program with a type of its own for each tool. Tools with the same type would not do:
// a library can cache the schema of a type.
func buildTypes(ctx context.Context, tools int) (*program, error) {
	return buildProgram(ctx, ".", "many_types.go", generateTypes(tools), "-tags", "manytypes")
}

// generateTypes returns a type for each tool, and functions that register the tools with each library. Tools
// take pointers, because the compiler makes one function of all functions whose type arguments are
// pointers. mcp-go gets the types, because its schema of a pointer differs from that of the type.
func generateTypes(tools int) []byte {
	var b bytes.Buffer
	b.WriteString(typesHeader)
	for i := range tools {
		fmt.Fprintf(&b, "type tool%04d struct {\n", i)
		fmt.Fprintf(&b, "\tQuery%[1]d string `json:\"query_%[1]d\"`\n", i)
		fmt.Fprintf(&b, "\tLimit%[1]d int `json:\"limit_%[1]d,omitempty\"`\n", i)
		fmt.Fprintf(&b, "\tTags%[1]d []string `json:\"tags_%[1]d,omitempty\"`\n", i)
		fmt.Fprintf(&b, "\tPlace%[1]d struct { X%[1]d, Y%[1]d float64 } `json:\"place_%[1]d\"`\n}\n\n", i)
	}
	for _, table := range []struct{ name, server, star string }{
		{"Dovetail", "*server.Server", "*"},
		{"GoSDK", "*gosdkmcp.Server", "*"},
		{"MCPGo", "*mcpgoserver.MCPServer", ""},
	} {
		fmt.Fprintf(&b, "// tools%s returns functions that add a tool with one of the types.\n", table.name)
		fmt.Fprintf(&b, "func tools%s() []func(s %s, name string) {\n\treturn []func(%s, string){\n", table.name, table.server, table.server)
		for i := range tools {
			fmt.Fprintf(&b, "add%s[%stool%04d],\n", table.name, table.star, i)
		}
		b.WriteString("}\n}\n\n")
	}
	return b.Bytes()
}
