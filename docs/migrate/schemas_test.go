package migrate_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// The definitions below have the shapes of the hardest ones of two public servers: github-mcp-server with go-sdk, whose
// schemas are written by hand, and mcp-grafana with mcp-go, whose schemas are reflected from structs. Each tool is
// registered with a struct and with the schema as JSON. Both are listed as there.

// boardDefinition has alternatives of closed objects, a text that may be null, and values of any type.
const boardDefinition = `{
	"name": "change_board", "title": "Change a board", "description": "Changes cards and columns.",
	"annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false},
	"inputSchema": {
		"type": "object",
		"properties": {
			"action": {"type": "string", "enum": ["add", "move", "drop"], "description": "what to do"},
			"board": {"type": "number"},
			"query": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "which cards; null for all"},
			"cards": {"type": "array", "items": {"type": "object", "oneOf": [
				{"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"], "additionalProperties": false},
				{"type": "object", "properties": {"shelf": {"type": "string"}, "number": {"type": "integer"}},
					"required": ["shelf", "number"], "additionalProperties": false}
			]}},
			"field": {"type": "object", "oneOf": [
				{"type": "object", "properties": {"id": {"type": "integer"}, "value": {}}, "required": ["id", "value"], "additionalProperties": false},
				{"type": "object", "properties": {"name": {"type": "string"}, "value": {}}, "required": ["name", "value"], "additionalProperties": false}
			]},
			"sprints": {"type": "array", "items": {
				"type": "object",
				"properties": {"title": {"type": "string"}, "start": {"type": "string"}, "days": {"type": "number"}},
				"required": ["title", "start", "days"], "additionalProperties": false
			}},
			"columns": {"type": "array", "items": {"type": "string"}}
		},
		"required": ["action", "board"]
	}
}`

// ticketDefinition has items of two types, values of three types, limits inside of items, and a view.
const ticketDefinition = `{
	"name": "label_ticket", "description": "Labels a ticket.",
	"annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true},
	"_meta": {"ui": {"resourceUri": "ui://tickets/label", "visibility": ["model", "app"]}},
	"inputSchema": {
		"type": "object",
		"properties": {
			"ticket": {"type": "number", "minimum": 1},
			"labels": {"type": "array", "minItems": 1, "items": {"oneOf": [
				{"type": "string"},
				{"type": "object", "properties": {
					"name": {"type": "string"},
					"reason": {"type": "string", "maxLength": 20},
					"trust": {"type": "string", "enum": ["low", "high"]}
				}, "required": ["name"]}
			]}},
			"kind": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
			"fields": {"type": "array", "items": {
				"type": "object",
				"properties": {"name": {"type": "string"}, "value": {"type": ["string", "number", "boolean"]}, "delete": {"type": "boolean"}},
				"required": ["name"], "additionalProperties": false
			}},
			"order": {"type": "string", "enum": ["first", "last"], "default": "last"}
		},
		"required": ["ticket", "labels", "kind"]
	}
}`

// alarmDefinition has objects in lists in objects, members that no field has, and maps. Only tags say what is required.
const alarmDefinition = `{
	"name": "plan_alarm", "description": "Plans an alarm.",
	"inputSchema": {
		"type": "object",
		"properties": {
			"title": {"type": "string", "description": "what rings, or why"},
			"steps": {"type": "array", "items": {
				"type": "object",
				"properties": {
					"source": {"type": "string"},
					"window": {"type": "object", "properties": {"from": {"type": "integer"}, "to": {"type": "integer"}}},
					"model": {
						"type": "object",
						"properties": {
							"expr": {"type": "string"},
							"conditions": {"type": "array", "items": {
								"type": "object",
								"properties": {"compare": {
									"type": "object",
									"properties": {"type": {"type": "string"}, "params": {"type": "array", "items": {"type": "number"}}},
									"required": ["type", "params"]
								}}
							}}
						}
					}
				},
				"required": ["source", "model"]
			}},
			"labels": {"type": "object", "additionalProperties": {"type": "string"}},
			"paused": {"type": "boolean"},
			"on_error": {"type": "string", "enum": ["ring", "wait"]},
			"owner": {"type": "string"}
		},
		"required": ["title", "steps"]
	}
}`

