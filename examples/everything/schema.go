package main

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type forecastIn struct {
	City string `json:"city" jsonschema:"minLength=1" jsonschema_description:"where"`
	Unit string `json:"unit,omitempty" jsonschema:"enum=celsius,enum=fahrenheit,default=celsius" jsonschema_description:"of the temperature"`
	Days int    `json:"days,omitempty" jsonschema:"default=1,minimum=1,maximum=7" jsonschema_description:"how many"`
}

type forecast struct {
	City         string    `json:"city"`
	Unit         string    `json:"unit"`
	Temperatures []float64 `json:"temperatures" jsonschema_description:"one for each day"`
}

type routedIn struct {
	Region string `json:"region" jsonschema:"x-mcp-header=Region" jsonschema_description:"which data centre answers"`
}

// addSchemas adds tools whose arguments or results have more to them than text.
func addSchemas(s *server.Server) {
	server.AddTool(s, server.Tool{
		Name: "test_structured_content", Title: "Forecast", Description: "Gives structured content.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)},
	}, func(_ context.Context, _ *server.Request, in forecastIn) (forecast, error) {
		out := forecast{City: in.City, Unit: in.Unit}
		for day := range in.Days {
			out.Temperatures = append(out.Temperatures, 20.5+float64(day))
		}
		return out, nil
	})
	server.AddTool(s, server.Tool{
		Name: "test_header_parameter", Description: "Takes an argument that HTTP clients repeat in a header.",
	}, func(_ context.Context, _ *server.Request, in routedIn) (string, error) {
		return "Answered from " + in.Region, nil
	})
	server.AddRawTool(s, server.Tool{
		Name: "json_schema_2020_12_tool", Description: "Tool with JSON Schema 2020-12 features", InputSchema: json.RawMessage(contactSchema),
	}, func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		text := mcp.Text("JSON Schema 2020-12 tool called with: " + string(arguments))
		return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil
	})
}

// contactSchema uses what no Go type says; clients see it as it stands here.
const contactSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {
		"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}
	},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`
