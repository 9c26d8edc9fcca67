package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// Parse reads a policy from JSON: an object with the optional members allow, deny,
// role_overrides, strict, rules and exempt. Unknown and duplicate members, texts longer
// than 1 MiB, and what [Compile] would refuse are errors. The error is a *[ParseError].
func Parse(data []byte) (*Policy, error) {
	p := new(Policy)
	err := read(data, func(r *reader) error { return r.policy(p) })
	if err == nil {
		_, err = Compile(p)
	}
	if refused, ok := errors.AsType[*CompileError](err); ok {
		r := newReader(data)
		err = r.errorAt(r.find(elements(refused.Path)), refused.Path+": "+refused.Message)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// UnmarshalJSON reads a policy as [Parse] does.
func (p *Policy) UnmarshalJSON(data []byte) error {
	read, err := Parse(data)
	if err != nil {
		return err
	}
	*p = *read
	return nil
}

func parseLists(data []byte) (l listsJSON, err error) {
	err = read(data, func(r *reader) error {
		return r.object(fields{"allow": arrayOf(r, &l.Allow, r.texts), "deny": r.texts(&l.Deny)})
	})
	return l, err
}

func (r *reader) policy(p *Policy) error {
	return r.object(fields{
		"allow":          r.texts(&p.Allow),
		"deny":           r.texts(&p.Deny),
		"role_overrides": r.overrides(&p.Roles),
		"strict":         r.bool(&p.Strict),
		"rules":          arrayOf(r, &p.Rules, r.rule),
		"exempt":         arrayOf(r, &p.Exempt, r.exemption),
	})
}

func (r *reader) overrides(into *map[string]RoleOverride) func() error {
	return func() error {
		*into = make(map[string]RoleOverride)
		return r.members(func(role string, _ int) error {
			var o RoleOverride
			err := r.object(fields{"allow": r.texts(&o.Allow), "deny": r.texts(&o.Deny), "mode": text(r, &o.Mode)})
			(*into)[role] = o
			return err
		})
	}
}

func (r *reader) exemption(into *Exemption) func() error {
	return func() error { return r.object(fields{"server": r.text(&into.Server), "tool": r.text(&into.Tool)}) }
}

func (r *reader) rule(into *Rule) func() error {
	return func() error {
		start, hasEffect := r.start(), false
		known := r.match(&into.Match)
		known["name"] = r.text(&into.Name)
		known["reason"] = r.text(&into.Reason)
		known["effect"] = func() error {
			hasEffect = true
			return r.enum(func(name string) error { return into.Effect.UnmarshalText([]byte(name)) })
		}
		known["unless"] = arrayOf(r, &into.Unless, func(m *Match) func() error {
			return func() error { return r.object(r.match(m)) }
		})
		if err := r.object(known); err != nil {
			return err
		}
		if !hasEffect {
			return r.errorAt(start, "expected an effect: allow, deny or ask")
		}
		return nil
	}
}

func (r *reader) kind(into *mcp.Kind) func() error {
	return func() error {
		return r.enum(func(name string) error {
			if into.UnmarshalText([]byte(name)) != nil {
				return fmt.Errorf("expected tool, prompt, resource, resource template or skill, found %.60q", name)
			}
			return nil
		})
	}
}

// enum reads a string with parse, and adds the position to its error.
func (r *reader) enum(parse func(text string) error) error {
	start := r.start()
	raw, err := r.scan.String()
	if err != nil {
		return err
	}
	if err := parse(jsonscan.Unquote(raw)); err != nil {
		return r.errorAt(start, err.Error())
	}
	return nil
}

func (r *reader) match(m *Match) fields {
	return fields{
		"kinds":      arrayOf(r, &m.Kinds, r.kind),
		"servers":    r.texts(&m.Servers),
		"names":      r.texts(&m.Names),
		"exposed":    r.texts(&m.Exposed),
		"tags":       r.texts(&m.Tags),
		"roles":      r.texts(&m.Roles),
		"principals": r.texts(&m.Principals),
		"arguments":  arrayOf(r, &m.Arguments, r.argument),
		"annotations": func() error {
			m.Annotations = new(Annotations)
			return r.annotations(m.Annotations)
		},
	}
}

func (r *reader) annotations(a *Annotations) error {
	return r.object(fields{
		"readOnlyHint":    r.optionalBool(&a.ReadOnly),
		"destructiveHint": r.optionalBool(&a.Destructive),
		"idempotentHint":  r.optionalBool(&a.Idempotent),
		"openWorldHint":   r.optionalBool(&a.OpenWorld),
	})
}

func (r *reader) argument(a *Argument) func() error {
	return func() error {
		start, hasPath := r.start(), false
		err := r.object(fields{
			"path": func() error {
				hasPath = true
				return r.text(&a.Path)()
			},
			"present": r.optionalBool(&a.Present),
			"equals":  r.raw(&a.Equals),
			"glob":    r.texts(&a.Glob),
			"prefix":  r.texts(&a.Prefix),
			"min":     r.number(&a.Min),
			"max":     r.number(&a.Max),
		})
		if err == nil && !hasPath {
			err = r.errorAt(start, "expected a path")
		}
		return err
	}
}

// A ParseError reports a text that is not a valid policy.
type ParseError struct {
	// Line and Column are the position, from 1; columns count bytes.
	Line, Column int
	// Message says what was expected.
	Message string
}

// Error returns the position and the message.
func (e *ParseError) Error() string {
	return fmt.Sprintf("policy: line %d, column %d: %s", e.Line, e.Column, e.Message)
}

// A reader reads JSON strictly: it refuses unknown members.
type reader struct {
	data []byte
	scan jsonscan.Scanner
}

// fields maps the names of members to the functions that read their values.
type fields map[string]func() error

// read reads a text that consists of one value.
func read(data []byte, value func(r *reader) error) error {
	if len(data) > maxSize {
		return &ParseError{1, 1, fmt.Sprintf("expected at most %d bytes, found %d", maxSize, len(data))}
	}
	r := newReader(data)
	err := value(r)
	if err == nil {
		err = r.scan.End()
	}
	if wrong, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		return r.errorAt(wrong.Offset, wrong.Message)
	}
	if wrong, ok := errors.AsType[*jsonscan.DuplicateError](err); ok {
		return r.errorAt(wrong.Offset, wrong.Error())
	}
	return err
}

func newReader(data []byte) *reader { return &reader{data, jsonscan.NewUnique(data)} }

func (r *reader) errorAt(offset int, message string) error {
	before := r.data[:min(offset, len(r.data))]
	line := bytes.LastIndexByte(before, '\n') + 1
	return &ParseError{bytes.Count(before, []byte{'\n'}) + 1, len(before) - line + 1, message}
}

// start returns the offset of the next value.
func (r *reader) start() int {
	rest := r.data[r.scan.Offset():]
	return len(r.data) - len(bytes.TrimLeft(rest, " \t\r\n"))
}

// find returns the offset of the value that the names of members and the indexes lead to from the next value, or of the last
// one on the way. The text has been read before, so it is valid.
func (r *reader) find(path []string) (offset int) {
	offset = r.start()
	if len(path) == 0 {
		return offset
	}
	visit := func(name string) error {
		if name == path[0] {
			offset = r.find(path[1:])
			return errFound
		}
		_, err := r.scan.Value()
		return err
	}
	switch r.scan.Kind() {
	case jsonscan.Object:
		_ = r.members(func(name string, _ int) error { return visit(name) })
	case jsonscan.Array:
		i := -1
		_ = r.array(func() error {
			i++
			return visit(strconv.Itoa(i))
		})
	}
	return offset
}

var errFound = errors.New("found")

// elements returns the names of members and the indexes in a path of a [CompileError].
func elements(path string) (list []string) {
	for path = "." + path; path != ""; {
		if quoted, err := strconv.QuotedPrefix(path[1:]); err == nil {
			name, _ := strconv.Unquote(quoted) // it is a quoted prefix
			list, path = append(list, name), path[len("[")+len(quoted)+len("]"):]
			continue
		}
		name := path[1:]
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name = name[:end]
		}
		list, path = append(list, strings.TrimSuffix(name, "]")), path[1+len(name):]
	}
	return list
}

