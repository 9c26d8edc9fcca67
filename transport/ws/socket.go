package ws

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/wsconn"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

const (
	// maxScratch is the largest read buffer in bytes that a client keeps for reuse.
	maxScratch = 1 << 20
	// maxReason is the maximum length in bytes of the text in a close frame (RFC 6455,
	// section 5.5).
	maxReason = 123
	// flushTimeout bounds how long closing waits for queued messages.
	flushTimeout = time.Second
	// closeTimeout bounds how long closing waits for the peer's close frame.
	closeTimeout = time.Second
)

// A socket is a WebSocket as a [jsonrpc.Stream]. One goroutine writes everything: messages,
// pings, pongs and at the end one close frame. The reader never writes, so a flood of pings
// costs the peer more than this side.
type socket struct {
	conn       *websocket.Conn
	limits     limits
	queue      *duplex.Queue
	keepAlive  *wsconn.KeepAlive
	close      func()          // closes, once
	closing    chan struct{}   // closed when this side closes
	readDone   chan struct{}   // closed when reading has ended
	charge     *bufpool.Charge // of the message that was read last
	unverified bool            // the server has selected no subprotocol and sent no message; for the reader
	writeDone  chan struct{}   // closed when writing has ended

	mu     sync.Mutex
	code   int // of the close frame to send
	reason *CloseError
}

// limits are the limits and settings of a socket.
type limits struct {
	maxMessage   int64
	writeTimeout time.Duration
	keepAlive    time.Duration
	bytes        *bufpool.Budget // of large messages; nil means no limit
	buffers      *sync.Pool      // of *[]byte
	closeCode    int             // sent when this side closes for no other reason
}

// newSocket starts the writer. Close waits for it.
func newSocket(conn *websocket.Conn, limits limits) *socket {
	s := &socket{
		conn: conn, limits: limits, code: limits.closeCode, queue: duplex.NewQueue(nil),
		keepAlive: wsconn.NewKeepAlive(conn, limits.keepAlive, limits.writeTimeout),
		closing:   make(chan struct{}), readDone: make(chan struct{}), writeDone: make(chan struct{}),
	}
	s.close = sync.OnceFunc(s.shutdown)
	conn.SetReadLimit(limits.maxMessage)
	conn.SetCloseHandler(func(int, string) error { return nil })
	go s.write()
	return s
}

// Read returns the next message. After Close it drops messages until the peer closes too.
func (s *socket) Read() ([]byte, error) {
	for {
		message, err := s.readMessage()
		if refused, ok := errors.AsType[*jsonrpc.DecodeError](err); ok {
			return nil, refused
		}
		if err != nil {
			err = s.endRead(err)
			close(s.readDone)
			return nil, err
		}
		if !s.isClosing() && len(bytes.TrimSpace(message)) > 0 {
			s.unverified = false
			return message, nil
		}
		s.TakeCharge().Release()
	}
}

// TakeCharge returns the charge of the message that was read last.
func (s *socket) TakeCharge() *bufpool.Charge {
	charge := s.charge
	s.charge = nil
	return charge
}

// endRead records why reading has ended.
func (s *socket) endRead(err error) error {
	end := s.closeError(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == nil && !s.isClosing() {
		s.reason = end
		if end.Code != websocket.CloseAbnormalClosure {
			s.code = end.Code // the code of the peer, or of its violation
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
		s.TakeCharge().Release()
		return nil, violation(websocket.CloseInvalidFramePayloadData, "text must be UTF-8")
	}
	if err == nil && s.unverified && !isMessage(message) {
		s.TakeCharge().Release()
		return nil, violation(websocket.ClosePolicyViolation, "no subprotocol was selected, and the first message is not one of JSON-RPC")
	}
	return message, err
}

// isMessage reports whether a text is a message or a batch of JSON-RPC.
func isMessage(text []byte) bool {
	items, err := jsonrpc.SplitBatch(text)
	if err == nil && items == nil {
		_, err = jsonrpc.Decode(text)
	}
	return err == nil
}

// maxPooled is the largest read buffer in bytes that is kept for reuse. With a budget it is small,
// since buffers that are kept are not charged.
func (l *limits) maxPooled() int {
	if l.bytes == nil {
		return maxScratch
	}
	return bufpool.Small
}

// readText reads a message. A small message is read into a pooled buffer, so that an idle socket
// holds none, and copied. The buffer of a large one is charged before it grows.
func (s *socket) readText(r io.Reader) ([]byte, error) {
	pooled, ok := s.limits.buffers.Get().(*[]byte)
	if !ok {
		pooled = new(make([]byte, 0, 4<<10))
	}
	defer s.limits.buffers.Put(pooled)
	pace := wsconn.Pace{KeepAlive: s.keepAlive}
	defer pace.End()
	var charge *bufpool.Charge
	buf := (*pooled)[:0]
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF) && cap(buf) > s.limits.maxPooled():
			s.charge = charge
			return buf, nil
		case errors.Is(err, io.EOF):
			*pooled = buf
			return bytes.Clone(buf), nil
		case err != nil:
			charge.Release()
			return nil, err
		}
		pace.Extend(len(buf))
		if len(buf) < cap(buf) {
			continue
		}
		larger := int(min(2*int64(cap(buf)), max(s.limits.maxMessage, bufpool.Small)+1))
		charge, err = s.limits.bytes.Grow(context.Background(), charge, larger) // it returns within 2 s
		if err != nil {
			defer charge.Release()
			end, broken := pace.Skip(r, len(buf))
			if broken != nil {
				return nil, broken
			}
			return nil, jsonrpc.BusyError(buf, end, err)
		}
		buf = append(make([]byte, 0, larger), buf...)
	}
}

