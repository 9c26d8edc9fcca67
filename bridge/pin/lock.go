package pin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Lock has the digests of the tools that have been accepted, for each server. It is read
// from a file and written to it, or lives in memory only. The zero value is an empty lock
// in memory; [Load] reads one, and [NewLock] begins one.
type Lock struct {
	path string // of its file, empty if there is none

	mu      sync.Mutex // of what follows, but see pins
	servers map[string]*pins
	count   int    // of all pins
	edits   uint64 // how often something was pinned

	saving sync.Mutex // of what follows and of the file; taken before mu
	saved  uint64     // the edits that are in the file
	onDisk []byte     // the file as it was last read or written, nil if it was not
}

var (
	// ErrNotPending is the error of accepting what nobody has offered, or what is
	// accepted already.
	ErrNotPending = errors.New("no such tool is pending")
	// ErrFull is the error of pinning more than [MaxPins] tools.
	ErrFull = fmt.Errorf("a lock has %d tools at most", MaxPins)
)

// NewLock returns an empty lock for a file that does not exist yet: see [Lock.Save]. If
// path is empty, the lock lives in memory only. A lock that exists is read by [Load];
// beginning a new one when that fails is right only if the error is fs.ErrNotExist.
func NewLock(path string) *Lock {
	return &Lock{path: path, edits: 1} // the file is missing, even for no pins
}

// Pinned returns the digest to which a tool of a server is held.
func (l *Lock) Pinned(server, tool string) (digest string, ok bool) {
	digest, ok = l.server(server).now()[tool]
	return digest, ok
}

// Pin holds a tool to a digest, whether a server offers it or not: one of [Digest], or
// [Pending.Is] when a person has looked at exactly that definition. A tool that is offered
// with it appears. The error says that the digest is none or that a limit has been reached
// ([MaxName], [ErrFull]).
func (l *Lock) Pin(server, tool, digest string) error {
	if err := checkDigest(digest); err != nil {
		return err
	}
	p := l.server(server)
	l.mu.Lock()
	defer l.mu.Unlock()
	return p.put(digests{tool: digest})
}

// Accept pins the named tools of a server as they are pending: all or none. The tools
// appear, if they have not become others meanwhile. The error is [ErrNotPending] for a
// name that [Lock.Pending] has not, or says that the tool is invalid or that a limit has
// been reached. Whoever has shown a definition to a person, and cannot be sure that it is
// the one pending still, calls [Lock.Pin] with its digest instead.
func (l *Lock) Accept(server string, tools ...string) error {
	p := l.server(server)
	l.mu.Lock()
	defer l.mu.Unlock()
	accepted := make(digests, len(tools))
	for _, tool := range tools {
		i := slices.IndexFunc(p.pending, func(waiting Pending) bool { return waiting.Tool == tool })
		if i < 0 {
			return fmt.Errorf("the tool %.256q of %.256q: %w", tool, server, ErrNotPending)
		}
		if err := p.pending[i].Err; err != nil {
			return fmt.Errorf("the tool %.256q of %.256q cannot be accepted: %w", tool, server, err)
		}
		accepted[tool] = p.pending[i].Is
	}
	if err := p.put(accepted); err != nil {
		return err
	}
	p.pending = slices.DeleteFunc(slices.Clone(p.pending), func(waiting Pending) bool {
		_, ok := accepted[waiting.Tool]
		return ok
	})
	return nil
}

// Pending returns the tools that are not as the lock wants them, by server and name: those
// that are quarantined, and changed ones that are offered nonetheless. It says what
// [Provider]s have found when they looked last, which they do when their catalogue is
// read, and in the course of Run when it has changed.
func (l *Lock) Pending() []Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Pending
	for _, p := range l.servers {
		all = append(all, p.pending...)
	}
	slices.SortFunc(all, func(a, b Pending) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
	})
	return all
}

// server returns the pins of a server, which has none yet if it is not known.
func (l *Lock) server(alias string) *pins {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serverLocked(alias)
}

func (l *Lock) serverLocked(alias string) *pins {
	p := l.servers[alias]
	if p == nil {
		p = &pins{lock: l, alias: alias, replaced: make(chan struct{})}
		p.current.Store(&digests{})
		if l.servers == nil {
			l.servers = make(map[string]*pins)
		}
		l.servers[alias] = p
	}
	return p
}

// contents are the pins of all servers that have any.
func (l *Lock) contents() contents {
	all := make(contents)
	for alias, p := range l.servers {
		if pinned := p.now(); len(pinned) > 0 {
			all[alias] = pinned
		}
	}
	return all
}

// replace puts others in the place of all pins.
func (l *Lock) replace(all contents) {
	for alias := range all {
		l.serverLocked(alias)
	}
	l.count = 0
	for alias, p := range l.servers {
		l.count += len(all[alias])
		if !maps.Equal(p.now(), all[alias]) {
			p.set(all[alias])
			p.tell()
		}
	}
}

// checkName says whether a name can stand in a lock.
func checkName(what, name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("the name of a %s has %d bytes, and may have %d", what, len(name), MaxName)
	}
	if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("the name of a %s is not UTF-8 without NUL: %q", what, name)
	}
	return nil
}
