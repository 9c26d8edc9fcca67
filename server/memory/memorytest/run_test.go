package memorytest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/memorytest"
)

func TestKitPassesGoodStore(t *testing.T) {
	memorytest.Run(t, func(*testing.T) memory.Store { return memory.InMemory(nil) })
	memorytest.RunLimits(t, func(_ *testing.T, limits *memory.Limits) memory.Store { return memory.InMemory(limits) })
}

// faults are ways to break a store, and the property of Run that has to notice.
var faults = map[string]struct {
	property string
	store    faulty
}{
	"cuts values at NUL":     {"Values", keeping(func(_, value string) string { before, _, _ := strings.Cut(value, "\x00"); return before })},
	"trims values":           {"Values", keeping(func(_, value string) string { return strings.TrimSpace(value) })},
	"takes text for numbers": {"Values", keeping(asNumber)},
	"gives values unasked":   {"Values", listing(func(q *memory.Query) { q.Values = true }, nil)},
	"withholds values":       {"Values", listing(func(q *memory.Query) { q.Values = false }, nil)},
	"folds the case of keys": {"Keys", renaming(func(in memory.Collection, key string) (memory.Collection, string) { return in, strings.ToLower(key) })},
	"trims keys":             {"Keys", renaming(func(in memory.Collection, key string) (memory.Collection, string) { return in, strings.TrimSpace(key) })},
	"cuts keys": {"Keys", renaming(func(in memory.Collection, key string) (memory.Collection, string) {
		return in, key[:min(len(key), 255)]
	})},
	"appends":                   {"Replacing", keeping(func(old, value string) string { return old + value })},
	"takes empty for deleted":   {"Replacing", keeping(func(old, value string) string { return max(value, old[:min(1, len(old))]) })},
	"finds what is missing":     {"Missing", faulty{load: func(*memory.MapStore, context.Context, memory.Collection, string) (string, error) { return "", nil }}},
	"deletes nothing":           {"Deleting", faulty{delete: func(*memory.MapStore, context.Context, memory.Collection, string) (bool, error) { return true, nil }}},
	"lists by length":           {"Order", listing(nil, byNumber)},
	"takes prefixes for LIKE":   {"Prefixes", listing(func(q *memory.Query) { q.Prefix = "" }, byPattern)},
	"forgets prefixes":          {"Prefixes", listing(func(q *memory.Query) { q.Prefix = "" }, nil)},
	"forgets what to go on":     {"Pages", listing(func(q *memory.Query) { q.After = "" }, nil)},
	"gives more than was asked": {"Pages", listing(func(q *memory.Query) { q.Limit++ }, nil)},
	"bounds lists":              {"Pages", listing(func(q *memory.Query) { q.Limit = min(max(q.Limit, 1), 200) }, nil)},
	"forgets owners": {"Collections", renaming(func(in memory.Collection, key string) (memory.Collection, string) {
		in.Owner = ""
		return in, key
	})},
	"forgets users": {"Collections", renaming(func(in memory.Collection, key string) (memory.Collection, string) {
		in.User = ""
		return in, key
	})},
	"joins names": {"Collections", renaming(func(in memory.Collection, key string) (memory.Collection, string) {
		return memory.Collection{Owner: in.Owner + "/" + in.User, Kind: in.Kind}, key
	})},
	"does not look at contexts": {"EndedContext", endless()},
	"mixes users up": {"Concurrency", renaming(func(in memory.Collection, key string) (memory.Collection, string) {
		return in, strings.TrimLeft(key, "01234567")
	})},
	"tears values": {"OneKey", faulty{load: func(s *memory.MapStore, ctx context.Context, in memory.Collection, key string) (string, error) {
		value, err := s.Load(ctx, in, key)
		return value[:len(value)/2], err
	}}},
	"lets all delete": {"OneDeletes", faulty{delete: func(s *memory.MapStore, ctx context.Context, in memory.Collection, key string) (bool, error) {
		_, err := s.Delete(ctx, in, key)
		return err == nil, err
	}}},
}

// limitless are ways to break limits, and the property of RunLimits that has to notice.
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

// forgetful are ways to break a store that lasts, and the property of RunReopen that
// has to notice. Each fault is in what is kept beyond a Close.
var forgetful = map[string]struct {
	property string
	reopened func(kept *memory.MapStore, limits *memory.Limits) *faulty
}{
	"forgets": {"Records", func(_ *memory.MapStore, limits *memory.Limits) *faulty {
		return &faulty{MapStore: memory.InMemory(limits)}
	}},
	"counts anew":  {"Limits", func(kept *memory.MapStore, _ *memory.Limits) *faulty { return &faulty{MapStore: kept} }},
	"works closed": {"Closed", func(kept *memory.MapStore, _ *memory.Limits) *faulty { return &faulty{MapStore: kept} }},
	"cannot be closed": {"Closed", func(kept *memory.MapStore, _ *memory.Limits) *faulty {
		return &faulty{MapStore: kept, close: func() error { return errors.New("closed already") }}
	}},
}

const faultVariable = "MEMORYTEST_FAULT"

// The kit fails a broken store, in the property that it breaks. Each runs in a
// process of its own: a failed subtest fails its parents.
func TestKitFindsFaults(t *testing.T) {
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
				t.Errorf("the kit has not noticed (%v):\n%.2000s", err, out)
			}
		})
	}
}

// TestFaulty is what TestKitFindsFaults runs.
func TestFaulty(t *testing.T) {
	name := os.Getenv(faultVariable)
	if name == "" {
		t.Skip("run by TestKitFindsFaults")
	}
	if fault, ok := faults[name]; ok {
		memorytest.Run(t, func(*testing.T) memory.Store {
			store := fault.store
			store.MapStore = memory.InMemory(nil)
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
