package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// maxPipeQueue is how many messages one direction of a pipe holds before Write blocks.
const maxPipeQueue = 64

// maxRecycled is the largest message whose memory is reused for another one, in bytes.
const maxRecycled = 1 << 10

// Pipe returns a dialer that connects to a server in the same process. Each Dial makes a new link. At most 64 messages
// wait in each direction. The principal of the link is the principal of the context of Dial, which [WithPrincipal]
// sets.
func Pipe(server Binder) Dialer { return pipeDialer{server} }

type pipeDialer struct{ server Binder }

func (d pipeDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	clientEnd, serverEnd := NewPipe()
	served := jsonrpc.NewConn(serverEnd, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return d.server.Bind(Link{Peer: c, Input: c.Input(), Go: c.Go, Principal: Principal(ctx)})
	}, nil)
	dialled := jsonrpc.NewConn(clientEnd, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &jsonrpc.Options{SkipMalformed: true, Drain: -1})
	go runPipe(served)
	go runPipe(dialled)
	return &pipeConn{Conn: dialled, served: served}, nil
}

// runPipe returns when the stream is closed, without an error. pipeConn.Close waits for it.
func runPipe(c *jsonrpc.Conn) { _ = c.Run(context.Background()) }

// A pipeConn is the client's end. It closes both ends.
type pipeConn struct {
	*jsonrpc.Conn
	served *jsonrpc.Conn
}

func (c *pipeConn) Close() error {
	err := errors.Join(c.Conn.Close(), c.served.Close())
	<-c.Conn.Done() // Close of a Conn waits for Run only once that has begun
	<-c.served.Done()
	return err
}

// NewPipe returns two connected streams in memory. A message that is written to one is read
// from the other. Closing either stream closes both directions.
func NewPipe() (a, b jsonrpc.Stream) {
	ab, ba := newQueue(), newQueue()
	return &pipeEnd{in: ba, out: ab}, &pipeEnd{in: ab, out: ba}
}

type pipeEnd struct{ in, out *queue }

func (e *pipeEnd) Read() ([]byte, error) { return e.in.pop() }

func (e *pipeEnd) Write(ctx context.Context, msg []byte) error {
	return e.out.push(ctx, msg)
}

// Recycle makes the memory of a message available for another one.
func (e *pipeEnd) Recycle(msg []byte) { e.in.recycle(msg) }

func (e *pipeEnd) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

// A queue is one direction of a pipe. Messages that were pushed before close can still be popped.
type queue struct {
	messages  chan []byte
	recycled  chan []byte // empty slices for reuse
	closed    chan struct{}
	closeOnce sync.Once
}

func newQueue() *queue {
	return &queue{messages: make(chan []byte, maxPipeQueue), recycled: make(chan []byte, maxPipeQueue), closed: make(chan struct{})}
}

// push adds a copy of a message.
func (q *queue) push(ctx context.Context, msg []byte) error {
	select {
	case <-q.closed:
		return jsonrpc.ErrClosed
	default:
	}
	msg = q.copy(msg)
	select { // the usual case
	case q.messages <- msg:
		return nil
	default:
	}
	select {
	case q.messages <- msg:
		return nil
	case <-q.closed:
		return jsonrpc.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (q *queue) copy(msg []byte) []byte {
	select {
	case memory := <-q.recycled:
		return append(memory, msg...)
	default:
		return bytes.Clone(msg)
	}
}

func (q *queue) recycle(msg []byte) {
	if cap(msg) > maxRecycled {
		return
	}
	select {
	case q.recycled <- msg[:0]:
	default:
	}
}

func (q *queue) pop() ([]byte, error) {
	select {
	case msg := <-q.messages:
		return msg, nil
	default:
	}
	select {
	case msg := <-q.messages:
		return msg, nil
	case <-q.closed:
		select {
		case msg := <-q.messages:
			return msg, nil
		default:
			return nil, io.EOF
		}
	}
}

func (q *queue) close() { q.closeOnce.Do(func() { close(q.closed) }) }
