package store_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

func TestSealed(t *testing.T) {
	storetest.RunVirtual(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		m := newMemory(t, &store.MemoryOptions{Limits: limits})
		return storetest.Engine{Connect: func() store.Store { return sealed(t, m, 1) }}
	})
}

// sealed returns a store that encrypts what reaches inner, with the key of a number.
func sealed(t testing.TB, inner store.Store, key byte) store.Store {
	t.Helper()
	s, err := store.Sealed(inner, bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantForged(t testing.TB, operation string, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrForged) {
		t.Errorf("%s: %v, want ErrForged", operation, err)
	}
}

// A seen is what an engine receives in one operation.
type seen struct {
	operation, name string
	data            []byte
}

// A spy is a store that remembers what it receives.
type spy struct {
	store.Store
	mu  sync.Mutex
	all []seen
}

func newSpy(t testing.TB) *spy { return &spy{Store: newMemory(t, nil)} }

func (s *spy) add(operation, name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, seen{operation, name, bytes.Clone(data)})
}

// last returns the last that an operation received.
func (s *spy) last(operation string) seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range slices.Backward(s.all) {
		if one.operation == operation {
			return one
		}
	}
	return seen{}
}

func (s *spy) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	s.add("Create", key, value)
	return s.Store.Create(ctx, key, value, ttl)
}

func (s *spy) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	s.add("Update", key, value)
	return s.Store.Update(ctx, key, value, revision, ttl)
}

func (s *spy) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	s.add("Watch", prefix, nil)
	return s.Store.Watch(ctx, prefix)
}

func (s *spy) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	s.add("Append", stream, data)
	return s.Store.Append(ctx, stream, data)
}

func (s *spy) Push(ctx context.Context, queue, id string, data []byte) error {
	s.add("Push", queue, data)
	s.add("Push of id", id, data)
	return s.Store.Push(ctx, queue, id, data)
}

func (s *spy) Ack(ctx context.Context, job *store.Job) error {
	s.add("Ack", job.ID, nil)
	return s.Store.Ack(ctx, job)
}

func (s *spy) Publish(ctx context.Context, subject string, data []byte) error {
	s.add("Publish", subject, data)
	return s.Store.Publish(ctx, subject, data)
}

func (s *spy) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	s.add("Subscribe", subject, nil)
	return s.Store.Subscribe(ctx, subject, func(ctx context.Context, m store.Message) {
		if reply := m.Reply; reply != nil {
			m.Reply = func(ctx context.Context, data []byte) error {
				s.add("Reply", subject, data)
				return reply(ctx, data)
			}
		}
		handle(ctx, m)
	})
}

func (s *spy) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	s.add("Request", subject, data)
	return s.Store.Request(ctx, subject, data)
}

// exchange uses all capabilities of a store, with data and names that contain the same text.
func exchange(t *testing.T, s store.Store, text string) {
	t.Helper()
	ctx, data := t.Context(), []byte(text)
	revision, err := s.Create(ctx, "a/"+text, data, 0)
	ok(t, err)
	_, err = s.Update(ctx, "a/"+text, data, revision, 0)
	ok(t, err)
	for _, err := range s.Watch(ctx, "a/"+text) {
		ok(t, err)
		break
	}
	_, err = s.Append(ctx, "a/"+text, data)
	ok(t, err)
	ok(t, s.Push(ctx, "a/"+text, text, data))
	ok(t, s.Publish(ctx, "a/"+text, data))
	stop, err := s.Subscribe(ctx, "a/"+text, func(ctx context.Context, m store.Message) {
		if err := m.Reply(ctx, m.Data); err != nil {
			t.Error(err)
		}
	})
	ok(t, err)
	defer stop()
	if reply, err := s.Request(ctx, "a/"+text, data); err != nil || string(reply) != text {
		t.Errorf("Request: %q, %v, want %q", reply, err, text)
	}
}

// The engine sees neither data nor names.
func TestSealedHides(t *testing.T) {
	const secret = "canary-of-a-session"
	spy := newSpy(t)
	exchange(t, sealed(t, spy, 1), secret)
	if len(spy.all) != 10 {
		t.Fatalf("the engine received %d names, want 10: %v", len(spy.all), spy.all)
	}
	names := map[string]bool{}
	for _, one := range spy.all {
		if strings.Contains(one.name, secret) || bytes.Contains(one.data, []byte(secret)) {
			t.Errorf("%s shows the secret to the engine: %q, %q", one.operation, one.name, one.data)
		}
		names[one.name] = true
	}
	if len(names) != 5 {
		t.Errorf("the engine received %d names, want a key, a stream, a queue, a job and a subject: %v", len(names), names)
	}
}