// A card is one of two objects. What a struct cannot say, a type says as JSON.
type card struct {
	Key    string `json:"key,omitempty"`
	Shelf  string `json:"shelf,omitempty"`
	Number int    `json:"number,omitempty"`
}

func (card) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type": "object", "oneOf": [
		{"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"], "additionalProperties": false},
		{"type": "object", "properties": {"shelf": {"type": "string"}, "number": {"type": "integer"}},
			"required": ["shelf", "number"], "additionalProperties": false}
	]}`)
}

type boardField struct {
	ID    int    `json:"id,omitempty"`
	Name  string `json:"name,omitempty"`
	Value any    `json:"value"`
}

func (boardField) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type": "object", "oneOf": [
		{"type": "object", "properties": {"id": {"type": "integer"}, "value": {}}, "required": ["id", "value"], "additionalProperties": false},
		{"type": "object", "properties": {"name": {"type": "string"}, "value": {}}, "required": ["name", "value"], "additionalProperties": false}
	]}`)
}

type boardIn struct {
	Action  string      `json:"action" jsonschema:"enum=add,enum=move,enum=drop,description=what to do"`
	Board   float64     `json:"board"`
	Query   *string     `json:"query,omitempty" jsonschema:"nullable,description=which cards; null for all"`
	Cards   []card      `json:"cards,omitempty"`
	Field   *boardField `json:"field,omitempty"`
	Sprints []struct {
		Title string  `json:"title"`
		Start string  `json:"start"`
		Days  float64 `json:"days"`
	} `json:"sprints,omitempty"`
	Columns []string `json:"columns,omitempty"`
	open
}

// Objects of other libraries are open where they do not say otherwise. A struct that embeds open is too.
type open struct {
	Others map[string]any `json:",embed"`
}

// A label is its name, or an object.
type label struct {
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty" jsonschema:"maxLength=20"`
	Trust  string `json:"trust,omitempty" jsonschema:"enum=low,enum=high"`
}

func (label) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"oneOf": [{"type": "string"}, {"type": "object", "properties": {
		"name": {"type": "string"},
		"reason": {"type": "string", "maxLength": 20},
		"trust": {"type": "string", "enum": ["low", "high"]}
	}, "required": ["name"]}]}`)
}

func (l *label) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return json.Unmarshal(data, &l.Name)
	}
	type object label
	return json.Unmarshal(data, (*object)(l))
}

// A scalar is a text, a number or a boolean.
type scalar struct{ any }

func (scalar) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type": ["string", "number", "boolean"]}`)
}

func (s *scalar) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &s.any) }

type ticketIn struct {
	Ticket float64 `json:"ticket" jsonschema:"minimum=1"`
	Labels []label `json:"labels" jsonschema:"minItems=1"`
	Kind   *string `json:"kind" jsonschema:"required,nullable,minLength=1"`
	Fields []struct {
		Name   string  `json:"name"`
		Value  *scalar `json:"value,omitempty"`
		Delete bool    `json:"delete,omitempty"`
	} `json:"fields,omitempty"`
	Order string `json:"order" jsonschema:"enum=first,enum=last,default=last"`
	open
}

type alarmStep struct {
	Source string `json:"source" jsonschema:"required"`
	Window *struct {
		From int `json:"from"`
		To   int `json:"to"`
		open
	} `json:"window,omitempty"`
	Model struct {
		Expr       string `json:"expr,omitempty"`
		Conditions []struct {
			Compare struct {
				Type   string    `json:"type" jsonschema:"required"`
				Params []float64 `json:"params" jsonschema:"required"`
				open
			} `json:"compare"`
			open
		} `json:"conditions,omitempty"`
		open
	} `json:"model" jsonschema:"required"`
	open
}

