package channel

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/wsopen"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Channel asks whoever is connected to it. One approver is connected at a time. It may be
// used concurrently.
type Channel struct {
	opts     Options
	guard    *edge.Guard
	upgrader websocket.Upgrader
	slot     chan struct{} // held by the connection of the approver
	closing  chan struct{} // closed by Close
	all      sync.WaitGroup

	mu      sync.Mutex
	token   string
	changes int // of the token
	closed  bool
	waiting int         // connections that wait for the slot
	conn    *connection // the approver's, nil if there is none
	offers  offers
}

var (
	_ approval.Approver = (*Channel)(nil)
	_ http.Handler      = (*Channel)(nil)
)

// New returns a channel that nobody is connected to. The error says what is wrong with a
// host, an origin or the token.
func New(opts *Options) (*Channel, error) {
	o := opts.withDefaults()
	guard, err := edge.NewGuard(o.Hosts, o.Origins)
	if err != nil {
		return nil, fmt.Errorf("channel: Options.%w", err)
	}
	if o.Token == "" {
		o.Token = rand.Text() + rand.Text()
	}
	c := &Channel{
		opts: o, guard: guard,
		upgrader: wsopen.Upgrader(subprotocol, writeTimeout),
		slot:     make(chan struct{}, 1),
		closing:  make(chan struct{}),
		offers:   offers{byID: make(map[string]*offer)},
	}
	return c, c.SetToken(o.Token)
}

// Token is what approvers must show now.
func (c *Channel) Token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token
}

// SetToken replaces the token. An approver with the one before is sent away, and no answer of
// it counts any more.
func (c *Channel) SetToken(token string) error {
	if !edge.IsToken(token) {
		return fmt.Errorf("channel: a token must have at least %d characters of A-Z, a-z, 0-9 and -._~", edge.MinToken)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token = token
	c.changes++
	c.dismiss(websocket.ClosePolicyViolation, "the token has changed")
	return nil
}

// Connected tells whether there is an approver.
func (c *Channel) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn != nil
}

// Close sends the approver away, fails open requests, and waits until nothing of the
// channel runs, some seconds at most. It may be called more than once.
func (c *Channel) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
		c.offers.fail(approval.Errorf(approval.NoApprover, "Approval channel closed"))
		c.dismiss(websocket.CloseGoingAway, "the channel is closing")
	}
	c.mu.Unlock()
	c.all.Wait()
	return nil
}

// Approve shows a request to the approver, and waits for the answer. See [Options] for what
// happens when there is none, or when it goes.
func (c *Channel) Approve(ctx context.Context, r *approval.Request) (approval.Answer, error) {
	o, err := c.offer(r)
	if err != nil {
		return approval.Answer{}, err
	}
	defer c.withdraw(o)
	var tooLong <-chan time.Time
	if c.opts.Patience > 0 {
		timer := time.NewTimer(c.opts.Patience)
		defer timer.Stop()
		tooLong = timer.C
	}
	for {
		select {
		case outcome := <-o.outcome:
			return outcome.answer, outcome.err
		case <-tooLong:
			if c.isForsaken(o) {
				return approval.Answer{}, notConnected()
			}
		case <-ctx.Done():
			return approval.Answer{}, c.late(ctx, o)
		}
	}
}

func notConnected() error {
	return approval.Errorf(approval.NoApprover, "Approval channel not connected")
}

func disconnected() error {
	return approval.Errorf(approval.Lost, "Approval channel disconnected")
}

