package soak

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
)

// A supervised process is started again whenever it ends, until the test does.
type supervised struct {
	testing.TB
	role    string
	env     []string
	mu      sync.Mutex
	process *os.Process
	stdin   io.Closer
	over    bool
	ended   chan struct{}
}

// supervise keeps the test binary running in a role.
func supervise(t testing.TB, role string, env ...string) *supervised {
	t.Helper()
	s := &supervised{TB: t, role: role, env: env, ended: make(chan struct{})}
	first, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	go s.keep(first)
	t.Cleanup(s.stop)
	return s
}

func (s *supervised) start() (*exec.Cmd, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, nil
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVariable+"="+s.role, "GORACE=atexit_sleep_ms=0"), s.env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.process, s.stdin = cmd.Process, stdin
	return cmd, nil
}

func (s *supervised) keep(cmd *exec.Cmd) {
	defer close(s.ended)
	for cmd != nil {
		err := cmd.Wait()
		if exit, ok := err.(*exec.ExitError); !ok || exit.Exited() { // it was not killed
			s.mu.Lock()
			if over := s.over; err != nil || !over {
				s.Errorf("%s has ended: %v", s.role, err)
			}
			s.mu.Unlock()
		}
		if cmd, err = s.start(); err != nil {
			s.Error(err)
		}
	}
}

// pid is that of the process that runs now.
func (s *supervised) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Pid
}

// kill kills the process that runs now and returns its pid.
func (s *supervised) kill() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Kill(); err != nil {
		s.Errorf("%s: %v", s.role, err)
	}
	return s.process.Pid
}

// stop ends the input of the process, which ends it.
func (s *supervised) stop() {
	s.mu.Lock()
	s.over = true
	_ = s.stdin.Close()
	s.mu.Unlock()
	<-s.ended
}

// freeAddress returns an address whose port no outgoing connection gets, so that it
// stays free while nobody serves there.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}
