package gen

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/internal/tooltype"
	"github.com/dovetail-go/dovetail/mcp"
)

//go:embed typescript/gateway.ts
var scriptGateway string

const scriptHeader = "// " + generatedBy + "\n"

// TypeScript returns a module NAME.ts with a function for each tool of a server, for each server, and gateway.ts. The name
// of a server is the alias at the gateway. The modules need fetch, and pass tsc with all checks.
func TypeScript(servers []Server) (Files, error) {
	files := Files{"gateway.ts": scriptHeader + scriptGateway}
	taken := func(name string) bool { return name == "gateway" }
	for name, server := range modules(servers, taken) {
		m := &scriptModule{server: server, types: tooltype.TypeScript{Exported: true, Names: tooltype.Reserve(scriptNames...)}}
		tools := sorted(server.Tools)
		var functions []string
		for _, t := range tools {
			functions = append(functions, m.types.Names.Add(scriptName(t.Name)))
		}
		for i := range tools {
			if m.tool(functions[i], &tools[i]); m.functions.Len()+len(m.types.Declarations()) > maxSource {
				return nil, errTooLong
			}
		}
		files[name+".ts"] = m.source()
	}
	return files, nil
}

// scriptKeywords cannot be the names of functions in a module.
const scriptKeywords = " arguments await break case catch class const continue debugger default delete do else enum eval export extends false finally for function if implements import in instanceof interface let new null package private protected public return static super switch this throw true try typeof var void while with yield async "

// scriptNames are the names that the source of a module uses, names of global types, and then, since import() of a module
// with a function of this name calls it.
var scriptNames = []string{
	"CallOptions", "ToolResult", "Promise", "callStructured", "callText", "any", "unknown", "never", "string", "number", "boolean",
	"object", "symbol", "bigint", "undefined", "type", "declare", "namespace", "module", "abstract", "as", "asserts", "infer", "is",
	"keyof", "readonly", "require", "global", "unique", "from", "of", "exports", "Object", "then",
}

func scriptName(name string) string {
	name = tooltype.Word(name)
	if strings.Contains(scriptKeywords, " "+name+" ") || slices.Contains(scriptNames, name) || strings.HasPrefix(name, "__") {
		name += "_"
	}
	return name
}

// A scriptModule collects the declarations of a module.
type scriptModule struct {
	server                   Server
	types                    tooltype.TypeScript
	functions                strings.Builder
	usesText, usesStructured bool
}

// tool adds the function of a tool, and the types that it needs.
func (m *scriptModule) tool(function string, t *mcp.Tool) {
	prefix := tooltype.Exported(t.Name)
	input := tooltype.Input(t.InputSchema)
	parameter := "args: {} = {}"
	if input.Kind != tooltype.Object || len(input.Fields) > 0 {
		parameter = "args: " + m.types.Declare(prefix+"Args", prefix, input)
		if input.Kind == tooltype.Map || input.Kind == tooltype.Object && !slices.ContainsFunc(input.Fields, func(f tooltype.Field) bool { return f.Required }) {
			parameter += " = {}"
		}
	}
	returned, call := "ToolResult", "callText(%s, %s, args, options)"
	if t.OutputSchema != nil {
		m.usesStructured = true
		returned = m.types.Declare(prefix+"Result", prefix+"Result", tooltype.Of(t.OutputSchema))
		call = "(await callStructured(%s, %s, args, options)) as " + returned
	} else {
		m.usesText = true
	}
	m.functions.WriteString("\n" + tooltype.Block("", t.Description))
	fmt.Fprintf(&m.functions, "export async function %s(%s, options: CallOptions = {}): Promise<%s> {\n  return ", function, parameter, returned)
	fmt.Fprintf(&m.functions, call, tooltype.QuoteScript(m.server.Name), tooltype.QuoteScript(t.Name))
	m.functions.WriteString(";\n}\n")
}

func (m *scriptModule) source() string {
	names := []string{"type CallOptions"}
	if m.usesText {
		names = append(names, "type ToolResult", "callText")
	}
	if m.usesStructured {
		names = append(names, "callStructured")
	}
	about := scriptHeader + tooltype.Block("", "Functions for the tools of the MCP server "+m.server.Name+".")
	if m.functions.Len() == 0 {
		return about + "export {};\n"
	}
	source := about + "import { " + strings.Join(names, ", ") + " } from \"./gateway.ts\";\n"
	if declarations := m.types.Declarations(); declarations != "" {
		source += "\n" + declarations
	}
	return source + m.functions.String()
}
