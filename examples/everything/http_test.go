package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// startHTTP serves until end is called, which returns what serveHTTP does. base is
// the URL without a path.
func startHTTP(t *testing.T) (base string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, said := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveHTTP(ctx, newServer(), "127.0.0.1:0", said) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base = regexp.MustCompile(`http://[\d.:]+`).FindString(line)
	if !strings.HasPrefix(line, "serving "+base+"/mcp ") {
		t.Fatalf("the server says %q", line)
	}
	return base, func() error {
		cancel()
		return <-ended
	}
}

func TestHTTP(t *testing.T) {
	base, end := startHTTP(t)
	for path, dialer := range map[string]transport.Dialer{
		"/mcp": streamable.Dial(base+"/mcp", nil),
		"/sse": sse.Dial(base+"/sse", nil),
		"/ws":  ws.Dial("ws"+strings.TrimPrefix(base, "http")+"/ws", nil),
	} {
		t.Run(path, func(t *testing.T) {
			session, err := client.Connect(t.Context(), dialer, visitor(client.Auto))
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if got := outcomeOf(session.CallTool(t.Context(), "test_sampling", json.RawMessage(`{"prompt":"why?"}`), nil)); got != "LLM response: answer to why?" {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("/health", func(t *testing.T) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Get(base + "/health")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "ok\n" {
			t.Errorf("got %q, %v", body, err)
		}
	})
	if err := end(); err != nil {
		t.Errorf("told to end, the server says %v", err)
	}
}

// TestHTTPEnds: what runs is answered, and an open stream does not hold the server
// up.
func TestHTTPEnds(t *testing.T) {
	base, end := startHTTP(t)
	session, err := client.Connect(t.Context(), streamable.Dial(base+"/mcp", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}); err != nil {
		t.Fatal(err)
	}
	begun, answered := make(chan struct{}, 3), make(chan string, 1)
	go func() {
		answered <- outcomeOf(session.CallTool(t.Context(), "test_tool_with_progress", nil,
			&client.CallOptions{Progress: func(*mcp.ProgressParams) { begun <- struct{}{} }}))
	}()
	<-begun
	if err := end(); err != nil {
		t.Errorf("told to end, the server says %v", err)
	}
	if got := <-answered; got != "Tool with progress executed successfully" {
		t.Errorf("a call that ran got %q", got)
	}
}

func TestHTTPAddressInUse(t *testing.T) {
	base, end := startHTTP(t)
	defer end()
	err := serveHTTP(t.Context(), newServer(), strings.TrimPrefix(base, "http://"), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("an address in use gives %v", err)
	}
}
