package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const (
	// subscribeDelay bounds how long the first reading of the lists waits for the
	// subscription to changes. Changes between the two would be missed.
	subscribeDelay = time.Second
	// refreshPause is the shortest time between two readings of the lists, so that a burst of
	// notifications causes one reading. A server may cause refreshBurst such readings, and then
	// one for each maxRefreshPause.
	refreshPause    = 100 * time.Millisecond
	maxRefreshPause = 5 * time.Second
	refreshBurst    = 10
	// minRefresh is the shortest time between two readings without a notification.
	minRefresh = time.Second
)

// lists are the lists of a server, as read at one time.
type lists struct {
	entries   []listed
	refused   []error       // of entries that exceed a limit
	size      int           // bytes of the definitions
	bridges   []string      // that the server is connected to, directly or through others
	completes bool          // the server has completions
	cached    bool          // read in an earlier run
	ttl       time.Duration // the shortest ttlMs of the lists, 0 if there is none
}

// A listed entry is an element of a list.
type listed struct {
	kind       mcp.Kind
	name       string // or URI, or template
	definition json.RawMessage
}

// isSame reports whether two readings have the same entries.
func (l *lists) isSame(other *lists) bool {
	return other != nil && l.cached == other.cached && l.completes == other.completes && slices.Equal(l.bridges, other.bridges) &&
		slices.EqualFunc(l.refused, other.refused, func(a, b error) bool { return a.Error() == b.Error() }) && slices.EqualFunc(l.entries, other.entries, func(a, b listed) bool {
		return a.kind == b.kind && a.name == b.name && bytes.Equal(a.definition, b.definition)
	})
}

// cachedLists returns the lists of an earlier run.
func cachedLists(c *server.Catalog) *lists {
	l := &lists{cached: true}
	for kind := mcp.KindTool; kind <= mcp.KindResourceTemplate; kind++ {
		for e := range c.All(kind) {
			l.entries = append(l.entries, listed{kind, e.Name, e.Definition.JSON()})
			l.completes = l.completes || e.Complete != nil
		}
	}
	return l
}

// readLists reads all lists that the server declares.
func readLists(ctx context.Context, session *client.Session, limits *client.Limits) (*lists, error) {
	has := session.Capabilities()
	l := &lists{completes: has.Completions != nil}
	for _, list := range []struct {
		kind           mcp.Kind
		has            bool
		method, member string
		name           string
	}{
		{mcp.KindTool, has.Tools != nil, mcp.MethodToolsList, "tools", "name"},
		{mcp.KindPrompt, has.Prompts != nil, mcp.MethodPromptsList, "prompts", "name"},
		{mcp.KindResource, has.Resources != nil, mcp.MethodResourcesList, "resources", "uri"},
		{mcp.KindResourceTemplate, has.Resources != nil, mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate"},
	} {
		if !list.has {
			continue
		}
		before := len(l.entries)
		err := l.read(ctx, session, limits, list.kind, list.method, list.member, list.name)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == jsonrpc.MethodNotFound {
			l.entries = l.entries[:before]
			continue // some servers declare a kind without implementing its list
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list.method, err)
		}
	}
	return l, nil
}

// read reads all pages of one list.
func (l *lists) read(ctx context.Context, session *client.Session, limits *client.Limits, kind mcp.Kind, method, member, name string) error {
	var params json.RawMessage
	seen := make(map[string]bool)
	for pages, bytes, count := 1, 0, 0; ; pages++ {
		page, err := session.Call(ctx, method, params, nil)
		if err != nil {
			return err
		}
		result, err := jsonscan.ReadObject(page)
		if err != nil {
			return err
		}
		cursor := result.Get("nextCursor")
		bytes += len(page)
		if err := limits.CheckPage(pages, bytes, cursor); err != nil {
			return err
		}
		l.addTTL(result.Get("ttlMs"))
		l.addBridges(mcp.Meta(result.Get("_meta")))
		entries, err := appendEntries(nil, kind, result.Get(member), name)
		if err != nil {
			return err
		}
		count += len(entries)
		if err := limits.CheckCount(kind, count); err != nil {
			return err
		}
		if err := l.add(entries, limits); err != nil {
			return err
		}
		if jsonscan.KindOf(cursor) != jsonscan.String {
			return nil
		}
		if seen[string(cursor)] {
			return errors.New("the server repeats a cursor")
		}
		seen[string(cursor)] = true
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}

// add adds copies of the entries of a page, which share the memory of the page. It leaves out
// those that exceed a limit.
func (l *lists) add(entries []listed, limits *client.Limits) error {
	for _, entry := range entries {
		if err := limits.CheckEntry(entry.kind, entry.definition); err != nil {
			l.refused = append(l.refused, fmt.Errorf("the %v %+.256q: %w", entry.kind, shorten(entry.name), err))
			continue
		}
		if l.size += len(entry.definition); l.size > limits.CatalogBytes {
			return &mcp.LimitError{
				Limit: "CatalogBytes", Max: limits.CatalogBytes,
				Reason: fmt.Sprintf("the lists of the server have more than %d bytes", limits.CatalogBytes),
			}
		}
		entry.definition = bytes.Clone(entry.definition)
		l.entries = append(l.entries, entry)
	}
	return nil
}

// shorten returns the beginning of a name in an error.
func shorten(name string) string { return name[:min(len(name), 256)] }

func (l *lists) addTTL(raw json.RawMessage) {
	ms, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || ms <= 0 || ms > int64(24*time.Hour/time.Millisecond) {
		return
	}
	if ttl := time.Duration(ms) * time.Millisecond; l.ttl == 0 || ttl < l.ttl {
		l.ttl = ttl
	}
}

// appendEntries appends the entries of one page. Entries without a name are skipped.
func appendEntries(entries []listed, kind mcp.Kind, list json.RawMessage, name string) ([]listed, error) {
	s := jsonscan.New(list)
	if err := s.EnterArray(); err != nil {
		return nil, err
	}
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil || !more {
			return entries, err
		}
		entry, err := s.Value()
		if err != nil {
			return nil, err
		}
		object, err := jsonscan.ReadObject(entry)
		if err != nil {
			return nil, err
		}
		named := object.Get(name)
		if jsonscan.KindOf(named) != jsonscan.String || len(named) == len(`""`) {
			continue
		}
		entries = append(entries, listed{kind, jsonscan.Unquote(named), entry})
	}
}

