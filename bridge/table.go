package bridge

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A table says which server has what, as all are between two changes.
type table struct {
	parts     []part
	catalogue server.Catalogue
	tools     map[string]*member
	prompts   map[string]*member
	resources map[string]*member
}

type part struct {
	member *member
	offer  *offer
}

// now returns the table of what the servers offer now.
func (b *Bridge) now() *table {
	members := *b.members.Load()
	if t := b.table.Load(); t.isOf(members) {
		return t
	}
	b.build.Lock()
	defer b.build.Unlock()
	if t := b.table.Load(); t.isOf(members) {
		return t
	}
	t := newTable(members, b.opts.Logger)
	b.table.Store(t)
	return t
}

func (t *table) isOf(members []*member) bool {
	if len(t.parts) != len(members) {
		return false
	}
	for i, m := range members {
		if t.parts[i].member != m || t.parts[i].offer != m.offer.Load() {
			return false
		}
	}
	return true
}

// newTable merges what the servers offer, in their order. Of two tools or prompts that
// have one name, which only a forged digest can bring about, none is offered; a resource
// is the first server's that lists it.
func newTable(members []*member, logger *slog.Logger) *table {
	t := &table{
		tools: make(map[string]*member), prompts: make(map[string]*member), resources: make(map[string]*member),
	}
	for _, m := range members {
		t.parts = append(t.parts, part{m, m.offer.Load()})
	}
	list := func(kind mcp.Kind, owners map[string]*member, of func(*server.Catalogue) []server.Listed) (merged []server.Listed) {
		twice := make(map[string]bool)
		for _, p := range t.parts {
			for _, l := range of(&p.offer.catalogue) {
				if owners[l.Name] != nil {
					twice[l.Name] = kind != mcp.KindResource && kind != mcp.KindResourceTemplate
					continue
				}
				owners[l.Name] = p.member
			}
		}
		for _, p := range t.parts {
			for _, l := range of(&p.offer.catalogue) {
				switch {
				case twice[l.Name]:
					logger.Warn("something of a server is not offered, since two have it", "server", p.member.alias, "kind", kind, "name", l.Name)
					owners[l.Name] = nil
				case owners[l.Name] == p.member:
					merged = append(merged, l)
				}
			}
		}
		return merged
	}
	t.catalogue.Tools = list(mcp.KindTool, t.tools, func(c *server.Catalogue) []server.Listed { return c.Tools })
	t.catalogue.Prompts = list(mcp.KindPrompt, t.prompts, func(c *server.Catalogue) []server.Listed { return c.Prompts })
	t.catalogue.Resources = list(mcp.KindResource, t.resources, func(c *server.Catalogue) []server.Listed { return c.Resources })
	t.catalogue.Templates = list(mcp.KindResourceTemplate, make(map[string]*member), func(c *server.Catalogue) []server.Listed { return c.Templates })
	for _, p := range t.parts {
		t.catalogue.Completes = t.catalogue.Completes || p.offer.catalogue.Completes
		t.catalogue.Partial = t.catalogue.Partial || p.offer.catalogue.Partial
	}
	return t
}

// resource returns who has a resource: who lists it, or the first with a template that it
// matches.
func (t *table) resource(uri string) *member {
	if m := t.resources[uri]; m != nil {
		return m
	}
	for _, p := range t.parts {
		if p.offer.has(uri) {
			return p.member
		}
	}
	return nil
}

// template returns who lists a template, or a resource with that URI.
func (t *table) template(uri string) *member {
	for _, p := range t.parts {
		if p.offer.templates[uri] {
			return p.member
		}
	}
	return t.resource(uri)
}

// Catalogue is what all servers offer now. Servers that do not run offer what they did
// when they last ran.
func (b *Bridge) Catalogue() *server.Catalogue { return &b.now().catalogue }

// Call passes a call on to the server that has what is called.
func (b *Bridge) Call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	m, err := b.now().owner(call)
	if err != nil {
		return nil, err
	}
	return m.Call(ctx, call)
}

func (t *table) owner(call *mcp.Call) (*member, error) {
	switch call.Method() {
	case mcp.MethodToolsCall:
		return ownerOf(mcp.KindTool, t.tools, call.Member("name"))
	case mcp.MethodPromptsGet:
		return ownerOf(mcp.KindPrompt, t.prompts, call.Member("name"))
	case mcp.MethodResourcesRead:
		return ownerBy(t.resource, call.Member("uri"))
	case mcp.MethodComplete:
		switch about := call.Member("ref", "type"); {
		case isText(about, "ref/prompt"):
			return ownerOf(mcp.KindPrompt, t.prompts, call.Member("ref", "name"))
		case isText(about, "ref/resource"):
			return ownerBy(t.template, call.Member("ref", "uri"))
		}
		return nil, errNoRef
	}
	return nil, methodNotFound(call.Method())
}

func ownerOf(kind mcp.Kind, owners map[string]*member, raw json.RawMessage) (*member, error) {
	if m, ok := lookUp(owners, raw); ok && m != nil {
		return m, nil
	}
	if jsonscan.KindOf(raw) != jsonscan.String {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "name must be a string"}
	}
	return nil, unknown(kind, jsonscan.Unquote(raw))
}

func ownerBy(find func(uri string) *member, raw json.RawMessage) (*member, error) {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "uri must be a string"}
	}
	uri := jsonscan.Unquote(raw)
	if m := find(uri); m != nil {
		return m, nil
	}
	return nil, noResource(uri)
}

// Subscribe has changes of a resource reported, by the server that has it.
func (b *Bridge) Subscribe(ctx context.Context, uri string) (unsubscribe func(), err error) {
	if m := b.now().resource(uri); m != nil {
		return m.Subscribe(ctx, uri)
	}
	return nil, noResource(uri)
}
