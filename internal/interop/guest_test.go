package interop

import (
	"context"
	"iter"
	"net/http"
)

// A guest is a client that is connected to a host.
type guest interface {
	// spoken is the protocol version, server the name of the host.
	spoken() string
	server() string
	// list lists names or URIs: of tools, resources, templates or prompts.
	list(ctx context.Context, kind string) ([]string, error)
	// call calls a tool. Its progress goes to the journal.
	call(ctx context.Context, tool string, arguments map[string]any) (*answer, error)
	// read reads a resource, each of its contents in one line.
	read(ctx context.Context, uri string) ([]string, error)
	prompt(ctx context.Context, name string, arguments map[string]string) (string, error)
	// complete completes an argument of a prompt, or a variable of a template.
	complete(ctx context.Context, prompt, template, argument, typed string) ([]string, error)
	// watch asks to be told of changed tools and of changes of a resource. It
	// returns when the host has agreed.
	watch(ctx context.Context, uri string) error
	ping(ctx context.Context) error
	// code is the JSON-RPC code of an error that the host answered with, 0 where
	// the SDK does not tell.
	code(err error) int
	close() error
}

// An answer is what a tool gave.
type answer struct {
	content    []string // each block in one line
	structured string   // JSON
	failed     bool     // the tool says so itself
}

// A stay is what a guest is opened for.
type stay struct {
	transport string
	version   string
	url       string
	http      *http.Client
	journal   *journal
	// level is the log level from which on messages go to the journal, if any do.
	level string
	// person answers a form: what it does, and what it fills in.
	person func(message string) (action string, content map[string]any)
}

// model is how every guest answers its host's question for a model, and root the
// directory that it has opened.
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
