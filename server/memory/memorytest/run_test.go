package memorytest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/memorytest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestMapStorePasses(t *testing.T) {
	memorytest.Run(t, func(*testing.T) memory.Store { return memory.InMemory(nil) })
	memorytest.RunLimits(t, func(_ *testing.T, limits *memory.Limits) memory.Store { return memory.InMemory(limits) })
}

// faults returns faulty stores by the subtest of Run that must fail.
var faults = map[string]struct {
	property string
	store    faulty
}{
	"cuts values at NUL":     {"Values", withChangedValues(func(_, value string) string { before, _, _ := strings.Cut(value, "\x00"); return before })},
	"trims values":           {"Values", withChangedValues(func(_, value string) string { return strings.TrimSpace(value) })},
	"takes text for numbers": {"Values", withChangedValues(asNumber)},
	"gives values unasked":   {"Values", withChangedList(func(q *memory.Query) { q.Values = true }, nil)},
	"withholds values":       {"Values", withChangedList(func(q *memory.Query) { q.Values = false }, nil)},
	"folds the case of keys": {"Keys", withRenamed(func(in memory.Collection, key string) (memory.Collection, string) { return in, strings.ToLower(key) })},
	"trims keys":             {"Keys", withRenamed(func(in memory.Collection, key string) (memory.Collection, string) { return in, strings.TrimSpace(key) })},
	"cuts keys": {"Keys", withRenamed(func(in memory.Collection, key string) (memory.Collection, string) {
		return in, key[:min(len(key), 255)]
	})},
	"appends":                   {"Replacing", withChangedValues(func(old, value string) string { return old + value })},
	"takes empty for deleted":   {"Replacing", withChangedValues(func(old, value string) string { return max(value, old[:min(1, len(old))]) })},
	"finds what is missing":     {"Missing", faulty{load: func(memory.Store, context.Context, memory.Collection, string) (string, error) { return "", nil }}},
	"deletes nothing":           {"Deleting", faulty{delete: func(memory.Store, context.Context, memory.Collection, string) (bool, error) { return true, nil }}},
	"lists by length":           {"Order", withChangedList(nil, byNumber)},
	"takes prefixes for LIKE":   {"Prefixes", withChangedList(func(q *memory.Query) { q.Prefix = "" }, byPattern)},
	"forgets prefixes":          {"Prefixes", withChangedList(func(q *memory.Query) { q.Prefix = "" }, nil)},
	"forgets what to go on":     {"Pages", withChangedList(func(q *memory.Query) { q.After = "" }, nil)},
	"gives more than was asked": {"Pages", withChangedList(func(q *memory.Query) { q.Limit++ }, nil)},
	"bounds lists":              {"Pages", withChangedList(func(q *memory.Query) { q.Limit = min(max(q.Limit, 1), 200) }, nil)},
	"forgets owners": {"Collections", withRenamed(func(in memory.Collection, key string) (memory.Collection, string) {
		in.Owner = ""
		return in, key
	})},
	"forgets users": {"Collections", withRenamed(func(in memory.Collection, key string) (memory.Collection, string) {
		in.User = ""
		return in, key
	})},
	"joins names": {"Collections", withRenamed(func(in memory.Collection, key string) (memory.Collection, string) {
		return memory.Collection{Owner: in.Owner + "/" + in.User, Kind: in.Kind}, key
	})},
	"does not look at contexts": {"EndedContext", ignoreContext()},
	"mixes users up": {"Concurrency", withRenamed(func(in memory.Collection, key string) (memory.Collection, string) {
		return in, strings.TrimLeft(key, "01234567")
	})},
	"tears values": {"OneKey", faulty{load: func(s memory.Store, ctx context.Context, in memory.Collection, key string) (string, error) {
		value, err := s.Load(ctx, in, key)
		return value[:len(value)/2], err
	}}},
	"lets all delete": {"OneDeletes", faulty{delete: func(s memory.Store, ctx context.Context, in memory.Collection, key string) (bool, error) {
		_, err := s.Delete(ctx, in, key)
		return err == nil, err
	}}},
}

