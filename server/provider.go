package server

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Provider is where tools, resources, prompts and completions come from: a
// server's own registry, another server, a remote one, a directory. Its methods
// may be called concurrently.
type Provider interface {
	// Catalogue says what is offered now. It does not block, and what it returns
	// does not change: a changed offer is another catalogue, and until the offer changes
	// it returns the same pointer.
	Catalogue() *Catalogue

	// Call answers a call for something in the catalogue: tools/call,
	// resources/read, prompts/get or completion/complete.
	Call(ctx context.Context, call *mcp.Call) (mcp.Result, error)

	// Run does what the provider has to do while it is in use, and reports
	// changes, until ctx ends. changed does not block.
	Run(ctx context.Context, changed func(mcp.Change)) error
}

// A Starter is a [Provider] that has something to wait for before it is offered: a server
// that has to be started, say.
type Starter interface {
	// Started returns when the provider, whose Run runs, has got there, or says why
	// it cannot be offered: then the server that it is mounted on does not start. ctx
	// ends within a minute.
	Started(ctx context.Context) error
}

// A Subscriber is a [Provider] that must know which resources are watched.
type Subscriber interface {
	// Subscribe begins to report changes of a resource through Run's changed.
	Subscribe(ctx context.Context, uri string) (unsubscribe func(), err error)
}

// A Scoper is a [Provider] that knows which scopes calls need. What wraps a provider should
// be one if that is: else a server that it is mounted on asks for none.
type Scoper interface {
	// Scopes are those that a call needs, as [Server.Scopes] has it, by a name that the
	// provider has in its catalogue, or the URI of a resource.
	Scopes(method, name string) []string
}

// A Catalogue is what a [Provider] offers, in the order of its lists. Do not
// change it.
type Catalogue struct {
	Tools     []Listed
	Resources []Listed
	Templates []Listed
	Prompts   []Listed
	// Completes says whether any completion is offered.
	Completes bool
	// Partial says that there will be more, of any kind, once somebody has been asked who
	// has not answered yet. A server that offers it declares all kinds, so that its
	// clients will listen.
	Partial bool
}

// A Listed is one entry of a list.
type Listed struct {
	// Name is the tool's or prompt's name, the resource's URI or the URI
	// template.
	Name string
	// JSON is the entry as it stands in the list: an mcp.Tool, mcp.Resource,
	// mcp.ResourceTemplate or mcp.Prompt.
	JSON json.RawMessage
}