type alarmIn struct {
	Title   string            `json:"title" jsonschema:"required,description=what rings\\, or why"`
	Steps   []*alarmStep      `json:"steps" jsonschema:"required"`
	Labels  map[string]string `json:"labels,omitempty"`
	Paused  *bool             `json:"paused,omitempty"`
	OnError string            `json:"on_error,omitempty" jsonschema:"enum=ring,enum=wait"`
	Owner   string            `json:"owner"`
	open
}

// inputSchema returns the schema in a definition.
func inputSchema(t *testing.T, definition string) json.RawMessage {
	t.Helper()
	var tool struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal([]byte(definition), &tool); err != nil {
		t.Fatal(err)
	}
	return tool.InputSchema
}

func TestHardSchemasOfOtherServers(t *testing.T) {
	board := server.Tool{
		Name: "change_board", Title: "Change a board", Description: "Changes cards and columns.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(false), DestructiveHint: new(true), IdempotentHint: new(false)},
	}
	ticket := server.Tool{
		Name: "label_ticket", Description: "Labels a ticket.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(false), DestructiveHint: new(false), IdempotentHint: new(false), OpenWorldHint: new(true)},
		UI:          &mcp.ToolUI{ResourceURI: "ui://tickets/label", Visibility: []mcp.ToolVisibility{mcp.VisibleToModel, mcp.VisibleToApp}},
	}
	alarm := server.Tool{Name: "plan_alarm", Description: "Plans an alarm.", RequiredByTag: true}

	for _, test := range []struct {
		tool       server.Tool
		definition string
		typed      func(s *server.Server, tool server.Tool)
		accepted   []string
		refused    map[string]string // by arguments, a part of the error
	}{
		{
			tool: board, definition: boardDefinition, typed: addTyped[boardIn],
			accepted: []string{
				`{"action":"add","board":1}`,
				`{"action":"move","board":1,"query":null,"cards":[{"key":"a"},{"shelf":"s","number":2}],"of_a_later_version":true}`,
				`{"action":"drop","board":1,"field":{"name":"size","value":[1,null]},"sprints":[{"title":"t","start":"d","days":0.5}]}`,
			},
			refused: map[string]string{
				`{"action":"turn","board":1}`: "/action",
				`{"action":"add"}`:            "board",
				`{"action":"add","board":1,"cards":[{"key":"a","number":1}]}`:                       "/cards/0",
				`{"action":"add","board":1,"cards":["a"]}`:                                          "/cards/0",
				`{"action":"add","board":1,"field":{"id":1,"name":"size","value":1}}`:               "/field",
				`{"action":"add","board":1,"sprints":[{"title":"t","start":"d","days":1,"end":2}]}`: "/sprints/0",
			},
		},
		{
			tool: ticket, definition: ticketDefinition, typed: addTyped[ticketIn],
			accepted: []string{
				`{"ticket":1,"labels":["new"],"kind":null}`,
				`{"ticket":1.5,"labels":[{"name":"new","trust":"low"},"old"],"kind":"task","fields":[{"name":"a","value":1},{"name":"b","value":"c"}],"order":"first"}`,
			},
			refused: map[string]string{
				`{"ticket":0,"labels":["new"],"kind":null}`:                                                   "/ticket",
				`{"ticket":1,"labels":[],"kind":null}`:                                                        "/labels",
				`{"ticket":1,"labels":["new"]}`:                                                               "kind",
				`{"ticket":1,"labels":["new"],"kind":""}`:                                                     "/kind",
				`{"ticket":1,"labels":[{"name":"new","reason":"longer than the tool allows"}],"kind":null}`:   "/labels/0",
				`{"ticket":1,"labels":["new"],"kind":null,"fields":[{"name":"a","value":[1]}]}`:               "/fields/0/value",
				`{"ticket":1,"labels":["new"],"kind":null,"fields":[{"name":"a","value":1,"colour":"red"}]}`:  "/fields/0",
				`{"ticket":1,"labels":["new"],"kind":null,"fields":[{"name":"a"}],"order":"somewhere there"}`: "/order",
			},
		},
		{
			tool: alarm, definition: alarmDefinition, typed: addTyped[alarmIn],
			accepted: []string{
				`{"title":"hot","steps":[]}`,
				`{"title":"hot","steps":[{"source":"a","window":{"from":600},"model":{"expr":"t > 1","interval":5,
					"conditions":[{"compare":{"type":"gt","params":[0.5]},"operator":{"type":"and"}}]}}],"labels":{"team":"a"},"paused":true}`,
			},
			refused: map[string]string{
				`{"title":"hot"}`:                        "steps",
				`{"title":"hot","steps":[{"model":{}}]}`: "/steps/0",
				`{"title":"hot","steps":[{"source":"a","model":{"conditions":[{"compare":{"type":"gt"}}]}}]}`:                "/steps/0/model/conditions/0/compare",
				`{"title":"hot","steps":[{"source":"a","model":{"conditions":[{"compare":{"type":"gt","params":["a"]}}]}}]}`: "/steps/0/model/conditions/0/compare/params/0",
				`{"title":"hot","steps":[],"labels":{"team":1}}`:                                                             "/labels/team",
				`{"title":"hot","steps":[],"on_error":"run"}`:                                                                "/on_error",
			},
		},
	} {
		forms := map[string]func(s *server.Server){
			"struct": func(s *server.Server) { test.typed(s, test.tool) },
			"schema": func(s *server.Server) {
				tool := test.tool
				tool.RequiredByTag = false // the schema says it
				tool.InputSchema = inputSchema(t, test.definition)
				server.AddRawTool(s, tool, func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
					return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text("done")}}, nil
				})
			},
		}
		for form, add := range forms {
			t.Run(test.tool.Name+" from a "+form, func(t *testing.T) {
				s := server.New(mcp.Implementation{Name: "ported", Version: "1.0.0"}, nil)
				add(s)
				session := servertest.Connect(t, s, nil)
				var listed []any
				for tool, err := range session.Tools(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					listed = append(listed, meaning(t, tool))
				}
				if diff := cmp.Diff([]any{meaning(t, json.RawMessage(test.definition))}, listed); diff != "" {
					t.Errorf("the list (-want +got):\n%s", diff)
				}
				for _, arguments := range test.accepted {
					if _, err := client.CallAs[string](t.Context(), session, test.tool.Name, json.RawMessage(arguments), nil); err != nil {
						t.Errorf("%s is refused: %v", arguments, err)
					}
				}
				for arguments, want := range test.refused {
					_, err := client.CallAs[string](t.Context(), session, test.tool.Name, json.RawMessage(arguments), nil)
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: error %v, want one with %q", arguments, err, want)
					}
				}
			})
		}
	}
}

