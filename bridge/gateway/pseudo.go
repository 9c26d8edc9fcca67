package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A ToolFunc implements the tools of a pseudo-server. name is the exposed name, such as
// "skills__load". It returns one JSON value; nil means null. The caller gets the text of its
// error. It may be called concurrently.
type ToolFunc func(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)

// A Pseudo is a provider of pseudo-servers: functions of this program, by alias. Each function
// gets the calls of all tools whose names begin with its alias and [bridge.Separator]; these
// tools are not listed. Mount the provider without a prefix, after a bridge: a tool that a bridge
// lists takes precedence, and a [Gateway] calls no tool of a pseudo-server that has the alias of
// a server. Make one with [NewPseudo]. Its methods may be called concurrently, also while calls
// run.
type Pseudo struct {
	catalog *server.Catalog
	entries frontend.Entries

	mu        sync.Mutex
	functions map[string]*ToolFunc
}

// NewPseudo returns a provider of functions by alias. The error reports an alias that is empty,
// contains the separator or ends with _, or that has no function. functions may be nil.
func NewPseudo(functions map[string]ToolFunc) (*Pseudo, error) {
	p := &Pseudo{functions: make(map[string]*ToolFunc, len(functions))}
	p.catalog = server.NewCatalog(nil, &server.CatalogOptions{Resolve: p.resolve})
	for alias, fn := range functions {
		if fn == nil {
			return nil, fmt.Errorf("gateway: the pseudo-server %q has no function", alias)
		}
		if err := p.Set(alias, fn); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Set sets or replaces the function of an alias. nil removes the pseudo-server, whose tools are
// then unknown. Calls that have begun, or have been approved, keep their function. The error is
// as of [NewPseudo].
func (p *Pseudo) Set(alias string, fn ToolFunc) error {
	if !frontend.IsAlias(alias) {
		return fmt.Errorf("gateway: the pseudo-server %q: expected an alias that is not empty, does not contain %s and does not end with _", alias, bridge.Separator)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if fn == nil {
		delete(p.functions, alias)
		return nil
	}
	p.functions[alias] = &fn
	return nil
}

// Get returns the function of an alias, or nil.
func (p *Pseudo) Get(alias string) ToolFunc {
	if fn := p.find(alias); fn != nil {
		return *fn
	}
	return nil
}

func (p *Pseudo) find(alias string) *ToolFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.functions[alias]
}

// Catalog returns a catalog that lists nothing and resolves the tools of the functions.
func (p *Pseudo) Catalog() *server.Catalog { return p.catalog }

// Run calls ready and returns when ctx ends.
func (p *Pseudo) Run(ctx context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

// A pseudoKey identifies a tool of a function.
type pseudoKey struct {
	fn   *ToolFunc
	name string
}

func (p *Pseudo) resolve(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
	alias, own, ok := strings.Cut(name, bridge.Separator)
	fn := p.find(alias)
	if kind != mcp.KindTool || !ok || own == "" || fn == nil {
		return nil, nil
	}
	return p.entries.Get(pseudoKey{fn, name}, func() *server.Entry {
		return &server.Entry{
			Target: mcp.Target{Kind: kind, Name: name, Origin: mcp.Origin{Server: alias, Name: own, Trusted: true}},
			Handle: func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				return callFunc(ctx, *fn, name, call.Member("arguments"))
			},
		}
	}), nil
}

// callFunc calls a tool of a pseudo-server. The result has the value as structured content.
func callFunc(ctx context.Context, fn ToolFunc, name string, arguments json.RawMessage) (mcp.Result, error) {
	value, err := fn(ctx, name, arguments)
	switch _, protocol := errors.AsType[*jsonrpc.Error](err); {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil && !protocol:
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: err.Error()}
	case err != nil:
		return nil, err
	case value == nil:
		value = json.RawMessage("null")
	}
	if err := jsonscan.Valid(value); err != nil {
		return nil, fmt.Errorf("the function of the pseudo-server's tool %s returned invalid JSON: %w", jsonscan.Quote(name), err)
	}
	text := jsonscan.AppendString(nil, string(value))
	return mcp.Raw(slices.Concat([]byte(`{"content":[{"type":"text","text":`), text, []byte(`}],"structuredContent":`), value, []byte{'}'})), nil
}
