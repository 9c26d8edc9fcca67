package channel

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// maxShown is how many requests of all replicas are shown to one approver.
	maxShown = 4096
	// firstPause and longestPause are the pauses between attempts to reach the store.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	// recheckPause is the time after which a replica with an approver that does not reply is asked again.
	recheckPause = time.Second
	// answerPause is the time before an answer that could not be stored is asked for again, so that a program that
	// answers immediately does not answer all the time.
	answerPause = time.Second
)

// errOverdue means that a record of an earlier call has expired.
var errOverdue = errors.New("channel: the request has expired")

// A waitingCall is a call of Approve. It is guarded by the channel's lock.
type waitingCall struct {
	seen      bool          // an approver of this channel has got the request
	abandoned chan struct{} // has an element when the last approver has disconnected, with Options.FailOnDisconnect
}

func (w *waitingCall) abandon() {
	select {
	case w.abandoned <- struct{}{}:
	default:
	}
}

// begin adds a call, which must be ended.
func (c *Channel) begin(id string) (*waitingCall, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, closed()
	case c.calls[id] != nil:
		return nil, errPending
	}
	c.running.Add(1)
	w := &waitingCall{abandoned: make(chan struct{}, 1)}
	c.calls[id] = w
	return w, nil
}

func (c *Channel) end(id string) {
	c.mu.Lock()
	delete(c.calls, id)
	c.mu.Unlock()
	c.running.Done()
}

// Approve sends a request to the approvers and waits for the answer until ctx ends. [Options] says what happens if no
// approver is connected or it disconnects. The error is an *approval.Error or the cause of ctx.
func (c *Channel) Approve(ctx context.Context, r *approval.Request) (approval.Answer, error) {
	frame, err := requestFrame(r)
	if err != nil {
		return approval.Answer{}, approval.Errorf(approval.Failed, "%v", err)
	}
	w, err := c.begin(r.ID)
	if err != nil {
		return approval.Answer{}, err
	}
	defer c.end(r.ID)
	s := c.requests
	own := record{ID: r.ID, Frame: frame, Deadline: r.Deadline, Owner: rand.Text()}
	// The record has an owner until it is withdrawn: an equal call must not take over a decision that arrives when the
	// caller has left.
	stop, err := s.answersFor(context.WithoutCancel(ctx), s.ownerOf(own.Owner))
	if err != nil {
		return approval.Answer{}, orCause(ctx, approval.StoreError(err))
	}
	defer stop()
	for {
		claim, err := s.open(ctx, own, r.Subject().String())
		if err != nil {
			return approval.Answer{}, orCause(ctx, err)
		}
		answer, err := c.decided(ctx, w, claim)
		if !errors.Is(err, errOverdue) {
			return answer, err
		}
	}
}

// hasApprover reports whether an approver is connected to any replica.
func (c *Channel) hasApprover(ctx context.Context) (bool, error) {
	if c.Connected() {
		return true, nil
	}
	connected, err := c.requests.exists(ctx, c.requests.approvers())
	if err != nil {
		return false, orCause(ctx, approval.StoreError(err))
	}
	return connected, nil
}

// isSeen reports whether an approver of this channel has got the request of a call.
func (c *Channel) isSeen(w *waitingCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.seen
}

// timeoutError returns the error of a call that has not been answered in time.
func (c *Channel) timeoutError(ctx context.Context, w *waitingCall) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, approval.Expired) || !c.isSeen(w) {
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	if connected, err := c.hasApprover(ctx); err != nil || connected {
		return cause
	}
	return disconnected()
}

func notConnected() error {
	return approval.Errorf(approval.NoApprover, "Approval channel not connected")
}

func disconnected() error {
	return approval.Errorf(approval.Lost, "Approval channel disconnected")
}

// orCause returns the cause of ctx if it has ended, and err otherwise.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// decided waits for the decision about a record, and takes it.
func (c *Channel) decided(ctx context.Context, w *waitingCall, own *claim) (a approval.Answer, err error) {
	s := c.requests
	keep := false // the record stays for the next equal call
	defer func() {
		if !keep {
			s.withdraw(ctx, own)
		}
	}()
	var recheck <-chan time.Time // whether an approver is connected
	switch {
	case own.adopted:
	case c.opts.ReconnectTimeout > 0:
		recheck = time.After(c.opts.ReconnectTimeout)
	default:
		if recheck, err = c.findApprover(ctx, w); err != nil {
			return a, err
		}
	}
	overdue := time.After(time.Until(own.Value.Deadline))
	changes, end := s.watch(ctx, own.key)
	defer end()
	for {
		select {
		case change := <-changes:
			if change.err != nil {
				keep = ctx.Err() == nil
				return a, orCause(ctx, approval.StoreError(change.err))
			}
			d, err := s.take(ctx, own, change.Change)
			if err != nil {
				return a, orCause(ctx, err)
			}
			if d == nil {
				continue
			}
			keep = true // it is deleted
			return d.answer()
		case <-recheck:
			if recheck, err = c.findApprover(ctx, w); err != nil {
				return a, err
			}
		case <-overdue:
			if own.adopted && ctx.Err() == nil {
				return a, errOverdue
			} // otherwise ctx ends now
		case <-w.abandoned:
			if d := s.takeNow(ctx, own); d != nil { // the approver has answered before it disconnected
				keep = true
				return d.answer()
			}
			return a, disconnected()
		case <-c.closing:
			keep = true
			if d := s.takeNow(ctx, own); d != nil {
				return d.answer()
			}
			return a, closed()
		case <-ctx.Done():
			return a, c.timeoutError(ctx, w)
		}
	}
}

