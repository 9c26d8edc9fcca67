package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/store"
)

type cake struct {
	Name   string `json:"name"`
	Slices int    `json:"slices,omitempty"`
}

// A counting counts the reads of a store.
type counting struct {
	store.KV
	reads atomic.Int32
}

func (c *counting) Get(ctx context.Context, key string) (store.Item, error) {
	c.reads.Add(1)
	return c.KV.Get(ctx, key)
}

func fixedKey(t *testing.T, fill byte) *state.Key {
	t.Helper()
	ring, err := token.NewRing(bytes.Repeat([]byte{fill}, token.MinKey))
	if err != nil {
		t.Fatal(err)
	}
	return state.FixedKey(ring)
}

// sealings are the two forms of records.
func sealings(t *testing.T) map[string]*state.Key {
	return map[string]*state.Key{"sealed": fixedKey(t, 1), "plain": nil}
}

// eat takes a slice.
func eat(rec *state.Record[cake]) error {
	rec.Value.Slices--
	return nil
}

func TestRecordOfManyReplicas(t *testing.T) {
	for name, key := range sealings(t) {
		t.Run(name, func(t *testing.T) {
			kv := newStore(t)
			const replicas, each = 8, 50
			first := state.NewRecords[cake](kv, key)
			if _, err := first.Create(t.Context(), "cake", cake{"plum", replicas * each}, time.Time{}); err != nil {
				t.Fatal(err)
			}
			var running sync.WaitGroup
			for range replicas {
				running.Go(func() {
					records := state.NewRecords[cake](kv, key)
					for range each {
						if _, err := records.Update(t.Context(), "cake", eat); err != nil {
							t.Error(err)
						}
					}
				})
			}
			running.Wait()
			if rec, err := first.Load(t.Context(), "cake"); err != nil || rec.Value != (cake{"plum", 0}) {
				t.Errorf("the record is %+v, %v", rec, err)
			}
		})
	}
}

// A faster store creates a value before each other one.
type faster struct{ store.KV }

func (f faster) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if _, err := f.KV.Create(ctx, key, value, ttl); err != nil {
		return 0, err
	}
	return f.KV.Create(ctx, key, value, ttl)
}

// A record that another replica has created first is changed.
func TestRecordThatAnotherReplicaCreates(t *testing.T) {
	rec, err := state.NewRecords[cake](faster{newStore(t)}, nil).Put(t.Context(), "cake", eat)
	if err != nil || rec.Value.Slices != -2 {
		t.Errorf("got %+v, %v", rec, err)
	}
}