// Equal names have equal hashes with one key only, and depend on all segments before.
func TestSealedNames(t *testing.T) {
	spy := newSpy(t)
	nameOf := func(key byte, name string) string {
		ok(t, sealed(t, spy, key).Publish(t.Context(), name, nil))
		return spy.last("Publish").name
	}
	first := strings.Split(nameOf(1, "a/b/b"), "/")
	if len(first) != 3 || first[1] == first[2] {
		t.Errorf("the name of a/b/b is %v, want 3 different segments", first)
	}
	if again := strings.Split(nameOf(1, "a/b/c"), "/"); again[0] != first[0] || again[1] != first[1] || again[2] == first[2] {
		t.Errorf("the names of a/b/b and a/b/c are %v and %v, want two common segments", first, again)
	}
	if other := nameOf(2, "a/b/b"); strings.Contains(other, first[0]) {
		t.Errorf("the name with another key is %v, and %v with the first", other, first)
	}
}

// What has been changed, moved, or encrypted with another key or for something else does not open.
func TestSealedRefusesForgedValues(t *testing.T) {
	spy := newSpy(t)
	s := sealed(t, spy, 1)
	ctx := t.Context()
	_, err := s.Create(ctx, "key", []byte("value"), 0)
	ok(t, err)
	value := spy.last("Create")
	_, err = s.Create(ctx, "other", []byte("other"), 0)
	ok(t, err)
	moved := spy.last("Create").data
	_, err = s.Append(ctx, "key", []byte("entry"))
	ok(t, err)
	entry := spy.last("Append").data
	_, err = sealed(t, spy, 2).Create(ctx, "key", []byte("value"), 0)
	ok(t, err)
	foreign := spy.last("Create").data

	tests := map[string][]byte{"empty": nil, "short": value.data[:39], "cut": value.data[:len(value.data)-1], "moved": moved, "of a stream": entry, "of another key": foreign}
	for i := range value.data {
		changed := bytes.Clone(value.data)
		changed[i] ^= 1
		tests["changed at "+string(rune('A'+i))] = changed
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			item, err := spy.Get(ctx, value.name)
			ok(t, err)
			_, err = spy.Store.Update(ctx, value.name, data, item.Revision, 0)
			ok(t, err)
			_, err = s.Get(ctx, "key")
			wantForged(t, "Get", err)
			for _, err := range s.Watch(ctx, "key") {
				wantForged(t, "Watch", err)
				break
			}
		})
	}
	item, err := spy.Get(ctx, value.name)
	ok(t, err)
	_, err = spy.Store.Update(ctx, value.name, value.data, item.Revision, 0)
	ok(t, err)
	if item, err := s.Get(ctx, "key"); err != nil || string(item.Value) != "value" {
		t.Errorf("Get of the original value: %+v, %v", item, err)
	}
}

