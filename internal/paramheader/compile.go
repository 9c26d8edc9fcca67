package paramheader

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// annotation is the keyword of a property's schema that names its header.
const annotation = "x-mcp-header"

// Compile reads the annotations of an input schema. An annotation must be a header name (RFC 9110, section 5.1) of at
// most [MaxParamName] bytes, unique without regard to case. There may be at most [MaxParams]. Its schema must have the
// type string, integer or boolean, and be reachable from the root through "properties" only. The error is an
// *[AnnotationError], or a syntax error if the schema is not JSON.
//
// The result is nil for a schema without annotations. A schema that does not contain the
// keyword is not scanned.
func Compile(inputSchema json.RawMessage) (*Params, error) {
	if !mayContain(inputSchema) {
		return nil, nil
	}
	c := compiler{scan: jsonscan.New(inputSchema)}
	var root property
	if err := c.schema(&root); err != nil {
		return nil, err
	}
	if err := c.scan.End(); err != nil {
		return nil, err
	}
	if len(c.params.annotated) == 0 {
		return nil, nil
	}
	c.params.roots = root.properties
	return &c.params, nil
}

// mayContain reports whether a schema can contain the keyword, also written with escapes.
func mayContain(schema []byte) bool {
	if bytes.Contains(schema, []byte(annotation)) {
		return true
	}
	for {
		at := bytes.Index(schema, []byte(`\u00`))
		if at < 0 || len(schema) < at+6 {
			return false
		}
		c, err := strconv.ParseUint(string(schema[at+4:at+6]), 16, 8)
		if err == nil && strings.IndexByte(annotation, byte(c)) >= 0 {
			return true
		}
		schema = schema[at+4:]
	}
}

// A compiler scans a schema once.
type compiler struct {
	scan   jsonscan.Scanner
	params Params
	path   []string // from the root of the schema to the current position
}

// schema reads a schema. It adds annotated properties in the schema to p, and the
// annotation of the schema itself.
func (c *compiler) schema(p *property) error {
	if c.scan.Kind() != jsonscan.Object {
		_, err := c.scan.Value()
		return err
	}
	var header, typ []byte
	err := c.members(func(keyword string) (err error) {
		switch keyword {
		case annotation:
			header, err = c.scan.Value()
		case "type":
			typ, err = c.scan.Value()
		case "properties":
			err = c.properties(p)
		case "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions":
			err = c.properties(new(property))
		case "const", "enum", "default", "examples", "dependentRequired":
			_, err = c.scan.Value() // data, not schemas
		default:
			err = c.subschemas() // an annotation below is misplaced, whatever the keyword
		}
		return err
	})
	if err != nil || header == nil {
		return err
	}
	return c.annotate(p, header, typ)
}

// properties reads an object of schemas.
func (c *compiler) properties(p *property) error {
	if c.scan.Kind() != jsonscan.Object {
		_, err := c.scan.Value()
		return err
	}
	return c.members(func(name string) error {
		below := &property{name: name}
		if err := c.schema(below); err != nil {
			return err
		}
		if below.header != "" || len(below.properties) > 0 {
			below.index = c.params.count
			c.params.count++
			p.properties = append(p.properties, below)
		}
		return nil
	})
}

