package nats_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	driver "github.com/nats-io/nats.go"

	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

// The first replica has the server, and the others connect to it.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		opts := nats.Options{Limits: limits, Token: "secret"}
		first := opts
		first.Listen = "127.0.0.1:0"
		var owner *nats.Store
		return storetest.Engine{
			Connect: func() store.Store {
				if owner == nil {
					owner = embedded(t, t.TempDir(), &first)
					return owner
				}
				return connect(t, owner.URL(), &opts)
			},
			Lose: func() { deleteStreams(t, owner.URL(), "dovetail", driver.Token(opts.Token)) },
		}
	})
}

// The server accepts what Sealed makes of names and values.
func TestSealed(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{})
	prefix := unique()
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		opts := nats.Options{Limits: limits, Prefix: prefix()}
		return storetest.Engine{Connect: func() store.Store {
			encrypted, err := store.Sealed(connect(t, m.url(), &opts), make([]byte, 32))
			if err != nil {
				t.Fatal(err)
			}
			return encrypted
		}}
	})
}

func TestServer(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		m := newMember(t, server.Options{})
		url := m.url()
		opts := nats.Options{Limits: limits, Logger: slog.New(slog.DiscardHandler)}
		return storetest.Engine{
			Connect: func() store.Store { return connect(t, url, &opts) },
			Stop:    m.stop,
			Start:   m.start,
			Lose:    m.lose,
		}
	})
}

// The replicas connect to different members of a cluster. The subtests that stop the engine are
// skipped: how long the members elect their leaders after all of them have been stopped depends
// too much on the machine. TestServer runs them, and TestMemberFails stops one member at a time.
func TestCluster(t *testing.T) {
	t.Parallel()
	members := newCluster(t)
	prefix := unique()
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		opts := nats.Options{Limits: limits, Replicas: 3, Prefix: prefix()}
		next := 0
		lose := func() { deleteStreams(t, members[0].url(), opts.Prefix) }
		return storetest.Engine{
			Connect: func() store.Store {
				if next++; next == 1 {
					createStreams(t, members[0].url(), opts)
					t.Cleanup(lose)
				}
				return connect(t, members[next%len(members)].url(), &opts)
			},
			Lose: lose,
		}
	})
}

func TestForgedTasks(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{})
	tasktest.Forge(t, func(t *testing.T, limits store.Limits) store.Store {
		return connect(t, m.url(), &nats.Options{Limits: limits})
	})
}

func TestExecutionsOfTasks(t *testing.T) {
	t.Parallel()
	m := newMember(t, server.Options{})
	prefix := unique()
	tasktest.Run(t, 2*time.Second, func(t *testing.T, limits store.Limits) store.Store {
		return connect(t, m.url(), &nats.Options{Limits: limits, Prefix: prefix()})
	})
}
