package nats_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// waitTimeout bounds the wait of these tests for one event.
const waitTimeout = 30 * time.Second

// clear removes all that the server has stored. It does not run.
func (m *member) clear() {
	m.t.Helper()
	entries, err := os.ReadDir(m.options.StoreDir)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(m.options.StoreDir, entry.Name())))
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// losses are the ways in which a server loses what the stores with some prefixes have stored.
var losses = map[string]func(m *member, prefixes []string){
	"streams deleted": func(m *member, prefixes []string) {
		for _, prefix := range prefixes {
			deleteStreams(m.t, m.url(), prefix)
		}
	},
	"folder emptied": func(m *member, _ []string) {
		m.stop()
		m.clear()
		m.start()
	},
}

// A past is what a store stored before the server lost it.
type past struct {
	revision, id uint64
	job          *store.Job
}

// storePast stores a value, an entry and a job, and takes the job.
func storePast(t *testing.T, s *nats.Store) (p past) {
	t.Helper()
	var errs [4]error
	p.revision, errs[0] = s.Create(t.Context(), "a", []byte("before"), 0)
	p.id, errs[1] = s.Append(t.Context(), "a", []byte("before"))
	errs[2] = s.Push(t.Context(), "a", "before", nil)
	p.job, errs[3] = s.Pull(t.Context(), "a")
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return p
}

// An operation uses a store that has no data now, and checks the result.
type operation struct {
	name  string
	run   func(ctx context.Context, s *nats.Store, p past) error
	lost  bool // only if there was something before
	waits bool // until the server can be reached
}

var errResult = errors.New("the result is wrong")

// wants returns an error unless an operation has the error that is expected.
func wants(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("%w: error %w, want %w", errResult, err, want)
}

