package server_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// A switchedStore is a connection to a store that can fail, or not answer what is published. It counts
// the operations on values.
type switchedStore struct {
	store.Store
	down   atomic.Bool
	silent atomic.Bool
	values atomic.Int32
}

var errDown = errors.New("the store is down")

func (s *switchedStore) err() error {
	if s.down.Load() {
		return errDown
	}
	return nil
}

func (s *switchedStore) Get(ctx context.Context, key string) (store.Item, error) {
	s.values.Add(1)
	if err := s.err(); err != nil {
		return store.Item{}, err
	}
	return s.Store.Get(ctx, key)
}

func (s *switchedStore) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, key, value, ttl)
}

func (s *switchedStore) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := s.err(); err != nil {
		return 0, err
	}
	return s.Store.Update(ctx, key, value, revision, ttl)
}

func (s *switchedStore) Publish(ctx context.Context, subject string, data []byte) error {
	if err := s.err(); err != nil {
		return err
	}
	if s.silent.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.Publish(ctx, subject, data)
}

func (s *switchedStore) Subscribe(ctx context.Context, subject string, handle func(context.Context, store.Message)) (func(), error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Subscribe(ctx, subject, handle)
}

// newStore returns a store that is closed at the end of the test.
func newStore(t testing.TB) store.Store {
	t.Helper()
	shared, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	return shared
}
