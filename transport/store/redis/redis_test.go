package redis_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/redis"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

// A user with the documented permissions passes all tests.
func TestServer(t *testing.T) {
	t.Parallel()
	user := documentedUser(t)
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		s := newServer(t, append([]string{"--user"}, user...)...)
		url := "unix://dovetail:password@" + s.socket()
		opts := &redis.Options{Limits: limits, Logger: slog.New(slog.DiscardHandler)}
		return storetest.Engine{
			Connect: func() store.Store { return connect(t, url, opts) },
			Stop:    s.stop,
			Start:   s.start,
			Lose:    s.lose,
		}
	})
}

func TestMiniredis(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		m := newMiniredis(t)
		url := "redis://" + m.Addr()
		opts := &redis.Options{Limits: limits, Logger: slog.New(slog.DiscardHandler)}
		return storetest.Engine{
			Connect: func() store.Store { return connect(t, url, opts) },
			Stop:    m.Close,
			Start: func() {
				if err := m.Restart(); err != nil {
					t.Fatal(err)
				}
			},
			Lose: m.FlushAll,
		}
	})
}

// The server accepts what Sealed makes of names and values.
func TestSealed(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		s := newServer(t)
		return storetest.Engine{Connect: func() store.Store {
			encrypted, err := store.Sealed(connect(t, s.url(), &redis.Options{Limits: limits}), make([]byte, 32))
			if err != nil {
				t.Fatal(err)
			}
			return encrypted
		}}
	})
}

func TestConnectErrors(t *testing.T) {
	m := newMiniredis(t)
	url := "redis://" + m.Addr()
	for _, test := range []struct {
		name, url string
		opts      redis.Options
	}{
		{"scheme", "http://localhost", redis.Options{}},
		{"prefix", url, redis.Options{Prefix: "a:b"}},
		{"limits", url, redis.Options{Limits: store.Limits{Lease: 1}}},
		{"timeout", url, redis.Options{Timeout: -1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := redis.Connect(t.Context(), test.url, &test.opts)
			if err == nil {
				s.Close()
				t.Error("Connect succeeded")
			}
		})
	}
}

// Stores with other prefixes on the same server have other data.
func TestPrefix(t *testing.T) {
	url := "redis://" + newMiniredis(t).Addr()
	a, b := connect(t, url, nil), connect(t, url, &redis.Options{Prefix: "b"})
	if _, err := a.Create(t.Context(), "key", []byte("value"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "key"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get with another prefix: %v, want ErrNotFound", err)
	}
}

// All followers and subscribers of a store share one connection.
func TestOneSubscribedConnection(t *testing.T) {
	const followers = 300
	url := newServer(t).url()
	s := connect(t, url, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	entries := make(chan string, followers)
	for i := range followers {
		running.Go(func() {
			for entry, err := range s.Follow(ctx, fmt.Sprint("stream/", i), 0) {
				if err == nil {
					entries <- string(entry.Data)
				}
			}
		})
	}
	for i := range followers {
		if _, err := s.Append(ctx, fmt.Sprint("stream/", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range followers {
		<-entries
	}
	options, err := goredis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(options)
	defer client.Close()
	clients, err := client.Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(clients, "\n"); n != 1 || !strings.Contains(clients, fmt.Sprintf(" sub=%d ", followers+1)) {
		t.Errorf("%d connections for %d followers:\n%s", n, followers, clients)
	}
}

func TestForgedTasks(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tasktest.Forge(t, func(t *testing.T, limits store.Limits) store.Store {
		return connect(t, s.url(), &redis.Options{Limits: limits})
	})
}

func TestExecutionsOfTasks(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tasktest.Run(t, 2*time.Second, func(t *testing.T, limits store.Limits) store.Store {
		return connect(t, s.url(), &redis.Options{Limits: limits, Prefix: strings.ToLower(rand.Text())})
	})
}