// Outputs of public servers have four shapes: what go-sdk and mcp-go reflect from structs, what zod writes in
// TypeScript, what is written by hand with open objects, and alternatives of a success and a failure. The last one needs
// the type object at its root: versions before 2026-07-28 list no output schema without it.
var outputs = map[string]string{
	"list_shelves": `{
		"type": "object",
		"properties": {
			"shelves": {"type": "array", "description": "the newest first", "items": {
				"type": "object",
				"properties": {
					"name": {"type": "string"},
					"changed": {"type": "string", "format": "date-time"},
					"width": {"type": ["number", "null"], "description": "in metres; null if nobody has measured it"},
					"tags": {"type": "array", "items": {"type": "string"}}
				},
				"required": ["name", "width"], "additionalProperties": false
			}},
			"counts": {"type": "object", "additionalProperties": {"type": "integer"}},
			"rows": {"type": "array", "items": {"type": "array", "items": {}}},
			"next": {"type": "string"}
		},
		"required": ["shelves", "counts", "rows"], "additionalProperties": false
	}`,
	"read_plan": `{
		"$schema": "http://json-schema.org/draft-07/schema#",
		"type": "object",
		"properties": {
			"rooms": {"type": "array", "items": {
				"type": "object",
				"properties": {"name": {"type": "string"}, "kind": {"type": "string", "enum": ["hall", "store"]}, "notes": {"type": "array", "items": {"type": "string"}}},
				"required": ["name", "kind", "notes"], "additionalProperties": false
			}},
			"doors": {"type": "array", "items": {
				"type": "object",
				"properties": {"from": {"type": "string"}, "to": {"type": "string"}},
				"required": ["from", "to"], "additionalProperties": false
			}}
		},
		"required": ["rooms", "doors"], "additionalProperties": false
	}`,
	"find_part": `{
		"type": "object",
		"properties": {
			"part": {"type": "object", "description": "the part, if it was found", "properties": {
				"metadata": {"type": "object", "properties": {
					"name": {"type": "string"},
					"labels": {"type": "object", "additionalProperties": {"type": "string"}}
				}},
				"text": {"type": "string"}
			}},
			"found": {"type": "boolean"},
			"message": {"type": "string", "description": "for people"}
		},
		"required": ["found", "message"]
	}`,
	"send_note": `{
		"type": "object",
		"oneOf": [
			{"type": "object", "properties": {"id": {"type": "integer", "minimum": 1}}, "required": ["id"], "additionalProperties": false},
			{"type": "object", "properties": {"status": {"type": "integer"}, "reason": {"type": "string"}},
				"required": ["status", "reason"], "additionalProperties": false}
		]
	}`,
}

