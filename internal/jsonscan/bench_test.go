package jsonscan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

func proseOf(size int, sentence string) string {
	return strings.Repeat(sentence, size/len(sentence)+1)
}

const (
	english = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. "
	russian = "Съешь же ещё этих мягких французских булок, да выпей чаю. "
	code    = "if err != nil {\n\treturn fmt.Errorf(\"reading: %w\", err)\n}\n"
)

func recordsOf(n int) []byte {
	b := []byte{'['}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":%d,"name":"record %d","price":%d.5,"tags":["a","b"],"active":true,"note":null}`, i, i, i)
	}
	return append(b, ']')
}

// toolsOf is text as lists of tools have it: short names, short values.
func toolsOf(n int) []byte {
	const schema = `{"type":"object","properties":{"query_%[1]d":{"type":"string"},"tags_%[1]d":{"type":"array","items":{"type":"string"}}},` +
		`"required":["query_%[1]d"],"additionalProperties":false}`
	b := []byte{'['}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"name":"tool_%d","description":"One of many.","inputSchema":`+schema+`,"outputSchema":`+schema+`}`, i)
	}
	return append(b, ']')
}

func BenchmarkValid(b *testing.B) {
	for _, input := range []struct {
		name string
		data []byte
	}{
		{"prose", jsonscan.AppendString(nil, proseOf(100_000, english))},
		{"russian", jsonscan.AppendString(nil, proseOf(100_000, russian))},
		{"code", jsonscan.AppendString(nil, proseOf(100_000, code))},
		{"records", recordsOf(1000)},
		{"tools", toolsOf(1000)},
		{"nested", []byte(strings.Repeat("[", 1000) + strings.Repeat("]", 1000))},
	} {
		b.Run(input.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(input.data)))
			for b.Loop() {
				if err := jsonscan.Valid(input.data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendString(b *testing.B) {
	for _, input := range []struct{ name, sentence string }{
		{"prose", english}, {"russian", russian}, {"code", code},
	} {
		b.Run(input.name, func(b *testing.B) {
			text := proseOf(100_000, input.sentence)
			buf := make([]byte, 0, 2*len(text))
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				buf = jsonscan.AppendString(buf[:0], text)
			}
		})
	}
}

func BenchmarkUnquote(b *testing.B) {
	for _, input := range []struct{ name, sentence string }{
		{"prose", english}, {"code", code},
	} {
		b.Run(input.name, func(b *testing.B) {
			raw := jsonscan.AppendString(nil, proseOf(100_000, input.sentence))
			buf := make([]byte, 0, len(raw))
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				buf = jsonscan.AppendUnquoted(buf[:0], raw)
			}
		})
	}
}

func BenchmarkReadObject(b *testing.B) {
	data := []byte(`{"name":"echo","arguments":{"message":"hi"},"_meta":{"progressToken":1}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := jsonscan.ReadObject(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSplice(b *testing.B) {
	data := []byte(`{"name":"echo","arguments":{"message":"hi"},"_meta":{"progressToken":1}}`)
	buf := make([]byte, 0, 2*len(data))
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		var err error
		buf, err = jsonscan.Splice(buf[:0], data, jsonscan.Edit{Name: "name", Value: []byte(`"other"`)})
		if err != nil {
			b.Fatal(err)
		}
	}
}
