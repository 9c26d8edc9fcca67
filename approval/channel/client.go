package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/wsconn"
)

// Client is an approver's end of a [Channel]. It reconnects when the connection is lost.
// Its methods may be called concurrently.
type Client struct {
	handler approval.Handler
	opts    ClientOptions
	url     string
	dialer  websocket.Dialer
	stop    context.CancelFunc
	done    chan struct{}

	malformed *quota.Samples

	mu        sync.Mutex
	connected bool
	err       error // of the last connection
}

// Format prints a constant, so that the token is not printed.
func (c *Client) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "channel.Client") }

// Dial connects to a channel at a URL with the scheme ws, wss, http or https. opts may be
// nil. It returns when the channel has registered this approver: later requests are sent to
// it. Other approvers get them too; the first answer counts, and for the others the request is
// withdrawn. A server without the subprotocol does not confirm; then Dial returns when the connection is open.
// Dial fails if the first connection does; ctx bounds only that.
//
// Each request is passed to the handler on a goroutine of its own. A panic in the handler
// rejects the request. The handler's context ends with its request and with the connection.
// An answer after that fails with [approval.ErrWithdrawn], and the next connection may
// deliver the request again. Call [Client.Close] to end the client.
func Dial(ctx context.Context, rawURL string, handler approval.Handler, opts *ClientOptions) (*Client, error) {
	o := opts.withDefaults()
	c := &Client{handler: handler, opts: o, done: make(chan struct{}), malformed: quota.NewSamples(o.Logger)}
	u, err := wsconn.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	c.url = u.String()
	if c.dialer, err = wsconn.Dialer(o.HTTPClient, subprotocol); err != nil {
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
		defer resp.Body.Close() // gorilla/websocket has read it
	}
	if err == nil && socket.Subprotocol() == subprotocol {
		if err = registered(ctx, socket); err != nil {
			_ = socket.Close() // err says more
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

// registered waits until the server has registered this approver, ctx ends or
// [wsconn.Timeout] passes.
func registered(ctx context.Context, socket *websocket.Conn) error {
	defer context.AfterFunc(ctx, func() { _ = socket.NetConn().Close() })()
	socket.SetReadLimit(maxFrame)
	_ = socket.SetReadDeadline(time.Now().Add(wsconn.Timeout)) // if it fails, so does reading
	_, frame, err := socket.ReadMessage()
	if err != nil {
		return fmt.Errorf("the server has not registered this approver: %w", err)
	}
	if c, err := readCall(frame); err != nil || c.method != methodRegistered {
		return errors.New("the server has not registered this approver: it sent something else first")
	}
	return nil
}

// Connected reports whether the client is connected.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected
}

// Done is closed when the client has ended: after Close, or with its only connection.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns how the last connection ended. It is nil during the first connection and
// after Close.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close disconnects and waits for the handlers. It may be called more than once.
func (c *Client) Close() error {
	c.stop()
	<-c.done
	return nil
}

func (c *Client) setState(connected bool, err error) {
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
			c.setState(true, nil)
			s := newSession(c, socket)
			err = s.run(ctx)
			if s.gotRequest {
				pauses.Reset()
			}
		}
		if ctx.Err() != nil {
			c.setState(false, nil)
			return
		}
		if err != nil {
			c.setState(false, err)
			c.opts.Logger.Warn("approval connection lost", "error", err)
		}
		if c.opts.Once || pauses.Wait(ctx) != nil {
			return
		}
		if socket, err = c.dial(ctx); err != nil {
			c.setState(false, err)
		}
	}
}

// A session is one connection of a client.
type session struct {
	client     *Client
	socket     *websocket.Conn
	keepAlive  *wsconn.KeepAlive
	gotRequest bool // resets the reconnection delay

	writing  sync.Mutex // held while a message is written
	handlers sync.WaitGroup

	mu   sync.Mutex
	open map[string]*openPrompt // by request id
}

// An openPrompt is a prompt without an answer.
type openPrompt struct {
	prompt *approval.Prompt
	cancel context.CancelCauseFunc
}

func newSession(c *Client, socket *websocket.Conn) *session {
	s := &session{client: c, socket: socket, keepAlive: wsconn.NewKeepAlive(socket, c.opts.KeepAlive, writeTimeout), open: make(map[string]*openPrompt)}
	socket.SetReadLimit(maxFrame)
	return s
}

var errDisconnected = errors.New("the connection has ended")

// run reads requests until the connection or ctx ends, and waits for the handlers.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { s.keepAliveLoop(ctx) })
	err := s.read(ctx)
	cancel(errDisconnected)
	beside.Wait()
	_ = s.socket.Close() // reading has ended
	s.handlers.Wait()
	return err
}