// The table crosses the operations with what is stored under the key.
func TestOperationsOfRecords(t *testing.T) {
	unreadable := state.ErrUnreadable
	for stored, want := range map[string]struct{ load, create, update, put, remove error }{
		"nothing":         {store.ErrNotFound, nil, store.ErrNotFound, nil, nil},
		"a record":        {nil, store.ErrExists, nil, nil, nil},
		"an ended record": {store.ErrNotFound, store.ErrExists, store.ErrNotFound, nil, nil},
		"another version": {unreadable, store.ErrExists, unreadable, unreadable, nil},
		"no JSON":         {unreadable, store.ErrExists, unreadable, unreadable, nil},
		"another type":    {unreadable, store.ErrExists, unreadable, unreadable, nil},
		"no seal":         {unreadable, store.ErrExists, unreadable, unreadable, nil},
		"another key":     {unreadable, store.ErrExists, unreadable, unreadable, nil},
		"another name":    {unreadable, store.ErrExists, unreadable, unreadable, nil},
	} {
		for operation, test := range map[string]struct {
			run  func(records state.Records[cake]) error
			want error
		}{
			"load": {func(r state.Records[cake]) error { _, err := r.Load(t.Context(), "cake"); return err }, want.load},
			"create": {func(r state.Records[cake]) error {
				_, err := r.Create(t.Context(), "cake", cake{}, time.Time{})
				return err
			}, want.create},
			"update": {func(r state.Records[cake]) error { _, err := r.Update(t.Context(), "cake", eat); return err }, want.update},
			"put":    {func(r state.Records[cake]) error { _, err := r.Put(t.Context(), "cake", eat); return err }, want.put},
			"delete": {func(r state.Records[cake]) error { return r.Delete(t.Context(), "cake", nil) }, want.remove},
		} {
			t.Run(stored+"/"+operation, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					kv, key := newStore(t), fixedKey(t, 1)
					create := func(name string, key *state.Key, until time.Time) {
						if _, err := state.NewRecords[cake](kv, key).Create(t.Context(), name, cake{"plum", 8}, until); err != nil {
							t.Fatal(err)
						}
					}
					sealed := map[string]string{"another version": `{"version":2,"value":{}}`, "no JSON": "x", "another type": `{"version":1,"value":[]}`}
					switch stored {
					case "a record":
						create("cake", key, time.Now().Add(time.Hour))
					case "an ended record":
						create("cake", key, time.Now().Add(time.Second))
						<-time.After(2 * time.Second) // it is still in the store
					case "another version", "no JSON", "another type":
						sealed, err := key.SealBytes(t.Context(), []byte(sealed[stored]), token.Binding("record", "cake"))
						if err != nil {
							t.Fatal(err)
						}
						if _, err := kv.Create(t.Context(), "cake", sealed, 0); err != nil {
							t.Fatal(err)
						}
					case "no seal":
						if _, err := kv.Create(t.Context(), "cake", []byte(`{"version":1,"value":{}}`), 0); err != nil {
							t.Fatal(err)
						}
					case "another key":
						create("cake", fixedKey(t, 2), time.Time{})
					case "another name":
						create("pie", key, time.Time{})
						item, err := kv.Get(t.Context(), "pie")
						if err != nil {
							t.Fatal(err)
						}
						if _, err := kv.Create(t.Context(), "cake", item.Value, 0); err != nil {
							t.Fatal(err)
						}
					}
					before, _ := kv.Get(t.Context(), "cake") // it may not exist
					err := test.run(state.NewRecords[cake](kv, key))
					if !errors.Is(err, test.want) || stored == "another version" && test.want == unreadable && !strings.Contains(err.Error(), "version 2, expected 1") {
						t.Errorf("error %v, want %v", err, test.want)
					}
					if after, _ := kv.Get(t.Context(), "cake"); test.want != nil && !bytes.Equal(after.Value, before.Value) {
						t.Error("a refused operation has changed the store")
					}
				})
			})
		}
	}
}

func TestChangeThatEnds(t *testing.T) {
	kv := newStore(t)
	records := state.NewRecords[cake](kv, nil)
	created, err := records.Create(t.Context(), "cake", cake{"plum", 8}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no")
	for _, end := range []error{failed, state.ErrUnchanged} {
		rec, err := records.Update(t.Context(), "cake", func(rec *state.Record[cake]) error {
			rec.Value.Slices = 0
			return end
		})
		if end == failed && !errors.Is(err, failed) || end != failed && (err != nil || rec == nil) {
			t.Errorf("%v gives %+v, %v", end, rec, err)
		}
	}
	if rec, err := records.Load(t.Context(), "cake"); err != nil || rec.Value.Slices != 8 {
		t.Errorf("the record is %+v, %v", rec, err)
	}
	if _, err := records.Update(t.Context(), "cake", eat); err != nil {
		t.Fatal(err)
	}
	if err := records.Delete(t.Context(), "cake", created); !errors.Is(err, store.ErrConflict) {
		t.Errorf("deleting an earlier record: %v", err)
	}
}

// A record is extended and never shortened. The table crosses when it ends with when it is asked to end.
func TestExtendedRecord(t *testing.T) {
	const hour = time.Hour
	for name, test := range map[string]struct{ ends, until, want time.Duration }{ // since the beginning; 0 means never
		"later":               {hour, 2 * hour, 2 * hour},
		"earlier":             {2 * hour, hour, 2 * hour},
		"never":               {hour, 0, 0},
		"from never":          {0, hour, 0},
		"none":                {-1, hour, hour},
		"none, never":         {-1, 0, 0},
		"one that has ended":  {time.Second, hour, hour},
		"one that ended, not": {time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				at := func(d time.Duration) time.Time {
					if d == 0 {
						return time.Time{}
					}
					return begun.Add(d)
				}
				records := state.NewRecords[cake](newStore(t), nil)
				if test.ends >= 0 {
					if _, err := records.Create(t.Context(), "cake", cake{}, at(test.ends)); err != nil {
						t.Fatal(err)
					}
				}
				<-time.After(2 * time.Second)
				rec, err := records.Put(t.Context(), "cake", func(rec *state.Record[cake]) error {
					rec.Extend(at(test.until))
					return nil
				})
				if err != nil || !rec.Until.Equal(at(test.want)) {
					t.Errorf("the record ends at %v, want %v; %v", rec.Until, at(test.want), err)
				}
			})
		})
	}
}

