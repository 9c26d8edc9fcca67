package entrycheck

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// Entry returns the definition of an entry in a form that is valid in every version of the protocol. Null members
// are removed. A schema of arguments gets the type object if it has no type. A resource or template without a name gets
// its URI. Other members with a wrong value are removed if the entry can be used without them. The error says why the entry cannot be
// used. repairs says what was changed, in at most maxRepairs texts; if it is empty, the result is definition.
// Members that the protocol does not know, and the schemas inside a schema of arguments, are not checked.
func Entry(kind mcp.Kind, definition []byte) (valid []byte, repairs []string, err error) {
	var c checker
	valid, err = c.value("", definition, formOf(kind))
	if err != nil {
		return nil, nil, err
	}
	return valid, c.described(), nil
}

// List returns a page of a list with valid entries. member is the member of result with the entries. Entries that cannot
// be used are removed, and so are a cursor that is not a string and _meta that is not an object. The error says that
// result is not a page. repairs is as of [Entry].
func List(kind mcp.Kind, member string, result []byte) (valid []byte, repairs []string, err error) {
	var c checker
	valid, err = c.object("", result, []memberForm{
		{name: member, form: &form{kind: jsonscan.Array, elements: formOf(kind)}, required: true, missing: noEntries},
		{name: "nextCursor", form: &textForm},
		{name: "_meta", form: &objectForm},
	})
	if err != nil {
		return nil, nil, err
	}
	return valid, c.described(), nil
}

func noEntries(*jsonscan.Members) []byte { return []byte("[]") }

// formOf returns the form of entries of a kind.
func formOf(kind mcp.Kind) *form {
	switch kind {
	case mcp.KindTool:
		return &toolForm
	case mcp.KindPrompt:
		return &promptForm
	case mcp.KindResource:
		return &resourceForm
	case mcp.KindResourceTemplate:
		return &templateForm
	case mcp.KindSkill:
		return &skillForm
	case mcp.KindEvent:
		return &eventForm
	}
	return &objectForm
}

// A form describes valid values.
type form struct {
	kind     jsonscan.Kind
	members  []memberForm // of an object; it may have others
	elements *form        // of an array; others are removed
	texts    []string     // the valid strings, nil if all are
	rule     func(raw []byte) error
	convert  func(c *checker, path string, raw []byte) ([]byte, error) // replaces everything above
}

// A memberForm describes a member of an object.
type memberForm struct {
	name     string
	form     *form
	required bool                                  // the object is not valid without it
	missing  func(object *jsonscan.Members) []byte // returns the value of a required member that is absent or null
}

