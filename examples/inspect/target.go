package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// A target is the server to talk to.
type target struct {
	command []string
	url     string
	headers headers
	login   bool
	tokens  *oauth.Client // nil unless somebody logs in
	config  string        // a file of many servers, in place of one
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

// add adds the headers to a request's.
func (h headers) add(_ context.Context, to http.Header) error {
	for _, header := range h {
		name, value, _ := strings.Cut(header, ":")
		to.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return nil
}

// take takes the target off the end of the command line and returns the rest.
func (t *target) take(line []string) ([]string, error) {
	if t.config != "" {
		return line, t.alone(line)
	}
	if at := slices.Index(line, "--"); at >= 0 {
		t.command = line[at+1:]
		if len(t.command) == 0 {
			return nil, errors.New("expected a command after --")
		}
		return line[:at], nil
	}
	if len(line) == 0 || !strings.Contains(line[len(line)-1], "://") {
		return nil, errors.New("expected a server at the end: a URL, or -- COMMAND [ARG…]")
	}
	t.url = line[len(line)-1]
	return line[:len(line)-1], nil
}

// alone says what does not go with a file of servers.
func (t *target) alone(line []string) error {
	if slices.Contains(line, "--") {
		return errors.New("-config says which servers to start: expected no command")
	}
	if len(t.headers) > 0 {
		return errors.New("-header is for one server at a URL: expected headers in the file")
	}
	return nil
}

// dialer connects to the target. A server at an http URL that has HTTP+SSE only is
// found out.
func (t *target) dialer(verbose bool, stderr io.Writer) (transport.Dialer, error) {
	var conn jsonrpc.Options
	if verbose {
		conn.Trace = trace(stderr)
	}
	if t.url == "" {
		return t.child(conn, verbose, stderr)
	}
	scheme, _, _ := strings.Cut(t.url, "://")
	switch strings.ToLower(scheme) {
	case "http", "https":
		opts := &streamable.DialOptions{Header: t.headers.add, Conn: conn}
		if t.tokens != nil {
			opts.Authorizer = t.tokens
		}
		return streamable.Dial(t.url, opts), nil
	case "ws", "wss":
		return ws.Dial(t.url, &ws.DialOptions{Header: t.headers.add, Conn: conn}), nil
	}
	return nil, fmt.Errorf("%s is no server: expected a URL that begins with http, https, ws or wss", t.url)
}

// child starts a command. It inherits the environment: whoever types the command
// could set it as well.
func (t *target) child(conn jsonrpc.Options, verbose bool, stderr io.Writer) (transport.Dialer, error) {
	if len(t.headers) > 0 {
		return nil, errors.New("-header is for servers at a URL")
	}
	opts := &stdio.CommandOptions{InheritEnv: true, Conn: conn}
	if verbose {
		opts.Stderr = stderr
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
