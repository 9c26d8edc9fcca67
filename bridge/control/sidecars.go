package control

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/shell"
)

// startTimeout bounds the time until a sidecar listens.
const startTimeout = 10 * time.Second

// A Sidecar is a program that a request starts. It must listen at the host and port of the URL
// within 10 seconds. It has the environment of the commands of [Options].Shell.
type Sidecar struct {
	// URL is an absolute URL with a port. Responses contain it.
	URL string
	// Command is the program and its arguments. No shell is involved.
	Command []string
}

func (s *Sidecar) validate() error {
	if u, err := url.Parse(s.URL); err != nil || u.Port() == "" {
		return fmt.Errorf("the URL %.256q: expected one with a port", s.URL)
	}
	if len(s.Command) == 0 || s.Command[0] == "" {
		return errors.New("expected a command")
	}
	return nil
}

// address returns the host and port of a valid sidecar.
func (s *Sidecar) address() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Host
}

// sidecars are the known sidecars and their processes.
type sidecars struct {
	shell *shell.Shell
	known map[string]Sidecar

	mu      sync.Mutex // held while a sidecar is started or stopped
	closed  bool
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
	if s.closed {
		return "", process.ErrClosed
	}
	if p := s.running[name]; p != nil && p.Running() {
		return "already_running", nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("it does not listen"))
	defer cancel()
	p, err := s.shell.StartServer(ctx, &process.Command{Path: known.Command[0], Args: known.Command[1:]}, known.address())
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
	s.closed = true
	for _, p := range s.running {
		p.Stop()
	}
}
