package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	redisclient "github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/transport/store"
)

// An inspectedEngine has a function that looks into the engine itself, past the store.
type inspectedEngine struct {
	name string
	open func(ctx context.Context, t *testing.T) (shared store.Store, inspect func() holdings)
}

func inspectedEngines() []inspectedEngine {
	all := []inspectedEngine{
		{"memory", inspectedMemory},
		{"embedded NATS", inspectedNATS},
		{"redis-server", inspectedRedis},
	}
	if os.Getenv("DOVETAIL_POSTGRES_SERVER") != "" {
		all = append(all, inspectedEngine{"PostgreSQL", inspectedPostgres})
	}
	return all
}

// shared opens the store with a URL until the test ends.
func shared(ctx context.Context, t *testing.T, url string) store.Store {
	s, err := openStore(ctx, url, store.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A recorded is a store in memory that records the names that are used, since the memory cannot be inspected.
type recorded struct {
	store.Store
	mu      sync.Mutex
	keys    map[string]time.Duration // to their last times to live
	streams map[string]bool
	jobs    int
}

func inspectedMemory(ctx context.Context, t *testing.T) (store.Store, func() holdings) {
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	r := &recorded{Store: memory, keys: make(map[string]time.Duration), streams: make(map[string]bool)}
	return r, func() holdings {
		r.mu.Lock()
		defer r.mu.Unlock()
		h := make(holdings)
		for key, ttl := range r.keys {
			item, err := memory.Get(ctx, key)
			switch {
			case errors.Is(err, store.ErrNotFound):
				delete(r.keys, key)
			case err != nil:
				t.Fatal(err)
			default:
				h.add(kindOf(key), len(key)+len(item.Value), ttl == 0)
			}
		}
		for stream := range r.streams {
			for entry, err := range memory.Read(ctx, stream, 0) {
				if err != nil {
					t.Fatal(err)
				}
				h.add(kindOfStream(stream), len(stream)+len(entry.Data), false)
			}
		}
		for range r.jobs {
			h.add("job", 0, false)
		}
		return h
	}
}

func (r *recorded) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	r.mu.Lock()
	r.keys[key] = ttl
	r.mu.Unlock()
	return r.Store.Create(ctx, key, value, ttl)
}

func (r *recorded) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	r.mu.Lock()
	r.keys[key] = ttl
	r.mu.Unlock()
	return r.Store.Update(ctx, key, value, revision, ttl)
}

func (r *recorded) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	r.mu.Lock()
	r.streams[stream] = true
	r.mu.Unlock()
	return r.Store.Append(ctx, stream, data)
}

func (r *recorded) Push(ctx context.Context, queue, id string, data []byte) error {
	err := r.Store.Push(ctx, queue, id, data)
	if err == nil {
		r.mu.Lock()
		r.jobs++
		r.mu.Unlock()
	}
	return err
}

func (r *recorded) Ack(ctx context.Context, job *store.Job) error {
	err := r.Store.Ack(ctx, job)
	if err == nil {
		r.mu.Lock()
		r.jobs--
		r.mu.Unlock()
	}
	return err
}

func inspectedNATS(ctx context.Context, t *testing.T) (store.Store, func() holdings) {
	url, token := storeOf(t, engine{url: func(testing.TB) string { return "" }})
	t.Setenv(envToken, token)
	s := shared(ctx, t, url)
	conn, err := natsclient.Connect(url, natsclient.Token(token))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return s, func() holdings {
		h := make(holdings)
		messages(ctx, t, js, "KV_replicas", func(m jetstream.Msg) {
			_, key, _ := strings.Cut(strings.TrimSuffix(m.Subject(), ".value"), "$KV.replicas.")
			kind := kindOf(strings.ReplaceAll(key, ".", "/"))
			if m.Headers().Get("KV-Operation") != "" {
				kind = "deletion"
			}
			h.add(kind, messageSize(m), m.Headers().Get(jetstream.MsgTTLHeader) == "")
		})
		messages(ctx, t, js, "replicas-log", func(m jetstream.Msg) {
			stream := strings.ReplaceAll(strings.TrimPrefix(m.Subject(), "replicas.log."), ".", "/")
			h.add(kindOfStream(stream), messageSize(m), false)
		})
		stream, err := js.Stream(ctx, "replicas-queue")
		if err != nil {
			t.Fatal(err)
		}
		if state := stream.CachedInfo().State; state.Msgs > 0 {
			h["job"] = &held{keys: int(state.Msgs), bytes: int(state.Bytes)}
		}
		return h
	}
}

