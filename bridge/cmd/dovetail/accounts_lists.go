package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const (
	// readAgain is after which time a call of a person makes the lists be read again, in a session of that person.
	readAgain = time.Hour
	// readingLife is how long an entry that an account does not list is offered to nobody.
	readingLife = 24 * time.Hour
	// maxReadings is how many accounts are compared.
	maxReadings = 16
	// readTime bounds reading the lists.
	readTime = 30 * time.Second
)

// knownLists are the tools and prompts of a server with auth user. There is no session that could list them for everybody, so they
// are those that people's accounts list. An entry is offered if every account whose lists were read lately has the same one.
type knownLists struct {
	Alias    string      `json:"alias"`
	Entries  []knownItem `json:"entries"` // that are offered
	Readings []reading   `json:"readings"`
}

// A knownItem is a tool or prompt.
type knownItem struct {
	Kind       mcp.Kind        `json:"kind"`
	Name       string          `json:"name"`
	Definition json.RawMessage `json:"definition"`
}

func (i *knownItem) digest() string {
	hash := sha256.Sum256(append([]byte{byte(i.Kind)}, i.Definition...))
	return base64.RawURLEncoding.EncodeToString(hash[:12])
}

// A reading is what one account has listed.
type reading struct {
	Reader  string    `json:"reader"` // the name of the record of the account
	Server  string    `json:"server"` // name and version of the server
	At      time.Time `json:"at"`
	Digests []string  `json:"digests"` // sorted
}

// add adds what an account lists now.
func (k *knownLists) add(now reading, entries []knownItem) {
	readings := []reading{now}
	for _, earlier := range k.Readings {
		if earlier.Reader != now.Reader && earlier.Server == now.Server && now.At.Sub(earlier.At) < readingLife && len(readings) < maxReadings {
			readings = append(readings, earlier)
		}
	}
	k.Readings = readings
	k.Entries = slices.DeleteFunc(entries, func(item knownItem) bool {
		return slices.ContainsFunc(readings, func(r reading) bool {
			_, listed := slices.BinarySearch(r.Digests, item.digest())
			return !listed
		})
	})
}

// catalog returns the entries for a bridge.
func (k *knownLists) catalog() *server.Catalog {
	var entries []*server.Entry
	for _, item := range k.Entries {
		entries = append(entries, &server.Entry{Target: mcp.Target{Kind: item.Kind, Name: item.Name, Definition: mcp.NewDefinition(item.Definition)}})
	}
	return server.NewCatalog(entries, nil)
}

// listsOf returns the name of the record of a server's lists.
func (s *userServer) listsOf() string { return recordName(listNames, s.Alias, s.url) }

// catalog returns what is known of the lists of a server.
func (a *accounts) catalog(ctx context.Context, s *userServer) *server.Catalog {
	var known knownLists
	if record, err := a.lists.Load(ctx, s.listsOf()); err == nil {
		known = record.Value
	}
	s.offers.Store(len(known.Entries) > 0)
	return known.catalog()
}

// noteLists offers the lists that were read, perhaps by another replica.
func (a *accounts) noteLists(change state.Change[knownLists]) {
	if change.Record == nil {
		return
	}
	known := &change.Record.Value
	s := a.server(known.Alias)
	if s == nil || s.listsOf() != change.Key {
		return
	}
	s.offers.Store(len(known.Entries) > 0)
	_ = a.bridge.Offer(s.Alias, known.catalog()) // the server may be gone
}

// readListsAgain reads the lists with the account of a person who has just made a call, if that was not done lately.
func (a *accounts) readListsAgain(s *userServer, principal string) {
	name := s.nameOf(principal)
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.read.Get(name); ok && time.Since(at) < readAgain {
		return
	}
	a.read.Add(name, time.Now())
	a.begin(func() { a.readLists(s, principal) })
}

// seen is called when a person has sent a request. A server at which tokens are exchanged has no other occasion to be read first.
func (a *accounts) seen(principal string) {
	a.mu.Lock()
	servers := slices.Collect(maps.Values(a.servers))
	a.mu.Unlock()
	for _, s := range servers {
		if s.exchanges() {
			a.readListsAgain(s, principal)
		}
	}
}

// readLists reads the lists in a session with the account of a person.
func (a *accounts) readLists(s *userServer, principal string) {
	ctx, cancel := context.WithTimeout(a.ctx, readTime)
	defer cancel()
	now := reading{Reader: s.nameOf(principal), At: time.Now()}
	a.read.Add(now.Reader, now.At)
	entries, err := a.list(ctx, s, principal, &now)
	if err == nil {
		_, err = a.lists.Put(ctx, s.listsOf(), func(r *state.Record[knownLists]) error {
			r.Value.Alias = s.Alias
			r.Value.Readings = slices.Clone(r.Value.Readings)
			r.Value.add(now, slices.Clone(entries))
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		a.logger.Warn("the lists of a server were not read with the account of a person", "server", s.Alias, "principal", principal, "error", err)
	}
}

// list returns the tools and prompts that the account of a person lists.
func (a *accounts) list(ctx context.Context, s *userServer, principal string, now *reading) ([]knownItem, error) {
	dialer, err := a.dialAs(s)(ctx, principal)
	if err != nil {
		return nil, err
	}
	session, err := client.Connect(ctx, dialer, &client.Options{Info: mcp.Implementation{Name: "dovetail", Version: version()}, NoReconnect: true, Logger: a.logger})
	if err != nil {
		return nil, err
	}
	defer session.Close()
	now.Server = session.Server().Name + " " + session.Server().Version
	var entries []knownItem
	add := func(kind mcp.Kind, name string, definition json.Marshaler) error {
		text, err := definition.MarshalJSON()
		item := knownItem{kind, name, text}
		entries, now.Digests = append(entries, item), append(now.Digests, item.digest())
		return err
	}
	if session.Capabilities().Tools != nil {
		for tool, err := range session.Tools(ctx, nil) {
			if err == nil {
				err = add(mcp.KindTool, tool.Name, tool)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if session.Capabilities().Prompts != nil {
		for prompt, err := range session.Prompts(ctx, nil) {
			if err == nil {
				err = add(mcp.KindPrompt, prompt.Name, prompt)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(now.Digests)
	return entries, nil
}
