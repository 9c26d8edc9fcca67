package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// subscribeTimeout bounds waiting for a server to agree to a subscription.
const subscribeTimeout = time.Minute

// A Subscription is a wish to be told of changes. Changes go to
// [Options.Changed]. When the connection is opened anew, so is the subscription;
// what it is about is then told as changed, since changes may have been missed.
type Subscription struct {
	session *Session
	filter  mcp.SubscriptionFilter
	cancel  context.CancelFunc
	ready   chan struct{} // closed when the server has agreed for the first time
	ended   chan struct{}

	mu     sync.Mutex
	opened bool
	agreed mcp.SubscriptionFilter
	err    error
}

// Subscribe asks to be told of changes and returns when the server has agreed,
// which it has a minute to do. In the legacy era changed lists are told in any
// case. The subscription lasts until it is closed, the session is, or the server
// ends it.
func (s *Session) Subscribe(ctx context.Context, filter mcp.SubscriptionFilter) (*Subscription, error) {
	ctx, stop := context.WithTimeout(ctx, subscribeTimeout)
	defer stop()
	life, cancel := context.WithCancel(s.ctx)
	sub := &Subscription{session: s, filter: filter, cancel: cancel, ready: make(chan struct{}), ended: make(chan struct{})}
	go sub.run(life)
	select {
	case <-sub.ready:
		return sub, nil
	case <-sub.ended:
	case <-ctx.Done():
		sub.Close()
		return nil, asCallError("subscribe", context.Cause(ctx))
	}
	select {
	case <-sub.ready: // and ended at once
		return sub, nil
	default:
		return nil, asCallError("subscribe", cmp.Or(sub.Err(), errNotAgreed))
	}
}

var errNotAgreed = errors.New("the server ended the subscription before it agreed to it")

// run listens, on one link after the other.
func (sub *Subscription) run(ctx context.Context) {
	defer close(sub.ended)
	defer sub.cancel()
	for {
		link, err := sub.session.live(ctx)
		if err != nil {
			sub.end(err)
			return
		}
		err = link.Listen(ctx, sub.filter, sub.open)
		if ctx.Err() != nil {
			err = jsonrpc.ErrClosed
		}
		if ctx.Err() != nil || !errors.Is(err, jsonrpc.ErrClosed) || sub.session.awaitEnd(ctx, link) != nil {
			sub.end(err)
			return
		}
	}
}

// open notes what the server has agreed to. It must not block.
func (sub *Subscription) open(agreed mcp.SubscriptionFilter) {
	sub.mu.Lock()
	again := sub.opened
	sub.agreed, sub.opened = agreed, true
	sub.mu.Unlock()
	if again {
		sub.tellGap(agreed)
		return
	}
	close(sub.ready)
}

func (sub *Subscription) end(err error) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.err = err
}

// tellGap tells everything that may have changed unheard.
func (sub *Subscription) tellGap(agreed mcp.SubscriptionFilter) {
	tell := sub.session.answerer.Changed
	if agreed.ToolsListChanged {
		tell(mcp.Change{Kind: mcp.KindTool})
	}
	if agreed.PromptsListChanged {
		tell(mcp.Change{Kind: mcp.KindPrompt})
	}
	if agreed.ResourcesListChanged {
		tell(mcp.Change{Kind: mcp.KindResource})
	}
	for _, uri := range agreed.ResourceSubscriptions {
		tell(mcp.Change{Kind: mcp.KindResource, URI: uri})
	}
}

// Agreed is the part of the wish that the server fulfils.
func (sub *Subscription) Agreed() mcp.SubscriptionFilter {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.agreed
}

// Close ends the subscription and waits until it has. It may be called more than
// once.
func (sub *Subscription) Close() {
	sub.cancel()
	<-sub.ended
}

// Done is closed when the subscription has ended, whoever ended it.
func (sub *Subscription) Done() <-chan struct{} { return sub.ended }

// Err says why the subscription has ended: nil when the server ended it in good
// order, or while it lasts.
func (sub *Subscription) Err() error {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.err
}