// A forged value does not keep the others from being watched.
func TestSealedWatchGoesOn(t *testing.T) {
	spy := newSpy(t)
	s := sealed(t, spy, 1)
	ctx := t.Context()
	for _, key := range []string{"keys/a", "keys/b", "keys/c"} {
		_, err := s.Create(ctx, key, []byte(key), 0)
		ok(t, err)
	}
	name := spy.last("Create").name
	forge := func() {
		t.Helper()
		item, err := spy.Get(ctx, name)
		ok(t, err)
		_, err = spy.Store.Update(ctx, name, []byte("forged"), item.Revision, 0)
		ok(t, err)
	}
	forge()
	for _, test := range []struct {
		name string
		want []string // sorted
	}{{"unknown", []string{"", "keys/a", "keys/b"}}, {"known", []string{"!keys/b", "keys/a", "keys/b", "keys/d"}}} {
		var got []string
		for item, err := range s.Watch(ctx, "keys") {
			if err != nil {
				wantForged(t, "Watch", err)
				if item.Key != "" {
					item.Key = "!" + item.Key
				}
			}
			if got = append(got, item.Key); len(got) == len(test.want) {
				break
			}
			if len(got) == 2 && test.name == "known" {
				name = nameOf(t, spy, s, "keys/b")
				forge()
				_, err = s.Create(ctx, "keys/d", nil, 0)
				ok(t, err)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		ok(t, spy.Delete(ctx, name, 0)) // of the forged value
	}
}

// nameOf returns the encrypted name of a key.
func nameOf(t *testing.T, spy *spy, s store.Store, key string) string {
	t.Helper()
	for range s.Watch(t.Context(), key) {
		break
	}
	return spy.last("Watch").name
}

func TestSealedRefusesForgedEntries(t *testing.T) {
	spy := newSpy(t)
	s := sealed(t, spy, 1)
	ctx := t.Context()
	_, err := s.Append(ctx, "other", []byte("other"))
	ok(t, err)
	other := spy.last("Append")
	_, err = s.Append(ctx, "stream", []byte("1"))
	ok(t, err)
	_, err = spy.Store.Append(ctx, spy.last("Append").name, other.data)
	ok(t, err)
	_, err = s.Append(ctx, "stream", []byte("2"))
	ok(t, err)
	for name, all := range map[string]iter.Seq2[store.Entry, error]{"Read": s.Read(ctx, "stream", 0), "Follow": s.Follow(ctx, "stream", 0)} {
		var got []string
		before := uint64(0)
		for entry, err := range all {
			if entry.ID <= before {
				t.Errorf("%s: the id %d after %d", name, entry.ID, before)
			}
			before = entry.ID
			if err != nil {
				wantForged(t, name, err)
				got = append(got, "error")
				continue
			}
			if got = append(got, string(entry.Data)); len(got) == 3 {
				break
			}
		}
		if want := []string{"1", "error", "2"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A forged job is removed, and the ones after it are delivered.
func TestSealedRefusesForgedJobs(t *testing.T) {
	spy := newSpy(t)
	s := sealed(t, spy, 1)
	ctx := t.Context()
	ok(t, s.Push(ctx, "other", "1", []byte("other")))
	other := spy.last("Push").data
	ok(t, s.Push(ctx, "queue", "1", []byte("1")))
	queue := spy.last("Push").name
	job, err := s.Pull(ctx, "queue")
	ok(t, err)
	ok(t, s.Ack(ctx, job))
	ok(t, spy.Store.Push(ctx, queue, "forged", other))
	ok(t, s.Push(ctx, "queue", "2", []byte("2")))
	_, err = s.Pull(ctx, "queue")
	wantForged(t, "Pull", err)
	if job, err := s.Pull(ctx, "queue"); err != nil || job.ID != "2" || string(job.Data) != "2" {
		t.Errorf("Pull: %+v, %v, want the job 2", job, err)
	}
	if removed := spy.last("Ack").name; removed != "forged" {
		t.Errorf("the job %q was removed, want the forged one", removed)
	}
	foreign := &store.Job{Queue: "queue", ID: "2"}
	for name, err := range map[string]error{"Extend": s.Extend(ctx, foreign), "Ack": s.Ack(ctx, foreign), "Nak": s.Nak(ctx, foreign, 0)} {
		if !errors.Is(err, store.ErrLost) {
			t.Errorf("%s of a job that the store has not returned: %v, want ErrLost", name, err)
		}
	}
}

// A forged message counts as missed, and a forged reply is an error.
func TestSealedRefusesForgedMessages(t *testing.T) {
	spy := newSpy(t)
	s := sealed(t, spy, 1)
	ctx := t.Context()
	exchange(t, s, "other")
	other, request, reply := spy.last("Publish"), spy.last("Request"), spy.last("Reply")

	received := make(chan store.Message, 10)
	stop, err := s.Subscribe(ctx, "subject", func(_ context.Context, m store.Message) { received <- m })
	ok(t, err)
	defer stop()
	subject := spy.last("Subscribe").name
	ok(t, s.Publish(ctx, "subject", []byte("authentic")))
	ok(t, spy.Store.Publish(ctx, subject, other.data))
	ok(t, spy.Store.Publish(ctx, subject, nil))
	if m := waittest.Receive(t, "the message", received); string(m.Data) != "authentic" || m.Missed {
		t.Errorf("received %+v, want an authentic message", m)
	}
	for range 2 {
		if m := waittest.Receive(t, "the message", received); !m.Missed || m.Data != nil || m.Reply != nil {
			t.Errorf("received %+v, want Missed", m)
		}
	}

	// A message is no request, a request no message, and a reply is for one request.
	answers := make(chan store.Message, 10)
	stop, err = s.Subscribe(ctx, "a/other", func(_ context.Context, m store.Message) { answers <- m })
	ok(t, err)
	ok(t, spy.Store.Publish(ctx, request.name, request.data))
	if m := waittest.Receive(t, "an answer", answers); !m.Missed {
		t.Errorf("a request as a message: %+v, want Missed", m)
	}
	stop()
	stop, err = spy.Store.Subscribe(ctx, request.name, func(ctx context.Context, m store.Message) {
		if err := m.Reply(ctx, reply.data); err != nil {
			t.Error(err)
		}
	})
	ok(t, err)
	defer stop()
	_, err = s.Request(ctx, "a/other", []byte("other"))
	wantForged(t, "Request with the reply to another", err)
}

// The segments after the seventh of a prefix are compared after opening.
func TestSealedWatchesLongNames(t *testing.T) {
	s := sealed(t, newMemory(t, nil), 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, prefix := range []string{"1/2/3/4/5/6", "1/2/3/4/5/6/7", "1/2/3/4/5/6/7/8", "1/2/3/4/5/6/7/8/9"} {
		keys := []string{prefix, prefix + "/a", prefix + "/a/b/c"}
		for _, key := range append(keys, prefix+"a", prefix[:len(prefix)-1]+"0") {
			_, err := s.Create(ctx, key, nil, 0)
			ok(t, err)
		}
		var got []string
		for item, err := range s.Watch(ctx, prefix) {
			ok(t, err)
			if item.Deleted {
				t.Errorf("Watch(%q) yields the deletion of %q", prefix, item.Key)
			}
			if got = append(got, item.Key); len(got) == len(keys) {
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, keys) {
			t.Errorf("Watch(%q) yields %q, want %q", prefix, got, keys)
		}
		for _, key := range append(keys, prefix+"a", prefix[:len(prefix)-1]+"0") {
			ok(t, s.Delete(ctx, key, 0))
		}
	}
}

// Watch yields no deletion of a key of which it has not yielded a value, and goes on.
func TestSealedUnknownDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, nil)
		s := sealed(t, m, 1)
		ctx, cancel := context.WithCancel(t.Context())
		items := make(chan store.Item, 10)
		var watching sync.WaitGroup
		watching.Go(func() {
			for item, err := range s.Watch(ctx, "a") {
				if err == nil {
					items <- item
				}
			}
		})
		synctest.Wait()
		for range 2 { // without a pause, the watcher sees only the deletion
			revision, err := s.Create(ctx, "a/1", nil, 0)
			ok(t, err)
			ok(t, s.Delete(ctx, "a/1", revision))
		}
		synctest.Wait()
		_, err := s.Create(ctx, "a/2", nil, 0)
		ok(t, err)
		known := map[string]bool{}
		for item := range items {
			if item.Deleted && !known[item.Key] {
				t.Errorf("Watch yields %+v first", item)
			}
			if known[item.Key] = true; item.Key == "a/2" {
				break
			}
		}
		cancel()
		watching.Wait()
	})
}

func TestSealedRefusesKeys(t *testing.T) {
	for _, key := range [][]byte{nil, make([]byte, 31)} {
		if s, err := store.Sealed(newMemory(t, nil), key); err == nil || s != nil {
			t.Errorf("a key of %d bytes was accepted", len(key))
		}
	}
}

// The longest name has the limit of the overhead.
func TestSealOverhead(t *testing.T) {
	spy := newSpy(t)
	s := sealed(t, spy, 1)
	long := strings.Repeat("n", 200)
	_, err := s.Create(t.Context(), long, nil, time.Hour)
	ok(t, err)
	ok(t, s.Push(t.Context(), long, long, nil))
	for _, operation := range []string{"Create", "Push"} {
		if size := len(spy.last(operation).data); size > store.SealOverhead || size < store.SealOverhead-16 {
			t.Errorf("%s: the overhead is %d bytes, want at most SealOverhead", operation, size)
		}
	}
}

// What has not been encrypted for a key never opens.
func FuzzSealed(f *testing.F) {
	m := newMemory(f, nil)
	spy := &spy{Store: m}
	s := sealed(f, spy, 1)
	_, err := s.Create(f.Context(), "key", []byte("value"), 0)
	ok(f, err)
	value := spy.last("Create")
	f.Add(value.data)
	f.Add([]byte{})
	f.Add(value.data[:40])
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx := t.Context()
		item, err := m.Get(ctx, value.name)
		ok(t, err)
		_, err = m.Update(ctx, value.name, data, item.Revision, 0)
		ok(t, err)
		// Another process of the fuzzer may have made data that open.
		if item, err := s.Get(ctx, "key"); err == nil && string(item.Value) != "value" {
			t.Errorf("Get returns %q for %q", item.Value, data)
		} else if err != nil {
			wantForged(t, "Get", err)
		}
	})
}
