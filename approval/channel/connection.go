package channel

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/wsconn"
)

// A connection is the connection of an approver. One goroutine reads and one writes. The
// writer takes frames from a queue, so a slow connection blocks nothing else.
type connection struct {
	socket      *websocket.Conn
	who         Person
	keepAlive   *wsconn.KeepAlive
	notifies    bool            // the approver has selected the subprotocol and accepts notifications
	ready       chan struct{}   // has an element when the queue is not empty
	closeFrames chan closeFrame // the close frame to send
	readDone    chan struct{}   // closed when reading has ended

	// Guarded by the channel's lock.
	queue       []entry
	pending     map[string]*pendingRequest // by id
	unclear     []string                   // ids of requests that ended with a decision that is not yet known
	stopShowing context.CancelFunc         // ends what shows requests to the approver
}

// A pendingRequest is a request without an answer that is shown to one approver. It is guarded by the channel's lock.
type pendingRequest struct {
	id    string
	key   string // of its record
	frame []byte
	shown bool // it was sent, and may be answered
}

// An entry of the queue is a request or a notification.
type entry struct {
	request      *pendingRequest
	notification []byte
}

type closeFrame struct {
	code   int
	reason string
}

func newConnection(socket *websocket.Conn, who Person, every time.Duration, stopShowing context.CancelFunc) *connection {
	c := &connection{
		socket: socket, who: who, keepAlive: wsconn.NewKeepAlive(socket, every, writeTimeout), notifies: socket.Subprotocol() == subprotocol,
		ready: make(chan struct{}, 1), closeFrames: make(chan closeFrame, 1), readDone: make(chan struct{}),
		pending: make(map[string]*pendingRequest), stopShowing: stopShowing,
	}
	socket.SetReadLimit(maxFrame)
	return c
}

// show queues a request. The channel's lock is held.
func (c *connection) show(o *pendingRequest) { c.push(entry{request: o}) }

// withdraw removes a request, informs the approver if it has got the request, and reports whether the request was
// pending. d is the decision, nil for none. The channel's lock is held.
func (c *connection) withdraw(o *pendingRequest, d *decision) bool {
	if c.pending[o.id] != o {
		return false
	}
	delete(c.pending, o.id)
	if o.shown {
		c.notify(notificationFrame(methodWithdrawn, o.id, "", d))
	}
	return true
}

// notify queues a notification if the approver accepts them. The channel's lock is held.
func (c *connection) notify(frame []byte) {
	if c.notifies && len(c.queue) < maxNotifications {
		c.push(entry{notification: frame})
	}
}

// maxNotifications is the length of the queue from which notifications are dropped.
const maxNotifications = 2048

func (c *connection) push(e entry) {
	c.queue = append(c.queue, e)
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// close closes the connection within [closeTimeout]. It is called once, with the channel's
// lock held.
func (c *connection) close(code int, reason string) {
	c.queue = nil
	c.keepAlive.EndReading(closeTimeout)
	c.closeFrames <- closeFrame{code, reason}
}

// read returns the next text frame.
func (c *connection) read() ([]byte, error) {
	kind, frame, err := c.readMessage()
	if err != nil {
		close(c.readDone)
		return nil, err
	}
	c.keepAlive.Extend()
	if kind != websocket.TextMessage {
		return nil, nil // not an answer
	}
	return frame, nil
}

// readMessage reads one message at the minimum rate.
func (c *connection) readMessage() (kind int, message []byte, err error) {
	kind, r, err := c.socket.NextReader()
	if err != nil {
		return 0, nil, err
	}
	pace := wsconn.Pace{KeepAlive: c.keepAlive}
	defer pace.End()
	message = make([]byte, 0, 512)
	for {
		n, err := r.Read(message[len(message):cap(message)])
		message = message[:len(message)+n]
		switch {
		case errors.Is(err, io.EOF):
			return kind, message, nil
		case err != nil:
			return 0, nil, err
		}
		pace.Extend(len(message))
		message = slices.Grow(message, 1)
	}
}

// write writes queued frames until reading or writing ends, or this side closes.
func (c *connection) write(ch *Channel) {
	for {
		var err error
		select {
		case <-c.ready:
			err = c.drain(ch)
		case payload := <-c.keepAlive.Pongs():
			err = c.keepAlive.Pong(payload)
		case <-c.keepAlive.Pings():
			err = c.keepAlive.Ping()
		case bye := <-c.closeFrames:
			c.writeClose(bye)
			return
		case <-c.readDone:
			return
		}
		if err != nil {
			c.abort()
			return
		}
	}
}

// drain writes the queued frames.
func (c *connection) drain(ch *Channel) error {
	for {
		frame, ok := c.next(ch)
		if !ok {
			return nil
		}
		_ = c.socket.SetWriteDeadline(time.Now().Add(writeTimeout)) // it cannot fail
		if err := c.socket.WriteMessage(websocket.TextMessage, frame); err != nil {
			return err
		}
	}
}

// next takes the next frame from the queue. A request that is taken may be answered.
func (c *connection) next(ch *Channel) ([]byte, bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	for len(c.queue) > 0 {
		e := c.queue[0]
		c.queue = c.queue[1:]
		switch {
		case e.request == nil:
			return e.notification, true
		case c.pending[e.request.id] == e.request:
			e.request.shown = true
			if w := ch.calls[e.request.id]; w != nil {
				w.seen = true
			}
			return e.request.frame, true
		}
	}
	return nil, false
}

func (c *connection) writeClose(bye closeFrame) {
	message := websocket.FormatCloseMessage(bye.code, bye.reason)
	_ = c.socket.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeTimeout)) // the peer may have disconnected
}

// refuse closes the connection of an approver that was not accepted.
func (c *connection) refuse(reason string) {
	c.keepAlive.EndReading(closeTimeout)
	c.writeClose(closeFrame{websocket.ClosePolicyViolation, reason})
	for {
		if _, _, err := c.socket.NextReader(); err != nil {
			break // closing earlier could prevent the reason from arriving
		}
	}
	c.abort()
}

// abort ends the connection without a close frame.
func (c *connection) abort() {
	c.keepAlive.Stop()
	_ = c.socket.Close()
}
