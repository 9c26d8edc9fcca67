//go:build soak

package growth

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// valueRows are those of schemas, arguments and results.
func valueRows() []row {
	return []row{
		schemaRow("levels of a schema", "registration", 4, deepSchema, nil),
		schemaRow("levels of a schema", "call", 4, deepSchema, deepValue),
		schemaRow("properties of a schema", "registration", 25, wideSchema, nil),
		schemaRow("properties of a schema", "call", 25, wideSchema, wideValue),
		schemaRow("alternatives of a schema", "registration", 5, alternativesSchema, nil),
		schemaRow("alternatives of a schema", "call", 5, alternativesSchema, alternativesValue),
		schemaRow("definitions of a schema", "registration", 25, definitionsSchema, nil),
		schemaRow("definitions of a schema", "call", 25, definitionsSchema, definitionsValue),
		schemaRow("items of an argument", "call", 1000, itemsSchema, itemsValue),
		schemaRow("distinct items of an argument (uniqueItems)", "call", 1000, uniqueItemsSchema, itemsValue),
		schemaRow("KiB of an argument", "call", 16, textSchema, textValue),
		{of: "KiB of an argument", operation: "call over HTTP (2026-07-28)", n: 16, whole: true, prepare: func(tb testing.TB, n int) func() {
			s := newServer(nil)
			addRawTool(s, "tool0", textSchema(n))
			e := newEndpoint(tb, s)
			call := callTool0("", "")
			call.params = `"name":"tool0","arguments":` + textValue(n)
			return func() { e.do(call) }
		}},
		{of: "KiB of text of a result", operation: "call", n: 16, whole: true, prepare: func(tb testing.TB, n int) func() {
			s, text := newServer(nil), strings.Repeat("text", n<<8)
			server.AddTool(s, server.Tool{Name: "tool0"}, func(context.Context, *server.Request, struct{}) (string, error) { return text, nil })
			return caller(tb, s, "tool0")
		}},
		{of: "items of a structured result", operation: "call", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			type item struct {
				Name  string `json:"name"`
				Count int    `json:"count"`
			}
			s, items := newServer(nil), make([]item, n)
			server.AddTool(s, server.Tool{Name: "tool0"}, func(context.Context, *server.Request, struct{}) ([]item, error) { return items, nil })
			return caller(tb, s, "tool0")
		}},
		{of: "blocks of content", operation: "call", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			s, blocks := newServer(nil), make(mcp.ContentList, n)
			for i := range blocks {
				blocks[i] = &mcp.TextContent{Text: "text"}
			}
			server.AddTool(s, server.Tool{Name: "tool0"}, func(context.Context, *server.Request, struct{}) (mcp.ContentList, error) { return blocks, nil })
			return caller(tb, s, "tool0")
		}},
	}
}

// schemaRow returns a row of a tool with a schema: its call with a value, or its registration without one.
func schemaRow(of, operation string, n int, schema, value func(n int) string) row {
	return row{of: of, operation: operation, n: n, whole: true, prepare: func(tb testing.TB, n int) func() {
		text := schema(n)
		if value == nil {
			return func() { addRawTool(newServer(nil), "tool0", text) }
		}
		s := newServer(nil)
		addRawTool(s, "tool0", text)
		session, arguments := connect(tb, s, nil), json.RawMessage(value(n))
		return func() { call(tb, session, "tool0", arguments) }
	}}
}

func addRawTool(s *server.Server, name, schema string) {
	server.AddRawTool(s, server.Tool{Name: name, InputSchema: json.RawMessage(schema)},
		func(context.Context, *server.Request, json.RawMessage) (mcp.Result, error) {
			return mcp.Raw(`{"content":[]}`), nil
		})
}

func deepSchema(n int) string {
	return strings.Repeat(`{"type":"object","required":["in"],"properties":{"in":`, n) + `{"type":"object"}` + strings.Repeat(`}}`, n)
}

func deepValue(n int) string { return strings.Repeat(`{"in":`, n) + `{}` + strings.Repeat(`}`, n) }

func wideSchema(n int) string {
	return `{"type":"object","properties":{` + list(n, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string","minLength":1}`, i) }) + `}}`
}

func wideValue(n int) string {
	return `{` + list(n, func(i int) string { return fmt.Sprintf(`"p%d":"value"`, i) }) + `}`
}

func alternativesSchema(n int) string {
	return `{"type":"object","properties":{"p":{"oneOf":[` + list(n, func(i int) string {
		return fmt.Sprintf(`{"type":"object","required":["kind"],"properties":{"kind":{"const":"k%d"}}}`, i)
	}) + `]}}}`
}

func alternativesValue(n int) string { return fmt.Sprintf(`{"p":{"kind":"k%d"}}`, n-1) }

func definitionsSchema(n int) string {
	return `{"type":"object","$defs":{` + list(n, func(i int) string { return fmt.Sprintf(`"d%d":{"type":"string"}`, i) }) +
		`},"properties":{` + list(n, func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/d%d"}`, i, i) }) + `}}`
}

func definitionsValue(n int) string { return wideValue(n) }

func itemsSchema(int) string {
	return `{"type":"object","properties":{"p":{"type":"array","items":{"type":"integer"}}}}`
}

func uniqueItemsSchema(int) string {
	return `{"type":"object","properties":{"p":{"type":"array","uniqueItems":true,"items":{"type":"integer"}}}}`
}

func itemsValue(n int) string {
	return `{"p":[` + list(n, func(i int) string { return fmt.Sprint(i) }) + `]}`
}

func textSchema(int) string { return `{"type":"object","properties":{"p":{"type":"string"}}}` }

func textValue(n int) string { return `{"p":"` + strings.Repeat("text", n<<8) + `"}` }

func list(n int, item func(i int) string) string {
	items := make([]string, n)
	for i := range items {
		items[i] = item(i)
	}
	return strings.Join(items, ",")
}
