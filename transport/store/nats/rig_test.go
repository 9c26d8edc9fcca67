package nats_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	driver "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/porttest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// parallel is how many tests run concurrently. Most of them wait for something to expire.
const parallel = "6"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	// A server that is shut down while it creates a stream in a cluster does not close the file of its log.
	const ofServer = "github.com/nats-io/nats-server/v2/server"
	leaktest.Main(m, ofServer+".(*fileStore).flushStreamStateLoop", ofServer+"/ats.Register.func1")
}

// startTimeout is how long a server may take to start.
const startTimeout = 30 * time.Second

// embedded opens an embedded store.
func embedded(t testing.TB, dir string, opts *nats.Options) *nats.Store {
	t.Helper()
	s, err := nats.Embedded(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, s)
	return s
}

// connect connects to a server.
func connect(t testing.TB, url string, opts *nats.Options) *nats.Store {
	t.Helper()
	s, err := nats.Connect(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, s)
	return s
}

func closeAtEnd(t testing.TB, s *nats.Store) {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A member is a server that can be stopped and started again, alone or in a cluster.
type member struct {
	t       testing.TB
	options server.Options
	server  *server.Server
}

// newMember starts a server that listens.
func newMember(t testing.TB, options server.Options) *member {
	t.Helper()
	options.Host = "127.0.0.1"
	options.Port = server.RANDOM_PORT
	options.JetStream = true
	options.StoreDir = t.TempDir()
	options.NoSigs, options.NoLog = true, true
	m := &member{t: t, options: options}
	m.start()
	t.Cleanup(m.stop)
	m.options.Port = m.port() // the same one after a restart
	return m
}

// start starts the server, without waiting for its cluster.
func (m *member) start() {
	m.t.Helper()
	options := m.options
	s, err := server.NewServer(&options)
	if err != nil {
		m.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		m.t.Fatal("the server is not ready")
	}
	m.server = s
}

func (m *member) stop() {
	m.server.Shutdown()
	m.server.WaitForShutdown()
}

// lose restarts the server without its data.
func (m *member) lose() {
	m.t.Helper()
	m.stop()
	if err := os.RemoveAll(filepath.Join(m.options.StoreDir, "jetstream")); err != nil {
		m.t.Fatal(err)
	}
	m.start()
}

func (m *member) url() string { return m.server.ClientURL() }

func (m *member) port() int {
	address, err := url.Parse(m.url())
	if err != nil {
		m.t.Fatal(err)
	}
	var port int
	if _, err := fmt.Sscan(address.Port(), &port); err != nil {
		m.t.Fatal(err)
	}
	return port
}

// routesOfPeer is the number of connections between two servers: the default pool, and one for the system account.
const routesOfPeer = server.DEFAULT_ROUTE_POOL_SIZE + 1

// newCluster starts three servers and waits until all of them are connected, without waiting for their leader.
func newCluster(t testing.TB) []*member {
	t.Helper()
	members := make([]*member, 3)
	var ports []int
	var routes []*url.URL // each member needs them from the beginning
	for range members {
		port := porttest.Free(t)
		ports = append(ports, port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))})
	}
	var starting sync.WaitGroup
	for i := range members {
		starting.Go(func() {
			members[i] = newMember(t, server.Options{
				ServerName: fmt.Sprint("member-", i),
				Cluster:    server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: ports[i]},
				Routes:     routes,
			})
		})
	}
	starting.Wait()
	for i, m := range members {
		waittest.Until(t, fmt.Sprintf("the connections of member %d", i), func() bool {
			return m.server.NumRoutes() == (len(members)-1)*routesOfPeer
		})
	}
	return members
}

// createStreams creates the streams of a store in a cluster. It waits until the servers have a leader
// that knows all of them, which may take longer than the Timeout of a store while other tests use the
// machine.
func createStreams(t testing.TB, url string, opts nats.Options) {
	t.Helper()
	opts.Timeout = startTimeout
	s, err := nats.Connect(t.Context(), url, &opts)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// deleteStreams deletes the streams of a store. Unused streams cost a cluster as much as used ones.
func deleteStreams(t testing.TB, url, prefix string, options ...driver.Option) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := driver.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"KV_" + prefix, prefix + "-log", prefix + "-queue"} {
		if err := js.DeleteStream(ctx, name); err != nil {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
}

// unique returns prefixes, so that the tests of a server have no common data.
func unique() func() string {
	var mu sync.Mutex
	var n int
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return fmt.Sprint("test-", n)
	}
}
