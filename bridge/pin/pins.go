package pin

import (
	"maps"
	"sync/atomic"
)

// digests are the tools of a server, by name, that are pinned. They are replaced as a
// whole and never changed.
type digests map[string]string

// contents are the pins of all servers, by alias: what is in a lock's file.
type contents map[string]digests

// pins are those of one server. The lock's mutex protects what is not atomic, and changes.
type pins struct {
	lock     *Lock
	alias    string
	current  atomic.Pointer[digests]
	pending  []Pending     // replaced as a whole
	replaced chan struct{} // closed when somebody has pinned something
}

func (p *pins) now() digests { return *p.current.Load() }

func (p *pins) set(d digests) { p.current.Store(&d) }

// changes returns a channel that is closed at the next change that is not [pins.trust].
func (p *pins) changes() <-chan struct{} {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	return p.replaced
}

func (p *pins) tell() {
	close(p.replaced)
	p.replaced = make(chan struct{})
}

// put pins tools, all or none, and tells who waits.
func (p *pins) put(more digests) error {
	changed, err := p.merge(more)
	if changed {
		p.tell()
	}
	return err
}

// merge adds to what is pinned, all or nothing.
func (p *pins) merge(more digests) (changed bool, err error) {
	if err := checkName("server", p.alias); err != nil {
		return false, err
	}
	before := p.now()
	merged, added := maps.Clone(before), 0
	if merged == nil {
		merged = make(digests)
	}
	for tool, digest := range more {
		if err := checkName("tool", tool); err != nil {
			return false, err
		}
		if _, there := merged[tool]; !there {
			added++
		}
		merged[tool] = digest
	}
	if p.lock.count+added > MaxPins {
		return false, ErrFull
	}
	if maps.Equal(before, merged) {
		return false, nil
	}
	p.set(merged)
	p.lock.count += added
	p.lock.edits++
	return true, nil
}

// trust pins tools that are seen for the first time, and returns what is pinned then. What
// is pinned already stays.
func (p *pins) trust(seen digests) (pinned *digests, err error) {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	before := p.now()
	maps.DeleteFunc(seen, func(tool, _ string) bool {
		_, there := before[tool]
		return there
	})
	_, err = p.merge(seen)
	return p.current.Load(), err
}

// await replaces what is pending.
func (p *pins) await(pending []Pending) {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	p.pending = pending
}