// findApprover checks whether an approver is connected to any replica. It returns when to check again, or nil.
func (c *Channel) findApprover(ctx context.Context, w *waitingCall) (recheck <-chan time.Time, err error) {
	connected, err := c.hasApprover(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil: // the replica with the approver may be stopped for some time; if the store is away, the watch fails
		return time.After(recheckPause), nil
	case connected, c.isSeen(w):
		return nil, nil
	}
	return nil, notConnected()
}

// closed returns the error of a request after Close.
func closed() error {
	return closedError{approval.Errorf(approval.NoApprover, "Approval channel closed")}
}

// A closedError is also an [approval.ErrClosed].
type closedError struct{ error }

func (e closedError) Is(target error) bool { return target == approval.ErrClosed }
func (e closedError) Unwrap() error        { return e.error }

func failed(reason string) error {
	return approval.Errorf(approval.Failed, "the approver failed: %s", reason)
}

// showAll shows an approver the open requests of all replicas until ctx ends.
func (c *Channel) showAll(ctx context.Context, conn *connection) {
	pause := backoff.Backoff{Min: firstPause, Max: longestPause}
	for {
		err := c.showUntilError(ctx, conn, &pause)
		if ctx.Err() != nil {
			return
		}
		c.opts.Logger.Warn("the approver is not shown new requests until the store can be reached", "approver", conn.who.Name, "error", err)
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// showUntilError is showAll until the store fails.
func (c *Channel) showUntilError(ctx context.Context, conn *connection, pause *backoff.Backoff) error {
	s := c.requests
	stop, err := s.answersFor(ctx, s.approvers())
	if err != nil {
		return err
	}
	defer stop()
	end, err := s.store.Subscribe(ctx, s.decisions(), func(_ context.Context, m store.Message) { c.showDecision(conn, m.Data) })
	if err != nil {
		return err
	}
	defer end()
	shown := make(map[string]*pendingRequest) // by key
	defer func() {
		for _, o := range shown {
			c.withdraw(conn, o)
		}
	}()
	for change, err := range s.records.Watch(ctx, s.prefix()) {
		switch {
		case err != nil && change.Key == "":
			return err
		case err != nil:
			c.malformed.Log(slog.LevelWarn, "malformed record", "error", err)
		}
		pause.Reset()
		c.showChange(conn, shown, change)
	}
	return nil
}

// showChange shows a change of a record to an approver.
func (c *Channel) showChange(conn *connection, shown map[string]*pendingRequest, change state.Change[record]) {
	var found record // its ID is "" if there is none
	open := false
	if change.Record != nil {
		found = change.Record.Value
		open = found.ID != "" && found.Decision == nil && !found.overdue()
	}
	o := shown[change.Key]
	if o != nil && (!open || o.id != found.ID) {
		c.withdrawChanged(conn, o, &found)
		delete(shown, change.Key)
		o = nil
	}
	if o != nil || !open {
		return
	}
	if len(shown) >= maxShown {
		c.malformed.Log(slog.LevelWarn, "too many open requests: one is not shown", "approver", conn.who.Name)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, connected := c.conns[conn]; !connected {
		return
	}
	if conn.pending[found.ID] != nil {
		c.malformed.Log(slog.LevelWarn, "two records have the same request: one is not shown", "approver", conn.who.Name)
		return
	}
	o = &pendingRequest{id: found.ID, key: change.Key, frame: found.Frame}
	conn.pending[o.id] = o
	shown[change.Key] = o
	conn.show(o)
}

// withdraw withdraws a request without a decision.
func (c *Channel) withdraw(conn *connection, o *pendingRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.withdraw(o, nil)
}

// withdrawChanged withdraws a request after its record has changed. It holds the lock throughout, so
// that showDecision finds the request in pending or in unclear.
func (c *Channel) withdrawChanged(conn *connection, o *pendingRequest, found *record) {
	var d *decision
	if found.ID == o.id {
		d = found.Decision
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !conn.withdraw(o, d) || d != nil {
		return
	}
	conn.unclear = append(conn.unclear, o.id)
	if extra := len(conn.unclear) - maxUnclear; extra > 0 {
		conn.unclear = conn.unclear[extra:]
	}
}

// showDecision informs an approver of an announced decision about a request that is shown, or that has
// ended before the announcement arrived.
func (c *Channel) showDecision(conn *connection, message []byte) {
	var a announcement
	if err := json.Unmarshal(message, &a); err != nil || a.Decision == nil {
		c.malformed.Log(slog.LevelWarn, "malformed decision of another replica", "error", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if o := conn.pending[a.ID]; o != nil {
		conn.withdraw(o, a.Decision)
		return
	}
	if i := slices.Index(conn.unclear, a.ID); i >= 0 {
		conn.unclear = slices.Delete(conn.unclear, i, i+1)
		conn.notify(notificationFrame(methodWithdrawn, a.ID, "", a.Decision))
	}
}

// answer writes the answer of an approver to the store.
func (c *Channel) answer(ctx context.Context, conn *connection, o *pendingRequest, d *decision) {
	earlier, err := c.requests.decide(ctx, o, d)
	if err == nil {
		return
	}
	reason := err.Error()
	if !errors.Is(err, errDecided) {
		c.opts.Logger.Error("an answer could not be stored", "approver", conn.who.Name, "error", err)
		reason = "the store cannot be reached: answer again"
	}
	c.mu.Lock()
	conn.notify(notificationFrame(methodRefused, o.id, reason, earlier))
	c.mu.Unlock()
	if errors.Is(err, errDecided) {
		return
	}
	select {
	case <-time.After(answerPause):
	case <-c.closing:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, connected := c.conns[conn]; connected && conn.pending[o.id] == nil {
		conn.pending[o.id] = o
		conn.show(o)
	}
}
