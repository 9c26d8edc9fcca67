package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
)

// A session is one connection of a client.
type session struct {
	client *Client
	socket *websocket.Conn
	alive  *keepAlive
	asked  bool // a request has come

	writing  sync.Mutex // held while a message is written
	handlers sync.WaitGroup

	mu   sync.Mutex
	open map[string]*opened // by the requests' ids
}

// opened is a prompt that waits for its answer.
type opened struct {
	prompt *approval.Prompt
	cancel context.CancelCauseFunc
}

func newSession(c *Client, socket *websocket.Conn) *session {
	s := &session{client: c, socket: socket, alive: newKeepAlive(socket, c.opts.KeepAlive), open: make(map[string]*opened)}
	socket.SetReadLimit(MaxFrame)
	return s
}

var errDisconnected = errors.New("the connection has ended")

// run reads requests until the connection ends, or ctx does, and waits for the handlers.
func (s *session) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { s.attend(ctx) })
	err := s.read(ctx)
	cancel(errDisconnected)
	beside.Wait()
	_ = s.socket.Close() // it has ended
	s.handlers.Wait()
	return err
}

// attend sends pings, and ends the connection when ctx ends.
func (s *session) attend(ctx context.Context) {
	ticker := time.NewTicker(s.alive.every)
	defer ticker.Stop()
	for {
		select {
		case payload := <-s.alive.pongs:
			_ = s.alive.pong(payload) // if it fails, so does reading
		case <-ticker.C:
			_ = s.alive.ping() // as above
		case <-ctx.Done():
			s.alive.end()
			bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
			_ = s.socket.WriteControl(websocket.CloseMessage, bye, time.Now().Add(closeTimeout)) // it may have ended
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
			continue // until the peer has closed too, or the deadline
		}
		s.alive.heard()
		if kind == websocket.TextMessage {
			s.receive(ctx, frame)
		}
	}
}

// receive takes a frame. One that is not understood is logged, and answered if it can be.
func (s *session) receive(ctx context.Context, frame []byte) {
	log := s.client.opts.Logger
	c, err := readCall(frame)
	switch {
	case err != nil:
		log.Warn("the approval channel sent what is no request", "error", err)
		if c != nil && c.id != nil {
			s.fail(c.id, err.Error())
		}
	case c.method == methodRegistered: // again, which says nothing new
	case c.method == methodWithdrawn:
		s.withdraw(c.about)
	case c.method == methodRefused:
		log.Warn("an answer did not count", "request", c.about, "reason", c.reason)
	default:
		s.asked = true
		s.show(ctx, c)
	}
}

// show hands a request to the handler, on a goroutine that lasts as long as the prompt.
func (s *session) show(ctx context.Context, c *call) {
	r := c.request
	o := &opened{}
	ctx, o.cancel = context.WithCancelCause(ctx)
	o.prompt = approval.NewPrompt(r, func(_ context.Context, a approval.Answer) error {
		s.close(o) // before the server can ask for more
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
			ctx, release = context.WithDeadlineCause(ctx, r.Deadline, approval.Expired)
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

// close notes that a prompt waits no more.
func (s *session) close(o *opened) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[o.prompt.ID] == o {
		delete(s.open, o.prompt.ID)
	}
}

// handle refuses the request when the handler panics.
func (s *session) handle(ctx context.Context, p *approval.Prompt) {
	defer func() {
		if panicked := recover(); panicked != nil {
			s.client.opts.Logger.Error("panic in an approval handler", "panic", fmt.Sprint(panicked), "stack", string(debug.Stack()))
			_ = p.Reject(ctx, "the approver failed") // if that cannot be said, it is not approved either
		}
	}()
	s.client.handler(ctx, p)
}

func (s *session) withdraw(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.open[id]; o != nil {
		o.prompt.Withdraw(nil)
		o.cancel(approval.ErrWithdrawn)
	}
}

func (s *session) fail(id json.RawMessage, reason string) {
	if err := s.write(errorFrame(id, reason)); err != nil {
		s.client.opts.Logger.Debug("an error could not be sent", "error", err)
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
