package memorytest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/server/memory"
)

// Values come back as the bytes that they were.
func testValues(f *fixture) {
	values := []string{
		"", " ", "\x00", "a\x00b", "null", "42", "1e400", "0042", "[]",
		` { "z" : 1, "a":2,"Z":3 } `,
		"{\n\t\"lines\": [\r\n1]}\n",
		`{"n":[9007199254740993,1.0,-0,0.1000]}`,
		`{"s":"\u0041\/\n\u2028<&>` + "\u2028\u00e9e\u0301\U0001f600\x7f" + `"}`,
		`'; DROP TABLE record; --`, `%s%00$1?:a@b`,
		strings.Repeat("x", 1<<16) + "!", strings.Repeat("é", 1<<18),
	}
	for i, value := range values {
		f.save(here(), fmt.Sprint("value ", i), value)
	}
	for i, value := range values {
		f.holds(here(), fmt.Sprint("value ", i), value)
	}
	listed := map[string]string{}
	for _, record := range f.list(here(), memory.Query{Values: true}) {
		listed[record.Key] = record.Value
	}
	for i, value := range values {
		if got, there := listed[fmt.Sprint("value ", i)]; !there || got != value {
			f.Errorf("value %d is listed as %.100q, want %.100q", i, got, value)
		}
	}
	for _, record := range f.list(here(), memory.Query{}) {
		if record.Value != "" {
			f.Errorf("%q is listed with a value that nobody asked for", record.Key)
		}
	}
}

// oddKeys are in the order of their bytes. Some are equal to a store that folds case,
// normalises, trims, matches patterns, cuts, or takes text for a number or a path.
func oddKeys() []string {
	return []string{
		" ", " a", `"`, "%", "%00", "%2e", "'", "*", ".", "..", "../a", "/", "0", "00", "1", "1.0", "1e0", ":a", "?",
		"A", "AA", "[a]", `\`, "_", "a", "a ", "a%", "a/", "a/b", "a_", "aa", "e\u0301", "null", "\u00c9", "\u00e9",
		strings.Repeat("\u00e9", 128), "\ufffd", "\U0001f600",
	}
}

// A key is the same as another when all its bytes are.
func testKeys(f *fixture) {
	longest := strings.Repeat("k", memory.DefaultMaxName-1)
	keys := append(oddKeys(), longest, longest+"1", longest+"2")
	for i, key := range keys {
		f.lacks(here(), key)
		f.save(here(), key, fmt.Sprint("value ", i))
	}
	for i, key := range keys {
		f.holds(here(), key, fmt.Sprint("value ", i))
	}
	for i, key := range keys {
		f.deletes(here(), key, true)
		f.lacks(here(), key)
		if i+1 < len(keys) {
			f.holds(here(), keys[i+1], fmt.Sprint("value ", i+1))
		}
	}
}

// A record takes the place of the one with its key.
func testReplacing(f *fixture) {
	f.save(here(), "before", "1")
	f.save(here(), "key", "1")
	f.save(here(), "key", "a longer value")
	f.holds(here(), "key", "a longer value")
	f.save(here(), "key", "")
	f.holds(here(), "key", "")
	f.save(here(), "key", "")
	f.holds(here(), "before", "1")
	f.lists(here(), memory.Query{}, "before", "key")
}

// Where there is nothing, nothing is found.
func testMissing(f *fixture) {
	for _, in := range []memory.Collection{here(), about("nobody"), {Owner: "stranger", Kind: memory.Conversations}} {
		f.lacks(in, "key")
		f.deletes(in, "key", false)
		f.lists(in, memory.Query{})
		f.lists(in, memory.Query{Prefix: "k", After: "a", Limit: 1, Values: true})
	}
}

// What was deleted is gone, and can be saved again.
func testDeleting(f *fixture) {
	for range 2 {
		f.save(here(), "other", "kept")
		f.save(here(), "key", "gone")
		f.deletes(here(), "key", true)
		f.deletes(here(), "key", false)
		f.lacks(here(), "key")
		f.lists(here(), memory.Query{}, "other")
		f.deletes(here(), "other", true)
		f.lists(here(), memory.Query{})
	}
}

// An operation whose context has ended changes nothing.
func testEndedContext(f *fixture) {
	f.save(here(), "key", "value")
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, errLoad := f.store.Load(ended, here(), "key")
	_, errList := f.store.List(ended, here(), memory.Query{})
	_, errDelete := f.store.Delete(ended, here(), "key")
	for name, err := range map[string]error{
		"Save":   f.store.Save(ended, here(), memory.Record{Key: "key", Value: "another"}),
		"Load":   errLoad,
		"List":   errList,
		"Delete": errDelete,
	} {
		if !errors.Is(err, context.Canceled) {
			f.Errorf("%s with a context that has ended returns %v, want context.Canceled", name, err)
		}
	}
	f.holds(here(), "key", "value")
}
