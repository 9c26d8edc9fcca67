package schema_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/schema"
)

// TestLibraryAgrees compares the verdicts about generated schemas of all keywords with the verdicts of the
// library that the general validator uses, called without anything around it.
func TestLibraryAgrees(t *testing.T) {
	rounds := 1_500
	if testing.Short() || racetest.Enabled {
		rounds = 500
	}
	general, invalid := 0, 0
	for seed := range rounds {
		g := fullGenerator{generator{rand.New(rand.NewPCG(uint64(seed), 3))}, seed%2 == 0}
		text := g.document()
		for range 4 {
			isGeneral, valid, ok := compareLibrary(t, []byte(text), []byte(g.value(3)))
			if ok && isGeneral {
				general++
			}
			if ok && !valid {
				invalid++
			}
		}
		if t.Failed() {
			return
		}
	}
	if general < rounds || invalid < rounds/2 || invalid > 7*rounds/2 {
		t.Errorf("of %d instances, %d were for the general validator and %d invalid", 4*rounds, general, invalid)
	}
}

func FuzzLibraryAgrees(f *testing.F) {
	for seed := range uint64(64) {
		g := fullGenerator{generator{rand.New(rand.NewPCG(seed, 4))}, seed%2 == 0}
		f.Add([]byte(g.document()), []byte(g.value(3)))
	}
	f.Fuzz(func(t *testing.T, text, instance []byte) {
		if len(text) < 4096 && len(instance) < 4096 {
			compareLibrary(t, text, instance)
		}
	})
}

// compareLibrary fails the test if the library has another verdict. ok is false if one of them cannot
// use the schema or the instance.
func compareLibrary(t *testing.T, text, instance []byte) (isGeneral, valid, ok bool) {
	t.Helper()
	v, err := schema.Compile(text, &schema.CompileOptions{MaxWork: 10_000_000})
	if err != nil {
		return false, false, false
	}
	err = v.Validate(t.Context(), instance)
	_, isBudget := errors.AsType[*schema.BudgetError](err)
	if isBudget || err != nil && (strings.Contains(err.Error(), "given twice") || strings.Contains(err.Error(), "invalid JSON")) {
		return false, false, false
	}
	library, value := libraryValidator(text), decoded(instance)
	if library == nil {
		return false, false, false // the metaschema is stricter about annotations
	}
	if libraryErr := library.Validate(value); (libraryErr == nil) != (err == nil) {
		t.Errorf("schema %s\ninstance %s\nlibrary:\n%v\nhere:\n%v", text, instance, libraryErr, err)
	}
	isGeneral = schema.IsGeneral(v)
	if isGeneral && schema.Verdict(v, instance) != (err == nil) {
		t.Errorf("schema %s\ninstance %s\nwithout descriptions the verdict is not: %v", text, instance, err)
	}
	return isGeneral, err == nil, true
}

// libraryValidator returns nil for a schema that the library does not accept. Its formats are no
// assertions.
func libraryValidator(text []byte) *jsonschema.Schema {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(bytes.ReplaceAll(text, []byte(`"format"`), []byte(`"x-format"`))))
	if err != nil {
		return nil
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if compiler.AddResource("mem:///reference", document) != nil {
		return nil
	}
	compiled, err := compiler.Compile("mem:///reference")
	if err != nil {
		return nil
	}
	return compiled
}

func decoded(instance []byte) any {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(instance))
	if err != nil {
		return nil
	}
	return value
}

// A fullGenerator makes random schemas of all keywords of a dialect.
type fullGenerator struct {
	generator
	draft07 bool
}

func (g fullGenerator) document() string {
	dialect, definitions := "https://json-schema.org/draft/2020-12/schema", "$defs"
	if g.draft07 {
		dialect, definitions = "http://json-schema.org/draft-07/schema#", "definitions"
	}
	body := strings.TrimPrefix(strings.TrimSuffix(g.object(3), "}"), "{")
	anchor := ""
	if !g.draft07 {
		anchor = `"$dynamicAnchor":"n",`
	}
	return fmt.Sprintf(`{"$schema":%q,%s,%q:{"d":%s,"e":%s}}`, dialect, anchor+body, definitions, g.full(2), g.full(1))
}

func (g fullGenerator) full(depth int) string {
	if g.IntN(10) == 0 {
		return g.pick("true", "false", "{}")
	}
	return g.object(depth)
}

func (g fullGenerator) object(depth int) string {
	used := map[string]bool{}
	var keywords []string
	for range 1 + g.IntN(4) {
		keyword, value := g.keyword(depth)
		if depth > 0 && g.IntN(2) == 0 {
			keyword, value = g.applicator(depth)
		}
		if g.draft07 && keyword == "prefixItems" || keyword == "$ref" && strings.Contains(value, `"#"`) {
			keyword, value = "$comment", `""`
		}
		if !used[keyword] {
			used[keyword] = true
			keywords = append(keywords, fmt.Sprintf("%q:%s", keyword, value))
		}
	}
	return "{" + strings.ReplaceAll(strings.Join(keywords, ","), `"$ref":"#/$defs/d"`, g.reference()) + "}"
}

func (g fullGenerator) reference() string {
	if g.draft07 {
		return `"$ref":"#/definitions/e"`
	}
	return `"$ref":"#/$defs/e"`
}

// applicator returns a keyword that the nodes do not have.
func (g fullGenerator) applicator(depth int) (keyword, value string) {
	sub := func() string { return g.full(depth - 1) }
	list := func() string { return "[" + sub() + "," + sub() + "]" }
	count := fmt.Sprint(g.IntN(3))
	switch g.IntN(16) {
	case 0:
		return "allOf", list()
	case 1:
		return "anyOf", list()
	case 2:
		return "oneOf", list()
	case 3:
		return "not", sub()
	case 4:
		return g.pick("if", "then", "else"), sub()
	case 5:
		return "contains", sub()
	case 6:
		return "propertyNames", sub()
	case 7:
		return "format", g.pick(`"date-time"`, `"email"`, `"regex"`, `"uri"`, `"ipv4"`, `"json-pointer"`, `"other"`)
	case 8:
		return g.pick("contentEncoding", "contentMediaType"), g.pick(`"base64"`, `"application/json"`)
	case 9:
		return "$ref", `"#/$defs/d"`
	}
	if g.draft07 {
		switch g.IntN(4) {
		case 0:
			return "items", list()
		case 1:
			return "additionalItems", sub()
		case 2:
			return "dependencies", `{"a":["b"],"b":` + sub() + `}`
		default:
			return "items", sub()
		}
	}
	switch g.IntN(7) {
	case 0:
		return g.pick("minContains", "maxContains"), count
	case 1:
		return "dependentRequired", `{"a":["b"],"b":["a","c"]}`
	case 2:
		return "dependentSchemas", `{"a":` + sub() + `}`
	case 3:
		return "unevaluatedProperties", sub()
	case 4:
		return "unevaluatedItems", sub()
	case 5:
		return "prefixItems", list()
	default:
		return "items", `{"$dynamicRef":"#n"}`
	}
}
