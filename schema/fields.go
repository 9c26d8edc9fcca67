package schema

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A structInfo describes the JSON object of a struct type.
type structInfo struct {
	fields []*field
	others reflect.Type // the type of members without a field; nil if there are none
}

// A field is a member of a JSON object and the struct field behind it.
type field struct {
	name        string
	typ         reflect.Type
	path        string // for messages
	index       []int
	named       bool
	required    bool
	orNull      bool // may be null
	stringified bool // a number that is encoded as a string
	description string
	tag         []tagItem
	extras      string // the tag jsonschema_extras
}

// newStructInfo returns the fields of a struct type by the rules of github.com/go-json-experiment/json:
// breadth first through embedded structs, where the shallowest field of a name wins.
func newStructInfo(root reflect.Type, path string, mode mode) (*structInfo, error) {
	type embedded struct {
		typ     reflect.Type
		index   []int
		path    string
		pointer bool
	}
	info := &structInfo{}
	seen := map[reflect.Type]bool{root: true}
	queue := []embedded{{typ: root, path: path}}
	for len(queue) > 0 {
		level := queue[0]
		queue = queue[1:]
		for i := range level.typ.NumField() {
			sf := level.typ.Field(i)
			index := append(slices.Clone(level.index), i)
			f, embeds, err := parseField(sf, level.path+"."+sf.Name, mode)
			if err != nil {
				return nil, err
			}
			if f == nil {
				continue
			}
			applyMethods(f, sf.Name, level.typ)
			switch {
			case !embeds:
				f.index, f.orNull = index, mode.output && f.orNull
				f.required = f.required && !(mode.output && level.pointer)
				info.fields = append(info.fields, f)
			case deref(f.typ).Kind() == reflect.Struct:
				if t := deref(f.typ); !seen[t] {
					seen[t] = true
					queue = append(queue, embedded{t, index, f.path, level.pointer || f.typ.Kind() == reflect.Pointer})
				}
			case f.typ == reflect.TypeFor[jsontext.Value]():
				info.others = reflect.TypeFor[any]()
			case deref(f.typ).Kind() == reflect.Map:
				info.others = deref(f.typ).Elem()
			default:
				return nil, &TypeError{Path: f.path, Reason: "an embedded " + f.typ.String() + " needs a JSON name: only structs and maps can be flattened"}
			}
		}
	}
	info.fields = dominant(info.fields)
	return info, nil
}

// dominant returns the fields that are encoded, at most one for each name, in the order of encoding.
func dominant(all []*field) []*field {
	slices.SortFunc(all, func(a, b *field) int {
		named := 0
		if a.named != b.named {
			named = 1
			if a.named {
				named = -1
			}
		}
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(len(a.index), len(b.index)), named)
	})
	kept := all[:0:0]
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].name == all[0].name {
			n++
		}
		if n == 1 || len(all[0].index) != len(all[1].index) || all[0].named != all[1].named {
			kept = append(kept, all[0])
		}
		all = all[n:]
	}
	slices.SortFunc(kept, func(a, b *field) int { return slices.Compare(a.index, b.index) })
	return kept
}

// parseField reads the tags of a struct field. It returns nil for a field that is not encoded. embeds
// reports whether the members of the field become members of the object.
func parseField(sf reflect.StructField, path string, mode mode) (f *field, embeds bool, err error) {
	encoded, hasTag := sf.Tag.Lookup("json")
	if encoded == "-" || !sf.IsExported() && !sf.Anonymous || sf.Tag.Get("jsonschema") == "-" {
		return nil, false, nil
	}
	f = &field{name: sf.Name, typ: sf.Type, path: path, required: true}
	name, options := splitName(encoded)
	if hasTag && name != "" {
		f.name, f.named = name, true
	}
	embeds = sf.Anonymous && !f.named
	if sf.Type.Kind() == reflect.Pointer {
		f.required, f.orNull = false, true
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			f.required, f.orNull = false, false
		case "string":
			f.stringified = true
		case "embed":
			embeds = true
		}
	}
	if f.stringified && !isNumber(sf.Type) {
		return nil, false, &TypeError{Path: path, Reason: "the json option string is for numbers, not for " + sf.Type.String()}
	}
	text, items, err := parseTag(sf.Tag.Get("jsonschema"), path)
	f.tag, f.extras = items, sf.Tag.Get("jsonschema_extras")
	f.description = cmp.Or(text, sf.Tag.Get("jsonschema_description"), sf.Tag.Get("description"))
	if mode.requiredByTag {
		f.required = requiredByRule(sf.Tag)
	}
	for _, item := range f.tag {
		switch item.keyword {
		case "default":
			f.required = false
		case "required":
			f.required = true
			return f, embeds, err
		}
	}
	return f, embeds, err
}

// requiredByRule reports whether a tag of github.com/go-playground/validator, which Gin and swag read too, has
// the rule required.
func requiredByRule(tag reflect.StructTag) bool {
	for _, key := range []string{"validate", "binding"} {
		rules := strings.Split(tag.Get(key), ",")
		if i := slices.Index(rules, "dive"); i >= 0 {
			rules = rules[:i] // the others are for items
		}
		if slices.Contains(rules, "required") {
			return true
		}
	}
	return false
}

// splitName splits a json tag into the name, which may be in single quotes, and the options.
func splitName(tag string) (name, options string) {
	if quoted, ok := strings.CutPrefix(tag, "'"); ok {
		if name, options, ok := strings.Cut(quoted, "'"); ok {
			return name, strings.TrimPrefix(options, ",")
		}
	}
	name, options, _ = strings.Cut(tag, ",")
	return name, options
}

func isNumber(t reflect.Type) bool {
	t = deref(t)
	kind := t.Kind()
	return t == reflect.TypeFor[json.Number]() || kind >= reflect.Int && kind <= reflect.Float64 // integers, unsigned integers and floats
}

// applyMethods applies the methods of a struct that describe its fields, as the library does.
func applyMethods(f *field, goName string, of reflect.Type) {
	zero := reflect.Zero(of).Interface()
	if docs, ok := zero.(fieldDocs); ok {
		f.description = cmp.Or(f.description, docs.GetFieldDocString(goName))
	}
	if aliases, ok := zero.(fieldAlias); ok {
		if alias := aliases.JSONSchemaProperty(f.name); alias != nil {
			f.typ = reflect.TypeOf(alias)
		}
	}
}
