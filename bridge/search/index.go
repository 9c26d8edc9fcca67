package search

import (
	"math"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The parameters of BM25, as they are usual: how soon a word that is repeated counts no
// more, and how much the length of a text matters.
const (
	saturation    = 1.2
	normalization = 0.75
)

// How much a word counts, by where it stands.
const (
	inName                = 3
	inTitle               = 2
	inDescription         = 1
	inArgument            = 1
	inArgumentDescription = 0.5
)

// An index has the words of the tools of a catalog. It is immutable. Tools are numbered in
// the order of the catalog.
type index struct {
	entries  []*server.Entry
	tools    map[string]int32 // by name
	words    map[string]int32
	postings [][]posting // of each word
}

// A posting says what a word is worth in a tool.
type posting struct {
	tool   int32
	weight float32
}

// indexOf returns the index of a catalog, which is made when it is needed first.
func indexOf(c *server.Catalog) *index {
	type key struct{}
	return c.Memo(key{}, func() any { return newIndex(slices.Collect(c.All(mcp.KindTool))) }).(*index)
}

func newIndex(tools []*server.Entry) *index {
	tools = tools[:min(len(tools), MaxTools)]
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

// weigh turns the counts of words into what they are worth.
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

// search finds the best tools of those that are visible.
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

// score is what a text is worth for each tool, and says whether it has any word at all.
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
	slices.Sort(known) // sums depend on their order
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

// A ranking keeps the best tools. Of two equal ones the first to come is better.
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
