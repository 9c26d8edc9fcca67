package uritemplate_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

var matchBudgets = []struct {
	name, text, uri string
	allocs          float64
}{
	{"no match", "file:///logs/{day}", "file:///data/2026", 0},
	{"segment", "file:///logs/{day}", "file:///logs/2026-07-28", 1},
	{"path and query", "/repos/{owner}/{repo}/{+path}{?ref,line}", "/repos/dovetail/go/a/b/c.go?line=7&ref=main", 1},
	{"encoded", "/notes/{title}", "/notes/caf%C3%A9%20menu", 4},
}

func TestMatchAllocations(t *testing.T) {
	for _, b := range matchBudgets {
		m := matcher(t, b.text)
		if got := testing.AllocsPerRun(100, func() { m.Match(b.uri) }); got > b.allocs {
			t.Errorf("%s: %v allocations, budget %v", b.name, got, b.allocs)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, bb := range matchBudgets {
		m := matcher(b, bb.text)
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.Match(bb.uri)
			}
		})
	}
}

func BenchmarkMatchHard(b *testing.B) {
	for _, h := range hardMatches {
		m, uri := matcher(b, h.template()), h.uri(uritemplate.MaxURI)
		b.Run(h.name, func(b *testing.B) {
			b.SetBytes(int64(len(uri)))
			b.ReportAllocs()
			for b.Loop() {
				m.Match(uri)
			}
		})
	}
}

func BenchmarkExpand(b *testing.B) {
	template := parse(b, "/repos/{owner}/{repo}/{+path}{?ref,line}")
	values := map[string]uritemplate.Value{
		"owner": uritemplate.String("dovetail"),
		"repo":  uritemplate.String("go"),
		"path":  uritemplate.String("a/b/c.go"),
		"line":  uritemplate.String("7"),
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := template.Expand(values); err != nil {
			b.Fatal(err)
		}
	}
}
