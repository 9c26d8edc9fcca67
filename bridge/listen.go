package bridge

import (
	"context"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/mcp"
)

// A listener holds one subscription to all that a server is to tell: changed lists, and
// the resources that are watched.
type listener struct {
	*Upstream
	session *client.Session
	sub     *client.Subscription // nil while there is none
	missed  bool                 // changes may have gone unheard
	refused map[*watched]bool    // by the server, in this session
	pause   backoff.Backoff
}

// listen listens as long as a session lasts. tried is called whenever the server has been
// asked to tell.
func (u *Upstream) listen(ctx context.Context, session *client.Session, tried func()) {
	l := &listener{Upstream: u, session: session, missed: true, refused: make(map[*watched]bool)}
	defer func() { l.replace(nil) }()
	for ctx.Err() == nil {
		err := l.subscribe(ctx, u.watch.now())
		tried()
		var ended <-chan struct{}
		var again <-chan time.Time
		if l.sub != nil {
			ended = l.sub.Done()
		} else if refusal(err) == nil {
			again = time.After(l.pause.Next())
		}
		opened := time.Now()
		select {
		case <-u.watch.changed:
		case <-again:
		case <-ended:
			l.end(ctx, opened)
		case <-ctx.Done():
		}
	}
}

// end takes note that the server has ended the subscription, and waits until it can be
// asked for another.
func (l *listener) end(ctx context.Context, opened time.Time) {
	l.replace(nil)
	l.missed = true
	if time.Since(opened) >= settled {
		l.pause.Reset()
	}
	_ = l.pause.Wait(ctx) // whose end is seen next
}

func (l *listener) replace(sub *client.Subscription) {
	if l.sub != nil {
		l.sub.Close()
	}
	l.sub = sub
}

// subscribe asks the server to tell of all that is watched, and of its lists.
func (l *listener) subscribe(ctx context.Context, all map[string]*watched) error {
	sub, err := l.ask(ctx, uris(all, l.refused)...)
	if refusal(err) != nil && l.sift(ctx, all) {
		sub, err = l.ask(ctx, uris(all, l.refused)...)
	}
	if err != nil && refusal(err) == nil {
		l.missed = true
	}
	for _, one := range all {
		one.settle(nil)
	}
	if err != nil {
		l.replace(nil)
		return err
	}
	l.replace(sub)
	if l.missed {
		l.missed = false
		signal(l.stale)
		for _, uri := range uris(all, l.refused) {
			l.tell(mcp.Change{Kind: mcp.KindResource, URI: uri})
		}
	}
	return nil
}

// sift finds out which of the watched resources the server refuses: that must not cost
// the others. It says whether there are any.
func (l *listener) sift(ctx context.Context, all map[string]*watched) bool {
	found := false
	for _, uri := range uris(all, l.refused) {
		sub, err := l.ask(ctx, uri)
		if err == nil {
			sub.Close()
			continue
		}
		if said := refusal(err); said != nil {
			l.refused[all[uri]], found = true, true
			all[uri].settle(said)
		}
	}
	return found
}

func (l *listener) ask(ctx context.Context, uris ...string) (*client.Subscription, error) {
	return l.session.Subscribe(ctx, mcp.SubscriptionFilter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceSubscriptions: uris,
	})
}
