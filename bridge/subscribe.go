package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxSubscribed is how many resources of one server can be subscribed to. Servers of this
// module accept no more.
const maxSubscribed = 1024

// subscribeTimeout bounds how long a subscriber waits for the reply of the server.
const subscribeTimeout = 10 * time.Second

// subscriptions counts the subscribers of each resource of a server. Each resource with
// subscribers keeps the session for lists open.
type subscriptions struct {
	main             *managedSession
	resourcesChanged chan struct{} // receives one value when resources changes

	mu        sync.Mutex
	resources map[string]*subscribedResource
}

type subscribedResource struct {
	subscribers int
	answered    chan struct{} // closed when the server has been asked to report changes
	refusal     error         // the error of the server, set before answered is closed
}

func newSubscriptions(main *managedSession) *subscriptions {
	return &subscriptions{main: main, resourcesChanged: make(chan struct{}, 1), resources: make(map[string]*subscribedResource)}
}

// add adds a subscriber of a resource.
func (s *subscriptions) add(uri string) (r *subscribedResource, remove func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = s.resources[uri]
	if r == nil {
		if len(s.resources) == maxSubscribed {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.InternalError, Message: fmt.Sprintf("at most %d resources of the server can be subscribed to", maxSubscribed)}
		}
		r = &subscribedResource{answered: make(chan struct{})}
		s.resources[uri] = r
		signal(s.resourcesChanged)
		s.main.retain(context.Background())
		s.main.requestOpen()
	}
	r.subscribers++
	return r, sync.OnceFunc(func() { s.remove(uri, r) }), nil
}

func (s *subscriptions) remove(uri string, r *subscribedResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.subscribers--; r.subscribers == 0 {
		delete(s.resources, uri)
		signal(s.resourcesChanged)
		s.main.release(context.Background(), false)
	}
}

func (s *subscriptions) all() map[string]*subscribedResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.resources)
}

// setAnswer stores the first answer of the server. Only the listener calls it.
func (r *subscribedResource) setAnswer(refusal error) {
	if !isClosed(r.answered) {
		r.refusal = refusal
		close(r.answered)
	}
}

// subscribe reports changes of a resource through the changed function of Run, while the
// server runs and reports them. If the server is ready, subscribe waits for its reply.
func (u *Upstream) subscribe(ctx context.Context, uri string) (unsubscribe func(), err error) {
	r, remove, err := u.subs.add(uri)
	if err != nil || !u.pool.main.is(statusReady) {
		return remove, err
	}
	select {
	case <-r.answered:
		err = r.refusal
	case <-time.After(subscribeTimeout):
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// A listener keeps one subscription to the changes of all lists and of the subscribed
// resources of a server, during one session.
type listener struct {
	*Upstream
	session          *client.Session
	sub              *client.Subscription         // nil while there is none
	missed           bool                         // changes may have been missed
	refusedResources map[*subscribedResource]bool // by the server, in this session
	pause            backoff.Backoff
}

// listen subscribes until ctx ends. It calls attempted after each attempt.
func (u *Upstream) listen(ctx context.Context, session *client.Session, attempted func()) {
	l := &listener{Upstream: u, session: session, missed: true, refusedResources: make(map[*subscribedResource]bool)}
	defer func() { l.replace(nil) }()
	for ctx.Err() == nil {
		err := l.update(ctx, u.subs.all())
		attempted()
		var ended <-chan struct{}
		var retry <-chan time.Time
		if l.sub != nil {
			ended = l.sub.Done()
		} else if refusalOf(err) == nil {
			retry = time.After(l.pause.Next())
		}
		opened := time.Now()
		select {
		case <-u.subs.resourcesChanged:
		case <-retry:
		case <-ended:
			l.replace(nil)
			l.missed = true
			if time.Since(opened) >= stableAfter {
				l.pause.Reset()
			}
			_ = l.pause.Wait(ctx) // the loop checks ctx
		case <-ctx.Done():
		}
	}
}

func (l *listener) replace(sub *client.Subscription) {
	if l.sub != nil {
		l.sub.Close()
	}
	l.sub = sub
}

// update replaces the subscription by one to all resources that the server does not refuse.
func (l *listener) update(ctx context.Context, all map[string]*subscribedResource) error {
	sub, err := l.open(ctx, l.accepted(all)...)
	if refusalOf(err) != nil && l.findRefused(ctx, all) {
		sub, err = l.open(ctx, l.accepted(all)...)
	}
	if err != nil && refusalOf(err) == nil {
		l.missed = true
	}
	if resources := l.session.Capabilities().Resources; err == nil && resources != nil && resources.Subscribe {
		agreed := make(map[string]bool) // a server may accept another spelling of the URI, and then notifies with that one
		for _, uri := range sub.Agreed().ResourceSubscriptions {
			agreed[uritemplate.Equivalent(uri)] = true
		}
		for _, uri := range l.accepted(all) {
			if !agreed[uritemplate.Equivalent(uri)] {
				all[uri].setAnswer(mcp.ResourceNotFound(uri))
			}
		}
	}
	for _, r := range all {
		r.setAnswer(nil)
	}
	if err != nil {
		l.replace(nil)
		return err
	}
	l.replace(sub)
	if l.missed {
		l.missed = false
		signal(l.stale)
		for _, uri := range l.accepted(all) {
			l.notify(mcp.Change{Kind: mcp.KindResource, URI: uri})
		}
	}
	return nil
}

// findRefused subscribes to each resource by itself, so that a refused resource does not affect the other resources. It
// reports whether the server refuses any.
func (l *listener) findRefused(ctx context.Context, all map[string]*subscribedResource) bool {
	found := false
	for _, uri := range l.accepted(all) {
		sub, err := l.open(ctx, uri)
		if err == nil {
			sub.Close()
			continue
		}
		if refusal := refusalOf(err); refusal != nil {
			l.refusedResources[all[uri]], found = true, true
			all[uri].setAnswer(refusal)
		}
	}
	return found
}

// accepted returns the sorted URIs of the resources that the server has not refused.
func (l *listener) accepted(all map[string]*subscribedResource) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(uri string) bool { return l.refusedResources[all[uri]] })
}

func (l *listener) open(ctx context.Context, uris ...string) (*client.Subscription, error) {
	return l.session.Subscribe(ctx, mcp.SubscriptionFilter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: uris,
		EventsListChanged: l.session.Capabilities().Extensions[mcp.ExtensionEvents] != nil,
	})
}

// refusalOf returns the error that the server replied with; nil if it did not reply.
func refusalOf(err error) error {
	if refusal, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return refusal
	}
	return nil
}
