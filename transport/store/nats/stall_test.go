package nats_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	driver "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// A gate dials connections. While it is locked, they receive nothing.
type gate struct{ sync.RWMutex }

func (g *gate) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	return gated{conn, g}, err
}

type gated struct {
	net.Conn
	gate *gate
}

func (g gated) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.gate.RLock() // waits until the gate is open
	defer g.gate.RUnlock()
	return n, err
}

// A job is on its way to one store for longer than its lease, and another store has pulled it in the meantime. Only the
// other store gets the job.
func TestStalledDelivery(t *testing.T) {
	t.Parallel()
	limits := store.Limits{Lease: 3 * time.Second}
	m := newMember(t, server.Options{})
	var stalling gate
	stalled := connect(t, m.url(), &nats.Options{Limits: limits, Client: []driver.Option{driver.SetCustomDialer(&stalling)}})
	other := connect(t, m.url(), &nats.Options{Limits: limits})
	got := make(chan *store.Job, 1)
	var pulling sync.WaitGroup
	defer pulling.Wait()
	pulling.Go(func() {
		job, err := stalled.Pull(t.Context(), "queue")
		if err != nil {
			t.Error(err)
		}
		got <- job
	})
	push := func(id string) {
		t.Helper()
		if err := other.Push(t.Context(), "queue", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; ; n++ {
		waittest.Until(t, "the store waits for a job", func() bool { return waitingPulls(t, m.url()) == 1 })
		stalling.Lock()
		push(fmt.Sprint("first", n))
		first, err := other.Pull(t.Context(), "queue")
		stalling.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Ack(t.Context(), first); err != nil {
			t.Errorf("Ack of the other store: %v", err)
		}
		if first.Attempt == 2 {
			break
		}
		if n == 10 { // the request had just ended each time
			t.Fatal("no job was delivered to the stalled store")
		}
	}
	push("second")
	if job := waittest.Receive(t, "a job", got); job.ID != "second" {
		t.Errorf("the stalled store got %q, attempt %d", job.ID, job.Attempt)
	}
}

// waitingPulls returns how many requests for jobs the server has.
func waitingPulls(t *testing.T, url string) int {
	t.Helper()
	conn, err := driver.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	worker, err := js.Consumer(t.Context(), "dovetail-queue", "queue")
	if err != nil {
		return 0 // it is not there yet
	}
	return worker.CachedInfo().NumWaiting
}
