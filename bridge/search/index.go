package search

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The usual parameters of BM25 (k1 and b): the saturation of repeated words, and the influence
// of the length of a text.
const (
	saturation    = 1.2
	normalization = 0.75
)

// The weights of words in the parts of a definition.
const (
	inName                = 3
	inTitle               = 2
	inDescription         = 1
	inArgument            = 1
	inArgumentDescription = 0.5
)

// An index has the words of the tools of a catalog, which are numbered in the order of the
// catalog. It is immutable.
type index struct {
	entries  []*server.Entry
	tools    map[string]int32 // by name
	words    map[string]int32
	postings [][]posting // of each word
}

// A posting is the weight of a word in a tool.
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
	tools = firstTools(tools, MaxTools)
	x := &index{entries: tools, tools: make(map[string]int32, len(tools)), words: make(map[string]int32)}
	for i, tool := range tools {
		x.tools[tool.Name] = int32(i)
	}
	lengths := make([]float32, len(tools))
	for i, tool := range tools {
		w := writer{index: x, tool: int32(i), left: maxIndexed}
		w.writeTool(tool)
		lengths[i] = w.length
	}
	x.weigh(lengths)
	return x
}

// firstTools returns at most n tools. If there are more, each server has an equal share, so that a
// server with many tools does not hide those of others.
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
	for i, size := range sizes { // what small servers do not use is for the larger ones
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

// weigh converts counts of words to their weights.
func (x *index) weigh(lengths []float32) {
	var total float64
	for _, length := range lengths {
		total += float64(length)
	}
	for _, postings := range x.postings {
		n := float64(len(postings))
		rarity := math.Log1p((float64(len(lengths)) - n + 0.5) / (n + 0.5))
		for i, p := range postings {
			length := float64(lengths[p.tool]) * float64(len(lengths)) / total
			count := float64(p.weight)
			postings[i].weight = float32(rarity * count * (saturation + 1) / (count + saturation*(1-normalization+normalization*length)))
		}
	}
}

// search returns the best visible tools, the best first.
func (x *index) search(q query, visible func(tool int32) bool) []int32 {
	scores, any := x.score(q.text)
	best := ranking{limit: q.limit}
	for i, score := range scores {
		if any && score == 0 || !strings.HasPrefix(x.entries[i].Name, q.prefix) || !visible(int32(i)) {
			continue
		}
		best.add(int32(i), score)
	}
	return best.tools
}

// score returns the score of each tool for a text. any is false if the text has no words.
func (x *index) score(text string) (scores []float32, any bool) {
	scores = make([]float32, len(x.entries))
	var room [32]int32
	known := room[:0]
	for word := range words(text) {
		any = true
		if id, ok := x.words[string(word)]; ok {
			known = append(known, id)
		}
	}
	slices.Sort(known) // since rounding depends on the order of a sum
	for _, id := range slices.Compact(known) {
		for _, p := range x.postings[id] {
			scores[p.tool] += p.weight
		}
	}
	if tool, ok := x.tools[text]; ok {
		scores[tool] = math.MaxFloat32
	}
	return scores, any
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
	tool   int32
	length float32
	left   int // words that may be added
}

func (w *writer) writeTool(tool *server.Entry) {
	entry, err := jsonscan.ReadObject(tool.Definition.JSON())
	if err != nil {
		return // such a tool is not listed
	}
	w.write(tool.Name, inName)
	w.writeMember(entry.Get("title"), inTitle)
	w.writeMember(entry.Get("description"), inDescription)
	schema, err := jsonscan.ReadObject(entry.Get("inputSchema"))
	if err != nil {
		return
	}
	arguments, err := jsonscan.ReadObject(schema.Get("properties"))
	if err != nil {
		return
	}
	for argument := range arguments.All() {
		w.write(argument.Name(), inArgument)
	}
	for argument := range arguments.All() {
		if about, err := jsonscan.ReadObject(argument.Value); err == nil {
			w.writeMember(about.Get("description"), inArgumentDescription)
		}
	}
}

// writeMember ignores a member that is not a string.
func (w *writer) writeMember(value json.RawMessage, weight float32) {
	if jsonscan.KindOf(value) == jsonscan.String {
		w.write(jsonscan.Unquote(value), weight)
	}
}

func (w *writer) write(text string, weight float32) {
	for word := range words(text) {
		if w.left == 0 {
			return
		}
		w.left--
		w.length += weight
		w.count(word, weight)
	}
}

func (w *writer) count(word []byte, weight float32) {
	id, ok := w.words[string(word)]
	if !ok {
		id = int32(len(w.postings))
		w.words[string(word)] = id
		w.postings = append(w.postings, nil)
	}
	postings := w.postings[id]
	if n := len(postings); n > 0 && postings[n-1].tool == w.tool {
		postings[n-1].weight += weight
		return
	}
	w.postings[id] = append(postings, posting{w.tool, weight})
}
