package pin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const (
	// maxDefinition is the length of the longest definition that can be pinned, in bytes.
	maxDefinition = 1 << 20
	// maxContent is the length of the longest content that can be pinned, in bytes.
	maxContent = 8 << 20
	// maxContents and maxContentBytes bound the pending contents of a server. A server with a template has any number.
	maxContents, maxContentBytes = 256, 32 << 20
	// maxName is the length of the longest name or URI of an entry, or alias of a server, in bytes.
	maxName = 256
	// maxPins is the largest number of pins in a lock, for all servers together.
	maxPins = 16_384
	// maxTrusted is how many pins of one server [Options].TrustNew makes. Without it, a server that lists other names
	// each time would leave no pins for the other servers.
	maxTrusted = 4096
	// maxFile is the size of the largest lock file, in bytes. The other limits allow no
	// larger one.
	maxFile = 64 << 20
)

var (
	// ErrNotPending is the error of accepting an entry that is not pending.
	ErrNotPending = errors.New("no such entry is pending")
	// ErrFull is the error of pinning more than 16,384 entries.
	ErrFull = fmt.Errorf("a lock has %d pins at most", maxPins)
)

// A Lock stores the digests of accepted entries for each server, in memory and optionally in a
// file. The zero value is an empty lock in memory. Its methods may be called concurrently.
type Lock struct {
	path string // "" without a file

	mu      sync.Mutex // guards the following fields, and the fields of serverPins
	servers map[string]*serverPins
	count   int    // of all pins
	edits   uint64 // how often pins have changed
	// unwritten are accepted definitions for the next Save, and written are the digests of those in the folder.
	unwritten      map[string]json.RawMessage
	unwrittenBytes int
	written        map[string]bool

	saving sync.Mutex // guards the following fields and the file; taken before mu
	saved  uint64     // the edits that are in the file
	onDisk []byte     // the content of the file when it was last read or written; nil before
}

// NewLock returns an empty lock for a file that does not exist yet; see [Lock.Save]. An empty
// path means a lock in memory. Use [Load] for an existing file, and NewLock only if Load fails
// with fs.ErrNotExist.
func NewLock(path string) *Lock {
	return &Lock{path: path, edits: 1} // even an empty lock has to be saved
}

// Pinned returns the pinned digest of an entry.
func (l *Lock) Pinned(server string, e Entry) (digest string, ok bool) {
	digest, ok = l.server(server).digests()[e]
	return digest, ok
}

// Pin pins an entry to a digest, as returned by [Digest] or [Pending.NewDigest], whether a server
// offers the entry or not. The error says that the digest, the kind or a name is not valid, or is
// [ErrFull].
func (l *Lock) Pin(server string, e Entry, digest string) error {
	if err := checkDigest(digest); err != nil {
		return err
	}
	if e.Kind.memberNames() == nil {
		return fmt.Errorf("expected one of the kinds %q, found %.100q", kinds(), e.Kind)
	}
	p := l.server(server)
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.add(digests{e: digest})
}

// Accept pins the pending definitions of entries, all or none. The error is [ErrNotPending] for
// an entry that is not in [Lock.Pending], says that an entry is invalid, or is [ErrFull]. A program
// that has shown a definition to a person calls [Lock.AcceptDigest] instead, since another definition
// may be pending by now.
func (l *Lock) Accept(server string, entries ...Entry) error {
	accepted := make(digests, len(entries))
	for _, e := range entries {
		accepted[e] = ""
	}
	return l.accept(server, accepted)
}

// AcceptDigest pins the pending definition of an entry if its digest is still [Pending.NewDigest] as it was shown. Otherwise
// the error is [ErrNotPending], as for an entry that is not pending. The other errors are the same as for [Lock.Accept].
func (l *Lock) AcceptDigest(server string, e Entry, digest string) error {
	if err := checkDigest(digest); err != nil {
		return err
	}
	return l.accept(server, digests{e: digest})
}

// accept pins pending entries. A digest of accepted is "", or the one that must be pending.
func (l *Lock) accept(server string, accepted digests) error {
	entries := slices.SortedFunc(maps.Keys(accepted), compareEntries)
	p := l.server(server)
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make(digests, len(entries))
	kept := make([]Pending, 0, len(p.pending))
	for _, pending := range p.pending {
		switch digest, ok := accepted[pending.Entry]; {
		case !ok || digest != "" && digest != pending.NewDigest:
			kept = append(kept, pending)
		case pending.Err != nil:
			return fmt.Errorf("the %s %.256q of %.256q cannot be accepted: %w", pending.Kind.what(), pending.Name, server, pending.Err)
		default:
			found[pending.Entry] = pending.NewDigest
		}
	}
	for _, e := range entries {
		if found[e] == "" {
			return fmt.Errorf("the %s %.256q of %.256q: %w", e.Kind.what(), e.Name, server, ErrNotPending)
		}
	}
	if err := p.add(found); err != nil {
		return err
	}
	for _, pending := range p.pending {
		if found[pending.Entry] != "" {
			l.keepLocked(pending.NewDigest, pending.After)
		}
	}
	p.pending = kept
	return nil
}

