package frontend

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Servers are the upstream servers of a server.
type Servers struct {
	Server *server.Server
	// States returns their states. If it is nil, every server with tools is assumed to run, and
	// others are unknown.
	States func() []bridge.State
}

// An index maps the origins of tools to the entries of a catalog.
type index struct {
	tools   map[mcp.Origin]*server.Entry // by Server and Name only
	aliases []string                     // of servers with tools
}

type indexKey struct{}

func (s *Servers) index() *index {
	catalog := s.Server.Catalog()
	return catalog.Memo(indexKey{}, func() any {
		x := &index{tools: make(map[mcp.Origin]*server.Entry)}
		for e := range catalog.All(mcp.KindTool) {
			if e.Origin.Server == "" {
				continue
			}
			x.tools[mcp.Origin{Server: e.Origin.Server, Name: e.Origin.Name}] = e
			if !slices.Contains(x.aliases, e.Origin.Server) {
				x.aliases = append(x.aliases, e.Origin.Server)
			}
		}
		return x
	}).(*index)
}

// All returns the states of the servers, in order.
func (s *Servers) All() []bridge.State {
	if s.States != nil {
		return s.States()
	}
	var all []bridge.State
	for _, alias := range s.index().aliases {
		all = append(all, bridge.State{Alias: alias, Status: "ready"})
	}
	return all
}

// HasTools reports whether a server has listed tools.
func (s *Servers) HasTools(alias string) bool { return slices.Contains(s.index().aliases, alias) }

// Has reports whether there is an upstream server with that alias.
func (s *Servers) Has(alias string) bool {
	return slices.ContainsFunc(s.All(), func(s bridge.State) bool { return s.Alias == alias })
}

// AcceptsCalls reports whether a server is running, or is started by a call.
func AcceptsCalls(s bridge.State) bool { return s.Status == "ready" || s.Status == "idle" }

// AcceptsCalls reports whether the server with that alias accepts calls.
func (s *Servers) AcceptsCalls(alias string) bool {
	return slices.ContainsFunc(s.All(), func(s bridge.State) bool { return s.Alias == alias && AcceptsCalls(s) })
}

// Find returns the exposed name of a tool, given its server and the name there. A tool that
// does not exist has the name that it would have. ok is false if another tool has that name, or
// if there is no such server. Find may start a server that is started on demand. pseudo reports
// whether the tool belongs to a pseudo-server.
func (s *Servers) Find(ctx context.Context, alias, own string) (name string, pseudo, ok bool) {
	_ = s.Server.Start(ctx) // a call reports the error
	origin := mcp.Origin{Server: alias, Name: own}
	if e := s.index().tools[origin]; e != nil {
		return e.Name, false, true
	}
	isServer := s.Has(alias)
	if name = bridge.Name(alias, own); !isServer {
		name = alias + bridge.Separator + own
	}
	if s.Server.Catalog().Lookup(mcp.KindTool, name) != nil {
		return "", false, false
	}
	e, err := s.Server.Catalog().Resolve(ctx, mcp.KindTool, name)
	if listed := s.index().tools[origin]; listed != nil { // the server has started
		return listed.Name, false, true
	}
	if e == nil || err != nil {
		return name, false, isServer
	}
	pseudo = isPseudo(e)
	return name, pseudo, e.Origin.Server == alias && e.Origin.Name == own && pseudo != isServer
}

// isPseudo reports whether a tool belongs to a pseudo-server: it is not listed.
func isPseudo(e *server.Entry) bool { return e.Definition == nil }

// IsAlias reports whether name is valid for a pseudo-server. The names of its tools then differ from the name of any
// other server's tool.
func IsAlias(name string) bool {
	return name != "" && !strings.Contains(name, bridge.Separator) && !strings.HasSuffix(name, "_")
}

// maxEntries is the maximum number of cached entries.
const maxEntries = 1 << 10

// Entries caches entries that are not listed and whose names callers choose, so that their
// chain of guards is built once. It is cleared when it is full. The zero value is empty, and
// may be used concurrently.
type Entries struct {
	mu      sync.Mutex
	entries map[any]*server.Entry
}

// Get returns the entry with the key, and builds it if it is not cached.
func (c *Entries) Get(key any, build func() *server.Entry) *server.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	if e == nil {
		if c.entries == nil || len(c.entries) == maxEntries {
			c.entries = make(map[any]*server.Entry)
		}
		e = build()
		c.entries[key] = e
	}
	return e
}
