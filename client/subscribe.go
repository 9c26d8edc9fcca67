package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// subscribeTimeout bounds waiting for a server to accept a subscription, unless
// [Options].CallTimeout is set.
const subscribeTimeout = time.Minute

// A Subscription reports changes to [Options.OnChange]. Open one with [Session.Subscribe]. When the
// connection is renewed, or the stream of the subscription is interrupted, the subscription is renewed, with
// [Limits].Reconnects attempts. Everything in it is then reported as changed, since changes may have been missed.
// Its methods may be called concurrently.
type Subscription struct {
	session *Session
	filter  mcp.SubscriptionFilter
	cancel  context.CancelFunc
	ready   chan struct{} // closed when the server has accepted for the first time
	ended   chan struct{}

	mu       sync.Mutex
	accepted int // how often
	agreed   mcp.SubscriptionFilter
	err      error
}

// Subscribe subscribes to changes, and returns when the server has accepted. If ctx has no deadline,
// it waits for at most [Options].CallTimeout, one minute by default. The subscription lasts until it
// is closed, the session ends, or the server ends it. The server may accept a part of the filter, and
// resources that do not exist are left out: see [Subscription.Agreed]. In the legacy era, changes of
// lists are reported without a subscription. The error is the server's *[jsonrpc.Error], or a
// *[jsonrpc.CallError].
func (s *Session) Subscribe(ctx context.Context, filter mcp.SubscriptionFilter) (*Subscription, error) {
	if timeout := cmp.Or(s.opts.CallTimeout, subscribeTimeout); timeout > 0 && !deadline.Has(ctx) {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, timeout, errNotAccepted)
		defer stop()
	}
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
	case <-sub.ready: // accepted, and ended since
		return sub, nil
	default:
	}
	if err := sub.Err(); errors.Is(err, context.DeadlineExceeded) {
		return nil, asCallError("subscribe", errNotAccepted)
	}
	return nil, asCallError("subscribe", cmp.Or(sub.Err(), errNotAgreed))
}

var errNotAccepted = fmt.Errorf("the server has not accepted the subscription in time (client.Options.CallTimeout, one minute by default): %w", context.DeadlineExceeded)

var errNotAgreed = errors.New("the server ended the subscription before accepting it")

// run listens on one connection after another, and again on the same one if a subscription that was accepted is interrupted.
func (sub *Subscription) run(ctx context.Context) {
	defer close(sub.ended)
	defer sub.cancel()
	opts := &sub.session.opts
	var pause backoff.Backoff
	for attempts := 1; ; attempts++ {
		conn, err := sub.session.liveConn(ctx)
		if err != nil {
			sub.end(err)
			return
		}
		before := sub.timesAccepted()
		err = conn.Listen(ctx, sub.filter, sub.open)
		accepted := sub.timesAccepted()
		if accepted > before {
			attempts = 0
			pause.Reset()
		}
		switch {
		case ctx.Err() != nil:
			sub.end(jsonrpc.ErrClosed)
			return
		case errors.Is(err, jsonrpc.ErrClosed):
			if sub.session.awaitEnd(ctx, conn) != nil {
				sub.end(err)
				return
			}
			continue
		case err == nil, accepted == 0, isFinal(err), opts.NoReconnect, attempts >= opts.Limits.Reconnects:
			sub.end(err)
			return
		}
		opts.Logger.Warn("a subscription was interrupted; it is continued", "error", err)
		if pause.Wait(ctx) != nil {
			sub.end(jsonrpc.ErrClosed)
			return
		}
	}
}

// timesAccepted returns how often the server has accepted the subscription.
func (sub *Subscription) timesAccepted() int {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.accepted
}

// open records the filter that the server has accepted. It must not block.
func (sub *Subscription) open(agreed mcp.SubscriptionFilter) {
	sub.mu.Lock()
	sub.accepted++
	again := sub.accepted > 1
	sub.agreed = agreed
	sub.mu.Unlock()
	if again {
		sub.reportGap(agreed)
		return
	}
	close(sub.ready)
}

func (sub *Subscription) end(err error) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.err = err
}

// reportGap reports everything that may have changed while there was no connection.
func (sub *Subscription) reportGap(agreed mcp.SubscriptionFilter) {
	report := sub.session.handlers.Changed
	if agreed.ToolsListChanged {
		report(mcp.Change{Kind: mcp.KindTool})
	}
	if agreed.PromptsListChanged {
		report(mcp.Change{Kind: mcp.KindPrompt})
	}
	if agreed.EventsListChanged {
		report(mcp.Change{Kind: mcp.KindEvent})
	}
	if agreed.ResourcesListChanged {
		report(mcp.Change{Kind: mcp.KindResource})
	}
	for _, uri := range agreed.ResourceSubscriptions {
		report(mcp.Change{Kind: mcp.KindResource, URI: uri})
	}
	for _, id := range agreed.TaskIDs {
		report(mcp.Change{TaskID: id})
	}
}

// Agreed returns the part of the filter that the server has accepted.
func (sub *Subscription) Agreed() mcp.SubscriptionFilter {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.agreed
}

// Close ends the subscription and waits for it. It may be called more than once.
func (sub *Subscription) Close() {
	sub.cancel()
	<-sub.ended
}

// Done returns a channel that is closed when the subscription has ended.
func (sub *Subscription) Done() <-chan struct{} { return sub.ended }

// Err returns why the subscription has ended. It returns nil while the subscription lasts, and if
// the server ended it normally.
func (sub *Subscription) Err() error {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.err
}
