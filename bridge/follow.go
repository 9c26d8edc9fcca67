package bridge

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

const (
	// listenPatience is how long reading the lists waits until the server has agreed to
	// tell of changes: of what changes in between nobody would hear.
	listenPatience = time.Second
	// relistPause is the least time between two readings of the lists: a burst of changes
	// is one.
	relistPause = 100 * time.Millisecond
	// minFresh is how soon lists are read anew at the earliest when nothing was told.
	minFresh = time.Second
)

// heard takes what the server tells of changes.
func (u *Upstream) heard(_ context.Context, change mcp.Change) {
	if change.URI != "" {
		u.tell(change)
		return
	}
	signal(u.stale)
}

// follow keeps the offer what the server lists, as long as a session lasts. The error
// says why it must not.
func (u *Upstream) follow(ctx context.Context, session *client.Session) error {
	running, ctx := errgroup.WithContext(ctx)
	listening := make(chan struct{})
	running.Go(func() error { return u.pool.pings(ctx, u.pool.main, session) })
	running.Go(func() error {
		u.listen(ctx, session, func() { closeOnce(listening) })
		return nil
	})
	running.Go(func() error {
		u.read(ctx, session, listening)
		return nil
	})
	return running.Wait()
}

// read reads the lists again and again.
func (u *Upstream) read(ctx context.Context, session *client.Session, listening <-chan struct{}) {
	select {
	case <-listening:
	case <-time.After(listenPatience):
	case <-ctx.Done():
	}
	select {
	case <-u.stale: // they are about to be read
	default:
	}
	for ctx.Err() == nil {
		pause, rested := context.WithTimeout(ctx, relistPause)
		expired := time.After(u.refresh(ctx, session))
		select {
		case <-u.stale:
		case <-expired:
		case <-ctx.Done():
		}
		<-pause.Done()
		rested()
	}
}

// refresh reads the lists, and says for how long they are good.
func (u *Upstream) refresh(ctx context.Context, session *client.Session) time.Duration {
	reading, cancel := context.WithTimeout(ctx, u.opts.ListTimeout)
	defer cancel()
	l, err := readLists(reading, session)
	if ctx.Err() != nil || errors.Is(err, jsonrpc.ErrClosed) {
		return u.opts.RefreshInterval // the session ends
	}
	u.mu.Lock()
	u.failure = err
	u.mu.Unlock()
	if err != nil {
		closeOnce(u.unread)
		u.opts.Logger.Warn("the lists of a server could not be read", "error", err)
		return min(u.opts.RefreshInterval, u.opts.ListTimeout)
	}
	if !l.isSame(u.lists) {
		before := u.Catalog()
		now := u.catalogOf(l, before)
		u.lists = l
		u.catalog.Store(now)
		for _, change := range changes(before, now) {
			u.tell(change)
		}
	}
	closeOnce(u.loaded) // whoever waits for it finds that all has been told
	if l.fresh == 0 {
		return u.opts.RefreshInterval
	}
	return min(max(l.fresh, minFresh), u.opts.RefreshInterval)
}
