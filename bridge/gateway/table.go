package gateway

import (
	"cmp"
	"encoding/json"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A table has all that one catalog offers.
type table struct {
	catalog *server.Catalog
	entries map[entryKey]*entry
	names   map[ownName]string // of tools, as callers see them
}

type entryKey struct {
	kind    mcp.Kind
	exposed string
}

type ownName struct{ alias, name string }

// An entry is something that is offered.
type entry struct {
	listed json.RawMessage
	target mcp.Target
	pseudo ToolFunc
}

// now is the table of what is offered now.
func (d *Directory) now() *table {
	catalog := d.provider.Catalog()
	return catalog.Memo(d, func() any { return newTable(catalog) }).(*table)
}

func newTable(c *server.Catalog) *table {
	t := &table{catalog: c, entries: make(map[entryKey]*entry), names: make(map[ownName]string)}
	for kind := mcp.KindTool; kind <= mcp.KindResourceTemplate; kind++ {
		for listed := range c.All(kind) {
			e := &entry{listed: listed.Definition.JSON(), target: targetOf(listed)}
			t.entries[entryKey{kind, listed.Name}] = e
			if kind == mcp.KindTool {
				t.names[ownName{e.target.Origin.Server, e.target.Origin.Name}] = listed.Name
			}
		}
	}
	return t
}

func targetOf(e *server.Entry) mcp.Target {
	t := e.Target
	t.Origin = mcp.Origin{Server: e.Origin.Server, Name: cmp.Or(e.Origin.Name, e.Name)}
	return t
}

func toolKey(exposed string) entryKey { return entryKey{mcp.KindTool, exposed} }