// Pending returns the entries that are not as pinned, sorted by server, kind and name: quarantined
// ones, and changed ones that [Options.OfferChanged] offers. It is the result of the last
// evaluation of each [Provider], which happens when its catalog is read, and during Run when
// the catalog changes. A content is pending after it has been read; see [Provider.ReadContents].
func (l *Lock) Pending() []Pending {
	l.mu.Lock()
	var all []Pending
	for _, p := range l.servers {
		all = append(all, p.pending...)
	}
	l.mu.Unlock()
	for i := range all {
		if p := &all[i]; p.Before == nil && p.OldDigest != "" {
			p.Before = l.definition(p.Kind, p.OldDigest)
		}
	}
	slices.SortFunc(all, func(a, b Pending) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), compareEntries(a.Entry, b.Entry))
	})
	return all
}

// server returns the pins of a server, which are empty if the server is unknown.
func (l *Lock) server(alias string) *serverPins {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serverLocked(alias)
}

func (l *Lock) serverLocked(alias string) *serverPins {
	p := l.servers[alias]
	if p == nil {
		p = &serverPins{lock: l, alias: alias, changed: make(chan struct{})}
		p.current.Store(&digests{})
		if l.servers == nil {
			l.servers = make(map[string]*serverPins)
		}
		l.servers[alias] = p
	}
	return p
}

// digests maps entries to digests. It is never changed, only replaced.
type digests map[Entry]string

// contents has the digests of each server that has any: the content of a file.
type contents map[string]digests

func (l *Lock) contents() contents {
	all := make(contents)
	for alias, p := range l.servers {
		if pinned := p.digests(); len(pinned) > 0 {
			all[alias] = pinned
		}
	}
	return all
}

// replace replaces all pins.
func (l *Lock) replace(all contents) {
	for alias := range all {
		l.serverLocked(alias)
	}
	l.count = 0
	for alias, p := range l.servers {
		l.count += len(all[alias])
		if !maps.Equal(p.digests(), all[alias]) {
			p.set(all[alias])
			p.notify()
		}
	}
}

// serverPins are the pins of one server. The methods without a comment on locking require
// lock.mu, except digests.
type serverPins struct {
	lock    *Lock
	alias   string
	current atomic.Pointer[digests] // read without lock.mu
	pending []Pending               // never changed, only replaced
	changed chan struct{}           // closed when pins change, except by trust
}

func (p *serverPins) digests() digests { return *p.current.Load() }

func (p *serverPins) set(d digests) { p.current.Store(&d) }

func (p *serverPins) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// add pins entries, all or none, and notifies providers.
func (p *serverPins) add(more digests) error {
	changed, err := p.merge(more)
	if changed {
		p.notify()
	}
	return err
}

// merge pins entries, all or none.
func (p *serverPins) merge(more digests) (changed bool, err error) {
	if err := checkName("server", p.alias); err != nil {
		return false, err
	}
	before := p.digests()
	merged := maps.Clone(before)
	if merged == nil {
		merged = make(digests)
	}
	for e, digest := range more {
		if err := checkName(e.Kind.what(), e.Name); err != nil {
			return false, err
		}
		changed = changed || before[e] != digest
		merged[e] = digest
	}
	added := len(merged) - len(before)
	if p.lock.count+added > maxPins {
		return false, ErrFull
	}
	if !changed {
		return false, nil
	}
	p.set(merged)
	p.lock.count += added
	p.lock.edits++
	return true, nil
}

// trust pins entries that are not pinned yet, as many as maxTrusted permits, and returns all pins. It
// locks lock.mu.
func (p *serverPins) trust(seen digests) (pinned *digests, err error) {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	before := p.digests()
	maps.DeleteFunc(seen, func(e Entry, _ string) bool {
		_, exists := before[e]
		return exists
	})
	var full error
	if room := max(0, maxTrusted-len(before)); len(seen) > room {
		full = fmt.Errorf("%w: %d pins of one server are made automatically", ErrFull, maxTrusted)
		for _, e := range slices.SortedFunc(maps.Keys(seen), compareEntries)[room:] {
			delete(seen, e)
		}
	}
	_, err = p.merge(seen)
	return p.current.Load(), cmp.Or(err, full)
}

// nextChange returns a channel that is closed at the next change. It locks lock.mu.
func (p *serverPins) nextChange() <-chan struct{} {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	return p.changed
}

// setPending replaces the pending entries except contents. It locks lock.mu.
func (p *serverPins) setPending(pending []Pending) {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	for _, old := range p.pending {
		if old.Kind == Content && p.digests()[old.Entry] != old.NewDigest {
			pending = append(pending, old)
		}
	}
	p.pending = pending
}

// setContent replaces the pending content of a URI. now is nil if the content is as pinned. It locks lock.mu. ok is
// false if too much is pending.
func (p *serverPins) setContent(uri string, now *Pending) (ok bool) {
	p.lock.mu.Lock()
	defer p.lock.mu.Unlock()
	var kept []Pending
	count, size := 0, 0
	for _, old := range p.pending {
		if old.Entry == (Entry{Content, uri}) {
			continue
		}
		if old.Kind == Content {
			count++
			size += len(old.After)
		}
		kept = append(kept, old)
	}
	if ok = now == nil || count < maxContents && size+len(now.After) <= maxContentBytes; ok && now != nil {
		kept = append(kept, *now)
	}
	p.pending = kept
	return ok
}

// checkName returns an error if a name cannot be stored in a lock.
func checkName(what, name string) error {
	if len(name) > maxName {
		return fmt.Errorf("the name of a %s has %d bytes, expected at most %d", what, len(name), maxName)
	}
	if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("the name of a %s is not UTF-8 without NUL: %q", what, name)
	}
	return nil
}
