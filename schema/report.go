package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	gourl "net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A report puts what the general validator says into violations, in the words
// of the walk.
type report struct {
	schema     []byte
	instance   []byte
	limit      int // of violations
	depth      int // of reports inside reports
	violations []Violation
	endless    bool // a schema came back to itself on one value
	described  *int // errors, those of inner reports included
}

// What a violation says of the alternatives that a value may follow is bounded:
// the errors below it can be as many as the schema and the instance allow.
const (
	maxAlternatives = 8
	maxReportDepth  = 3
	maxDescribed    = 256 // each reads the schema and the instance once more
)

func (r *report) add(e *jsonschema.ValidationError) {
	if len(r.violations) >= r.limit || *r.described >= maxDescribed {
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.RefCycle:
		r.endless = true
		return
	case *kind.AnyOf:
		r.alternatives(e, "anyOf")
		return
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			r.alternatives(e, "oneOf")
			return
		}
	case *kind.Contains, *kind.MinContains, *kind.PropertyNames:
	default:
		if len(e.Causes) > 0 {
			for _, cause := range e.Causes {
				r.add(cause)
			}
			return
		}
	}
	*r.described++
	for _, v := range r.describe(e) {
		if len(r.violations) < r.limit && !slices.ContainsFunc(r.violations, v.same) {
			r.violations = append(r.violations, v)
		}
	}
}

// alternatives tells what each of the alternatives wants.
func (r *report) alternatives(e *jsonschema.ValidationError, keyword string) {
	*r.described++
	at := pointerTo(e.InstanceLocation)
	var wants []string
	for _, cause := range e.Causes[:min(len(e.Causes), maxAlternatives)] {
		if v, ok := r.first(cause); ok {
			v.Pointer = strings.TrimPrefix(v.Pointer, at)
			wants = append(wants, v.clause())
		}
	}
	v := Violation{Pointer: at, Keyword: keyword, Expected: "a value that matches an alternative", Got: typedText(r.at(e.InstanceLocation))}
	if len(wants) > 0 {
		v.Expected = "one of these: " + strings.Join(slices.Compact(wants), "; or ")
	}
	r.violations = append(r.violations, v)
}

// first describes the first violation below a cause.
func (r *report) first(cause *jsonschema.ValidationError) (Violation, bool) {
	if r.depth == maxReportDepth {
		return Violation{}, false
	}
	inner := report{schema: r.schema, instance: r.instance, limit: 1, depth: r.depth + 1, described: r.described}
	inner.add(cause)
	r.endless = r.endless || inner.endless
	if len(inner.violations) == 0 {
		return Violation{}, false
	}
	return inner.violations[0], true
}

// clause is a violation as part of another.
func (v Violation) clause() string {
	text := v.words()
	if v.Pointer == "" && v.Expected != "" && strings.HasPrefix(text, "expected ") {
		return v.Expected
	}
	if v.Pointer == "" {
		return text
	}
	return v.String()
}

// at returns the part of the instance that a location names.
func (r *report) at(steps []string) []byte { return valueAt(r.instance, pointerTo(steps)) }

