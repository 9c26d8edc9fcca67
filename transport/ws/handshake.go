package ws

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/transport"
)

// A HandshakeError is an HTTP response that opens no WebSocket, or not one that speaks
// MCP. It is [transport.ErrNotReached] under errors.Is when its status says nothing of
// the server: 401, 403, 429 and 5xx.
type HandshakeError struct {
	// Status is that of the response, and Header its header.
	Status int
	Header http.Header
	// Reason says what is wrong with it.
	Reason string
}

// Error names the status and the reason.
func (e *HandshakeError) Error() string {
	return fmt.Sprintf("the server answered the handshake with %d: %s", e.Status, e.Reason)
}

// Is makes the error [transport.ErrNotReached] when it is one.
func (e *HandshakeError) Is(target error) bool {
	if target != transport.ErrNotReached {
		return false
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= http.StatusInternalServerError
}

// refusal is the error of a response other than 101.
func refusal(resp *http.Response) error {
	e := &HandshakeError{Status: resp.StatusCode, Header: resp.Header}
	if location := resp.Header.Get("Location"); location != "" && resp.StatusCode/100 == 3 {
		e.Reason = "redirects are not followed; it leads to " + jsonscan.Quote(location)
		return e
	}
	body, _ := io.ReadAll(resp.Body) // what there is of it: at most 1 KiB
	e.Reason = "no WebSocket"
	if len(body) > 0 {
		e.Reason += ", but " + jsonscan.Quote(string(body))
	}
	return e
}

// checkAccepted looks at what a server has agreed to.
func checkAccepted(resp *http.Response) error {
	switch {
	case resp.Header.Get("Sec-WebSocket-Protocol") != subprotocol:
		return &HandshakeError{Status: resp.StatusCode, Header: resp.Header, Reason: "it has not agreed to the subprotocol " + subprotocol}
	case resp.Header.Get("Sec-WebSocket-Extensions") != "":
		return &HandshakeError{Status: resp.StatusCode, Header: resp.Header, Reason: "it uses an extension that was not asked for"}
	}
	return nil
}

var errLongHandshake = errors.New("the server's answer to the handshake is too long")

// notReached marks a failure of the network.
type notReached struct{ error }

func (e notReached) Unwrap() error { return e.error }

func (notReached) Is(target error) bool { return target == transport.ErrNotReached }
