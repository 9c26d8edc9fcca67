package redis_test

import (
	"bufio"
	"cmp"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/dovetail-go/dovetail/internal/leaktest"
	"github.com/dovetail-go/dovetail/transport/store/redis"
)

func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil { // most tests wait for a lease or an expiry
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

// A server is a process of redis-server that syncs each write to its file.
type server struct {
	t       testing.TB
	binary  string
	dir     string
	options []string
	process *exec.Cmd
}

// newServer starts a server. It skips the test if none is installed, unless
// DOVETAIL_REDIS_SERVER is set, which is its path.
func newServer(t testing.TB, options ...string) *server {
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
	s := &server{t: t, binary: binary, dir: dir, options: options}
	t.Cleanup(func() {
		s.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s.start()
	return s
}

func (s *server) url() string { return "unix://" + s.socket() }

func (s *server) socket() string { return filepath.Join(s.dir, "socket") }

// start starts the process and waits until it accepts connections.
func (s *server) start() {
	s.t.Helper()
	s.process = exec.Command(s.binary, append([]string{"--port", "0", "--unixsocket", s.socket(), "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"}, s.options...)...)
	output, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready to accept connections") {
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
