package interop

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"slices"
)

// A testClient is a connected client of one SDK.
type testClient interface {
	// spoken returns the protocol version, server the name of the server.
	spoken() string
	serverName() string
	// list returns the names or URIs of all tools, resources, templates or prompts.
	list(ctx context.Context, kind string) ([]string, error)
	// call calls a tool. It writes progress to the journal.
	call(ctx context.Context, tool string, arguments map[string]any) (*answer, error)
	// read reads a resource and returns a line for each of its contents.
	read(ctx context.Context, uri string) ([]string, error)
	prompt(ctx context.Context, name string, arguments map[string]string) (string, error)
	// complete completes an argument of a prompt, or a variable of a template.
	complete(ctx context.Context, prompt, template, argument, typed string) ([]string, error)
	// watch subscribes to changes of the tools and of a resource. It returns when the
	// server has acknowledged that.
	watch(ctx context.Context, uri string) error
	ping(ctx context.Context) error
	// code returns the JSON-RPC code of an error of the server, or 0 if the SDK does not
	// provide it.
	code(err error) int
	close() error
}

// An answer is the result of a tool.
type answer struct {
	content    []string // each block in one line
	structured string   // JSON
	failed     bool     // the result is an error
}

// A setup configures a client and a server.
type setup struct {
	transport string
	version   string
	url       string
	http      *http.Client
	journal   *journal
	// level is the minimum level of log messages in the journal, "" for no messages.
	level string
	// person answers a form with an action and the content.
	person func(message string) (action string, content map[string]any)
}

// model is the answer of every client to sampling, root its only root.
const (
	model = "42"
	root  = "file:///work"
)

// names collects the names of a list.
func names[T any](entries iter.Seq2[T, error], name func(T) string) ([]string, error) {
	var list []string
	for entry, err := range entries {
		if err != nil {
			return nil, err
		}
		list = append(list, name(entry))
	}
	return list, nil
}

// Versions. auto means that client and server negotiate.
const (
	modern = "2026-07-28"
	auto   = "auto"
)

// legacy are the versions with a handshake.
var legacy = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// A pin replaces the version in the handshake of a client.
type pin struct {
	http.RoundTripper
	version string
}

// pinned returns an HTTP client with a pin if the version has a handshake.
func pinned(web *http.Client, version string) *http.Client {
	if !slices.Contains(legacy, version) {
		return web
	}
	return &http.Client{Transport: pin{web.Transport, version}}
}

func (p pin) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		return p.RoundTripper.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte(`"method":"initialize"`)) {
		body = bytes.Replace(body, []byte(legacy[len(legacy)-1]), []byte(p.version), 1)
	}
	copied := req.Clone(req.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	copied.GetBody = nil
	return p.RoundTripper.RoundTrip(copied)
}
