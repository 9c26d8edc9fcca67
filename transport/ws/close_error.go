package ws

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A CloseError is how a connection ended that this side did not close: the peer
// closed it, broke the protocol or vanished. It is [jsonrpc.ErrClosed] under errors.Is.
type CloseError struct {
	// Code is that of the close frame: RFC 6455, section 7.4. It is 1005 for a frame
	// without a code, and 1006 when there was no frame.
	Code int
	// Sent tells that this side sent the frame, because of what had come.
	Sent bool
	// Reason is the text of the frame, or what is known of the cause.
	Reason string
}

// Error says who closed the connection, and why. The peer's text is quoted.
func (e *CloseError) Error() string {
	switch {
	case e.Code == websocket.CloseAbnormalClosure:
		return "connection lost: " + e.Reason
	case e.Sent:
		return fmt.Sprintf("connection closed with %d: %s", e.Code, e.Reason)
	case e.Reason == "":
		return fmt.Sprintf("connection closed by the peer with %d", e.Code)
	}
	return fmt.Sprintf("connection closed by the peer with %d: %s", e.Code, jsonscan.Quote(e.Reason))
}

// Is makes the error [jsonrpc.ErrClosed].
func (e *CloseError) Is(target error) bool {
	return target == jsonrpc.ErrClosed || target == net.ErrClosed
}

// isUsual tells the end of a session that has done what it was for.
func (e *CloseError) isUsual() bool {
	switch e.Code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived:
		return true
	}
	return false
}

// lost is the end of a connection without a close frame.
func lost(reason string) *CloseError {
	return &CloseError{Code: websocket.CloseAbnormalClosure, Reason: reason}
}

// violation is the end of a connection whose peer has sent what it must not.
func violation(code int, reason string) *CloseError {
	return &CloseError{Code: code, Sent: true, Reason: reason}
}

// framing begins what gorilla/websocket says of frames that RFC 6455 forbids: it has no
// type for that.
const framing = "websocket: "

// closeError says what an error of reading means.
func (s *socket) closeError(err error) *CloseError {
	var own *CloseError
	var frame *websocket.CloseError
	var network net.Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, websocket.ErrReadLimit):
		return violation(websocket.CloseMessageTooBig, fmt.Sprintf("a message may have at most %d bytes", s.limits.maxMessage))
	case errors.As(err, &frame) && frame.Code != websocket.CloseAbnormalClosure:
		return &CloseError{Code: frame.Code, Reason: frame.Text}
	case errors.As(err, &frame), errors.Is(err, io.EOF):
		return lost("the peer has hung up")
	case errors.As(err, &network) && network.Timeout():
		return lost("the peer has been silent for too long")
	case strings.HasPrefix(err.Error(), framing):
		return violation(websocket.CloseProtocolError, strings.TrimPrefix(err.Error(), framing))
	}
	return lost(err.Error())
}
