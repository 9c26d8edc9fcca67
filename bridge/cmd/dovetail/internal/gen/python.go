package gen

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dovetail-go/dovetail/bridge/internal/tooltype"
	"github.com/dovetail-go/dovetail/mcp"
)

//go:embed python/_gateway.py
var pythonGateway string

const pythonHeader = "# " + generatedBy + "\n"

// Python returns the files of a Python package with a module of coroutines, mcp/NAME.py, and one of blocking functions,
// sync/NAME.py, for the tools of each server. The name of a server is the alias at the gateway. The package needs the
// standard library of Python 3.9 or later.
func Python(servers []Server) (Files, error) {
	files := Files{
		"_gateway.py": pythonHeader + pythonGateway,
		"__init__.py": pythonHeader + `"""Functions for the tools of MCP servers, which a gateway calls."""

from ._gateway import UNSET as UNSET
from ._gateway import GatewayError as GatewayError
from ._gateway import ToolError as ToolError
from ._gateway import ToolResult as ToolResult
from ._gateway import UnknownOutcome as UnknownOutcome
from ._gateway import Unset as Unset
`,
		"mcp/__init__.py":  pythonHeader + "\"\"\"Coroutines for the tools of MCP servers.\"\"\"\n",
		"sync/__init__.py": pythonHeader + "\"\"\"Blocking functions for the tools of MCP servers.\"\"\"\n",
	}
	for name, server := range modules(servers, isPythonKeyword) {
		m := newPythonModule(name, server)
		tools := sorted(server.Tools)
		var functions []string
		for _, t := range tools {
			functions = append(functions, m.names.Add(pythonName(t.Name)))
		}
		for i := range tools {
			if m.tool(functions[i], &tools[i]); m.size() > maxSource {
				return nil, errTooLong
			}
		}
		files["mcp/"+name+".py"] = m.source(false)
		files["sync/"+name+".py"] = m.source(true)
	}
	return files, nil
}

// pythonKeywords cannot be identifiers.
const pythonKeywords = " False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield "

func isPythonKeyword(name string) bool { return strings.Contains(pythonKeywords, " "+name+" ") }

// pythonNames are the names that the source of a module uses.
var pythonNames = []string{
	"annotations", "Any", "Dict", "List", "Literal", "Optional", "TypedDict", "Union", "bool", "float", "int", "str",
	"ToolResult", "UNSET", "Unset", "_call", "_cast", "_structured", "_text", "_tool",
}

// pythonName returns an identifier that is no keyword, and not special because of two underscores at its beginning.
func pythonName(name string) string {
	name = tooltype.Word(name)
	if strings.HasPrefix(name, "__") {
		name = "_" + strings.TrimLeft(name, "_")
	}
	if isPythonKeyword(name) || slices.Contains(pythonNames, name) {
		name += "_"
	}
	return name
}

// A pythonModule collects the declarations of both modules of a server.
type pythonModule struct {
	name      string
	server    Server
	names     tooltype.Names // of the module
	used      map[string]bool
	declared  map[*tooltype.Type]string // types with names
	typeNames []string
	types     strings.Builder
	functions []pythonFunction
	length    int // of the functions
}

// A pythonFunction has the parts of the source of a function.
type pythonFunction struct{ name, tool, renamed, parameters, returned, doc, arguments string }

func newPythonModule(name string, server Server) *pythonModule {
	return &pythonModule{
		name: name, server: server, names: tooltype.Reserve(pythonNames...),
		used: make(map[string]bool), declared: make(map[*tooltype.Type]string),
	}
}

func (m *pythonModule) size() int { return m.types.Len() + m.length }

// use returns a name, which the module then imports.
func (m *pythonModule) use(name string) string {
	m.used[name] = true
	return name
}