// subschemas reads a value that may be a schema or an array of schemas.
func (c *compiler) subschemas() error {
	if c.scan.Kind() != jsonscan.Array {
		return c.schema(new(property))
	}
	if err := c.scan.EnterArray(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if ok, err := c.scan.Element(i == 0); err != nil || !ok {
			return err
		}
		c.path = append(c.path, strconv.Itoa(i))
		if err := c.schema(new(property)); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
}

// members reads an object. It calls value for each member.
func (c *compiler) members(value func(name string) error) error {
	if err := c.scan.EnterObject(); err != nil {
		return err
	}
	var keys jsonscan.Keys
	for first := true; ; first = false {
		key, ok, err := c.scan.Member(first)
		if err != nil || !ok {
			return err
		}
		if err := keys.Add(key, c.scan.KeyOffset()); err != nil {
			return err
		}
		name := jsonscan.Unquote(key)
		c.path = append(c.path, name)
		if err := value(name); err != nil {
			return err
		}
		c.path = c.path[:len(c.path)-1]
	}
}

// annotate sets the header of a property if all rules are met.
func (c *compiler) annotate(p *property, header, typ []byte) error {
	if reason := c.misplaced(); reason != "" {
		return c.refuse(reason)
	}
	if reason := nameFault(header); reason != "" {
		return c.refuse(reason)
	}
	if !isType(typ) {
		return c.refuse(`a property with a header needs "type":"string", "integer" or "boolean"`)
	}
	p.header = canonical(ParamPrefix + jsonscan.Unquote(header))
	for _, other := range c.params.annotated {
		if other.header == p.header {
			return c.refuse("another property has the header " + p.header + " (case makes no difference)")
		}
	}
	if len(c.params.annotated) == MaxParams {
		return c.refuse(fmt.Sprintf("a schema may have at most %d headers", MaxParams))
	}
	c.params.annotated = append(c.params.annotated, p)
	return nil
}

// misplaced returns why the current position cannot have a header.
func (c *compiler) misplaced() string {
	if len(c.path) == 0 {
		return "only a property has a header, not the arguments as a whole"
	}
	for i := 0; i < len(c.path); i += 2 {
		if keyword := c.path[i]; keyword != "properties" {
			return "a property with a header is reached through \"properties\" only, not through " + jsonscan.Quote(keyword)
		}
	}
	return ""
}

func (c *compiler) refuse(reason string) error {
	return &AnnotationError{jsonscan.FormatPointer(c.path...), reason}
}

// isType reports whether values of a raw type have a header.
func isType(typ []byte) bool {
	return jsonscan.KindOf(typ) == jsonscan.String &&
		(jsonscan.KeyIs(typ, "string") || jsonscan.KeyIs(typ, "integer") || jsonscan.KeyIs(typ, "boolean"))
}

// nameFault returns why a raw annotation is not a valid suffix of a header name.
func nameFault(raw []byte) string {
	if kind := jsonscan.KindOf(raw); kind != jsonscan.String {
		return fmt.Sprintf("a header name is a string, not %v", kind)
	}
	name := jsonscan.Unquote(raw)
	switch {
	case name == "":
		return "a header name is not empty"
	case len(name) > MaxParamName:
		return fmt.Sprintf("a header name has at most %d bytes", MaxParamName)
	}
	for _, r := range name {
		if !isToken(r) {
			return fmt.Sprintf("a header name consists of letters, digits and !#$%%&'*+-.^_`|~, not of %+q", r)
		}
	}
	return ""
}

// isToken reports whether a character is allowed in a token (RFC 9110, section 5.6.2).
func isToken(r rune) bool {
	return isAlphanumeric(r) || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func isAlphanumeric(r rune) bool {
	return '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}

// canonical returns a header name in the form of net/http, with capitals at the beginning
// and after each hyphen.
func canonical(name string) string {
	out := []byte(name)
	upper := true
	for i, c := range out {
		switch {
		case upper && 'a' <= c && c <= 'z':
			out[i] -= 'a' - 'A'
		case !upper && 'A' <= c && c <= 'Z':
			out[i] += 'a' - 'A'
		}
		upper = c == '-'
	}
	return string(out)
}

const (
	// MaxParams is the maximum number of annotated properties of one input schema. Servers
	// and proxies limit all headers of a request to about 8 KiB.
	MaxParams = 128

	// MaxParamName is the maximum length of an annotation in bytes.
	MaxParamName = 256

	// MaxInteger is the largest integer with a header form, and -MaxInteger the smallest: a float64 represents all
	// integers between them exactly.
	MaxInteger = 1<<53 - 1
)
