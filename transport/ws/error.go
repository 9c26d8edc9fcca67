package ws

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// CloseError says how the peer ended a connection: it closed the connection, violated the
// protocol or disappeared. It is [jsonrpc.ErrClosed] under errors.Is.
type CloseError struct {
	// Code is the code of the close frame (RFC 6455, section 7.4). It is 1005 for a frame
	// without a code, and 1006 if there was no frame.
	Code int
	// Sent reports whether this side sent the frame, because of a violation.
	Sent bool
	// Reason is the text of the frame, or describes the failure.
	Reason string
}

// Error says which side closed the connection and why. The text of the peer is quoted.
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

// Is reports whether target is [jsonrpc.ErrClosed] or [net.ErrClosed].
func (e *CloseError) Is(target error) bool {
	return target == jsonrpc.ErrClosed || target == net.ErrClosed
}

// isNormal reports whether the peer closed the connection without a failure.
func (e *CloseError) isNormal() bool {
	switch e.Code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived:
		return true
	}
	return false
}

// lost returns the error of a connection that ended without a close frame.
func lost(reason string) *CloseError {
	return &CloseError{Code: websocket.CloseAbnormalClosure, Reason: reason}
}

// violation returns the error of a connection whose peer violated the protocol.
func violation(code int, reason string) *CloseError {
	return &CloseError{Code: code, Sent: true, Reason: reason}
}

// framing is the prefix of errors of gorilla/websocket about frames that RFC 6455 forbids.
// They have no type.
const framing = "websocket: "

// closeError converts a read error.
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
		return lost("the peer disconnected")
	case errors.As(err, &network) && network.Timeout():
		return lost("the peer has been silent for too long")
	case strings.HasPrefix(err.Error(), framing):
		return violation(websocket.CloseProtocolError, strings.TrimPrefix(err.Error(), framing))
	}
	return lost(err.Error())
}

// HandshakeError is an HTTP response that opens no WebSocket, or one that does not carry MCP.
// It is [transport.ErrNotReached] under errors.Is if the status is 401, 403, 429 or 5xx.
type HandshakeError struct {
	// Status is the status of the response, and Header its header.
	Status int
	Header http.Header
	// Reason describes what is wrong with the response.
	Reason string
}

// Error returns the status and the reason.
func (e *HandshakeError) Error() string {
	return fmt.Sprintf("the server answered the handshake with %d: %s", e.Status, e.Reason)
}

// Is reports whether target is [transport.ErrNotReached] and the status is 401, 403, 429 or
// 5xx.
func (e *HandshakeError) Is(target error) bool {
	return target == transport.ErrNotReached && (httpclient.IsAccess(e.Status) || e.Status >= http.StatusInternalServerError)
}

// newHandshakeError returns the error of a response other than 101.
func newHandshakeError(resp *http.Response) error {
	e := &HandshakeError{Status: resp.StatusCode, Header: resp.Header}
	secrets := httpclient.SecretsOf(resp.Request)
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode/100 == 3 {
		e.Reason = "redirects are not followed; it leads to " + jsonscan.Quote(secrets.Redact(location))
		return e
	}
	body, _ := io.ReadAll(resp.Body) // gorilla/websocket has read at most 1 KiB
	e.Reason = "no WebSocket"
	if len(body) > 0 {
		e.Reason += ", but " + jsonscan.Quote(secrets.Redact(string(body)))
	}
	return e
}

// checkHandshake checks the subprotocol and the extensions that the server has selected.
func checkHandshake(resp *http.Response) error {
	switch selected := resp.Header.Get("Sec-WebSocket-Protocol"); {
	case selected != "" && selected != subprotocol:
		return &HandshakeError{Status: resp.StatusCode, Header: resp.Header, Reason: "the server selected another subprotocol than " + subprotocol + ": " + jsonscan.Quote(selected)}
	case resp.Header.Get("Sec-WebSocket-Extensions") != "":
		return &HandshakeError{Status: resp.StatusCode, Header: resp.Header, Reason: "the server selected an extension that was not offered"}
	}
	return nil
}