// messages calls visit for each message of a stream of NATS.
func messages(ctx context.Context, t *testing.T, js jetstream.JetStream, name string, visit func(jetstream.Msg)) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for {
		batch, err := consumer.FetchNoWait(1000)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for m := range batch.Messages() {
			visit(m)
			n++
		}
		if err := batch.Error(); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// messageSize returns the bytes of a message in its file.
func messageSize(m jetstream.Msg) int {
	const overhead = 30
	size := overhead + len(m.Subject()) + len(m.Data())
	for name, values := range m.Headers() {
		size += len(name) + len(strings.Join(values, "")) + 4
	}
	return size
}

func inspectedRedis(ctx context.Context, t *testing.T) (store.Store, func() holdings) {
	url := redisServer(t)
	s := shared(ctx, t, url)
	options, err := redisclient.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.Protocol = 2
	db := redisclient.NewClient(options)
	t.Cleanup(func() { db.Close() })
	return s, func() holdings {
		h := make(holdings)
		keys := db.Scan(ctx, 0, "*", 1000).Iterator()
		for keys.Next(ctx) {
			key := keys.Val()
			size, sizeErr := db.MemoryUsage(ctx, key).Result()
			left, err := db.PTTL(ctx, key).Result()
			if errors.Is(sizeErr, redisclient.Nil) || left == -2 { // it has expired
				continue
			}
			if err := errors.Join(sizeErr, err); err != nil {
				t.Fatal(err)
			}
			part, name, _ := strings.Cut(strings.TrimPrefix(key, "{replicas}:"), ":")
			switch forever := left < 0; part {
			case "kv":
				h.add(kindOf(name), int(size), forever)
			case "log":
				if name == "" { // the last id
					h.add("bookkeeping", int(size), forever)
					continue
				}
				entries, err := db.XLen(ctx, key).Result()
				if err != nil {
					t.Fatal(err)
				}
				for range entries {
					h.add(kindOfStream(name), int(size/entries), forever)
				}
			case "pushed":
				h.add("id of a job", int(size), forever)
			case "jobs":
				jobs, err := db.HLen(ctx, key).Result()
				if err != nil {
					t.Fatal(err)
				}
				for range jobs {
					h.add("job", int(size/jobs), false)
				}
			case "counter", "ready", "later", "workers":
				h.add("bookkeeping", int(size), forever)
			default:
				h.add(key, int(size), forever)
			}
		}
		if err := keys.Err(); err != nil {
			t.Fatal(err)
		}
		return h
	}
}

func inspectedPostgres(ctx context.Context, t *testing.T) (store.Store, func() holdings) {
	url := postgresServer(t)
	s := shared(ctx, t, url)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(ctx)) })
	return s, func() holdings {
		h := make(holdings)
		visit := func(query string, kindOf func(name string, done bool) string) {
			rows, err := conn.Query(ctx, fmt.Sprintf(query, "replicas"))
			if err != nil {
				t.Fatal(err)
			}
			var name string
			var size int
			var done, forever bool
			if _, err := pgx.ForEachRow(rows, []any{&name, &size, &done, &forever}, func() error {
				h.add(kindOf(name, done), size, forever)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		visit("SELECT key, pg_column_size(r.*), value IS NULL, expires = 'infinity' FROM %s.kv r WHERE expires > now()", func(key string, deleted bool) string {
			if deleted {
				return "deletion"
			}
			return kindOf(key)
		})
		visit("SELECT stream, pg_column_size(r.*), false, false FROM %s.entries r", func(stream string, _ bool) string { return kindOfStream(stream) })
		visit("SELECT queue, pg_column_size(r.*), due IS NULL, false FROM %s.jobs r", func(_ string, done bool) string {
			if done {
				return "id of a job"
			}
			return "job"
		})
		visit("SELECT name, pg_column_size(r.*), false, false FROM %s.streams r", func(string, bool) string { return "stream" })
		return h
	}
}
