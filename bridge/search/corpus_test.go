package search

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kljensen/snowball/english"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// wantRecall is the least recall at 3 for the queries of a model, and personRecall for the words of
// a person.
const (
	wantRecall   = 0.92
	personRecall = 0.75
)

// A request is a line of testdata/github/queries.tsv.
type request struct {
	person, model string   // the words of a person, and the query of a model
	accepted      []string // the tools that fulfil the request
}

func lines(tb testing.TB, name string) (lines []string) {
	tb.Helper()
	file, err := os.Open("testdata/github/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		lines = append(lines, scanner.Text())
	}
	if scanner.Err() != nil {
		tb.Fatal(scanner.Err())
	}
	return lines
}

func corpus(tb testing.TB) (tools []*server.Entry, requests []request) {
	tb.Helper()
	for _, line := range lines(tb, "tools.jsonl") {
		var tool struct{ Name string }
		if err := json.Unmarshal([]byte(line), &tool); err != nil {
			tb.Fatal(err)
		}
		tools = append(tools, &server.Entry{Target: mcp.Target{Kind: mcp.KindTool, Name: tool.Name, Definition: mcp.NewDefinition(json.RawMessage(line))}})
	}
	for _, line := range lines(tb, "queries.tsv") {
		parts := strings.Split(line, "\t")
		r := request{parts[0], parts[1], strings.Fields(parts[2])}
		for _, name := range r.accepted {
			if !slices.ContainsFunc(tools, func(e *server.Entry) bool { return e.Name == name }) {
				tb.Errorf("%q accepts %s, which is not in the corpus", r.model, name)
			}
		}
		requests = append(requests, r)
	}
	if len(tools) != 115 || len(requests) != 49 {
		tb.Fatalf("the corpus has %d tools and %d requests", len(tools), len(requests))
	}
	return tools, requests
}

// A quality says how often an accepted tool is among the first 1, 3 and 5, and the mean of 1/rank.
type quality struct{ at1, at3, at5, mrr float64 }

func (q quality) String() string {
	return fmt.Sprintf("%.2f | %.2f | %.2f | %.2f", q.at1, q.at3, q.at5, q.mrr)
}

// measure ranks with a function that returns the numbers of tools, the best first.
func measure(tools []*server.Entry, requests []request, text func(request) string, rank func(query string) []int32) (q quality) {
	for _, r := range requests {
		at := slices.IndexFunc(rank(text(r)), func(tool int32) bool { return slices.Contains(r.accepted, tools[tool].Name) })
		if at < 0 {
			continue
		}
		for limit, hits := range map[int]*float64{1: &q.at1, 3: &q.at3, 5: &q.at5} {
			if at < limit {
				*hits += 1 / float64(len(requests))
			}
		}
		q.mrr += 1 / float64((at+1)*len(requests))
	}
	return q
}

// ours ranks with the index of this package.
func ours(tools []*server.Entry) func(string) []int32 {
	x := newIndex(tools)
	return func(text string) []int32 {
		return x.search(Query{Text: text, Limit: maxLimit}, func(int32) bool { return true })
	}
}

// allText returns the words that the index has of a tool as one text.
func allText(tool *server.Entry) string {
	var d struct {
		Name, Description string
		Annotations       struct{ Title string }
		InputSchema       struct {
			Properties map[string]struct {
				Description string
				Enum        []any
			}
		}
	}
	if err := json.Unmarshal(tool.Definition.JSON(), &d); err != nil {
		panic(err)
	}
	text := d.Name + " " + d.Annotations.Title + " " + d.Description
	for name, p := range d.InputSchema.Properties {
		text += " " + name + " " + p.Description + " " + fmt.Sprint(p.Enum...)
	}
	return text
}

// substrings ranks by the number of words of the query that occur anywhere in a tool.
func substrings(tools []*server.Entry) func(string) []int32 {
	var texts []string
	for _, tool := range tools {
		texts = append(texts, strings.ToLower(allText(tool)))
	}
	return func(query string) []int32 {
		scores := make([]float64, len(tools))
		for i, text := range texts {
			for word := range words(query) {
				if strings.Contains(text, word) {
					scores[i]++
				}
			}
		}
		return byScore(scores)
	}
}

