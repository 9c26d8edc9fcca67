package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// maxWatched is how many resources of one server can be watched: servers of this module
// take no more.
const maxWatched = 1024

// watches are the resources that somebody watches. Each needs the session for lists.
type watches struct {
	main    *slot
	changed chan struct{} // has room for one who has changed it

	mu      sync.Mutex
	watched map[string]*watched
}

// A watched resource has somebody who watches it.
type watched struct {
	count   int
	settled chan struct{} // closed when the server has been asked to tell of it
	refusal error         // what it said to that, nil if it agreed or said nothing
}

func newWatches(main *slot) *watches {
	return &watches{main: main, changed: make(chan struct{}, 1), watched: make(map[string]*watched)}
}

// add counts one more who watches a resource.
func (w *watches) add(uri string) (one *watched, remove func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one = w.watched[uri]
	if one == nil {
		if len(w.watched) == maxWatched {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf("at most %d resources of the server can be watched", maxWatched)}
		}
		one = &watched{settled: make(chan struct{})}
		w.watched[uri] = one
		signal(w.changed)
		w.main.use(context.Background())
		w.main.want()
	}
	one.count++
	return one, sync.OnceFunc(func() { w.remove(uri, one) }), nil
}

func (w *watches) remove(uri string, one *watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one.count--; one.count == 0 {
		delete(w.watched, uri)
		signal(w.changed)
		w.main.release(context.Background(), false)
	}
}

func (w *watches) now() map[string]*watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.watched)
}

// settle notes what the server said, for who waits for that.
func (one *watched) settle(refusal error) {
	if !isClosed(one.settled) {
		one.refusal = refusal
		close(one.settled)
	}
}

// subscribePatience is how long somebody who watches a resource waits until the server
// has been told.
const subscribePatience = 10 * time.Second

// subscribe has changes of a resource reported by Run's changed, while the server runs
// and tells of them. It waits until a server that runs has agreed.
func (u *Upstream) subscribe(ctx context.Context, uri string) (unsubscribe func(), err error) {
	one, remove, err := u.watch.add(uri)
	if err != nil || !u.pool.main.is(Ready) {
		return remove, err
	}
	patience := time.NewTimer(subscribePatience)
	defer patience.Stop()
	select {
	case <-one.settled:
		err = one.refusal
	case <-patience.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// uris are those of watched resources, but for those that the server has refused.
func uris(watched map[string]*watched, refused map[*watched]bool) []string {
	all := slices.Sorted(maps.Keys(watched))
	return slices.DeleteFunc(all, func(uri string) bool { return refused[watched[uri]] })
}

// refusal is what the server said, if it was the server.
func refusal(err error) error {
	if said, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return said
	}
	return nil
}
