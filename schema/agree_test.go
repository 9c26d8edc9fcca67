package schema_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/schema"
)

func TestValidatorsAgree(t *testing.T) {
	rounds := 5_000 // the complete run has FuzzValidatorsAgree for a minute
	if testing.Short() || racetest.Enabled {
		rounds = 2_000
	}
	fast := 0
	for seed := range rounds {
		g := generator{rand.New(rand.NewPCG(uint64(seed), 1))}
		if compareValidators(t, []byte(g.schema(3)), []byte(g.value(3))) {
			fast++
		}
		if t.Failed() {
			return
		}
	}
	if fast < rounds/2 {
		t.Errorf("only %d of %d schemas were compiled to nodes", fast, rounds)
	}
}

func FuzzValidatorsAgree(f *testing.F) {
	for seed := range uint64(64) {
		g := generator{rand.New(rand.NewPCG(seed, 2))}
		f.Add([]byte(g.schema(3)), []byte(g.value(3)))
	}
	f.Fuzz(func(t *testing.T, text, instance []byte) {
		compareValidators(t, text, instance)
	})
}

// compareValidators reports whether both validators accept the schema, and fails
// the test if they do not report the same violations.
func compareValidators(t *testing.T, text, instance []byte) bool {
	t.Helper()
	nodes, err := schema.Compile(text, nil)
	if err != nil || schema.IsGeneral(nodes) {
		return false
	}
	general, err := schema.CompileGeneral(text)
	if err != nil {
		return false // the metaschema is stricter about annotations
	}
	want, got := general.Validate(t.Context(), instance), nodes.Validate(t.Context(), instance)
	var budget *schema.BudgetError
	if errors.As(want, &budget) || errors.As(got, &budget) {
		return true
	}
	// The general validator stops at a wrong type, before it follows $ref.
	// Of duplicate members it gets only one.
	if got != nil && strings.Contains(got.Error(), "given twice") {
		if want == nil {
			t.Errorf("schema %s\ninstance %s\ngeneral accepts, nodes:\n%v", text, instance, got)
		}
		return true
	}
	missing := slices.DeleteFunc(lines(want), func(line string) bool { return slices.Contains(lines(got), line) })
	if (want == nil) != (got == nil) || len(missing) > 0 && len(lines(got)) < schema.MaxViolations {
		t.Errorf("schema %s\ninstance %s\ngeneral:\n%v\nnodes:\n%v", text, instance, want, got)
	}
	return true
}

// lines returns the violations.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// A generator makes random schemas, and random instances with the same names and values.
type generator struct{ *rand.Rand }

func (g generator) pick(options ...string) string { return options[g.IntN(len(options))] }

func (g generator) name() string {
	return g.pick(`"a"`, `"b"`, `"c"`, `"a"`, `"\u0061"`, `"é~/"`, `""`)
}

func (g generator) number() string {
	return g.pick("0", "1", "-1", "2", "7", "10", "1.0", "1e1", "0.5", "-0.5", "2.5e-1", "100", "1e2", "-0", "-0.0",
		"9007199254740993", "9007199254740992", "1e30", "1e-30", "123456789012345678901234567890")
}

func (g generator) text() string {
	return g.pick(`"a"`, `""`, `"ab"`, `"abc"`, `"é"`, `"\u00e9"`, `"\ud83d\ude00"`, `"x\ny"`, `"😀😀"`)
}

func (g generator) value(depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	switch g.IntN(kinds) {
	case 0:
		return g.pick("null", "true", "false")
	case 1, 2:
		return g.number()
	case 3:
		return g.text()
	case 4:
		return "[" + g.many(func() string { return g.value(depth - 1) }) + "]"
	default:
		return "{" + g.many(func() string { return g.name() + ":" + g.value(depth-1) }) + "}"
	}
}

func (g generator) many(one func() string) string {
	var list []string
	for range g.IntN(4) {
		list = append(list, one())
	}
	return strings.Join(list, ",")
}

func (g generator) schema(depth int) string {
	if g.IntN(12) == 0 {
		return g.pick("true", "false", "{}")
	}
	used := map[string]bool{}
	var keywords []string
	for range 1 + g.IntN(4) {
		keyword, value := g.keyword(depth)
		if !used[keyword] {
			used[keyword] = true
			keywords = append(keywords, `"`+keyword+`":`+value)
		}
	}
	if depth == 3 {
		keywords = append(keywords, `"$defs":{"d":`+g.schema(2)+`}`)
	}
	return "{" + strings.Join(keywords, ",") + "}"
}

func (g generator) keyword(depth int) (keyword, value string) {
	sub := func() string { return g.schema(depth - 1) }
	kinds := 21
	if depth <= 0 {
		kinds = 13
	}
	count := fmt.Sprint(g.IntN(4))
	switch g.IntN(kinds) {
	case 0, 1, 2:
		return "type", g.pick(`"null"`, `"boolean"`, `"integer"`, `"number"`, `"string"`, `"array"`, `"object"`, `["string","integer"]`, `["null","object"]`, `["integer","number"]`)
	case 3:
		return "enum", "[" + g.value(1) + "," + g.value(1) + "]"
	case 4:
		return "const", g.value(1)
	case 5:
		return g.pick("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), g.number()
	case 6:
		return "multipleOf", g.pick("1", "2", "0.5", "0.01", "3", "1e2", "1e-2")
	case 7:
		return g.pick("minLength", "maxLength"), g.pick(count, "2.0")
	case 8:
		return "pattern", g.pick(`"a"`, `"^.$"`, `"^[a-z]+$"`)
	case 9:
		return g.pick("minItems", "maxItems"), count
	case 10:
		return "uniqueItems", "true"
	case 11:
		return g.pick("minProperties", "maxProperties"), count
	case 12:
		return "required", g.pick(`["a"]`, `["b","c"]`, `[]`, `["é~/"]`)
	case 13, 14:
		return "properties", `{"a":` + sub() + `,"b":` + sub() + `}`
	case 15:
		return "additionalProperties", sub()
	case 16, 17:
		return "items", sub()
	case 18:
		return "patternProperties", `{"^[ab]$":` + sub() + `,"b":` + sub() + `}`
	case 19:
		return "prefixItems", "[" + sub() + "," + sub() + "]"
	default:
		return "$ref", g.pick(`"#/$defs/d"`, `"#/$defs/d"`, `"#"`)
	}
}
