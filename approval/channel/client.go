package channel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/wsopen"
)

// A Client is an approver's end of a [Channel], or of an original one.
type Client struct {
	handler approval.Handler
	opts    ClientOptions
	url     string
	dialer  websocket.Dialer
	stop    context.CancelFunc
	done    chan struct{}

	mu        sync.Mutex
	connected bool
	err       error // of the last connection
}

// Dial connects to a channel, and returns when the channel has registered this approver:
// requests that are made from then on are shown to it. Another approver that is connected
// keeps it waiting, for [Options.Wait] at most. An original server does not confirm; then
// Dial returns when the connection is open. The URL is one of ws, wss, http or https. Each request is
// handed to the handler, on a goroutine of its own; a panic in it refuses the request. The
// context that a handler gets ends with its request and with the connection: an answer
// after that is [approval.ErrWithdrawn], and the next connection may bring the request
// again. Dial fails if the first connection does; ctx is for that alone. [Client.Close]
// ends the client.
func Dial(ctx context.Context, rawURL string, handler approval.Handler, opts *ClientOptions) (*Client, error) {
	o := opts.withDefaults()
	c := &Client{handler: handler, opts: o, done: make(chan struct{})}
	u, err := wsopen.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	c.url = u.String()
	if c.dialer, err = wsopen.Dialer(o.HTTPClient, subprotocol); err != nil {
		return nil, fmt.Errorf("channel: ClientOptions.%w", err)
	}
	socket, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	running, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.run(running, socket)
	return c, nil
}

func (c *Client) dial(ctx context.Context) (*websocket.Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	header := http.Header{}
	if c.opts.Token != "" {
		header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	socket, resp, err := c.dialer.DialContext(ctx, c.url, header)
	if resp != nil {
		defer resp.Body.Close() // what is left of it is in memory
	}
	if err == nil && socket.Subprotocol() == subprotocol {
		if err = registered(ctx, socket); err != nil {
			_ = socket.Close() // err says what matters
			resp = nil
		}
	}
	switch {
	case err == nil:
		return socket, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case resp != nil:
		return nil, fmt.Errorf("the server answered the handshake with %d", resp.StatusCode)
	}
	return nil, err
}

// registered waits until the server has registered this approver. It ends when ctx does, or
// after wsopen.Timeout.
func registered(ctx context.Context, socket *websocket.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = socket.NetConn().Close() })()
	socket.SetReadLimit(MaxFrame)
	_ = socket.SetReadDeadline(time.Now().Add(wsopen.Timeout)) // if it fails, so does reading
	_, frame, err := socket.ReadMessage()
	if err != nil {
		return fmt.Errorf("the server has not registered this approver: %w", err)
	}
	if c, err := readCall(frame); err != nil || c.method != methodRegistered {
		return errors.New("the server has not registered this approver: it sent something else first")
	}
	return nil
}

// Connected tells whether there is a connection now.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected
}

// Done is closed when the client has ended: after Close, or with the only connection.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says how the last connection ended, nil while the first is there or when this side
// closed it.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close disconnects, and waits for the handlers. It may be called more than once.
func (c *Client) Close() error {
	c.stop()
	<-c.done
	return nil
}

func (c *Client) note(connected bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected, c.err = connected, err
}

// run serves one connection after the other.
func (c *Client) run(ctx context.Context, socket *websocket.Conn) {
	defer close(c.done)
	defer c.stop()
	var pauses backoff.Backoff
	for {
		var err error
		if socket != nil {
			c.note(true, nil)
			s := newSession(c, socket)
			err = s.run(ctx)
			if s.asked {
				pauses.Reset()
			}
		}
		if ctx.Err() != nil {
			c.note(false, nil)
			return
		}
		if err != nil {
			c.note(false, err)
			c.opts.Logger.Warn("the approval channel was lost", "error", err)
		}
		if c.opts.Once || pauses.Wait(ctx) != nil {
			return
		}
		if socket, err = c.dial(ctx); err != nil {
			c.note(false, err)
		}
	}
}