// tool adds the function of a tool, and the types that it needs.
func (m *pythonModule) tool(function string, t *mcp.Tool) {
	f := pythonFunction{name: function, tool: t.Name, returned: m.use("ToolResult")}
	prefix := tooltype.Exported(t.Name)
	if t.OutputSchema != nil {
		result := tooltype.Bounded(prefix + "Result")
		f.returned = m.typeOf(tooltype.Of(t.OutputSchema), result, result, plain)
	}
	input := tooltype.Input(t.InputSchema).Flat()
	names := tooltype.Reserve(pythonNames...)
	var required, optional, arguments, renamed []string
	var docs []tooltype.Field
	for _, field := range input.Fields {
		name := names.Add(pythonName(field.Name))
		if name != field.Name {
			renamed = append(renamed, quotePython(field.Name)+": "+quotePython(name))
		}
		arguments = append(arguments, quotePython(field.Name)+": "+name)
		made := m.alternatives(field.Type, tooltype.Bounded(prefix+tooltype.Exported(field.Name)), prefix, plain)
		if field.Required {
			required = append(required, name+": "+m.union(made))
		} else {
			m.use("UNSET")
			optional = append(optional, name+": "+m.union(append(made, m.use("Unset")))+" = UNSET")
		}
		docs = append(docs, tooltype.Field{Name: name, Description: field.Description})
	}
	parameters := append(required, optional...)
	if len(parameters) > 0 {
		parameters = append([]string{"*"}, parameters...)
	}
	if input.Element != nil {
		further := names.Add("arguments")
		parameters = append(parameters, "**"+further+": "+m.typeOf(input.Element, tooltype.Bounded(prefix+"Value"), prefix, plain))
		arguments = append(arguments, "**"+further)
	}
	f.renamed = "{" + strings.Join(renamed, ", ") + "}"
	f.parameters, f.arguments = folded("(", parameters, ")", ""), folded("{", arguments, "}", "    ")
	f.doc = docstring(described(t.Description, docs), "    ")
	m.length += len(f.parameters) + len(f.doc) + len(f.arguments)
	m.functions = append(m.functions, f)
}

// described returns a description, followed by those of fields.
func described(text string, fields []tooltype.Field) string {
	paragraphs := []string{strings.Join(tooltype.Lines(text), "\n")}
	var lines []string
	for _, f := range fields {
		if text := tooltype.Line(f.Description); text != "" {
			lines = append(lines, tooltype.Line(f.Name)+": "+text)
		}
	}
	paragraphs = append(paragraphs, strings.Join(lines, "\n"))
	return strings.TrimSpace(strings.Join(paragraphs, "\n\n"))
}

// maxColumns is the length of a list on one line.
const maxColumns = 90

// folded returns a list on one line, or on several if it is long.
func folded(begin string, parts []string, end, indent string) string {
	line := begin + strings.Join(parts, ", ") + end
	if len(line) <= maxColumns {
		return line
	}
	return begin + "\n" + indent + "    " + strings.Join(parts, ",\n"+indent+"    ") + ",\n" + indent + end
}

// A pythonContext says how a type refers to the types of the module.
type pythonContext bool

const (
	plain     pythonContext = false // in an annotation, which is not evaluated
	evaluated pythonContext = true  // names are in quotes, since they may be declared later
)

// typeOf returns the Python type of a type. name is that of an object without a name, and prefix the beginning of others.
func (m *pythonModule) typeOf(t *tooltype.Type, name, prefix string, in pythonContext) string {
	if t.Name != "" && t.Kind >= tooltype.Literal || t.Kind == tooltype.Object && len(t.Fields) > 0 {
		made, ok := m.declared[t]
		if !ok {
			if t.Name != "" {
				name = tooltype.Bounded(prefix + tooltype.Exported(t.Name))
			}
			made = m.names.Add(name)
			m.declared[t] = made
			m.typeNames = append(m.typeNames, made)
			m.declare(made, prefix, t)
		}
		if in == evaluated {
			return quotePython(made)
		}
		return made
	}
	return m.content(t, name, prefix, in)
}

// content returns a type that is not declared.
func (m *pythonModule) content(t *tooltype.Type, name, prefix string, in pythonContext) string {
	switch t.Kind {
	case tooltype.Null:
		return "None"
	case tooltype.Boolean:
		return "bool"
	case tooltype.Integer:
		return "int"
	case tooltype.Number:
		return "float"
	case tooltype.String:
		return "str"
	case tooltype.Literal:
		var values []string
		for _, value := range t.Values {
			values = append(values, pythonLiteral(value))
		}
		return m.use("Literal") + "[" + strings.Join(values, ", ") + "]"
	case tooltype.Array:
		return m.use("List") + "[" + m.typeOf(t.Element, tooltype.Bounded(name+"Item"), prefix, in) + "]"
	case tooltype.Map:
		return m.use("Dict") + "[str, " + m.typeOf(t.Element, tooltype.Bounded(name+"Value"), prefix, in) + "]"
	case tooltype.Object:
		return m.use("Dict") + "[str, " + m.use("Any") + "]"
	case tooltype.Union:
		return m.union(m.members(t, name, prefix, in))
	}
	return m.use("Any")
}

