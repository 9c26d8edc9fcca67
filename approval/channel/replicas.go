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
	// answerPause is the time before an answer that could not be stored is asked for again, so
	// that a program that answers at once does not do so all the time.
	answerPause = time.Second
)

// errOverdue means that a record of an earlier call has expired.
var errOverdue = errors.New("channel: the request has expired")

// approveShared is Approve for a channel with a store.
func (c *Channel) approveShared(ctx context.Context, r *approval.Request, frame []byte) (approval.Answer, error) {
	s := c.replicas
	own := record{ID: r.ID, Frame: frame, Deadline: r.Deadline, Owner: rand.Text()}
	stop, err := s.answersFor(ctx, s.ownerOf(own.Owner))
	if err != nil {
		return approval.Answer{}, unreachable(err)
	}
	defer stop()
	for {
		claim, err := s.open(ctx, own, r.Subject().String())
		if err != nil {
			return approval.Answer{}, orCause(ctx, err)
		}
		answer, err := c.decided(ctx, claim)
		if !errors.Is(err, errOverdue) {
			return answer, err
		}
	}
}

// orCause returns the cause of ctx if it has ended, and err otherwise.
func orCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// decided waits for the decision about a record, and takes it.
func (c *Channel) decided(ctx context.Context, own *claim) (a approval.Answer, err error) {
	s := c.replicas
	keep := false // the record stays for the next equal call
	defer func() {
		if !keep {
			s.withdraw(ctx, own)
		}
	}()
	connected, err := s.exists(ctx, s.approvers())
	switch {
	case err != nil:
		return a, orCause(ctx, unreachable(err))
	case !connected && !own.adopted && c.opts.ReconnectTimeout <= 0:
		return a, notConnected()
	}
	var tooLong <-chan time.Time
	if !connected && !own.adopted {
		timer := time.NewTimer(c.opts.ReconnectTimeout)
		defer timer.Stop()
		tooLong = timer.C
	}
	overdue := time.NewTimer(time.Until(own.Value.Deadline))
	defer overdue.Stop()
	changes, end := s.watch(ctx, own.key)
	defer end()
	for {
		select {
		case change := <-changes:
			if change.err != nil {
				keep = ctx.Err() == nil
				return a, orCause(ctx, unreachable(change.err))
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
		case <-tooLong:
			if connected, err := s.exists(ctx, s.approvers()); err != nil {
				return a, orCause(ctx, unreachable(err))
			} else if !connected {
				return a, notConnected()
			}
		case <-overdue.C:
			if own.adopted && ctx.Err() == nil {
				return a, errOverdue
			} // otherwise ctx ends now
		case <-c.closing:
			keep = true
			return a, closed()
		case <-ctx.Done():
			return a, context.Cause(ctx)
		}
	}
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
		c.opts.Logger.Warn("the approver is not shown new requests until the store can be reached", "approver", conn.approver, "error", err)
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// showUntilError is showAll until the store fails.
func (c *Channel) showUntilError(ctx context.Context, conn *connection, pause *backoff.Backoff) error {
	s := c.replicas
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
			c.withdraw(conn.pending, o)
		}
	}()
	for change, err := range s.records.Watch(ctx, s.requests()) {
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
		c.withdrawShared(conn, o, &found)
		delete(shown, change.Key)
		o = nil
	}
	if o != nil || !open {
		return
	}
	if len(shown) >= maxShown {
		c.malformed.Log(slog.LevelWarn, "too many open requests: one is not shown", "approver", conn.approver)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, connected := c.conns[conn]; !connected {
		return
	}
	o, err := conn.pending.add(found.ID, found.Frame)
	if err != nil {
		c.malformed.Log(slog.LevelWarn, "two records have the same request", "error", err)
		return
	}
	o.key = change.Key
	shown[change.Key] = o
	conn.show(o)
}

// withdrawShared withdraws a request after its record has changed. It holds the lock throughout, so
// that showDecision finds the request in pending or in unclear.
func (c *Channel) withdrawShared(conn *connection, o *pendingRequest, found *record) {
	var d *decision
	if found.ID == o.id {
		d = found.Decision
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !conn.pending.withdraw(o, d) || d != nil {
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
	if o := conn.pending.byID[a.ID]; o != nil {
		conn.pending.withdraw(o, a.Decision)
		return
	}
	if i := slices.Index(conn.unclear, a.ID); i >= 0 {
		conn.unclear = slices.Delete(conn.unclear, i, i+1)
		conn.notify(notificationFrame(methodWithdrawn, a.ID, "", a.Decision))
	}
}

// answerShared writes the answer of an approver to the store.
func (c *Channel) answerShared(ctx context.Context, conn *connection, o *pendingRequest, d *decision) {
	earlier, err := c.replicas.decide(ctx, o, d)
	if err == nil {
		return
	}
	reason := err.Error()
	if !errors.Is(err, errDecided) {
		c.opts.Logger.Error("an answer could not be stored", "approver", conn.approver, "error", err)
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
	if _, connected := c.conns[conn]; connected && conn.pending.byID[o.id] == nil {
		o.open = true
		conn.pending.byID[o.id] = o
		conn.show(o)
	}
}
