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

// A report converts errors of the general validator to violations with the texts of the walker.
type report struct {
	schema     []byte
	instance   []byte
	limit      int // the largest number of violations
	depth      int // the number of enclosing reports
	violations []Violation
	shared     *reportState
}

// A reportState is shared by a report and the reports inside it.
type reportState struct {
	described int  // errors
	cyclic    bool // a schema applied itself to the same value
}

// These limit the description of the alternatives of anyOf and oneOf, which can have as many errors
// as schema and instance allow.
const (
	maxAlternatives = 8
	maxReportDepth  = 3
	maxDescribed    = 256 // describing an error reads the schema and the instance again
)

func (r *report) add(e *jsonschema.ValidationError) {
	if len(r.violations) >= r.limit || r.shared.described >= maxDescribed {
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.RefCycle:
		r.shared.cyclic = true
		return
	case *kind.AnyOf:
		r.addAlternatives(e, "anyOf")
		return
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			r.addAlternatives(e, "oneOf")
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
	r.shared.described++
	for _, v := range r.describe(e) {
		if len(r.violations) < r.limit && !slices.ContainsFunc(r.violations, v.same) {
			r.violations = append(r.violations, v)
		}
	}
}

// addAlternatives adds a violation with the first violation of each alternative.
func (r *report) addAlternatives(e *jsonschema.ValidationError, keyword string) {
	r.shared.described++
	v := Violation{
		Pointer: pointerOf("", e.InstanceLocation...), Keyword: keyword,
		Expected: "a value that matches an alternative", Got: typedText(r.value(e)),
	}
	var alternatives []string
	for _, cause := range e.Causes[:min(len(e.Causes), maxAlternatives)] {
		if first, ok := r.first(cause); ok {
			first.Pointer = strings.TrimPrefix(first.Pointer, v.Pointer)
			alternatives = append(alternatives, first.clause())
		}
	}
	if len(alternatives) > 0 {
		v.Expected = "one of these: " + strings.Join(slices.Compact(alternatives), "; or ")
	}
	r.violations = append(r.violations, v)
}

// first returns the first violation of a cause.
func (r *report) first(cause *jsonschema.ValidationError) (Violation, bool) {
	if r.depth == maxReportDepth {
		return Violation{}, false
	}
	inner := report{schema: r.schema, instance: r.instance, limit: 1, depth: r.depth + 1, shared: r.shared}
	inner.add(cause)
	if len(inner.violations) == 0 {
		return Violation{}, false
	}
	return inner.violations[0], true
}

// clause returns a violation as part of the message of another.
func (v Violation) clause() string {
	if v.Pointer != "" {
		return v.String()
	}
	text := v.message()
	if v.Expected != "" && strings.HasPrefix(text, "expected ") {
		return v.Expected
	}
	return text
}

// value returns the part of the instance that an error is about.
func (r *report) value(e *jsonschema.ValidationError) []byte {
	return valueAt(r.instance, slices.Values(e.InstanceLocation))
}

// describe returns the violations of an error without its causes.
func (r *report) describe(e *jsonschema.ValidationError) []Violation {
	raw := r.value(e)
	v := Violation{Pointer: pointerOf("", e.InstanceLocation...), Got: literalText(raw)}
	if path := e.ErrorKind.KeywordPath(); len(path) > 0 {
		v.Keyword = path[0]
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		var types typeSet
		for _, name := range k.Want {
			types |= typeNamed(name)
		}
		v.Expected, v.Got = types.String(), typedText(raw)
	case *kind.FalseSchema:
		v.Keyword, v.Expected, v.Got = "false", "no value", typedText(raw)
	case *kind.Required:
		return r.missing(e, v, k.Missing)
	case *kind.Dependency:
		return r.missing(e, v, k.Missing)
	case *kind.DependentRequired:
		return r.missing(e, v, k.Missing)
	case *kind.AdditionalProperties:
		return r.unknown(e, v, k.Properties)
	case *kind.Format:
		v.Expected = "text in the format " + k.Want
	case *kind.Enum:
		v.Expected = decodedAlternatives(k.Want...)
	case *kind.Const:
		v.Expected = decodedAlternatives(k.Want)
	case *kind.Pattern:
		v.Expected = "text that matches " + k.Want
	case *kind.UniqueItems:
		v.Expected, v.Got = "items that all differ", fmt.Sprintf("equal items %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		v.Expected, v.Got = "no more items", plural(k.Count, "item")+" more"
	case *kind.Contains:
		v.Expected = "an item that matches the schema in contains"
	case *kind.PropertyNames:
		v.Pointer = pointerOf(v.Pointer, k.Property)
		v.Expected, v.Got = r.acceptedName(e), ""
	case *kind.Not:
		v.Keyword, v.Expected = "not", "a value that does not match the schema in not"
	case *kind.OneOf:
		v.Expected = fmt.Sprintf("a value that matches one alternative only, not both %d and %d", k.Subschemas[0], k.Subschemas[1])
	default:
		r.describeLimit(&v, e)
	}
	return []Violation{v}
}

// describeLimit describes an error about the size of a value, or one whose keyword is all that is known.
func (r *report) describeLimit(v *Violation, e *jsonschema.ValidationError) {
	switch k := e.ErrorKind.(type) {
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
		v.count("at least", k.Want, k.Got, "character")
	case *kind.MaxLength:
		v.count("at most", k.Want, k.Got, "character")
	case *kind.MinItems:
		v.count("at least", k.Want, k.Got, "item")
	case *kind.MaxItems:
		v.count("at most", k.Want, k.Got, "item")
	case *kind.MinProperties:
		v.count("at least", k.Want, k.Got, "member")
	case *kind.MaxProperties:
		v.count("at most", k.Want, k.Got, "member")
	case *kind.MinContains:
		v.Expected, v.Got = "at least "+plural(k.Want, "item")+" that match the schema in contains", strconv.Itoa(len(k.Got))
	case *kind.MaxContains:
		v.Expected, v.Got = "at most "+plural(k.Want, "item")+" that match the schema in contains", strconv.Itoa(len(k.Got))
	default:
		v.Expected = "a value that satisfies " + v.Keyword
	}
}

// acceptedName describes the names that propertyNames accepts.
func (r *report) acceptedName(e *jsonschema.ValidationError) string {
	if len(e.Causes) > 0 {
		if inner, ok := r.first(e.Causes[0]); ok {
			return "a name that is " + inner.Expected
		}
	}
	return "another name"
}

// keyword returns the value of a keyword of the schema at a URL. It returns nil for another document.
func (r *report) keyword(url, name string) []byte {
	fragment, ok := strings.CutPrefix(url, location+"#")
	if !ok {
		return nil
	}
	pointer, err := gourl.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	tokens, err := jsonscan.ParsePointer(pointer)
	if err != nil {
		return nil
	}
	value, _ := jsonscan.FindPointer(r.schema, append(tokens, name)...)
	return value
}

// accepted lists the members that the schema of an error accepts.
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

// limitText returns a number of the schema as the schema writes it.
func (r *report) limitText(e *jsonschema.ValidationError, n *big.Rat) string {
	if raw := r.keyword(e.SchemaURL, e.ErrorKind.KeywordPath()[0]); raw != nil {
		return string(raw)
	}
	digits, _ := n.FloatPrec()
	return n.FloatString(digits)
}

// missing returns a violation for each missing member.
func (r *report) missing(e *jsonschema.ValidationError, v Violation, names []string) []Violation {
	v.Keyword, v.Got, v.Accepted = "required", "", r.accepted(e)
	names = names[:min(len(names), maxViolations)]
	list := slices.Repeat([]Violation{v}, len(names))
	for i, name := range names {
		list[i].Expected = name
	}
	return list
}

// unknown returns a violation for each unknown member.
func (r *report) unknown(e *jsonschema.ValidationError, v Violation, names []string) []Violation {
	v.Expected, v.Got, v.Accepted = "a known member", "", r.accepted(e)
	slices.Sort(names)
	names = names[:min(len(names), maxViolations)]
	list := slices.Repeat([]Violation{v}, len(names))
	for i, name := range names {
		list[i].Pointer = pointerOf(v.Pointer, name)
	}
	return list
}

// count describes a wrong number of characters, items or members.
func (v *Violation) count(relation string, want, got int, noun string) {
	v.Expected, v.Got = relation+" "+plural(want, noun), plural(got, noun)
}

// decodedAlternatives joins decoded accepted values. Of arrays and objects messages show only the type.
func decodedAlternatives(values ...any) string {
	var texts [][]byte
	for _, value := range values[:min(len(values), maxListed+1)] {
		text, err := json.Marshal(value)
		if err != nil {
			panic(err) // the value was decoded from JSON
		}
		texts = append(texts, text)
	}
	return alternatives(texts)
}
