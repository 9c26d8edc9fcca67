package memorytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/server/memory"
)

// Values are returned byte for byte.
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
		f.save(conversations(), fmt.Sprint("value ", i), value)
	}
	for i, value := range values {
		f.wantValue(conversations(), fmt.Sprint("value ", i), value)
	}
	listed := map[string]string{}
	for _, record := range f.list(conversations(), memory.Query{Values: true}) {
		listed[record.Key] = record.Value
	}
	for i, value := range values {
		if got, there := listed[fmt.Sprint("value ", i)]; !there || got != value {
			f.Errorf("value %d is listed as %.100q, want %.100q", i, got, value)
		}
	}
	for _, record := range f.list(conversations(), memory.Query{}) {
		if record.Value != "" {
			f.Errorf("%q is listed with a value, though the query does not request values", record.Key)
		}
	}
}

// oddKeys returns keys in byte order. A store must not treat any of them as equal by folding
// case, normalizing, trimming, truncating, matching patterns, or parsing numbers or paths.
func oddKeys() []string {
	return []string{
		" ", " a", `"`, "%", "%00", "%2e", "'", "*", ".", "..", "../a", "/", "0", "00", "1", "1.0", "1e0", ":a", "?",
		"A", "AA", "[a]", `\`, "_", "a", "a ", "a%", "a/", "a/b", "a_", "aa", "e\u0301", "null", "\u00c9", "\u00e9",
		strings.Repeat("\u00e9", 128), "\ufffd", "\U0001f600",
	}
}

// Keys are compared byte for byte.
func testKeys(f *fixture) {
	longest := strings.Repeat("k", 256-1)
	keys := append(oddKeys(), longest, longest+"1", longest+"2")
	for i, key := range keys {
		f.wantMissing(conversations(), key)
		f.save(conversations(), key, fmt.Sprint("value ", i))
	}
	for i, key := range keys {
		f.wantValue(conversations(), key, fmt.Sprint("value ", i))
	}
	for i, key := range keys {
		f.wantDelete(conversations(), key, true)
		f.wantMissing(conversations(), key)
		if i+1 < len(keys) {
			f.wantValue(conversations(), keys[i+1], fmt.Sprint("value ", i+1))
		}
	}
}

// Saving replaces the record with the same key.
func testReplacing(f *fixture) {
	f.save(conversations(), "before", "1")
	f.save(conversations(), "key", "1")
	f.save(conversations(), "key", "a longer value")
	f.wantValue(conversations(), "key", "a longer value")
	f.save(conversations(), "key", "")
	f.wantValue(conversations(), "key", "")
	f.save(conversations(), "key", "")
	f.wantValue(conversations(), "before", "1")
	f.wantKeys(conversations(), memory.Query{}, "before", "key")
}

// A collection without records is empty.
func testMissing(f *fixture) {
	for _, in := range []memory.Collection{conversations(), factsAbout("nobody"), {Owner: "stranger", Kind: memory.Conversations}} {
		f.wantMissing(in, "key")
		f.wantDelete(in, "key", false)
		f.wantKeys(in, memory.Query{})
		f.wantKeys(in, memory.Query{Prefix: "k", After: "a", Limit: 1, Values: true})
	}
}

// A deleted record can be saved again.
func testDeleting(f *fixture) {
	for range 2 {
		f.save(conversations(), "other", "kept")
		f.save(conversations(), "key", "gone")
		f.wantDelete(conversations(), "key", true)
		f.wantDelete(conversations(), "key", false)
		f.wantMissing(conversations(), "key")
		f.wantKeys(conversations(), memory.Query{}, "other")
		f.wantDelete(conversations(), "other", true)
		f.wantKeys(conversations(), memory.Query{})
	}
}

// An operation with an ended context changes nothing.
func testEndedContext(f *fixture) {
	f.save(conversations(), "key", "value")
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	_, errLoad := f.store.Load(ended, conversations(), "key")
	_, errList := f.store.List(ended, conversations(), memory.Query{})
	_, errDelete := f.store.Delete(ended, conversations(), "key")
	for name, err := range map[string]error{
		"Save":   f.store.Save(ended, conversations(), memory.Record{Key: "key", Value: "another"}),
		"Load":   errLoad,
		"List":   errList,
		"Delete": errDelete,
	} {
		if !errors.Is(err, context.Canceled) {
			f.Errorf("%s with a context that has ended returns %v, want context.Canceled", name, err)
		}
	}
	f.wantValue(conversations(), "key", "value")
}

// manyRecords is the number of records for which a collection must have room.
const manyRecords = 300

// Keys are listed in byte order, in whatever order they were saved.
func testOrder(f *fixture) {
	want := oddKeys()
	for _, key := range slices.Backward(want) {
		f.save(conversations(), key, "")
	}
	f.wantKeys(conversations(), memory.Query{}, want...)
	f.save(conversations(), want[3], "saved again")
	f.wantKeys(conversations(), memory.Query{Values: true}, want...)
}

// A prefix is compared byte for byte and is not a pattern.
func testPrefixes(f *fixture) {
	for _, key := range oddKeys() {
		f.save(conversations(), key, "")
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
		f.wantKeys(conversations(), memory.Query{Prefix: prefix}, want...)
	}
	f.wantKeys(conversations(), memory.Query{Prefix: "a", After: "a%", Limit: 2}, "a/", "a/b")
	f.wantKeys(conversations(), memory.Query{Prefix: "a", After: "A"}, "a", "a ", "a%", "a/", "a/b", "a_", "aa")
	f.wantKeys(conversations(), memory.Query{Prefix: "a", After: "aa"})
	f.wantKeys(conversations(), memory.Query{Prefix: "a", After: "b"})
}

// The pages of a list are complete and do not overlap.
func testPages(f *fixture) {
	want := make([]string, manyRecords)
	for i := range want {
		want[i] = fmt.Sprintf("key %04d", i)
	}
	for i := range want {
		f.save(conversations(), want[i*7%manyRecords], "") // 7 does not divide manyRecords
	}
	for _, limit := range []int{9, 99, 100, 133, manyRecords - 1, manyRecords, manyRecords + 1} {
		after := ""
		for at := 0; at < manyRecords; at += limit {
			page := want[at:min(at+limit, manyRecords)]
			f.wantKeys(conversations(), memory.Query{After: after, Limit: limit}, page...)
			after = page[len(page)-1]
		}
		f.wantKeys(conversations(), memory.Query{After: after, Limit: limit})
	}
	f.wantKeys(conversations(), memory.Query{After: "key 0150x", Limit: 1}, "key 0151") // no record has this key
	f.wantDelete(conversations(), "key 0150", true)
	f.wantKeys(conversations(), memory.Query{After: "key 0150", Limit: 1}, "key 0151")
}

// collections returns collections that a store would confuse if it joined their fields without
// escaping.
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

// Collections are independent.
func testCollections(f *fixture) {
	all := collections()
	for i, in := range all {
		f.wantMissing(in, "key")
		f.wantKeys(in, memory.Query{})
		f.save(in, "key", fmt.Sprint("value ", i))
	}
	for i, in := range all {
		f.wantValue(in, "key", fmt.Sprint("value ", i))
		f.save(in, fmt.Sprint("key of ", i), "")
	}
	for i, in := range all {
		f.wantKeys(in, memory.Query{}, "key", fmt.Sprint("key of ", i))
		f.wantDelete(in, "key", true)
		f.wantMissing(in, "key")
		if i+1 < len(all) {
			f.wantValue(all[i+1], "key", fmt.Sprint("value ", i+1))
		}
	}
}

const (
	users  = 8
	rounds = 50 // of each
)

// Users save, delete and list concurrently, some of them in the same collection. Each user sees
// all own records, and lists are always sorted.
func testConcurrency(f *fixture) {
	var all sync.WaitGroup
	for user := range users {
		in, name := factsAbout(fmt.Sprint("user ", user%2)), fmt.Sprintf("%d/", user)
		all.Go(func() {
			for round := range rounds {
				key := fmt.Sprintf("%s%02d", name, round)
				f.save(in, key, "value of "+key)
				f.wantValue(in, key, "value of "+key)
				f.wantSorted(in)
				if round%2 == 1 {
					f.wantDelete(in, key, true)
					f.wantMissing(in, key)
				}
			}
			if own := f.list(in, memory.Query{Prefix: name}); len(own) != rounds/2 {
				f.Errorf("user %d has %d records, want %d", user, len(own), rounds/2)
			}
		})
	}
	all.Wait()
	for user := range 2 {
		if left := f.list(factsAbout(fmt.Sprint("user ", user)), memory.Query{}); len(left) != users/2*rounds/2 {
			f.Errorf("%d records are left, want %d", len(left), users/2*rounds/2)
		}
	}
}

func (f *fixture) wantSorted(in memory.Collection) {
	f.Helper()
	records := f.list(in, memory.Query{Values: true})
	if got := keys(records); !slices.IsSorted(got) || len(slices.Compact(got)) != len(records) {
		f.Errorf("the list is not sorted: %.500q", got)
	}
	for _, record := range records {
		if record.Value != "value of "+record.Key {
			f.Errorf("%q holds %.100q", record.Key, record.Value)
		}
	}
}

// Concurrent saves with one key: a reader sees one complete value.
func testOneKey(f *fixture) {
	valueOf := func(user int) string { return strings.Repeat(string(rune('a'+user)), 1000*(user+1)) }
	complete := make([]string, users)
	for user := range users {
		complete[user] = valueOf(user)
	}
	f.save(conversations(), "key", complete[0])
	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			for range rounds {
				f.save(conversations(), "key", complete[user])
				if got, err := f.store.Load(f.ctx, conversations(), "key"); err != nil || !slices.Contains(complete, got) {
					f.Errorf("read while others save: %d bytes %.50q, error %v", len(got), got, err)
				}
			}
		})
	}
	all.Wait()
	f.wantKeys(conversations(), memory.Query{}, "key")
}

// Of concurrent deletes of a record exactly one reports that it existed.
func testOneDeletes(f *fixture) {
	for round := range rounds {
		key := fmt.Sprint("key ", round)
		f.save(conversations(), key, "")
		var deleted atomic.Int32
		var all sync.WaitGroup
		for range users {
			all.Go(func() {
				was, err := f.store.Delete(f.ctx, conversations(), key)
				if err != nil {
					f.Errorf("Delete: %v", err)
				} else if was {
					deleted.Add(1)
				}
			})
		}
		all.Wait()
		if n := deleted.Load(); n != 1 {
			f.Errorf("%d deletes of %q report true, want 1", n, key)
			return
		}
	}
}

// Concurrent saves do not exceed the limit.
func testConcurrentSaves(f *fixture) {
	var saved, refused atomic.Int32
	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			for round := range maxRecords {
				err := f.store.Save(f.ctx, conversations(), memory.Record{Key: fmt.Sprint(user, "/", round)})
				switch full, ok := errors.AsType[*memory.FullError](err); {
				case err == nil:
					saved.Add(1)
				case ok && full.Limit == maxRecords:
					refused.Add(1)
				default:
					f.Errorf("Save: %v, want a *FullError of limit %d", err, maxRecords)
				}
			}
		})
	}
	all.Wait()
	if n := len(f.list(conversations(), memory.Query{})); n != maxRecords || saved.Load() != maxRecords || refused.Load() != (users-1)*maxRecords {
		f.Errorf("%d of %d saves succeeded, %d records exist, want %d", saved.Load(), users*maxRecords, n, maxRecords)
	}
}
