package wsconn

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/httpguard"
)

// KeepAlive detects a silent peer, and answers the pings of the peer. The reader calls Extend
// for what it reads; the read deadline passes two and a half intervals after the last call.
// The writer receives from Pings and Pongs and sends them with Ping and Pong, since two peers
// whose readers write could wait for each other.
type KeepAlive struct {
	socket       *websocket.Conn
	interval     time.Duration
	writeTimeout time.Duration
	ticker       *time.Ticker
	pings        <-chan time.Time
	pongs        chan string

	mu      sync.Mutex
	message time.Time // when the message that is being read must have made progress; zero if there is none
	final   bool      // the read deadline must not change
}

// NewKeepAlive starts watching a connection that nothing reads yet. Without a positive
// interval, there are neither pings nor a read deadline. The writer calls Stop.
func NewKeepAlive(socket *websocket.Conn, interval, writeTimeout time.Duration) *KeepAlive {
	k := &KeepAlive{socket: socket, interval: interval, writeTimeout: writeTimeout, pongs: make(chan string, 1)}
	if interval > 0 {
		k.ticker = time.NewTicker(interval)
		k.pings = k.ticker.C
	}
	socket.SetPingHandler(k.queuePong)
	socket.SetPongHandler(func(string) error {
		k.Extend()
		return nil
	})
	k.Extend()
	return k
}

// queuePong queues the answer to the last ping and drops older ones (RFC 6455, section 5.5.3).
func (k *KeepAlive) queuePong(payload string) error {
	k.Extend()
	select {
	case <-k.pongs:
	default:
	}
	k.pongs <- payload
	return nil
}

// Extend moves the read deadline, since the peer has sent something.
func (k *KeepAlive) Extend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.interval > 0 {
		k.extend()
	}
}

// extend sets the read deadline. The lock is held.
func (k *KeepAlive) extend() {
	if k.final {
		return
	}
	deadline := k.message
	if k.interval > 0 {
		silence := time.Now().Add(k.interval*2 + k.interval/2)
		if deadline.IsZero() || silence.Before(deadline) {
			deadline = silence
		}
	}
	_ = k.socket.SetReadDeadline(deadline) // if it fails, so does reading
}

// setMessage sets when the message must have made progress, and the read deadline.
func (k *KeepAlive) setMessage(deadline time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.message = deadline
	k.extend()
}

// A Pace is the minimum rate of one message that comes in several parts, as for the bodies of
// requests. Pings and pongs do not extend it. The zero value with a KeepAlive is ready for use.
type Pace struct {
	KeepAlive *KeepAlive

	start time.Time // when the first part was read
	paced bool      // there were more parts
}

// Extend moves the read deadline after a part of the message was read; have bytes have arrived.
func (p *Pace) Extend(have int) {
	if p.start.IsZero() {
		p.start = time.Now()
		p.KeepAlive.Extend() // most messages have no other part
		return
	}
	p.paced = true
	p.KeepAlive.setMessage(httpguard.Deadline(p.start, have))
}

// Skip reads the rest of a message at the minimum rate, and returns its last bytes; have bytes have
// arrived.
func (p *Pace) Skip(r io.Reader, have int) (end []byte, err error) {
	const kept = 256
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Read(buf[len(end):])
		part := buf[:len(end)+n]
		end = buf[:copy(buf, part[max(0, len(part)-kept):])]
		switch have += n; {
		case errors.Is(err, io.EOF):
			return end, nil
		case err != nil:
			return nil, err
		}
		p.Extend(have)
	}
}

// End is called after the message.
func (p *Pace) End() {
	if p.paced {
		p.KeepAlive.setMessage(time.Time{})
	}
}

// EndReading sets the last read deadline. Extend has no effect afterwards.
func (k *KeepAlive) EndReading(timeout time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.final = true
	_ = k.socket.SetReadDeadline(time.Now().Add(timeout)) // if it fails, so does reading
}

// Pings receives a value when a ping is due.
func (k *KeepAlive) Pings() <-chan time.Time { return k.pings }

// Ping sends a ping.
func (k *KeepAlive) Ping() error { return k.control(websocket.PingMessage, nil) }

// Pongs receives the payload of a ping that must be answered.
func (k *KeepAlive) Pongs() <-chan string { return k.pongs }

// Pong answers a ping.
func (k *KeepAlive) Pong(payload string) error {
	return k.control(websocket.PongMessage, []byte(payload))
}

func (k *KeepAlive) control(kind int, payload []byte) error {
	return k.socket.WriteControl(kind, payload, time.Now().Add(k.writeTimeout))
}

// Stop ends the pings.
func (k *KeepAlive) Stop() {
	if k.ticker != nil {
		k.ticker.Stop()
	}
}