func operations() []operation {
	data := []byte("after")
	return []operation{
		{name: "Get", run: func(ctx context.Context, s *nats.Store, _ past) error {
			_, err := s.Get(ctx, "a")
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		}},
		{name: "Create", run: func(ctx context.Context, s *nats.Store, p past) error {
			revision, err := s.Create(ctx, "a", data, 0)
			if err != nil {
				return err
			}
			item, err := s.Get(ctx, "a")
			if err == nil && (string(item.Value) != "after" || item.Revision != revision || revision <= p.revision) {
				err = errResult
			}
			return err
		}},
		{name: "Update", lost: true, run: func(ctx context.Context, s *nats.Store, p past) error {
			_, err := s.Update(ctx, "a", data, p.revision, 0)
			return wants(err, store.ErrConflict)
		}},
		{name: "Update after Create", lost: true, run: func(ctx context.Context, s *nats.Store, p past) error {
			if _, err := s.Create(ctx, "a", data, 0); err != nil {
				return err
			}
			_, err := s.Update(ctx, "a", data, p.revision, 0)
			return wants(err, store.ErrConflict)
		}},
		{name: "Delete", run: func(ctx context.Context, s *nats.Store, _ past) error { return s.Delete(ctx, "a", 0) }},
		{name: "Delete of a revision", lost: true, run: func(ctx context.Context, s *nats.Store, p past) error {
			return wants(s.Delete(ctx, "a", p.revision), store.ErrConflict)
		}},
		{name: "Watch", waits: true, run: func(ctx context.Context, s *nats.Store, _ past) error {
			go func() { _, _ = s.Create(ctx, "a", data, 0) }() // Watch shows whether it succeeds
			for item, err := range s.Watch(ctx, "a") {
				if err == nil && string(item.Value) != "after" {
					err = errResult
				}
				return err
			}
			return errResult
		}},
		{name: "Append", run: func(ctx context.Context, s *nats.Store, p past) error {
			id, err := s.Append(ctx, "a", data)
			if err != nil || id <= p.id {
				return cmp.Or(err, errResult)
			}
			for entry, err := range s.Read(ctx, "a", 0) {
				if err != nil || entry.ID != id {
					return cmp.Or(err, errResult)
				}
			}
			return nil
		}},
		{name: "Read", run: func(ctx context.Context, s *nats.Store, _ past) error {
			for _, err := range s.Read(ctx, "a", 0) {
				return cmp.Or(err, errResult)
			}
			return nil
		}},
		{name: "Read after an entry", lost: true, run: func(ctx context.Context, s *nats.Store, p past) error {
			for _, err := range s.Read(ctx, "a", p.id) {
				return wants(err, store.ErrPurged)
			}
			return errResult
		}},
		{name: "Follow", waits: true, run: func(ctx context.Context, s *nats.Store, _ past) error {
			go func() { _, _ = s.Append(ctx, "a", data) }() // Follow shows whether it succeeds
			for entry, err := range s.Follow(ctx, "a", 0) {
				if err == nil && string(entry.Data) != "after" {
					err = errResult
				}
				return err
			}
			return errResult
		}},
		{name: "Follow after an entry", lost: true, run: func(ctx context.Context, s *nats.Store, p past) error {
			for _, err := range s.Follow(ctx, "a", p.id) {
				return wants(err, store.ErrPurged)
			}
			return errResult
		}},
		{name: "Drop", run: func(ctx context.Context, s *nats.Store, _ past) error { return s.Drop(ctx, "a") }},
		{name: "Push", run: func(ctx context.Context, s *nats.Store, _ past) error {
			if err := s.Push(ctx, "a", "before", data); err != nil { // the same id
				return err
			}
			job, err := s.Pull(ctx, "a")
			if err == nil {
				err = s.Ack(ctx, job)
			}
			return err
		}},
		{name: "Pull", waits: true, run: func(ctx context.Context, s *nats.Store, _ past) error {
			go func() { _ = s.Push(ctx, "a", "after", nil) }() // Pull shows whether it succeeds
			job, err := s.Pull(ctx, "a")
			if err == nil && job.ID != "after" {
				err = errResult
			}
			return err
		}},
		{name: "Ack", lost: true, run: func(ctx context.Context, s *nats.Store, p past) error {
			return wants(s.Ack(ctx, p.job), store.ErrLost)
		}},
		{name: "Nak", lost: true, run: func(ctx context.Context, s *nats.Store, p past) error {
			return wants(s.Nak(ctx, p.job, 0), store.ErrLost)
		}},
		{name: "Extend", lost: true, run: func(ctx context.Context, s *nats.Store, p past) error {
			return wants(s.Extend(ctx, p.job), store.ErrLost)
		}},
		{name: "Publish", run: func(ctx context.Context, s *nats.Store, _ past) error { return s.Publish(ctx, "a", data) }},
		{name: "Subscribe", run: func(ctx context.Context, s *nats.Store, _ past) error {
			stop, err := s.Subscribe(ctx, "a", func(ctx context.Context, m store.Message) {
				if m.Reply != nil {
					_ = m.Reply(ctx, m.Data) // Request shows whether it has arrived
				}
			})
			if err != nil {
				return err
			}
			defer stop()
			_, err = s.Request(ctx, "a", data)
			return err
		}},
		{name: "Request", run: func(ctx context.Context, s *nats.Store, _ past) error {
			_, err := s.Request(ctx, "a", data)
			if errors.Is(err, store.ErrNoResponder) {
				return nil
			}
			return err
		}},
	}
}

// Each operation creates streams that the server has lost, and is done.
func TestOperationsAfterLoss(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMember(t, server.Options{})
			all, prefix := operations(), unique()
			stores, pasts, prefixes := make([]*nats.Store, len(all)), make([]past, len(all)), make([]string, len(all))
			for i := range all {
				prefixes[i] = prefix()
				stores[i] = connect(t, m.url(), &nats.Options{Prefix: prefixes[i], Timeout: waitTimeout})
				pasts[i] = storePast(t, stores[i])
			}
			lose(m, prefixes)
			var running sync.WaitGroup
			defer running.Wait()
			for i, op := range all {
				running.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
					defer cancel()
					if err := op.run(ctx, stores[i], pasts[i]); err != nil {
						t.Errorf("%s: %v", op.name, err)
					}
				})
			}
		})
	}
}

