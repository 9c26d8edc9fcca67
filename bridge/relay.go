package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// RelayOptions configure [Relay]. The zero value is good. Limits of messages and calls
// are those of the two transports.
type RelayOptions struct {
	// ConnectTimeout bounds connecting to the server. Default 30 s.
	ConnectTimeout time.Duration
}

const defaultConnectTimeout = 30 * time.Second

// Relay puts a server behind another transport, one to one, in whatever version of the
// protocol its clients speak:
//
//	far := streamable.Dial(url, nil)
//	err := stdio.Serve(ctx, bridge.Relay(far, nil), nil)
//
//	child := stdio.Command("server", nil, nil)
//	endpoint := streamable.Handler(bridge.Relay(child, nil), nil)
//
// Messages pass both ways byte by byte, methods and members that this module has never
// heard of too. Only ids are those of each side, wherever a message repeats the id of a
// call, and so are progress tokens on a link that several clients share. A relay neither
// adds to what a server offers nor checks it; [Proxy] does.
func Relay(dialer transport.Dialer, opts *RelayOptions) *Relayer {
	r := &Relayer{dialer: dialer}
	if opts != nil {
		r.opts = *opts
	}
	if r.opts.ConnectTimeout <= 0 {
		r.opts.ConnectTimeout = defaultConnectTimeout
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// A Relayer is a [transport.Binder] that has everything answered by a server elsewhere.
// Make one with [Relay]. It may be used concurrently.
//
// Each link has a connection of its own, which is opened by the link's first message and
// ends with the link, when the calls that run have been answered. On a shared link, as
// HTTP has it for versions without sessions, all clients have one connection, and a new
// one is opened when it has ended. Elsewhere an end is final, since the server has
// forgotten what was said: calls fail, with an [UpstreamError] that clients see as an
// internal error of JSON-RPC.
//
// A relay does not bound how long a call takes: whoever makes it gives up, and that is
// passed on. Where the server's transport does not tell what a message belongs to, its
// questions go to the oldest call of the client, and its log messages to the client; on
// a shared link they go to the only call that runs, and nowhere when there are more.
// Batches of version 2025-03-26 are refused.
type Relayer struct {
	dialer transport.Dialer
	opts   RelayOptions

	ctx    context.Context // the relay's life
	cancel context.CancelFunc
	mu     sync.Mutex // none begins while Close waits
	links  sync.WaitGroup
}

// Bind makes the handler of one link.
func (r *Relayer) Bind(link transport.Link) jsonrpc.Handler {
	l := newRelayLink(r, link)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		l.end()
		return l
	}
	r.links.Add(1)
	link.Go(func(context.Context) {
		defer r.links.Done()
		l.keep()
	})
	return l
}

// Close ends all connections to the server and returns when they have ended. Calls that
// run fail, and so do later ones. It may be called more than once.
func (r *Relayer) Close() error {
	r.mu.Lock()
	r.cancel()
	r.mu.Unlock()
	r.links.Wait()
	return nil
}
