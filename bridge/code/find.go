package code

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/internal/tooltype"
	"github.com/dovetail-go/dovetail/bridge/internal/twotools"
	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// shortArgument is the argument of [SearchTool] that package search does not have.
const shortArgument = "short"

// findSchema returns the input schema of [SearchTool].
func findSchema() (json.RawMessage, error) {
	schema := search.QuerySchema()
	properties, err := jsonscan.Find(schema, "properties")
	if err != nil {
		return nil, err
	}
	properties, err = jsonscan.Splice(nil, properties, jsonscan.Edit{Name: shortArgument,
		Value: []byte(`{"type":"boolean","default":false,"description":"Leave out the descriptions of tools and arguments"}`)})
	if err != nil {
		return nil, err
	}
	return jsonscan.Splice(nil, schema, jsonscan.Edit{Name: "properties", Value: properties})
}

// find handles a call of [SearchTool].
func (p *provider) find(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	query, err := search.ReadQuery(call.Member("arguments"), shortArgument)
	if err != nil {
		return twotools.Failure(err), nil
	}
	var short bool
	if value := call.Member("arguments", shortArgument); jsonscan.IsPresent(value) && json.Unmarshal(value, &short) != nil {
		return twotools.Failure(errors.New(shortArgument + " must be true or false")), nil
	}
	catalog := p.source.Catalog()
	found := search.Find(ctx, catalog, call.Caller, query)
	return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(namesOf(catalog).declare(found, short))}}, nil
}

// maxDeclared is how many bytes of declarations a search returns; the best tool may have more.
const maxDeclared = 256 << 10

// declare returns declarations of tools in TypeScript.
func (n *namespace) declare(tools []*server.Entry, short bool) string {
	if len(tools) == 0 {
		return "No tool was found."
	}
	types := &tooltype.TypeScript{Short: short, Names: tooltype.Reserve(strings.Fields(reserved)...)}
	var text strings.Builder
	for i, tool := range tools {
		if i > 0 && text.Len() > maxDeclared {
			text.WriteString("// More tools were found: search for fewer.\n")
			break
		}
		f := *n.byTool[tool.Name]
		f.entry = tool // the variant that the caller sees
		text.WriteString(f.declaration(types, short))
	}
	if declared := types.Declarations(); declared != "" {
		return text.String() + "\n" + declared
	}
	return text.String()
}

// declaration returns the declaration of a function: files.read_text_file(input: { path: string }): Promise<string>.
func (f *function) declaration(types *tooltype.TypeScript, short bool) string {
	var text strings.Builder
	var tool struct {
		Description  string
		InputSchema  json.RawMessage
		OutputSchema json.RawMessage
	}
	_ = json.Unmarshal(f.entry.Definition.JSON(), &tool) // a definition that is not valid has no schemas, so its types are unknown
	if !short {
		text.WriteString(tooltype.Block("", tool.Description))
	}
	name := tooltype.Exported(f.entry.Name)
	output := "string"
	if tool.OutputSchema != nil {
		output = types.Expression(tooltype.Of(tool.OutputSchema), name+"Output")
	}
	fmt.Fprintf(&text, "%s(%s): Promise<%s>\n", f, parameter(types, tooltype.Input(tool.InputSchema), name+"Input"), output)
	return text.String()
}

// parameter returns the parameter of a function for its arguments, "" if it takes none.
func parameter(types *tooltype.TypeScript, input *tooltype.Type, name string) string {
	if input.Kind == tooltype.Object && len(input.Fields) == 0 {
		return ""
	}
	optional := ""
	if input.Kind == tooltype.Object && !slices.ContainsFunc(input.Fields, func(f tooltype.Field) bool { return f.Required }) {
		optional = "?"
	}
	return "input" + optional + ": " + types.Expression(input, name)
}
