package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/cputest"
)

// TestConversionIsLinear checks that the time of converting a schema grows with its length, whatever it has many of.
func TestConversionIsLinear(t *testing.T) {
	const size = 1000
	join := func(n int, format string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = strings.ReplaceAll(format, "N", fmt.Sprint(i))
		}
		return strings.Join(parts, ",")
	}
	documents := make(map[int]*document)
	for _, n := range []int{size, 4 * size} {
		d, err := parseDocument([]byte(`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{},"components":{"schemas":{` +
			join(n, `"SN":{"type":"object","properties":{"x":{"type":"string"}}}`) + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		documents[n] = d
	}
	for name, format := range map[string]string{
		"references":                        `{"type":"object","properties":{%s}}|"pN":{"$ref":"#/components/schemas/SN"}`,
		"references to schemas of one name": `{"type":"object","properties":{%s}}|"pN":{"$ref":"#/components/schemas/SN/properties/x"}`,
		"required properties":               `{"type":"object","required":[%s]}|"pN"`,
		"omitted properties":                `{"type":"object","properties":{%s}}|"pN":{"readOnly":true}`,
	} {
		form, member, _ := strings.Cut(format, "|")
		schemas := make(map[int]json.RawMessage)
		for n := range documents {
			schemas[n] = fmt.Appendf(nil, form, join(n, member))
		}
		cputest.WantLinear(t, name, size, func(n int) {
			if _, err := newConverter(documents[n], false).convert(schemas[n]); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, form := range map[string]string{
		"properties of a body": `{"type":"object","properties":{%s}}`,
		"parts of a body":      `{"allOf":[{"type":"object","properties":{%s}}]}`,
	} {
		schemas := make(map[int]json.RawMessage)
		for n := range documents {
			schemas[n] = fmt.Appendf(nil, form, join(n, `"pN":{"type":"string"}`))
		}
		cputest.WantLinear(t, name, size, func(n int) {
			in := newInput(newConverter(documents[n], false))
			if err := in.addBody(&body{required: true}, schemas[n], ""); err != nil || len(in.names.list) != n {
				t.Fatal(len(in.names.list), err)
			}
		})
	}
}

// TestNamesOfDefinitions checks that schemas of one name get different names, whatever names others have.
func TestNamesOfDefinitions(t *testing.T) {
	c := &converter{names: make(map[string]string), pointers: make(map[string]string), bases: make(map[string]int)}
	for _, test := range []struct{ pointer, want string }{
		{"/a/x", "x"}, {"/b/x", "x_2"}, {"/c/x_3", "x_3"}, {"/d/x", "x_4"}, {"/a/x", "x"}, {"/e/x_3", "x_3_2"}, {"/f/x", "x_5"}, {"/d/x", "x_4"},
	} {
		if got := c.name(test.pointer); got != test.want {
			t.Errorf("%s is named %s, want %s", test.pointer, got, test.want)
		}
	}
}
