package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/dovetail-go/dovetail/internal/buffer"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// maxPipeQueue is how many messages may wait in one direction of a pipe before
// the writer waits.
const maxPipeQueue = 64

// maxRecycled is the largest message whose memory waits in a pipe for the next one; that
// of larger ones is given to a pool.
const maxRecycled = 1 << 10

// Pipe returns a dialer that connects to a server in the same process. Each
// Dial makes a link of its own; messages are the same bytes as on any other
// duplex transport, and at most 64 wait in each direction.
func Pipe(server Binder) Dialer { return pipeDialer{server} }

type pipeDialer struct{ server Binder }

func (d pipeDialer) Dial(ctx context.Context, handler jsonrpc.Handler) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	clientEnd, serverEnd := Streams()
	served := jsonrpc.NewConn(serverEnd, func(c *jsonrpc.Conn) jsonrpc.Handler {
		return d.server.Bind(Link{Peer: c, Input: c.Input(), Go: c.Go})
	}, nil)
	dialled := jsonrpc.NewConn(clientEnd, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &jsonrpc.Options{SkipMalformed: true, Drain: -1})
	go runPipe(served)
	go runPipe(dialled)
	return &pipeConn{Conn: dialled, served: served}, nil
}

// runPipe ends with its stream; pipeConn.Close waits for it. A pipe in memory
// does not fail in any other way.
func runPipe(c *jsonrpc.Conn) { _ = c.Run(context.Background()) }

// pipeConn closes both ends, so that nothing of either is left.
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

// Streams returns the two ends of a pair of streams in memory: what is written
// to one is read from the other.
func Streams() (a, b jsonrpc.Stream) {
	there, back := newQueue(), newQueue()
	return &pipeEnd{in: back, out: there}, &pipeEnd{in: there, out: back}
}

type pipeEnd struct{ in, out *queue }

func (e *pipeEnd) Read() ([]byte, error) { return e.in.pop() }

func (e *pipeEnd) HasMore() bool { return len(e.in.messages) > 0 }

func (e *pipeEnd) Write(ctx context.Context, msg []byte) error {
	return e.out.push(ctx, msg)
}

// Recycle takes back a message that nobody uses any more.
func (e *pipeEnd) Recycle(msg []byte) { e.in.recycle(msg) }

func (e *pipeEnd) Close() error {
	e.in.close()
	e.out.close()
	return nil
}

// queue is one direction: what was pushed before close can still be popped.
type queue struct {
	messages  chan []byte
	recycled  chan []byte // empty ones
	large     buffer.Pool
	closed    chan struct{}
	closeOnce sync.Once
}

func newQueue() *queue {
	return &queue{messages: make(chan []byte, maxPipeQueue), recycled: make(chan []byte, maxPipeQueue), closed: make(chan struct{})}
}

// push puts a copy of a message into the queue.
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
	if len(msg) > maxRecycled {
		return q.large.Clone(msg)
	}
	select {
	case memory := <-q.recycled:
		return append(memory, msg...)
	default:
		return bytes.Clone(msg)
	}
}

func (q *queue) recycle(msg []byte) {
	if cap(msg) > maxRecycled {
		q.large.Give(msg)
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
