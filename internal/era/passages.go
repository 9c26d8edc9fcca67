package era

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/deadline"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// passages are the calls that are being forwarded over one connection, oldest first.
type passages struct {
	mu   sync.Mutex
	open []*passage
	more chan struct{} // closed when another begins
}

// begin takes one more in. It has a token if the caller wants progress.
func (ps *passages) begin(s *Session, p *passage, call *mcp.Call, how *Forwarding) {
	p.principal, p.asker = call.Caller.Principal, how.Asker
	if call.Member(memberMeta, mcp.MetaProgressToken) != nil {
		p.token = strconv.AppendInt(nil, s.tokens.Add(1), 10)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.open = append(ps.open, p)
	if ps.more != nil {
		close(ps.more)
		ps.more = nil
	}
}

func (ps *passages) end(p *passage) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if i := slices.Index(ps.open, p); i >= 0 {
		ps.open = slices.Delete(ps.open, i, i+1)
	}
}

// withToken returns the one that progress belongs to.
func (ps *passages) withToken(token json.RawMessage) *passage {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.open {
		if p.token != nil && bytes.Equal(p.token, token) {
			return p
		}
	}
	return nil
}

// passageKey is that of the passage in the context of its request.
type passageKey struct{}

// of returns the one that a message of the server belongs to, among those that can be
// asked if it is a question. Over HTTP it comes with the answer. Elsewhere nothing
// tells: it is the oldest whose caller listens, or else will, as long as all are of one
// principal. When there is none, next is closed when there may be.
func (ps *passages) of(from jsonrpc.Peer, asks bool) (found *passage, next <-chan struct{}) {
	if c, ok := from.(transport.Companion); ok {
		p, _ := c.Beside().Value(passageKey{}).(*passage)
		return p, nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.open {
		switch {
		case p.principal != ps.open[0].principal:
			return nil, nil
		case asks && p.asked == nil:
		case found == nil, !found.isListening() && p.isListening():
			found = p
		}
	}
	if found == nil {
		if ps.more == nil {
			ps.more = make(chan struct{})
		}
		next = ps.more
	}
	return found, next
}

// carries returns the context of the request to the server. If there is a timeout, it ends
// when the server has told of no progress for so long.
func (p *passage) carries(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(ctx, passageKey{}, p)
	if p.token != nil {
		ctx = p.Activity.Context(ctx)
	}
	if timeout <= 0 {
		return ctx, func() {}
	}
	return deadline.With(ctx, timeout, context.DeadlineExceeded)
}

// isListening says whether a run of the call waits for what is told.
func (p *passage) isListening() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.call != nil
}