// plain ranks by BM25 over the whole text of a tool, with the words that split returns.
func plain(tools []*server.Entry, split func(string) []string) func(string) []int32 {
	var counts []map[string]float64
	var lengths []float64
	var total float64
	having := make(map[string]float64)
	for _, tool := range tools {
		count := make(map[string]float64)
		all := split(allText(tool))
		for _, word := range all {
			if count[word]++; count[word] == 1 {
				having[word]++
			}
		}
		counts, lengths, total = append(counts, count), append(lengths, float64(len(all))), total+float64(len(all))
	}
	return func(query string) []int32 {
		scores := make([]float64, len(tools))
		wanted := split(query)
		slices.Sort(wanted)
		for _, word := range slices.Compact(wanted) {
			rarity := math.Log1p((float64(len(tools)) - having[word] + 0.5) / (having[word] + 0.5))
			for i, count := range counts {
				length := lengths[i] / (total / float64(len(tools)))
				scores[i] += rarity * count[word] * (saturation + 1) / (count[word] + saturation*(1-normalization+normalization*length))
			}
		}
		return byScore(scores)
	}
}

// byScore returns the numbers of the tools with a score, the best first.
func byScore(scores []float64) (tools []int32) {
	for i, score := range scores {
		if score > 0 {
			tools = append(tools, int32(i))
		}
	}
	slices.SortStableFunc(tools, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	return tools
}

func stems(text string) (stems []string) {
	for word := range words(text) {
		if !english.IsStopWord(word) {
			stems = append(stems, stemOf(word))
		}
	}
	return stems
}

// TestRecall measures the ranking on a public corpus. The page docs/search.md has the results.
func TestRecall(t *testing.T) {
	tools, requests := corpus(t)
	model := func(r request) string { return r.model }
	person := func(r request) string { return r.person }
	var heldOut []request
	for i := 1; i < len(requests); i += 2 {
		heldOut = append(heldOut, requests[i])
	}
	rank := ours(tools)
	page, err := os.ReadFile("../../docs/search.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name     string
		requests []request
		rank     func(string) []int32
	}{
		{"substrings", requests, substrings(tools)},
		{"BM25 over the whole text", requests, plain(tools, func(text string) []string { return slices.Collect(words(text)) })},
		{"BM25 over stems, without stop words", requests, plain(tools, stems)},
		{"`bridge/search`", requests, rank},
		{"`bridge/search`, held out", heldOut, rank},
	} {
		row := fmt.Sprintf("| %s | %v | %v |", test.name, measure(tools, test.requests, model, test.rank), measure(tools, test.requests, person, test.rank))
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/search.md does not have the row\n%s", row)
		}
	}
	for _, part := range [][]request{requests, heldOut} {
		if got := measure(tools, part, model, rank).at3; got < wantRecall {
			t.Errorf("recall at 3 of %d queries of a model is %.3f, want at least %v", len(part), got, wantRecall)
		}
	}
	if got := measure(tools, requests, person, rank).at3; got < personRecall {
		t.Errorf("recall at 3 for the words of a person is %.3f, want at least %v", got, personRecall)
	}
}

// TestIndexIsBuiltOnce: all searches of a catalog share one index.
func TestIndexIsBuiltOnce(t *testing.T) {
	tools, _ := corpus(t)
	catalog := server.NewCatalog(tools, nil)
	first := indexOf(catalog)
	if indexOf(catalog) != first {
		t.Error("the second search has another index")
	}
	if indexOf(server.NewCatalog(tools[1:], nil)) == first {
		t.Error("two catalogs have one index")
	}
}

// BenchmarkCorpus reports the median and the 99th percentile of the time of a query, in ns.
func BenchmarkCorpus(b *testing.B) {
	tools, requests := corpus(b)
	for _, n := range []int{115, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rank := ours(copies(tools, n))
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				rank(requests[i%len(requests)].person)
				times = append(times, time.Since(began))
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2]), "p50-ns")
			b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
		})
	}
}

// BenchmarkIndex builds the index of the corpus.
func BenchmarkIndex(b *testing.B) {
	tools, _ := corpus(b)
	for _, n := range []int{115, 1000} {
		many := copies(tools, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				newIndex(many)
			}
		})
	}
}

// copies returns n tools: copies of the tools of the corpus, under the names of as many servers as necessary.
func copies(tools []*server.Entry, n int) []*server.Entry {
	var many []*server.Entry
	for i := range n {
		e := *tools[i%len(tools)]
		e.Name = fmt.Sprintf("server%d__%s", i/len(tools), e.Name)
		definition, err := jsonscan.Splice(nil, e.Definition.JSON(), jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, e.Name)})
		if err != nil {
			panic(err)
		}
		e.Definition = mcp.NewDefinition(definition)
		many = append(many, &e)
	}
	return many
}
