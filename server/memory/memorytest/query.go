package memorytest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/server/memory"
)

// manyRecords is how many a collection must have room for here.
const manyRecords = 300

// Keys are listed in the order of their bytes, whatever the order of saving.
func testOrder(f *fixture) {
	want := oddKeys()
	for _, key := range slices.Backward(want) {
		f.save(here(), key, "")
	}
	f.lists(here(), memory.Query{}, want...)
	f.save(here(), want[3], "saved again")
	f.lists(here(), memory.Query{Values: true}, want...)
}

// A prefix is no pattern, and is compared by its bytes.
func testPrefixes(f *fixture) {
	for _, key := range oddKeys() {
		f.save(here(), key, "")
	}
	for prefix, want := range map[string][]string{
		"a":            {"a", "a ", "a%", "a/", "a/b", "a_", "aa"},
		"a/":           {"a/", "a/b"},
		"a_":           {"a_"},
		"%":            {"%", "%00", "%2e"},
		"*":            {"*"},
		"[":            {"[a]"},
		"A":            {"A", "AA"},
		"e":            {"e\u0301"},
		"\u00e9":       {"\u00e9", strings.Repeat("\u00e9", 128)},
		"0":            {"0", "00"},
		"\U0001f600":   {"\U0001f600"},
		"aaa":          nil,
		"z":            nil,
		"\U0001f600\n": nil,
	} {
		f.lists(here(), memory.Query{Prefix: prefix}, want...)
	}
	f.lists(here(), memory.Query{Prefix: "a", After: "a%", Limit: 2}, "a/", "a/b")
	f.lists(here(), memory.Query{Prefix: "a", After: "A"}, "a", "a ", "a%", "a/", "a/b", "a_", "aa")
	f.lists(here(), memory.Query{Prefix: "a", After: "aa"})
	f.lists(here(), memory.Query{Prefix: "a", After: "b"})
}

// Pages together are the list.
func testPages(f *fixture) {
	want := make([]string, manyRecords)
	for i := range want {
		want[i] = fmt.Sprintf("key %04d", i)
	}
	for i := range want {
		f.save(here(), want[i*7%manyRecords], "") // 7 is no divisor
	}
	for _, limit := range []int{9, 99, 100, 133, manyRecords - 1, manyRecords, manyRecords + 1} {
		after := ""
		for at := 0; at < manyRecords; at += limit {
			page := want[at:min(at+limit, manyRecords)]
			f.lists(here(), memory.Query{After: after, Limit: limit}, page...)
			after = page[len(page)-1]
		}
		f.lists(here(), memory.Query{After: after, Limit: limit})
	}
	f.lists(here(), memory.Query{After: "key 0150x", Limit: 1}, "key 0151") // which is not there
	f.deletes(here(), "key 0150", true)
	f.lists(here(), memory.Query{After: "key 0150", Limit: 1}, "key 0151")
}