// alternatives returns the members of a union that has no name, or the type itself.
func (m *pythonModule) alternatives(t *tooltype.Type, name, prefix string, in pythonContext) (types []string) {
	if t.Kind == tooltype.Union && t.Name == "" {
		return m.members(t, name, prefix, in)
	}
	return []string{m.typeOf(t, name, prefix, in)}
}

func (m *pythonModule) members(t *tooltype.Type, name, prefix string, in pythonContext) (types []string) {
	for i, member := range t.Members {
		own := name
		if len(t.Members) > 2 || t.Members[1-i].Kind != tooltype.Null {
			own = tooltype.Bounded(name + strconv.Itoa(i+1))
		}
		types = append(types, m.typeOf(member, own, prefix, in))
	}
	return types
}

// union returns a union of types.
func (m *pythonModule) union(types []string) string {
	var different []string
	for _, made := range types {
		if !slices.Contains(different, made) {
			different = append(different, made)
		}
	}
	switch {
	case len(different) == 1:
		return different[0]
	case len(different) == 2 && different[1] == "None":
		return m.use("Optional") + "[" + different[0] + "]"
	}
	return m.use("Union") + "[" + strings.Join(different, ", ") + "]"
}

func pythonLiteral(value any) string {
	switch v := value.(type) {
	case string:
		return quotePython(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	if value == true {
		return "True"
	}
	return "False"
}

// declare writes the declaration of an object, or of another type with a name.
func (m *pythonModule) declare(name, prefix string, t *tooltype.Type) {
	if t.Kind != tooltype.Object || len(t.Fields) == 0 {
		fmt.Fprintf(&m.types, "%s = %s\n\n\n", name, m.content(t, name, prefix, evaluated))
		return
	}
	typed := m.use("TypedDict")
	var required, optional []tooltype.Field
	for _, f := range t.Fields {
		if f.Required {
			required = append(required, f)
		} else {
			optional = append(optional, f)
		}
	}
	var bases []string
	if len(required) > 0 && (len(optional) > 0 || !areAttributes(required)) {
		bases = append(bases, m.part(m.names.Add("_"+name+"Required"), required, prefix, name, ""))
		required = nil
	}
	if len(optional) > 0 && !areAttributes(optional) {
		bases = append(bases, m.part(m.names.Add("_"+name+"Optional"), optional, prefix, name, ", total=False"))
		optional = nil
	}
	total := ""
	if len(optional) > 0 {
		total = ", total=False"
	}
	if len(bases) == 0 {
		bases = []string{typed}
	}
	body := docstring(described(t.Description, t.Fields), "    ") + m.attributes(append(required, optional...), prefix, name)
	if body == "" {
		body = "    pass\n"
	}
	fmt.Fprintf(&m.types, "class %s(%s%s):\n%s\n\n", name, strings.Join(bases, ", "), total, body)
}

// part declares a base class for the required or the optional fields of an object, and returns its name.
func (m *pythonModule) part(name string, fields []tooltype.Field, prefix, of, total string) string {
	if areAttributes(fields) {
		body := m.attributes(fields, prefix, of)
		fmt.Fprintf(&m.types, "class %s(TypedDict%s):\n%s\n\n", name, total, body)
		return name
	}
	var members []string
	for _, f := range fields {
		members = append(members, quotePython(f.Name)+": "+m.typeOf(f.Type, tooltype.Bounded(of+tooltype.Exported(f.Name)), prefix, evaluated))
	}
	fmt.Fprintf(&m.types, "%s = TypedDict(%s, %s%s)\n\n\n", name, quotePython(name), folded("{", members, "}", ""), total)
	return name
}

func (m *pythonModule) attributes(fields []tooltype.Field, prefix, of string) string {
	var b strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&b, "    %s: %s\n", f.Name, m.typeOf(f.Type, tooltype.Bounded(of+tooltype.Exported(f.Name)), prefix, plain))
	}
	return b.String()
}

