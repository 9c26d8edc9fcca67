package ws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/wsconn"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/internal/duplex"
)

const (
	// maxHandshake is how many bytes a server may send in the handshake, including
	// certificates.
	maxHandshake = 256 << 10
	// clientFrame is the frame size of a client, which copies its messages to mask them.
	clientFrame = 32 << 10
)

// Dial returns a dialer that opens a WebSocket for each connection. The URL has the scheme
// ws, wss, http or https. opts may be nil. A malformed URL or option is the error of every
// Dial of the dialer.
//
// The dialer offers the subprotocol "mcp". A server may select none: then the connection ends with
// a *[CloseError] unless the server's first message is one of JSON-RPC.
//
// If the handshake fails, the error is a *[HandshakeError] when the server answered, and
// [transport.ErrNotReached] under errors.Is otherwise. A call that fails because the peer
// ended the connection has a *[CloseError] in its *[jsonrpc.CallError].
func Dial(rawURL string, opts *DialOptions) transport.Dialer {
	o := opts.withDefaults()
	target, urlErr := wsconn.ParseURL(rawURL)
	base, baseErr := wsconn.Dialer(o.HTTPClient, subprotocol)
	if baseErr != nil {
		baseErr = fmt.Errorf("DialOptions.%w", baseErr)
	}
	if o.NoSubprotocol {
		base.Subprotocols = nil
	}
	base.WriteBufferSize, base.WriteBufferPool = clientFrame, &sync.Pool{}
	return &dialer{
		url: target, opts: o, base: base, err: errors.Join(urlErr, baseErr),
		limits: limits{
			maxMessage: o.MaxMessage, writeTimeout: o.WriteTimeout, keepAlive: o.KeepAlive,
			buffers: &sync.Pool{}, closeCode: websocket.CloseNormalClosure,
		},
	}
}

type dialer struct {
	url    *url.URL
	opts   DialOptions
	base   websocket.Dialer // copied for each Dial
	limits limits
	err    error
}

// Dial opens a WebSocket.
func (d *dialer) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	if d.err != nil {
		return nil, fmt.Errorf("ws: %w", d.err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	header := http.Header{}
	if d.opts.Header != nil {
		if err := d.opts.Header(ctx, header); err != nil {
			return nil, fmt.Errorf("ws: making the header: %w", err)
		}
	}
	opened, err := d.authorize(ctx, header)
	if err != nil {
		return nil, fmt.Errorf("ws: dialing %s: %w", d.url.Host, err)
	}
	socket := newSocket(opened, d.limits)
	socket.unverified = opened.Subprotocol() == ""
	reason := func() (err error) {
		if end := socket.closeReason(); end != nil {
			err = end // a nil *CloseError would be an error
		}
		return err
	}
	return duplex.Dial(socket, handler, &d.opts.Conn, reason, nil), nil
}

// authorize opens a WebSocket with the help of the Authorizer, if there is one.
func (d *dialer) authorize(ctx context.Context, header http.Header) (*websocket.Conn, error) {
	if d.opts.Authorizer == nil {
		return d.open(ctx, header)
	}
	server := *d.url
	server.Scheme = strings.Replace(server.Scheme, "ws", "http", 1)
	var opened *websocket.Conn
	var refused *HandshakeError
	send := func(req *http.Request) (*http.Response, error) {
		var err error
		opened, err = d.open(ctx, req.Header)
		if refused, _ = err.(*HandshakeError); refused != nil && httpclient.IsAccess(refused.Status) {
			return &http.Response{StatusCode: refused.Status, Header: refused.Header, Body: http.NoBody, Request: req}, nil
		}
		return &http.Response{StatusCode: http.StatusSwitchingProtocols}, err
	}
	_, err := httpclient.Authorize(ctx, d.opts.Authorizer, &server, &http.Request{Method: http.MethodGet, URL: &server, Header: header}, send) //nolint:bodyclose // it has none
	if err == nil && refused != nil {
		err = refused
	}
	return opened, err
}

func (d *dialer) open(ctx context.Context, header http.Header) (*websocket.Conn, error) {
	h := &handshake{ctx: ctx}
	dialer := d.base
	dialer.NetDialContext = h.bound(dialer.NetDialContext)
	if dialer.NetDialTLSContext != nil {
		dialer.NetDialTLSContext = h.bound(dialer.NetDialTLSContext)
	}
	conn, resp, err := dialer.DialContext(ctx, d.url.String(), header)
	if deadline, ok := ctx.Deadline(); err != nil && ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the connection has the same deadline, and may have failed first
	}
	if resp != nil {
		defer resp.Body.Close()
	}
	interrupted := !h.finish()
	switch {
	case err == nil && !interrupted:
		if err = checkHandshake(resp); err == nil {
			return conn, nil
		}
	case interrupted || ctx.Err() != nil:
		err = context.Cause(ctx)
	case resp != nil:
		err = newHandshakeError(resp)
	default:
		err = h.classify(err)
	}
	if conn != nil {
		_ = conn.Close() // the handshake has failed
	}
	return nil, err
}

// A handshake adds two limits to the handshake of gorilla/websocket: it ends with its context,
// and the server may send at most [maxHandshake] bytes.
type handshake struct {
	ctx  context.Context // of one Dial
	conn *limitedConn
	stop func() bool
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// bound returns a dial function whose connection has the limits.
func (h *handshake) bound(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		h.conn = &limitedConn{Conn: conn, left: maxHandshake}
		h.stop = context.AfterFunc(h.ctx, func() {
			_ = conn.SetDeadline(time.Unix(1, 0)) // it fails if the connection is closed
		})
		return h.conn, nil
	}
}

// finish removes the limits. It returns false if the context has ended before.
func (h *handshake) finish() bool {
	if h.conn == nil {
		return true
	}
	h.conn.unlimited = true
	return h.stop()
}

// classify marks network failures as [transport.ErrNotReached]. A network failure is a failure of a connection or of
// dialing, and not, for example, a header that is not allowed.
func (h *handshake) classify(err error) error {
	var network net.Error
	if h.conn != nil || errors.As(err, &network) {
		return httpclient.NotReached(err)
	}
	return err
}

var errLongHandshake = errors.New("the server's answer to the handshake is too long")

// A limitedConn fails to read after a number of bytes, unless it is unlimited.
type limitedConn struct {
	net.Conn
	unlimited bool
	left      int
}

func (c *limitedConn) Read(p []byte) (int, error) {
	if c.unlimited {
		return c.Conn.Read(p)
	}
	if c.left <= 0 {
		return 0, errLongHandshake
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
