package migrate

import (
	"encoding/json"
	"go/ast"
	"go/constant"
	"go/types"
	"strconv"
	"strings"
)

// A value is a part of a schema: JSON if everything in it is constant, and always Go source.
type value struct {
	json string // "" if it is known at run time only
	code string
}

// An object is an object of a schema whose members keep their order.
type object struct {
	names  []string
	values []value
}

func (o *object) set(name string, v value) {
	o.names, o.values = append(o.names, name), append(o.values, v)
}

func (o *object) value() value {
	isConstant := true
	var text, code []string
	for i, v := range o.values {
		isConstant = isConstant && v.json != ""
		text = append(text, quoted(o.names[i])+": "+v.json)
		code = append(code, strconv.Quote(o.names[i])+": "+v.code)
	}
	all := value{code: "map[string]any{" + strings.Join(code, ", ") + "}"}
	if isConstant {
		all.json = "{" + strings.Join(text, ", ") + "}"
	}
	return all
}

func quoted(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // a string has JSON
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func listOf(values []value) value {
	isConstant := true
	var text, code []string
	for _, v := range values {
		isConstant = isConstant && v.json != ""
		text, code = append(text, v.json), append(code, v.code)
	}
	all := value{code: "[]any{" + strings.Join(code, ", ") + "}"}
	if isConstant {
		all.json = "[" + strings.Join(text, ", ") + "]"
	}
	return all
}

func textValue(text string) value { return value{quoted(text), strconv.Quote(text)} }

// valueOf returns the value of an expression: a constant, a literal of constants, or what is known at run time only.
func (s *source) valueOf(e ast.Expr) value {
	code := s.newText(e)
	if lit, ok := e.(*ast.CompositeLit); ok {
		var members object
		var list []value
		for _, element := range lit.Elts {
			pair, ok := element.(*ast.KeyValueExpr)
			if !ok {
				list = append(list, s.valueOf(element))
				continue
			}
			name := s.info.Types[pair.Key].Value
			if name == nil || name.Kind() != constant.String {
				return value{code: code}
			}
			members.set(constant.StringVal(name), s.valueOf(pair.Value))
		}
		all := members.value()
		if _, isMap := s.info.TypeOf(lit).Underlying().(*types.Map); !isMap {
			all = listOf(list)
		}
		return value{all.json, code}
	}
	known := s.info.Types[e].Value
	if known == nil {
		return value{code: code}
	}
	switch known.Kind() {
	case constant.String:
		return value{quoted(constant.StringVal(known)), code}
	case constant.Bool:
		return value{known.String(), code}
	case constant.Int, constant.Float:
		number, _ := constant.Float64Val(known)
		return value{strconv.FormatFloat(number, 'g', -1, 64), code}
	}
	return value{code: code}
}

// propertyTypes are the types of the arguments of tools, by the function that declares them.
var propertyTypes = map[string]string{
	"mcp.WithString": "string", "mcp.WithNumber": "number", "mcp.WithInteger": "integer", "mcp.WithBoolean": "boolean",
	"mcp.WithObject": "object", "mcp.WithArray": "array", "mcp.WithAny": "",
}

// keywords are the members of a schema, by the function that sets them.
var keywords = map[string]string{
	"mcp.Description": "description", "mcp.Title": "title", "mcp.DefaultString": "default", "mcp.DefaultNumber": "default",
	"mcp.DefaultBool": "default", "mcp.DefaultArray": "default", "mcp.MaxLength": "maxLength", "mcp.MinLength": "minLength",
	"mcp.Pattern": "pattern", "mcp.Max": "maximum", "mcp.Min": "minimum", "mcp.MultipleOf": "multipleOf",
	"mcp.Properties": "properties", "mcp.AdditionalProperties": "additionalProperties", "mcp.MinProperties": "minProperties",
	"mcp.MaxProperties": "maxProperties", "mcp.PropertyNames": "propertyNames", "mcp.Items": "items", "mcp.MinItems": "minItems",
	"mcp.MaxItems": "maxItems", "mcp.UniqueItems": "uniqueItems", "mcp.Enum": "enum", "mcp.WithStringEnumItems": "items",
}

// itemTypes are the types of the elements of lists, by the function that declares them.
var itemTypes = map[string]string{
	"mcp.WithStringItems": "string", "mcp.WithNumberItems": "number", "mcp.WithIntegerItems": "integer", "mcp.WithBooleanItems": "boolean",
}

// property returns the schema of an argument, or of the elements of a list.
func (s *source) property(kind string, options []ast.Expr) (schema value, required bool) {
	var o object
	if kind != "" {
		o.set("type", textValue(kind))
	}
	for _, option := range options {
		key, call := s.option(option)
		keyword, known := keywords[key]
		items, isItems := itemTypes[key]
		switch {
		case key == "mcp.Required":
			required = true
		case key == "mcp.Enum" && call.Ellipsis.IsValid():
			o.set(keyword, value{code: s.newText(call.Args[0])})
		case key == "mcp.Enum":
			var values []value
			for _, arg := range call.Args {
				values = append(values, s.valueOf(arg))
			}
			o.set(keyword, listOf(values))
		case key == "mcp.WithStringEnumItems":
			var of object
			of.set("type", textValue("string"))
			of.set("enum", s.valueOf(call.Args[0]))
			o.set(keyword, of.value())
		case isItems:
			of, _ := s.property(items, call.Args)
			o.set("items", of)
		case known && len(call.Args) == 1:
			o.set(keyword, s.valueOf(call.Args[0]))
		default:
			s.note(option, s.optionNote(option, key))
		}
	}
	return o.value(), required
}

// toolFields are the fields of a tool, by option. Those with a dot are annotations.
var toolFields = map[string]string{
	"mcp.WithDescription": "Description: $1", "mcp.WithToolTitle": "Title: $1", "mcp.WithToolAnnotation": "Annotations: &$1",
	"mcp.WithRawInputSchema": "InputSchema: $1", "mcp.WithRawOutputSchema": "OutputSchema: $1",
}

var toolHints = map[string]string{
	"mcp.WithTitleAnnotation": "Title: $1", "mcp.WithReadOnlyHintAnnotation": "ReadOnlyHint: new($1)",
	"mcp.WithDestructiveHintAnnotation": "DestructiveHint: new($1)", "mcp.WithIdempotentHintAnnotation": "IdempotentHint: new($1)",
	"mcp.WithOpenWorldHintAnnotation": "OpenWorldHint: new($1)",
}

// newTool rewrites NewTool to a server.Tool with the schema that its options describe.
func newTool(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	if call.Ellipsis.IsValid() {
		return "", false
	}
	fields := []string{"Name: " + s.newText(call.Args[0])}
	var hints []string
	var properties object
	var required []value
	var additional *value
	ownSchema := false
	for _, option := range call.Args[1:] {
		key, made := s.option(option)
		kind, isProperty := propertyTypes[key]
		switch {
		case isProperty:
			name := s.info.Types[made.Args[0]].Value
			if name == nil {
				return "", false
			}
			schema, needed := s.property(kind, made.Args[1:])
			properties.set(constant.StringVal(name), schema)
			if needed {
				required = append(required, textValue(constant.StringVal(name)))
			}
		case key == "mcp.WithSchemaAdditionalProperties":
			of := s.valueOf(made.Args[0])
			additional = &of
		case toolFields[key] != "":
			text, _ := s.expand(toolFields[key], nil, made.Args)
			fields = append(fields, text)
			ownSchema = ownSchema || key == "mcp.WithRawInputSchema"
		case toolHints[key] != "":
			text, _ := s.expand(toolHints[key], nil, made.Args)
			hints = append(hints, text)
		default:
			s.note(option, s.optionNote(option, key))
		}
	}
	if len(hints) > 0 {
		fields = append(fields, "Annotations: &"+s.use("mcp")+".ToolAnnotations{"+strings.Join(hints, ", ")+"}")
	}
	if !ownSchema {
		var o object
		o.set("type", textValue("object"))
		o.set("properties", properties.value())
		if len(required) > 0 {
			o.set("required", listOf(required))
		}
		if additional != nil {
			o.set("additionalProperties", *additional)
		}
		fields = append(fields, "InputSchema: "+s.schema(o.value()))
	}
	return s.use("server") + ".Tool{\n" + strings.Join(fields, ",\n") + ",\n}", true
}

// schema returns the source of a json.RawMessage.
func (s *source) schema(v value) string {
	if v.json == "" {
		return s.use("compat") + ".JSON(" + v.code + ")"
	}
	if strings.Contains(v.json, "`") {
		return s.use("json") + ".RawMessage(" + strconv.Quote(v.json) + ")"
	}
	return s.use("json") + ".RawMessage(`" + indented(v.json) + "`)"
}

// indented returns a schema with each argument on a line.
func indented(schema string) string {
	var members struct {
		Type       json.RawMessage `json:"type"`
		Properties json.RawMessage `json:"properties"`
	}
	if len(schema) <= 100 || json.Unmarshal([]byte(schema), &members) != nil || len(members.Properties) < 3 {
		return schema
	}
	inner := string(members.Properties)
	decoder := json.NewDecoder(strings.NewReader(inner))
	_, _ = decoder.Token()
	var lines []string
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return schema
		}
		var of json.RawMessage
		if err := decoder.Decode(&of); err != nil {
			return schema
		}
		lines = append(lines, "\t"+quoted(name.(string))+": "+string(of))
	}
	return strings.Replace(schema, inner, "{\n"+strings.Join(lines, ",\n")+"\n}", 1)
}

