package state_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A named store remembers the names that a sealed store uses.
type named struct {
	store.Store
	mu         sync.Mutex
	key, queue string
}

func (n *named) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	n.mu.Lock()
	n.key = key
	n.mu.Unlock()
	return n.Store.Create(ctx, key, value, ttl)
}

func (n *named) Push(ctx context.Context, queue, id string, data []byte) error {
	n.mu.Lock()
	n.queue = queue
	n.mu.Unlock()
	return n.Store.Push(ctx, queue, id, data)
}

// sealedStore returns a sealed store, and the engine under it.
func sealedStore(t *testing.T) (*named, store.Store) {
	t.Helper()
	engine := &named{Store: newStore(t)}
	sealed, err := store.Sealed(engine, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return engine, sealed
}

// A record that is forged in the engine of a sealed store does not keep the others from being watched.
func TestForgedRecordOfSealedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, sealed := sealedStore(t)
		records := state.NewRecords[cake](sealed, nil)
		create := func(name string) {
			t.Helper()
			if _, err := records.Create(t.Context(), "cakes/"+name, cake{name, 8}, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		forge := func() {
			t.Helper()
			item, err := engine.Get(t.Context(), engine.key)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := engine.Update(t.Context(), engine.key, []byte("forged"), item.Revision, 0); err != nil {
				t.Fatal(err)
			}
		}
		create("unknown")
		forge()
		var mu sync.Mutex
		var got []string
		var watching sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		watching.Go(func() {
			for change, err := range records.Watch(ctx, "cakes") {
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case errors.Is(err, store.ErrForged):
					got = append(got, change.Key+" is forged")
				default:
					got = append(got, fmt.Sprint(change.Key, " ", err))
				}
				mu.Unlock()
			}
		})
		synctest.Wait()
		create("plum")
		synctest.Wait()
		forge()
		synctest.Wait()
		create("pear")
		synctest.Wait()
		cancel()
		watching.Wait()
		if want := []string{"cakes is forged", "cakes/plum <nil>", "cakes/plum is forged", "cakes/pear <nil>"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Jobs that are forged in the engine of a sealed store do not delay the others, and are not delivered again.
func TestForgedJobsOfSealedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, sealed := sealedStore(t)
		push := func(s store.Store, queue, id string) {
			t.Helper()
			if err := s.Push(t.Context(), queue, id, []byte(id)); err != nil {
				t.Fatal(err)
			}
		}
		push(sealed, "jobs", "first")
		for i := range 100 {
			push(engine.Store, engine.queue, fmt.Sprint("forged", i))
		}
		push(sealed, "jobs", "last")
		var log bytes.Buffer
		var mu sync.Mutex
		var done []string
		began := time.Now()
		w := &state.Worker{Queue: sealed, Name: "jobs", Max: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		w.Do = func(job *store.Job) {
			mu.Lock()
			done = append(done, fmt.Sprintf("%s after %v", job.Data, time.Since(began)))
			mu.Unlock()
			w.Finish(job)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		w.Work(ctx)
		if want := []string{"first after 0s", "last after 0s"}; !slices.Equal(done, want) {
			t.Errorf("done: %q, want %q", done, want)
		}
		if n := bytes.Count(log.Bytes(), []byte("not authentic")); n != 100 {
			t.Errorf("%d forged jobs were reported in an hour, want 100", n)
		}
	})
}
