package gateway

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// A table has all that one catalogue offers.
type table struct {
	catalogue *server.Catalogue
	entries   map[entryKey]*entry
	names     map[ownName]string // of tools, as callers see them
}

type entryKey struct {
	kind    mcp.Kind
	exposed string
}

type ownName struct{ alias, name string }

// An entry is something that is offered.
type entry struct {
	listed json.RawMessage
	target policy.Target
	pseudo ToolFunc
	err    error // why it cannot be said what it is
}

// maxBuilds is how often the table is made anew before there is nothing in it: of an offer that
// does not keep still nobody can say whose something is.
const maxBuilds = 100

// now is the table of what is offered now.
func (d *Directory) now() *table {
	if t := d.table.Load(); t != nil && t.catalogue == d.provider.Catalogue() {
		return t
	}
	d.build.Lock()
	defer d.build.Unlock()
	for range maxBuilds {
		catalogue := d.provider.Catalogue()
		if t := d.table.Load(); t != nil && t.catalogue == catalogue {
			return t
		}
		t := d.newTable(catalogue)
		if d.provider.Catalogue() == catalogue { // else whose things are may have been said of others
			d.table.Store(t)
			return t
		}
	}
	return &table{}
}

func (d *Directory) newTable(c *server.Catalogue) *table {
	t := &table{catalogue: c, entries: make(map[entryKey]*entry), names: make(map[ownName]string)}
	for kind, list := range map[mcp.Kind][]server.Listed{
		mcp.KindTool: c.Tools, mcp.KindPrompt: c.Prompts, mcp.KindResource: c.Resources, mcp.KindResourceTemplate: c.Templates,
	} {
		for _, listed := range list {
			alias, own, ok := d.origin(kind, listed.Name)
			if !ok {
				continue
			}
			e := &entry{listed: listed.JSON, target: policy.Target{Kind: kind, Server: alias, Name: own, Exposed: listed.Name}}
			e.err = e.target.Describe(listed.JSON)
			t.entries[entryKey{kind, listed.Name}] = e
			if kind == mcp.KindTool {
				t.names[ownName{alias, own}] = listed.Name
			}
		}
	}
	return t
}

func toolKey(exposed string) entryKey { return entryKey{mcp.KindTool, exposed} }
