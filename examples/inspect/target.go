package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// A target is the server to talk to.
type target struct {
	command []string
	url     string
	headers headers
}

type headers []string

func (h *headers) String() string { return strings.Join(*h, ", ") }

func (h *headers) Set(header string) error {
	if !strings.Contains(header, ":") {
		return errors.New(`expected "name: value"`)
	}
	*h = append(*h, header)
	return nil
}

// take takes the target off the end of the command line and returns the rest.
func (t *target) take(line []string) ([]string, error) {
	if at := slices.Index(line, "--"); at >= 0 {
		t.command = line[at+1:]
		if len(t.command) == 0 {
			return nil, errors.New("expected a command after --")
		}
		return line[:at], nil
	}
	if len(line) == 0 || !strings.Contains(line[len(line)-1], "://") {
		return nil, errors.New("expected a server at the end: -- COMMAND [ARG…]")
	}
	t.url = line[len(line)-1]
	return line[:len(line)-1], nil
}

// dialer connects to the target. A child inherits the environment: whoever types
// the command could set it as well.
func (t *target) dialer(verbose bool, stderr io.Writer) (transport.Dialer, error) {
	if t.url != "" {
		return nil, fmt.Errorf("%s: HTTP is not supported yet, only commands are", t.url)
	}
	opts := &stdio.CommandOptions{InheritEnv: true}
	if verbose {
		opts.Stderr = stderr
		opts.Conn.Trace = trace(stderr)
	}
	return stdio.Command(t.command[0], t.command[1:], opts), nil
}

// trace shows messages as they go by.
func trace(w io.Writer) func(sent bool, frame []byte) {
	var mu sync.Mutex
	return func(sent bool, frame []byte) {
		direction := "←"
		if sent {
			direction = "→"
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, "%s %s\n", direction, frame)
	}
}
