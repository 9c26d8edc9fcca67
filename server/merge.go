package server

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

// merged is what all parts of a server offer, as they were between two changes.
type merged struct {
	parts     []part
	catalogue Catalogue
	owners    map[entryKey]*owner
	templates []ownedTemplate
	refused   []refusal
}

// A part is the registry, which is no mount, or something mounted.
type part struct {
	mount   *mount
	offered *Catalogue
}

// An owner is who offers something.
type owner struct {
	key    entryKey
	mount  *mount          // nil: the registry
	name   string          // that it has there
	quoted json.RawMessage // the name, as JSON, if it is another there
	listed bool
}

type ownedTemplate struct {
	*owner
	matcher *uritemplate.Matcher
}

// A refusal is what cannot be offered, and why.
type refusal struct {
	of  *mount
	err error
}

// merge puts the parts together. Of two that offer the same, the one that did so
// before keeps it, so that nobody takes over what is in use; else the first does.
func merge(before *merged, own *registry, mounts []*mount) *merged {
	m := &merged{owners: make(map[entryKey]*owner), parts: []part{{nil, own.Catalogue()}}}
	for _, mount := range mounts {
		m.parts = append(m.parts, part{mount, mount.provider.Catalogue()})
	}
	for _, p := range m.parts {
		m.claim(before, p)
	}
	for _, p := range m.parts {
		m.take(p)
	}
	return m
}

// isOf says whether the parts are as they were merged.
func (m *merged) isOf(own *registry, mounts []*mount) bool {
	if m == nil || len(m.parts) != 1+len(mounts) || m.parts[0].offered != own.Catalogue() {
		return false
	}
	for i, mount := range mounts {
		if m.parts[i+1].offered != mount.provider.Catalogue() {
			return false
		}
	}
	return true
}

// claim notes what a part wants to offer.
func (m *merged) claim(before *merged, p part) {
	for kind, l := range p.offered.all() {
		key := p.mount.outside(entryKey{kind, l.Name})
		_, claimed := m.owners[key]
		if claimed && !before.isOwner(key, p.mount) || p.mount.check(key) != nil {
			continue
		}
		of := &owner{key: key, mount: p.mount, name: l.Name}
		if key.name != l.Name {
			of.quoted = jsonscan.AppendString(nil, l.Name)
		}
		m.owners[key] = of
	}
}

func (m *merged) isOwner(key entryKey, of *mount) bool {
	if m == nil {
		return false
	}
	owner := m.owners[key]
	return owner != nil && owner.mount == of
}

// take lists what a part owns.
func (m *merged) take(p part) {
	for kind, l := range p.offered.all() {
		key := p.mount.outside(entryKey{kind, l.Name})
		of := m.owners[key]
		err := p.mount.check(key)
		if err == nil && (of.mount != p.mount || of.listed) {
			err = collision(key)
		}
		if err == nil && p.mount != nil {
			if l.JSON, err = of.entry(l.JSON); err != nil {
				err = fmt.Errorf("%v %.256q: %w", kind, key.name, err)
				delete(m.owners, key)
			}
		}
		if err != nil {
			m.refused = append(m.refused, refusal{p.mount, err})
			continue
		}
		of.listed = true
		list := m.catalogue.list(kind)
		*list = append(*list, Listed{key.name, l.JSON})
		if kind == templateKind {
			m.addTemplate(of)
		}
	}
	m.catalogue.Completes = m.catalogue.Completes || p.offered.Completes
	m.catalogue.Partial = m.catalogue.Partial || p.offered.Partial
}

// entry is something mounted as it stands in the list here.
func (o *owner) entry(listed json.RawMessage) (json.RawMessage, error) {
	if o.quoted == nil {
		_, err := jsonscan.ReadObject(listed)
		return listed, err
	}
	return jsonscan.Splice(nil, listed, jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, o.key.name)})
}

// addTemplate remembers how to match a template. One that cannot be matched here is
// listed, and its resources are read when they are listed too.
func (m *merged) addTemplate(of *owner) {
	parsed, err := uritemplate.Parse(of.name)
	if err != nil {
		return
	}
	if matcher, err := parsed.Matcher(); err == nil {
		m.templates = append(m.templates, ownedTemplate{of, matcher})
	}
}

// owner returns who offers what has the name, which stands here as a call has it; nil
// if nobody does.
func (m *merged) owner(kind kind, raw json.RawMessage) *owner { return named(m.owners, kind, raw) }

// resource returns who has a resource: the one that lists it, else the first with a
// template that matches it.
func (m *merged) resource(uri string) *owner {
	if of := m.owners[entryKey{resourceKind, uri}]; of != nil {
		return of
	}
	for _, template := range m.templates {
		if _, ok := template.matcher.Match(uri); ok {
			return template.owner
		}
	}
	return nil
}

// all are the entries of all lists.
func (c *Catalogue) all() iter.Seq2[kind, Listed] {
	return func(yield func(kind, Listed) bool) {
		for kind := range completionKind {
			for _, l := range *c.list(kind) {
				if !yield(kind, l) {
					return
				}
			}
		}
	}
}

func (c *Catalogue) list(kind kind) *[]Listed {
	switch kind {
	case toolKind:
		return &c.Tools
	case promptKind:
		return &c.Prompts
	case resourceKind:
		return &c.Resources
	default:
		return &c.Templates
	}
}
