package streamable

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/buffer"
	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A clientConn is a client's connection. Own calls run on their callers'
// goroutines, each with a request of its own; what the server asks on the way is
// the dispatcher's.
type clientConn struct {
	dialer     *dialer
	handler    jsonrpc.Handler // the dialer's caller's
	dispatcher *jsonrpc.Dispatcher
	route      *jsonrpc.Route // answers by POST
	state      *dialState
	bindings   bindings
	older      atomic.Pointer[olderConn]
	memory     buffer.Pool // of parameters and large answers

	ctx     context.Context // of streams that belong to no call; it is the connection's life
	closing sync.Once
}

func newClientConn(d *dialer, handler jsonrpc.Handler) *clientConn {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &clientConn{dialer: d, handler: handler, state: newDialState(cancel), ctx: ctx}
	c.dispatcher = jsonrpc.NewDispatcher(func(*jsonrpc.Dispatcher) jsonrpc.Handler { return &fromConn{handler, c} }, &d.opts.Conn)
	c.route = c.dispatcher.Route(context.Background(), answers{c})
	return c
}

// fromConn is a handler that gets to see the connection as the peer.
type fromConn struct {
	jsonrpc.Handler
	conn *clientConn
}

func (f *fromConn) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return f.Handler.Handle(ctx, f.peer(from), req, reply)
}

func (f *fromConn) Notified(from jsonrpc.Peer, note *jsonrpc.Request) {
	f.Handler.Notified(f.peer(from), note)
}

func (f *fromConn) Borrow(from jsonrpc.Peer, note *jsonrpc.Request) bool {
	b, ok := f.Handler.(jsonrpc.Borrower)
	return ok && b.Borrow(from, note)
}

// peer is the connection, and which call of it something came along with.
func (f *fromConn) peer(from jsonrpc.Peer) jsonrpc.Peer {
	if route, ok := from.(*jsonrpc.Route); ok && route != f.conn.route {
		return companion{f.conn, route.Values()}
	}
	return f.conn
}

// A companion is the peer of what came along with the answer to a call.
type companion struct {
	*clientConn
	beside context.Context // of the call; a message is of it
}

func (c companion) Beside() context.Context { return c.beside }

func (f *fromConn) Preempts(req *jsonrpc.Request) bool {
	p, ok := f.Handler.(jsonrpc.Preempter)
	return ok && p.Preempts(req)
}

// answers is where the handler's answers to calls of the server leave: each by a
// POST of its own.
type answers struct{ conn *clientConn }

func (a answers) Write(ctx context.Context, msg []byte) error {
	return a.conn.tell(ctx, bytes.Clone(msg))
}

func (a answers) Answer(msg []byte) {
	if msg == nil {
		return
	}
	// What was written may still be read when the request is over.
	if err := a.conn.tell(a.conn.ctx, bytes.Clone(msg)); err != nil && a.conn.state.endedWith() == nil {
		a.conn.dialer.opts.Logger.Warn("an answer to the server was lost", "error", err)
	}
}

// Notify sends a notification and waits until the server has accepted it.
func (c *clientConn) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	if older := c.older.Load(); older != nil {
		return older.Notify(ctx, method, params)
	}
	p, err := c.newPost(ctx, method)
	if err != nil {
		return err
	}
	defer p.done()
	if err := p.encode(jsonrpc.ID{}, params); err != nil {
		return p.failed(jsonrpc.NotSent, err)
	}
	if err := p.tell(); err != nil {
		return err
	}
	if method == mcp.NotificationInitialized && !p.modern {
		c.startListening(p.ctx)
	}
	return nil
}

// tell posts an answer.
func (c *clientConn) tell(ctx context.Context, msg []byte) error {
	p, err := c.newPost(ctx, "answer")
	if err != nil {
		return err
	}
	defer p.done()
	p.text.Hold(&buffer.Buffer{Bytes: msg})
	p.header = p.newHeader()
	return p.tell()
}

// Cancel ends a call of the server that runs; its answer is dropped.
func (c *clientConn) Cancel(id jsonrpc.ID) {
	if older := c.older.Load(); older != nil {
		older.Cancel(id)
		return
	}
	c.route.Cancel(id)
}

// Done is closed when the connection has ended: it was closed, or the server does
// not know the session any more.
func (c *clientConn) Done() <-chan struct{} { return c.state.done }

// Close ends the connection and tells the server that its session is over.
func (c *clientConn) Close() error {
	c.closing.Do(func() {
		session := c.state.end()
		c.dispatcher.Close()
		if older := c.older.Load(); older != nil {
			older.Close()
		}
		if session != nil && session.id != nil {
			c.delete(session)
		}
		c.dialer.client.Release()
	})
	return nil
}

// lose ends the connection, since the server does not know its session any more.
func (c *clientConn) lose() {
	if !c.state.lose() {
		return
	}
	c.dispatcher.Go(func(context.Context) {
		timer := time.NewTimer(lossGrace)
		defer timer.Stop()
		select {
		case <-c.state.done:
		case <-timer.C:
			c.state.end()
		}
	})
}

// delete tells the server that a session is over. Whether it wants to know is its
// own affair.
func (c *clientConn) delete(session *dialSession) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	header := make(http.Header)
	session.addTo(header)
	res, err := c.dialer.client.Do(ctx, http.MethodDelete, c.dialer.url, header)
	if err != nil {
		return
	}
	defer res.Body.Close()
	webclient.Drain(res.Body, cancel)
}
