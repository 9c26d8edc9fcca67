package memorytest

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/server/memory"
)

// patience is how long a property may take before the store is taken to hang.
const patience = time.Minute

var errPatience = errors.New("the store has not come to an end within " + patience.String())

// A fixture is one property under test.
type fixture struct {
	*testing.T
	ctx   context.Context // of this property
	store memory.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errPatience)
	t.Cleanup(cancel)
	return &fixture{T: t, ctx: ctx}
}

// close closes the store if that can be done.
func (f *fixture) close() {
	f.Helper()
	if closer, ok := f.store.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			f.Errorf("Close: %v", err)
		}
	}
}

// here is the collection for properties that need no other.
func here() memory.Collection { return memory.Collection{Kind: memory.Conversations} }

func about(user string) memory.Collection {
	return memory.Collection{Kind: memory.Facts, User: user}
}

func (f *fixture) save(in memory.Collection, key, value string) {
	f.Helper()
	if err := f.store.Save(f.ctx, in, memory.Record{Key: key, Value: value}); err != nil {
		f.Errorf("Save(%+v, %q): %v", in, key, err)
	}
}

func (f *fixture) holds(in memory.Collection, key, want string) {
	f.Helper()
	switch got, err := f.store.Load(f.ctx, in, key); {
	case err != nil:
		f.Errorf("Load(%+v, %q): %v", in, key, err)
	case got != want:
		f.Errorf("Load(%+v, %q) is %.100q, %d bytes, want %.100q, %d bytes", in, key, got, len(got), want, len(want))
	}
}

func (f *fixture) lacks(in memory.Collection, key string) {
	f.Helper()
	if got, err := f.store.Load(f.ctx, in, key); !errors.Is(err, memory.ErrNotFound) {
		f.Errorf("Load(%+v, %q) is %.100q, error %v, want ErrNotFound", in, key, got, err)
	}
}

func (f *fixture) deletes(in memory.Collection, key string, want bool) {
	f.Helper()
	if got, err := f.store.Delete(f.ctx, in, key); err != nil || got != want {
		f.Errorf("Delete(%+v, %q) is %t, error %v, want %t", in, key, got, err, want)
	}
}

func (f *fixture) list(in memory.Collection, query memory.Query) []memory.Record {
	f.Helper()
	records, err := f.store.List(f.ctx, in, query)
	if err != nil {
		f.Errorf("List(%+v, %+v): %v", in, query, err)
	}
	return records
}

// lists checks the keys that a query chooses.
func (f *fixture) lists(in memory.Collection, query memory.Query, want ...string) {
	f.Helper()
	if got := keys(f.list(in, query)); !slices.Equal(got, want) {
		f.Errorf("List(%+v, %+v) is %.500q, want %.500q", in, query, got, want)
	}
}

func keys(records []memory.Record) []string {
	var keys []string
	for _, record := range records {
		keys = append(keys, record.Key)
	}
	return keys
}
