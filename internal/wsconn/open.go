package wsconn

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// Timeout bounds a client's handshake, from the name lookup on, unless the http.Client has
// a timeout.
const Timeout = 30 * time.Second

// ParseURL parses the URL of a server and returns it with the scheme ws or wss. It accepts
// http and https too. Its errors do not contain the URL, which may hold a secret.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("malformed URL: %w", errors.Unwrap(err))
	}
	switch u.Scheme {
	case "ws", "wss":
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	default:
		return nil, fmt.Errorf("the URL has the scheme %q; expected ws, wss, http or https", u.Scheme)
	}
	if u.Host == "" || u.User != nil {
		return nil, errors.New("expected a URL with a host and without a user")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// Dialer returns a dialer that reaches servers as an http.Client does; nil means httptransport.NewClient(nil). The error describes
// the field HTTPClient of the options.
func Dialer(client *http.Client, subprotocol string) (websocket.Dialer, error) {
	standard := httptransport.NewClient(nil)
	client = cmp.Or(client, standard)
	roundTripper := cmp.Or(client.Transport, standard.Transport)
	settings, ok := roundTripper.(*http.Transport)
	if !ok {
		return websocket.Dialer{}, fmt.Errorf("HTTPClient has a Transport of type %T; expected an *http.Transport", roundTripper)
	}
	dial := settings.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if settings.TLSClientConfig != nil {
		config = settings.TLSClientConfig.Clone()
	}
	config.NextProtos = []string{"http/1.1"} // WebSocket over HTTP/2 is another protocol
	return websocket.Dialer{
		NetDialContext:    dial,
		NetDialTLSContext: settings.DialTLSContext,
		Proxy:             settings.Proxy,
		TLSClientConfig:   config,
		HandshakeTimeout:  cmp.Or(client.Timeout, Timeout),
		Subprotocols:      []string{subprotocol},
		Jar:               client.Jar,
	}, nil
}

// Upgrader returns an upgrader for requests that an httpguard.Guard has admitted.
func Upgrader(subprotocol string, timeout time.Duration) websocket.Upgrader {
	return websocket.Upgrader{
		HandshakeTimeout: timeout,
		Subprotocols:     []string{subprotocol},
		CheckOrigin:      func(*http.Request) bool { return true }, // the guard checks it
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			w.Header().Set("Sec-WebSocket-Version", "13") // RFC 6455, section 4.2.2
			httpguard.Refuse(w, status, jsonrpc.InvalidRequest, reason.Error())
		},
	}
}

// Accept reports whether a request opens a WebSocket. If not, the request has been
// answered.
func Accept(w http.ResponseWriter, r *http.Request) bool {
	if websocket.IsWebSocketUpgrade(r) {
		return true
	}
	w.Header().Set("Upgrade", "websocket")
	httpguard.Refuse(w, http.StatusUpgradeRequired, jsonrpc.InvalidRequest, "expected a WebSocket handshake")
	return false
}

// Upgrade opens the WebSocket of a request. If it fails, the request has been answered.
func Upgrade(u *websocket.Upgrader, w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	return u.Upgrade(hijackable{w}, r, nil)
}

// hijackable finds the connection behind the wrappers of middleware.
type hijackable struct{ http.ResponseWriter }

func (h hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}