// The forms are those of the newest schema of MCP, together with what older versions require.
var (
	textForm   = form{kind: jsonscan.String}
	boolForm   = form{kind: jsonscan.Bool}
	objectForm = form{kind: jsonscan.Object}
	textsForm  = form{kind: jsonscan.Array, elements: &textForm}

	iconForm = form{kind: jsonscan.Object, members: []memberForm{
		{name: "src", form: &textForm, required: true},
		{name: "mimeType", form: &textForm},
		{name: "sizes", form: &textsForm},
		{name: "theme", form: &form{kind: jsonscan.String, texts: []string{"light", "dark"}}},
	}}
	iconsForm = form{kind: jsonscan.Array, elements: &iconForm}

	toolForm = form{kind: jsonscan.Object, members: []memberForm{
		{name: "name", form: &textForm, required: true},
		{name: "title", form: &textForm},
		{name: "description", form: &textForm},
		{name: "inputSchema", form: &form{convert: inputSchema}, required: true, missing: anyArguments},
		{name: "outputSchema", form: &form{convert: outputSchema}},
		{name: "annotations", form: &form{kind: jsonscan.Object, members: []memberForm{
			{name: "title", form: &textForm},
			{name: "readOnlyHint", form: &boolForm},
			{name: "destructiveHint", form: &boolForm},
			{name: "idempotentHint", form: &boolForm},
			{name: "openWorldHint", form: &boolForm},
		}}},
		{name: "execution", form: &form{kind: jsonscan.Object, members: []memberForm{
			{name: "taskSupport", form: &form{kind: jsonscan.String, texts: []string{"forbidden", "optional", "required"}}},
		}}},
		{name: "icons", form: &iconsForm},
		{name: "_meta", form: &objectForm},
	}}

	promptForm = form{kind: jsonscan.Object, members: []memberForm{
		{name: "name", form: &textForm, required: true},
		{name: "title", form: &textForm},
		{name: "description", form: &textForm},
		{name: "arguments", form: &form{kind: jsonscan.Array, elements: &form{kind: jsonscan.Object, members: []memberForm{
			{name: "name", form: &textForm, required: true},
			{name: "title", form: &textForm},
			{name: "description", form: &textForm},
			{name: "required", form: &boolForm},
		}}}},
		{name: "icons", form: &iconsForm},
		{name: "_meta", form: &objectForm},
	}}

	contentAnnotationsForm = form{kind: jsonscan.Object, members: []memberForm{
		{name: "audience", form: &form{kind: jsonscan.Array, elements: &form{kind: jsonscan.String, texts: []string{"user", "assistant"}}}},
		{name: "priority", form: &form{kind: jsonscan.Number, rule: isPriority}},
		{name: "lastModified", form: &form{kind: jsonscan.String, rule: isTime}},
	}}

	resourceForm = form{kind: jsonscan.Object, members: []memberForm{
		{name: "uri", form: &textForm, required: true},
		{name: "name", form: &textForm, required: true, missing: memberOf("uri")},
		{name: "title", form: &textForm},
		{name: "description", form: &textForm},
		{name: "mimeType", form: &textForm},
		{name: "size", form: &form{kind: jsonscan.Number, rule: isInteger}},
		{name: "annotations", form: &contentAnnotationsForm},
		{name: "icons", form: &iconsForm},
		{name: "_meta", form: &objectForm},
	}}

	templateForm = form{kind: jsonscan.Object, members: []memberForm{
		{name: "uriTemplate", form: &textForm, required: true},
		{name: "name", form: &textForm, required: true, missing: memberOf("uriTemplate")},
		{name: "title", form: &textForm},
		{name: "description", form: &textForm},
		{name: "mimeType", form: &textForm},
		{name: "annotations", form: &contentAnnotationsForm},
		{name: "icons", form: &iconsForm},
		{name: "_meta", form: &objectForm},
	}}

	// The files of a skill are not changed: their digests are what is verified.
	skillForm = form{kind: jsonscan.Object, members: []memberForm{
		{name: "uri", form: &textForm, required: true},
		{name: "frontmatter", form: &objectForm, required: true},
		{name: "_meta", form: &objectForm},
	}}

	eventForm = form{kind: jsonscan.Object, members: []memberForm{
		{name: "name", form: &textForm, required: true},
		{name: "title", form: &textForm},
		{name: "description", form: &textForm},
		{name: "delivery", form: &textsForm},
		{name: "inputSchema", form: &objectForm},
		{name: "payloadSchema", form: &objectForm},
		{name: "_meta", form: &objectForm},
	}}
)

func memberOf(name string) func(*jsonscan.Members) []byte {
	return func(object *jsonscan.Members) []byte {
		if value := object.Get(name); jsonscan.KindOf(value) == jsonscan.String {
			return value
		}
		return nil
	}
}

func anyArguments(*jsonscan.Members) []byte { return []byte(`{"type":"object"}`) }

// isInteger accepts what is an integer by JSON Schema. Clients read larger numbers as infinity.
func isInteger(raw []byte) error {
	if n, err := strconv.ParseFloat(string(raw), 64); err != nil || n != math.Trunc(n) {
		return errors.New("expected an integer")
	}
	return nil
}

func isPriority(raw []byte) error {
	if n, err := strconv.ParseFloat(string(raw), 64); err != nil || n < 0 || n > 1 {
		return errors.New("expected a number from 0 to 1")
	}
	return nil
}

// isTime accepts a time of RFC 3339. The schema of MCP accepts any text, but clients do not.
func isTime(raw []byte) error {
	if _, err := time.Parse(time.RFC3339, jsonscan.Unquote(raw)); err != nil || bytes.IndexByte(raw, ',') >= 0 {
		return errors.New("expected a time as in RFC 3339")
	}
	return nil
}

// maxRepairs is how many changes of one entry are described.
const maxRepairs = 10

