package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// Values and jobs have a common limit. What has expired makes room, and bytes are counted
// exactly.
func TestMemoryBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		m := open(t, &MemoryOptions{Bytes: 20_000})
		data := make([]byte, size)
		for name, add := range map[string]func(name string) error{
			"values": func(name string) error {
				_, err := m.Create(t.Context(), name, data, 5*time.Minute)
				return err
			},
			"jobs": func(name string) error { return m.Push(t.Context(), name, name, data) },
		} {
			n, err := 0, error(nil)
			for err == nil {
				if err = add(fmt.Sprint(name, n)); err == nil {
					n++
				}
			}
			if !errors.Is(err, ErrFull) || n < 10 {
				t.Errorf("%d %s fit, then %v", n, name, err)
			}
			for i := range n {
				if name == "jobs" {
					job, err := m.Pull(t.Context(), fmt.Sprint(name, i))
					if err != nil {
						t.Fatal(err)
					}
					if err := m.Ack(t.Context(), job); err != nil {
						t.Fatal(err)
					}
				}
			}
			pass(5 * time.Minute)
			revision, err := m.Create(t.Context(), "other", data, 0)
			if err != nil {
				t.Fatalf("Create after the %s expired: %v", name, err)
			}
			if want := valueSize("other", data); m.bytes != want {
				t.Errorf("%d bytes are counted, want %d", m.bytes, want)
			}
			for _, size := range []int{500, 2000, 0} {
				if revision, err = m.Update(t.Context(), "other", make([]byte, size), revision, time.Minute); err != nil {
					t.Fatal(err)
				}
				if want := valueSize("other", make([]byte, size)); m.bytes != want {
					t.Errorf("%d bytes are counted after Update, want %d", m.bytes, want)
				}
			}
			if err := m.Delete(t.Context(), "other", revision); err != nil || m.bytes != 0 {
				t.Errorf("%d bytes are counted after Delete: %v", m.bytes, err)
			}
		}
		if len(m.kv.items)+len(m.kv.expiries)+len(m.queues.queues)+len(m.queues.pushed)+len(m.queues.order) > 0 {
			t.Errorf("the empty store has %+v, %+v", m.kv, m.queues)
		}
		for operation, err := range map[string]error{
			"Create": func() error {
				_, err := m.Create(t.Context(), "large", make([]byte, m.maxBytes), 0)
				return err
			}(),
			"Push":    m.Push(t.Context(), "large", "large", make([]byte, m.maxBytes)),
			"Publish": m.Publish(t.Context(), "large", make([]byte, maxWaitingBytes+1)),
		} {
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s of a value above the limit: %v", operation, err)
			}
		}
	})
}

// The heap stays near the limit.
func TestMemoryBytesHeap(t *testing.T) {
	const limit = 4 << 20
	for name, add := range map[string]func(ctx context.Context, m *memory, i int) error{
		"small values": func(ctx context.Context, m *memory, i int) error {
			_, err := m.Create(ctx, fmt.Sprint(i), nil, time.Hour)
			return err
		},
		"values": func(ctx context.Context, m *memory, i int) error {
			_, err := m.Create(ctx, fmt.Sprint(i), make([]byte, i%3000), 0)
			return err
		},
		"jobs of one queue": func(ctx context.Context, m *memory, i int) error {
			return m.Push(ctx, "queue", fmt.Sprint(i), nil)
		},
		"jobs of many queues": func(ctx context.Context, m *memory, i int) error {
			return m.Push(ctx, fmt.Sprintf("%200d", i+1e9)[190:], fmt.Sprint(i), nil)
		},
		"ids that are remembered": func(ctx context.Context, m *memory, i int) error {
			if err := m.Push(ctx, "queue", fmt.Sprint(i), nil); err != nil {
				return err
			}
			job, err := m.Pull(ctx, "queue")
			if err != nil {
				return err
			}
			return m.Ack(ctx, job)
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := heapBytes()
			m := open(t, &MemoryOptions{Bytes: limit})
			err := error(nil)
			for i := 0; err == nil; i++ {
				err = add(t.Context(), m, i)
			}
			if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			checkHeap(t, heapBytes()-before, m.bytes, limit)
			runtime.KeepAlive(m)
		})
	}
}

