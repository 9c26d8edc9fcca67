package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/internal/waittest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/postgres"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
	"github.com/jackc/pgx/v5"
)

func TestServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		opts := postgres.Options{Schema: newSchema(), Limits: limits}
		check := func(run func() error) func() {
			return func() {
				if err := run(); err != nil {
					t.Fatal(err)
				}
			}
		}
		return storetest.Engine{
			Connect: func() store.Store { return connect(t, s.URL(), opts) },
			Stop:    check(s.Stop),
			Start:   check(s.Start),
		}
	})
}

// The server accepts what Sealed makes of names and values.
func TestSealed(t *testing.T) {
	t.Parallel()
	needServer(t)
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		opts := postgres.Options{Schema: newSchema(), Limits: limits}
		return storetest.Engine{Connect: func() store.Store {
			encrypted, err := store.Sealed(connect(t, shared.URL(), opts), make([]byte, 32))
			if err != nil {
				t.Fatal(err)
			}
			return encrypted
		}}
	})
}

func TestExecutionsOfTasks(t *testing.T) {
	t.Parallel()
	needServer(t)
	tasktest.Run(t, time.Second, func(t *testing.T, limits store.Limits) store.Store {
		return connect(t, shared.URL(), postgres.Options{Limits: limits, Schema: newSchema()})
	})
}

// A store that was connected before its server could be reached works when the server comes, also for waits that have
// begun, and after its tables are lost.
func TestServerThatStartsLater(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	s := connect(t, server.URL(), postgres.Options{Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
	if _, err := s.Get(t.Context(), "key"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get without the server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	watched, pulled := make(chan store.Item, 1), make(chan *store.Job, 1)
	waiting.Go(func() {
		for item, err := range s.Watch(ctx, "key") {
			if err == nil {
				watched <- item
			}
			return
		}
	})
	waiting.Go(func() {
		if job, err := s.Pull(ctx, "queue"); err == nil {
			pulled <- job
		}
	})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	create := func() bool {
		_, err := s.Create(t.Context(), "key", []byte("value"), 0)
		return err == nil
	}
	waittest.Until(t, "the store works", create)
	if err := s.Push(t.Context(), "queue", "job", nil); err != nil {
		t.Fatal(err)
	}
	if item := waittest.Receive(t, "the value", watched); string(item.Value) != "value" {
		t.Errorf("watched %q", item.Value)
	}
	if job := waittest.Receive(t, "the job", pulled); job.ID != "job" {
		t.Errorf("pulled %q", job.ID)
	}
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "DROP SCHEMA dovetail CASCADE"); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the store has its tables again", create)
}