type shelvesOut struct {
	Shelves []struct {
		Name    string    `json:"name"`
		Changed time.Time `json:"changed,omitzero"`
		Width   *float64  `json:"width" jsonschema:"required,description=in metres; null if nobody has measured it"`
		Tags    []string  `json:"tags,omitempty"`
	} `json:"shelves" jsonschema:"description=the newest first"`
	Counts map[string]int `json:"counts"`
	Rows   [][]any        `json:"rows"`
	Next   string         `json:"next,omitempty"`
}

type planOut struct {
	Rooms []struct {
		Name  string   `json:"name"`
		Kind  string   `json:"kind" jsonschema:"enum=hall,enum=store"`
		Notes []string `json:"notes"`
	} `json:"rooms"`
	Doors []struct {
		From string `json:"from"`
		To   string `json:"to"`
	} `json:"doors"`
}

type partOut struct {
	Part *struct {
		Metadata *struct {
			Name   string            `json:"name,omitempty"`
			Labels map[string]string `json:"labels,omitempty"`
			open
		} `json:"metadata,omitempty"`
		Text string `json:"text,omitempty"`
		open
	} `json:"part,omitempty" jsonschema:"description=the part\\, if it was found"`
	Found   bool   `json:"found"`
	Message string `json:"message" jsonschema:"description=for people"`
	open
}

