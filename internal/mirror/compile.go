package mirror

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

// Compile reads the annotations of an input schema. They must be header names
// (RFC 9110, section 5.1: letters, digits and !#$%&'*+-.^_`|~) of at most
// [MaxParamName] bytes, no two alike but for case, at most [MaxParams], each
// beside a type that is exactly string, integer or boolean, and reached from the
// root through "properties" alone. The error is an *[AnnotationError], or that of
// a schema which is not JSON.
//
// The result is nil for a schema without annotations; one that does not contain
// their keyword is not even scanned.
func Compile(inputSchema json.RawMessage) (*Params, error) {
	if !mentions(inputSchema) {
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

// mentions tells whether the keyword may occur in a text, which may spell it
// with escapes.
func mentions(schema []byte) bool {
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

// A compiler reads a schema once, from its beginning.
type compiler struct {
	scan   jsonscan.Scanner
	params Params
	path   []string // from the root of the schema to where it is read
}

// schema reads a schema. Of the properties in it, those that matter become
// those of p; if the schema itself is annotated, p is its property.
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
			_, err = c.scan.Value() // data, and no schema whatever it looks like
		default:
			err = c.subschemas() // known or not: an annotation there is misplaced
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

// subschemas reads what may be a schema or an array of schemas.
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

// members reads an object: value is called before each member's.
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

// annotate gives a property its header, if all rules allow it.
func (c *compiler) annotate(p *property, header, typ []byte) error {
	if reason := c.misplaced(); reason != "" {
		return c.refuse(reason)
	}
	if reason := badName(header); reason != "" {
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

// misplaced says why arguments cannot be followed to where the compiler is.
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
	escapes := strings.NewReplacer("~", "~0", "/", "~1") // RFC 6901, section 3
	var pointer strings.Builder
	for _, step := range c.path {
		pointer.WriteString("/" + escapes.Replace(step))
	}
	return &AnnotationError{pointer.String(), reason}
}

// isType tells whether a raw type is one whose values have a header.
func isType(typ []byte) bool {
	return jsonscan.KindOf(typ) == jsonscan.String &&
		(jsonscan.KeyIs(typ, "string") || jsonscan.KeyIs(typ, "integer") || jsonscan.KeyIs(typ, "boolean"))
}