// areAttributes reports whether names can be attributes of a class. Names of types cannot, since those of other
// attributes would then be these attributes.
func areAttributes(fields []tooltype.Field) bool {
	return !slices.ContainsFunc(fields, func(f tooltype.Field) bool {
		return f.Name == "" || f.Name != pythonName(f.Name) || f.Name[0] < 'a' || f.Name[0] > 'z'
	})
}

// source returns a module.
func (m *pythonModule) source(blocking bool) string {
	var b strings.Builder
	prefix, call, await := "async def ", "call", "await "
	about := "Coroutines"
	if blocking {
		prefix, call, await, about = "def ", "call_sync", "", "Blocking functions"
	}
	b.WriteString(pythonHeader + docstring(about+" for the tools of the MCP server "+tooltype.Line(m.server.Name)+".", "") + "\nfrom __future__ import annotations\n")
	var typing, gateway []string
	for _, name := range slices.Sorted(maps.Keys(m.used)) {
		switch name {
		case "ToolResult", "UNSET", "Unset":
			gateway = append(gateway, name)
		default:
			if !blocking || m.usedBy(name) {
				typing = append(typing, name)
			}
		}
	}
	returns, texts := false, false
	for _, f := range m.functions {
		returns, texts = returns || f.returned != "ToolResult", texts || f.returned == "ToolResult"
	}
	if len(m.functions) > 0 {
		gateway = append(gateway, call+" as _call", "tool as _tool")
	}
	if !texts {
		gateway = slices.DeleteFunc(gateway, func(name string) bool { return name == "ToolResult" })
	} else {
		gateway = append(gateway, "text as _text")
	}
	if returns {
		gateway = append(gateway, "structured as _structured")
		typing = append(typing, "cast as _cast")
	}
	if len(typing) > 0 {
		b.WriteString("\nfrom typing import " + strings.Join(typing, ", ") + "\n")
	}
	if len(gateway) > 0 {
		b.WriteString("\nfrom .._gateway import " + strings.Join(gateway, ", ") + "\n")
	}
	names := m.exportedNames()
	if blocking && len(m.typeNames) > 0 {
		b.WriteString("from ..mcp." + m.name + folded(" import (", m.typeNames, ")", "") + "\n")
	}
	if len(names) > 0 {
		b.WriteString("\n__all__ = " + folded("[", names, "]", "") + "\n\n\n")
	}
	if !blocking {
		b.WriteString(m.types.String())
	}
	for i, f := range m.functions {
		if i > 0 {
			b.WriteString("\n\n")
		}
		begin, end := "_text(", ")"
		if f.returned != "ToolResult" {
			begin, end = "_cast("+quotePython(f.returned)+", _structured(", "))"
		}
		b.WriteString("@_tool(" + f.renamed + ")\n" + prefix + f.name + f.parameters + " -> " + f.returned + ":\n" + f.doc)
		b.WriteString("    return " + begin + await + "_call(" + quotePython(m.server.Name) + ", " + quotePython(f.tool) + ", " + f.arguments + ")" + end + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// usedBy reports whether a function uses a name of typing.
func (m *pythonModule) usedBy(name string) bool {
	return slices.ContainsFunc(m.functions, func(f pythonFunction) bool {
		return strings.Contains(f.parameters, name) || strings.Contains(f.returned, name)
	})
}

// exportedNames returns the names of functions and types in quotes, in order.
func (m *pythonModule) exportedNames() []string {
	var names []string
	for _, f := range m.functions {
		names = append(names, f.name)
	}
	names = append(names, m.typeNames...)
	slices.Sort(names)
	for i, name := range names {
		names[i] = quotePython(name)
	}
	return names
}

// quotePython returns a text as a string of Python, of visible characters.
func quotePython(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			b.WriteRune(r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// docstring returns a text of visible characters as a docstring, or "" for an empty text.
func docstring(text, indent string) string {
	if text == "" {
		return ""
	}
	escaped := strings.ReplaceAll(text, `\`, `\\`)
	var b strings.Builder
	for i, r := range escaped {
		if r == '"' && (i+1 == len(escaped) || escaped[i+1] == '"') {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		if i > 0 && line != "" {
			lines[i] = indent + line
		}
	}
	end := `"""`
	if len(lines) > 1 {
		end = "\n" + indent + end
	}
	return indent + `"""` + strings.Join(lines, "\n") + end + "\n"
}