// Write queues a message.
func (s *socket) Write(ctx context.Context, message []byte) error {
	return s.queue.Put(ctx, message)
}

// Close sends what is queued and a close frame, and waits for the peer's close frame.
func (s *socket) Close() error {
	s.close()
	return nil
}

func (s *socket) shutdown() {
	close(s.closing)
	s.queue.Close(jsonrpc.ErrClosed)
	if !waitFor(s.writeDone, flushTimeout) {
		s.interrupt()
	}
	s.keepAlive.EndReading(closeTimeout)
	waitFor(s.readDone, closeTimeout)
	if end := s.closeReason(); end != nil && end.Sent {
		// Closing now would reset the connection while the peer still sends, and the peer
		// might not receive the close frame.
		_, _ = io.Copy(io.Discard, s.conn.NetConn())
	}
	_ = s.conn.Close() // both sides have closed, or the peer has not answered in time
	<-s.writeDone
}

// interrupt ends a blocked write. Closing a TLS connection would write too.
func (s *socket) interrupt() {
	if encrypted, ok := s.conn.NetConn().(*tls.Conn); ok {
		_ = encrypted.NetConn().Close() // the connection has failed
		return
	}
	_ = s.conn.Close() // the connection has failed
}

func (s *socket) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// closeReason returns how the peer ended the connection, or nil if it has not.
func (s *socket) closeReason() *CloseError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

func waitFor(event <-chan struct{}, limit time.Duration) bool {
	select {
	case <-event:
		return true
	case <-time.After(limit):
		return false
	}
}

// write writes until this side closes or writing fails. After a failure it lets the reader
// continue for a moment, since the peer may have sent messages before.
func (s *socket) write() {
	defer close(s.writeDone)
	defer s.keepAlive.Stop()
	err := s.writeAll()
	if err == nil || errors.Is(err, websocket.ErrCloseSent) { // sent because of a violation
		return
	}
	end := lost(err.Error())
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		end = lost("the peer has not accepted a message in time")
	}
	s.mu.Lock()
	if s.reason == nil && !s.isClosing() {
		s.reason = end
	}
	s.mu.Unlock()
	s.queue.Close(end)
	s.keepAlive.EndReading(flushTimeout)
}

func (s *socket) writeAll() error {
	for {
		var err error
		select {
		case <-s.queue.Ready():
			err = s.writeMessages()
		case payload := <-s.keepAlive.Pongs():
			err = s.keepAlive.Pong(payload)
		case <-s.keepAlive.Pings():
			err = s.keepAlive.Ping()
		case <-s.closing:
			return errors.Join(s.writeMessages(), s.writeClose())
		}
		if err != nil {
			return err
		}
	}
}

func (s *socket) writeMessages() error {
	for message := range s.queue.Take().Messages() {
		_ = s.conn.SetWriteDeadline(time.Now().Add(s.limits.writeTimeout)) // it cannot fail
		if err := s.conn.WriteMessage(websocket.TextMessage, message); err != nil {
			return err
		}
	}
	return nil
}

// writeClose writes the close frame. Its code is the code of the peer's close frame, the code for the peer's violation,
// or limits.closeCode.
func (s *socket) writeClose() error {
	s.mu.Lock()
	code, text := s.code, ""
	if s.reason != nil && s.reason.Sent {
		text = s.reason.Reason[:min(len(s.reason.Reason), maxReason)]
	}
	s.mu.Unlock()
	return s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(s.limits.writeTimeout))
}
