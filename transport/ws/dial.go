package ws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/internal/wsopen"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// Dial returns a dialer that opens a WebSocket for each connection. The URL is one of
// ws, wss, http or https. What is wrong with it or the options is the error of every
// Dial.
//
// An error of the handshake is a *[HandshakeError] when the server answered, and
// [transport.ErrNotReached] under errors.Is when it did not. A call that fails because
// the connection has ended tells a *[CloseError], unless this side closed it.
func Dial(rawURL string, opts *DialOptions) transport.Dialer {
	o := opts.withDefaults()
	target, urlErr := wsopen.ParseURL(rawURL)
	route, routeErr := wsopen.Dialer(o.HTTPClient, subprotocol)
	if routeErr != nil {
		routeErr = fmt.Errorf("DialOptions.%w", routeErr)
	}
	route.WriteBufferSize, route.WriteBufferPool = clientFrame, &sync.Pool{}
	return &dialer{
		url: target, opts: o, route: route, err: errors.Join(urlErr, routeErr),
		limits: limits{
			maxMessage: o.MaxMessage, writeTimeout: o.WriteTimeout, keepAlive: o.KeepAlive,
			buffers: &sync.Pool{}, closeCode: websocket.CloseNormalClosure,
		},
	}
}

type dialer struct {
	url    *url.URL
	opts   DialOptions
	route  websocket.Dialer // copied for each Dial
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
	opened, err := d.openAdmitted(ctx, header)
	if err != nil {
		return nil, fmt.Errorf("ws: dialling %s: %w", d.url.Host, err)
	}
	c := &conn{socket: newSocket(opened, d.limits)}
	c.Conn = jsonrpc.NewConn(c.socket, func(*jsonrpc.Conn) jsonrpc.Handler { return handler }, &d.opts.Conn)
	go c.run()
	return c, nil
}

// openAdmitted opens a socket, with the Authorizer's help if there is one.
func (d *dialer) openAdmitted(ctx context.Context, header http.Header) (*websocket.Conn, error) {
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
		if refused, _ = err.(*HandshakeError); refused != nil && webclient.IsAccess(refused.Status) {
			return &http.Response{StatusCode: refused.Status, Header: refused.Header, Body: http.NoBody, Request: req}, nil
		}
		return &http.Response{StatusCode: http.StatusSwitchingProtocols}, err
	}
	_, err := webclient.Admitted(ctx, d.opts.Authorizer, &server, &http.Request{Method: http.MethodGet, URL: &server, Header: header}, send) //nolint:bodyclose // it has none
	if err == nil && refused != nil {
		err = refused
	}
	return opened, err
}

func (d *dialer) open(ctx context.Context, header http.Header) (*websocket.Conn, error) {
	opening := &opening{ctx: ctx}
	route := d.route
	route.NetDialContext = opening.watch(route.NetDialContext)
	if route.NetDialTLSContext != nil {
		route.NetDialTLSContext = opening.watch(route.NetDialTLSContext)
	}
	conn, resp, err := route.DialContext(ctx, d.url.String(), header)
	if deadline, ok := ctx.Deadline(); err != nil && ok && !time.Now().Before(deadline) {
		<-ctx.Done() // the connection's deadline is the same, and may have been noticed first
	}
	if resp != nil {
		defer resp.Body.Close() // what is left of it is in memory
	}
	interrupted := !opening.finish()
	switch {
	case err == nil && !interrupted:
		if err = checkAccepted(resp); err == nil {
			return conn, nil
		}
	case interrupted || ctx.Err() != nil:
		err = context.Cause(ctx)
	case resp != nil:
		err = refusal(resp)
	default:
		err = opening.classify(err)
	}
	if conn != nil {
		_ = conn.Close() // err says what matters
	}
	return nil, err
}

// conn is the client's end of a connection.
type conn struct {
	*jsonrpc.Conn
	socket *socket
}

// run ends with the socket; Close waits for it.
func (c *conn) run() { _ = c.Conn.Run(context.Background()) }

// Close closes the WebSocket and waits until nothing of it runs.
func (c *conn) Close() error {
	err := c.Conn.Close()
	<-c.Done() // Close of a Conn waits for Run only once that has begun
	return err
}

// Call sends a request. When the connection has ended over it, the error says how.
func (c *conn) Call(ctx context.Context, method string, params jsonrpc.Appender) (*jsonrpc.Response, error) {
	resp, err := c.Conn.Call(ctx, method, params)
	return resp, c.explain(err)
}

// Notify sends a notification. When the connection has ended, the error says how.
func (c *conn) Notify(ctx context.Context, method string, params jsonrpc.Appender) error {
	return c.explain(c.Conn.Notify(ctx, method, params))
}

func (c *conn) explain(err error) error {
	if err == nil {
		return nil
	}
	var failed *jsonrpc.CallError
	end := c.socket.endedWith()
	if end == nil || !errors.As(err, &failed) || !errors.Is(failed.Err, jsonrpc.ErrClosed) {
		return err
	}
	return &jsonrpc.CallError{Method: failed.Method, Delivery: failed.Delivery, Err: end}
}