// handleChange receives the notifications of the session for lists.
func (u *Upstream) handleChange(_ context.Context, change mcp.Change) {
	if change.URI != "" {
		u.notify(change)
		return
	}
	signal(u.stale)
}

// monitor reads the lists, subscribes to changes and sends pings while the session for lists
// is open. An error says why the session must be closed.
func (u *Upstream) monitor(ctx context.Context, session *client.Session) error {
	running, ctx := errgroup.WithContext(ctx)
	subscribed := make(chan struct{})
	running.Go(func() error { return u.pool.ping(ctx, u.pool.main, session) })
	running.Go(func() error {
		u.listen(ctx, session, func() { closeOnce(subscribed) })
		return nil
	})
	running.Go(func() error {
		u.refreshLoop(ctx, session, subscribed)
		return nil
	})
	return running.Wait()
}

// refreshLoop reads the lists now, after each notification and after each refresh interval.
func (u *Upstream) refreshLoop(ctx context.Context, session *client.Session, subscribed <-chan struct{}) {
	select {
	case <-subscribed:
	case <-time.After(subscribeDelay):
	case <-ctx.Done():
	}
	drain(u.stale)
	allowed, counted, changed := float64(refreshBurst), time.Now(), false
	for ctx.Err() == nil {
		next := u.refresh(ctx, session)
		now := time.Now()
		allowed = min(refreshBurst, allowed+float64(now.Sub(counted))/float64(maxRefreshPause))
		counted = now
		pause := refreshPause
		if changed {
			allowed--
			pause = max(pause, time.Duration((1-allowed)*float64(maxRefreshPause)))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		changed = false
		select {
		case <-u.stale: // during the pause, or since
			changed = true
		case <-time.After(max(0, next-pause)):
		case <-ctx.Done():
		}
	}
}

// refresh reads the lists and returns the time until the next reading.
func (u *Upstream) refresh(ctx context.Context, session *client.Session) time.Duration {
	reading, cancel := context.WithTimeout(ctx, u.opts.ListTimeout)
	defer cancel()
	l, err := readLists(reading, session, &u.opts.Limits)
	if ctx.Err() != nil || errors.Is(err, jsonrpc.ErrClosed) {
		return u.opts.RefreshInterval // the session ends
	}
	if err == nil && slices.Contains(l.bridges, u.bridge) {
		err = &CycleError{Server: u.alias}
		u.replaceLists(&lists{bridges: l.bridges, refused: []error{err}})
	}
	u.mu.Lock()
	u.listError = err
	u.mu.Unlock()
	if err != nil {
		closeOnce(u.loadFailed)
		u.opts.Logger.Warn("the lists of a server could not be read", "error", err)
		_, limited := errors.AsType[*mcp.LimitError](err)
		_, cycle := errors.AsType[*CycleError](err)
		if limited || cycle { // the server will hardly change soon, and its lists may be large
			return u.opts.RefreshInterval
		}
		return min(u.opts.RefreshInterval, u.opts.ListTimeout)
	}
	u.replaceLists(l)
	closeOnce(u.loaded) // after the notifications, so that waitReady returns after them
	if l.ttl == 0 {
		return u.opts.RefreshInterval
	}
	return min(max(l.ttl, minRefresh), u.opts.RefreshInterval)
}

// replaceLists offers the entries of lists, and reports what has changed.
func (u *Upstream) replaceLists(l *lists) {
	if l.isSame(u.lists) {
		return
	}
	before := u.Catalog()
	now := u.catalogOf(l, before)
	u.lists = l
	u.catalog.Store(now)
	for _, change := range changes(before, now) {
		u.notify(change)
	}
}

// maxBridges is how many bridges a server can report. The rest is ignored.
const maxBridges = 256

// addBridges adds the ids of bridges in the _meta of a list.
func (l *lists) addBridges(meta mcp.Meta) {
	var ids []string
	if json.Unmarshal(meta.Get(mcp.MetaBridges), &ids) != nil {
		return
	}
	for _, id := range ids {
		if len(id) <= maxBridgeID && len(l.bridges) < maxBridges && !slices.Contains(l.bridges, id) {
			l.bridges = append(l.bridges, id)
		}
	}
}

// maxBridgeID is the length of the longest id of a bridge, in bytes.
const maxBridgeID = 64

// A CycleError says that a server is not offered because it offers the entries of this bridge: the
// server has this bridge as a server of its own, directly or through others, or is the server that
// the bridge is mounted on. Each bridge of a cycle that it can see leaves out the server that leads
// back to it.
type CycleError struct {
	// Server is the alias, "" for a proxy.
	Server string
}

// Error names the server.
func (e *CycleError) Error() string {
	return ownerOf(e.Server) + " is not offered, because it leads back to this bridge"
}
