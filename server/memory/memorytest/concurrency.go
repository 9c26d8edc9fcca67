package memorytest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/server/memory"
)

const (
	users  = 8
	rounds = 50 // of each
)

// Users save, delete and list at the same time, some of them in one collection: each
// sees all of its own, and lists have an order at any time.
func testConcurrency(f *fixture) {
	var all sync.WaitGroup
	for user := range users {
		in, name := about(fmt.Sprint("user ", user%2)), fmt.Sprintf("%d/", user)
		all.Go(func() {
			for round := range rounds {
				key := fmt.Sprintf("%s%02d", name, round)
				f.save(in, key, "value of "+key)
				f.holds(in, key, "value of "+key)
				f.followsOrder(in)
				if round%2 == 1 {
					f.deletes(in, key, true)
					f.lacks(in, key)
				}
			}
			if own := f.list(in, memory.Query{Prefix: name}); len(own) != rounds/2 {
				f.Errorf("user %d has %d records, want %d", user, len(own), rounds/2)
			}
		})
	}
	all.Wait()
	for user := range 2 {
		if left := f.list(about(fmt.Sprint("user ", user)), memory.Query{}); len(left) != users/2*rounds/2 {
			f.Errorf("%d records are left, want %d", len(left), users/2*rounds/2)
		}
	}
}

func (f *fixture) followsOrder(in memory.Collection) {
	f.Helper()
	records := f.list(in, memory.Query{Values: true})
	if got := keys(records); !slices.IsSorted(got) || len(slices.Compact(got)) != len(records) {
		f.Errorf("a list without order: %.500q", got)
	}
	for _, record := range records {
		if record.Value != "value of "+record.Key {
			f.Errorf("%q holds %.100q", record.Key, record.Value)
		}
	}
}

// Many save under one key: whoever reads it sees one value, whole.
func testOneKey(f *fixture) {
	valueOf := func(user int) string { return strings.Repeat(string(rune('a'+user)), 1000*(user+1)) }
	whole := make([]string, users)
	for user := range users {
		whole[user] = valueOf(user)
	}
	f.save(here(), "key", whole[0])
	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			for range rounds {
				f.save(here(), "key", whole[user])
				if got, err := f.store.Load(f.ctx, here(), "key"); err != nil || !slices.Contains(whole, got) {
					f.Errorf("read while others save: %d bytes %.50q, error %v", len(got), got, err)
				}
			}
		})
	}
	all.Wait()
	f.lists(here(), memory.Query{}, "key")
}

// Of many who delete a record, one is told that there was one.
func testOneDeletes(f *fixture) {
	for round := range rounds {
		key := fmt.Sprint("key ", round)
		f.save(here(), key, "")
		var deleted atomic.Int32
		var all sync.WaitGroup
		for range users {
			all.Go(func() {
				was, err := f.store.Delete(f.ctx, here(), key)
				if err != nil {
					f.Errorf("Delete: %v", err)
				} else if was {
					deleted.Add(1)
				}
			})
		}
		all.Wait()
		if n := deleted.Load(); n != 1 {
			f.Errorf("%d have deleted %q, want 1", n, key)
			return
		}
	}
}

// Many save at once into what has room for a few.
func testConcurrentSaves(f *fixture) {
	var saved, refused atomic.Int32
	var all sync.WaitGroup
	for user := range users {
		all.Go(func() {
			for round := range room {
				err := f.store.Save(f.ctx, here(), memory.Record{Key: fmt.Sprint(user, "/", round)})
				switch full, ok := errors.AsType[*memory.FullError](err); {
				case err == nil:
					saved.Add(1)
				case ok && full.Limit == room:
					refused.Add(1)
				default:
					f.Errorf("Save: %v, want a *FullError of limit %d", err, room)
				}
			}
		})
	}
	all.Wait()
	if n := len(f.list(here(), memory.Query{})); n != room || saved.Load() != room || refused.Load() != (users-1)*room {
		f.Errorf("%d of %d records were taken, %d are there, want %d", saved.Load(), users*room, n, room)
	}
}
