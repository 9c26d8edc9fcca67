package ws

import (
	"errors"
	"net"
	"time"

	"github.com/gorilla/websocket"
)

// write writes until this side closes or writing fails. A peer that takes nothing any
// more may have sent something before, so reading goes on for a while.
func (s *socket) write() {
	defer close(s.done)
	err := s.writeAll()
	if err == nil || errors.Is(err, websocket.ErrCloseSent) { // or reading has found a violation
		return
	}
	end := lost(err.Error())
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		end = lost("the peer has not taken a message in time")
	}
	s.mu.Lock()
	if s.end == nil && !s.isLeaving() {
		s.end = end
	}
	s.mu.Unlock()
	s.out.fail(end)
	s.stopReading(flushGrace)
}

func (s *socket) writeAll() error {
	var pings <-chan time.Time
	if s.limits.keepAlive > 0 {
		ticker := time.NewTicker(s.limits.keepAlive)
		defer ticker.Stop()
		pings = ticker.C
	}
	for {
		var err error
		select {
		case <-s.out.pending:
			err = s.writeMessages()
		case payload := <-s.pongs:
			err = s.control(websocket.PongMessage, []byte(payload))
		case <-pings:
			err = s.control(websocket.PingMessage, nil)
		case <-s.leave:
			return errors.Join(s.writeMessages(), s.writeClose())
		}
		if err != nil {
			return err
		}
	}
}

func (s *socket) writeMessages() error {
	batch := s.out.take()
	for message := range batch.messages() {
		_ = s.conn.SetWriteDeadline(time.Now().Add(s.limits.writeTimeout)) // it cannot fail
		if err := s.conn.WriteMessage(websocket.TextMessage, message); err != nil {
			return err
		}
	}
	return nil
}

// writeClose writes the close frame: the peer's own code, as the answer to its close
// frame; what it did wrong; or that this side leaves.
func (s *socket) writeClose() error {
	s.mu.Lock()
	code, reason := s.code, ""
	if s.end != nil && s.end.Sent {
		reason = s.end.Reason[:min(len(s.end.Reason), maxReason)]
	}
	s.mu.Unlock()
	return s.control(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason))
}

func (s *socket) control(kind int, payload []byte) error {
	return s.conn.WriteControl(kind, payload, time.Now().Add(s.limits.writeTimeout))
}
