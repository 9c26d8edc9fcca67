package redis_test

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"flag"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/redis"
	"github.com/dovetail-go/dovetail/transport/store/storetest"
)

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "12"); err != nil { // most tests wait for a lease or an expiry
		panic(err)
	}
	leaktest.Main(m)
}

// connect returns a store that the end of the test closes.
func connect(t testing.TB, url string, opts *redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Connect(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A server is a process of redis-server that syncs each write to its file, or a sentinel.
type server struct {
	t       testing.TB
	binary  string
	dir     string
	args    []string
	ready   string // what it prints when it accepts connections
	process *exec.Cmd
}

// newServer starts a server. It skips the test if none is installed, unless
// DOVETAIL_REDIS_SERVER is set, which is its path.
func newServer(t testing.TB, options ...string) *server {
	t.Helper()
	s := prepare(t)
	s.ready = "ready to accept connections"
	s.args = append([]string{"--port", "0", "--unixsocket", s.socket(), "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"}, options...)
	s.start()
	return s
}

// prepare returns a server with a folder, which the end of the test kills.
func prepare(t testing.TB) *server {
	t.Helper()
	configured := os.Getenv("DOVETAIL_REDIS_SERVER")
	binary, err := exec.LookPath(cmp.Or(configured, "redis-server"))
	if err != nil {
		if configured == "" {
			t.Skip("redis-server is not installed")
		}
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "redis") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, binary: binary, dir: dir}
	t.Cleanup(func() {
		s.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *server) url() string { return "unix://" + s.socket() }

func (s *server) socket() string { return filepath.Join(s.dir, "socket") }

// start starts the process and waits until it accepts connections.
func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(s.binary, s.args...)
	output, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), s.ready) {
			return // what it writes later fits into the pipe
		}
	}
	s.t.Fatalf("redis-server ended before it accepted connections: %v", s.process.Wait())
}

// stop kills the process.
func (s *server) stop() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill() // it may have ended
	_ = s.process.Wait()         // it was killed
	s.process = nil
}

// lose restarts the process without its data.
func (s *server) lose() {
	s.t.Helper()
	s.stop()
	if err := os.RemoveAll(filepath.Join(s.dir, "appendonlydir")); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

// newMiniredis starts a server in the process whose values expire in real time.
func newMiniredis(t testing.TB) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	end := make(chan struct{})
	running.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for last := time.Now(); ; {
			select {
			case <-end:
				return
			case now := <-ticker.C:
				m.FastForward(now.Sub(last))
				last = now
			}
		}
	})
	t.Cleanup(func() {
		close(end)
		running.Wait()
		m.Close()
	})
	return m
}

// newStore returns a store with a client of the test. The end of the test closes both.
func newStore(t testing.TB, client goredis.UniversalClient, opts *redis.Options) *redis.Store {
	t.Helper()
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := redis.New(t.Context(), client, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// kit runs all tests of stores on one engine, each with a prefix of its own.
func kit(t *testing.T, client func() goredis.UniversalClient) {
	storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
		opts := &redis.Options{Limits: limits, Prefix: strings.ToLower(rand.Text())}
		return storetest.Engine{Connect: func() store.Store { return newStore(t, client(), opts) }}
	})
}

// eventually calls done until it returns true.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// logs are messages of a logger.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
