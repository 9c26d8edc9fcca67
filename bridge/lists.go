package bridge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dovetail-go/dovetail/client"
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
	refused    reports     // of entries that are not valid or exceed a limit
	repaired   reports     // of entries that were not valid
	bridges    []string    // that the server is connected to, directly or through others
	completes  bool        // the server has completions
	tasks      taskSupport // of the server
	incomplete bool        // the list of tools has not been read in this run
}

// isSame reports whether two readings have the same entries.
func (l *lists) isSame(other *lists) bool {
	return other != nil && l.incomplete == other.incomplete && l.completes == other.completes && l.tasks == other.tasks && slices.Equal(l.bridges, other.bridges) &&
		l.refused.isSame(&other.refused) && l.repaired.isSame(&other.repaired) && slices.EqualFunc(l.entries, other.entries, func(a, b listed) bool {
		return a.kind == b.kind && a.name == b.name && bytes.Equal(a.definition, b.definition)
	})
}

// useCached offers the lists of an earlier run.
func (u *Upstream) useCached(c, empty *server.Catalog) {
	u.catalog.Store(u.catalogOf(u.cachedLists(c), empty))
}

// offerCached offers other lists of a server whose lists are not read.
func (u *Upstream) offerCached(c *server.Catalog) {
	u.offering.Lock()
	defer u.offering.Unlock()
	u.replaceLists(u.cachedLists(c))
}

// cachedLists returns lists that were read elsewhere.
func (u *Upstream) cachedLists(c *server.Catalog) *lists {
	l := &lists{}
	for i, method := range listMethods {
		cached := new(list)
		for e := range c.All(method.kind) {
			entry := listed{method.kind, e.Name, e.Definition.JSON()}
			cached.entries, cached.size = append(cached.entries, entry), cached.size+len(entry.definition)
			l.completes = l.completes || e.Complete != nil
		}
		l.entries, u.offeredLists[i] = append(l.entries, cached.entries...), cached
	}
	l.incomplete = !u.opts.NoLists || len(l.entries) == 0
	return l
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
	due := time.After(earlyOffer)
	for pending > 0 {
		select {
		case read := <-results:
			all[read.i] = read.list
			pending--
		case <-due:
			if tools := all[0]; tools != nil && tools.err == nil {
				early(slices.Clone(all))
			}
		}
	}
	return all
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
		u.refreshLoop(ctx, session, subscribed, func() {
			running.Go(func() error {
				u.onConnect(ctx)
				return nil
			})
		})
		return nil
	})
	return running.Wait()
}

// refreshLoop reads the lists now, after each notification and after each refresh interval. It calls connected when the
// list of tools has been read for the first time.
func (u *Upstream) refreshLoop(ctx context.Context, session *client.Session, subscribed <-chan struct{}, connected func()) {
	select {
	case <-subscribed:
	case <-time.After(subscribeDelay):
	case <-ctx.Done():
	}
	drain(u.stale)
	connected = sync.OnceFunc(connected)
	allowed, counted, changed := float64(refreshBurst), time.Now(), false
	for ctx.Err() == nil {
		next := u.refresh(ctx, session)
		if ctx.Err() == nil && u.lists != nil && !u.lists.incomplete {
			connected()
		}
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
	read := u.readLists(ctx, session, func(lists []*list) { _ = u.offer(lists, session, false) })
	if ctx.Err() != nil || slices.ContainsFunc(read, func(l *list) bool { return errors.Is(l.err, jsonrpc.ErrClosed) }) {
		return u.opts.RefreshInterval // the session ends
	}
	err := u.offer(read, session, true)
	if err != nil {
		u.failures++
		_, limited := errors.AsType[*mcp.LimitError](err)
		_, cycle := errors.AsType[*CycleError](err)
		if limited || cycle { // another reading would probably fail too, and the lists may be large
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
	l := &lists{completes: session.Capabilities().Completions != nil, tasks: serverTasks(session.Capabilities())}
	var skills mcp.SkillsCapability
	_ = skills.UnmarshalJSON(session.Capabilities().Extensions[mcp.ExtensionSkills]) // invalid settings are treated as absent
	u.listsDirectories.Store(skills.DirectoryRead)
	var errs, warnings []error
	room, declared := u.opts.Limits.CatalogBytes, 0
	for i, now := range read {
		old := u.offeredLists[i]
		if now == nil {
			now = cmp.Or(old, new(list))
		} else {
			now = now.orOld(old, room, &u.opts.Limits)
			u.offeredLists[i] = now
		}
		if listMethods[i].isDeclared(session.Capabilities()) {
			declared++
		}
		if now.err != nil {
			errs = append(errs, now.err)
		}
		room -= now.size
		l.entries, l.bridges = append(l.entries, now.entries...), appendBridges(l.bridges, now.bridges)
		l.refused.join(now.refused)
		l.repaired.join(now.repaired)
		warnings = append(warnings, now.warnings...)
	}
	err := errors.Join(errs...)
	// A server is not ready without its tools, or if all of its lists have failed.
	l.incomplete = read[0].err != nil || len(errs) > 0 && len(errs) == declared
	if slices.Contains(l.bridges, u.bridge) {
		err = &CycleError{Server: u.alias}
		l = &lists{bridges: l.bridges, refused: reports{errs: []error{err}}, incomplete: true}
	}
	if all {
		u.setListError(err, warnings)
	}
	u.replaceLists(l)
	// waitReady returns after the lists have been replaced and the notifications have been sent.
	switch {
	case !l.incomplete:
		closeOnce(u.loaded)
	case all && err != nil:
		closeOnce(u.loadFailed)
	}
	return err
}

// setListError stores the error of a reading, and logs the errors that the last reading did not have.
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

// replaceLists offers the entries of lists, and reports the changes.
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

// A CycleError says that a server is not offered because it offers the entries of this bridge. Either the server has
// this bridge as an upstream server, directly or through others, or the bridge is mounted on it. Each bridge that
// detects a cycle leaves out the server that leads back to the bridge.
type CycleError struct {
	// Server is the alias, "" for a proxy.
	Server string
}

// Error names the server.
func (e *CycleError) Error() string {
	return ownerOf(e.Server) + " is not offered, because it leads back to this bridge"
}