// A noteOut is a success or a failure.
type noteOut struct {
	ID     int    `json:"id,omitempty"`
	Status int    `json:"status,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func (noteOut) JSONSchema() json.RawMessage { return json.RawMessage(outputs["send_note"]) }

func TestHardOutputSchemasOfOtherServers(t *testing.T) {
	for _, test := range []struct {
		name     string
		typed    func(s *server.Server, name, result string)
		accepted []string
		refused  []string // by the schema, if a function without types returns them
	}{
		{
			name: "list_shelves", typed: addReturning[shelvesOut],
			accepted: []string{
				`{"shelves":[],"counts":{},"rows":[]}`,
				`{"shelves":[{"name":"a","changed":"2026-01-02T03:04:05Z","width":null,"tags":["wide"]},{"name":"b","width":1.5}],"counts":{"a":2},"rows":[[1,"x",null]],"next":"p2"}`,
			},
			refused: []string{`{"shelves":[{"name":"a"}],"counts":{},"rows":[]}`, `{"shelves":[],"counts":{"a":"two"},"rows":[]}`, `{"shelves":[],"counts":{},"rows":[],"more":1}`},
		},
		{
			name: "read_plan", typed: addReturning[planOut],
			accepted: []string{`{"rooms":[{"name":"a","kind":"hall","notes":[]}],"doors":[{"from":"a","to":"b"}]}`},
			refused:  []string{`{"rooms":[{"name":"a","kind":"attic","notes":[]}],"doors":[]}`, `{"rooms":[]}`},
		},
		{
			name: "find_part", typed: addReturning[partOut],
			accepted: []string{
				`{"found":false,"message":"nothing"}`,
				`{"part":{"metadata":{"name":"bolt","labels":{"size":"8"}},"text":"kind: bolt"},"found":true,"message":"found"}`,
			},
			refused: []string{`{"found":true}`, `{"part":{"metadata":{"labels":{"size":8}}},"found":true,"message":"found"}`},
		},
		{
			name: "send_note", typed: addReturning[noteOut],
			accepted: []string{`{"id":7}`, `{"reason":"closed","status":409}`},
			refused:  []string{`{"id":0}`, `{"id":7,"status":409,"reason":"closed"}`, `{}`},
		},
	} {
		definition := meaning(t, json.RawMessage(outputs[test.name]))
		raw := func(s *server.Server, name, result string) {
			server.AddRawTool(s, server.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(outputs[test.name])},
				func(ctx context.Context, r *server.Request, arguments json.RawMessage) (mcp.Result, error) {
					return &mcp.CallToolResult{StructuredContent: json.RawMessage(result)}, nil
				})
		}
		for form, add := range map[string]func(s *server.Server, name, result string){"struct": test.typed, "schema": raw} {
			t.Run(test.name+" from a "+form, func(t *testing.T) {
				for _, era := range []client.Era{client.Modern, client.Legacy} {
					for _, result := range test.accepted {
						tool, got, err := called(t, era, add, test.name, result)
						if err != nil {
							t.Errorf("%v: %s: %v", era, result, err)
							continue
						}
						if diff := cmp.Diff(definition, meaning(t, tool.OutputSchema)); diff != "" {
							t.Fatalf("%v: the output schema (-want +got):\n%s", era, diff)
						}
						if diff := cmp.Diff(meaning(t, json.RawMessage(result)), meaning(t, got.StructuredContent)); diff != "" {
							t.Errorf("%v: the result (-want +got):\n%s", era, diff)
						}
					}
					if form == "struct" {
						continue
					}
					for _, result := range test.refused {
						if _, _, err := called(t, era, add, test.name, result); err == nil {
							t.Errorf("%v: %s reaches the client", era, result)
						}
					}
				}
			})
		}
	}
}

// called lists and calls a tool of a server of its own.
func called(t *testing.T, era client.Era, add func(s *server.Server, name, result string), name, result string) (tool *mcp.Tool, got *mcp.CallToolResult, err error) {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "ported", Version: "1.0.0"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	add(s, name, result)
	session := servertest.Connect(t, s, &servertest.Options{Mode: servertest.Mode{Era: era}})
	for tool, err = range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err = session.CallTool(t.Context(), name, nil, nil)
	return tool, got, err
}

// addReturning adds a typed tool that returns a value.
func addReturning[Out any](s *server.Server, name, value string) {
	server.AddTool(s, server.Tool{Name: name}, func(ctx context.Context, r *server.Request, in struct{}) (out Out, err error) {
		return out, json.Unmarshal([]byte(value), &out)
	})
}

func addTyped[In any](s *server.Server, tool server.Tool) {
	server.AddTool(s, tool, func(ctx context.Context, r *server.Request, in In) (string, error) { return "done", nil })
}

// meaning returns the JSON of a value without differences that mean nothing: the order of required members, an empty
// additionalProperties, the form of a type that may be null, and the name of the dialect.
func meaning(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return plain(decoded)
}

func plain(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = plain(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = plain(value[name])
		}
		delete(value, "$schema")
		if required, ok := value["required"].([]any); ok {
			slices.SortFunc(required, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		}
		if others, ok := value["additionalProperties"]; ok && (others == true || cmp.Equal(others, map[string]any{})) {
			delete(value, "additionalProperties")
		}
		if either, ok := value["anyOf"].([]any); ok && len(either) == 2 && cmp.Equal(either[1], map[string]any{"type": "null"}) {
			delete(value, "anyOf")
			maps.Copy(value, either[0].(map[string]any))
			value["type"] = []any{value["type"], "null"}
		}
	}
	return value
}
