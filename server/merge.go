package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Part is a catalog that is merged with others.
type Part struct {
	// Owner names the part among the others, in words for the operator.
	Owner   string
	Catalog *Catalog
}

// A CollisionError says that two parts of a catalog have an entry of one name: two tools,
// two prompts, or two resources with one URI, or that the template of one part covers the
// URI of a resource of a later part. One of them is not offered.
type CollisionError struct {
	Kind mcp.Kind
	// Name is the name, with its prefix, or the URI.
	Name string
	// Owner is the part whose entry is not offered, Other the one whose entry is. They
	// are the same if one part has both, and "" in a catalog that is not merged.
	Owner, Other string
}

// Error names what collides, and its owners.
func (e *CollisionError) Error() string {
	if e.Owner == e.Other {
		return fmt.Sprintf("a second %v %.256q of %s is not offered", e.Kind, e.Name, cmp.Or(e.Owner, "the catalog"))
	}
	return fmt.Sprintf("the %v %.256q of %s is not offered: %s has one; a prefix keeps them apart", e.Kind, e.Name, e.Owner, e.Other)
}

func (e *CollisionError) equals(other *CollisionError) bool { return *e == *other }

// Merge returns the catalog of all parts, in their order. Where two parts have an entry of
// one kind and name, the part keeps it that has it in before, otherwise the first; an
// earlier part's template likewise keeps the resources that it matches. The entry of the
// other is not offered, and is among the [Catalog.Collisions].
//
// before is the result for the parts as they were, or nil. If nothing has changed since,
// Merge returns it.
func Merge(before *Catalog, parts ...Part) *Catalog {
	if before != nil && slices.Equal(before.parts, parts) {
		return before
	}
	m := &Catalog{parts: slices.Clone(parts)}
	for _, p := range m.parts {
		m.claim(before, p)
	}
	for _, p := range m.parts {
		m.take(before, p)
	}
	m.mergeResolvers()
	return m
}

// Collisions returns what the catalog does not offer because of another entry. Do not
// change it.
func (c *Catalog) Collisions() []*CollisionError { return c.collisions }

// duplicates returns the collisions within a catalog, as those of an owner.
func (c *Catalog) duplicates(owner string) (all []*CollisionError) {
	for _, e := range c.collisions {
		if e.Owner == "" {
			all = append(all, &CollisionError{e.Kind, e.Name, owner, owner})
		}
	}
	return all
}

// claim notes the names that a part gets.
func (c *Catalog) claim(before *Catalog, p Part) {
	for kind, entries := range p.Catalog.entries {
		for _, e := range entries {
			if c.owners[kind] == nil {
				c.owners[kind] = make(map[string]string)
			}
			if _, claimed := c.owners[kind][e.Name]; !claimed || before.owns(p, e) {
				c.owners[kind][e.Name] = p.Owner
			}
		}
	}
}

// owns reports whether the part had the name before.
func (c *Catalog) owns(p Part, e *Entry) bool {
	return c != nil && c.owners[e.Kind][e.Name] == p.Owner && c.index[e.Kind][e.Name] != nil
}

// take adds the entries that a part gets.
func (c *Catalog) take(before *Catalog, p Part) {
	earlier := c.templates
	c.collisions = append(c.collisions, p.Catalog.duplicates(p.Owner)...)
	for kind, entries := range p.Catalog.entries {
		for i, e := range entries {
			other := c.owners[kind][e.Name]
			if e.Kind == mcp.KindResource && other == p.Owner && !before.owns(p, e) {
				other = c.covering(earlier, e.Name, p.Owner)
			}
			if other != p.Owner {
				c.collisions = append(c.collisions, &CollisionError{e.Kind, e.Name, p.Owner, other})
				continue
			}
			var dropped map[string]bool
			if e.Kind == mcp.KindResourceTemplate {
				dropped = p.Catalog.templates[i].dropped
			}
			c.add(e, dropped)
		}
	}
}

// covering returns the owner of the first of the templates that matches a URI.
func (c *Catalog) covering(templates []matcher, uri, otherwise string) string {
	for _, t := range templates {
		if t.matches(uri) {
			return c.owners[mcp.KindResourceTemplate][t.Name]
		}
	}
	return otherwise
}

// mergeResolvers has each part resolve what the parts before it do not have.
func (c *Catalog) mergeResolvers() {
	var resolving []*Catalog
	for _, p := range c.parts {
		c.partial = c.partial || p.Catalog.partial
		if p.Catalog.resolve != nil {
			resolving = append(resolving, p.Catalog)
		}
	}
	if len(resolving) == 0 {
		return
	}
	c.resolve = func(ctx context.Context, kind mcp.Kind, name string) (*Entry, error) {
		for _, part := range resolving {
			if e, err := part.Resolve(ctx, kind, name); e != nil || err != nil {
				return e, err
			}
		}
		return nil, nil
	}
}