// limitless returns stores with wrong limits by the subtest of RunLimits that must fail.
var limitless = map[string]struct {
	property string
	limits   func(*memory.Limits) *memory.Limits
}{
	"counts no conversations":  {"Conversations", func(*memory.Limits) *memory.Limits { return &memory.Limits{Conversations: -1} }},
	"counts no facts":          {"Facts", func(*memory.Limits) *memory.Limits { return &memory.Limits{Facts: -1} }},
	"counts no owner's bytes":  {"OwnerBytes", func(*memory.Limits) *memory.Limits { return &memory.Limits{OwnerBytes: -1} }},
	"counts bytes carelessly":  {"OwnerBytes", func(l *memory.Limits) *memory.Limits { return &memory.Limits{OwnerBytes: l.OwnerBytes + 1} }},
	"counts no bytes":          {"TotalBytes", func(*memory.Limits) *memory.Limits { return &memory.Limits{TotalBytes: -1} }},
	"throws owners together":   {"OwnersApart", func(l *memory.Limits) *memory.Limits { return &memory.Limits{TotalBytes: l.OwnerBytes} }},
	"has no defaults":          {"Defaults", func(*memory.Limits) *memory.Limits { return &memory.Limits{Facts: -1, OwnerBytes: -1} }},
	"takes negative for zero":  {"NoBounds", func(*memory.Limits) *memory.Limits { return &memory.Limits{Facts: 0} }},
	"is full for ever":         {"NoBounds", func(*memory.Limits) *memory.Limits { return &memory.Limits{TotalBytes: 1} }},
	"lets too many in at once": {"ConcurrentSaves", func(*memory.Limits) *memory.Limits { return &memory.Limits{Conversations: 6} }},
}

// forgetful returns faulty stores by the subtest of RunReopen that must fail. Each fault is in
// what remains after a Close.
var forgetful = map[string]struct {
	property string
	reopened func(kept memory.Store, limits *memory.Limits) *faulty
}{
	"forgets": {"Records", func(_ memory.Store, limits *memory.Limits) *faulty {
		return &faulty{Store: memory.InMemory(limits)}
	}},
	"counts anew":  {"Limits", func(kept memory.Store, _ *memory.Limits) *faulty { return &faulty{Store: kept} }},
	"works closed": {"Closed", func(kept memory.Store, _ *memory.Limits) *faulty { return &faulty{Store: kept} }},
	"cannot be closed": {"Closed", func(kept memory.Store, _ *memory.Limits) *faulty {
		return &faulty{Store: kept, close: func() error { return errors.New("closed already") }}
	}},
}

const faultVariable = "MEMORYTEST_FAULT"

// Each faulty store fails its subtest. The tests run in separate processes, because a failed
// subtest fails its parents.
func TestFaultsAreDetected(t *testing.T) {
	properties := map[string]string{}
	for name, fault := range faults {
		properties[name] = fault.property
	}
	for name, fault := range limitless {
		properties[name] = fault.property
	}
	for name, fault := range forgetful {
		properties[name] = fault.property
	}
	for name, property := range properties {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaulty$/^"+property+"$")
			cmd.Env = append(os.Environ(), faultVariable+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestFaulty/"+property) {
				t.Errorf("the fault was not detected (%v):\n%.2000s", err, out)
			}
		})
	}
}

// TestFaulty runs in the processes that TestFaultsAreDetected starts.
func TestFaulty(t *testing.T) {
	name := os.Getenv(faultVariable)
	if name == "" {
		t.Skip("run by TestKitFindsFaults")
	}
	if fault, ok := faults[name]; ok {
		memorytest.Run(t, func(*testing.T) memory.Store {
			store := fault.store
			store.Store = memory.InMemory(nil)
			return &store
		})
	}
	if fault, ok := limitless[name]; ok {
		memorytest.RunLimits(t, func(_ *testing.T, limits *memory.Limits) memory.Store { return memory.InMemory(fault.limits(limits)) })
	}
	if fault, ok := forgetful[name]; ok {
		kept := memory.InMemory(nil)
		memorytest.RunReopen(t, func(_ *testing.T, _ string, limits *memory.Limits) memory.Store { return fault.reopened(kept, limits) })
	}
}

