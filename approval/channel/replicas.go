package channel

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// maxEqual is how many open requests may have the same target, arguments and caller.
	maxEqual = 32
	// maxShown is how many requests of all replicas are shown to one approver.
	maxShown = 4096
	// maxChanges is how often a change of a record is attempted while others change it.
	maxChanges = 8
	// cleanUpTimeout bounds what is done in the store after the call has ended.
	cleanUpTimeout = 5 * time.Second
	// firstPause and longestPause are the pauses between attempts to reach the store.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	// answerPause is the time before an answer that could not be stored is asked for again, so
	// that a program that answers at once does not do so all the time.
	answerPause = time.Second
)

// replicas is the part of a channel that shares open requests with other replicas.
//
// An open request is a record in the store. Its key is made of the request's subject and a small
// number. The record has one owner, the call that waits for the decision. The replica at which a
// person decides adds the decision to the record, and the owner takes it by deleting the record
// with that revision, so one call gets it. A replica that was killed leaves its records. The next
// call with the same subject becomes the owner of such a record.
type replicas struct {
	store store.Store
	name  string
}

// A record is an open request in the store.
type record struct {
	ID       string    `json:"id"`
	Frame    []byte    `json:"frame"` // as it is shown to approvers
	Deadline time.Time `json:"deadline"`
	Owner    string    `json:"owner"`
	Decision *decision `json:"decision,omitempty"`
}

