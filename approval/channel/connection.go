package channel

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// A connection is that of an approver. One goroutine reads and one writes. The writer takes
// what is to be shown from a queue, so a connection that takes nothing keeps nobody waiting.
type connection struct {
	socket *websocket.Conn
	who    string
	alive  *keepAlive
	speaks bool          // it has agreed to the subprotocol, and understands notifications
	wake   chan struct{} // has an element when there is something to write
	bye    chan farewell // why this side closes
	silent chan struct{} // closed when reading has ended

	// Guarded by the channel's lock.
	queue []entry
}

// An entry of the queue is an offer, or a notification.
type entry struct {
	offer *offer
	note  []byte
}

type farewell struct {
	code   int
	reason string
}

func newConnection(socket *websocket.Conn, who string, every time.Duration) *connection {
	c := &connection{
		socket: socket, who: who, alive: newKeepAlive(socket, every), speaks: socket.Subprotocol() == subprotocol,
		wake: make(chan struct{}, 1), bye: make(chan farewell, 1), silent: make(chan struct{}),
	}
	socket.SetReadLimit(MaxFrame)
	return c
}

// show queues an offer. The channel's lock is held.
func (c *connection) show(o *offer) { c.put(entry{offer: o}) }

// note queues a notification, if the approver understands them. The channel's lock is held.
func (c *connection) note(frame []byte) {
	if c.speaks && len(c.queue) < maxNotes {
		c.put(entry{note: frame})
	}
}

// maxNotes is how many frames may be queued before notifications are left out.
const maxNotes = 2048

func (c *connection) put(e entry) {
	c.queue = append(c.queue, e)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// leave has this side close, within a moment, whatever the approver does. It is called once,
// with the channel's lock held.
func (c *connection) leave(code int, reason string) {
	c.queue = nil
	c.alive.end()
	c.bye <- farewell{code, reason}
}

// read returns the next text frame.
func (c *connection) read() ([]byte, error) {
	kind, frame, err := c.socket.ReadMessage()
	if err != nil {
		close(c.silent)
		return nil, err
	}
	c.alive.heard()
	if kind != websocket.TextMessage {
		return nil, nil // which is no answer
	}
	return frame, nil
}

// write writes what is queued until reading or writing has ended, or this side leaves.
func (c *connection) write(mu *sync.Mutex) {
	ticker := time.NewTicker(c.alive.every)
	defer ticker.Stop()
	for {
		select {
		case <-c.wake:
			if !c.drain(mu) {
				c.cut()
				return
			}
		case payload := <-c.alive.pongs:
			if c.alive.pong(payload) != nil {
				c.cut()
				return
			}
		case <-ticker.C:
			if c.alive.ping() != nil {
				c.cut()
				return
			}
		case bye := <-c.bye:
			c.sayGoodbye(bye)
			return
		case <-c.silent:
			return
		}
	}
}

// drain writes what is queued now, and says whether it could.
func (c *connection) drain(mu *sync.Mutex) bool {
	for {
		frame, ok := c.next(mu)
		if !ok {
			return true
		}
		_ = c.socket.SetWriteDeadline(time.Now().Add(writeTimeout)) // it cannot fail
		if c.socket.WriteMessage(websocket.TextMessage, frame) != nil {
			return false
		}
	}
}

// next takes the next frame of the queue. An offer that is written may be answered.
func (c *connection) next(mu *sync.Mutex) ([]byte, bool) {
	mu.Lock()
	defer mu.Unlock()
	for len(c.queue) > 0 {
		e := c.queue[0]
		c.queue = c.queue[1:]
		switch {
		case e.offer == nil:
			return e.note, true
		case e.offer.open:
			e.offer.shown, e.offer.seen = c, true
			return e.offer.frame, true
		}
	}
	return nil, false
}

func (c *connection) sayGoodbye(bye farewell) {
	message := websocket.FormatCloseMessage(bye.code, bye.reason)
	_ = c.socket.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeTimeout)) // it may have gone
}

// refuse sends away an approver that was not let in.
func (c *connection) refuse(reason string) {
	c.alive.end()
	c.sayGoodbye(farewell{websocket.ClosePolicyViolation, reason})
	for {
		if _, _, err := c.socket.NextReader(); err != nil {
			break // closing earlier could keep the reason from arriving
		}
	}
	c.cut()
}

// cut ends the connection.
func (c *connection) cut() { _ = c.socket.Close() }

// A keepAlive finds out whether the peer is there, and tells it that this side is. What
// reads writes nothing itself: two ends that both do could wait for each other.
type keepAlive struct {
	socket *websocket.Conn
	every  time.Duration
	pongs  chan string // the payload of the last ping that has not been answered

	mu     sync.Mutex
	ending bool
}

func newKeepAlive(socket *websocket.Conn, every time.Duration) *keepAlive {
	k := &keepAlive{socket: socket, every: every, pongs: make(chan string, 1)}
	socket.SetPingHandler(k.pinged)
	socket.SetPongHandler(func(string) error {
		k.heard()
		return nil
	})
	k.heard()
	return k
}

// pinged has the last ping answered, as RFC 6455, section 5.5.3, allows.
func (k *keepAlive) pinged(payload string) error {
	k.heard()
	select {
	case <-k.pongs:
	default:
	}
	k.pongs <- payload
	return nil
}

func (k *keepAlive) pong(payload string) error {
	return k.socket.WriteControl(websocket.PongMessage, []byte(payload), time.Now().Add(writeTimeout))
}

// heard puts the end off: the peer lives.
func (k *keepAlive) heard() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ending {
		_ = k.socket.SetReadDeadline(time.Now().Add(k.every*2 + k.every/2)) // if it fails, so does reading
	}
}

// end leaves the peer a moment to close. Nothing that it sends puts that off.
func (k *keepAlive) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ending = true
	_ = k.socket.SetReadDeadline(time.Now().Add(closeTimeout)) // as above
}

func (k *keepAlive) ping() error {
	return k.socket.WriteControl(websocket.PingMessage, nil, time.Now().Add(writeTimeout))
}