func (r *report) describe(e *jsonschema.ValidationError) []Violation {
	raw := r.at(e.InstanceLocation)
	v := Violation{Pointer: pointerTo(e.InstanceLocation), Got: literalText(raw)}
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		v.Keyword = path[0]
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		var types typeSet
		for _, name := range k.Want {
			t, _ := typeNamed(name)
			types |= t
		}
		v.Expected, v.Got = types.String(), typedText(raw)
	case *kind.FalseSchema:
		v.Keyword, v.Expected, v.Got = "false", "no value", typedText(raw)
	case *kind.Required:
		v.Accepted = r.accepted(e)
		return missing(v, k.Missing)
	case *kind.Dependency:
		v.Accepted = r.accepted(e)
		return missing(v, k.Missing)
	case *kind.DependentRequired:
		v.Accepted = r.accepted(e)
		return missing(v, k.Missing)
	case *kind.AdditionalProperties:
		v.Accepted = r.accepted(e)
		return unknown(v, k.Properties)
	case *kind.Format:
		v.Expected = "text in the format " + k.Want
	case *kind.Enum:
		v.Expected = anyAlternatives(k.Want)
	case *kind.Const:
		v.Expected = anyAlternatives([]any{k.Want})
	case *kind.Minimum:
		v.Expected = "at least " + r.limitText(e, k.Want)
	case *kind.Maximum:
		v.Expected = "at most " + r.limitText(e, k.Want)
	case *kind.ExclusiveMinimum:
		v.Expected = "more than " + r.limitText(e, k.Want)
	case *kind.ExclusiveMaximum:
		v.Expected = "less than " + r.limitText(e, k.Want)
	case *kind.MultipleOf:
		v.Expected = "a multiple of " + r.limitText(e, k.Want)
	case *kind.MinLength:
		v.Expected, v.Got = "at least "+plural(k.Want, "character"), plural(k.Got, "character")
	case *kind.MaxLength:
		v.Expected, v.Got = "at most "+plural(k.Want, "character"), plural(k.Got, "character")
	case *kind.MinItems:
		v.Expected, v.Got = "at least "+plural(k.Want, "item"), plural(k.Got, "item")
	case *kind.MaxItems:
		v.Expected, v.Got = "at most "+plural(k.Want, "item"), plural(k.Got, "item")
	case *kind.MinProperties:
		v.Expected, v.Got = "at least "+plural(k.Want, "member"), plural(k.Got, "member")
	case *kind.MaxProperties:
		v.Expected, v.Got = "at most "+plural(k.Want, "member"), plural(k.Got, "member")
	case *kind.Pattern:
		v.Expected = "text that matches " + k.Want
	case *kind.UniqueItems:
		v.Expected, v.Got = "items that all differ", fmt.Sprintf("equal items %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		v.Expected, v.Got = "no more items", plural(k.Count, "item")+" more"
	case *kind.Contains:
		v.Expected = "an item that matches the schema in contains"
	case *kind.MinContains:
		v.Expected, v.Got = "at least "+plural(k.Want, "item")+" that match the schema in contains", strconv.Itoa(len(k.Got))
	case *kind.MaxContains:
		v.Expected, v.Got = "at most "+plural(k.Want, "item")+" that match the schema in contains", strconv.Itoa(len(k.Got))
	case *kind.PropertyNames:
		v.Pointer += "/" + escapeStep(k.Property)
		v.Expected, v.Got = "another name", ""
		if len(e.Causes) > 0 {
			if inner, ok := r.first(e.Causes[0]); ok {
				v.Expected = "a name that is " + inner.Expected
			}
		}
	case *kind.Not:
		v.Keyword, v.Expected = "not", "a value that does not match the schema in not"
	case *kind.OneOf:
		v.Expected = fmt.Sprintf("a value that matches one alternative only, not both %d and %d", k.Subschemas[0], k.Subschemas[1])
	default:
		v.Expected = "a value that satisfies " + v.Keyword
	}
	return []Violation{v}
}

// keyword returns the value of a keyword of the schema at a URL, nil if it is in
// another document.
func (r *report) keyword(url, name string) []byte {
	fragment, ok := strings.CutPrefix(url, location+"#")
	if !ok {
		return nil
	}
	pointer, err := gourl.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	schema := r.schema
	for _, step := range append(strings.Split(pointer, "/")[1:], name) {
		schema = child(schema, step)
	}
	return schema
}

// accepted lists the members that the schema of a violation knows.
func (r *report) accepted(e *jsonschema.ValidationError) []string {
	members, err := jsonscan.ReadObject(r.keyword(e.SchemaURL, "properties"))
	if err != nil {
		return nil
	}
	var names []string
	for member := range members.All() {
		if len(names) < maxListed && string(member.Value) != "false" {
			names = append(names, member.Name())
		}
	}
	return names
}

// limitText is a number of the schema as the schema writes it.
func (r *report) limitText(e *jsonschema.ValidationError, n *big.Rat) string {
	if raw := r.keyword(e.SchemaURL, e.ErrorKind.KeywordPath()[0]); raw != nil {
		return string(raw)
	}
	digits, _ := n.FloatPrec()
	return n.FloatString(digits)
}

func missing(v Violation, names []string) []Violation {
	v.Keyword, v.Got = "required", ""
	list := make([]Violation, len(names))
	for i, name := range names {
		list[i] = v
		list[i].Expected = name
	}
	return list
}

// unknown makes a violation of each unknown member.
func unknown(v Violation, names []string) []Violation {
	slices.Sort(names)
	list := make([]Violation, len(names))
	for i, name := range names {
		list[i] = v
		list[i].Pointer += "/" + escapeStep(name)
		list[i].Expected, list[i].Got = "a known member", ""
	}
	return list
}

func anyAlternatives(values []any) string {
	var raw [][]byte
	for _, value := range values {
		raw = append(raw, textOf(value))
	}
	return alternatives(raw)
}

// textOfAll writes a decoded value as JSON.
func textOfAll(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil { // it was decoded from JSON
		panic(err)
	}
	return text
}

// textOf writes a decoded value as far as messages show it.
func textOf(value any) []byte {
	switch value := value.(type) {
	case nil:
		return []byte("null")
	case bool:
		return strconv.AppendBool(nil, value)
	case string:
		return jsonscan.AppendString(nil, value)
	case []any:
		return []byte("[]")
	case map[string]any:
		return []byte("{}")
	default:
		return fmt.Append(nil, value)
	}
}
