package channel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/wsconn"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Channel sends requests to the approvers that are connected. It may be used concurrently.
type Channel struct {
	opts     Options
	guard    *httpguard.Guard
	upgrader websocket.Upgrader
	active   chan struct{} // held by the connection of an approver without the subprotocol
	closing  chan struct{} // closed by Close
	running  sync.WaitGroup
	// malformed logs samples of malformed answers.
	malformed  *quota.Samples
	requests   *requests
	closeStore func() error

	mu           sync.Mutex
	token        string
	tokenVersion int // incremented by SetToken
	closed       bool
	waiting      int                      // connections that wait to be active
	conns        map[*connection]struct{} // of the approvers
	calls        map[string]*waitingCall  // of Approve, by the id of their request
}

// Format prints a constant, so that the token is not printed.
func (c *Channel) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "channel.Channel") }

var (
	_ approval.Approver = (*Channel)(nil)
	_ http.Handler      = (*Channel)(nil)
)

// New returns a channel without an approver. opts may be nil. The error describes a
// malformed host, origin, token or name, or options that exclude each other.
func New(opts *Options) (*Channel, error) {
	o := opts.withDefaults()
	guard, err := httpguard.NewGuard(o.Hosts, o.Origins)
	if err != nil {
		return nil, fmt.Errorf("channel: Options.%w", err)
	}
	if o.Authenticate != nil && (o.Token != "" || o.InsecureNoToken) {
		return nil, errors.New("channel: Options.Authenticate excludes Token and InsecureNoToken")
	}
	if o.Token == "" {
		o.Token = rand.Text() + rand.Text()
	}
	c := &Channel{
		opts: o, guard: guard,
		upgrader: wsconn.Upgrader(subprotocol, writeTimeout),
		active:   make(chan struct{}, 1),
		closing:  make(chan struct{}),

		malformed:  quota.NewSamples(o.Logger),
		closeStore: func() error { return nil },
		conns:      make(map[*connection]struct{}),
		calls:      make(map[string]*waitingCall),
	}
	if err := store.CheckName(o.Name); err != nil || strings.Contains(o.Name, "/") || len(o.Name) > maxName {
		return nil, fmt.Errorf("channel: Options.Name: %q must have 1 to %d letters, digits, - and _", o.Name, maxName)
	}
	if o.Store != nil && o.FailOnDisconnect {
		return nil, errors.New("channel: Options.FailOnDisconnect cannot be used with Options.Store")
	}
	if o.Store == nil {
		memory, err := store.NewMemory(nil)
		if err != nil {
			return nil, err
		}
		o.Store, c.closeStore = memory, memory.Close
	}
	c.requests = &requests{o.Store, state.NewRecords[record](o.Store, nil), o.Name}
	return c, c.SetToken(o.Token)
}

// Token returns the current token.
func (c *Channel) Token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// SetToken replaces the token. Approvers that are connected with the previous token are
// disconnected, and their later answers are ignored. The error describes a malformed token.
func (c *Channel) SetToken(token string) error {
	if !httpguard.IsToken(token) {
		return fmt.Errorf("channel: a token must have at least %d characters of A-Z, a-z, 0-9 and -._~", httpguard.MinToken)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
	c.tokenVersion++
	c.disconnect(websocket.ClosePolicyViolation, "the token has changed")
	return nil
}

// Connected reports whether an approver is connected to this channel. With [Options].Store,
// others may be connected to its replicas.
func (c *Channel) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.conns) > 0
}

// Close disconnects the approvers, fails pending requests, and waits until nothing of the
// channel runs, at most a few seconds. With [Options].Store, the failed requests stay open for the
// next equal calls. Close may be called more than once.
func (c *Channel) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
		c.disconnect(websocket.CloseGoingAway, "the channel is closing")
	}
	c.mu.Unlock()
	c.running.Wait()
	return c.closeStore()
}

// ServeHTTP connects an approver and returns when it has disconnected. It refuses a Host or
// an Origin that is not allowed (403), a request that opens no WebSocket (426), one that is not of
// an approver (401), and too many waiting approvers (503). Up to 64 approvers with the subprotocol
// are connected; further ones are closed with the code 1008. An approver without it is not told
// what others decide. While another one of that kind is connected, it waits for
// [Options.HandoverTimeout] and is then closed with the code 1008.
func (c *Channel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.guard.Admit(w, r, http.MethodGet) || !wsconn.Accept(w, r) {
		return
	}
	who, change, ok := c.authenticate(r) // before anything is held, since it may panic
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		httpguard.Refuse(w, http.StatusUnauthorized, jsonrpc.InvalidRequest, "expected the credentials of an approver")
		return
	}
	if !c.beginWait() {
		httpguard.RefuseBusy(w, "busy: too many approvers are waiting, or the channel is closing")
		return
	}
	defer c.running.Done()
	socket, err := wsconn.Upgrade(&c.upgrader, w, r)
	if err != nil {
		c.endWait()
		c.opts.Logger.Debug("WebSocket handshake failed", "error", err, "client", r.RemoteAddr)
		return
	}
	ctx := context.WithoutCancel(r.Context()) // the context of a hijacked connection may end early
	showing, stopShowing := context.WithCancel(ctx)
	defer stopShowing()
	conn := newConnection(socket, who, c.opts.KeepAlive, stopShowing)
	refusal := c.activate(conn, change)
	if refusal != "" {
		conn.refuse(refusal)
		c.endWait()
		return
	}
	c.endWait()
	c.opts.Logger.Info("approver connected", "approver", who.Name, "client", r.RemoteAddr)
	if !who.Expires.IsZero() {
		defer time.AfterFunc(time.Until(who.Expires), func() { c.expire(conn) }).Stop()
	}
	c.serve(ctx, showing, conn)
	c.opts.Logger.Info("approver disconnected", "approver", who.Name, "client", r.RemoteAddr)
}