// Operations before the server runs fail within the limit, or are done when the server runs. The rest of
// the properties of such a store is tested by [TestServer].
func TestOperationsBeforeServer(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{})
	url := m.url()
	m.stop()
	prefix := unique()
	var failing, running sync.WaitGroup
	for _, op := range operations() {
		if op.lost {
			continue
		}
		short := connect(t, url, &nats.Options{Prefix: prefix(), Timeout: 300 * time.Millisecond})
		long := connect(t, url, &nats.Options{Prefix: prefix(), Timeout: waitTimeout})
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		defer cancel()
		if !op.waits {
			failing.Go(func() {
				if err := op.run(ctx, short, past{}); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "cannot be reached") {
					t.Errorf("%s: error %v, want one that says that the server cannot be reached", op.name, err)
				}
			})
		}
		running.Go(func() {
			if err := op.run(ctx, long, past{}); err != nil {
				t.Errorf("%s when the server runs: %v", op.name, err)
			}
		})
	}
	failing.Wait()
	m.start()
	running.Wait()
}

// Waits that began before the loss go on or end with an error.
func TestWaitsAtLoss(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMember(t, server.Options{})
			s, other := connect(t, m.url(), nil), connect(t, m.url(), nil)
			p := storePast(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			var waiting, running sync.WaitGroup
			waiting.Add(3)
			running.Go(func() {
				var last error
				items := 0
				for _, err := range s.Watch(ctx, "a") {
					if last = err; err == nil {
						if items++; items == 1 {
							waiting.Done()
						}
					}
				}
				if items != 1 || last == nil || ctx.Err() != nil {
					t.Errorf("Watch yields %d items and ends with %v, want an error after the first item", items, last)
				}
			})
			running.Go(func() {
				var last error
				var ids []uint64
				for entry, err := range s.Follow(ctx, "a", 0) {
					if last = err; err == nil {
						if ids = append(ids, entry.ID); len(ids) == 1 {
							waiting.Done()
						}
					}
				}
				if len(ids) != 1 || ids[0] != p.id || !errors.Is(last, store.ErrPurged) {
					t.Errorf("Follow yields the entries %v and ends with %v, want %d and %v", ids, last, p.id, store.ErrPurged)
				}
			})
			running.Go(func() {
				waiting.Done()
				if job, err := s.Pull(ctx, "a"); err != nil || job.ID != "after" {
					t.Errorf("Pull: %+v, %v", job, err)
				}
			})
			received := make(chan struct{}, 1)
			stop, err := s.Subscribe(ctx, "a", func(_ context.Context, m store.Message) {
				if string(m.Data) == "after" {
					received <- struct{}{}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			waiting.Wait()

			lose(m, []string{nats.DefaultPrefix})
			retry(t, ctx, "Append", func() error {
				_, err := other.Append(ctx, "a", []byte("after"))
				return err
			})
			retry(t, ctx, "Push", func() error { return other.Push(ctx, "a", "after", nil) })
			running.Wait()
			retry(t, ctx, "Publish", func() error { return other.Publish(ctx, "a", []byte("after")) })
			select {
			case <-received:
			case <-ctx.Done():
				t.Error("the subscriber has received nothing")
			}
		})
	}
}

// All replicas may create the streams at the same time.
func TestConcurrentCreation(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{})
	stores := make([]*nats.Store, 5)
	for i := range stores {
		stores[i] = connect(t, m.url(), nil)
	}
	for round := range 3 {
		var running sync.WaitGroup
		for i, s := range stores {
			for n := range 5 {
				running.Go(func() {
					if _, err := s.Append(t.Context(), "a", nil); err != nil {
						t.Errorf("round %d: store %d: entry %d: %v", round, i, n, err)
					}
				})
			}
		}
		running.Wait()
		count := 0
		for _, err := range stores[0].Read(t.Context(), "a", 0) {
			if count++; err != nil {
				t.Fatal(err)
			}
		}
		if count != 25 {
			t.Errorf("round %d: %d entries are stored, want 25", round, count)
		}
		deleteStreams(t, m.url(), nats.DefaultPrefix)
	}
}