// UpdateFrom reads a record only if it has changed.
func TestUpdateFromKnownRecord(t *testing.T) {
	kv := &counting{KV: newStore(t)}
	records := state.NewRecords[cake](kv, nil)
	known, err := records.Create(t.Context(), "cake", cake{"plum", 8}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	next, err := records.UpdateFrom(t.Context(), "cake", known, eat)
	if err != nil || kv.reads.Load() != 0 || known.Value.Slices != 8 {
		t.Errorf("%v after %d reads; the known record is %+v", err, kv.reads.Load(), known)
	}
	if last, err := records.UpdateFrom(t.Context(), "cake", known, eat); err != nil || kv.reads.Load() != 1 || last.Value.Slices != next.Value.Slices-1 {
		t.Errorf("from an earlier record: %+v, %v after %d reads", last, err, kv.reads.Load())
	}
}

func TestWatchedRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kv, key := newStore(t), fixedKey(t, 1)
		records := state.NewRecords[cake](kv, key)
		if _, err := records.Create(t.Context(), "cakes/plum", cake{"plum", 8}, time.Time{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var got []string
		var watching sync.WaitGroup
		watching.Go(func() {
			for change, err := range records.Watch(ctx, "cakes") {
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case err != nil:
					got = append(got, change.Key+" cannot be read")
				case change.Record == nil:
					got = append(got, change.Key+" deleted")
				default:
					got = append(got, fmt.Sprint(change.Key, " ", change.Record.Value.Slices))
				}
				mu.Unlock()
			}
		})
		synctest.Wait()
		if _, err := records.Update(t.Context(), "cakes/plum", eat); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if _, err := kv.Create(t.Context(), "cakes/foreign", []byte("?"), 0); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := records.Delete(t.Context(), "cakes/plum", nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		cancel()
		watching.Wait()
		if want := []string{"cakes/plum 8", "cakes/plum 7", "cakes/foreign cannot be read", "cakes/plum deleted"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The format of records stays as it is, because replicas of different versions share them.
func TestFormatOfRecord(t *testing.T) {
	golden, err := os.ReadFile("testdata/record.json")
	if err != nil {
		t.Fatal(err)
	}
	kv := newStore(t)
	records := state.NewRecords[cake](kv, nil)
	until := time.UnixMilli(4_102_444_800_000)
	if _, err := records.Create(t.Context(), "new", cake{"plum", 8}, until); err != nil {
		t.Fatal(err)
	}
	if item, err := kv.Get(t.Context(), "new"); err != nil || !bytes.Equal(item.Value, bytes.TrimSpace(golden)) {
		t.Errorf("wrote %s, want %s", item.Value, golden)
	}
	if _, err := kv.Create(t.Context(), "old", golden, 0); err != nil {
		t.Fatal(err)
	}
	if rec, err := records.Load(t.Context(), "old"); err != nil || rec.Value != (cake{"plum", 8}) || !rec.Until.Equal(until) {
		t.Errorf("read %+v, %v", rec, err)
	}
}