// authenticate returns who an approver is, and the version of the current token.
func (c *Channel) authenticate(r *http.Request) (who Person, change int, ok bool) {
	if c.opts.Authenticate != nil {
		who, ok = c.opts.Authenticate(r)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opts.Authenticate == nil {
		who, ok = Person{Name: unidentified}, c.opts.InsecureNoToken || httpguard.SameToken(httpguard.Token(r), c.token)
	}
	return who, c.tokenVersion, ok
}

// expire disconnects an approver whose login has expired.
func (c *Channel) expire(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, connected := c.conns[conn]; connected {
		conn.close(websocket.ClosePolicyViolation, "the login has expired")
		c.remove(conn)
	}
}

// beginWait counts a connection that waits to become active.
func (c *Channel) beginWait() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.waiting >= maxWaiting {
		return false
	}
	c.waiting++
	c.running.Add(1)
	return true
}

// endWait counts one waiting request less.
func (c *Channel) endWait() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
}

// activate registers a connection of an approver. If the connection does not have the subprotocol, activate first waits
// until the previous connection without the subprotocol has ended. activate returns the reason if it refuses the
// connection.
func (c *Channel) activate(conn *connection, change int) (refusal string) {
	if !conn.notifies {
		select {
		case c.active <- struct{}{}:
		case <-time.After(c.opts.HandoverTimeout):
			return "Timed out waiting for previous connection to close"
		case <-c.closing:
			return "the channel is closing"
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		refusal = "the channel is closing"
	case c.tokenVersion != change && !c.opts.InsecureNoToken:
		refusal = "the token has changed"
	case conn.notifies && len(c.conns) >= maxApprovers:
		refusal = "too many approvers are connected"
	default:
		c.conns[conn] = struct{}{}
		conn.notify([]byte(registeredFrame))
		return ""
	}
	c.deactivate(conn)
	return refusal
}

// deactivate lets the next approver without the subprotocol connect.
func (c *Channel) deactivate(conn *connection) {
	if !conn.notifies {
		<-c.active
	}
}

// serve reads answers until the connection ends. It shows requests until showing ends.
func (c *Channel) serve(ctx, showing context.Context, conn *connection) {
	var running sync.WaitGroup
	defer c.deactivate(conn)
	defer running.Wait()
	defer conn.abort()
	defer c.connectionEnded(conn)
	running.Go(func() { conn.write(c) })
	running.Go(func() { c.showAll(showing, conn) })
	for {
		frame, err := conn.read()
		if err != nil {
			c.opts.Logger.Debug("approval connection ended", "error", err)
			return
		}
		c.receive(ctx, conn, frame)
	}
}

// connectionEnded records that an approver has disconnected, unless disconnect was called
// before.
func (c *Channel) connectionEnded(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.conns[conn]; ok {
		conn.queue = nil
		c.remove(conn)
	}
}

// disconnect closes the connections of all approvers. Their later answers are ignored. The lock is
// held.
func (c *Channel) disconnect(code int, reason string) {
	for conn := range c.conns {
		conn.close(code, reason)
		c.remove(conn)
	}
}

// remove removes an approver. The lock is held.
func (c *Channel) remove(conn *connection) {
	delete(c.conns, conn)
	clear(conn.pending)
	conn.stopShowing()
	if c.opts.FailOnDisconnect && len(c.conns) == 0 {
		for _, w := range c.calls {
			w.abandon()
		}
	}
}

// receive handles an answer. Any other frame changes nothing.
func (c *Channel) receive(ctx context.Context, conn *connection, frame []byte) {
	if o, d := c.answered(conn, frame); o != nil {
		c.answer(ctx, conn, o, d)
	}
}

// answered removes and returns the request that a frame answers, and the decision in the frame. Or it refuses
// the frame and returns nil.
func (c *Channel) answered(conn *connection, frame []byte) (*pendingRequest, *decision) {
	r, err := readReply(frame)
	d := &decision{Approved: r.approved && !r.failed, Reason: r.reason, By: conn.who.Name, Failed: r.failed, Remember: r.remember}
	c.mu.Lock()
	defer c.mu.Unlock()
	if bad, ok := errors.AsType[*badReply](err); ok {
		c.malformed.Log(slog.LevelWarn, "malformed answer", "error", bad, "approver", conn.who.Name)
		conn.notify(notificationFrame(methodRefused, bad.id, bad.reason, nil))
		return nil, nil
	}
	if _, connected := c.conns[conn]; !connected {
		return nil, nil
	}
	o := conn.pending[r.id]
	if o == nil || !o.shown {
		c.opts.Logger.Debug("answer to a request that is not pending", "approver", conn.who.Name)
		conn.notify(notificationFrame(methodRefused, r.id, errDecided.Error(), nil))
		return nil, nil
	}
	if d.Approved && conn.who.calls(o.frame) {
		conn.notify(notificationFrame(methodRefused, o.id, "this is your own call: another person has to approve it", nil))
		return nil, nil // it stays open for others, and the person can still reject it
	}
	delete(conn.pending, o.id)
	return o, d
}

// calls reports whether the person makes the call that a request is about.
func (p *Person) calls(request []byte) bool {
	caller, err := jsonscan.FindPointer(request, "params", "caller")
	if err != nil || jsonscan.KindOf(caller) != jsonscan.String {
		return false // no caller is known
	}
	return slices.Contains(p.Principals, jsonscan.Unquote(caller))
}