// offer adds a request to those that are shown.
func (c *Channel) offer(r *approval.Request) (*offer, error) {
	frame, err := requestFrame(r)
	if err != nil {
		return nil, approval.Errorf(approval.Failed, "%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, approval.Errorf(approval.NoApprover, "Approval channel closed")
	case c.conn == nil && c.opts.Patience <= 0:
		return nil, notConnected()
	}
	o, err := c.offers.add(r.ID, frame)
	if err == nil && c.conn != nil {
		c.conn.show(o)
	}
	return o, err
}

// withdraw takes back an offer that has not been answered.
func (c *Channel) withdraw(o *offer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offers.remove(o) && o.shown != nil {
		o.shown.note(noteFrame(methodWithdrawn, o.id, ""))
	}
}

// isForsaken tells whether an offer has not been shown, and nobody is there.
func (c *Channel) isForsaken(o *offer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn == nil && !o.seen
}

// late is the error of a request that has not been answered in time.
func (c *Channel) late(ctx context.Context, o *offer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(context.Cause(ctx), approval.Expired) && c.conn == nil && o.seen {
		return disconnected()
	}
	return context.Cause(ctx)
}

// ServeHTTP connects an approver, and returns when it has gone. It refuses a Host or an
// Origin that is not allowed (403), a request that opens no WebSocket (426), one without
// the token (401), and too many that wait (503). Another approver is sent away after
// [Options.Wait], with the code 1008.
func (c *Channel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.guard.Admit(w, r, http.MethodGet) || !wsopen.Admit(w, r) {
		return
	}
	change, ok := c.admits(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		edge.Refuse(w, http.StatusUnauthorized, jsonrpc.InvalidRequest, "expected the channel's token")
		return
	}
	who := c.opts.Who(r) // before anything is held: it may panic
	if !c.begin() {
		w.Header().Set("Retry-After", "5")
		edge.Refuse(w, http.StatusServiceUnavailable, jsonrpc.InternalError, "busy: too many approvers wait, or the channel is closing")
		return
	}
	defer c.all.Done()
	socket, err := wsopen.Upgrade(&c.upgrader, w, r)
	if err != nil {
		c.ends()
		c.opts.Logger.Debug("no approver was connected", "error", err, "client", r.RemoteAddr)
		return
	}
	conn := newConnection(socket, who, c.opts.KeepAlive)
	refusal := c.enter(conn, change)
	if refusal != "" {
		conn.refuse(refusal)
		c.ends()
		return
	}
	c.ends()
	c.opts.Logger.Info("an approver has connected", "who", conn.who, "client", r.RemoteAddr)
	c.serve(conn)
	c.opts.Logger.Info("an approver has gone", "who", conn.who, "client", r.RemoteAddr)
}

// admits checks the token, and says which one it is.
func (c *Channel) admits(r *http.Request) (change int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes, c.opts.Open || isSame(edge.Token(r), c.token)
}

// isSame compares tokens in constant time, whatever their lengths.
func isSame(given, token string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// begin counts a connection that waits for the slot.
func (c *Channel) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.waiting >= maxWaiting {
		return false
	}
	c.waiting++
	c.all.Add(1)
	return true
}

// ends counts one that waits no more.
func (c *Channel) ends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting--
}

// enter waits for the approver before to go, and makes the connection the approver's. What
// it returns, if anything, is why not.
func (c *Channel) enter(conn *connection, change int) (refusal string) {
	timer := time.NewTimer(c.opts.Wait)
	defer timer.Stop()
	select {
	case c.slot <- struct{}{}:
	case <-timer.C:
		return "Timed out waiting for previous connection to close"
	case <-c.closing:
		return "the channel is closing"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		refusal = "the channel is closing"
	case c.changes != change && !c.opts.Open:
		refusal = "the token has changed"
	default:
		c.conn = conn
		conn.note([]byte(registeredFrame))
		for _, o := range c.offers.inOrder() {
			conn.show(o)
		}
		return ""
	}
	<-c.slot
	return refusal
}

// serve reads answers until the connection ends.
func (c *Channel) serve(conn *connection) {
	var writing sync.WaitGroup
	defer func() { <-c.slot }()
	defer writing.Wait()
	defer conn.cut()
	defer c.lose(conn)
	writing.Go(func() { conn.write(&c.mu) })
	for {
		frame, err := conn.read()
		if err != nil {
			c.opts.Logger.Debug("the approver's connection has ended", "error", err)
			return
		}
		c.receive(conn, frame)
	}
}

// lose notes that the approver has gone, unless it was sent away before.
func (c *Channel) lose(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		conn.queue = nil
		c.vacate()
	}
}

// dismiss sends the approver away: from now on it is none, even if it stays a moment. The
// lock is held.
func (c *Channel) dismiss(code int, reason string) {
	if c.conn != nil {
		c.conn.leave(code, reason)
		c.vacate()
	}
}

// vacate has nobody be the approver. The lock is held.
func (c *Channel) vacate() {
	c.conn = nil
	if c.opts.FailOnDisconnect {
		c.offers.fail(disconnected())
		return
	}
	for _, o := range c.offers.byID {
		o.shown = nil
	}
}

// receive takes an answer. Anything else changes nothing.
func (c *Channel) receive(conn *connection, frame []byte) {
	r, err := readReply(frame)
	c.mu.Lock()
	defer c.mu.Unlock()
	if bad, ok := errors.AsType[*badReply](err); ok {
		c.opts.Logger.Warn("an approver sent what is no answer", "error", bad, "who", conn.who)
		conn.note(noteFrame(methodRefused, bad.id, bad.reason))
		return
	}
	o := c.offers.byID[r.id]
	if o == nil || o.shown != conn {
		c.opts.Logger.Debug("an answer came too late, or twice", "who", conn.who)
		conn.note(noteFrame(methodRefused, r.id, "the request does not wait for an answer"))
		return
	}
	c.offers.remove(o)
	if r.failed {
		o.outcome <- outcome{err: approval.Errorf(approval.Failed, "the approver failed: %s", r.reason)}
		return
	}
	o.outcome <- outcome{answer: approval.Answer{Approved: r.approved, Reason: r.reason, By: conn.who}}
}
