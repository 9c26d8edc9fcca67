package schema_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/schema"
)

const (
	twoFields     = `{"query":"hello","limit":20}`
	twoSchema     = `{"type":"object","properties":{"query":{"type":"string","minLength":1},"limit":{"type":"integer","minimum":1,"maximum":100}},"required":["query"],"additionalProperties":false}`
	nestedSchema  = `{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":80},"email":{"type":"string","pattern":"^[^@]+@[^@]+$"},"age":{"type":"integer","minimum":0},"active":{"type":"boolean"},"role":{"enum":["admin","user"]},"tags":{"type":"array","items":{"type":"string"}},"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"},"zip":{"type":"string"}},"required":["city"],"additionalProperties":false}},"required":["id","name"],"additionalProperties":false}`
	nestedRecord  = `{"id":9007199254740993,"name":"Ada Lovelace","email":"ada@example.com","age":36,"active":true,"role":"admin","tags":["maths","engines"],"address":{"street":"St James's Square","city":"London","zip":"SW1"}}`
	recordsSchema = `{"type":"array","items":` + nestedSchema + `}`
)

func hundredRecords() string { return "[" + strings.Repeat(nestedRecord+",", 99) + nestedRecord + "]" }

var cases = []struct{ name, schema, instance string }{
	{"fields=2", twoSchema, twoFields},
	{"fields=10", nestedSchema, nestedRecord},
	{"records=100", recordsSchema, hundredRecords()},
}

func BenchmarkValidate(b *testing.B) {
	for _, c := range cases {
		nodes := compile(b, c.schema)
		general, err := schema.CompileGeneral([]byte(c.schema))
		if err != nil {
			b.Fatal(err)
		}
		for _, v := range []struct {
			name      string
			validator *schema.Validator
		}{{"nodes", nodes}, {"general", general}} {
			b.Run(c.name+"/"+v.name, func(b *testing.B) {
				instance := []byte(c.instance)
				b.ReportAllocs()
				b.SetBytes(int64(len(instance)))
				for b.Loop() {
					if err := v.validator.Validate(b.Context(), instance); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, c := range cases[:2] {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schema.Compile(json.RawMessage(c.schema), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	d, err := schema.NewDecoder[search](nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, raw := range map[string]string{"complete": twoFields, "default": `{"query":"hello"}`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(b.Context(), json.RawMessage(raw)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// structOf returns a struct type with n fields, each of a struct type of its own.
func structOf(n int) reflect.Type {
	fields := make([]reflect.StructField, n)
	for i := range fields {
		inner := reflect.StructOf([]reflect.StructField{
			{Name: "Name", Type: reflect.TypeFor[string](), Tag: reflect.StructTag(fmt.Sprintf(`json:"n%d" jsonschema:"minLength=1"`, i))},
			{Name: "Count", Type: reflect.TypeFor[int](), Tag: `json:"count,omitempty"`},
		})
		fields[i] = reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: inner}
	}
	return reflect.StructOf(fields)
}

func BenchmarkFor(b *testing.B) {
	b.Run("fields=2", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := schema.For[search](); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 100, 1000} {
		t := structOf(n)
		b.Run(fmt.Sprintf("types=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schema.ForType(t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	racetest.Skip(t)
	for _, c := range cases {
		v := compile(t, c.schema)
		if n := testing.AllocsPerRun(100, func() { _ = v.Validate(t.Context(), []byte(c.instance)) }); n > 1 { // the conversion
			t.Errorf("%s: validating allocates %v times", c.name, n)
		}
	}
	instance := []byte(twoFields)
	v := compile(t, twoSchema)
	if n := testing.AllocsPerRun(100, func() { _ = v.Validate(t.Context(), instance) }); n > 0 {
		t.Errorf("validating two fields allocates %v times", n)
	}
	d, err := schema.NewDecoder[search](nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = d.Decode(t.Context(), instance) }); n > 3 {
		t.Errorf("decoding two fields allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = schema.Compile(json.RawMessage(twoSchema), nil) }); n > 38 {
		t.Errorf("compiling two fields allocates %v times", n)
	}
}
