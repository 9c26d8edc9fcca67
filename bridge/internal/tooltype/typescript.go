package tooltype

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// TypeScript writes types as TypeScript. What it writes passes tsc with all checks, whatever the schemas are. The zero value
// is ready to use; a value is for the types of one module or one answer.
type TypeScript struct {
	// Short leaves out descriptions, and writes an object on one line.
	Short bool
	// Exported marks declarations with export.
	Exported bool
	// Names are the names in use, to which those of declarations are added. It may be nil.
	Names Names

	declared map[*Type]string
	out      strings.Builder
}

// Expression returns a type, such as { owner: string; labels?: string[] }. Types that contain themselves, and others to
// which the schema refers, are declared; prefix is the beginning of their names.
func (ts *TypeScript) Expression(t *Type, prefix string) string {
	return ts.expression(t, prefix, "")
}

// Declare declares a type with a name, or with the name and a number if it is in use. It returns the name.
func (ts *TypeScript) Declare(name, prefix string, t *Type) string {
	ts.prepare()
	name = ts.Names.Add(Bounded(name))
	if t.Name != "" {
		ts.declared[t] = name
	}
	ts.declare(name, prefix, t)
	return name
}

// Declarations returns the declarations of all types with names, each of which ends with a line break.
func (ts *TypeScript) Declarations() string { return ts.out.String() }

func (ts *TypeScript) prepare() {
	if ts.declared == nil {
		ts.declared = make(map[*Type]string)
	}
	if ts.Names == nil {
		ts.Names = make(Names)
	}
}

func (ts *TypeScript) declare(name, prefix string, t *Type) {
	text := ts.content(t, prefix, "") // it may declare others
	if !ts.Short {
		ts.out.WriteString(Block("", t.Description))
	}
	if ts.Exported {
		ts.out.WriteString("export ")
	}
	ts.out.WriteString("type " + name + " = " + text + ";\n")
}

// expression returns a type within lines that begin with indent.
func (ts *TypeScript) expression(t *Type, prefix, indent string) string {
	if t.Name == "" || t.Kind < Literal {
		return ts.content(t, prefix, indent)
	}
	ts.prepare()
	name, ok := ts.declared[t]
	if !ok {
		name = ts.Names.Add(Bounded(prefix + Exported(t.Name)))
		ts.declared[t] = name
		ts.declare(name, prefix, t)
	}
	return name
}

// content returns a type without its name.
func (ts *TypeScript) content(t *Type, prefix, indent string) string {
	switch t.Kind {
	case Null:
		return "null"
	case Boolean:
		return "boolean"
	case Integer, Number:
		return "number"
	case String:
		return "string"
	case Literal:
		var values []string
		for _, value := range t.Values {
			values = append(values, literalText(value))
		}
		return strings.Join(values, " | ")
	case Array:
		element := ts.expression(t.Element, prefix, indent)
		if strings.Contains(element, " | ") && !strings.HasPrefix(element, "{") {
			element = "(" + element + ")"
		}
		return element + "[]"
	case Map:
		return "{ [name: string]: " + ts.expression(t.Element, prefix, indent) + " }"
	case Object:
		return ts.object(t, prefix, indent)
	case Union:
		var members []string
		for _, m := range t.Members {
			members = append(members, ts.expression(m, prefix, indent))
		}
		return strings.Join(members, " | ")
	}
	return "unknown"
}

func literalText(value any) string {
	switch v := value.(type) {
	case string:
		return QuoteScript(v)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return strconv.FormatBool(value == true)
}

func (ts *TypeScript) object(t *Type, prefix, indent string) string {
	var members []string
	for _, f := range t.Fields {
		var b strings.Builder
		if !ts.Short {
			b.WriteString(Block(indent+"  ", f.Description))
			b.WriteString(indent + "  ")
		}
		b.WriteString(memberName(f.Name))
		if !f.Required {
			b.WriteByte('?')
		}
		b.WriteString(": " + ts.expression(f.Type, prefix, indent+"  "))
		members = append(members, b.String())
	}
	if t.Element != nil { // a more exact type would have to include those of all fields
		further := "[name: string]: unknown"
		if !ts.Short {
			further = indent + "  " + further
		}
		members = append(members, further)
	}
	switch {
	case len(members) == 0:
		return "{ [name: string]: never }"
	case ts.Short:
		return "{ " + strings.Join(members, "; ") + " }"
	}
	return "{\n" + strings.Join(members, ";\n") + ";\n" + indent + "}"
}

// memberName returns the name of a member, in quotes if it is no word.
func memberName(name string) string {
	if name != "" && len(name) <= maxIdentifier && Word(name) == name {
		return name
	}
	return QuoteScript(name)
}

// QuoteScript returns a text as a string of JavaScript or TypeScript, of visible characters.
func QuoteScript(text string) string {
	quoted := string(jsonscan.AppendString(nil, text))
	var b strings.Builder
	for _, r := range quoted {
		if unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			b.WriteString(`\u` + strconv.FormatInt(0x10000+int64(unit), 16)[1:])
		}
	}
	return b.String()
}

// Block returns a text as a comment of lines that begin with indent, or "" for an empty text.
func Block(indent, text string) string {
	lines := Lines(text)
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "*/", `*\/`)
	}
	switch len(lines) {
	case 0:
		return ""
	case 1:
		if !strings.HasPrefix(lines[0], "@ts-") && !strings.HasSuffix(lines[0], "*") {
			return indent + "/** " + lines[0] + " */\n"
		}
	}
	var b strings.Builder
	b.WriteString(indent + "/**\n")
	for _, line := range lines {
		b.WriteString(strings.TrimRight(indent+" * "+line, " ") + "\n")
	}
	b.WriteString(indent + " */\n")
	return b.String()
}