func (r *reader) object(known fields) error {
	return r.members(func(name string, offset int) error {
		field, ok := known[name]
		if !ok {
			return r.errorAt(offset, fmt.Sprintf("unknown member %s: expected one of %s",
				jsonscan.Quote(name), strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		}
		return field()
	})
}

func (r *reader) members(member func(name string, offset int) error) error {
	if err := r.scan.EnterObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, ok, err := r.scan.Member(first)
		if err != nil || !ok {
			return err
		}
		offset := r.scan.KeyOffset()
		if err := member(jsonscan.Unquote(key), offset); err != nil {
			return err
		}
	}
}

func (r *reader) array(element func() error) error {
	if err := r.scan.EnterArray(); err != nil {
		return err
	}
	for first := true; ; first = false {
		ok, err := r.scan.Element(first)
		if err != nil || !ok {
			return err
		}
		if err := element(); err != nil {
			return err
		}
	}
}

func text[T ~string](r *reader, into *T) func() error {
	return func() error {
		raw, err := r.scan.String()
		if err == nil {
			*into = T(jsonscan.Unquote(raw))
		}
		return err
	}
}

func (r *reader) text(into *string) func() error { return text(r, into) }

// arrayOf reads an array. The slice is not nil, even if the array is empty.
func arrayOf[T any](r *reader, into *[]T, element func(into *T) func() error) func() error {
	return func() error {
		*into = []T{}
		return r.array(func() error {
			var value T
			err := element(&value)()
			*into = append(*into, value)
			return err
		})
	}
}

func (r *reader) texts(into *[]string) func() error { return arrayOf(r, into, r.text) }

func (r *reader) bool(into *bool) func() error {
	return func() error {
		start := r.start()
		raw, err := r.scan.Value()
		if err != nil {
			return err
		}
		if kind := jsonscan.KindOf(raw); kind != jsonscan.Bool {
			return r.errorAt(start, fmt.Sprintf("expected true or false, found %v", kind))
		}
		*into = raw[0] == 't'
		return nil
	}
}

func (r *reader) optionalBool(into **bool) func() error {
	return func() error {
		*into = new(bool)
		return r.bool(*into)()
	}
}

func (r *reader) number(into *json.Number) func() error {
	return func() error {
		raw, err := r.scan.Number()
		*into = json.Number(raw)
		return err
	}
}

func (r *reader) raw(into *json.RawMessage) func() error {
	return func() error {
		raw, err := r.scan.Value()
		*into = bytes.Clone(raw)
		return err
	}
}
