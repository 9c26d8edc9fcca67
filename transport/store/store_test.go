package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{
		"a", "Z", "0", "-", "_", "a/b", "sessions/x_Y-9/state", strings.Repeat("n", 200), strings.Repeat("n/", 99) + "nn",
	} {
		if err := store.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "/", "a/", "/a", "a//b", "a b", "a.b", "..", "*", ">", "a:b", "{a}", "é", "\xff", "a\x00", "a\n", strings.Repeat("n", 201),
	} {
		if err := store.CheckName(name); err == nil {
			t.Errorf("%.20q was not refused", name)
		} else if len(err.Error()) > 1200 {
			t.Errorf("the error for a long name has %d bytes", len(err.Error()))
		}
	}
}

// CheckName accepts what consists of valid segments.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"a", "a/b", "", "/", "a//b", "a.b", "é", strings.Repeat("n", 201)} {
		f.Add(name)
	}
	const valid = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	f.Fuzz(func(t *testing.T, name string) {
		want := len(name) <= 200
		for segment := range strings.SplitSeq(name, "/") {
			want = want && segment != "" && strings.Trim(segment, valid) == ""
		}
		if err := store.CheckName(name); (err == nil) != want {
			t.Errorf("CheckName(%q): %v, want it accepted: %t", name, err, want)
		}
	})
}

func TestLimits(t *testing.T) {
	got, err := store.Limits{}.WithDefaults()
	want := store.Limits{LogAge: 30 * time.Minute, LogEntries: 10_000, LogBytes: 64 << 20, Lease: 30 * time.Second}
	if err != nil || got != want {
		t.Errorf("the defaults are %+v, %v, want %+v", got, err, want)
	}
	given := store.Limits{LogAge: time.Second, LogEntries: 1, LogBytes: 1, Lease: time.Second}
	if got, err := given.WithDefaults(); err != nil || got != given {
		t.Errorf("%+v became %+v, %v", given, got, err)
	}
	for _, limits := range []store.Limits{
		{LogAge: -1}, {LogAge: time.Second - 1}, {LogEntries: -1}, {LogBytes: -1}, {Lease: time.Second - 1}, {Lease: -1},
	} {
		if _, err := limits.WithDefaults(); err == nil {
			t.Errorf("%+v was not refused", limits)
		}
		if _, err := store.NewMemory(&store.MemoryOptions{Limits: limits}); err == nil {
			t.Errorf("NewMemory did not refuse %+v", limits)
		}
	}
	if _, err := store.NewMemory(&store.MemoryOptions{Bytes: -1}); err == nil {
		t.Error("NewMemory did not refuse a negative number of bytes")
	}
}
