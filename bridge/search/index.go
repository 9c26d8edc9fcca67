package search

import (
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kljensen/snowball/english"

	"github.com/dovetail-go/dovetail/bridge/internal/twotools"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The usual parameters of BM25 (k1 and b): the saturation of repeated words, and the influence
// of the length of a field.
const (
	saturation    = 1.2
	normalization = 0.75
)

// The fields of a definition.
const (
	inName = iota
	inTitle
	inDescription
	inArguments // names, descriptions and enumerated values
	fields
)

// A term that begins with a word of the query of at least minBegin bytes counts less than the word,
// such as configuration for config.
const (
	begins   = 0.75
	minBegin = 4
)

// An index has the words of the tools of a catalog, which are numbered in the order of the
// catalog. It is immutable.
type index struct {
	entries []*server.Entry
	tools   map[string]int32  // by name
	stems   map[string]string // of the words of all tools
	terms   []*term           // sorted by their stems
}

// A term is a stem and the tools that have a word with it.
type term struct {
	stem     string
	counts   []count // until the weights are known
	postings []posting
}

// A count is how often a tool has a term in each field.
type count struct {
	tool   int32
	fields [fields]uint16 // at most maxIndexed
}

// A posting is the weight of a term in a tool.
type posting struct {
	tool   int32
	weight float32
}

// indexOf returns the index of a catalog. The first call builds it.
func indexOf(c *server.Catalog) *index {
	type key struct{}
	return c.Memo(key{}, func() any { return newIndex(slices.Collect(c.All(mcp.KindTool))) }).(*index)
}

func newIndex(tools []*server.Entry) *index {
	tools = firstTools(tools, twotools.MaxFound)
	x := &index{entries: tools, tools: make(map[string]int32, len(tools)), stems: make(map[string]string)}
	terms := make(map[string]*term)
	lengths := make([][fields]float64, len(tools))
	for i, tool := range tools {
		x.tools[tool.Name] = int32(i)
		w := writer{index: x, terms: terms, tool: int32(i), left: maxIndexed}
		w.writeTool(tool)
		lengths[i] = w.lengths
	}
	x.terms = slices.SortedFunc(maps.Values(terms), func(a, b *term) int { return strings.Compare(a.stem, b.stem) })
	x.weigh(lengths)
	return x
}

// firstTools returns at most n tools. If there are more, each server has an equal share, so that a server with many
// tools does not hide the tools of other servers.
func firstTools(tools []*server.Entry, n int) []*server.Entry {
	if len(tools) <= n {
		return tools
	}
	left := make(map[string]int)
	for _, tool := range tools {
		left[tool.Origin.Server]++
	}
	sizes := slices.Sorted(maps.Values(left))
	share, rest := 0, n
	for i, size := range sizes { // the unused part of a small server's share is for the larger servers
		share = rest / (len(sizes) - i)
		rest -= min(size, share)
	}
	var chosen []*server.Entry
	taken := make(map[string]int)
	for _, tool := range tools {
		if taken[tool.Origin.Server]++; taken[tool.Origin.Server] <= share {
			chosen = append(chosen, tool)
		}
	}
	return chosen[:min(len(chosen), n)] // shares are rounded
}

// weigh converts counts to weights by BM25F. Each field of a tool has a weight and a length. A term that few tools have
// counts more.
func (x *index) weigh(lengths [][fields]float64) {
	weights := [fields]float64{inName: 5, inTitle: 2, inDescription: 1, inArguments: 0.1}
	tools := float64(len(lengths))
	var averages [fields]float64
	for _, length := range lengths {
		for f := range fields {
			averages[f] += length[f] / tools
		}
	}
	for _, t := range x.terms {
		n := float64(len(t.counts))
		rarity := math.Log1p((tools - n + 0.5) / (n + 0.5))
		t.postings = make([]posting, len(t.counts))
		for i, c := range t.counts {
			var sum float64
			for f, count := range c.fields {
				if count > 0 {
					length := lengths[c.tool][f] / averages[f]
					sum += weights[f] * float64(count) / (1 - normalization + normalization*length)
				}
			}
			t.postings[i] = posting{c.tool, float32(rarity * sum * (saturation + 1) / (sum + saturation))}
		}
		t.counts = nil
	}
}

// search returns the best visible tools, the best first.
func (x *index) search(q Query, visible func(tool int32) bool) []int32 {
	scores, any := x.score(q.Text)
	best := ranking{limit: q.Limit}
	for i, score := range scores {
		if any && score == 0 || !strings.HasPrefix(x.entries[i].Name, q.Prefix) || !visible(int32(i)) {
			continue
		}
		best.add(int32(i), score)
	}
	return best.tools
}

// score returns the score of each tool for a text. any is false if the text has no words.
func (x *index) score(text string) (scores []float32, any bool) {
	scores = make([]float32, len(x.entries))
	counted := make([]int32, len(x.entries)) // the last word that counts for a tool, from 1
	wanted := x.wanted(text)
	for i, stem := range wanted {
		for t := range x.begin(stem) {
			var weight float32 = 1
			if t.stem != stem {
				weight = begins
			}
			for _, p := range t.postings {
				if counted[p.tool] != int32(i+1) { // the word itself counts before longer words with this prefix
					counted[p.tool] = int32(i + 1)
					scores[p.tool] += weight * p.weight
				}
			}
		}
	}
	if tool, ok := x.tools[text]; ok {
		scores[tool] = math.MaxFloat32
	}
	return scores, len(wanted) > 0
}

// begin ranges over the term of a stem and a few terms that begin with it.
func (x *index) begin(stem string) iter.Seq[*term] {
	return func(yield func(*term) bool) {
		first, _ := slices.BinarySearchFunc(x.terms, stem, func(t *term, stem string) int { return strings.Compare(t.stem, stem) })
		for _, t := range x.terms[first:min(first+maxBegin, len(x.terms))] {
			if t.stem != stem && (len(stem) < minBegin || !strings.HasPrefix(t.stem, stem)) || !yield(t) {
				return
			}
		}
	}
}

// wanted returns the sorted stems of the words of a query. Stop words count only if there are no
// other words.
func (x *index) wanted(text string) []string {
	stems, stops := make([]string, 0, 16), make([]string, 0, 16)
	for word := range words(text) {
		stem, ok := x.stems[word]
		if !ok {
			stem = stemOf(word)
		}
		if english.IsStopWord(word) {
			stops = append(stops, stem)
		} else {
			stems = append(stems, stem)
		}
	}
	if len(stems) == 0 {
		stems = stops
	}
	slices.Sort(stems)
	return slices.Compact(stems)
}

// A ranking has the best tools. Of two with the same score the first is better.
type ranking struct {
	limit  int
	tools  []int32
	scores []float32
}

func (r *ranking) add(tool int32, score float32) {
	at := len(r.tools)
	for at > 0 && r.scores[at-1] < score {
		at--
	}
	if at == r.limit {
		return
	}
	if last := r.limit - 1; len(r.tools) > last {
		r.tools, r.scores = r.tools[:last], r.scores[:last]
	}
	r.tools, r.scores = slices.Insert(r.tools, at, tool), slices.Insert(r.scores, at, score)
}

// A writer adds the words of one tool to an index.
type writer struct {
	*index
	terms   map[string]*term
	tool    int32
	lengths [fields]float64
	left    int // words that may be added
}

func (w *writer) writeTool(tool *server.Entry) {
	entry, err := jsonscan.ReadObject(tool.Definition.JSON())
	if err != nil {
		return // such a tool is not listed
	}
	w.write(inName, tool.Name)
	w.writeMember(inTitle, entry, "title")
	if annotations, err := jsonscan.ReadObject(entry.Get("annotations")); err == nil {
		w.writeMember(inTitle, annotations, "title")
	}
	w.writeMember(inDescription, entry, "description")
	schema, err := jsonscan.ReadObject(entry.Get("inputSchema"))
	if err != nil {
		return
	}
	arguments, err := jsonscan.ReadObject(schema.Get("properties"))
	if err != nil {
		return
	}
	for argument := range arguments.All() {
		w.write(inArguments, argument.Name())
	}
	for argument := range arguments.All() {
		if about, err := jsonscan.ReadObject(argument.Value); err == nil {
			w.writeMember(inArguments, about, "description")
			w.write(inArguments, string(about.Get("enum"))) // brackets and quotes are not words
		}
	}
}

// writeMember ignores a member that is not a string.
func (w *writer) writeMember(field int, object jsonscan.Members, name string) {
	if value := object.Get(name); jsonscan.KindOf(value) == jsonscan.String {
		w.write(field, jsonscan.Unquote(value))
	}
}

func (w *writer) write(field int, text string) {
	for word := range words(text) {
		if w.left == 0 {
			return
		}
		w.left--
		w.lengths[field]++
		w.count(field, word)
	}
}

func (w *writer) count(field int, word string) {
	stem, ok := w.stems[word]
	if !ok {
		stem = stemOf(word)
		w.stems[word] = stem
	}
	t := w.terms[stem]
	if t == nil {
		t = &term{stem: stem}
		w.terms[stem] = t
	}
	if n := len(t.counts); n == 0 || t.counts[n-1].tool != w.tool {
		t.counts = append(t.counts, count{tool: w.tool})
	}
	t.counts[len(t.counts)-1].fields[field]++
}
