package memorytest

import (
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/server/memory"
)

// collections are such as are the same when their parts are put together carelessly.
func collections() []memory.Collection {
	all := []memory.Collection{{Kind: memory.Conversations}}
	for _, owner := range []string{"a", "A", "ab", "a/b", "a:b", "a%", "a*", "a ", " a", "..", "a\x00b", strings.Repeat("a", 300)} {
		all = append(all, memory.Collection{Owner: owner, Kind: memory.Conversations})
	}
	for _, pair := range [][2]string{
		{"", "a"}, {"", "b"}, {"", "ab"}, {"a", "b"}, {"a", "bc"}, {"ab", "c"}, {"a/b", "c"}, {"a", "b/c"}, {"a:b", "c"}, {"a", "b:c"},
		{"A", "B"}, {"b", "a"}, {"a", "conversations"}, {"a", "facts"}, {"a%", "b"}, {"a_", "b"}, {"a", ".."}, {"a\x00b", "c"},
		{"a", strings.Repeat("b", 256)}, {"a", strings.Repeat("b", 255)},
	} {
		all = append(all, memory.Collection{Owner: pair[0], Kind: memory.Facts, User: pair[1]})
	}
	return all
}

// Collections share nothing.
func testCollections(f *fixture) {
	all := collections()
	for i, in := range all {
		f.lacks(in, "key")
		f.lists(in, memory.Query{})
		f.save(in, "key", fmt.Sprint("value ", i))
	}
	for i, in := range all {
		f.holds(in, "key", fmt.Sprint("value ", i))
		f.save(in, fmt.Sprint("key of ", i), "")
	}
	for i, in := range all {
		f.lists(in, memory.Query{}, "key", fmt.Sprint("key of ", i))
		f.deletes(in, "key", true)
		f.lacks(in, "key")
		if i+1 < len(all) {
			f.holds(all[i+1], "key", fmt.Sprint("value ", i+1))
		}
	}
}
