package redis_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/redis"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

func TestServer(t *testing.T) {
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		s := newServer(t)
		return storetest.Engine{
			Connect: func() store.Store { return connect(t, s.url(), &redis.Options{Limits: limits}) },
			Stop:    s.stop,
			Start:   s.start,
		}
	})
}

func TestMiniredis(t *testing.T) {
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		m := newMiniredis(t)
		return storetest.Engine{
			Connect: func() store.Store { return connect(t, "redis://"+m.Addr(), &redis.Options{Limits: limits}) },
			Stop:    m.Close,
			Start: func() {
				if err := m.Restart(); err != nil {
					t.Fatal(err)
				}
			},
		}
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
		{"no server", "unix://" + filepath.Join(t.TempDir(), "none"), redis.Options{Timeout: time.Second}},
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
