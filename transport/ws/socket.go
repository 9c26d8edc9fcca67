package ws

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A socket is a WebSocket as a [jsonrpc.Stream]. One goroutine writes, whatever it is:
// messages, pings, answers to pings and at last one close frame. The goroutine that
// reads answers nothing itself, so a flood of pings costs the peer more than us.
type socket struct {
	conn   *websocket.Conn
	limits limits
	out    *outbox
	pongs  chan string   // the payload of the last ping that has not been answered
	closed func()        // closes, once
	leave  chan struct{} // closed when this side closes
	silent chan struct{} // closed when reading has ended
	done   chan struct{} // closed when writing has ended

	mu       sync.Mutex
	lastRead bool // the read deadline is the last one
	code     int  // of the close frame to send
	end      *CloseError
}

// limits are those of one socket.
type limits struct {
	maxMessage   int64
	writeTimeout time.Duration
	keepAlive    time.Duration
	buffers      *sync.Pool // of *[]byte
	closeCode    int        // to send when this side closes for no other reason
}

// newSocket starts writing. Close waits for it.
func newSocket(conn *websocket.Conn, limits limits) *socket {
	s := &socket{
		conn: conn, limits: limits, out: newOutbox(), pongs: make(chan string, 1), code: limits.closeCode,
		leave: make(chan struct{}), silent: make(chan struct{}), done: make(chan struct{}),
	}
	s.closed = sync.OnceFunc(s.shut)
	conn.SetReadLimit(limits.maxMessage)
	conn.SetCloseHandler(func(int, string) error { return nil })
	conn.SetPingHandler(s.pinged)
	conn.SetPongHandler(s.ponged)
	s.heard()
	go s.write()
	return s
}

// Read returns the next message. After Close it drops what comes, until the peer has
// closed too.
func (s *socket) Read() ([]byte, error) {
	for {
		message, err := s.readMessage()
		if err != nil {
			err = s.ended(err)
			close(s.silent)
			return nil, err
		}
		if !s.isLeaving() && len(bytes.TrimSpace(message)) > 0 {
			return message, nil
		}
	}
}

// HasMore returns false: what comes one by one is not known before.
func (s *socket) HasMore() bool { return false }

// ended notes why reading has ended.
func (s *socket) ended(err error) error {
	end := s.closeError(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil && !s.isLeaving() {
		s.end = end
		if end.Code != websocket.CloseAbnormalClosure {
			s.code = end.Code // the peer's own, or what is wrong
		}
	}
	return end
}

func (s *socket) readMessage() ([]byte, error) {
	kind, r, err := s.conn.NextReader()
	if err != nil {
		return nil, err
	}
	if kind != websocket.TextMessage {
		return nil, violation(websocket.CloseUnsupportedData, "a message must be text")
	}
	message, err := s.readText(r)
	if err == nil && !utf8.Valid(message) {
		return nil, violation(websocket.CloseInvalidFramePayloadData, "text must be UTF-8")
	}
	return message, err
}

// readText reads into a pooled buffer, which only a message that has begun needs, and
// returns a copy of just the size. A very big message keeps its buffer instead.
func (s *socket) readText(r io.Reader) ([]byte, error) {
	pooled, ok := s.limits.buffers.Get().(*[]byte)
	if !ok {
		pooled = new(make([]byte, 0, 4<<10))
	}
	defer s.limits.buffers.Put(pooled)
	buf := (*pooled)[:0]
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			if cap(buf) > maxScratch {
				return buf, nil
			}
			*pooled = buf
			return bytes.Clone(buf), nil
		case err != nil:
			return nil, err
		}
		s.heard()
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*len(buf)), buf...)
		}
	}
}

// heard puts the read deadline off: the peer lives.
func (s *socket) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lastRead && s.limits.keepAlive > 0 {
		_ = s.conn.SetReadDeadline(time.Now().Add(s.limits.keepAlive*2 + s.limits.keepAlive/2)) // if it fails, so does reading
	}
}

// stopReading ends reading soon.
func (s *socket) stopReading(grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastRead = true
	_ = s.conn.SetReadDeadline(time.Now().Add(grace)) // as above
}

// pinged has the last ping answered, as RFC 6455, section 5.5.3, allows.
func (s *socket) pinged(payload string) error {
	select {
	case <-s.pongs:
	default:
	}
	s.pongs <- payload
	s.heard()
	return nil
}

func (s *socket) ponged(string) error {
	s.heard()
	return nil
}

// Write queues one message.
func (s *socket) Write(ctx context.Context, message []byte) error { return s.out.put(ctx, message) }

// Close sends what is queued and a close frame, and waits for the peer's.
func (s *socket) Close() error {
	s.closed()
	return nil
}

func (s *socket) shut() {
	close(s.leave)
	s.out.fail(jsonrpc.ErrClosed)
	if !await(s.done, flushGrace) {
		s.cut()
	}
	s.stopReading(closeGrace)
	await(s.silent, closeGrace)
	if end := s.endedWith(); end != nil && end.Sent {
		// Closing at once would reset the connection while the peer still sends, and
		// it might never see why.
		_, _ = io.Copy(io.Discard, s.conn.NetConn())
	}
	_ = s.conn.Close() // both sides have said what they had to say
	<-s.done
}

// cut ends a write that is stuck: closing a TLS connection would write too.
func (s *socket) cut() {
	if encrypted, ok := s.conn.NetConn().(*tls.Conn); ok {
		_ = encrypted.NetConn().Close() // nothing can be done about it
		return
	}
	_ = s.conn.Close() // as above
}

func (s *socket) isLeaving() bool {
	select {
	case <-s.leave:
		return true
	default:
		return false
	}
}

// endedWith says how the peer ended the connection, nil if it has not.
func (s *socket) endedWith() *CloseError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

func await(event <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-event:
		return true
	case <-timer.C:
		return false
	}
}