// keepAliveLoop sends pings and pongs, and closes the connection when ctx ends.
func (s *session) keepAliveLoop(ctx context.Context) {
	defer s.keepAlive.Stop()
	for {
		select {
		case payload := <-s.keepAlive.Pongs():
			_ = s.keepAlive.Pong(payload) // if it fails, so does reading
		case <-s.keepAlive.Pings():
			_ = s.keepAlive.Ping() // if it fails, so does reading
		case <-ctx.Done():
			s.keepAlive.EndReading(closeTimeout)
			bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
			_ = s.socket.WriteControl(websocket.CloseMessage, bye, time.Now().Add(closeTimeout)) // the connection may have ended
			return
		}
	}
}

func (s *session) read(ctx context.Context) error {
	for {
		kind, frame, err := s.socket.ReadMessage()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			continue // until the peer closes or the read deadline passes
		}
		s.keepAlive.Extend()
		if kind == websocket.TextMessage {
			s.receive(ctx, frame)
		}
	}
}

// receive handles a frame. It logs a malformed one, and answers it if it has an id.
func (s *session) receive(ctx context.Context, frame []byte) {
	c, err := readCall(frame)
	switch {
	case err != nil:
		s.client.malformed.Log(slog.LevelWarn, "malformed request", "error", err)
		if c != nil && c.id != nil {
			s.fail(c.id, err.Error())
		}
	case c.method == methodRegistered: // it has no content
	case c.method == methodWithdrawn:
		s.withdraw(c.about, c.decided)
	case c.method == methodRefused:
		s.client.malformed.Log(slog.LevelWarn, "the channel ignored an answer", "request", c.about, "reason", c.reason)
	default:
		s.gotRequest = true
		s.show(ctx, c)
	}
}

// show passes a request to the handler, on a goroutine that lasts as long as the prompt.
func (s *session) show(ctx context.Context, c *call) {
	r := c.request
	o := &openPrompt{}
	ctx, o.cancel = context.WithCancelCause(ctx)
	o.prompt = approval.NewPrompt(r, func(_ context.Context, a approval.Answer) error {
		s.close(o) // before the server can send more
		return s.write(answerFrame(c.id, a))
	})
	s.mu.Lock()
	known, many := s.open[r.ID] != nil, len(s.open) >= s.client.opts.MaxHandlers
	if !known && !many {
		s.open[r.ID] = o
	}
	s.mu.Unlock()
	switch {
	case known:
		o.cancel(nil)
		return
	case many:
		o.cancel(nil)
		s.fail(c.id, "too many requests are open")
		return
	}
	s.handlers.Go(func() {
		defer o.cancel(nil)
		defer s.close(o)
		if !r.Deadline.IsZero() {
			var release context.CancelFunc
			ctx, release = context.WithTimeoutCause(ctx, timeLeft(r), approval.Expired)
			defer release()
		}
		s.handle(ctx, o.prompt)
		select {
		case <-o.prompt.Decided():
		case <-ctx.Done():
			o.prompt.Withdraw(context.Cause(ctx))
		}
	})
}

// timeLeft returns how long a request that has just arrived can be answered. The clocks of the
// two machines may differ, so the time of the request is not compared with this one's clock. A
// request that is sent again after a reconnection gets more time than it has; the server then
// withdraws it.
func timeLeft(r *approval.Request) time.Duration {
	if r.Created.IsZero() {
		return time.Until(r.Deadline)
	}
	return r.Deadline.Sub(r.Created)
}

// close removes a prompt.
func (s *session) close(o *openPrompt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[o.prompt.ID] == o {
		delete(s.open, o.prompt.ID)
	}
}

// handle calls the handler, and rejects the request if it panics.
func (s *session) handle(ctx context.Context, p *approval.Prompt) {
	defer func() {
		if panicked := recover(); panicked != nil {
			s.client.opts.Logger.Error("panic in an approval handler", "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
			_ = p.Reject(ctx, "the approver failed") // if it fails, the request is not approved either
		}
	}()
	s.client.handler(ctx, p)
}

// withdraw ends a prompt. decided says who decided and how, "" if the request was not decided.
func (s *session) withdraw(id, decided string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open[id]
	if o == nil {
		return
	}
	if decided == "" {
		o.prompt.Withdraw(nil)
		o.cancel(approval.ErrWithdrawn)
		return
	}
	cause := errors.New(approval.Printable(decided))
	o.prompt.Withdraw(cause)
	o.cancel(fmt.Errorf("%w: %w", approval.ErrWithdrawn, cause))
}

func (s *session) fail(id json.RawMessage, reason string) {
	if err := s.write(errorFrame(id, reason)); err != nil {
		s.client.opts.Logger.Debug("sending an error failed", "error", err)
	}
}

// write writes a message.
func (s *session) write(frame []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.socket.SetWriteDeadline(time.Now().Add(writeTimeout)) // it cannot fail
	if err := s.socket.WriteMessage(websocket.TextMessage, frame); err != nil {
		return fmt.Errorf("channel: the answer may not have arrived: %w", err)
	}
	return nil
}