// A checker checks one entry.
type checker struct {
	repairs []string
	more    int // changes that repairs does not describe
}

func (c *checker) repaired(path, change string) {
	if len(c.repairs) == maxRepairs {
		c.more++
		return
	}
	c.repairs = append(c.repairs, path+" "+change)
}

// described returns the changes.
func (c *checker) described() []string {
	if c.more == 0 {
		return c.repairs
	}
	return append(c.repairs, fmt.Sprintf("%d more changes", c.more))
}

// removed records that a value was removed.
func (c *checker) removed(path string, reason error) {
	c.repaired(path, "was removed: "+reason.Error())
}

var errNull = errors.New("null is not a value")

// value returns raw or, if that can be repaired, a valid value in its place.
func (c *checker) value(path string, raw []byte, f *form) ([]byte, error) {
	if f.convert != nil {
		return f.convert(c, path, raw)
	}
	if kind := jsonscan.KindOf(raw); kind != f.kind {
		return nil, expected(f.kind.String(), raw)
	}
	switch {
	case f.rule != nil:
		return raw, f.rule(raw)
	case f.texts != nil:
		for _, text := range f.texts {
			if jsonscan.KeyIs(raw, text) {
				return raw, nil
			}
		}
		return nil, fmt.Errorf("expected one of %q, found %s", f.texts, jsonscan.Quote(jsonscan.Unquote(raw)))
	case f.elements != nil:
		return c.array(path, raw, f.elements)
	case f.members != nil:
		return c.object(path, raw, f.members)
	}
	return raw, nil
}

// expected returns the error of a value of the wrong kind.
func expected(what string, found []byte) error {
	return fmt.Errorf("expected %s, found %v", what, jsonscan.KindOf(found))
}

// object checks the members of an object.
func (c *checker) object(path string, raw []byte, members []memberForm) ([]byte, error) {
	object, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, err
	}
	var edits []jsonscan.Edit
	for _, m := range members {
		edit, err := c.member(join(path, m.name), &object, &m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		edits = append(edits, edit...)
	}
	if len(edits) == 0 {
		return raw, nil
	}
	return jsonscan.Splice(nil, raw, edits...)
}

// member checks one member. It returns how the object must be changed.
func (c *checker) member(path string, object *jsonscan.Members, m *memberForm) ([]jsonscan.Edit, error) {
	raw := object.Get(m.name)
	if raw == nil && !m.required {
		return nil, nil
	}
	if !jsonscan.IsPresent(raw) {
		return c.absent(path, raw, object, m)
	}
	valid, err := c.value(path, raw, m.form)
	switch {
	case err != nil && m.required:
		return nil, err
	case err != nil:
		c.removed(path, err)
		return []jsonscan.Edit{{Name: m.name}}, nil
	case bytes.Equal(valid, raw):
		return nil, nil
	}
	return []jsonscan.Edit{{Name: m.name, Value: valid}}, nil
}

// absent handles a member that is null, or required and absent.
func (c *checker) absent(path string, raw []byte, object *jsonscan.Members, m *memberForm) ([]jsonscan.Edit, error) {
	if !m.required {
		c.removed(path, errNull)
		return []jsonscan.Edit{{Name: m.name}}, nil
	}
	if m.missing != nil {
		if value := m.missing(object); value != nil {
			c.repaired(path, "was missing")
			return []jsonscan.Edit{{Name: m.name, Value: value}}, nil
		}
	}
	if raw == nil {
		return nil, errors.New("it is missing")
	}
	return nil, expected(m.form.kind.String(), raw)
}

// array removes the elements that are not valid.
func (c *checker) array(path string, raw []byte, f *form) ([]byte, error) {
	s := jsonscan.New(raw)
	if err := s.EnterArray(); err != nil {
		return nil, err
	}
	kept, changed := []byte{'['}, false
	for i := 0; ; i++ {
		more, err := s.Element(i == 0)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		element, err := s.Value()
		if err != nil {
			return nil, err
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		valid, err := c.value(at, element, f)
		changed = changed || !bytes.Equal(valid, element)
		if err != nil {
			c.removed(at, err)
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, valid...)
	}
	if !changed {
		return raw, nil
	}
	return append(kept, ']'), nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
