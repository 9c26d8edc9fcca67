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

// testTimeout bounds each test, in case the store blocks.
const testTimeout = time.Minute

var errTimeout = errors.New("the store did not finish within " + testTimeout.String())

// A fixture is the state of one test.
type fixture struct {
	*testing.T
	ctx   context.Context
	store memory.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), testTimeout, errTimeout)
	t.Cleanup(cancel)
	return &fixture{T: t, ctx: ctx}
}

// close closes the store if it implements io.Closer.
func (f *fixture) close() {
	f.Helper()
	if closer, ok := f.store.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			f.Errorf("Close: %v", err)
		}
	}
}

// conversations returns the collection that most tests use.
func conversations() memory.Collection { return memory.Collection{Kind: memory.Conversations} }

func factsAbout(user string) memory.Collection {
	return memory.Collection{Kind: memory.Facts, User: user}
}

func (f *fixture) save(in memory.Collection, key, value string) {
	f.Helper()
	if err := f.store.Save(f.ctx, in, memory.Record{Key: key, Value: value}); err != nil {
		f.Errorf("Save(%+v, %q): %v", in, key, err)
	}
}

func (f *fixture) wantValue(in memory.Collection, key, want string) {
	f.Helper()
	switch got, err := f.store.Load(f.ctx, in, key); {
	case err != nil:
		f.Errorf("Load(%+v, %q): %v", in, key, err)
	case got != want:
		f.Errorf("Load(%+v, %q) returns %.100q, %d bytes, want %.100q, %d bytes", in, key, got, len(got), want, len(want))
	}
}

func (f *fixture) wantMissing(in memory.Collection, key string) {
	f.Helper()
	if got, err := f.store.Load(f.ctx, in, key); !errors.Is(err, memory.ErrNotFound) {
		f.Errorf("Load(%+v, %q) returns %.100q, error %v, want ErrNotFound", in, key, got, err)
	}
}

func (f *fixture) wantDelete(in memory.Collection, key string, want bool) {
	f.Helper()
	if got, err := f.store.Delete(f.ctx, in, key); err != nil || got != want {
		f.Errorf("Delete(%+v, %q) returns %t, error %v, want %t", in, key, got, err, want)
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

// wantKeys checks the keys that a query returns.
func (f *fixture) wantKeys(in memory.Collection, query memory.Query, want ...string) {
	f.Helper()
	if got := keys(f.list(in, query)); !slices.Equal(got, want) {
		f.Errorf("List(%+v, %+v) returns %.500q, want %.500q", in, query, got, want)
	}
}

func keys(records []memory.Record) []string {
	var keys []string
	for _, record := range records {
		keys = append(keys, record.Key)
	}
	return keys
}