func newRawTool(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	return s.expand("@server.Tool{\nName: $1,\nDescription: $2,\nInputSchema: $3,\n}", nil, call.Args)
}

// schemaLiteral rewrites the schema in a literal of a tool.
func schemaLiteral(s *source, lit *ast.CompositeLit) (string, bool) {
	var o object
	for _, name := range []string{"Type", "Properties", "Required"} {
		if of := field(lit, name); of != nil {
			o.set(strings.ToLower(name), s.valueOf(of))
		}
	}
	if len(o.names) != len(lit.Elts) {
		return "", false
	}
	return s.schema(o.value()), true
}

// definitionOptions are the options of prompts and resources.
var definitionOptions = map[string]string{
	"mcp.WithPromptDescription": "Description: $1", "mcp.WithPromptTitle": "Title: $1",
	"mcp.WithResourceDescription": "Description: $1", "mcp.WithResourceTitle": "Title: $1", "mcp.WithMIMEType": "MIMEType: $1",
	"mcp.WithResourceSize": "Size: new($1)", "mcp.WithTemplateDescription": "Description: $1", "mcp.WithTemplateTitle": "Title: $1",
	"mcp.WithTemplateMIMEType": "MIMEType: $1",
}

func newPrompt(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	if call.Ellipsis.IsValid() {
		return "", false
	}
	fields := []string{"Name: " + s.newText(call.Args[0])}
	var arguments []string
	for _, option := range call.Args[1:] {
		key, made := s.option(option)
		if key != "mcp.WithArgument" {
			fields = append(fields, s.definitionField(option)...)
			continue
		}
		argument := []string{"Name: " + s.newText(made.Args[0])}
		for _, part := range made.Args[1:] {
			switch key, made := s.option(part); key {
			case "mcp.ArgumentDescription":
				argument = append(argument, "Description: "+s.newText(made.Args[0]))
			case "mcp.RequiredArgument":
				argument = append(argument, "Required: true")
			default:
				s.note(part, s.optionNote(part, key))
			}
		}
		arguments = append(arguments, "{"+strings.Join(argument, ", ")+"}")
	}
	if len(arguments) > 0 {
		fields = append(fields, "Arguments: []"+s.use("mcp")+".PromptArgument{\n"+strings.Join(arguments, ",\n")+",\n}")
	}
	return s.use("server") + ".Prompt{\n" + strings.Join(fields, ",\n") + ",\n}", true
}

// newResource rewrites NewResource and NewResourceTemplate.
func newResource(s *source, call *ast.CallExpr, _ ast.Expr) (string, bool) {
	if call.Ellipsis.IsValid() {
		return "", false
	}
	start := ".Resource{\nURI: "
	if key, _ := s.keyOf(call.Fun); key == "mcp.NewResourceTemplate" {
		start = ".Template{\nURITemplate: "
	}
	fields := []string{s.use("server") + start + s.newText(call.Args[0]), "Name: " + s.newText(call.Args[1])}
	for _, option := range call.Args[2:] {
		fields = append(fields, s.definitionField(option)...)
	}
	return strings.Join(fields, ",\n") + ",\n}", true
}

func (s *source) definitionField(option ast.Expr) []string {
	key, made := s.option(option)
	template := definitionOptions[key]
	if template == "" {
		s.note(option, s.optionNote(option, key))
		return nil
	}
	text, _ := s.expand(template, nil, made.Args)
	return []string{text}
}
