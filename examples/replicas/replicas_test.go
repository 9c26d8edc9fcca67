package main

import (
	"cmp"
	"fmt"
	"log"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/store/postgres/postgrestest"
)

// TestMain runs the program if a test or the program has started this process.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envTest) != "":
		if err := runTestReplica(); err != nil {
			log.Fatal(err)
		}
		return
	case os.Getenv("REPLICAS_TEST") != "", os.Getenv(envStore) != "":
		main()
		return
	}
	os.Exit(m.Run())
}

// lease is longer than a busy disk holds up a renewal: a replica that is cut off fails its task, as one that was killed does.
const lease = "4s"

// stopsOfKills is how many replicas are killed for each one that is stopped.
const stopsOfKills = 5

// An engine has a URL, "" for an embedded server.
type engine struct {
	name string
	url  func(t testing.TB) string
}

// engines returns those with which the tests run. With the others, a test takes as long as with these, and is only in the
// complete run.
func engines() []engine {
	all := []engine{
		{"embedded NATS", func(testing.TB) string { return "" }},
		{"redis-server", redisServer},
	}
	if os.Getenv("DOVETAIL_POSTGRES_SERVER") != "" {
		all = append(all, engine{"PostgreSQL", postgresServer}, engine{"three NATS servers", natsCluster})
	}
	return all
}

func postgresServer(t testing.TB) string {
	s, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Remove)
	return s.URL()
}

// natsCluster starts three NATS servers.
func natsCluster(t testing.TB) string {
	const servers = 3
	var ports [servers]int
	var routes []*url.URL
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
		routes = append(routes, &url.URL{Scheme: "nats", Host: listener.Addr().String()})
		listener.Close()
	}
	var urls []string
	for i, port := range ports {
		s, err := natsserver.NewServer(&natsserver.Options{
			ServerName: fmt.Sprint("server-", i), Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(),
			Cluster: natsserver.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		if !s.ReadyForConnections(30 * time.Second) {
			t.Fatal("a NATS server does not start")
		}
		urls = append(urls, s.ClientURL())
	}
	all := strings.Join(urls, ",")
	// The cluster has to elect a leader before it creates streams.
	limits, err := limitsOfLease(lease)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := nats.Connect(t.Context(), all, &nats.Options{Prefix: prefix, Limits: limits, Replicas: servers, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// While replicas are killed, stopped and restarted, nothing is lost, doubled or executed without its approval. DOVETAIL_KILLS is
// the number of kills with each store.
func TestKills(t *testing.T) {
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("DOVETAIL_KILLS"), "10"))
	if err != nil {
		t.Fatal(err)
	}
	stops := max(1, kills/stopsOfKills)
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			runProgram(t, "-kills", strconv.Itoa(kills), "-stops", strconv.Itoa(stops), "-lease", lease, "-store", engine.url(t))
		})
	}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		runProgram(t, "-kills", "0", "-stops", strconv.Itoa(stops), "-lease", lease, "-store", memoryStore)
	})
}

// runProgram runs the program. All of its loads must have been there, and its last line must say that nothing went wrong.
func runProgram(t *testing.T, arguments ...string) {
	program := exec.CommandContext(t.Context(), os.Args[0], arguments...)
	program.Env = append(os.Environ(), "REPLICAS_TEST=1")
	output, err := program.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	last := lines[len(lines)-1]
	want := regexp.MustCompile(`^calls [1-9]\d* answers [1-9]\d* failures \d+ tasks [1-9]\d* approvals [1-9]\d* refusals \d+ questions [1-9]\d* ` +
		`progress [1-9]\d* changes [1-9]\d* events [1-9]\d* deliveries [1-9]\d* kills ` + arguments[1] + ` stops ` + arguments[3] + ` lost 0 doubled 0 unapproved 0$`)
	if !want.MatchString(last) {
		t.Errorf("the last line is %q, want %v", last, want)
	}
	t.Log(last)
}

// redisServer starts a Redis server that syncs each write to its file.
func redisServer(t testing.TB) string {
	binary := os.Getenv("DOVETAIL_REDIS_SERVER")
	if binary == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("DOVETAIL_REDIS_SERVER is not set")
		}
		t.Skip("DOVETAIL_REDIS_SERVER is not set")
	}
	dir, err := os.MkdirTemp("", "redis") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "socket")
	server := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = server.Wait() // it says that the process was killed
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	waittest.Until(t, "redis-server accepts connections", func() bool { // the socket is there earlier
		conn, err := net.Dial("unix", socket)
		return err == nil && conn.Close() == nil
	})
	return "unix://" + socket
}
