package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// MaxInlined is the default limit of [Inline], in bytes.
const MaxInlined = 16 << 10

// maxDepth is the number of schemas inside each other that [Inline] follows.
const maxDepth = 128

// maxAnchored is the limit of a schema whose targets are all in $defs, in bytes.
const maxAnchored = 1 << 20

// maxRead bounds the work of finding schemas that contain themselves and of merging keywords, in bytes.
const maxRead = 8 << 20

var (
	errTooLarge  = errors.New("toolschema: the schema is larger than its limit")
	errReference = errors.New("toolschema: a reference that cannot be resolved")
)

// Inline returns a schema whose references are replaced with what they refer to. A schema that contains itself is in
// $defs, and is referred to as #/$defs/Name; the root is there too, if it contains itself. So is each target if the
// result would have more than limit bytes, and each target that cannot be merged with the keywords beside its reference.
// At the root, such a target is in allOf. $defs and definitions that are not referred to are left out. The result
// accepts the same values as the schema. The error says that a reference has no target in the schema, or that the schema
// has anchors, an $id inside, or too many references, or an allOf at the root where the target would have to be.
func Inline(schema json.RawMessage, limit int) (json.RawMessage, error) {
	return Rewrite(schema, limit, nil)
}

// Rewrite is [Inline] with a function that changes each object that is a schema, after those inside it. It may be nil.
// A schema that has no references, and that the function does not change, keeps its bytes.
func Rewrite(schema json.RawMessage, limit int, each func(json.RawMessage) json.RawMessage) (json.RawMessage, error) {
	if text := string(schema); each == nil && !strings.Contains(text, "ref") && !strings.Contains(text, `\u`) {
		return schema, nil
	}
	in := inliner{root: schema, limit: limit, each: each}
	out, err := in.document()
	if errors.Is(err, errTooLarge) {
		in = inliner{root: schema, limit: maxAnchored, each: each, anchorsAll: true}
		out, err = in.document()
	}
	if err == nil && !in.found && !in.changed {
		return schema, nil
	}
	return out, err
}

// document returns the rewritten document.
func (in *inliner) document() (json.RawMessage, error) {
	in.keywords = map[string]map[string]bool{}
	in.names, in.taken, in.reaches, in.targets = map[string]string{}, map[string]int{}, map[string]bool{}, map[string]json.RawMessage{}
	in.readRoot()
	out, err := in.schema(nil, in.root, 0)
	if err != nil {
		return nil, err
	}
	var defs []byte
	for i := 0; i < len(in.anchored); i++ { //nolint:intrange // in.anchored grows
		pointer := in.anchored[i]
		target, err := in.target(pointer)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			defs = append(defs, ',')
		}
		defs = append(jsonscan.AppendString(defs, in.names[pointer]), ':')
		in.open = []string{pointer}
		if defs, err = in.schema(defs, target, 0); err != nil {
			return nil, err
		}
	}
	if len(defs) > 0 {
		if out, err = jsonscan.Splice(nil, out, jsonscan.Edit{Name: "$defs", Value: append(append([]byte{'{'}, defs...), '}')}); err != nil {
			return nil, err
		}
	}
	if in.found && len(out) > in.limit {
		return nil, errTooLarge
	}
	return out, nil
}

// An inliner rewrites one document.
type inliner struct {
	root       json.RawMessage
	limit      int
	each       func(json.RawMessage) json.RawMessage
	anchorsAll bool // each target is in $defs
	// onlyAnnotations: other keywords beside a reference have no meaning, as in draft-07 and before.
	onlyAnnotations bool
	written         int
	read            int                        // bytes that were read to find and merge targets
	keywords        map[string]map[string]bool // by pointer: the keywords of the target
	targets         map[string]json.RawMessage // by pointer
	taken           map[string]int             // the names in $defs, and the last number that was added to each
	reaches         map[string]bool            // by pointer: the target contains itself
	found           bool                       // there is a reference
	changed         bool                       // each has changed a schema
	open            []string                   // the pointers of the targets that are being written
	anchored        []string                   // the pointers of the targets in $defs
	names           map[string]string          // of anchored, in $defs
}

