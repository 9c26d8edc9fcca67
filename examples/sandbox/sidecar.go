package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/server/process"
)

// A sidecar is a program that runs beside the sandbox when it is wanted.
type sidecar struct {
	url, host string
	command   []string
}

// codex is the sidecar that is always known.
func codex() sidecar {
	return sidecar{"http://127.0.0.1:1324", "127.0.0.1:1324", []string{"sse-http-server", "--addr", "127.0.0.1:1324"}}
}

// parseSidecar reads NAME=URL COMMAND ARGUMENTS….
func parseSidecar(text string) (name string, s sidecar, err error) {
	name, rest, _ := strings.Cut(text, "=")
	fields := strings.Fields(rest)
	if name == "" || len(fields) < 2 {
		return "", s, errors.New("expected NAME=URL COMMAND ARGUMENTS…")
	}
	u, err := url.Parse(fields[0])
	if err != nil || u.Port() == "" {
		return "", s, fmt.Errorf("the URL %q: expected one with a port", fields[0])
	}
	return name, sidecar{fields[0], u.Host, fields[1:]}, nil
}

// sidecars are those that are known, and those that run.
type sidecars struct {
	commands *Commands
	known    map[string]sidecar

	mu      sync.Mutex
	running map[string]*process.Process
}

var errNoSidecar = errors.New("there is no sidecar of this name")

func (s *sidecars) start(ctx context.Context, name string) (status string, err error) {
	known, ok := s.known[name]
	if !ok {
		return "", errNoSidecar
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.running[name]; p != nil && p.Running() {
		return "already_running", nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("it does not listen"))
	defer cancel()
	p, err := s.commands.guard.StartServer(ctx, s.commands.in(&process.Command{Path: known.command[0], Args: known.command[1:]}), known.host)
	if err != nil {
		return "", err
	}
	if s.running == nil {
		s.running = make(map[string]*process.Process)
	}
	s.running[name] = p
	return "success", nil
}

func (s *sidecars) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.running {
		p.Stop()
	}
}
