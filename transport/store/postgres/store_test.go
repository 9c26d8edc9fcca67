package postgres_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/postgres"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

func TestServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		opts := postgres.Options{Schema: newSchema(), Limits: limits, Logger: slog.New(slog.DiscardHandler)}
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
			Lose:    func() { open(t, s.URL()).exec(opts.Schema, "DROP SCHEMA {s} CASCADE") },
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

func TestForgedTasks(t *testing.T) {
	t.Parallel()
	needServer(t)
	tasktest.Forge(t, func(t *testing.T, limits store.Limits) store.Store {
		return connect(t, shared.URL(), postgres.Options{Limits: limits, Schema: newSchema()})
	})
}

func TestExecutionsOfTasks(t *testing.T) {
	t.Parallel()
	needServer(t)
	tasktest.Run(t, 2*time.Second, func(t *testing.T, limits store.Limits) store.Store {
		return connect(t, shared.URL(), postgres.Options{Limits: limits, Schema: newSchema()})
	})
}