type decision struct {
	Approved bool   `json:"approved,omitempty"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	Failed   bool   `json:"failed,omitempty"` // the approver failed; Reason says why
}

func (r *record) json() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // impossible: all members are text, bytes and valid times
	}
	return text
}

// ttl returns the time to live of a record, never 0, which would mean no limit.
func (r *record) ttl() time.Duration { return max(time.Second, time.Until(r.Deadline)) }

// overdue reports whether the deadline of a record has passed.
func (r *record) overdue() bool { return !time.Now().Before(r.Deadline) }

func readRecord(item store.Item) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(item.Value, r); err != nil {
		return nil, fmt.Errorf("channel: the record %s: %w", item.Key, err)
	}
	return r, nil
}

// unreachable is the error of a request whose record cannot be read or written.
func unreachable(err error) error {
	text := "the store of the approvals cannot be reached"
	if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrTooLarge) {
		text = "the store of the approvals has no room for the request"
	}
	return fmt.Errorf("%w: %w", approval.Errorf(approval.Failed, "%s", text), err)
}

func (s *replicas) requests() string            { return "approval/request/" + s.name }
func (s *replicas) approvers() string           { return "approval/approver/" + s.name }
func (s *replicas) ownerOf(owner string) string { return "approval/owner/" + owner }
func (s *replicas) key(subject string, n int) string {
	return s.requests() + "/" + subject + "/" + strconv.Itoa(n)
}

// answersFor subscribes to questions whether this process still does something.
func (s *replicas) answersFor(ctx context.Context, subject string) (stop func(), err error) {
	return s.store.Subscribe(ctx, subject, func(ctx context.Context, m store.Message) {
		if m.Reply != nil {
			_ = m.Reply(ctx, []byte("yes")) // whoever asks has a timeout
		}
	})
}

// exists reports whether a process answers for the subject.
func (s *replicas) exists(ctx context.Context, subject string) (bool, error) {
	_, err := s.store.Request(ctx, subject, nil)
	if errors.Is(err, store.ErrNoResponder) {
		return false, nil
	}
	return err == nil, err
}

// A claim is a record that a call owns.
type claim struct {
	*record
	key      string
	revision uint64
	adopted  bool // an earlier call has left it
}

var errPending = errors.New("channel: the request is already pending")

// open makes a record for a request, or takes one that an equal call has left.
func (s *replicas) open(ctx context.Context, own *record, subject string) (*claim, error) {
	for n := range maxEqual {
		c, err := s.openAt(ctx, own, s.key(subject, n))
		if c != nil || err != nil {
			return c, err
		}
	}
	return nil, approval.Errorf(approval.TooMany, "at most %d equal requests may be open", maxEqual)
}

// openAt is open for one key. The claim is nil if another call owns the record with the key.
func (s *replicas) openAt(ctx context.Context, own *record, key string) (*claim, error) {
	for range maxChanges {
		if own.overdue() {
			return nil, approval.Expired
		}
		revision, err := s.store.Create(ctx, key, own.json(), own.ttl())
		if err == nil {
			return &claim{record: own, key: key, revision: revision}, nil
		}
		if !errors.Is(err, store.ErrExists) {
			return nil, unreachable(err)
		}
		item, err := s.store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, unreachable(err)
		}
		found, err := readRecord(item)
		switch {
		case err != nil:
			return nil, approval.Errorf(approval.Failed, "%v", err)
		case found.ID == own.ID:
			return nil, errPending
		}
		if owned, err := s.exists(ctx, s.ownerOf(found.Owner)); owned {
			return nil, nil
		} else if err != nil {
			return nil, unreachable(err)
		}
		if found.overdue() {
			if err := s.store.Delete(ctx, key, item.Revision); err != nil && !errors.Is(err, store.ErrConflict) {
				return nil, unreachable(err)
			}
			continue
		}
		found.Owner = own.Owner
		revision, err = s.store.Update(ctx, key, found.json(), item.Revision, found.ttl())
		if err == nil {
			return &claim{record: found, key: key, revision: revision, adopted: true}, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, unreachable(err)
		}
	}
	return nil, nil
}

// withdraw deletes the record of a call that has ended, unless another call owns it now.
func (s *replicas) withdraw(ctx context.Context, c *claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	for revision, n := c.revision, 0; n < maxChanges; n++ {
		err := s.store.Delete(ctx, c.key, revision)
		if !errors.Is(err, store.ErrConflict) {
			return // deleted, or left to the next equal call or its expiry
		}
		item, err := s.store.Get(ctx, c.key)
		if err != nil {
			return
		}
		if found, err := readRecord(item); err != nil || found.Owner != c.Owner {
			return
		}
		revision = item.Revision
	}
}

// errOverdue means that a record of an earlier call has expired.
var errOverdue = errors.New("channel: the request has expired")

// approveShared is Approve for a channel with a store.
func (c *Channel) approveShared(ctx context.Context, r *approval.Request, frame []byte) (approval.Answer, error) {
	s := c.replicas
	own := &record{ID: r.ID, Frame: frame, Deadline: r.Deadline, Owner: rand.Text()}
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
	overdue := time.NewTimer(time.Until(own.Deadline))
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
			d, err := s.take(ctx, own, change.item)
			if err != nil {
				return a, orCause(ctx, err)
			}
			if d == nil {
				continue
			}
			keep = true // it is deleted
			if d.Failed {
				return a, failed(d.Reason)
			}
			return approval.Answer{Approved: d.Approved, Reason: d.Reason, By: d.By}, nil
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
			return a, approval.Errorf(approval.NoApprover, "Approval channel closed")
		case <-ctx.Done():
			return a, context.Cause(ctx)
		}
	}
}

func failed(reason string) error {
	return approval.Errorf(approval.Failed, "the approver failed: %s", reason)
}

// take returns the decision in a change of a record, and deletes the record. It returns nil if
// there is none yet.
func (s *replicas) take(ctx context.Context, own *claim, item store.Item) (*decision, error) {
	if item.Revision < own.revision {
		return nil, nil
	}
	lost := approval.Errorf(approval.Lost, "another call has the request")
	if item.Deleted {
		return nil, lost
	}
	found, err := readRecord(item)
	if err != nil || found.Owner != own.Owner {
		return nil, lost
	}
	if own.revision = item.Revision; found.Decision == nil {
		return nil, nil
	}
	switch err := s.store.Delete(ctx, own.key, item.Revision); {
	case errors.Is(err, store.ErrConflict):
		return nil, lost
	case err != nil:
		return nil, unreachable(err)
	}
	return found.Decision, nil
}

// A change is an item of a Watch, or the error that ended it.
type change struct {
	item store.Item
	err  error
}

// watch watches the records with a prefix until end is called.
func (s *replicas) watch(ctx context.Context, prefix string) (changes <-chan change, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	yielded := make(chan change)
	var watching sync.WaitGroup
	watching.Go(func() {
		send := func(c change) bool {
			select {
			case yielded <- c:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for item, err := range s.store.Watch(ctx, prefix) {
			if !send(change{item, err}) {
				return
			}
		}
	})
	return yielded, func() {
		cancel()
		watching.Wait()
	}
}

// errDecided means that a request has been decided or withdrawn.
var errDecided = errors.New("the request is not pending")

// decide writes a decision into the record of a request. Only the first decision counts.
func (s *replicas) decide(ctx context.Context, o *pendingRequest, d *decision) error {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	for range maxChanges {
		item, err := s.store.Get(ctx, o.key)
		if errors.Is(err, store.ErrNotFound) {
			return errDecided
		}
		if err != nil {
			return err
		}
		found, err := readRecord(item)
		if err != nil {
			return err
		}
		if found.ID != o.id || found.Decision != nil || found.overdue() {
			return errDecided
		}
		found.Decision = d
		_, err = s.store.Update(ctx, o.key, found.json(), item.Revision, found.ttl())
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return errDecided
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
	shown := make(map[string]*pendingRequest) // by key
	defer func() {
		for _, o := range shown {
			c.withdraw(o)
		}
	}()
	for item, err := range s.store.Watch(ctx, s.requests()) {
		if err != nil {
			return err
		}
		pause.Reset()
		c.showChange(conn, shown, item)
	}
	return nil
}

// showChange shows a change of a record to an approver.
func (c *Channel) showChange(conn *connection, shown map[string]*pendingRequest, item store.Item) {
	found := new(record)
	if !item.Deleted {
		var err error
		if found, err = readRecord(item); err != nil {
			c.malformed.Log(slog.LevelWarn, "malformed record", "error", err)
		}
	}
	open := found != nil && found.ID != "" && found.Decision == nil && !found.overdue()
	o := shown[item.Key]
	if o != nil && (!open || o.id != found.ID) {
		c.withdraw(o)
		delete(shown, item.Key)
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
	if c.conn != conn {
		return
	}
	o, err := c.pending.add(found.ID, found.Frame)
	if err != nil {
		c.malformed.Log(slog.LevelWarn, "two records have the same request", "error", err)
		return
	}
	o.key = item.Key
	shown[item.Key] = o
	conn.show(o)
}

// answerShared writes the answer of an approver to the store.
func (c *Channel) answerShared(ctx context.Context, conn *connection, o *pendingRequest, r reply) {
	err := c.replicas.decide(ctx, o, &decision{Approved: r.approved && !r.failed, Reason: r.reason, By: conn.approver, Failed: r.failed})
	if err == nil {
		return
	}
	reason := err.Error()
	if !errors.Is(err, errDecided) {
		c.opts.Logger.Error("an answer could not be stored", "approver", conn.approver, "error", err)
		reason = "the store cannot be reached: answer again"
	}
	c.mu.Lock()
	conn.notify(notificationFrame(methodRefused, o.id, reason))
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
	if c.conn == conn && c.pending.byID[o.id] == nil {
		o.open = true
		c.pending.byID[o.id] = o
		conn.show(o)
	}
}
