package server

import (
	"fmt"
	"slices"
)

// A CollisionError says that two parts of a server offer something of one name, or a
// resource with one URI.
type CollisionError struct {
	// Kind is "tool", "resource", "resource template" or "prompt".
	Kind string
	// Name is the name, with its prefix, or the URI.
	Name string
}

// Error names what collides.
func (e *CollisionError) Error() string {
	return fmt.Sprintf("there are two of the %s %.256q; another prefix keeps mounted ones apart", e.Kind, e.Name)
}

func collision(key entryKey) error {
	return &CollisionError{Kind: key.kind.String(), Name: key.name}
}

// A place is where a server is mounted.
type place struct {
	in    *composite
	mount *mount
}

func (c *composite) placed() []place {
	if places := c.places.Load(); places != nil {
		return *places
	}
	return nil
}

// add takes one more mount in, unless it is refused.
func (c *composite) add(m *mount) error {
	if err := c.refuseMount(m); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	mounts, err := c.with(m)
	if err != nil {
		return err // somebody else has come first
	}
	c.mounts.Store(&mounts)
	if m.child != nil {
		m.child.provider.addPlace(place{c, m})
	}
	return nil
}

// refuseMount says why something cannot be mounted.
func (c *composite) refuseMount(m *mount) error {
	for kind, l := range m.provider.Catalogue().all() {
		if err := c.refuseAbove(m.outside(entryKey{kind, l.Name})); err != nil {
			return err
		}
	}
	_, err := c.with(m)
	return err
}

// with returns the mounts and one more, unless something of it is there already.
func (c *composite) with(m *mount) ([]*mount, error) {
	mounts := append(slices.Clone(c.mounted()), m)
	for _, refused := range merge(c.current.Load(), c.own, mounts).refused {
		if refused.of == m {
			return nil, refused.err
		}
	}
	return mounts, nil
}

func (c *composite) addPlace(p place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	places := append(slices.Clone(c.placed()), p)
	c.places.Store(&places)
}

// refuseNew says why entries cannot be registered.
func (c *composite) refuseNew(entries []Entry) error {
	if len(c.mounted())+len(c.placed()) == 0 {
		return nil
	}
	for _, e := range entries {
		key := e.key()
		if key.kind == completionKind || c.own.has(key) {
			continue
		}
		if err := c.refuse(key, nil); err != nil {
			return err
		}
	}
	return nil
}

// refuse says why a part, nil is the registry, cannot offer something: another part
// does, here or where this server is mounted.
func (c *composite) refuse(key entryKey, part *mount) error {
	taken := part != nil && c.own.has(key) ||
		slices.ContainsFunc(c.mounted(), func(m *mount) bool { return m != part && m.offers(key) })
	if taken {
		return collision(key)
	}
	return c.refuseAbove(key)
}

// refuseAbove is refuse for where this server is mounted only.
func (c *composite) refuseAbove(key entryKey) error {
	for _, p := range c.placed() {
		above := p.mount.outside(key)
		if err := p.mount.check(above); err != nil {
			return err
		}
		if err := p.in.refuse(above, p.mount); err != nil {
			return err
		}
	}
	return nil
}

func (m *mount) offers(key entryKey) bool {
	inside, ok := m.inside(key)
	return ok && slices.ContainsFunc(*m.provider.Catalogue().list(key.kind), func(l Listed) bool { return l.Name == inside.name })
}

// check refuses a name that the prefix has made too long.
func (m *mount) check(key entryKey) error {
	if m == nil || m.prefix == "" || !key.isPrefixed() {
		return nil
	}
	return checkName(key.kind, key.name)
}