// A faulty store replaces some operations of a correct store.
type faulty struct {
	memory.Store
	save   func(s memory.Store, ctx context.Context, in memory.Collection, record memory.Record) error
	load   func(s memory.Store, ctx context.Context, in memory.Collection, key string) (string, error)
	delete func(s memory.Store, ctx context.Context, in memory.Collection, key string) (bool, error)
	list   func(s memory.Store, ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error)
	close  func() error
}

func (f *faulty) Save(ctx context.Context, in memory.Collection, record memory.Record) error {
	if f.save != nil {
		return f.save(f.Store, ctx, in, record)
	}
	return f.Store.Save(ctx, in, record)
}

func (f *faulty) Load(ctx context.Context, in memory.Collection, key string) (string, error) {
	if f.load != nil {
		return f.load(f.Store, ctx, in, key)
	}
	return f.Store.Load(ctx, in, key)
}

func (f *faulty) Delete(ctx context.Context, in memory.Collection, key string) (bool, error) {
	if f.delete != nil {
		return f.delete(f.Store, ctx, in, key)
	}
	return f.Store.Delete(ctx, in, key)
}

func (f *faulty) List(ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error) {
	if f.list != nil {
		return f.list(f.Store, ctx, in, query)
	}
	return f.Store.List(ctx, in, query)
}

func (f *faulty) Close() error {
	if f.close != nil {
		return f.close()
	}
	return nil
}

// withRenamed returns a store that saves records under changed names.
func withRenamed(rename func(in memory.Collection, key string) (memory.Collection, string)) faulty {
	return faulty{
		save: func(s memory.Store, ctx context.Context, in memory.Collection, record memory.Record) error {
			in, record.Key = rename(in, record.Key)
			return s.Save(ctx, in, record)
		},
		load: func(s memory.Store, ctx context.Context, in memory.Collection, key string) (string, error) {
			in, key = rename(in, key)
			return s.Load(ctx, in, key)
		},
		delete: func(s memory.Store, ctx context.Context, in memory.Collection, key string) (bool, error) {
			in, key = rename(in, key)
			return s.Delete(ctx, in, key)
		},
		list: func(s memory.Store, ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error) {
			in, _ = rename(in, "")
			return s.List(ctx, in, query)
		},
	}
}

// withChangedValues returns a store that changes the values that it saves.
func withChangedValues(change func(old, value string) string) faulty {
	return faulty{save: func(s memory.Store, ctx context.Context, in memory.Collection, record memory.Record) error {
		old, _ := s.Load(ctx, in, record.Key)
		record.Value = change(old, record.Value)
		return s.Save(ctx, in, record)
	}}
}

// withChangedList returns a store that changes queries or their results.
func withChangedList(ask func(*memory.Query), give func([]memory.Record, memory.Query) []memory.Record) faulty {
	return faulty{list: func(s memory.Store, ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error) {
		asked := query
		if ask != nil {
			ask(&asked)
		}
		records, err := s.List(ctx, in, asked)
		if err == nil && give != nil {
			records = give(records, query)
		}
		return records, err
	}}
}

// byNumber sorts short keys first.
func byNumber(records []memory.Record, _ memory.Query) []memory.Record {
	slices.SortStableFunc(records, func(a, b memory.Record) int { return len(a.Key) - len(b.Key) })
	return records
}

// byPattern interprets a prefix as a pattern of SQL's LIKE.
func byPattern(records []memory.Record, query memory.Query) []memory.Record {
	if strings.ContainsAny(query.Prefix, "%_") {
		return records
	}
	return slices.DeleteFunc(records, func(r memory.Record) bool { return !strings.HasPrefix(r.Key, query.Prefix) })
}

// ignoreContext returns a store that ignores contexts.
func ignoreContext() faulty {
	return faulty{load: func(s memory.Store, ctx context.Context, in memory.Collection, key string) (string, error) {
		return s.Load(context.WithoutCancel(ctx), in, key)
	}}
}

// asNumber normalizes numbers, as untyped columns of SQLite do.
func asNumber(_, value string) string {
	if number, err := strconv.ParseFloat(value, 64); err == nil {
		return strconv.FormatFloat(number, 'g', -1, 64)
	}
	return value
}
