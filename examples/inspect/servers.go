package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// connectTimeout is how long one server may take to start.
const connectTimeout = 30 * time.Second

// servers are those of a configuration, behind one face. There are none, nil, where one
// server is looked at.
type servers struct {
	bridge *bridge.Bridge
	face   *server.Server
}

// openServers reads a configuration. What is wrong with one server is said, and does not
// keep the others from being looked at.
func openServers(ctx context.Context, c *command, stderr io.Writer) (*servers, error) {
	file, err := config.Load(c.target.config)
	if err != nil {
		return nil, err
	}
	for _, warning := range file.Warnings {
		fmt.Fprintf(stderr, "inspect: %s:%v\n", file.Name, warning)
	}
	logger := slog.New(slog.DiscardHandler)
	dial := &config.DialOptions{Logger: logger}
	if c.verbose {
		logger = slog.New(slog.NewTextHandler(stderr, nil))
		dial.Logger, dial.Stderr, dial.Conn.Trace = logger, stderr, trace(stderr)
	}
	configs, err := file.Bridge(ctx, &config.Expander{Ask: config.AskEnv}, dial)
	if err != nil {
		fmt.Fprintln(stderr, "inspect:", err)
	}
	for i := range configs { // one that hangs must leave time for the others
		configs[i].ConnectTimeout = min(positive(configs[i].ConnectTimeout, connectTimeout), c.timeout/2)
	}
	s := &servers{face: server.New(mcp.Implementation{Name: "inspect", Version: "1.0.0"}, &server.Options{Logger: logger})}
	if s.bridge, err = bridge.New(&bridge.Options{Logger: logger, StartPatience: c.timeout}, configs...); err != nil {
		return nil, err
	}
	if err := s.face.Mount(s.bridge, nil); err != nil {
		return nil, err
	}
	if err := s.face.Start(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func positive(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// report says which servers could not be started.
func (s *servers) report(stderr io.Writer) {
	if s == nil {
		return
	}
	for _, state := range s.bridge.States() {
		if state.Err != nil {
			fmt.Fprintf(stderr, "inspect: the server %q is %s: %v\n", state.Alias, state.Status, state.Err)
		}
	}
}

// A serverState is how one server does.
type serverState struct {
	Alias     string        `json:"alias"`
	Status    bridge.Status `json:"status"`
	Error     string        `json:"error,omitempty"`
	Tools     int           `json:"tools"`
	Prompts   int           `json:"prompts"`
	Resources int           `json:"resources"`
}

func (s *servers) states() []serverState {
	states := []serverState{}
	for _, state := range s.bridge.States() {
		shown := serverState{
			Alias: state.Alias, Status: state.Status,
			Tools: state.Tools, Prompts: state.Prompts, Resources: state.Resources,
		}
		if state.Err != nil {
			shown.Error = state.Err.Error()
		}
		states = append(states, shown)
	}
	return states
}

// grace is how long servers may take to end.
const grace = 5 * time.Second

func (s *servers) close() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = s.face.Shutdown(ctx) // what has been looked at has been shown
}
