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
	url     string
	command []string
}

// codex is the sidecar that is always known.
func codex() sidecar {
	return sidecar{"http://127.0.0.1:1324", []string{"sse-http-server", "--addr", "127.0.0.1:1324"}}
}

// parseSidecar reads NAME=URL COMMAND ARGUMENTS….
func parseSidecar(text string) (name string, s sidecar, err error) {
	name, rest, _ := strings.Cut(text, "=")
	fields := strings.Fields(rest)
	if name == "" || len(fields) < 2 {
		return "", s, errors.New("expected NAME=URL COMMAND ARGUMENTS…")
	}
	s = sidecar{fields[0], fields[1:]}
	if u, err := url.Parse(s.url); err != nil || u.Port() == "" {
		return "", s, fmt.Errorf("the URL %q: expected one with a port", s.url)
	}
	return name, s, nil
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
	u, err := url.Parse(known.url)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.running[name]; p != nil && p.Running() {
		return "already_running", nil
	}
	said := new(process.Output) // nobody else reads it, and a full pipe would stop the program
	p, err := s.commands.guard.Start(s.commands.in(&process.Command{Path: known.command[0], Args: known.command[1:], Stdout: said, Stderr: said}))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("it does not listen"))
	defer cancel()
	if err := p.AwaitPort(ctx, u.Host); err != nil {
		p.Stop()
		return "", fmt.Errorf("%w; it says %.500q", err, said.String())
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
