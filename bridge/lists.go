package bridge

import (
	"bytes"
	"cmp"
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
	// earlyOffer is how long the tools of a server wait for its other lists.
	earlyOffer = time.Second
	// maxRetryShift bounds the doubling of the time until lists that could not be read are read
	// again, besides [ProxyOptions].RefreshInterval.
	maxRetryShift = 10
)

// lists are the lists of a server that are offered.
type lists struct {
	entries    []listed
	refused    []error  // of entries that are not valid or exceed a limit
	bridges    []string // that the server is connected to, directly or through others
	completes  bool     // the server has completions
	incomplete bool     // the list of tools has not been read in this run
}

// A list is one list of a server, as read at one time.
type list struct {
	entries  []listed
	refused  []error       // of entries that are not valid or exceed a limit
	warnings []error       // about the list as a whole
	size     int           // bytes of the definitions
	bridges  []string      // that the server is connected to, directly or through others
	ttl      time.Duration // ttlMs of the list, 0 if there is none
	err      error         // why the list, or its last pages, could not be read
}

// listMethods are the lists of a server, in the order in which they use [client.Limits].CatalogBytes.
var listMethods = [...]listMethod{
	{mcp.KindTool, mcp.MethodToolsList, "tools", "name"},
	{mcp.KindPrompt, mcp.MethodPromptsList, "prompts", "name"},
	{mcp.KindResource, mcp.MethodResourcesList, "resources", "uri"},
	{mcp.KindResourceTemplate, mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate"},
}

// A listMethod says how entries of a kind are listed.
type listMethod struct {
	kind   mcp.Kind
	method string
	member string // of the result, which has the entries
	name   string // member of an entry that identifies it
}

// isDeclared reports whether the server has the list.
func (m *listMethod) isDeclared(has mcp.ServerCapabilities) bool {
	switch m.kind {
	case mcp.KindTool:
		return has.Tools != nil
	case mcp.KindPrompt:
		return has.Prompts != nil
	}
	return has.Resources != nil
}

// A listed entry is an element of a list.
type listed struct {
	kind       mcp.Kind
	name       string // or URI, or template
	definition json.RawMessage
}

// isSame reports whether two readings have the same entries.
func (l *lists) isSame(other *lists) bool {
	return other != nil && l.incomplete == other.incomplete && l.completes == other.completes && slices.Equal(l.bridges, other.bridges) &&
		slices.EqualFunc(l.refused, other.refused, func(a, b error) bool { return a.Error() == b.Error() }) && slices.EqualFunc(l.entries, other.entries, func(a, b listed) bool {
		return a.kind == b.kind && a.name == b.name && bytes.Equal(a.definition, b.definition)
	})
}

// useCached offers the lists of an earlier run.
func (u *Upstream) useCached(c, empty *server.Catalog) {
	l := &lists{incomplete: true}
	for i, method := range listMethods {
		cached := new(list)
		for e := range c.All(method.kind) {
			entry := listed{method.kind, e.Name, e.Definition.JSON()}
			cached.entries, cached.size = append(cached.entries, entry), cached.size+len(entry.definition)
			l.completes = l.completes || e.Complete != nil
		}
		l.entries, u.read[i] = append(l.entries, cached.entries...), cached
	}
	u.catalog.Store(u.catalogOf(l, empty))
}

// readLists reads the lists that the server declares, concurrently, each within
// [ProxyOptions].ListTimeout. It calls early at most once, with nil in place of the lists that the
// server has not sent within earlyOffer, if the tools have been read by then.
func (u *Upstream) readLists(ctx context.Context, session *client.Session, early func(lists []*list)) []*list {
	type result struct {
		i    int
		list *list
	}
	all, results, pending := make([]*list, len(listMethods)), make(chan result, len(listMethods)), 0
	for i, method := range listMethods {
		if !method.isDeclared(session.Capabilities()) {
			all[i] = new(list)
			continue
		}
		pending++
		go func() { // ends with ctx; its result is received below
			ctx, cancel := context.WithTimeout(ctx, u.opts.ListTimeout)
			defer cancel()
			results <- result{i, method.read(ctx, session, &u.opts.Limits)}
		}()
	}
	timer := time.NewTimer(earlyOffer)
	defer timer.Stop()
	for pending > 0 {
		select {
		case read := <-results:
			all[read.i] = read.list
			pending--
		case <-timer.C:
			if tools := all[0]; tools != nil && tools.err == nil {
				early(slices.Clone(all))
			}
		}
	}
	return all
}

// read reads all pages of a list. After an error the list has the pages before it, unless it exceeds
// a limit.
func (m *listMethod) read(ctx context.Context, session *client.Session, limits *client.Limits) *list {
	l := new(list)
	err := l.readPages(ctx, session, limits, m)
	if missing, ok := errors.AsType[*jsonrpc.Error](err); ok && missing.Code == jsonrpc.MethodNotFound {
		return l // some servers declare a kind without implementing its list
	}
	if _, limited := errors.AsType[*mcp.LimitError](err); limited {
		l = &list{bridges: l.bridges}
	}
	if err != nil {
		l.err = fmt.Errorf("%s: %w", m.method, err)
	}
	return l
}

func (l *list) readPages(ctx context.Context, session *client.Session, limits *client.Limits, m *listMethod) error {
	var params json.RawMessage
	seen := make(map[string]bool)
	for pages, bytes, count := 1, 0, 0; ; pages++ {
		page, err := session.Call(ctx, m.method, params, nil)
		if err != nil {
			return err
		}
		result, err := jsonscan.ReadObject(page)
		if err != nil {
			return err
		}
		cursor := result.Get("nextCursor")
		if string(cursor) == `""` {
			l.warnings = append(l.warnings, fmt.Errorf("%s: the cursor of the next page is empty, so the list ends", m.method))
			cursor = nil
		}
		bytes += len(page)
		if err := limits.CheckPage(pages, bytes, cursor); err != nil {
			return err
		}
		l.addTTL(result.Get("ttlMs"))
		l.addBridges(mcp.Meta(result.Get("_meta")))
		entries, invalid, err := appendEntries(nil, m, result.Get(m.member))
		if err != nil {
			return err
		}
		count += len(entries) + len(invalid)
		if err := limits.CheckCount(m.kind, count); err != nil {
			return err
		}
		l.refused = append(l.refused, invalid...)
		if err := l.add(entries, limits); err != nil {
			return err
		}
		if jsonscan.KindOf(cursor) != jsonscan.String {
			return nil
		}
		if seen[string(cursor)] {
			l.warnings = append(l.warnings, fmt.Errorf("%s: the server repeats a cursor, so the list ends", m.method))
			l.removeRepeated()
			return nil
		}
		seen[string(cursor)] = true
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}

// add adds copies of the entries of a page, which share the memory of the page. It leaves out
// those that exceed a limit.
func (l *list) add(entries []listed, limits *client.Limits) error {
	for _, entry := range entries {
		if err := limits.CheckEntry(entry.kind, entry.definition); err != nil {
			l.refused = append(l.refused, fmt.Errorf("the %v %+.256q: %w", entry.kind, shorten(entry.name), err))
			continue
		}
		if l.size+len(entry.definition) > limits.CatalogBytes {
			return catalogTooLarge(limits)
		}
		l.size += len(entry.definition)
		entry.definition = bytes.Clone(entry.definition)
		l.entries = append(l.entries, entry)
	}
	return nil
}

func catalogTooLarge(limits *client.Limits) error {
	return &mcp.LimitError{
		Limit: "CatalogBytes", Max: limits.CatalogBytes,
		Reason: fmt.Sprintf("the lists of the server have more than %d bytes", limits.CatalogBytes),
	}
}

// removeRepeated removes entries of a server that sends the same page again and again.
func (l *list) removeRepeated() {
	seen := make(map[string]bool, len(l.entries))
	l.entries = slices.DeleteFunc(l.entries, func(entry listed) bool {
		repeated := seen[string(entry.definition)]
		seen[string(entry.definition)] = true
		if repeated {
			l.size -= len(entry.definition)
		}
		return repeated
	})
}

// orOld returns l if it is complete, and otherwise old with the error of l, unless l has more
// entries. old is nil if the list has not been read before. room is the most bytes of definitions
// that the result may have.
func (l *list) orOld(old *list, room int, limits *client.Limits) *list {
	if l.size > room {
		l = &list{bridges: l.bridges, warnings: l.warnings, err: catalogTooLarge(limits)}
	}
	if l.err == nil || old == nil || old.size > room || old.err != nil && len(old.entries) < len(l.entries) {
		return l
	}
	kept := *old
	kept.err, kept.ttl, kept.warnings, kept.bridges = l.err, 0, l.warnings, slices.Clone(old.bridges)
	kept.bridges = appendBridges(kept.bridges, l.bridges)
	return &kept
}

// shorten returns the beginning of a name in an error.
func shorten(name string) string { return name[:min(len(name), 256)] }

func (l *list) addTTL(raw json.RawMessage) {
	ms, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || ms <= 0 || ms > int64(24*time.Hour/time.Millisecond) {
		return
	}
	if ttl := time.Duration(ms) * time.Millisecond; l.ttl == 0 || ttl < l.ttl {
		l.ttl = ttl
	}
}

// appendEntries appends the entries of one page, which is an array or null. It returns an error for
// each element that is not an object with a name.
func appendEntries(entries []listed, m *listMethod, page json.RawMessage) (all []listed, invalid []error, err error) {
	if jsonscan.KindOf(page) == jsonscan.Null {
		return entries, nil, nil
	}
	s := jsonscan.New(page)
	if err := s.EnterArray(); err != nil {
		return nil, nil, err
	}
	for i := 0; ; i++ {
		more, err := s.Element(i == 0)
		if err != nil || !more {
			return entries, invalid, err
		}
		entry, err := s.Value()
		if err != nil {
			return nil, nil, err
		}
		object, err := jsonscan.ReadObject(entry)
		if err != nil {
			invalid = append(invalid, fmt.Errorf("%s: the entry %d of a page: %w", m.method, i, err))
			continue
		}
		named := object.Get(m.name)
		if jsonscan.KindOf(named) != jsonscan.String || len(named) == len(`""`) {
			invalid = append(invalid, fmt.Errorf("%s: the entry %d of a page has no %s", m.method, i, m.name))
			continue
		}
		entries = append(entries, listed{m.kind, jsonscan.Unquote(named), entry})
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
	read := u.readLists(ctx, session, func(lists []*list) { u.offer(lists, session, false) })
	if ctx.Err() != nil || slices.ContainsFunc(read, func(l *list) bool { return errors.Is(l.err, jsonrpc.ErrClosed) }) {
		return u.opts.RefreshInterval // the session ends
	}
	err := u.offer(read, session, true)
	if err != nil {
		u.failures++
		_, limited := errors.AsType[*mcp.LimitError](err)
		_, cycle := errors.AsType[*CycleError](err)
		if limited || cycle { // the server will hardly change soon, and its lists may be large
			return u.opts.RefreshInterval
		}
		return min(u.opts.RefreshInterval, u.opts.ListTimeout<<min(u.failures-1, maxRetryShift))
	}
	u.failures = 0
	var ttl time.Duration
	for _, l := range read {
		if l.ttl > 0 && (ttl == 0 || l.ttl < ttl) {
			ttl = l.ttl
		}
	}
	if ttl == 0 {
		return u.opts.RefreshInterval
	}
	return min(max(ttl, minRefresh), u.opts.RefreshInterval)
}

// offer offers the lists that have been read. It keeps the last entries of a list that could not be
// read, or is nil because it has not been read yet. The error joins the errors of the lists. It is
// stored and logged when all lists have been read.
func (u *Upstream) offer(read []*list, session *client.Session, all bool) error {
	l := &lists{completes: session.Capabilities().Completions != nil}
	var errs, warnings []error
	room, declared := u.opts.Limits.CatalogBytes, 0
	for i, now := range read {
		old := u.read[i]
		if now == nil {
			now = cmp.Or(old, new(list))
		} else {
			now = now.orOld(old, room, &u.opts.Limits)
			u.read[i] = now
		}
		if listMethods[i].isDeclared(session.Capabilities()) {
			declared++
		}
		if now.err != nil {
			errs = append(errs, now.err)
		}
		room -= now.size
		l.entries, l.refused, l.bridges = append(l.entries, now.entries...), append(l.refused, now.refused...), appendBridges(l.bridges, now.bridges)
		warnings = append(warnings, now.warnings...)
	}
	err := errors.Join(errs...)
	// Without its tools a server is hardly what its users expect.
	l.incomplete = read[0].err != nil || len(errs) > 0 && len(errs) == declared
	if slices.Contains(l.bridges, u.bridge) {
		err = &CycleError{Server: u.alias}
		l = &lists{bridges: l.bridges, refused: []error{err}, incomplete: true}
	}
	if all {
		u.setListError(err, warnings)
	}
	if err != nil && l.incomplete {
		closeOnce(u.loadFailed)
	}
	u.replaceLists(l)
	if !l.incomplete {
		closeOnce(u.loaded) // after the notifications, so that waitReady returns after them
	}
	return err
}

// setListError stores the error of a reading, and logs what the last reading did not have.
func (u *Upstream) setListError(err error, warnings []error) {
	u.mu.Lock()
	old := u.listError
	u.listError = err
	u.mu.Unlock()
	if err != nil && (old == nil || old.Error() != err.Error()) {
		u.opts.Logger.Warn("lists of a server could not be read", "error", err)
	}
	for _, warning := range newErrors(u.warnings, warnings) {
		u.opts.Logger.Warn("a list of a server is not valid", "error", warning)
	}
	u.warnings = warnings
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
func (l *list) addBridges(meta mcp.Meta) {
	var ids []string
	if json.Unmarshal(meta.Get(mcp.MetaBridges), &ids) == nil {
		l.bridges = appendBridges(l.bridges, ids)
	}
}

// appendBridges appends the ids that are valid and new.
func appendBridges(to, ids []string) []string {
	for _, id := range ids {
		if len(id) <= maxBridgeID && len(to) < maxBridges && !slices.Contains(to, id) {
			to = append(to, id)
		}
	}
	return to
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