// A value that is refused has no revision.
func TestMemoryRefusedValue(t *testing.T) {
	m := open(t, nil)
	if _, err := m.Create(t.Context(), "a", nil, 0); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func() (uint64, error){
		"negative time to live": func() (uint64, error) { return m.Create(t.Context(), "b", nil, -1) },
		"existing key":          func() (uint64, error) { return m.Create(t.Context(), "a", nil, 0) },
		"other revision":        func() (uint64, error) { return m.Update(t.Context(), "a", nil, 7, 0) },
		"empty name":            func() (uint64, error) { return m.Create(t.Context(), "", nil, 0) },
	} {
		if revision, err := put(); revision != 0 || err == nil {
			t.Errorf("%s: got the revision %d, %v", name, revision, err)
		}
	}
}

// A long time to live, lease or delay does not end early.
func TestMemoryLongTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, &MemoryOptions{Limits: Limits{Lease: math.MaxInt64, LogAge: math.MaxInt64}})
		pass(time.Hour)
		if _, err := m.Create(t.Context(), "key", nil, math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Append(t.Context(), "stream", nil); err != nil {
			t.Fatal(err)
		}
		var held *Job
		for _, id := range []string{"held", "returned"} {
			if err := m.Push(t.Context(), "queue", id, nil); err != nil {
				t.Fatal(err)
			}
			job, err := m.Pull(t.Context(), "queue")
			if err != nil {
				t.Fatal(err)
			}
			if id == "held" {
				held = job
			} else if err := m.Nak(t.Context(), job, math.MaxInt64); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Hour)
		if _, err := m.Get(t.Context(), "key"); err != nil {
			t.Error(err)
		}
		if ids := readIDs(t, m, "stream"); len(ids) != 1 {
			t.Errorf("the stream has the entries %d, want one", ids)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if job, err := m.Pull(ctx, "queue"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Pull: %+v, %v", job, err)
		}
		if err := m.Ack(t.Context(), held); err != nil {
			t.Error(err)
		}
	})
}

// A watcher that is late by too many deleted keys ends. Others are not affected.
func TestMemoryWatchSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, nil)
		if _, err := m.Create(t.Context(), "a/0", nil, 0); err != nil {
			t.Fatal(err)
		}
		var failed error
		count := 0
		for _, err := range m.Watch(t.Context(), "a") {
			if err != nil {
				failed = err
				break
			}
			if count++; count > 1 {
				continue
			}
			for i := range maxDeleted + 10 {
				key := fmt.Sprint("a/", i+1)
				revision, err := m.Create(t.Context(), key, nil, 0)
				if err == nil {
					err = m.Delete(t.Context(), key, revision)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if failed != errSlowWatcher || count != 1 {
			t.Errorf("Watch has yielded %d values, then %v", count, failed)
		}
		if len(m.kv.watchers) > 0 {
			t.Error("a watcher is left")
		}
		for item, err := range m.Watch(t.Context(), "a") {
			if err != nil || item.Key != "a/0" {
				t.Errorf("Watch yields %+v, %v", item, err)
			}
			break
		}
	})
}

// A value that has expired before it was yielded is yielded as deleted.
func TestMemoryWatchExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, nil)
		for _, key := range []string{"a/0", "a/1", "a/2"} {
			if _, err := m.Create(t.Context(), key, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		var got []Item
		for item, err := range m.Watch(t.Context(), "a") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, item)
			if len(got) == 1 {
				if err := m.Delete(t.Context(), "a/1", 0); err != nil {
					t.Fatal(err)
				}
				if _, err := m.Create(t.Context(), "a/1", nil, time.Second); err != nil {
					t.Fatal(err)
				}
				pass(time.Second)
			}
			if len(got) == 4 {
				break
			}
		}
		if last := got[3]; last.Key != "a/1" || !last.Deleted || last.Revision != m.kv.revision {
			t.Errorf("Watch yields %+v at the end", last)
		}
	})
}
