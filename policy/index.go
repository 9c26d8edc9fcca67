package policy

import "iter"

// An index finds what goes with the patterns that may match a text: those whose literal
// beginning the text has. It is a tree with a level for each byte. The zero value is empty.
type index struct{ nodes []node }

type node struct {
	items []int
	edges []edge
}

type edge struct {
	char byte
	to   int
}

func (x *index) add(literal string, item int) {
	if len(x.nodes) == 0 {
		x.nodes = make([]node, 1)
	}
	at := 0
	for i := range len(literal) {
		to := x.nodes[at].next(literal[i])
		if to == 0 {
			to = len(x.nodes)
			x.nodes[at].edges = append(x.nodes[at].edges, edge{literal[i], to})
			x.nodes = append(x.nodes, node{})
		}
		at = to
	}
	x.nodes[at].items = append(x.nodes[at].items, item)
}

// next is 0, which is where all begins, if there is none.
func (n *node) next(char byte) int {
	for _, e := range n.edges {
		if e.char == char {
			return e.to
		}
	}
	return 0
}

// of ranges over the items of all patterns that may match.
func (x *index) of(text string) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(x.nodes) == 0 {
			return
		}
		for at, i := 0, 0; ; i++ {
			for _, item := range x.nodes[at].items {
				if !yield(item) {
					return
				}
			}
			if i == len(text) {
				return
			}
			if at = x.nodes[at].next(text[i]); at == 0 {
				return
			}
		}
	}
}
