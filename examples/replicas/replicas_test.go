package main

import (
	"cmp"
	"crypto/rand"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/store/postgres/postgrestest"
)

// TestMain runs the program if a test or the program has started this process.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envApprovals) != "":
		if err := runApprovalReplica(); err != nil {
			log.Fatal(err)
		}
		return
	case os.Getenv(envTasks) != "":
		if err := runTaskReplica(); err != nil {
			log.Fatal(err)
		}
		return
	case os.Getenv(envEvents) != "":
		if err := runEventReplica(); err != nil {
			log.Fatal(err)
		}
		return
	case os.Getenv("REPLICAS_TEST") != "", os.Getenv(envStore) != "":
		main()
		return
	}
	os.Exit(m.Run())
}

// defaultKills is how many replicas are killed, unless DOVETAIL_KILLS says otherwise.
const defaultKills = 10

func killsOf(t *testing.T) int {
	kills, err := strconv.Atoi(cmp.Or(os.Getenv("DOVETAIL_KILLS"), strconv.Itoa(defaultKills)))
	if err != nil {
		t.Fatal(err)
	}
	return kills
}

// An engine has a URL, "" for an embedded server.
type engine struct {
	name string
	url  func(t *testing.T) string
}

// engines returns those with which the tests run. That with PostgreSQL takes a test as long as each other one, and is only in the
// complete run.
func engines() []engine {
	all := []engine{
		{"embedded NATS", func(*testing.T) string { return "" }},
		{"redis-server", redisServer},
	}
	if os.Getenv("DOVETAIL_POSTGRES_SERVER") != "" {
		all = append(all, engine{"PostgreSQL", postgresServer})
	}
	return all
}

func postgresServer(t *testing.T) string {
	s, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Remove)
	return s.URL()
}

// storeOf returns the URL of a store, and the token of an embedded NATS server.
func storeOf(t *testing.T, engine engine) (url, token string) {
	if url := engine.url(t); url != "" {
		return url, ""
	}
	token = rand.Text()
	embedded, err := nats.Embedded(t.TempDir(), &nats.Options{Listen: "127.0.0.1:0", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { embedded.Close() })
	return embedded.URL(), token
}

// While replicas are killed and restarted, nothing is lost or doubled.
func TestKills(t *testing.T) {
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			t.Parallel()
			kills := killsOf(t)
			program := exec.CommandContext(t.Context(), os.Args[0], "-kills", strconv.Itoa(kills), "-pause", "200ms", "-store", engine.url(t))
			program.Env = append(os.Environ(), "REPLICAS_TEST=1")
			output, err := program.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, output)
			}
			lines := strings.Split(strings.TrimSpace(string(output)), "\n")
			last := lines[len(lines)-1]
			want := regexp.MustCompile(`^calls [1-9]\d* answers [1-9]\d* failures \d+ questions [1-9]\d* events [1-9]\d* changes [1-9]\d* kills ` +
				strconv.Itoa(kills) + ` lost 0 doubled 0$`)
			if !want.MatchString(last) {
				t.Errorf("the last line is %q, want %v", last, want)
			}
			t.Log(last)
		})
	}
}

// redisServer starts a Redis server that syncs each write to its file.
func redisServer(t *testing.T) string {
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
	for range 500 {
		if _, err := os.Stat(socket); err == nil {
			return "unix://" + socket
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("redis-server does not start")
	return ""
}