// schema appends a schema.
func (in *inliner) schema(dst []byte, raw json.RawMessage, depth int) ([]byte, error) {
	if in.written += len(raw); in.written > 16*in.limit || in.read > maxRead || depth > maxDepth {
		return nil, errTooLarge
	}
	if jsonscan.KindOf(raw) != jsonscan.Object {
		return append(dst, raw...), nil
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil {
		return nil, err
	}
	isRoot := depth == 0 && (len(in.open) == 0 || in.open[0] == "")
	for _, name := range []string{"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "$recursiveAnchor"} {
		if members.Get(name) != nil && !(isRoot && name == "$id") {
			return nil, errReference
		}
	}
	if ref := members.Get("$ref"); ref != nil && jsonscan.KindOf(ref) == jsonscan.String {
		return in.reference(dst, members, jsonscan.Unquote(ref), depth)
	}
	start := len(dst)
	dst = append(dst, '{')
	for m := range members.All() {
		if name := m.Name(); name == "$defs" || name == "definitions" || (name == "$id" || name == "$schema") && len(in.open) > 0 {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(dst, m.Key...), ':')
		if dst, err = in.keyword(dst, m.Name(), m.Value, depth); err != nil {
			return nil, err
		}
	}
	if dst = append(dst, '}'); in.each != nil {
		before := slices.Clone(dst[start:])
		after := in.each(before)
		in.changed = in.changed || !bytes.Equal(before, after)
		return append(dst[:start], after...), nil
	}
	return dst, nil
}

// keyword appends the value of a keyword.
func (in *inliner) keyword(dst []byte, name string, value json.RawMessage, depth int) (_ []byte, err error) {
	switch kind := jsonscan.KindOf(value); {
	case slices.Contains(schemaKeywords, name) && kind == jsonscan.Object:
		return in.schema(dst, value, depth+1)
	case slices.Contains(listKeywords, name) && kind == jsonscan.Array:
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return nil, err
		}
		dst = append(dst, '[')
		for i, item := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = in.schema(dst, item, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case slices.Contains(mapKeywords, name) && kind == jsonscan.Object:
		members, err := jsonscan.ReadObject(value)
		if err != nil {
			return nil, err
		}
		dst = append(dst, '{')
		for m := range members.All() {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(append(dst, m.Key...), ':')
			if dst, err = in.schema(dst, m.Value, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return append(dst, value...), nil
}

// The keywords that have schemas.
var (
	schemaKeywords = []string{
		"items", "additionalItems", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema",
	}
	listKeywords = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	mapKeywords  = []string{"properties", "patternProperties", "dependentSchemas", "dependencies"}
)

// annotations may be beside a reference. They replace those of its target.
var annotations = []string{"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"}

// dependent are groups of keywords whose meaning depends on the others of the group in the same schema. Keywords of one
// group cannot come from a reference and from its target.
var dependent = [][]string{
	{"properties", "patternProperties", "additionalProperties"},
	{"prefixItems", "items", "additionalItems"},
	{"contains", "minContains", "maxContains"},
	{"if", "then", "else"},
	{"contentEncoding", "contentMediaType", "contentSchema"},
}

// reference appends the target of a reference. It appends a reference to the definition of the target if the target
// contains itself, or cannot be merged with the keywords beside the reference.
func (in *inliner) reference(dst []byte, members jsonscan.Members, ref string, depth int) ([]byte, error) {
	in.found = true
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, errReference
	}
	target, err := in.target(fragment)
	if err != nil {
		return nil, err
	}
	siblings := in.siblings(members)
	isRoot := depth == 0 && len(in.open) == 0 // is never a reference: many programs want an object there
	merged, ok := target, false
	if isRoot || !in.anchorsAll && !in.isRecursive(fragment, target) {
		if merged, ok, err = in.withSiblings(fragment, target, siblings); err != nil {
			return nil, err
		}
	}
	switch {
	case ok:
	case isRoot:
		if merged = besideAllOf(target, siblings); merged == nil {
			return nil, errReference
		}
	default:
		dst = append(dst, `{"$ref":`...)
		dst = jsonscan.AppendString(dst, "#/$defs/"+in.name(fragment))
		for _, m := range siblings {
			dst = append(append(append(dst, ','), m.Key...), ':')
			if dst, err = in.keyword(dst, m.Name(), m.Value, depth); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	if len(in.open) > maxDepth {
		return nil, errReference // a loop of references
	}
	in.open = append(in.open, fragment)
	dst, err = in.schema(dst, merged, depth+1)
	in.open = in.open[:len(in.open)-1]
	if err != nil || !isRoot || jsonscan.KindOf(dst) != jsonscan.Object {
		return dst, err
	}
	return jsonscan.Splice(nil, dst,
		jsonscan.Edit{Name: "$schema", Value: members.Get("$schema")}, jsonscan.Edit{Name: "$id", Value: members.Get("$id")})
}

// siblings returns the keywords beside a reference that have a meaning for values. $schema and $id apply to the root.
func (in *inliner) siblings(members jsonscan.Members) (siblings []jsonscan.Member) {
	for m := range members.All() {
		switch name := m.Name(); {
		case name == "$ref", name == "$defs", name == "definitions", name == "$schema", name == "$id":
		case in.onlyAnnotations && !slices.Contains(annotations, name):
		default:
			siblings = append(siblings, m)
		}
	}
	return siblings
}

// withSiblings returns the target of a reference with the keywords beside it. ok is false if the target has one of
// them too, or one that it depends on. Annotations are replaced.
func (in *inliner) withSiblings(fragment string, target json.RawMessage, siblings []jsonscan.Member) (merged json.RawMessage, ok bool, err error) {
	if string(target) == "true" && len(siblings) > 0 {
		target = json.RawMessage("{}")
	}
	if len(siblings) == 0 || jsonscan.KindOf(target) != jsonscan.Object {
		return target, true, nil
	}
	has, err := in.keywordsOf(fragment, target)
	if err != nil {
		return nil, false, err
	}
	edits := make([]jsonscan.Edit, 0, len(siblings))
	for _, m := range siblings {
		name := m.Name()
		if !slices.Contains(annotations, name) && (has[name] || dependsOn(name, has)) {
			return nil, false, nil
		}
		edits = append(edits, jsonscan.Edit{Name: name, Value: m.Value})
	}
	if in.read += len(target); in.read > maxRead {
		return nil, false, errTooLarge
	}
	merged, err = jsonscan.Splice(nil, target, edits...)
	return merged, err == nil, nil // an error says that there are too many edits
}

// keywordsOf returns the keywords of a target. It reads the target once, however many references there are.
func (in *inliner) keywordsOf(fragment string, target json.RawMessage) (map[string]bool, error) {
	if has, ok := in.keywords[fragment]; ok {
		return has, nil
	}
	if in.read += len(target); in.read > maxRead {
		return nil, errTooLarge
	}
	members, err := jsonscan.ReadObject(target)
	if err != nil {
		return nil, err
	}
	has := make(map[string]bool, members.Len())
	for m := range members.All() {
		has[m.Name()] = true
	}
	in.keywords[fragment] = has
	return has, nil
}

// dependsOn reports whether a keyword would have another meaning, or give another keyword another one, in a schema that
// has these keywords.
func dependsOn(name string, has map[string]bool) bool {
	if has["$ref"] {
		return true
	}
	if has["unevaluatedProperties"] || has["unevaluatedItems"] { // they depend on all schemas beside them
		if slices.Contains(schemaKeywords, name) || slices.Contains(listKeywords, name) || slices.Contains(mapKeywords, name) {
			return true
		}
	}
	return slices.ContainsFunc(dependent, func(group []string) bool {
		return slices.Contains(group, name) && slices.ContainsFunc(group, func(other string) bool { return has[other] })
	})
}

// besideAllOf returns a schema with the keywords beside a reference, and its target in allOf. The type of the target is
// there too: many programs want one at the root. It returns nil if there is an allOf beside the reference.
func besideAllOf(target json.RawMessage, siblings []jsonscan.Member) json.RawMessage {
	out, hasType := []byte{'{'}, false
	for _, m := range siblings {
		if m.Name() == "allOf" {
			return nil
		}
		hasType = hasType || m.Name() == "type"
		out = append(append(append(append(out, m.Key...), ':'), m.Value...), ',')
	}
	if members, err := jsonscan.ReadObject(target); err == nil && !hasType && members.Get("type") != nil {
		out = append(append(append(out, `"type":`...), members.Get("type")...), ',')
	}
	return append(append(append(out, `"allOf":[`...), target...), "]}"...)
}

// target returns the schema at a JSON Pointer in the form of a fragment.
func (in *inliner) target(fragment string) (json.RawMessage, error) {
	if fragment == "" {
		return in.root, nil
	}
	if strings.Contains(fragment, "%") || !strings.HasPrefix(fragment, "/") {
		return nil, errReference
	}
	if target, ok := in.targets[fragment]; ok {
		return target, nil
	}
	if in.read += len(in.root); in.read > maxRead {
		return nil, errReference
	}
	tokens, err := jsonscan.ParsePointer(fragment)
	if err != nil {
		return nil, err
	}
	target, err := jsonscan.FindPointer(in.root, tokens...)
	if err == nil && target == nil {
		err = errReference
	}
	if err == nil {
		in.targets[fragment] = target
	}
	return target, err
}

// readRoot reads the dialect of the root. It adds the definitions of the root to targets, so that finding them does not
// read the root again.
func (in *inliner) readRoot() {
	root, err := jsonscan.ReadObject(in.root)
	if err != nil {
		return
	}
	if dialect := root.Get("$schema"); jsonscan.KindOf(dialect) == jsonscan.String {
		in.onlyAnnotations = strings.Contains(jsonscan.Unquote(dialect), "json-schema.org/draft-0")
	}
	for _, keyword := range []string{"$defs", "definitions"} {
		if defs, err := jsonscan.ReadObject(root.Get(keyword)); err == nil {
			for m := range defs.All() {
				in.targets[jsonscan.FormatPointer(keyword, m.Name())] = m.Value
			}
		}
	}
}

// isRecursive reports whether a target contains itself.
func (in *inliner) isRecursive(fragment string, target json.RawMessage) bool {
	if known, ok := in.reaches[fragment]; ok {
		return known
	}
	seen := map[string]bool{}
	var reaches func(raw json.RawMessage, depth int) bool
	reaches = func(raw json.RawMessage, depth int) bool {
		found := false
		in.references(raw, depth, func(ref string) {
			if found || ref == fragment {
				found = true
				return
			}
			if next, err := in.target(ref); err == nil && !seen[ref] {
				seen[ref] = true
				found = reaches(next, depth+1)
			}
		})
		return found
	}
	in.reaches[fragment] = reaches(target, 0)
	return in.reaches[fragment]
}

// references calls fn with the fragment of each reference in a schema.
func (in *inliner) references(raw json.RawMessage, depth int, fn func(fragment string)) {
	if in.read += len(raw); in.read > maxRead || depth > maxDepth || jsonscan.KindOf(raw) != jsonscan.Object {
		return
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil {
		return
	}
	for m := range members.All() {
		name, kind := m.Name(), jsonscan.KindOf(m.Value)
		switch {
		case name == "$ref" && kind == jsonscan.String:
			fn(strings.TrimPrefix(jsonscan.Unquote(m.Value), "#"))
		case slices.Contains(schemaKeywords, name) && kind == jsonscan.Object:
			in.references(m.Value, depth+1, fn)
		case slices.Contains(listKeywords, name) && kind == jsonscan.Array:
			var list []json.RawMessage
			if json.Unmarshal(m.Value, &list) == nil {
				for _, item := range list {
					in.references(item, depth+1, fn)
				}
			}
		case slices.Contains(mapKeywords, name) && kind == jsonscan.Object:
			if parts, err := jsonscan.ReadObject(m.Value); err == nil {
				for part := range parts.All() {
					in.references(part.Value, depth+1, fn)
				}
			}
		}
	}
}

// name returns the name in $defs of a target that contains itself.
func (in *inliner) name(fragment string) string {
	if name, ok := in.names[fragment]; ok {
		return name
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, fragment[strings.LastIndexByte(fragment, '/')+1:])
	if name == "" {
		name = "Root"
	}
	unique := name
	for in.taken[unique] > 0 {
		in.taken[name]++
		unique = name + "_" + strconv.Itoa(in.taken[name])
	}
	in.anchored = append(in.anchored, fragment)
	in.names[fragment], in.taken[unique] = unique, 1
	return unique
}
